/* train/run_resume.c - finding the checkpoint that a run resumes from, and loading it. */
#include "config.h"

#include "train/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "train/methods.h"
#include "train/model/parallel.h"
#include "train/rollout.h"
#include "train/tokenizer/new_tokens.h"

/* Bytes of the file of answers: 4096 of 32768 tokens. */
#define ANSWERS_MAX ((size_t)4 << 30)

static char *last_checkpoint(const struct run *run, const char *digest)
{
    const struct trainer_options *options = run->options;

    return checkpoint_last_before(run->plan->output_dir, digest,
                                  options->before > 0 ? options->before : INT64_MAX,
                                  options->heartbeat);
}

/* Return the checkpoint to resume from, malloc'ed: after an interruption the last one of
 * this job, else the one that the job names.  "true" accepts the last checkpoint of any
 * job text, because adding the key itself changes the digest of the text. */
static char *find_checkpoint(const struct run *run, bool *own)
{
    const char *named = run->plan->resume_from_checkpoint, *dir = run->plan->output_dir;
    bool last = named && strcmp(named, "true") == 0;
    char *name =
        run->options->resume || last ? last_checkpoint(run, run->plan->job_digest) : NULL;

    *own = name != NULL;
    if (heartbeat_stopped(run->options->heartbeat))
        return name;
    if (!name && named && !last && strcmp(named, "false") != 0)
        return memory_strdup(named);
    if (!name && last && (name = last_checkpoint(run, NULL)))
        log_line(run->options->log, LOG_WARN,
                 "resume: %s was saved by another version of the job", name);
    if (!name && (last || run->options->resume) &&
        !heartbeat_stopped(run->options->heartbeat))
        log_line(run->options->log, LOG_WARN,
                 "resume: no checkpoint in %s can be resumed; starting from scratch "
                 "(save_only_model: true omits the optimizer state)",
                 dir);
    return name;
}

/* Continue with the saved loss scale only if this job uses the same kind of scaling: a
 * bf16 run has none, and fp16 without one would lose its small gradients. */
static void restore_scaling(struct run *run)
{
    struct scaler saved = run->progress.scaler, *scaler = &run->progress.scaler;

    scaler_init(scaler, &run->plan->precision);
    if (saved.scaling == scaler->scaling && saved.scaling != SCALING_STATIC) {
        *scaler = saved;
        return;
    }
    scaler->skipped = saved.skipped;
    if (saved.scaling != scaler->scaling)
        log_line(run->options->log, LOG_WARN,
                 "resume: the checkpoint has loss scaling %s, this run uses %s, from %g",
                 scaling_names[saved.scaling], scaling_names[scaler->scaling],
                 scaler->scale);
}

static void ranks_text(const struct progress_ranks *ranks, char out[80])
{
    snprintf(out, 80, "%" PRId64 " ranks, zero_stage %" PRId64 ", reduce_dtype %s",
             ranks->count, ranks->zero_stage,
             ranks->reduce_dtype == REDUCE_BF16 ? "bf16" : "fp32");
}

/* Stages 2 and 3 add gradients alike. */
static bool add_alike(const struct progress_ranks *a, const struct progress_ranks *b)
{
    return a->count == b->count && (a->zero_stage > 1) == (b->zero_stage > 1) &&
           a->reduce_dtype == b->reduce_dtype;
}

/* Name what else the ranks do now, also if the job does not set it. */
static void compare_ranks(const struct run *run)
{
    const struct progress_ranks *saved = &run->progress.ranks,
                                now = progress_ranks_of(run->plan);
    char before[80], after[80];

    if (saved->count == 0 || now.count == 0 || add_alike(saved, &now))
        return;
    ranks_text(saved, before);
    ranks_text(&now, after);
    log_line(run->options->log, LOG_WARN,
             "resume: the checkpoint is of %s, this run has %s: gradients are added or "
             "rounded differently, and the bits may differ from those of an "
             "uninterrupted run",
             before, after);
}

/* Answers that were sampled before the checkpoint and are used after it. */
static bool load_answers(struct run *run, const char *dir, struct error *err)
{
    char *name = path_join(dir, CHECKPOINT_ANSWERS);
    struct text text;
    bool ok = true;

    text_init(&text, 0);
    if (run->rollout && file_exists(name))
        ok = file_read(name, ANSWERS_MAX, &text, NULL, err) &&
             rollout_read(run->rollout, text.data, text.len, name, err);
    if (ok && text.len > 0 && run->rollout->generation < 0)
        log_line(run->options->log, LOG_WARN,
                 "resume: the answers of the checkpoint are to other prompts or of other "
                 "settings of generations and rewards; the next step samples new ones");
    text_clear(&text);
    free(name);
    return ok;
}

bool run_resume(struct run *run, struct error *err)
{
    bool first = parallel_rank(run->options->group) == 0, own = false, ok;
    char *name = NULL;
    int64_t after = -1;

    if (!fault_answered(err))
        return false;
    fault_clear();
    if (first)
        name = find_checkpoint(run, &own);
    /* a checkpoint that cannot be read for now, or is not read to its end, is not missing */
    if (first && !name &&
        (!heartbeat_continue(run->options->heartbeat, "reading the checkpoint", err) ||
         !fault_none(err)))
        return false;
    ok = parallel_share_text(run->options->group, &name, err);
    scaler_init(&run->progress.scaler, &run->plan->precision);
    run->progress.best_metric = NAN;
    ok = ok && (!name || new_tokens_agree(run->tokenizer, name, err));
    if (ok && name) {
        ok = checkpoint_load(run->model, name, &run->progress, &run->history, err);
        if (ok) {
            log_line(run->options->log, LOG_INFO, "resume: from %s, step %" PRId64, name,
                     run->progress.step);
            restore_scaling(run);
            compare_ranks(run);
            ok = methods_restore(run, err) && load_answers(run, name, err);
        }
        if (run->progress.step == 0)
            progress_history_clear(&run->history); /* evaluated again at the start */
        after = own ? run->progress.step : run->progress.step - 1;
    }
    run->progress.total = run->steps.total;
    free(name);
    return ok && (!first || checkpoint_begin(run->plan->output_dir, run->plan->job_digest,
                                             after, err));
}
