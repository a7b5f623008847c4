/* runner/job/job.c - reads and writes state.json and the files around it. */
#include "config.h"

#include "runner/job/job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/leftovers.h"
#include "base/owner.h"
#include "base/size.h"
#include "base/user.h"
#include "base/walk.h"
#include "patcher/document/document.h"
#include "runner/job/obstacle.h"
#include "runner/job/record.h"

enum {
    STATE_BYTES = 16 << 10,
    RUN_DIR_MODE = 0755,
    FILE_MODE = 0644,
    FROZEN_MODE = 0600
};

const char *const job_state_names[JOB_STATES] = {
    [JOB_INVALID] = "nowhere", [JOB_NEW] = "new",           [JOB_READY] = "ready",
    [JOB_RUNNING] = "running", [JOB_DONE] = "done",         [JOB_FAILED] = "failed",
    [JOB_STOPPED] = "stopped", [JOB_REJECTED] = "rejected", [JOB_BLOCKED] = "blocked",
};

const char *const job_event_names[JOB_EVENTS] = {
    [EVENT_ACCEPTED] = "accepted",  [EVENT_REJECTED] = "rejected",
    [EVENT_STARTED] = "started",    [EVENT_EXIT_OK] = "done",
    [EVENT_EXIT_BAD] = "failed",    [EVENT_PAUSED] = "paused",
    [EVENT_CANCELLED] = "canceled", [EVENT_CRASHED] = "crashed",
    [EVENT_GAVE_UP] = "given up",   [EVENT_RETRIED] = "retried",
    [EVENT_CHANGED] = "changed",    [EVENT_BLOCKED] = "blocked",
    [EVENT_AILED] = "to be healed",
};

/* A transition that is not in the table must not happen. */
static const enum job_state next_state[JOB_STATES][JOB_EVENTS] = {
    [JOB_NEW] = { [EVENT_ACCEPTED] = JOB_READY,
                  [EVENT_REJECTED] = JOB_REJECTED,
                  [EVENT_BLOCKED] = JOB_BLOCKED,
                  [EVENT_EXIT_BAD] = JOB_FAILED,
                  [EVENT_CANCELLED] = JOB_STOPPED,
                  [EVENT_RETRIED] = JOB_NEW,
                  [EVENT_CHANGED] = JOB_NEW },
    [JOB_BLOCKED] = { [EVENT_ACCEPTED] = JOB_READY,
                      [EVENT_REJECTED] = JOB_REJECTED,
                      [EVENT_BLOCKED] = JOB_BLOCKED,
                      [EVENT_EXIT_BAD] = JOB_FAILED,
                      [EVENT_CANCELLED] = JOB_STOPPED,
                      [EVENT_RETRIED] = JOB_NEW,
                      [EVENT_CHANGED] = JOB_NEW },
    [JOB_READY] = { [EVENT_STARTED] = JOB_RUNNING,
                    [EVENT_EXIT_OK] = JOB_DONE, /* a sweep, whose jobs are done */
                    [EVENT_BLOCKED] = JOB_BLOCKED,
                    [EVENT_AILED] = JOB_NEW,
                    [EVENT_CANCELLED] = JOB_STOPPED,
                    [EVENT_EXIT_BAD] = JOB_FAILED,
                    [EVENT_CRASHED] = JOB_READY,
                    [EVENT_GAVE_UP] = JOB_FAILED,
                    [EVENT_CHANGED] = JOB_NEW },
    [JOB_RUNNING] = { [EVENT_EXIT_OK] = JOB_DONE,
                      [EVENT_AILED] = JOB_NEW,
                      [EVENT_EXIT_BAD] = JOB_FAILED,
                      [EVENT_PAUSED] = JOB_READY,
                      [EVENT_CANCELLED] = JOB_STOPPED,
                      [EVENT_CRASHED] = JOB_READY,
                      [EVENT_GAVE_UP] = JOB_FAILED },
    [JOB_DONE] = { [EVENT_RETRIED] = JOB_NEW, [EVENT_CHANGED] = JOB_NEW },
    [JOB_FAILED] = { [EVENT_RETRIED] = JOB_NEW, [EVENT_CHANGED] = JOB_NEW },
    [JOB_STOPPED] = { [EVENT_RETRIED] = JOB_NEW, [EVENT_CHANGED] = JOB_NEW },
    [JOB_REJECTED] = { [EVENT_RETRIED] = JOB_NEW, [EVENT_CHANGED] = JOB_NEW },
};

enum job_state job_next(enum job_state state, enum job_event event)
{
    return next_state[state][event];
}

