/* train/step.c - issuing optimizer steps and taking over their results. */
#include "config.h"

#include "train/step.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "train/autopsy.h"
#include "train/evaluation.h"
#include "train/rollout.h"
#include "train/model/optimizer.h"
#include "train/model/optimizer_table.h"
#include "train/model/parallel.h"
#include "train/schedule.h"

/* Return the learning rate after this many updates.  Only rank 0 has the evaluations that
 * reduce_lr_on_plateau depends on. */
static double rate_after(const struct run *run, int64_t updates)
{
    if (run->plan->schedule == SCHEDULE_REDUCE_ON_PLATEAU)
        return parallel_rank(run->options->group) == 0 ? evaluation_rate(run)
                                                       : run->ordered_rate;
    return run->plan->learning_rate *
           schedule_factor(run->plan, updates, run->steps.total);
}

double step_next_rate(const struct run *run)
{
    return rate_after(run, run->progress.updates);
}

bool step_can_overlap(const struct run *run)
{
    const char *off = getenv("TRAINSPOOL_NO_PIPELINE");

    return run->be->ops->fence && (!off || !*off || strcmp(off, "0") == 0);
}

/* Return the inputs that the device requires for a step.  Those before it that have not
 * ended are taken to be applied. */
static struct step_scalars start_numbers(struct run *run, double weight)
{
    int64_t updates = run->progress.updates + (int64_t)run->issued_count;
    struct scaler scaler = run->progress.scaler;

    for (size_t i = 0; i < run->issued_count; i++)
        scaler_record(&scaler, true);
    return (struct step_scalars) {
        .learning_rate = rate_after(run, updates),
        .max_grad_norm = run->plan->precision.max_grad_norm,
        .step = updates + 1,
        .average_share = optimizer_of(run->plan)->averages
                             ? schedule_average_share(&run->average, run->plan, updates,
                                                      run->steps.total)
                             : 0,
        .grad_scale = (float)(scaler.scale / weight),
        .loss_scale = (float)scaler.scale,
        .scaler = scaler,
    };
}

/* Take over the results of a step.  False, with an error, if the run has diverged. */
static bool finish_numbers(struct run *run, const struct step_scalars *numbers,
                           struct error *err)
{
    struct progress *progress = &run->progress;

    run->grad_norm = numbers->norm;
    run->learning_rate = numbers->learning_rate;
    progress->scaler = numbers->scaler;
    if (numbers->finite) {
        progress->updates++;
        return true;
    }
    if (progress->scaler.skipped_in_row == 1)
        run->first_bad = progress->step + 1;
    log_line(run->options->log, LOG_WARN,
             "step %" PRId64 ": skipped, gradients are not finite; loss scale %g",
             progress->step + 1, progress->scaler.scale);
    if (scaler_diagnose(&progress->scaler, err))
        return true;
    autopsy_explain(run, err);
    return false;
}

/* Make a micro-batch of a step, with what the model needs besides it. */
static const struct batch *next_batch(struct run *run, const struct run_step *step,
                                      size_t index, struct error *err)
{
    const struct run_step_batches *place = &step->place;
    size_t size = (size_t)run->plan->per_device_train_batch_size;

    if (run->rollout)
        return rollout_batch(run, step, index);
    if (!dataset_batch(run->train, (uint64_t)place->epoch, place->first + index, size,
                       &run->batch)) {
        error_set(err, ERROR_DATA, "the dataset ended inside an epoch");
        return NULL;
    }
    if (run->teaching && !distillation_batch(run->teaching, run->model, &run->batch, err))
        return NULL;
    return &run->batch;
}

/* A stop while media are encoded abandons the step, as it does before a micro-batch. */
static bool abandon(struct run *run, struct error *err)
{
    if (!run->media.encoder || err->code != ERROR_STOPPED)
        return false;
    error_clear(err);
    run->abandoned = true;
    return true;
}

