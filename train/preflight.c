/* train/preflight.c - saving the state of a run, trial steps, a report, and restoring
 * the state. */
#include "config.h"

#include "train/preflight.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "train/autopsy.h"
#include "train/model/model_snapshot.h"
#include "train/model/model_watch.h"
#include "train/model/parallel.h"
#include "train/rollout.h"

struct preflight_kept {
    struct model_snapshot *model;
    struct progress progress;
    const struct trainer_options *options;
    struct trainer_options quiet; /* the same without a log */
};

struct seen {
    double first, last,
        loss;    /* of the first and last successful step, and of the latest step */
    double norm; /* the largest */
    int64_t made, skipped, hopeless;
    int64_t step;     /* from 1: the latest with trained tokens */
    size_t gradients; /* trained tensors whose gradients of that step were checked */
    size_t broken;    /* of these, not finite */
    size_t zeros;     /* of these, all 0 */
    char inf[120], zero[120]; /* name of the first of each */
    const char *idle;         /* why sampled answers had no gradients, or NULL */
    double seconds;
};

bool preflight_wanted(const struct run *run)
{
    const struct plan *plan = run->plan;
    bool is_fp16 = plan->precision.compute == FORMAT_FP16;

    return run->progress.step == 0 &&
           (plan->preflight == CHOICE_YES || (plan->preflight == CHOICE_AUTO && is_fp16));
}

/* ---- Saving and restoring the run ---- */

bool preflight_save_state(struct run *run, struct error *err)
{
    struct preflight_kept *kept = memory_alloc(sizeof(*kept));

    *kept = (struct preflight_kept) { .model = model_snapshot_take(
                                          run->model, run->plan->run_dir, err),
                                      .progress = run->progress,
                                      .options = run->options,
                                      .quiet = *run->options };
    if (!kept->model) {
        free(kept);
        return false;
    }
    kept->quiet.log = NULL;
    run->options = &kept->quiet;
    run->trial = true;
    run->kept = kept;
    return true;
}

/* Restore what this rank has. */
static bool restore(struct run *run, struct error *err)
{
    struct preflight_kept *kept = run->kept;
    bool ok = model_snapshot_restore(run->model, kept->model, err);

    rollout_forget(run->rollout);
    run->progress = kept->progress;
    run->options = kept->options;
    run->grad_norm = run->learning_rate = run->seconds = run->rate = 0;
    run->trial = false;
    run->kept = NULL;
    free(kept);
    return ok;
}

bool preflight_restore_state(struct run *run, struct error *err)
{
    if (!restore(run, err))
        return false;
    if (model_ranks(run->model) > 1)
        model_gather_weights(run->model);
    return true;
}

/* ---- Steps ---- */

/* Run one step and record its result. */
static bool try_step(struct run *run, preflight_step *step, struct seen *seen,
                     struct error *err)
{
    struct scaler before = run->progress.scaler;
    double sum = run->progress.window_loss;
    int64_t updates = run->progress.updates, steps = run->progress.window_steps;

    if (!step(run, err))
        return false;
    if (run->progress.window_steps == steps) /* its samples have no trained token */
        return true;
    seen->step = run->progress.step;
    seen->loss = run->progress.window_loss - sum;
    run->progress.window_loss = 0; /* or one NaN would be in all later sums */
    if (run->progress.updates == updates) {
        seen->skipped++;
        seen->hopeless =
            autopsy_is_warranted(&before, seen->loss) ? seen->hopeless + 1 : 0;
        return true;
    }
    seen->first = seen->made++ == 0 ? seen->loss : seen->first;
    seen->last = seen->loss;
    seen->norm = fmax(seen->norm, run->grad_norm);
    seen->hopeless = 0;
    return true;
}

static bool is_over(const struct run *run, const struct seen *seen)
{
    return seen->made == PREFLIGHT_STEPS || seen->hopeless == PREFLIGHT_FAILURES_MAX ||
           run->progress.step == run->steps.total ||
           !heartbeat_tick(run->options->heartbeat);
}

static bool try_steps(struct run *run, preflight_step *step, struct seen *seen,
                      struct error *err)
{
    bool ok = true;

    for (int i = 0; ok && i < PREFLIGHT_STEPS_MAX && !is_over(run, seen); i++)
        ok = try_step(run, step, seen, err);
    return ok;
}

/* Check the gradients of the last step, successful or skipped, tensor by tensor.  With
 * several ranks each has only those of its shard, so nothing is checked. */
static bool check_gradients(struct run *run, struct seen *seen, struct error *err)
{
    size_t count = model_trained_parameters(run->model);
    struct watch_result *looks;
    bool ok;

    if (model_ranks(run->model) > 1)
        return true;
    looks = memory_resize(NULL, count, sizeof(*looks));
    ok = model_watch_gradients(run->model, looks, &seen->broken, err);
    if (ok && seen->broken > 0)
        snprintf(seen->inf, sizeof(seen->inf), "%s", looks[0].tensor);
    for (size_t i = 0; ok && i < count; i++) {
        if (looks[i].nans + looks[i].infs > 0 || looks[i].largest > 0)
            continue;
        if (seen->zeros++ == 0)
            snprintf(seen->zero, sizeof(seen->zero), "%s", looks[i].tensor);
    }
    seen->gradients = ok ? count : 0;
    seen->idle = rollout_idle(run->rollout);
    free(looks);
    return ok;
}

/* ---- Report ---- */

