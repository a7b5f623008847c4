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
#include "train/files/manifest.h"
#include "train/methods.h"
#include "train/model/parallel.h"
#include "train/rollout.h"
#include "train/tokenizer/new_tokens.h"

/* Bytes of the file of answers: 4096 of 32768 tokens. */
#define ANSWERS_MAX ((size_t)4 << 30)

/* The checkpoint that a run resumes from, while it is looked for. */
struct resume_choice {
    char *name;       /* malloc'ed; NULL: none */
    bool own;         /* of this text of the job */
    bool named;       /* by the job: no other will do */
    int64_t *damaged; /* steps of checkpoints that cannot be used; malloc'ed */
    size_t count;
};

static char *last_checkpoint(const struct run *run, const struct resume_choice *choice,
                             const char *digest)
{
    const struct checkpoint_among among = { .before = run->options->before > 0
                                                          ? run->options->before
                                                          : INT64_MAX,
                                            .skipped = choice->damaged,
                                            .count = choice->count };

    return checkpoint_last_among(run->plan->output_dir, digest, &among);
}

/* Find the checkpoint to resume from: after an interruption the last one of this job, else
 * the one that the job names.  "true" accepts the last checkpoint of any job text, because
 * adding the key itself changes the digest of the text. */
static void find_checkpoint(const struct run *run, struct resume_choice *out)
{
    const char *named = run->plan->resume_from_checkpoint, *dir = run->plan->output_dir;
    bool last = named && strcmp(named, "true") == 0;

    out->name = run->options->resume || last
                    ? last_checkpoint(run, out, run->plan->job_digest)
                    : NULL;
    out->own = out->name != NULL;
    out->named = !out->name && named && !last && strcmp(named, "false") != 0;
    if (out->named)
        out->name = memory_strdup(named);
    if (!out->name && last && (out->name = last_checkpoint(run, out, NULL)))
        log_line(run->options->log, LOG_WARN,
                 "resume: %s was saved by another version of the job", out->name);
    if (!out->name && (last || run->options->resume))
        log_line(run->options->log, LOG_WARN,
                 "resume: no checkpoint in %s can be resumed; starting from scratch "
                 "(save_only_model: true omits the optimizer state)",
                 dir);
}

/* ---- Comparing the files with the manifest, each rank a share ---- */

/* Rank 0: receive what a rank found: a code and a text. */
static bool take_finding(const struct run *run, size_t rank, struct error *why,
                         struct error *err)
{
    char *text = NULL, *rest;
    long code;

    if (!parallel_await_text(run->options->group, (int)rank, run->options->heartbeat,
                             &text, err))
        return false;
    code = strtol(text, &rest, 10);
    if (code > ERROR_NONE && code < ERROR_CODES)
        error_set(why, (enum error_code)code, "rank %zu:%.480s", rank, rest);
    free(text);
    return true;
}

/* Compare a checkpoint with its manifest.  *why: what is wrong with it, in rank 0; other
 * ranks only learn whether anything is. */
static bool check_together(const struct run *run, const char *name, struct error *why,
                           struct error *err)
{
    const struct backend_group *group = run->options->group;
    size_t rank = parallel_rank(group), ranks = parallel_ranks(group);
    struct text text;
    char *verdict;
    bool ok = true;

    manifest_check_part(name, rank, ranks, run->options->heartbeat, why);
    if (why->code == ERROR_STOPPED)
        return heartbeat_continue(run->options->heartbeat, "reading the checkpoint", err);
    text_init(&text, 0);
    text_addf(&text, "%d %s", (int)why->code, why->text);
    if (rank > 0)
        ok = parallel_send_text(group, text.data, err);
    for (size_t r = 1; ok && rank == 0 && r < ranks; r++)
        ok = take_finding(run, r, why, err);
    text_clear(&text);
    verdict = rank == 0 && why->code != ERROR_NONE ? memory_strdup("damaged") : NULL;
    ok = ok && parallel_share_text(group, &verdict, err);
    if (ok && verdict)
        error_set(why, ERROR_DATA, "%s is damaged", name);
    free(verdict);
    return ok;
}

/* Rank 0: note that a checkpoint cannot be used. A fault passes, and is no damage. */
static bool pass_over(const struct run *run, struct resume_choice *choice,
                      const struct error *why, struct error *err)
{
    if (choice->named)
        return error_set(err, why->code, "%s", why->text);
    fault_keep(why);
    log_line(run->options->log, LOG_WARN, "resume: %s", why->text);
    choice->damaged =
        memory_resize(choice->damaged, choice->count + 1, sizeof(*choice->damaged));
    choice->damaged[choice->count++] = checkpoint_step(path_base(choice->name));
    return true;
}

/* Choose the last checkpoint that is whole.  All ranks look at the same ones. */
static bool choose(const struct run *run, struct resume_choice *out, struct error *err)
{
    bool first = parallel_rank(run->options->group) == 0, ok = true, whole = false;

    while (ok && !whole) {
        struct error why = { 0 };

        free(out->name);
        out->name = NULL;
        if (first)
            find_checkpoint(run, out);
        /* one that cannot be read for now is not missing */
        if (first && !out->name && !fault_none(err))
            return false;
        ok = parallel_share_text(run->options->group, &out->name, err);
        whole = !out->name;
        if (!ok || whole)
            break;
        ok = check_together(run, out->name, &why, err);
        whole = ok && why.code == ERROR_NONE;
        if (ok && !whole && first)
            ok = pass_over(run, out, &why, err);
    }
    return ok;
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

/* Load it. */
static bool load(struct run *run, const char *name, struct error *err)
{
    if (!new_tokens_agree(run->tokenizer, name, err) ||
        !checkpoint_load(run->model, name, &run->progress, &run->history, err))
        return false;
    log_line(run->options->log, LOG_INFO, "resume: from %s, step %" PRId64, name,
             run->progress.step);
    restore_scaling(run);
    compare_ranks(run);
    return methods_restore(run, err) && load_answers(run, name, err);
}

bool run_resume(struct run *run, struct error *err)
{
    bool first = parallel_rank(run->options->group) == 0, ok;
    struct resume_choice choice = { 0 };
    int64_t after = -1;

    if (!fault_answered(err))
        return false;
    fault_clear();
    ok = choose(run, &choice, err);
    scaler_init(&run->progress.scaler, &run->plan->precision);
    run->progress.best_metric = NAN;
    if (ok && choice.name) {
        ok = load(run, choice.name, err);
        if (run->progress.step == 0)
            progress_history_clear(&run->history); /* evaluated again at the start */
        after = choice.own ? run->progress.step : run->progress.step - 1;
    }
    run->progress.total = run->steps.total;
    free(choice.name);
    free(choice.damaged);
    return ok && (!first || checkpoint_begin(run->plan->output_dir, run->plan->job_digest,
                                             after, err));
}
