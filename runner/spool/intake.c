/* runner/spool/intake.c - decides what a name in the spool is and what to do with it. */
#include "config.h"

#include "runner/spool/intake.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "patcher/history/journal.h"
#include "runner/job/gate.h"
#include "runner/job/submitted.h"
#include "runner/spool/elsewhere.h"
#include "runner/spool/worker.h"

/* Seconds. */
static const double again_after_fault = DROP_RETRY_SECONDS, again_while_held = 1,
                    again_after_change = 0.2, again_while_examined = 0.02,
                    again_while_full = 1, again_after_hang = 60, patience = 600;

/* Check the item again later, also if its file stays as it is; log a new reason once. */
static void put_off(struct intake *intake, struct item *item, const struct error *why,
                    double seconds)
{
    double now = clock_seconds();

    if (!item->trouble || strcmp(item->trouble, why->text) != 0) {
        log_line(intake->log, LOG_ERROR, "%s: %s; trying again every %g s", item->name,
                 why->text, seconds);
        item->since = item->trouble ? item->since : now;
        free(item->trouble);
        item->trouble = memory_strdup(why->text);
    }
    item->blocked =
        why->code != ERROR_FAULT || now - item->since >= DROP_PATIENCE_SECONDS;
    item->known[0] = 0;
    item->due = now + seconds;
}

static void forget_trouble(struct item *item)
{
    free(item->trouble);
    item->trouble = NULL;
    item->blocked = false;
}

struct placement_need intake_need(const struct job_record *record)
{
    struct placement_need need = { .capability = (int)record->capability,
                                   .ranks = record->ranks,
                                   .threads = record->threads,
                                   .memory = record->memory > 0 ? (uint64_t)record->memory
                                                                : 0 };

    snprintf(need.wanted, sizeof(need.wanted), "%s", record->wanted);
    return need;
}

/* after: seconds from now */
static void queue_job(struct intake *intake, const struct item *item,
                      const struct job_record *record, bool left, double after)
{
    queue_add(&intake->queue,
              &(struct queued) { .name = item->name,
                                 .user = item->user,
                                 .priority = record->priority,
                                 .arrived = record->arrived,
                                 .not_before = clock_seconds() +
                                               fmax(worker_retry_delay(record), after),
                                 .tried = item->tried,
                                 .left = left,
                                 .examined = item->fit == FIT_EXAMINED,
                                 .waiting.need = intake_need(record) });
}

/* ---- What keeps a job from starting ---- */

struct pending {
    const struct waiters *waiters;
    struct gate *gate;
};

static bool note_pending(void *context, const char *name)
{
    const struct pending *pending = context;
    struct gate *gate = pending->gate;

    if (!waiters_await(pending->waiters, name))
        return true;
    gate->kind = GATE_AFTER;
    snprintf(gate->waits_for, sizeof(gate->waits_for), "%s", name);
    snprintf(gate->reason, sizeof(gate->reason), "waits for job %.200s", name);
    return false;
}

static void log_gate(const struct intake *intake, struct item *item,
                     const struct job *job, const struct gate *gate)
{
    if (item->gate == gate->kind)
        return;
    if (gate->kind != GATE_OPEN)
        log_line(intake->log, LOG_INFO, "job %s: %s", job->name, gate->reason);
    else if (item->gate == GATE_HELD)
        log_line(intake->log, LOG_INFO, "job %s: released", job->name);
    item->gate = gate->kind;
}

/* Queue the job if nothing keeps it from starting; the worker checks that again. A job that
 * it waits for is not what it was if a check of its file is due. */