/* Run forward and backward over this rank's micro-batches, then the update. */
static bool issue_window(struct run *run, struct run_step *step, struct error *err)
{
    const struct run_step_batches *place = &step->place;
    const struct backend_group *group = run->options->group;
    size_t ranks = parallel_ranks(group);
    const struct batch *batch;
    struct step_scalars numbers = start_numbers(run, place->weight);

    model_begin(run->model, &numbers);
    model_expect_batches(run->model, parallel_share_count(group, place->batches),
                         size_divide_up(place->batches, ranks));
    for (size_t i = parallel_rank(group); i < place->batches; i += ranks) {
        uint64_t draw = (uint64_t)step->index * run_window_size(run) + i;

        if (!heartbeat_tick(run->options->heartbeat) && ranks == 1) {
            run->abandoned = true;
            return true;
        }
        batch = next_batch(run, step, i, err);
        if (!batch || !model_train(run->model, batch, draw, err) ||
            !run_media_backward(run, batch, err))
            return abandon(run, err);
        step->tokens += (double)batch->seen;
    }
    if (!optimizer_step(run->model, run->plan, err))
        return false;
    model_post(run->model);
    return true;
}

/* Take over the results of a window. */
static bool finish_window(struct run *run, const struct run_step *step, struct error *err)
{
    struct progress *progress = &run->progress;
    double weight = step->place.weight;
    struct step_scalars numbers;
    /* losses, tokens, both parts of the losses, rewards */
    double sums[4 + REWARDS] = { 0, step->tokens };
    struct model_losses parts;
    struct rewards rewards;

    if (!model_end(run->model, &numbers, &sums[0], err))
        return false;
    if (!numbers.finite && run->issued_count > 0) {
        run->issued_count = 0;
        if (!model_discard(run->model, err))
            return false;
    }
    parts = model_losses(run->model);
    sums[2] = parts.data;
    sums[3] = parts.teacher;
    rewards = model_rewards(run->model);
    memcpy(&sums[4], rewards.values, sizeof(rewards.values));
    if (!parallel_sum(run->options->group, sums, TS_COUNT(sums), err))
        return false;
    progress->window_loss += sums[0] / weight;
    progress->window_ce += sums[2] / weight;
    progress->window_kd += sums[3] / weight;
    memcpy(rewards.values, &sums[4], sizeof(rewards.values));
    if (run->rollout)
        rewards = rollout_metrics(run->rollout, &rewards);
    rewards_add(&progress->window_rewards, &rewards, run->rollout ? 1 : 1 / weight);
    progress->tokens += (uint64_t)sums[1];
    if (!numbers.finite)
        autopsy_consider(run, sums[0] / weight);
    return finish_numbers(run, &numbers, err);
}

/* A stop abandons the step, as it does before a micro-batch. */
static bool prepare_answers(struct run *run, struct run_step *step, struct error *err)
{
    struct error why = { 0 };

    if (rollout_prepare(run, step, &why))
        return true;
    run->abandoned = why.code == ERROR_STOPPED;
    if (!run->abandoned)
        error_set(err, why.code, "%s", why.text);
    return false;
}

bool step_begin(struct run *run, struct error *err)
{
    struct run_step *step = &run->issued[run->issued_count];

    *step = (struct run_step) {
        .index = run->progress.step + (int64_t)run->issued_count,
        .started = clock_seconds(),
    };
    step->place = run_step_batches(run, step->index);
    run->abandoned = false;
    if (!parallel_send_step(run->options->group, step_next_rate(run), err))
        return false;
    if (run->rollout && !prepare_answers(run, step, err))
        return run->abandoned;
    if (step->place.weight == 0)
        log_line(run->options->log, LOG_WARN,
                 "step %" PRId64 ": its samples have no trained token (no answer fits "
                 "into cutoff_len?)",
                 step->index + 1);
    else if (!issue_window(run, step, err))
        return false;
    run->issued_count += !run->abandoned;
    return true;
}

bool step_end(struct run *run, struct error *err)
{
    const struct run_step step = run->issued[0];
    struct progress *progress = &run->progress;
    uint64_t tokens = progress->tokens;
    double now;

    run->issued_count--;
    memmove(run->issued, run->issued + 1, run->issued_count * sizeof(*run->issued));
    if (!parallel_send_order(run->options->group, PARALLEL_END_STEP, err))
        return false;
    if (step.place.weight > 0 && !finish_window(run, &step, err))
        return false;
    progress->step++;
    progress->window_steps += step.place.weight > 0;
    progress->epoch = (double)progress->step / (double)run->steps.per_epoch;
    /* a step that was issued early is timed from the end of the previous one */
    now = clock_seconds();
    run->seconds = now - (step.started > run->ended_at ? step.started : run->ended_at);
    run->ended_at = now;
    run->rate = run->seconds > 0 ? (double)(progress->tokens - tokens) / run->seconds : 0;
    return true;
}

bool step_run(struct run *run, struct error *err)
{
    return step_begin(run, err) && (run->abandoned || step_end(run, err));
}
