/* runner/handover.c - opens a job that Slurm runs: submits it, or finds its submission. */
#include "config.h"

#include "runner/handover.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/walk.h"
#include "patcher/document/document.h"
#include "runner/cluster/slurm_submission.h"
#include "runner/handover_internal.h"
#include "runner/job/outputs.h"
#include "runner/job/record.h"
#include "runner/job/submitted.h"
#include "runner/output/report.h"

static const char *path_of(struct handover *h, const char *name)
{
    return arena_printf(h->arena, "%s/%s", h->job.run_dir, name);
}

/* ---- The record of the submission ---- */

bool handover_note(struct handover *h, struct error *err)
{
    struct slurm_submission submission = {
        .id = h->id, .first = h->first, .in_array = h->in_array, .task = h->task
    };

    strcpy(submission.name, h->name);
    strcpy(submission.array, h->array);
    strcpy(submission.digest, h->record.frozen);
    return slurm_submission_write(&submission, h->submission, err);
}

/* Return whether there is a submission; *same: of this text. */
static bool read_submission(struct handover *h, bool *same)
{
    struct slurm_submission submission;

    if (!slurm_submission_read(h->submission, &submission))
        return false;
    strcpy(h->name, submission.name);
    strcpy(h->array, submission.array);
    h->id = submission.id;
    h->first = submission.first;
    h->in_array = submission.in_array;
    h->task = submission.task;
    *same = strcmp(submission.digest, h->record.frozen) == 0;
    return true;
}

void handover_forget(struct handover *h)
{
    walk_unlink(h->lease);
    walk_unlink(h->submission);
    walk_unlink(h->exit);
    walk_unlink(h->cluster);
}

/* ---- What the parts share ---- */

struct slurm_target handover_target(const struct handover *h)
{
    const bool is_task = h->array[0] != '\0';

    return (struct slurm_target) { .name = is_task ? h->array : h->name,
                                   .task = is_task ? h->task : -1,
                                   .id = h->id };
}

void handover_add_number(const struct handover *h, struct text *out)
{
    text_addf(out, "job %" PRId64, h->id);
    if (h->array[0])
        text_addf(out, "_%" PRId64, h->task);
}

void handover_note_wait(struct handover *h, const char *why)
{
    if (strcmp(h->record.reason, why) == 0)
        return;
    record_set_text(h->record.reason, sizeof(h->record.reason), why);
    job_write(&h->job, &h->record, false, NULL);
}

void handover_log(struct handover *h, const char *fmt, ...)
{
    struct text line;
    char now[32];
    va_list args;
    char what[512];

    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    clock_iso(now);
    text_init(&line, 0);
    text_addf(&line, "%s info slurm: %s\n", now, what);
    job_log(&h->job, &line, NULL);
    text_clear(&line);
}

void handover_beat(const struct handover *h)
{
    if (h->lock >= 0)
        futimens(h->lock, NULL);
}

bool handover_must_end(const struct handover *h)
{
    return job_requested(&h->job) != REQUEST_NONE || (*h->stop && !h->options->spooled);
}

int handover_end(struct handover *h, enum job_event event, const char *why, int status)
{
    if (job_next(h->record.state, event) != JOB_INVALID)
        job_event(&h->job, &h->record, event, why, NULL);
    return status;
}

int handover_end_withdrawn(struct handover *h)
{
    enum job_request_kind request = job_requested(&h->job);

    if (request == REQUEST_NONE)
        request = h->request;
    if (h->record.state == JOB_RUNNING)
        handover_end(h, EVENT_PAUSED, NULL, 0);
    if (request == REQUEST_CANCEL || request == REQUEST_NONE) {
        handover_end(h, EVENT_CANCELLED, "canceled", EXIT_TERMINATED);
        job_forget(&h->job);
        return EXIT_TERMINATED;
    }
    h->record.reason[0] = '\0';
    if (request == REQUEST_REQUEUE) /* the jobs that wait go before it */
        h->record.arrived = clock_wall();
    job_write(&h->job, &h->record, false, NULL);
    return EXIT_TERMINATED;
}

/* ---- The whole ---- */

/* The names that sbatch gets: it takes one that begins with "-" for an option. */
static bool name_files(struct handover *h, struct error *err)
{
    char *run_dir = realpath(h->job.run_dir, NULL);

    if (!run_dir)
        return error_errno(err, "cannot find the folder of %s", h->job.path);
    h->script = arena_printf(h->arena, "%s/slurm.sh", run_dir);
    h->output = arena_printf(h->arena, "%s/slurm.log", run_dir);
    free(run_dir);
    return true;
}

static bool open_job(struct handover *h, struct error *err)
{
    struct text text;
    bool inherited = h->options->lock_fd >= 0, ok, busy = false;

    h->lock = (int)h->options->lock_fd;
    if (!inherited)
        h->lock = job_make_dir(&h->job, err) ? job_lock(&h->job, &busy, err) : -1;
    if (h->lock < 0)
        return busy ? error_set(err, ERROR_SYSTEM, "job %s is already running",
                                h->job.path)
                    : false;
    text_init(&text, DOCUMENT_MAX_BYTES);
    ok = job_keep_lock(&h->job, h->lock, inherited, err) && name_files(h, err) &&
         job_read(&h->job, &h->record, err) &&
         job_read_frozen(&h->job, h->options->digest, &text, err);
    if (ok)
        outputs_bind_plan(&h->job, &text, h->arena, &h->plan);
    text_clear(&text);
    return ok;
}