static void queue_open(struct intake *intake, struct item *item, const struct job *job,
                       const struct job_record *record)
{
    struct gate gate;
    struct pending pending = { &intake->waiters, &gate };
    const bool left = submitted_is_left(job);

    gate_read(AT_FDCWD, job->run_dir, &gate, NULL);
    if (gate.kind == GATE_OPEN)
        gate_each_job(job->run_dir, note_pending, &pending);
    item->finish = gate.kind == GATE_OPEN && record->sweep > 0;
    if (gate.kind == GATE_AFTER || gate.kind == GATE_SWEEP)
        waiters_add(&intake->waiters, item, gate.waits_for);
    else
        waiters_remove(&intake->waiters, item);
    if ((left || gate.kind == GATE_OPEN || gate.kind == GATE_BEGIN) && record->sweep == 0)
        queue_job(intake, item, record, left,
                  !left && gate.kind == GATE_BEGIN ? gate.seconds - clock_wall() : 0);
    else
        queue_remove(&intake->queue, item->name);
    log_gate(intake, item, job, &gate);
}

void intake_find(struct intake *intake, struct item *item)
{
    if (item->found)
        return;
    item->found = true;
    intake->found = memory_resize(intake->found, intake->found_count + 1, sizeof(char *));
    intake->found[intake->found_count++] = memory_strdup(item->name);
}

static bool is_healing(const struct job_record *record)
{
    return record->state == JOB_NEW && record->ailment[0];
}

