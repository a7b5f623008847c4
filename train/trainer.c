/* train/trainer.c - the training loop. */
#include "config.h"

#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "train/autopsy.h"
#include "train/criterion.h"
#include "train/evaluation.h"
#include "train/follower.h"
#include "train/methods.h"
#include "train/model/parallel.h"
#include "train/preflight.h"
#include "train/rollout.h"
#include "train/run.h"
#include "train/step.h"

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
        .prefers = run->plan->stage >= STAGE_DPO,
    };
    char number[3][32];
    struct text line;

    rewards_add(&metric.rewards, &progress->window_rewards,
                1 / (double)progress->window_steps);
    rewards_divide(&metric.rewards);
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
 * after `step` steps. */
static bool is_due(const struct run *run, int64_t step, enum when when, double steps)
{
    if (when == WHEN_EPOCH)
        return step % run->steps.per_epoch == 0 || step == run->steps.total;
    return when == WHEN_STEPS && step % trainer_interval(steps, run->steps.total) == 0;
}

/* Return whether a checkpoint of each new best metric is saved and kept. */
static bool saves_best(const struct plan *plan)
{
    return plan->load_best_model_at_end || plan->save_strategy == WHEN_BEST;
}

/* Another run may have got the files of the job since the last beat. */
static bool owns_files(const struct run *run, struct error *err)
{
    if (run->options->heartbeat)
        run->options->heartbeat->due = 0;
    heartbeat_tick(run->options->heartbeat);
    return !run->options->lost || !*run->options->lost ||
           error_set(err, ERROR_STOPPED, "stopped at step %" PRId64, run->progress.step);
}

static struct checkpoint_saving saving_of(const struct run *run)
{
    return (struct checkpoint_saving) { .model = run->model,
                                        .plan = run->plan,
                                        .group = run->options->group };
}

static void warn_of_absent(struct run *run, size_t count)
{
    if (count > 0 && !run->told_absent)
        log_line(run->options->log, LOG_WARN,
                 "checkpoint: %zu of %zu ranks do not see %s, and the others write their "
                 "parts: a run of ranks resumes only from a folder that all see",
                 count, parallel_ranks(run->options->group), run->plan->output_dir);
    run->told_absent = run->told_absent || count > 0;
}

/* *lost: the ranks are not together any more, or the files are not those of the run, which
 * must end. */
static bool save(struct run *run, bool *lost, struct error *err)
{
    struct checkpoint_saving saving = saving_of(run);
    const struct plan *plan = run->plan;
    char *best = NULL;
    bool ok;

    *lost = !owns_files(run, err);
    if (*lost)
        return false;
    run->progress.next_rate = step_next_rate(run);
    free(run->answers);
    run->progress.answers = run->answers = rollout_text(run->rollout, run->progress.step);
    *lost = !methods_record(run, err);
    if (*lost)
        return false;
    ok = checkpoint_save(&saving, &run->progress, &run->history, err);
    *lost = saving.lost;
    warn_of_absent(run, saving.absent);
    if (!ok)
        return false;
    log_line(run->options->log, LOG_INFO, "checkpoint: step %" PRId64 " saved in %s",
             run->progress.step, plan->output_dir);
    if (saves_best(plan) && run->progress.best_step > 0)
        best = checkpoint_name(plan->output_dir, run->progress.best_step);
    ok = checkpoint_prune(plan->output_dir, plan->job_digest, plan->save_total_limit,
                          best, err);
    free(best);
    return ok;
}

/* A failed save (full disk) does not end a run: the last good checkpoint remains, the
 * failure is logged, and the save is tried again later. */
static bool save_or_warn(struct run *run, struct error *err)
{
    struct error why = { 0 };
    bool lost;

    if (save(run, &lost, &why)) {
        run->save_failed_at = 0;
        return true;
    }
    if (lost)
        return error_set(err, why.code, "%s", why.text);
    log_line(run->options->log, LOG_ERROR,
             "checkpoint: cannot save step %" PRId64 ": %s; keeping the previous one",
             run->progress.step, why.text);
    run->save_failed_at = clock_seconds();
    return true;
}

static bool save_due(const struct run *run)
{
    const struct plan *plan = run->plan;

    if (run->save_failed_at > 0 &&
        clock_seconds() - run->save_failed_at > SAVE_AGAIN_SECONDS)
        return true;
    if (saves_best(plan) && run->progress.best_step == run->progress.step)
        return true;
    return is_due(run, run->progress.step, plan->save_strategy, plan->save_steps);
}

static bool eval_due(const struct run *run, int64_t step)
{
    const struct plan *plan = run->plan;
    double epoch = (double)step / (double)run->steps.per_epoch,
           passed = plan->eval_strategy == WHEN_STEPS ? (double)step : epoch;

    return run->eval && plan->eval_strategy != WHEN_NO && passed >= plan->eval_delay &&
           (step == run->steps.total ||
            is_due(run, step, plan->eval_strategy, plan->eval_steps));
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
    int64_t step = run->progress.step;
    bool last = step == run->steps.total, evaluates = eval_due(run, step), saves;

    fault_clear(); /* whatever it was, it has not kept the step from being made */
    report_progress(run, run->progress.window_loss / (double)run->progress.window_steps);
    if (run->progress.window_steps > 0 &&
        (last || (step == 1 && plan->logging_first_step) ||
         is_due(run, step, plan->logging_strategy, plan->logging_steps)))
        log_step(run);
    if (evaluates && !evaluation_run(run, err))
        return false;
    saves = !last && save_due(run);
    if (saves && !save_or_warn(run, err))
        return false;
    if ((evaluates || saves) && run->options->milestone)
        run->options->milestone(run->options->context);
    return true;
}

