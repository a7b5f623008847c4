/* runner/handover.c - submits a job to Slurm, and copies its state. */
#include "config.h"

#include "runner/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/walk.h"
#include "patcher/document/document.h"
#include "runner/cluster/slurm.h"
#include "runner/cluster/slurm_submission.h"
#include "runner/job/batch_script.h"
#include "runner/job/outputs.h"
#include "runner/job/record.h"
#include "runner/output/report.h"

enum { FILE_MAX = 64 << 10, TICK_MS = 500 };

/* Seconds. Files say what happens; Slurm is asked in case they do not. */
static const double first_query = 5, longest_query = 60, settle_seconds = 20;

struct handover {
    const struct options *options;
    const volatile sig_atomic_t *stop;
    struct job job;
    struct job_record record;
    struct arena *arena;
    struct plan plan;
    char *submission, *lease, *cluster, *script, *output, *exit;
    char name[SLURM_NAME]; /* of the submission */
    int64_t id;
    struct stat seen;   /* cluster.json when it was copied */
    bool begun;         /* rank 0 has written a state */
    double next, pause; /* when Slurm is asked again */
    double gone_since;  /* when Slurm first did not know it, or said that it ended; 0 */
    bool exit_seen;     /* rank 0, or the script, has noted an exit */
    bool cancel_sent;
    int64_t first; /* the step at which the submission began */
    int lock;
};

static const char *path_of(struct handover *h, const char *name)
{
    return arena_printf(h->arena, "%s/%s", h->job.run_dir, name);
}

/* ---- The record of the submission ---- */

static bool write_submission(struct handover *h, struct error *err)
{
    struct slurm_submission submission = { .id = h->id };

    strcpy(submission.name, h->name);
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
    h->id = submission.id;
    *same = strcmp(submission.digest, h->record.frozen) == 0;
    return true;
}

static void forget_submission(struct handover *h)
{
    walk_unlink(h->lease);
    walk_unlink(h->submission);
    walk_unlink(h->exit);
    walk_unlink(h->cluster);
}

/* ---- Submitting ---- */

static bool write_script(struct handover *h, struct error *err)
{
    struct text text;
    bool ok;

    text_init(&text, 0);
    ok = batch_script_write(&(struct batch_script) { .options = h->options,
                                                     .job = &h->job,
                                                     .plan = &h->plan,
                                                     .name = h->name,
                                                     .digest = h->record.frozen },
                            &text, err) &&
         file_replace(h->script, text.data, text.len, 0700, err);
    text_clear(&text);
    return ok;
}

/* What rank 0 finds: the job, ready; and its right to work. */
static bool prepare(struct handover *h, struct error *err)
{
    struct job names = h->job;

    names.state = h->cluster;
    walk_unlink(h->exit);
    h->id = 0;
    return slurm_submission_name(h->job.name, h->name, err) && write_script(h, err) &&
           job_write(&names, &h->record, true, err) &&
           file_replace(h->lease, h->name, strlen(h->name), 0600, err) &&
           write_submission(h, err);
}

/* Show in the state what a job that is ready waits for. */
static void note_wait(struct handover *h, const struct slurm_job *found)
{
    char reason[sizeof(h->record.reason)];

    if (h->begun || h->record.state != JOB_READY)
        return;
    snprintf(reason, sizeof(reason), "in the queue of Slurm as job %" PRId64 "%s%s%s",
             found->id, found->reason[0] ? " (" : "", found->reason,
             found->reason[0] ? ")" : "");
    if (strcmp(reason, h->record.reason) == 0)
        return;
    snprintf(h->record.reason, sizeof(h->record.reason), "%s", reason);
    job_write(&h->job, &h->record, false, NULL);
}

static void log_job(struct handover *h, const char *fmt, ...) TS_PRINTF(2, 3);
static void log_job(struct handover *h, const char *fmt, ...)
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

/* As a run does, for the watch. */
static void show_life(const struct handover *h)
{
    if (h->lock >= 0)
        futimens(h->lock, NULL);
}

/* Only a watch continues a job that is stopped without a request. */
static bool is_to_end(const struct handover *h)
{
    return job_requested(&h->job) != REQUEST_NONE || (*h->stop && !h->options->spooled);
}