/* Fail because the run ends before its loss scale is small enough for one step. */
static bool give_up_scale(const struct run *run, const struct seen *seen,
                          struct error *err)
{
    return error_set(
        err, ERROR_DIVERGED,
        "preflight: all %" PRId64
        " steps of the run were skipped: the gradients are not finite, and the loss "
        "scale has only come down to %g; raise max_steps or add data to give it more "
        "steps, or compute in bf16 or fp32, which use no loss scale",
        seen->skipped, run->progress.scaler.scale);
}

/* Fail because the job cannot work.  The state of the trial is still in place, so the
 * autopsy can repeat its last step. */
static bool give_up(struct run *run, const struct seen *seen, struct error *err)
{
    const struct scaler *scaler = &run->progress.scaler;
    bool loss = !isfinite(seen->loss);
    char steps[48] = "the only step was";

    if (seen->hopeless > 1)
        snprintf(steps, sizeof(steps), "%" PRId64 " steps in a row were", seen->hopeless);
    run->options = run->kept->options;
    autopsy_make(run, run->progress.step - 1, seen->loss);
    error_set(
        err, ERROR_DIVERGED,
        "preflight: %s skipped after %" PRId64
        " successful steps: the %s not finite%s; %s",
        steps, seen->made, loss ? "loss is" : "gradients are",
        loss || scaler->scaling != SCALING_DYNAMIC ? ""
                                                   : ", and the loss scale is down to 1",
        seen->made > 0
            ? "a smaller learning_rate or more warmup_steps may help"
            : "check the weights of the model and the data, or compute in bf16 or fp32");
    autopsy_explain(run, err);
    return false;
}

static void gradients_text(const struct run *run, const struct seen *seen, char out[240])
{
    if (seen->gradients == 0 && model_ranks(run->model) > 1)
        snprintf(out, 240,
                 ", gradients not checked per tensor, they are spread over %zu ranks",
                 model_ranks(run->model));
    else if (seen->broken > 0)
        snprintf(out, 240,
                 ", gradients of %zu of %zu tensors not finite in step %" PRId64
                 ", first %s",
                 seen->broken, seen->gradients, seen->step, seen->inf);
    else if (seen->gradients > 0)
        snprintf(out, 240, ", gradients of all %zu tensors finite in step %" PRId64,
                 seen->gradients, seen->step);
}

static void report(struct run *run, const struct seen *seen, double scale)
{
    struct log *log = run->options->log;
    char losses[96] = "", gradients[240] = "";

    if (seen->made > 0)
        snprintf(losses, sizeof(losses),
                 ", loss %.4g to %.4g, largest gradient norm %.4g", seen->first,
                 seen->last, seen->norm);
    gradients_text(run, seen, gradients);
    log_line(log, seen->hopeless > 0 ? LOG_WARN : LOG_INFO,
             "preflight: %" PRId64 " steps done, %" PRId64
             " skipped%s, loss scale %g%s; %.1f s, state restored",
             seen->made, seen->skipped, losses, scale, gradients, seen->seconds);
    if (seen->zeros > 0 && seen->idle)
        log_line(log, LOG_INFO, "preflight: the gradients of step %" PRId64 " are 0: %s",
                 seen->step, seen->idle);
    else if (seen->zeros > 0 && seen->made > 1)
        log_line(
            log, LOG_WARN,
            "preflight: the gradients of %zu of %zu tensors are 0, first %s: too small "
            "for the format, or the backward pass does not reach them",
            seen->zeros, seen->gradients, seen->zero);
    if (seen->made > 1 && seen->last > 3 * seen->first + 1)
        log_line(log, LOG_WARN,
                 "preflight: the loss rises from %.4g to %.4g in %" PRId64
                 " steps: is learning_rate too large?",
                 seen->first, seen->last, seen->made);
}

/* Return whether too many steps in a row, or all steps of the run, were skipped for
 * another reason than a loss scale that is still coming down. */
static bool is_hopeless(const struct run *run, const struct seen *seen)
{
    return seen->hopeless >= PREFLIGHT_FAILURES_MAX ||
           (seen->hopeless > 0 && seen->made == 0 &&
            run->progress.step == run->steps.total);
}

/* Run the trial, between saving and restoring the state. */
static bool run_trial(struct run *run, preflight_step *step, struct seen *seen,
                      struct error *err)
{
    double started = clock_seconds();

    if (!try_steps(run, step, seen, err))
        return false;
    if (is_hopeless(run, seen))
        return give_up(run, seen, err);
    if (seen->made == 0 && seen->skipped > 0 && run->progress.step == run->steps.total)
        return give_up_scale(run, seen, err);
    seen->seconds = clock_seconds() - started;
    return seen->made == 0 || check_gradients(run, seen, err);
}

bool preflight_run(struct run *run, preflight_step *step, struct error *err)
{
    const struct backend_group *group = run->options->group;
    struct seen seen = { 0 };
    struct error lost = { 0 };
    double scale;

    if (!preflight_save_state(run, &lost)) {
        log_line(run->options->log, LOG_WARN, "preflight: skipped: %s", lost.text);
        return true;
    }
    log_line(run->kept->options->log, LOG_INFO,
             "preflight: trying up to %d steps of the run; the state is restored after",
             PREFLIGHT_STEPS);
    if (!parallel_send_order(group, PARALLEL_SAVE_STATE, err) ||
        !run_trial(run, step, &seen, err)) {
        restore(run, &lost);
        return false;
    }
    scale = run->progress.scaler.scale;
    if (!parallel_send_order(group, PARALLEL_RESTORE_STATE, err) ||
        !preflight_restore_state(run, err))
        return false;
    report(run, &seen, scale);
    return true;
}