/* A full disk does not turn a stop into a failure: the previous checkpoint remains. */
static bool stop_with_checkpoint(struct run *run, struct error *err)
{
    const bool *gone = run->options->lost;
    struct error lost = { 0 };
    bool apart;

    if ((gone && *gone) || save(run, &apart, &lost))
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

/*
 * Return whether the step after the one in progress may be issued before that one has
 * ended.  Everything that needs the state or the results of a step before the next one
 * begins is listed here:
 *
 * - A checkpoint or an evaluation after it, planned or tried again after a failure, reads
 *   the weights.  Early stopping and the best model depend on evaluations alone.
 * - It may be skipped.  The device then skips the next one too, and step_end repeats that
 *   after the search for the first non-finite value.  So the bits do not depend on this,
 *   but where skipped steps are likely, each would cost the time of two: in the first step
 *   of a run, and after a skipped one.
 * - A step without a trained token is logged when it begins, and is not on the device.
 * - Answers are sampled (stage grpo) with the weights of the step before.
 *
 * A stop ends the steps in progress first.
 */
static bool may_overlap(const struct run *run)
{
    const struct plan *plan = run->plan;
    const struct progress *progress = &run->progress;
    int64_t step = progress->step + 1;

    return run->issued_count == 1 && step < run->steps.total && !run->rollout &&
           step_can_overlap(run) && run->save_failed_at == 0 &&
           !is_due(run, step, plan->save_strategy, plan->save_steps) &&
           !eval_due(run, step) && progress->updates > 0 &&
           progress->scaler.skipped_in_row == 0 && run->issued[0].place.weight > 0 &&
           run_step_batches(run, step).weight > 0;
}

/* Issue the next step, and end the earliest one in progress.  A stop may have abandoned
 * the next one, which is no failure. */
static bool train_step(struct run *run, struct error *err)
{
    struct error later = { 0 };

    if (run->issued_count == 0 && !step_begin(run, err))
        return false;
    if (run->abandoned)
        return true;
    if (may_overlap(run) && heartbeat_tick(run->options->heartbeat) &&
        !step_begin(run, &later))
        fault_doubt(&later); /* before after_step clears what may be the reason */
    if (!step_end(run, err) || !after_step(run, err))
        return false;
    return later.code == ERROR_NONE || error_set(err, later.code, "%s", later.text);
}

static bool train(struct run *run, struct error *err)
{
    run->logged_at = clock_seconds();
    run->logged_tokens = run->progress.tokens;
    if ((run->progress.step == 0
             ? eval_due_at_start(run)
             : eval_due(run, run->progress.step) && !evaluation_is_done(run)) &&
        !evaluation_run(run, err))
        return false;
    while (run->progress.step < run->steps.total) {
        if (run->issued_count == 0 && evaluation_stops_early(run)) {
            end_early(run);
            break;
        }
        if (run->issued_count == 0 && !heartbeat_tick(run->options->heartbeat))
            return stop_with_checkpoint(run, err);
        if (!train_step(run, err))
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
             checkpoint_load_weights(run->model, best, run->options->group, err);
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
static bool write_result(struct run *run, bool *lost, struct error *err)
{
    struct checkpoint_saving saving = saving_of(run);
    const struct plan *plan = run->plan;
    bool ok;

    *lost = false;
    if (plan->load_best_model_at_end && !load_best(run, err))
        return false;
    ok = checkpoint_publish(&saving, err);
    *lost = saving.lost;
    return ok && (!plan->export_dir || checkpoint_export(&saving, err));
}

/* The trained weights exist only in memory.  If they cannot be written (full disk), allow
 * time to free space before giving up. */
static bool write_result_patiently(struct run *run, struct error *err)
{
    double until = clock_seconds() + FINISH_PATIENCE_SECONDS;
    bool ok, lost;

    while (!(ok = write_result(run, &lost, err)) && !lost &&
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
    bool saves = plan->save_strategy == WHEN_BEST
                     ? run->progress.best_step == run->progress.step
                     : plan->save_strategy != WHEN_NO;

    if (saves && plan->load_best_model_at_end && !save_or_warn(run, err))
        return false;
    if (!write_result_patiently(run, err))
        return false;
    if (saves && !plan->load_best_model_at_end && !save_or_warn(run, err))
        return false;
    log_line(run->options->log, LOG_INFO, "done: %" PRId64 " steps, model in %s",
             run->progress.step, plan->output_dir);
    return true;
}

/* Run rank 0 from the first step to the published model.  Ranks of a run that stops end
 * as those of one that is done. */
static bool run_rank_0(struct run *run, struct error *err)
{
    bool ok;

    autopsy_forget(run);
    ok = (!preflight_wanted(run) || preflight_run(run, step_run, err)) &&
         train(run, err) && check_updates(run, err) && owns_files(run, err) &&
         finish(run, err);
    if (!ok && err->code == ERROR_STOPPED)
        parallel_send_order(run->options->group, PARALLEL_END, NULL);
    return ok && parallel_send_order(run->options->group, PARALLEL_END, err);
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
                                             : follower_run(&run, &why));
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
