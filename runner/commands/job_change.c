/*
 * runner/commands/job_change.c - locks each job of a command line and changes its state,
 * or passes the change on to the process that holds the lock.
 */
#include "config.h"

#include "runner/commands/job_change.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "base/user.h"
#include "base/user_names.h"
#include "runner/job/gate.h"
#include "runner/output/report.h"
#include "runner/spool/listing.h"
#include "runner/spool/spool.h"
#include "runner/spool/watch.h"

enum { LEAVING_TRIES = 200 }; /* ten seconds */

/* The jobs of one command line. */
struct changes {
    const struct job_change *change;
    const struct options *options;
    struct report report;
    size_t changed, failed; /* of one folder */
    int worst;              /* exit status */
};

/* Return whether a job in this state is to be changed; without --state, any is. */
static bool is_chosen(const struct options *options, const char *state)
{
    const char *const *at = options->states;
    bool queued = strcmp(state, "new") == 0 || strcmp(state, "ready") == 0 ||
                  strcmp(state, "blocked") == 0 || strcmp(state, "held") == 0;

    for (; at && *at; at++)
        if (strcmp(*at, state) == 0 || (queued && strcmp(*at, "queued") == 0))
            return true;
    return !options->states;
}

/* Return whether the process has recorded the end of the job and holds the lock only
 * until it exits. */
static bool is_ending(const struct job *job)
{
    struct job_record record;

    return job_read(job, &record, NULL) &&
           (record.state == JOB_DONE || record.state == JOB_FAILED ||
            record.state == JOB_STOPPED);
}

static int lock_job(const struct job *job, bool *busy, struct error *err)
{
    static const struct timespec pause = { .tv_nsec = 50000000 };
    int lock = job_lock(job, busy, err);

    for (int i = 0; *busy && i < LEAVING_TRIES && is_ending(job); i++) {
        nanosleep(&pause, NULL);
        *busy = false;
        lock = job_lock(job, busy, err);
    }
    return lock;
}

/* Return the state that status shows. */
static const char *shown_state(const struct job *job, const struct job_record *record,
                               bool locked)
{
    struct gate gate = { .kind = GATE_OPEN };

    if (record->state == JOB_RUNNING && !locked)
        return "crashed";
    if (gate_matters(record->state))
        gate_read(AT_FDCWD, job->run_dir, &gate, NULL);
    return gate.kind == GATE_HELD ? "held" : job_state_names[record->state];
}

/* The state may have changed since the folder was listed. */
static bool is_still_chosen(const struct options *options, const char *state,
                            struct job_answer *answer)
{
    if (is_chosen(options, state))
        return true;
    text_addf(&answer->sentence, "is %s", state);
    return false;
}

static bool ask(const struct job_change *change, const struct job *job,
                struct job_answer *answer, struct error *err)
{
    struct job_record record;

    return job_read(job, &record, err) &&
           (!is_still_chosen(answer->options, shown_state(job, &record, true), answer) ||
            change->running(job, answer, err));
}

static bool change_locked(const struct job_change *change, const struct job *job,
                          struct job_answer *answer, struct error *err)
{
    struct job_record record;

    if (!job_read(job, &record, err))
        return false;
    return !is_still_chosen(answer->options, shown_state(job, &record, false), answer) ||
           change->unlocked(job, &record, answer, err);
}

/* Find out what would change, without a lock: nothing is written. */
static bool preview(const struct job_change *change, const struct job *job,
                    struct job_answer *answer, struct error *err)
{
    return job_is_locked(job) && !is_ending(job)
               ? ask(change, job, answer, err)
               : change_locked(change, job, answer, err);
}

/* Fail if the job is another user's. Nothing may be made for it in a folder in which they
 * could not remove that. */
static bool check_owner(const struct job *job, struct error *err)
{
    struct stat file, run, dir;
    char *path = path_dir(job->path), owner[USER_NAME_ROOM];
    struct user_names *names;
    bool own = true;

    if (lstat(job->path, &file) == 0 && file.st_uid != geteuid())
        own = lstat(job->run_dir, &run) == 0
                  ? access(job->run_dir, W_OK) == 0
                  : stat(path, &dir) != 0 || !(dir.st_mode & S_ISVTX) ||
                        dir.st_uid == geteuid();
    free(path);
    if (own || geteuid() == 0)
        return true;
    names = user_names_new();
    user_names_find(names, file.st_uid, owner);
    user_names_free(names);
    return error_set(err, ERROR_SYSTEM, "%s belongs to user %s, who can change it",
                     job->path, owner);
}

static bool change_as_owner(const struct job_change *change, const struct job *job,
                            struct job_answer *answer, struct error *err)
{
    bool busy = false, ok;
    int lock;

    if (!job_make_dir(job, err))
        return false;
    lock = lock_job(job, &busy, err);
    if (busy && is_ending(job))
        return error_set(err, ERROR_SYSTEM,
                         "%s has ended, but what runs it has not yet; try again later",
                         job->path);
    if (busy)
        return ask(change, job, answer, err);
    if (lock < 0)
        return false;
    ok = change_locked(change, job, answer, err);
    job_unlock(job, lock);
    return ok;
}