/* The user has as many jobs in the queue as Slurm allows. */
static void wait_for_room(struct handover *h, const char *why)
{
    const double until = clock_seconds() + longest_query;

    if (strcmp(h->record.reason, why) != 0) {
        record_set_text(h->record.reason, sizeof(h->record.reason), why);
        job_write(&h->job, &h->record, false, NULL);
    }
    while (clock_seconds() < until && !*h->stop && !is_to_end(h)) {
        show_life(h);
        poll(NULL, 0, TICK_MS);
    }
}

/* Ask until there is an answer. */
static enum slurm_answer find_surely(struct handover *h, struct slurm_job *found,
                                     struct error *err)
{
    enum slurm_answer answer;

    for (;;) {
        error_clear(err);
        show_life(h);
        answer = slurm_find(h->name, found, err);
        if (answer != SLURM_UNSURE || *h->stop || is_to_end(h))
            return answer;
        poll(NULL, 0, TICK_MS);
    }
}

/*
 * Submit, unless the controller has the submission already: sbatch may have been
 * acknowledged before this process, or an answer, was lost.
 */
static bool submit(struct handover *h, struct error *err)
{
    struct slurm_job found = { 0 };
    struct error own = { 0 };

    for (;;) {
        enum slurm_answer answer;

        if (*h->stop || is_to_end(h))
            return error_set(err, ERROR_STOPPED, "stopped on request");
        error_clear(&own);
        show_life(h);
        answer = slurm_submit(h->script, h->output, &h->id, &own);
        if (answer == SLURM_YES) {
            log_job(h, "submitted as job %" PRId64 ", %s", h->id, h->name);
            return write_submission(h, err);
        }
        if (answer == SLURM_NO)
            return error_set(err, own.code, "%s", own.text);
        if (answer == SLURM_LATER) {
            wait_for_room(h, own.text);
            continue;
        }
        log_job(h, "%s; looking for %s", own.text, h->name);
        poll(NULL, 0, TICK_MS);
        answer = find_surely(h, &found, &own);
        if (answer == SLURM_NO)
            return error_set(err, own.code, "%s", own.text);
        if (answer == SLURM_YES && found.state != SLURM_GONE) {
            h->id = found.id;
            return write_submission(h, err);
        }
    }
}

/* ---- Following ---- */

/* Copy the state that rank 0 wrote, if it is another. */
static void copy_state(struct handover *h)
{
    struct job_record record;
    struct stat st;

    if (!file_stat(h->cluster, &st) ||
        (st.st_ino == h->seen.st_ino && st.st_mtim.tv_sec == h->seen.st_mtim.tv_sec &&
         st.st_mtim.tv_nsec == h->seen.st_mtim.tv_nsec))
        return;
    if (!job_read_at(AT_FDCWD, h->cluster, &record, NULL))
        return;
    h->seen = st;
    if (record.attempt == h->record.attempt && record.state == h->record.state &&
        (isnan(record.seconds) || record.seconds == h->record.seconds) && !h->begun)
        return; /* the one that this process or an earlier one wrote */
    h->begun = true;
    h->record = record;
    job_write(&h->job, &h->record, record.state != JOB_RUNNING, NULL);
}

/* Return whether rank 0 or the script has noted its exit. */
static bool read_exit(const struct handover *h, int *status)
{
    struct text text;
    char name[SLURM_NAME];
    bool ok;

    text_init(&text, 0);
    ok = file_read(h->exit, 4096, &text, NULL, NULL) && text.len > 0 &&
         sscanf(text.data, "%79s %d", name, status) == 2 && strcmp(name, h->name) == 0;
    text_clear(&text);
    return ok;
}

/* Set the state of a job whose ranks could not, and return the exit status by which the
 * watch continues. */
static int end_as(struct handover *h, enum job_event event, const char *why, int status)
{
    if (job_next(h->record.state, event) != JOB_INVALID)
        job_event(&h->job, &h->record, event, why, NULL);
    return status;
}

static bool is_word(const struct slurm_job *found, const char *word)
{
    return text_starts(found->word, word);
}

