/* runner/spool/claim.c - moves a job from new to ready or rejected. */
#include "config.h"

#include "runner/spool/claim.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/group.h"
#include "runner/job/admit.h"
#include "runner/job/gate.h"
#include "runner/job/heal.h"
#include "runner/job/obstacle.h"
#include "runner/job/sweep_jobs.h"

/* Reset the job to `new` from any state; the caller holds the lock. */
static bool make_new(const struct job *job, struct job_record *record, struct error *err)
{
    job_forget(job); /* first: a request is about the text that was recorded */
    if (record->state == JOB_RUNNING &&
        !job_event(job, record, EVENT_CRASHED, "a new text was dropped", err))
        return false;
    if (record->state == JOB_BLOCKED && !heal_is_due(record))
        job_restart(record); /* it stays blocked until it is admitted */
    else if (record->state != JOB_NEW && record->state != JOB_BLOCKED &&
             !job_event(job, record, EVENT_CHANGED, NULL, err))
        return false;
    record->step = record->total = 0;
    record->loss = NAN;
    /* a power cut lost the state: the job ran, but it is unknown how far */
    record->resume |= !record->digest[0] && file_exists(job->frozen);
    return true;
}

/* Rejection is for faults of the job, not for those of the machine or of other files. */
static bool is_of_job(const struct error *err)
{
    return err->code != ERROR_FAULT && err->code != ERROR_SYSTEM &&
           err->code != ERROR_NONE;
}

static size_t count_edits(const struct patch *patch)
{
    size_t count = 0;

    for (size_t i = 0; i < patch->findings.count; i++)
        count += patch->findings.list[i].fixed && patch->findings.list[i].new_text;
    return count;
}

/* Find why the file could not be replaced. */
static void find_barrier(const struct patch *patch, struct examine_result *out)
{
    for (size_t i = 0; i < patch->findings.count; i++)
        if (strcmp(patch->findings.list[i].rule, "TS011") == 0)
            snprintf(out->barred, sizeof(out->barred), "%s",
                     patch->findings.list[i].message);
}

static bool reject(const struct job *job, const struct examine_request *request,
                   const char *reason, struct examine_result *out)
{
    snprintf(out->record.source, sizeof(out->record.source), "%s", request->source);
    out->record.digest[0] = 0;
    return admit_reject(job, &out->record, reason, &out->err);
}

/* Return whether a job that is not admitted yet was canceled on a full disk. */
static bool is_canceled(const struct job *job, const struct job_record *record)
{
    return (record->state == JOB_NEW || record->state == JOB_BLOCKED) &&
           job_requested(job) == REQUEST_CANCEL;
}

static bool cancel(const struct job *job, const struct examine_request *request,
                   struct examine_result *out)
{
    struct job_record *record = &out->record;

    snprintf(record->source, sizeof(record->source), "%s", request->source);
    if (!digest_file(job->path, record->digest, &out->err) ||
        !job_event(job, record, EVENT_CANCELLED, "canceled before it ran", &out->err))
        return false;
    job_forget(job);
    return true;
}

/* Show why the job is not admitted. The same reason may keep this from being written. */
static void block(const struct job *job, struct job_record *record,
                  const struct error *why)
{
    struct job_record before;

    record->source[0] = record->digest[0] = 0;
    if (job_read(job, &before, NULL)) {
        if (before.state == JOB_BLOCKED && strcmp(before.reason, why->text) == 0)
            return;
        if (heal_is_due(&before)) /* how far its patch is depends on what is on disk */
            *record = before;
    }
    if (job_next(record->state, EVENT_BLOCKED) != JOB_INVALID)
        job_event(job, record, EVENT_BLOCKED, why->text, NULL);
}

/* Return whether the job is a sweep of this text, whose jobs have ended. */
static bool is_ended_sweep(const struct job *job, const struct examine_request *request,
                           const struct job_record *record)
{
    struct gate gate;

    return record->state == JOB_READY && record->sweep > 0 &&
           strcmp(record->source, request->source) == 0 &&
           gate_read(AT_FDCWD, job->run_dir, &gate, NULL) && gate.kind == GATE_OPEN;
}