/* A submission that is not to run, as one of an earlier text, must not continue next to the
 * one that follows. */
static bool end_earlier(struct handover *h, struct error *err)
{
    const struct slurm_target target = handover_target(h);
    struct slurm_job found;
    struct error own = { 0 };

    walk_unlink(h->lease);
    for (;;) {
        enum slurm_answer answer;

        error_clear(&own);
        if (*h->stop)
            return error_set(err, ERROR_STOPPED, "stopped on request");
        handover_beat(h);
        slurm_cancel(&target, NULL);
        answer = slurm_find(&target, &found, &own);
        if (answer == SLURM_NO)
            return error_set(err, own.code, "%s", own.text);
        if (answer == SLURM_YES &&
            (found.state == SLURM_GONE || found.state == SLURM_ENDED))
            return true;
        poll(NULL, 0, HANDOVER_TICK_MS);
    }
}

static int run(struct handover *h, struct error *err)
{
    struct slurm_target target;
    bool same, there;
    int status;

    if (!open_job(h, err))
        return EXIT_SYSTEM;
    there = read_submission(h, &same);
    if (!there && file_exists(h->submission)) { /* unreadable: it cannot be followed */
        handover_forget(h);
        if (h->options->spooled)
            return EXIT_TERMINATED;
    }
    /* without a lease: it was withdrawn, and the process that did so has ended */
    if (there && (!same || (!file_exists(h->lease) && !handover_read_exit(h, &status)))) {
        if (!end_earlier(h, err))
            return EXIT_AGAIN;
        handover_forget(h);
        if (h->options->spooled) /* the watch starts it again, unless it is held */
            return EXIT_TERMINATED;
        there = false;
    }
    if (there ? h->in_array && h->id == 0 : h->options->spooled)
        h->sweep = sweep_array_open(&h->job, h->options);
    if (there && h->in_array && h->id == 0 && !h->sweep) {
        handover_forget(h); /* the sweep was removed; a task of its array has no lease */
        if (h->options->spooled)
            return EXIT_TERMINATED;
        there = false;
    }
    if (there)
        handover_log(h, "following job %" PRId64 ", %s", h->id, h->name);
    else if (!handover_prepare(h, err))
        return EXIT_AGAIN;
    /* without a number, it is not known whether sbatch was called */
    if (h->id == 0 && !handover_read_exit(h, &status)) {
        struct slurm_job found = { 0 };
        struct error own = { 0 };

        if (there && !h->sweep && handover_find(h, &found, &own) != SLURM_YES) {
            if (!handover_must_end(h)) {
                handover_note_wait(h, own.text);
                return EXIT_AGAIN;
            }
        }
        h->id = found.id;
        if (h->id == 0 && !(h->sweep ? handover_join : handover_submit)(h, err)) {
            if (err->code == ERROR_STOPPED && !handover_must_end(h))
                return EXIT_AGAIN;
            if (err->code == ERROR_STOPPED) {
                handover_forget(h); /* what Slurm may have got ends without a lease */
                target = handover_target(h);
                slurm_cancel(&target, NULL);
                return handover_end_withdrawn(h);
            }
            handover_forget(h);
            handover_log(h, "%s", err->text);
            return handover_end(h, EVENT_EXIT_BAD, err->text, EXIT_FINDINGS);
        }
    }
    return handover_follow(h);
}

int handover_run(const struct options *options, const volatile sig_atomic_t *stop,
                 struct error *err)
{
    struct handover h = { .options = options, .stop = stop, .lock = -1 };
    int status;

    h.arena = arena_new();
    job_init(&h.job, options->operands[0]);
    h.submission = (char *)path_of(&h, "slurm.json");
    h.lease = (char *)path_of(&h, "lease");
    h.cluster = (char *)path_of(&h, "cluster.json");
    h.exit = (char *)path_of(&h, "slurm.exit");
    status = run(&h, err);
    if (err->code && err->code != ERROR_STOPPED && !options->spooled)
        report_error(options->program, err);
    if (h.lock >= 0)
        job_unlock(&h.job, h.lock);
    sweep_array_close(h.sweep);
    job_clear(&h.job);
    arena_free(h.arena);
    return status;
}

bool handover_is_due(const struct options *options)
{
    struct arena *arena;
    struct plan plan;
    struct text text;
    struct job job;
    bool due;

    if (options->lease || !options->frozen)
        return false;
    arena = arena_new();
    job_init(&job, options->operands[0]);
    text_init(&text, DOCUMENT_MAX_BYTES);
    due = job_read_frozen(&job, NULL, &text, NULL);
    if (due) {
        outputs_bind_plan(&job, &text, arena, &plan);
        /* the earlier text may still run in Slurm */
        due = plan.backend == RUN_SLURM || (options->spooled && submitted_is_left(&job));
    }
    text_clear(&text);
    job_clear(&job);
    arena_free(arena);
    return due;
}
