/* train/trainer.c - the training loop. */
#include "config.h"

#include "train/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/size.h"
#include "train/autopsy.h"
#include "train/criterion.h"
#include "train/evaluation.h"
#include "train/follower.h"
#include "train/model/optimizer.h"
#include "train/model/parallel.h"
#include "train/preflight.h"
#include "train/run.h"
#include "train/schedule.h"

#define SAVE_AGAIN_SECONDS 5 /* after a failed save: the disk may have been full */
/* to free disk space before a trained model is lost */
#define FINISH_PATIENCE_SECONDS 600

/* Return the memory in use on the device; on a CPU, the peak of this process. */
static uint64_t memory_in_use(const struct run *run)
{
    struct rusage usage;

    if (run->be->ops->kind != DEVICE_CPU)
        return model_memory(run->model)->total +
               (run->teaching ? distillation_bytes(run->teaching) : 0);
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss << 10 : 0;
}

/* Return the learning rate of the next step. */
static double next_rate(const struct run *run)
{
    return run->plan->learning_rate *
           schedule_factor(run->plan, run->progress.updates, run->steps.total);
}

/* Return the inputs that the device requires for a step. */
static struct step_scalars start_numbers(const struct run *run, double weight)
{
    const struct progress *progress = &run->progress;

    return (struct step_scalars) {
        .learning_rate = next_rate(run),
        .max_grad_norm = run->plan->precision.max_grad_norm,
        .step = progress->updates + 1,
        .grad_scale = (float)(progress->scaler.scale / weight),
        .scaler = progress->scaler,
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

/* Run forward and backward over this rank's micro-batches of one optimizer step, then
 * the step itself.  This waits for the device once.  A stop abandons the step before the
 * next micro-batch: no weight has changed yet, and a resumed run repeats the step.
 * Several ranks finish it, because they wait for each other's gradients. */
static bool run_window(struct run *run, const struct run_step_batches *place,
                       struct error *err)
{
    size_t size = (size_t)run->plan->per_device_train_batch_size;
    size_t ranks = parallel_ranks(run->options->group);
    struct step_scalars numbers = start_numbers(run, place->weight);
    /* losses, tokens, both parts of the losses, rewards */
    double sums[4 + REWARDS] = { 0 };
    struct model_losses parts;
    struct rewards rewards;

    model_begin(run->model, &numbers);
    model_expect_batches(run->model,
                         parallel_share_count(run->options->group, place->batches),
                         size_divide_up(place->batches, ranks));
    for (size_t i = parallel_rank(run->options->group); i < place->batches; i += ranks) {
        uint64_t draw = (uint64_t)run->progress.step * run_window_size(run) + i;

        if (!heartbeat_tick(run->options->heartbeat) && ranks == 1) {
            run->abandoned = true;
            return true;
        }
        if (!dataset_batch(run->train, (uint64_t)place->epoch, place->first + i, size,
                           &run->batch))
            return error_set(err, ERROR_DATA, "the dataset ended inside an epoch");
        if (run->teaching &&
            !distillation_batch(run->teaching, run->model, &run->batch, err))
            return false;
        if (!model_train(run->model, &run->batch, draw, err))
            return false;
        sums[1] += (double)run->batch.seen;
    }
    optimizer_step(run->model, run->plan);
    if (!model_end(run->model, &numbers, &sums[0], err))
        return false;
    parts = model_losses(run->model);
    sums[2] = parts.data;
    sums[3] = parts.teacher;
    rewards = model_rewards(run->model);
    memcpy(&sums[4], rewards.values, sizeof(rewards.values));
    if (!parallel_sum(run->options->group, sums, TS_COUNT(sums), err))
        return false;
    run->progress.window_loss += sums[0] / place->weight;
    run->progress.window_ce += sums[2] / place->weight;
    run->progress.window_kd += sums[3] / place->weight;
    memcpy(rewards.values, &sums[4], sizeof(rewards.values));
    rewards_add(&run->progress.window_rewards, &rewards, 1 / place->weight);
    run->progress.tokens += (uint64_t)sums[1];
    if (!numbers.finite)
        autopsy_consider(run, sums[0] / place->weight);
    return finish_numbers(run, &numbers, err);
}

static bool step(struct run *run, struct error *err)
{
    struct progress *progress = &run->progress;
    const struct run_step_batches place = run_step_batches(run, progress->step);
    double started = clock_seconds();
    uint64_t tokens = progress->tokens;

    run->abandoned = false;
    if (place.weight == 0)
        log_line(run->options->log, LOG_WARN,
                 "step %" PRId64 ": its samples have no trained token (no answer fits "
                 "into cutoff_len?)",
                 progress->step + 1);
    else if (!run_window(run, &place, err))
        return false;
    if (run->abandoned)
        return true;
    progress->step++;
    progress->window_steps += place.weight > 0;
    progress->epoch = (double)progress->step / (double)run->steps.per_epoch;
    run->seconds = clock_seconds() - started;
    run->rate = run->seconds > 0 ? (double)(progress->tokens - tokens) / run->seconds : 0;
    return true;
}

static double tokens_per_second(const struct run *run)
{
    double seconds = clock_seconds() - run->logged_at;

    return seconds > 0 ? (double)(run->progress.tokens - run->logged_tokens) / seconds
                       : 0;
}

/* Append the parts of a distillation loss and the rewards of preferences. */
static void add_parts(const struct metric *metric, struct text *line)
{
    char number[2][32];

    if (metric->distilled) {
        run_number_text(metric->ce_loss, number[0]);
        run_number_text(metric->kd_loss, number[1]);
        text_addf(line, "'ce_loss': %s, 'kd_loss': %s, ", number[0], number[1]);
    }
    if (metric->prefers)
        run_rewards_text(&metric->rewards, "", line);
}

static void log_step(struct run *run)
{
    struct progress *progress = &run->progress;
    struct metric metric = {
        .step = progress->step,
        .epoch = progress->epoch,
        .loss = progress->window_loss / (double)progress->window_steps,
        .grad_norm = run->grad_norm,
        .learning_rate = run->learning_rate,
        .loss_scale = progress->scaler.scale,
        .skipped = progress->scaler.skipped,
        .tokens = progress->tokens,
        .tokens_per_second = tokens_per_second(run),
        .memory = memory_in_use(run),
        .distilled = run->plan->stage == STAGE_DISTILL,
        .ce_loss = progress->window_ce / (double)progress->window_steps,
        .kd_loss = progress->window_kd / (double)progress->window_steps,
        .prefers = run->plan->stage == STAGE_DPO,
    };
    char number[3][32];
    struct text line;

    rewards_add(&metric.rewards, &progress->window_rewards,
                1 / (double)progress->window_steps);
    run_number_text(metric.loss, number[0]);
    run_number_text(metric.grad_norm, number[1]);
    run_number_text(metric.learning_rate, number[2]);
    text_init(&line, 0);
    text_addf(&line, "{'loss': %s, ", number[0]);
    add_parts(&metric, &line);
    text_addf(&line, "'grad_norm': %s, 'learning_rate': %s, 'epoch': %.2f}", number[1],
              number[2], metric.epoch);
    run_log_line(run, line.data);
    text_clear(&line);
    progress_history_add(&run->history,
                         &(struct logged) { .step = metric.step,
                                            .epoch = metric.epoch,
                                            .loss = metric.loss,
                                            .grad_norm = metric.grad_norm,
                                            .learning_rate = metric.learning_rate,
                                            .distilled = metric.distilled,
                                            .ce_loss = metric.ce_loss,
                                            .kd_loss = metric.kd_loss,
                                            .prefers = metric.prefers,
                                            .rewards = metric.rewards });
    progress->window_loss = progress->window_ce = progress->window_kd = 0;
    progress->window_rewards = (struct rewards) { 0 };
    progress->window_steps = 0;
    run->logged_at = clock_seconds();
    run->logged_tokens = progress->tokens;
    metrics_step(run->metrics, &metric);
}

/* Return whether an event that happens every `steps`, or at the end of an epoch, is due
 * after this step. */
static bool is_due(const struct run *run, enum when when, double steps)
{
    int64_t step = run->progress.step;

    if (when == WHEN_EPOCH)
        return step % run->steps.per_epoch == 0 || step == run->steps.total;
    return when == WHEN_STEPS && step % trainer_interval(steps, run->steps.total) == 0;
}

static bool save(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    char *best = NULL;
    bool ok;

    run->progress.next_rate = next_rate(run);
    run_record_attention(run);
    if (!checkpoint_save(run->model, plan, &run->progress, &run->history, err))
        return false;
    log_line(run->options->log, LOG_INFO, "checkpoint: step %" PRId64 " saved in %s",
             run->progress.step, plan->output_dir);
    if (plan->load_best_model_at_end && run->progress.best_step > 0)
        best = checkpoint_name(plan->output_dir, run->progress.best_step);
    ok = checkpoint_prune(plan->output_dir, plan->job_digest, plan->save_total_limit,
                          best, err);
    free(best);
    return ok;
}

/* A failed save (full disk) does not end a run: the last good checkpoint remains, the
 * failure is logged, and the save is tried again later. */
static void save_or_warn(struct run *run)
{
    struct error err = { 0 };

    if (save(run, &err)) {
        run->save_failed_at = 0;
        return;
    }
    log_line(run->options->log, LOG_ERROR,
             "checkpoint: cannot save step %" PRId64 ": %s; keeping the previous one",
             run->progress.step, err.text);
    run->save_failed_at = clock_seconds();
}

static bool save_due(const struct run *run)
{
    const struct plan *plan = run->plan;

    if (run->save_failed_at > 0 &&
        clock_seconds() - run->save_failed_at > SAVE_AGAIN_SECONDS)
        return true;
    if (plan->load_best_model_at_end && run->progress.best_step == run->progress.step)
        return true;
    return is_due(run, plan->save_strategy, plan->save_steps);
}

static bool eval_due(const struct run *run)
{
    const struct plan *plan = run->plan;
    bool last = run->progress.step == run->steps.total;
    double passed = plan->eval_strategy == WHEN_STEPS ? (double)run->progress.step
                                                      : run->progress.epoch;

    return run->eval && plan->eval_strategy != WHEN_NO && passed >= plan->eval_delay &&
           (last || is_due(run, plan->eval_strategy, plan->eval_steps));
}

static bool eval_due_at_start(const struct run *run)
{
    const struct plan *plan = run->plan;

    return run->eval && (plan->eval_on_start == CHOICE_YES ||
                         (plan->eval_on_start == CHOICE_AUTO && plan->eval_delay == 0));
}

static void report_progress(const struct run *run, double loss)
{
    if (run->options->progress)
        run->options->progress(run->options->context, &(struct trainer_progress) {
                                                          .step = run->progress.step,
                                                          .total = run->steps.total,
                                                          .seconds = run->seconds,
                                                          .loss = loss,
                                                          .grad_norm = run->grad_norm,
                                                          .tokens_per_second = run->rate,
                                                          .epoch = run->progress.epoch });
}

/* Log, evaluate and save after a step, if due. */
static bool after_step(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    bool last = run->progress.step == run->steps.total, evaluates = eval_due(run), saves;

    fault_clear(); /* whatever it was, it has not kept the step from being made */
    report_progress(run, run->progress.window_loss / (double)run->progress.window_steps);
    if (run->progress.window_steps > 0 &&
        (last || (run->progress.step == 1 && plan->logging_first_step) ||
         is_due(run, plan->logging_strategy, plan->logging_steps)))
        log_step(run);
    if (evaluates && !evaluation_run(run, err))
        return false;
    saves = !last && save_due(run);
    if (saves)
        save_or_warn(run);
    if ((evaluates || saves) && run->options->milestone)
        run->options->milestone(run->options->context);
    return true;
}

/* A full disk does not turn a stop into a failure: the previous checkpoint remains. */
static bool stop_with_checkpoint(struct run *run, struct error *err)
{
    const bool *gone = run->options->lost;
    struct error lost = { 0 };

    if ((gone && *gone) || save(run, &lost))
        return error_set(err, ERROR_STOPPED, "stopped at step %" PRId64,
                         run->progress.step);
    if (lost.code != ERROR_SYSTEM && lost.code != ERROR_FAULT)
        return error_set(err, lost.code, "%s", lost.text);
    log_line(run->options->log, LOG_ERROR,
             "checkpoint: cannot save step %" PRId64 ": %s; keeping the previous one",
             run->progress.step, lost.text);
    return error_set(err, ERROR_STOPPED,
                     "stopped at step %" PRId64 ", which is not saved: %s",
                     run->progress.step, lost.text);
}

/* Make the current step the last one. */
static void end_early(struct run *run)
{
    log_line(run->options->log, LOG_INFO,
             "early stopping: step %" PRId64 ", %" PRId64
             " evaluations without improvement since step %" PRId64,
             run->progress.step, run->plan->early_stopping_steps,
             run->progress.best_step);
    run->steps.total = run->progress.step;
    report_progress(run, progress_history_loss(&run->history));
}

static bool train(struct run *run, struct error *err)
{
    run->logged_at = clock_seconds();
    run->logged_tokens = run->progress.tokens;
    if ((run->progress.step == 0 ? eval_due_at_start(run)
                                 : eval_due(run) && !evaluation_is_done(run)) &&
        !evaluation_run(run, err))
        return false;
    while (run->progress.step < run->steps.total) {
        if (evaluation_stops_early(run)) {
            end_early(run);
            break;
        }
        if (!heartbeat_tick(run->options->heartbeat))
            return stop_with_checkpoint(run, err);
        if (!parallel_send_order(run->options->group, PARALLEL_STEP, err) ||
            !step(run, err) || (!run->abandoned && !after_step(run, err)))
            return false;
    }
    return true;
}

/* The best checkpoint may be missing if the disk was full. */
static bool load_best(struct run *run, struct error *err)
{
    const struct progress *progress = &run->progress;
    char *best;
    bool ok = true;

    if (progress->best_step == 0 || progress->best_step == progress->step)
        return true;
    best = checkpoint_name(run->plan->output_dir, progress->best_step);
    if (!file_is_dir(best)) {
        log_line(run->options->log, LOG_WARN,
                 "best model: step %" PRId64 " was not saved; using the last one",
                 progress->best_step);
    } else {
        ok = parallel_send_load(run->options->group, progress->best_step, err) &&
             checkpoint_load_weights(run->model, best, err);
        log_line(run->options->log, LOG_INFO, "best model: step %" PRId64 ", %s %.4g",
                 progress->best_step, criterion_name(run->plan), progress->best_metric);
    }
    free(best);
    return ok;
}

/* A run that is too short for the scaler to give up fails too if all steps were
 * skipped. */
static bool check_updates(const struct run *run, struct error *err)
{
    const struct progress *progress = &run->progress;

    if (progress->updates > 0 || progress->scaler.skipped == 0)
        return true;
    error_set(err, ERROR_DIVERGED,
              "all %" PRId64
              " steps were skipped: the gradients were inf or NaN in each; "
              "check the weights of the model and the data",
              progress->step);
    autopsy_explain(run, err);
    return false;
}

/* Write the model: the best one, if the job asks for it. */
static bool write_result(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;

    if (plan->load_best_model_at_end && !load_best(run, err))
        return false;
    if (!checkpoint_publish(run->model, plan, err))
        return false;
    return !plan->export_dir || checkpoint_export(run->model, plan, err);
}

/* The trained weights exist only in memory.  If they cannot be written (full disk), allow
 * time to free space before giving up. */
static bool write_result_patiently(struct run *run, struct error *err)
{
    double until = clock_seconds() + FINISH_PATIENCE_SECONDS;
    bool ok;

    while (!(ok = write_result(run, err)) &&
           (err->code == ERROR_SYSTEM || err->code == ERROR_FAULT) &&
           clock_seconds() < until && heartbeat_tick(run->options->heartbeat)) {
        log_line(run->options->log, LOG_ERROR,
                 "end: cannot save the model: %s; retrying every %d s for %d minutes",
                 err->text, SAVE_AGAIN_SECONDS, FINISH_PATIENCE_SECONDS / 60);
        heartbeat_sleep(run->options->heartbeat, SAVE_AGAIN_SECONDS);
        error_clear(err);
    }
    return ok;
}

/*
 * Write the model, then the last checkpoint, which takes several times the space and may
 * fail without failing the run.  If the run is killed between the two, it repeats the
 * steps since the previous checkpoint and writes the same bits.  Loading the best model
 * replaces the last weights, so the checkpoint comes first then.
 */
static bool finish(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    bool saves = plan->save_strategy != WHEN_NO;

    if (saves && plan->load_best_model_at_end)
        save_or_warn(run);
    if (!write_result_patiently(run, err))
        return false;
    if (saves && !plan->load_best_model_at_end)
        save_or_warn(run);
    log_line(run->options->log, LOG_INFO, "done: %" PRId64 " steps, model in %s",
             run->progress.step, plan->output_dir);
    return true;
}

/* Run rank 0 from the first step to the published model. */
static bool run_rank_0(struct run *run, struct error *err)
{
    autopsy_forget(run);
    if (preflight_wanted(run) && !preflight_run(run, step, err))
        return false;
    return train(run, err) && check_updates(run, err) && finish(run, err) &&
           parallel_send_order(run->options->group, PARALLEL_END, err);
}

/* The last good checkpoint is one from which a further step succeeded: an update may have
 * ruined the weights before the first step that shows it. */
static void note_divergence(const struct run *run)
{
    const struct progress *progress = &run->progress;
    int64_t first = run->first_bad;

    if (!first) /* the run resumed amid skipped steps */
        first = progress->step + 2 - progress->scaler.skipped_in_row;
    if (run->options->bad_from)
        *run->options->bad_from = first > 2 ? first - 1 : 1;
}

bool trainer_run(const struct plan *plan, const struct trainer_options *options,
                 struct error *err)
{
    struct run run = { .plan = plan, .options = options };
    struct error why = { 0 };
    bool ok;

    fault_clear();
    ok = run_open(&run, &why) && parallel_ready(options->group, &why) &&
         (parallel_rank(options->group) == 0 ? run_rank_0(&run, &why)
                                             : follower_run(&run, step, &why));
    if (!ok)
        fault_doubt(&why);
    if (!ok && why.code == ERROR_DIVERGED)
        note_divergence(&run);
    if (!ok) {
        parallel_report(options->group, &why);
        if (why.code == ERROR_SYSTEM || why.code == ERROR_FAULT ||
            why.code == ERROR_DEVICE || why.code == ERROR_CARD ||
            why.code == ERROR_CONTEXT || why.code == ERROR_MEMORY)
            parallel_explain(options->group, &why);
        if (err && err->code == ERROR_NONE)
            *err = why;
    }
    run_close(&run);
    return ok;
}