void intake_find_running(struct intake *intake, struct item *item)
{
    struct job_record record;
    struct stat st;
    struct job job;

    if (fstatat(intake->dir, item->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    item->user = drop_user(intake->dir, st.st_uid);
    job_init(&job, item->name);
    if (job_check_dir(&job, item->user, NULL)) {
        if (job_is_locked(&job) && !intake->nodes) /* else its state says who runs it */
            intake_find(intake, item);
        else if (intake->people->limits.queued >= 0 && job_read(&job, &record, NULL))
            item_count(item, intake->people,
                       record.state == JOB_READY || record.state == JOB_RUNNING ||
                           is_healing(&record));
    }
    job_clear(&job);
}

static void note_end(const struct intake *intake, const struct job *job,
                     const struct job_record *record)
{
    if (intake->ended)
        intake->ended(intake->ended_context, job->path, record);
}

/* A text, and the record that may be about it. */
struct comparison {
    struct item *item;
    const struct job *job;
    const struct drop *drop;
    struct job_record record;
};

/* Record the end of a job that nothing runs: a crash, or a request to cancel it. */
static bool settle(struct intake *intake, const struct comparison *text,
                   struct job_record *record, struct error *err)
{
    const struct job *job = text->job;
    const enum job_state before = record->state;
    const struct worker_end crash = { .status = -1, .forgive = true };
    const bool locked = before == JOB_RUNNING && job_is_locked(job);
    struct user_scope scope;
    bool ok, canceled = before == JOB_READY && job_requested(job) == REQUEST_CANCEL;

    if (canceled && !nodes_lead(intake->nodes))
        elsewhere_leave(intake, text->item);
    if (before == JOB_RUNNING)
        elsewhere_runs(intake, text->item, job, record, locked);
    if (text->item->elsewhere || locked || (!canceled && before != JOB_RUNNING))
        return true;
    ok = user_enter(text->item->user, &scope, err) &&
         worker_record_end(job, &crash, record, err);
    user_leave(&scope);
    if (intake->nodes && record->state == JOB_RUNNING) /* of another node by now */
        elsewhere_leave(intake, text->item);
    if (!ok || record->state == before) /* another process has the lock */
        return ok;
    canceled = record->state == JOB_STOPPED;
    log_line(intake->log, canceled ? LOG_INFO : LOG_WARN, "job %s: %s: %s", job->name,
             canceled ? "stopped" : "crashed", record->reason);
    note_end(intake, job, record);
    return true;
}

static void leave_queue(struct intake *intake, struct item *item)
{
    waiters_remove(&intake->waiters, item);
    if (item->counted) /* else a worker finds that it is not ready */
        queue_remove(&intake->queue, item->name);
    item_count(item, intake->people, false);
    item->returns = false;
    item->gate = GATE_OPEN;
}

/* Continue a job whose text is known, according to its state. */
static bool follow(struct intake *intake, const struct comparison *text,
                   struct job_record *record, struct error *err)
{
    const struct job *job = text->job;

    if (text->item->current) /* its worker settles it */
        return true;
    if (!settle(intake, text, record, err))
        return false;
    if (record->state == JOB_READY) {
        if (!item_may_wait(text->item, intake->people, err))
            return false;
        queue_open(intake, text->item, job, record);
        return true;
    }
    leave_queue(intake, text->item);
    if (record->state == JOB_RUNNING && !text->item->elsewhere)
        intake_find(intake, text->item);
    return true;
}

static void log_admission(struct intake *intake, const struct job *job,
                          const struct examine_result *result)
{
    const struct job_record *record = &result->record;

    if (result->barred[0])
        log_line(intake->log, LOG_WARN, "job %s: %s", job->name, result->barred);
    if (record->state == JOB_READY)
        log_line(intake->log, LOG_INFO, "job %s: ready, %zu edit%s made", job->name,
                 result->edits, result->edits == 1 ? "" : "s");
    else
        log_line(intake->log,
                 record->state == JOB_STOPPED || record->state == JOB_DONE ? LOG_INFO
                                                                           : LOG_WARN,
                 "job %s: %s: %s", job->name, job_state_names[record->state],
                 record->reason);
}

static void schedule_flush(struct intake *intake, struct item *item)
{
    if (item->flush)
        return;
    item->flush = true;
    item->next_flush = intake->flush;
    intake->flush = item;
}

static bool find_job(void *context, const char *name)
{
    struct intake *intake = context;
    char file[NAME_MAX + 1];

    snprintf(file, sizeof(file), "%s.yaml", name);
    intake->waiters.found(intake->waiters.context, file);
    return true;
}

/* The job is admitted or rejected, and its record is on disk. */
static void take_in(struct intake *intake, struct item *item, const struct job *job,
                    const struct examine_result *result)
{
    item_note_known(item, job, result->record.source);
    item->news = true;
    if (result->record.state == JOB_READY)
        item_count(item, intake->people, true);
    else
        leave_queue(intake, item);
    log_admission(intake, job, result);
    intake->failures +=
        result->record.state == JOB_REJECTED || result->record.state == JOB_FAILED;
    if (result->record.state != JOB_READY) {
        note_end(intake, job, &result->record);
        return;
    }
    queue_open(intake, item, job, &result->record);
    if (result->record.sweep > 0) /* their events may come later */
        gate_each_of_sweep(job->run_dir, find_job, intake);
    schedule_flush(intake, item);
}

static void make_request(const struct intake *intake, const struct comparison *text,
                         struct examine_request *out)
{
    const struct item *item = text->item;
    const struct drop *drop = text->drop;

    *out = (struct examine_request) { .arrived = (double)drop->st.st_ctim.tv_sec +
                                                 (double)drop->st.st_ctim.tv_nsec / 1e9,
                                      .waits = intake->others || intake->current > 0 ||
                                               intake->found_count ||
                                               queue_count(&intake->queue) > 0,
                                      .owner = drop->st.st_uid,
                                      .user = drop->user,
                                      .own = user_is_own(drop->user),
                                      .suspect = item->suspect };
    snprintf(out->name, sizeof(out->name), "%s", item->name);
    snprintf(out->source, sizeof(out->source), "%s", item->history.source);
    snprintf(out->refused, sizeof(out->refused), "%s", drop->reason);
    record_stamp(&text->record, &out->seen);
    if (intake->candidates)
        candidates_order(intake->candidates, &intake->queue, out->order);
}

static void note_fault(struct intake *intake, struct item *item,
                       const struct examine_result *result)
{
    item->suspect |= result->late;
    put_off(intake, item, &result->err,
            result->late ? again_after_hang : again_after_fault);
}

static void note_busy(struct intake *intake, struct item *item, const struct job *job)
{
    struct error err = { 0 };

    item->due = clock_seconds() + again_while_held;
    if (submitted_waits(job)) {
        if (submitted_withdraw(job, item->user, &err))
            log_line(intake->log, LOG_INFO,
                     "job %s: a new text takes the place of the one in Slurm's queue",
                     job->name);
        else if (err.code && !item->reported)
            log_line(intake->log, LOG_ERROR, "job %s: %s", job->name, err.text);
        item->reported |= err.code != ERROR_NONE;
        return;
    }
    if (!item->reported)
        log_line(intake->log, LOG_INFO, "job %s: %s", job->name,
                 file_exists(job->run_dir)
                     ? "a new text waits until the run ends"
                     : "its folder is gone; waiting for its process to end");
    item->reported = true;
}

/* Send the job to an examiner, or ask for the answer to an earlier request. Return true
 * if the job was handled; otherwise check it again later. */
static bool examine(struct intake *intake, struct item *item, const struct job *job,
                    const struct examine_request *request)
{
    struct examine_result result;
    bool waited = item->examined;
    enum examine_answer answer =
        examiners_ask(intake->examiners, request, intake->until, &result);

    item->examined = answer == EXAMINERS_WORK;
    if (answer != EXAMINERS_ANSWERED) {
        item->due = clock_seconds() +
                    (answer == EXAMINERS_FULL ? again_while_full : again_while_examined);
        return false;
    }
    if (result.end == EXAMINE_FAULT) {
        note_fault(intake, item, &result);
        return false;
    }
    if (result.end == EXAMINE_CHANGED) {
        item->due = clock_seconds() + again_after_change;
        return false;
    }
    if (result.end == EXAMINE_BUSY) {
        note_busy(intake, item, job);
        return false;
    }
    item->suspect = false;
    item->fit = item->fit == FIT_UNKNOWN ? FIT_EXAMINED : FIT_KNOWN;
    forget_trouble(item);
    take_in(intake, item, job, &result);
    item->due = 0;
    /* events of the meantime were not handled: check once more */
    return !waited && !item->finish;
}

/* A job that a patch remedies has waited before: a worker had it. */
static bool claim(struct intake *intake, struct item *item, const struct job *job,
                  const struct comparison *text)
{
    struct examine_request request;
    const bool healing = item->returns && is_healing(&text->record);

    if (!nodes_lead(intake->nodes)) {
        elsewhere_leave(intake, item);
        return false;
    }
    make_request(intake, text, &request);
    if (!request.refused[0] && !item->counted &&
        (healing || people_may_queue(intake->people, item->user, request.refused)))
        item_count(item, intake->people, true);
    item->returns = false;
    return examine(intake, item, job, &request);
}

/* Ask for the answer about a job that an examiner works on. */
static bool ask_again(struct intake *intake, struct item *item)
{
    struct examine_request request = { .suspect = item->suspect, .user = item->user };
    struct job job;
    bool done;

    snprintf(request.name, sizeof(request.name), "%s", item->name);
    job_init(&job, item->name);
    done = examine(intake, item, &job, &request);
    job_clear(&job);
    return done;
}

/* Find out whether the record is about this text. */
static bool compare_text(int dir, const struct comparison *text, bool *known,
                         struct error *err)
{
    const struct job_record *record = &text->record;
    char digest[65];

    *known = false;
    if (record->state == JOB_NEW || record->state == JOB_BLOCKED)
        return true;
    *known = record->source[0] && strcmp(record->source, text->item->history.source) == 0;
    if (*known || text->drop->reason[0])
        return true;
    if (!drop_digest(dir, text->item->name, text->drop, digest, err))
        return false;
    *known = strcmp(digest, record->digest) == 0;
    /* an undo after the end is not a new job; for a rejected job it may be the fix */
    return *known || record->state == JOB_REJECTED ||
           journal_names(text->job->path, digest, known, err);
}

static bool handle(struct intake *intake, struct item *item, const struct job *job,
                   const struct drop *drop)
{
    struct comparison text = { .item = item, .job = job, .drop = drop };
    struct error err = { 0 };
    bool known = false;
    bool ok;

    elsewhere_forget(intake, item);
    ok = job_read(job, &text.record, &err) &&
         compare_text(intake->dir, &text, &known, &err);

    if (ok && !known && item->current) { /* the lock may be free: the folder is new */
        note_busy(intake, item, job);
        return false;
    }
    if (ok && (!known || item->fit == FIT_UNKNOWN))
        return claim(intake, item, job, &text);
    ok = ok && follow(intake, &text, &text.record, &err);
    if (ok && item->finish) {
        item->finish = false;
        return claim(intake, item, job, &text);
    }
    if (ok)
        item_note_known(item, job, item->history.source);
    else if (err.code == ERROR_DATA) /* the file changed while it was read */
        item->due = clock_seconds() + again_after_change;
    else
        put_off(intake, item, &err, again_after_fault);
    return ok && !item->elsewhere;
}

/* Return whether the state is about this very file; then it need not be waited for. */
static bool is_recorded(const struct item *item, const struct job *job)
{
    struct job_record record;

    return job_read(job, &record, NULL) && record.state != JOB_NEW && record.source[0] &&
           strcmp(record.source, item->history.source) == 0;
}

/* Report a second job of the same name once; the next scan checks again. */
static bool is_duplicate(struct intake *intake, struct item *item)
{
    struct error err = { 0 };

    if (path_run_is_free(item->name, &err))
        return false;
    if (!item->reported)
        log_line(intake->log, LOG_WARN, "%s", err.text);
    intake->failures += !item->reported;
    item->reported = true;
    return true;
}

/* Report once that a file has been incomplete for long; keep waiting for it. */
static void log_waiting(const struct intake *intake, struct item *item, double now)
{
    if (item->reported || now - item->history.first < patience)
        return;
    item->reported = true;
    log_line(intake->log, LOG_WARN,
             "%s: still incomplete after %g minutes: a process keeps writing to it",
             item->name, patience / 60);
}

static bool handle_name(struct intake *intake, struct item *item)
{
    double now = clock_seconds();
    enum drop_verdict verdict;
    struct drop drop;
    struct job job;
    bool done;

    if (item->examined)
        return ask_again(intake, item);
    verdict = drop_inspect(intake->dir, item->name, now, &item->history, &drop);
    fault_clear();
    item->gone = verdict == DROP_GONE;
    if (verdict == DROP_GONE || is_duplicate(intake, item)) {
        waiters_remove(&intake->waiters, item); /* it is checked when it comes back */
        /* a job in the queue starts all the same */
        item_count(item, intake->people,
                   item->counted && queue_has(&intake->queue, item->name));
        elsewhere_forget(intake, item);
        forget_trouble(item);
        return true;
    }
    if (drop.fault.code || !fault_none(&drop.fault)) {
        put_off(intake, item, &drop.fault, again_after_fault);
        return false;
    }
    item->user = drop.user;
    job_init(&job, item->name);
    if (!job_check_dir(&job, item->user, &drop.fault)) {
        put_off(intake, item, &drop.fault, again_after_fault);
        done = false;
    } else if (item_is_unchanged(item, &job)) {
        done = true;
    } else if (verdict == DROP_WAIT && !is_recorded(item, &job)) {
        log_waiting(intake, item, now);
        item->due = now + drop.again;
        done = false;
    } else {
        done = handle(intake, item, &job, &drop);
        item->news = true;
    }
    if (done)
        forget_trouble(item);
    job_clear(&job);
    return done;
}

bool intake_handle(struct intake *intake, struct item *item)
{
    bool done = handle_name(intake, item);

    if (!done || (!item->news && !item->awaited))
        return done;
    item->news = item->awaited = false;
    waiters_wake(&intake->waiters, item);
    return true;
}

void intake_flush(struct intake *intake)
{
    while (intake->flush) {
        struct item *item = intake->flush;
        struct error err = { 0 };
        struct job job;

        job_init(&job, item->name);
        if (!job_flush(&job, &err))
            log_line(intake->log, LOG_ERROR, "job %s: %s", job.name, err.text);
        job_clear(&job);
        item->flush = false;
        intake->flush = item->next_flush;
    }
}

void intake_clear(struct intake *intake)
{
    examiners_free(intake->examiners);
    intake->examiners = NULL;
    queue_clear(&intake->queue);
    waiters_clear(&intake->waiters);
    for (size_t i = 0; i < intake->found_count; i++)
        free(intake->found[i]);
    free(intake->found);
    intake->found = NULL;
    intake->found_count = intake->current = 0;
    intake->flush = NULL;
}