void job_source(const struct stat *st, char out[64])
{
    snprintf(out, 64, "%ju:%jd.%09ld:%jd", (uintmax_t)st->st_ino,
             (intmax_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec, (intmax_t)st->st_size);
}

void job_init(struct job *job, const char *path)
{
    const char *base;
    struct text name;

    job->path = memory_strdup(path);
    job->run_dir = path_run_dir(path);
    base = path_base(job->run_dir);
    text_init(&name, 0);
    text_add(&name, base, strlen(base) - strlen(".run"));
    job->name = text_detach(&name, NULL);
    job->state = path_join(job->run_dir, "state.json");
    job->lock = path_join(job->run_dir, "lock");
    job->frozen = path_join(job->run_dir, "job.yaml");
    job->log = path_join(job->run_dir, "train.log");
    job->cancel = path_join(job->run_dir, "cancel");
    job->metrics = path_join(job->run_dir, "metrics.jsonl");
}

void job_clear(struct job *job)
{
    char *names[] = { job->path,   job->name, job->run_dir, job->state,  job->lock,
                      job->frozen, job->log,  job->cancel,  job->metrics };

    for (size_t i = 0; i < TS_COUNT(names); i++)
        free(names[i]);
    *job = (struct job) { 0 };
}

bool job_make_dir(const struct job *job, struct error *err)
{
    if (!path_run_is_free(job->path, err))
        return false;
    if (walk_mkdir(job->run_dir, RUN_DIR_MODE) == 0)
        return true;
    if (errno != EEXIST)
        return error_errno(err, "cannot create %s", job->run_dir);
    return obstacle_is_folder(AT_FDCWD, job->run_dir, err);
}

bool job_check_dir(const struct job *job, uid_t user, struct error *err)
{
    struct stat st;
    bool shared;
    int fault;

    if (lstat(job->run_dir, &st) != 0)
        return errno == ENOENT || error_errno(err, "cannot access %s", job->run_dir);
    if (!obstacle_is_folder(AT_FDCWD, job->run_dir, err))
        return false;
    if (st.st_uid != 0 && st.st_uid != user)
        return error_set(err, ERROR_SYSTEM,
                         "%s belongs to another user; remove it, or give the job another "
                         "name",
                         job->run_dir);
    shared = owner_shares(&st, &fault);
    if (fault)
        return error_set(err, ERROR_FAULT, "cannot find the group of %s: %s",
                         job->run_dir, strerror(fault));
    return !shared ||
           error_set(err, ERROR_SYSTEM, "other users may write to %s; run chmod go-w %s",
                     job->run_dir, job->run_dir);
}

/* Read a whole state file with as few system calls as possible.  Return 0 for a file that
 * needs a closer look. */
static size_t read_quickly(int fd, char *buffer, size_t room)
{
    ssize_t got = read(fd, buffer, room - 1);

    if (got < 2 || (size_t)got == room - 1 || memcmp(buffer + got - 2, "}\n", 2) != 0)
        return 0;
    buffer[got] = 0;
    return (size_t)got;
}

static void block(struct job_record *out, const char *reason)
{
    record_init(out);
    out->state = JOB_BLOCKED;
    record_set_text(out->reason, sizeof(out->reason), reason);
}

/* A job without a state is new, unless something is in the way of its files. */
static bool read_missing(int dir, const char *name, struct job_record *out,
                         struct error *err)
{
    char *run_dir = path_dir(name);
    struct error why = { 0 };

    record_init(out);
    if (!obstacle_none_at(dir, run_dir, &why) && why.code == ERROR_SYSTEM)
        block(out, why.text);
    free(run_dir);
    return why.code != ERROR_FAULT || error_set(err, why.code, "%s", why.text);
}

bool job_read_at(int dir, const char *name, struct job_record *out, struct error *err)
{
    struct error why = { 0 };
    char buffer[STATE_BYTES];
    struct text text;
    size_t len = 0;
    int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return read_missing(dir, name, out, err);
    if (fd < 0 && fault_is(errno)) /* not tried again: it could be missing then */
        return error_errno(err, "cannot open %s", name);
    if (fd >= 0) {
        len = read_quickly(fd, buffer, sizeof(buffer));
        close(fd);
    }
    if (len > 0) {
        record_read(buffer, len, out);
        return true;
    }
    record_init(out);
    text_init(&text, STATE_BYTES);
    if (file_read_at(dir, name, STATE_BYTES, &text, NULL, &why))
        record_read(text.data, text.len, out);
    else if (why.code == ERROR_DATA) /* a folder, a link, or huge */
        block(out, why.text);
    else
        error_set(err, why.code, "%s", why.text);
    text_clear(&text);
    return why.code == ERROR_NONE || why.code == ERROR_DATA;
}

bool job_read(const struct job *job, struct job_record *out, struct error *err)
{
    return job_read_at(AT_FDCWD, job->state, out, err);
}

/* Replace the file without the two flushes of file_replace: progress is not worth waiting
 * for a disk. */
static bool replace_unflushed(const char *name, const char *data, size_t len, mode_t mode,
                              struct error *err)
{
    struct text temporary;
    struct error why = { 0 };
    bool ok;
    int fd;

    text_init(&temporary, 0);
    text_addf(&temporary, "%s.new", name);
    fd = walk_open(temporary.data, O_WRONLY | O_CREAT | O_TRUNC, mode);
    ok = fd >= 0 || error_errno(err, "cannot create %s", temporary.data);
    if (ok && !file_write_all(fd, data, len, &why))
        ok = error_set(err, why.code, "%s: %s", name, why.text);
    if (fd >= 0)
        close(fd);
    if (ok && walk_rename(temporary.data, name) != 0)
        ok = error_errno(err, "cannot rename %s", temporary.data);
    text_clear(&temporary);
    return ok;
}

bool job_write(const struct job *job, const struct job_record *record, bool durable,
               struct error *err)
{
    struct text text;
    bool ok;

    text_init(&text, 0);
    ok = record_write(record, &text) && text_addc(&text, '\n');
    if (!ok)
        error_set(err, ERROR_SYSTEM, "cannot write the state of %s as JSON", job->name);
    else if (durable)
        ok = file_replace(job->state, text.data, text.len, FILE_MODE, err);
    else
        ok = replace_unflushed(job->state, text.data, text.len, FILE_MODE, err);
    text_clear(&text);
    return ok;
}

void job_restart(struct job_record *record)
{
    record->attempt = record->crashes = record->heals = 0;
    record->ailment[0] = record->healed[0] = 0;
    record->seconds = NAN;
}

/* Set the times of a record, and clear what a restart resets. */
static void note_event(struct job_record *record, enum job_event event)
{
    switch (event) {
    case EVENT_ACCEPTED:
        clock_iso(record->queued);
        record->started[0] = record->ended[0] = 0;
        break;
    case EVENT_STARTED:
        clock_iso(record->started);
        record->ended[0] = 0;
        record->attempt++;
        break;
    case EVENT_CRASHED:
    case EVENT_GAVE_UP:
        record->crashes++;
        clock_iso(record->ended);
        break;
    case EVENT_AILED:
        record->heals++;
        clock_iso(record->ended);
        break;
    case EVENT_RETRIED:
    case EVENT_CHANGED:
        job_restart(record);
        break;
    default:
        clock_iso(record->ended);
    }
    if (event != EVENT_STARTED)
        record->seconds_left = NAN;
}

static const bool is_durable[JOB_EVENTS] = {
    [EVENT_EXIT_OK] = true, [EVENT_EXIT_BAD] = true, [EVENT_CANCELLED] = true,
    [EVENT_GAVE_UP] = true, [EVENT_AILED] = true, /* what is counted must not be forgotten */
};

/* Ranks of a job that Slurm has in its queue end when they start (runner/lease.h); those that
 * record this themselves still have to note how they ended. */
static void end_lease(const struct job *job)
{
    char *lease = path_join(job->run_dir, "lease");

    if (strcmp(job->lock, lease) != 0)
        walk_unlink(lease);
    free(lease);
}

/* Slurm may take longer to end a submission than its ranks, and the watch may not wait for it.
 * An end that they noted must not end the job again when it is queued again: remove what they
 * noted, and runner/handover.c cancels the submission. Ranks that still train are left alone. */
static void end_submission(const struct job *job)
{
    static const char *const names[] = {
        "lease", /* first: without it, they note nothing */
        "slurm.exit", "cluster.json"
    };
    char *cluster = path_join(job->run_dir, "cluster.json");
    char *noted = path_join(job->run_dir, "slurm.exit");
    struct job_record record;

    if (file_exists(noted) || (job_read_at(AT_FDCWD, cluster, &record, NULL) &&
                               (record.state == JOB_DONE || record.state == JOB_FAILED ||
                                record.state == JOB_STOPPED)))
        for (size_t i = 0; i < TS_COUNT(names); i++) {
            char *file = path_join(job->run_dir, names[i]);

            walk_unlink(file);
            free(file);
        }
    free(noted);
    free(cluster);
}

bool job_event(const struct job *job, struct job_record *record, enum job_event event,
               const char *reason, struct error *err)
{
    struct job_record after = *record;

    after.state = job_next(record->state, event);
    if (after.state == JOB_INVALID)
        return error_set(err, ERROR_SYSTEM, "job %s is %s and cannot become %s",
                         job->name, job_state_names[record->state],
                         job_event_names[event]);
    record_set_text(after.reason, sizeof(after.reason), reason ? reason : "");
    note_event(&after, event);
    if (!job_write(job, &after, is_durable[event], err))
        return false;
    if (event == EVENT_CANCELLED)
        end_lease(job);
    if (event == EVENT_RETRIED || event == EVENT_CHANGED)
        end_submission(job);
    *record = after;
    return true;
}

bool job_freeze(const struct job *job, const struct text *text, bool durable,
                struct job_record *record, struct error *err)
{
    digest_bytes(text->data, text->len, record->frozen);
    return durable
               ? file_replace(job->frozen, text->data, text->len, FROZEN_MODE, err)
               : replace_unflushed(job->frozen, text->data, text->len, FROZEN_MODE, err);
}

bool job_read_frozen(const struct job *job, const char *digest, struct text *out,
                     struct error *err)
{
    char is[DIGEST_TEXT];

    if (!file_read_at(AT_FDCWD, job->frozen, DOCUMENT_MAX_BYTES, out, NULL, err))
        return false;
    digest_bytes(out->data, out->len, is);
    return !digest || !digest[0] || strcmp(is, digest) == 0 ||
           error_set(err, ERROR_JOB,
                     "%s is not the text that was admitted; `trainspool retry` admits "
                     "the job again",
                     job->frozen);
}

bool job_flush(const struct job *job, struct error *err)
{
    int fd = open(job->frozen, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;

    if (!ok)
        error_errno(err, "cannot flush %s", job->frozen);
    if (fd >= 0)
        close(fd);
    return ok && file_sync_dir(job->run_dir, err);
}

bool job_enter_owner(const struct job *job, struct user_scope *scope, struct error *err)
{
    struct stat st;

    scope->entered = false;
    if (geteuid() != 0)
        return true;
    if (!file_lstat(job->path, &st) && !file_lstat(job->run_dir, &st))
        return error_errno(err, "cannot find %s", job->path);
    return user_enter(st.st_uid, scope, err);
}

static const char *const request_texts[] = {
    [REQUEST_NONE] = "",
    [REQUEST_CANCEL] = "cancel\n",
    [REQUEST_PAUSE] = "pause\n",
    [REQUEST_REQUEUE] = "requeue\n",
};

/* An empty file needs no room on a full disk, and cancels. */
static bool request_without_text(const struct job *job, struct error *err)
{
    int fd = walk_open(job->cancel, O_WRONLY | O_CREAT | O_TRUNC, FILE_MODE);

    if (fd < 0)
        return error_errno(err, "cannot create %s", job->cancel);
    close(fd);
    return true;
}

bool job_request(const struct job *job, enum job_request_kind request, struct error *err)
{
    struct error why = { 0 };

    if (replace_unflushed(job->cancel, request_texts[request],
                          strlen(request_texts[request]), FILE_MODE, &why))
        return true;
    if (request == REQUEST_CANCEL && why.code == ERROR_FAULT)
        return request_without_text(job, err);
    return error_set(err, why.code, "%s", why.text);
}

enum job_request_kind job_requested(const struct job *job)
{
    char word[16] = "";
    int fd = open(job->cancel, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return REQUEST_NONE;
    if (read(fd, word, sizeof(word) - 1) < 0)
        word[0] = 0;
    close(fd);
    for (int request = REQUEST_PAUSE; request <= REQUEST_REQUEUE; request++)
        if (strcmp(word, request_texts[request]) == 0)
            return (enum job_request_kind)request;
    return REQUEST_CANCEL;
}

void job_forget(const struct job *job)
{
    walk_unlink(job->cancel);
}

void job_remove_leftovers(const struct job *job, bool spooled)
{
    /* see replace_unflushed; commands write the last one without the lock, in a moment */
    const struct {
        const char *name;
        double seconds;
    } files[] = { { job->state, 0 }, { job->frozen, 0 }, { job->cancel, 60 } };
    char *dir = path_dir(job->path);

    for (size_t i = 0; i < TS_COUNT(files); i++) {
        struct text name;

        text_init(&name, 0);
        text_addf(&name, "%s.new", files[i].name);
        leftover_remove(AT_FDCWD, name.data, files[i].seconds);
        text_clear(&name);
    }
    leftovers_remove(job->run_dir, NULL);
    if (!spooled)
        leftovers_remove(dir, path_base(job->path));
    free(dir);
}

int job_open_log(const struct job *job, struct error *err)
{
    int fd = walk_open(job->log, O_WRONLY | O_CREAT | O_APPEND, FILE_MODE);

    if (fd < 0 && errno == ENXIO)
        error_set(err, ERROR_SYSTEM, "%s is not a regular file", job->log);
    else if (fd < 0)
        error_errno(err, "cannot open %s", job->log);
    return fd;
}

bool job_log(const struct job *job, const struct text *text, struct error *err)
{
    int fd = job_open_log(job, err);
    bool ok = fd >= 0 && file_write_all(fd, text->data, text->len, err);

    if (fd >= 0)
        close(fd);
    return ok;
}