/* Slurm ended the job, or does not know it, and the ranks have not noted how they ended. */
static int end_without_exit(struct handover *h, const struct slurm_job *found)
{
    char why[512];

    snprintf(why, sizeof(why), "Slurm: job %" PRId64 " is %s", h->id,
             found->state == SLURM_GONE ? "unknown to the controller" : found->word);
    log_job(h, "%s", why);
    if (found->state != SLURM_GONE && is_word(found, "CANCELLED"))
        return end_as(h, EVENT_CANCELLED, why, EXIT_TERMINATED);
    if (found->state != SLURM_GONE && is_word(found, "OUT_OF_MEMORY"))
        return EXIT_NO_MEMORY;
    if (found->state == SLURM_GONE && h->record.state == JOB_READY)
        return EXIT_AGAIN; /* forgotten before it started: the next start submits again */
    if (found->state == SLURM_GONE || is_word(found, "NODE_FAIL") ||
        is_word(found, "PREEMPTED") || is_word(found, "BOOT_FAIL") ||
        is_word(found, "REVOKED"))
        return h->record.state == JOB_RUNNING ? end_as(h, EVENT_PAUSED, why, EXIT_AGAIN)
                                              : EXIT_AGAIN;
    snprintf(
        why + strlen(why), sizeof(why) - strlen(why),
        h->record.state == JOB_READY
            ? ", but its ranks did not start: does each node see %.300s? See slurm.log"
            : "; see %.300s/slurm.log",
        h->job.run_dir);
    return h->record.state == JOB_RUNNING || h->record.state == JOB_READY
               ? end_as(h, EVENT_EXIT_BAD, why, EXIT_FINDINGS)
               : EXIT_FINDINGS;
}

/* A job that its time limit ended continues in another submission, if it made a step. */
static int end_with_exit(struct handover *h, const struct slurm_job *found, int status)
{
    if (status == EXIT_TERMINATED && h->record.state == JOB_READY &&
        found->state == SLURM_ENDED && is_word(found, "CANCELLED"))
        return end_as(h, EVENT_CANCELLED, "canceled in Slurm", EXIT_TERMINATED);
    if (status == EXIT_TERMINATED && h->record.state == JOB_READY && h->begun &&
        h->record.step <= h->first && job_requested(&h->job) == REQUEST_NONE)
        return end_as(h, EVENT_EXIT_BAD,
                      "Slurm ended it before its first step: give it more time",
                      EXIT_FINDINGS);
    return status;
}

/* Pass on a request to end. Return whether this process may leave the job to Slurm. */
static bool pass_on_stop(struct handover *h, const struct slurm_job *found)
{
    const enum job_request_kind request = job_requested(&h->job);

    if (request == REQUEST_NONE && is_to_end(h))
        job_request(&h->job, REQUEST_CANCEL, NULL);
    else if (request == REQUEST_NONE)
        return *h->stop != 0;
    /* rank 0 looks for requests itself, and saves a checkpoint */
    if (!h->cancel_sent && found->state == SLURM_WAITS) {
        h->cancel_sent = slurm_cancel(h->name, NULL) == SLURM_YES;
        h->next = 0;
    }
    return false;
}

/* A request to a job that waits. */
static int end_canceled(struct handover *h)
{
    const enum job_request_kind request = job_requested(&h->job);

    if (request == REQUEST_CANCEL || request == REQUEST_NONE) {
        end_as(h, EVENT_CANCELLED, "canceled", EXIT_TERMINATED);
        job_forget(&h->job);
    }
    return EXIT_TERMINATED;
}

/* Ask Slurm when it is time. Return whether it was asked, and answered. */
static bool query(struct handover *h, bool now, struct slurm_job *found)
{
    struct error ignored = { 0 };
    struct slurm_job answer;
    const char *every = getenv("TRAINSPOOL_SLURM_SECONDS"); /* for tests */

    if (!now && clock_seconds() < h->next)
        return false;
    h->pause = every                      ? atof(every)
               : h->pause < longest_query ? h->pause * 1.5
                                          : longest_query;
    h->next = clock_seconds() + h->pause;
    if (slurm_find(h->name, &answer, &ignored) != SLURM_YES)
        return false;
    if (answer.state != SLURM_GONE)
        h->id = answer.id;
    /* what has ended is soon unknown, but how it ended counts */
    if (answer.state != SLURM_GONE || found->state != SLURM_ENDED)
        *found = answer;
    return true;
}