/* Return whether another process has handled the job since the request was made: it may
 * have ended by now, and must not run again. */
static bool was_handled(const struct job_record *record,
                        const struct examine_request *request)
{
    struct record_stamp now;

    record_stamp(record, &now);
    return memcmp(&now, &request->seen, sizeof(now)) != 0;
}

/* Choose the machine that the job is checked and patched for. */
static void choose_machine(const struct job *job, const struct examine_request *request,
                           const struct candidates *from, const struct job_record *record,
                           struct admit_options *how)
{
    const struct candidate *best;

    if (!from || from->count < 2)
        return;
    for (size_t i = 0; i < from->count; i++) {
        how->machine = &from->list[request->order[i]].machine;
        if (admit_would_accept(job, how, record))
            return;
    }
    best = &from->list[candidates_largest(from)];
    how->machine = &best->machine;
    how->best = best->node;
}

static bool claim_locked(const struct job *job, const struct examine_request *request,
                         const struct examine_how *examine, struct examine_result *out)
{
    struct job_record *record = &out->record;
    struct admit_options how = { .machine = examine->machine,
                                 .lazy = true,
                                 .spooled = true,
                                 .roots = examine->roots,
                                 .arrived = request->arrived,
                                 .waits = request->waits };
    struct inspection inspection = { 0 };
    bool ok = job_read(job, record, &out->err);

    if (ok && was_handled(record, request)) {
        out->end = EXAMINE_CHANGED;
        return false;
    }
    if (ok && is_canceled(job, record))
        return cancel(job, request, out);
    if (ok && is_ended_sweep(job, request, record))
        return sweep_jobs_finish(job, record, &out->err);
    ok = ok && make_new(job, record, &out->err) && obstacle_none(job, &out->err);
    /* a job that was requeued arrived again then */
    record->arrived = fmax(request->arrived, record->arrived);
    record->owner = request->owner;
    how.owner = request->owner;
    if (ok && !request->refused[0])
        choose_machine(job, request, examine->candidates, record, &how);
    if (ok && !request->refused[0])
        ok = (heal_is_due(record) ? heal_job : admit_job)(job, &how, record, &inspection,
                                                          &out->err);
    if (ok && request->refused[0])
        ok = reject(job, request, request->refused, out);
    else if (!ok && is_of_job(&out->err)) {
        struct error why = out->err;

        error_clear(&out->err);
        ok = reject(job, request, why.text, out);
    }
    if (!ok)
        block(job, record, &out->err);
    out->edits = count_edits(&inspection.patch);
    find_barrier(&inspection.patch, out);
    inspect_clear(&inspection);
    return ok;
}

/* Return whether the file is the one that was complete. */
static bool is_requested(const struct job *job, const struct examine_request *request)
{
    char source[64];
    struct stat st;

    if (request->refused[0])
        return true;
    if (lstat(job->path, &st) != 0)
        return false;
    job_source(&st, source);
    return strcmp(source, request->source) == 0;
}

void claim_examine(const struct examine_request *request, const struct examine_how *how,
                   struct examine_result *out)
{
    struct job job;
    bool busy = false;
    int lock = -1;

    out->end = EXAMINE_FAULT;
    job_init(&job, request->name);
    if (job_make_dir(&job, &out->err) && job_check_dir(&job, geteuid(), &out->err) &&
        (!request->own || group_share(job.run_dir, how->group, &out->err)))
        lock = job_lock(&job, &busy, &out->err);
    if (busy)
        out->end = EXAMINE_BUSY;
    else if (lock >= 0 && !job_keep_lock(&job, lock, false, &out->err))
        out->end = EXAMINE_FAULT; /* it may take long to read the data */
    else if (lock >= 0 && !is_requested(&job, request))
        out->end = EXAMINE_CHANGED;
    else if (lock >= 0 && claim_locked(&job, request, how, out))
        out->end = EXAMINE_DONE;

    if (lock >= 0)
        job_unlock(&job, lock);
    job_clear(&job);
}