/* Change the job under its lock, or ask the process that holds the lock. */
static bool change_job(const struct job_change *change, const struct job *job,
                       struct job_answer *answer, struct error *err)
{
    struct user_scope scope;
    bool ok;

    /* the job may still run without its file */
    if (!file_exists(job->path) && !file_exists(job->state))
        return error_set(err, ERROR_USAGE, "there is no job %s", job->path);
    if (answer->options->dry_run)
        return preview(change, job, answer, err);
    if (!check_owner(job, err) || !job_enter_owner(job, &scope, err))
        return false;
    ok = change_as_owner(change, job, answer, err);
    user_leave(&scope);
    return ok;
}

static void wake_watch(const struct changes *changes, const char *dir)
{
    char *inner = path_join(dir, SPOOL_INNER);

    if (!changes->options->dry_run && spool_is_watched(dir))
        watch_wake(inner);
    free(inner);
}

static void note_error(struct changes *changes, const struct error *err)
{
    int status = report_exit(err->code);

    report_error(changes->options->program, err);
    changes->failed++;
    changes->worst = status > changes->worst ? status : changes->worst;
}

static void change_path(struct changes *changes, const char *path)
{
    struct job_answer answer = { .options = changes->options };
    struct error err = { 0 };
    struct job job;

    job_init(&job, path);
    text_init(&answer.sentence, 0);
    if (!change_job(changes->change, &job, &answer, &err))
        note_error(changes, &err);
    else if (!changes->options->quiet)
        report_line(&changes->report, "%s: %s", job.path, answer.sentence.data);
    changes->changed += answer.changed;
    text_clear(&answer.sentence);
    job_clear(&job);
}

struct siblings {
    struct changes *changes;
    const char *dir;
};

/* A job of a sweep that is done need not run again. */
static bool is_spared(const struct job_change *change, const char *path)
{
    struct job_record record;
    struct job job;
    bool spared;

    job_init(&job, path);
    spared = change->queues && job_read(&job, &record, NULL) && record.state == JOB_DONE;
    job_clear(&job);
    return spared;
}

static bool change_sibling(void *context, const char *name)
{
    const struct siblings *siblings = context;
    char *base = path_join(siblings->dir, name);
    struct text path;

    text_init(&path, 0);
    text_addf(&path, "%s.yaml", base);
    if (!is_spared(siblings->changes->change, path.data))
        change_path(siblings->changes, path.data);
    text_clear(&path);
    free(base);
    return true;
}

/* Change a job that is named, and with a sweep its jobs. A sweep must not find in between
 * that all its jobs have ended. */
static void change_named(struct changes *changes, const char *path)
{
    char *dir = path_dir(path), *run = path_run_dir(path);
    struct siblings siblings = { changes, dir };

    if (!changes->change->queues)
        change_path(changes, path);
    gate_each_of_sweep(run, change_sibling, &siblings);
    if (changes->change->queues)
        change_path(changes, path);
    free(run);
    free(dir);
}

static void change_listed(struct changes *changes, const struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++) {
        struct listed job;

        if (!listing_read(listing, i, &job))
            continue;
        if (is_chosen(changes->options, listed_state(&job)))
            change_path(changes, job.path);
        listed_clear(&job);
    }
}

static void summarize(struct changes *changes, const char *dir, size_t jobs)
{
    const struct options *options = changes->options;

    if (options->quiet)
        return;
    report_line(&changes->report, "%s: %zu of %zu job%s %s%s", dir, changes->changed,
                jobs, jobs == 1 ? "" : "s", options->dry_run ? "would be " : "",
                changes->change->done);
    if (changes->failed > 0)
        report_line(&changes->report, "%s: %zu job%s could not be changed", dir,
                    changes->failed, changes->failed == 1 ? "" : "s");
}

static void change_folder(struct changes *changes, const char *dir)
{
    struct listing listing = { 0 };
    struct error err = { 0 };

    changes->changed = changes->failed = 0;
    if (!changes->options->states)
        error_set(&err, ERROR_USAGE,
                  "%s is a folder; which of its jobs must be %s: %s DIR --state STATE",
                  dir, changes->change->done, changes->options->command->name);
    else if (listing_add_folder(&listing, dir, &err)) {
        change_listed(changes, &listing);
        wake_watch(changes, dir);
        summarize(changes, dir, listing.count);
    }
    if (err.code)
        note_error(changes, &err);
    listing_clear(&listing);
}

int job_change_all(const struct job_change *change, const struct options *options)
{
    struct changes changes = { .change = change, .options = options };

    report_init(&changes.report, options);
    for (size_t i = 0; i < options->operand_count; i++) {
        const char *path = options->operands[i];
        char *dir;

        if (file_is_dir(path)) {
            change_folder(&changes, path);
            continue;
        }
        dir = path_dir(path);
        change_named(&changes, path);
        wake_watch(&changes, dir);
        free(dir);
    }
    return changes.worst;
}