static int follow(struct handover *h)
{
    struct slurm_job found = { .state = SLURM_WAITS, .id = h->id };
    int status;

    h->first = h->record.step;
    h->pause = first_query;
    h->next = 0;
    for (;;) {
        bool ended = read_exit(h, &status);

        copy_state(h);
        show_life(h);
        /* an exit counts when Slurm does not start the job again: it does so after the
         * loss of a node, or when an administrator asks it to */
        if (ended && !h->exit_seen)
            h->pause = TICK_MS / 1000.0;
        if (query(h, ended && !h->exit_seen, &found)) {
            note_wait(h, &found);
            if (found.state != SLURM_ENDED && found.state != SLURM_GONE)
                h->gone_since = 0;
            else if (h->gone_since == 0)
                h->gone_since = clock_seconds();
        }
        h->exit_seen = ended;
        if (h->gone_since > 0 && ended) {
            copy_state(h);
            forget_submission(h);
            return end_with_exit(h, &found, status);
        }
        /* files of other machines are seen late */
        if (h->gone_since > 0 && h->cancel_sent && !h->begun) {
            forget_submission(h);
            return end_canceled(h);
        }
        if (h->gone_since > 0 && clock_seconds() - h->gone_since > settle_seconds) {
            forget_submission(h);
            return end_without_exit(h, &found);
        }
        if (pass_on_stop(h, &found))
            return EXIT_AGAIN;
        poll(NULL, 0, TICK_MS);
    }
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
    bool ok, busy = false;

    h->lock = (int)h->options->lock_fd;
    if (h->lock < 0)
        h->lock = job_make_dir(&h->job, err) ? job_lock(&h->job, &busy, err) : -1;
    if (h->lock < 0)
        return busy ? error_set(err, ERROR_SYSTEM, "job %s is already running",
                                h->job.path)
                    : false;
    fcntl(h->lock, F_SETFD, FD_CLOEXEC);
    text_init(&text, DOCUMENT_MAX_BYTES);
    ok = name_files(h, err) && job_read(&h->job, &h->record, err) &&
         job_read_frozen(&h->job, h->options->digest, &text, err);
    if (ok)
        outputs_bind_plan(&h->job, &text, h->arena, &h->plan);
    text_clear(&text);
    return ok;
}

/* A submission of an earlier text must not continue next to this one. */
static bool end_earlier(struct handover *h, struct error *err)
{
    struct slurm_job found;
    struct error own = { 0 };

    walk_unlink(h->lease);
    for (;;) {
        enum slurm_answer answer;

        error_clear(&own);
        if (*h->stop)
            return error_set(err, ERROR_STOPPED, "stopped on request");
        show_life(h);
        slurm_cancel(h->name, NULL);
        answer = slurm_find(h->name, &found, &own);
        if (answer == SLURM_NO)
            return error_set(err, own.code, "%s", own.text);
        if (answer == SLURM_YES &&
            (found.state == SLURM_GONE || found.state == SLURM_ENDED))
            return true;
        poll(NULL, 0, TICK_MS);
    }
}

static int run(struct handover *h, struct error *err)
{
    bool same, there;
    int status;

    if (!open_job(h, err))
        return EXIT_SYSTEM;
    there = read_submission(h, &same);
    if (there && !same) {
        if (!end_earlier(h, err))
            return EXIT_AGAIN;
        forget_submission(h);
        there = false;
    }
    if (there)
        log_job(h, "following job %" PRId64 ", %s", h->id, h->name);
    else if (!prepare(h, err))
        return EXIT_AGAIN;
    /* without a number, it is not known whether sbatch was called */
    if (h->id == 0 && !read_exit(h, &status)) {
        struct slurm_job found = { 0 };
        struct error own = { 0 };

        if (there) {
            find_surely(h, &found, &own);
            h->id = found.id;
        }
        if (h->id == 0 && !submit(h, err)) {
            if (err->code == ERROR_STOPPED && !is_to_end(h))
                return EXIT_AGAIN;
            if (err->code == ERROR_STOPPED) {
                forget_submission(h); /* what Slurm may have got ends without a lease */
                slurm_cancel(h->name, NULL);
                return end_canceled(h);
            }
            forget_submission(h);
            log_job(h, "%s", err->text);
            return end_as(h, EVENT_EXIT_BAD, err->text, EXIT_FINDINGS);
        }
    }
    return follow(h);
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
        due = plan.backend == RUN_SLURM;
    }
    text_clear(&text);
    job_clear(&job);
    arena_free(arena);
    return due;
}
