/* runner/attempt_end.c - how an attempt ended: its record, its last lines, its status. */
#include "config.h"

#include "runner/attempt_internal.h"

#include <inttypes.h>

#include "base/clock.h"
#include "runner/ending.h"
#include "runner/job/heal.h"
#include "runner/job/record.h"

/* Report the end of a run that did not fail. */
static void report_success(struct attempt *attempt, const struct ending *ending)
{
    const struct ending_run run = { .job = &attempt->job,
                                    .plan = &attempt->inspection.patch.plan,
                                    .step = attempt->record.step,
                                    .advanced = attempt->record.step != attempt->first,
                                    .warnings = attempt->warnings };
    struct text line;

    text_init(&line, 0);
    ending_describe(ending, &run, &line);
    report_line(&attempt->report, "%s", line.data);
    text_clear(&line);
}

/* Report the end last; the state is on disk before. */
static void report_ending(struct attempt *attempt, const struct ending *ending,
                          const struct error *err)
{
    bool bad = ending->event == EVENT_EXIT_BAD || ending->event == EVENT_CRASHED ||
               ending->paused || ending->ailment;
    struct error late = { 0 };

    if (bad || !ending->reason[0])
        log_line(attempt->log, bad ? LOG_ERROR : LOG_INFO,
                 "job %s: %s at step %" PRId64 "%s%s", attempt->job.name,
                 job_event_names[ending->event], attempt->record.step, bad ? ": " : "",
                 ending->reason);
    else
        log_line(attempt->log, LOG_INFO, "job %s: %s", attempt->job.name, ending->reason);
    if (attempt->options->spooled)
        return;
    if (bad && attempt->timed_out && err->code == ERROR_STOPPED)
        error_set(&late, ERROR_STOPPED, "%s: %s", attempt->job.path, ending->reason);
    if (bad && err->code)
        report_error(attempt->options->program, late.code ? &late : err);
    else if (!bad && !attempt->options->quiet)
        report_success(attempt, ending);
}

/* A job that has not begun stays ready, with the reason. */
static bool record_ending(struct attempt *attempt, const struct ending *ending,
                          struct error *err)
{
    struct job_record *record = &attempt->record;

    if (attempt->request == REQUEST_REQUEUE) /* the jobs that wait go before it */
        record->arrived = clock_wall();
    if (ending->ailment)
        return heal_begin(&attempt->job, record, ending->ailment, ending->reason,
                          attempt->bad_from, err);
    if (!ending->paused || record->state != JOB_READY)
        return job_event(&attempt->job, record, ending->event, ending->reason, err);
    record_set_text(record->reason, sizeof(record->reason), ending->reason);
    return job_write(&attempt->job, record, false, err);
}

static void find_ending(const struct attempt *attempt, bool done, const struct error *err,
                        struct ending *out)
{
    const struct job_record *record = &attempt->record;
    const struct ending_facts facts = { .spooled = attempt->options->spooled,
                                        .launched = attempt->world->size > 1,
                                        .timed_out = attempt->timed_out,
                                        .waits = attempt->waits,
                                        .advanced = record->step > attempt->first,
                                        .heals = record->state == JOB_RUNNING &&
                                                 heal_is_left(record),
                                        .retries = record->crashes < record->max_retries,
                                        .signal = *attempt->stop,
                                        .request = attempt->request };

    ending_find(&facts, done ? NULL : err, out);
}

/* The process that follows a submission needs to know why a job is ready again; the watch
 * removes the request before the next start. */
static bool leaves_request(const struct attempt *attempt)
{
    return attempt->options->lease && attempt->options->spooled &&
           attempt->record.state == JOB_READY;
}

int attempt_finish(struct attempt *attempt, bool done, struct error *err)
{
    struct ending ending;
    struct error lost = { 0 };

    meter_close(&attempt->meter);
    if (!done) /* a request may have arrived since the last beat */
        attempt_check_requests(attempt);
    containment_explain(&attempt->containment, err);
    attempt_check_time(attempt);
    find_ending(attempt, done, err, &ending);
    if (ending.event == EVENT_EXIT_OK) {
        attempt->record.resume = false;
        /* an attempt that found the last checkpoint had no step left to report */
        attempt->record.step = attempt->record.total;
    }
    /* a request stays until its effect is on disk */
    if (record_ending(attempt, &ending, &lost)) {
        if (!leaves_request(attempt))
            job_forget(&attempt->job);
    } else {
        report_error(attempt->options->program, &lost);
        ending.status = ending_status(attempt->options->spooled, lost.code);
    }
    report_ending(attempt, &ending, err);
    attempt_write_page(attempt);
    return ending.status;
}

int attempt_refuse(struct attempt *attempt, const struct error *err)
{
    report_error(attempt->options->program, err);
    log_line(attempt->log, LOG_ERROR, "job %s: %s", attempt->job.name, err->text);
    return ending_status(attempt->options->spooled, err->code);
}

int attempt_end_lost(struct attempt *attempt)
{
    struct error err = { 0 };

    meter_close(&attempt->meter);
    if (attempt->options->lease)
        error_set(&err, ERROR_SYSTEM,
                  "%s: another submission or start has taken its place, or it was "
                  "canceled; this one ended at step %" PRId64 ", which is not saved",
                  attempt->job.path, attempt->record.step);
    else
        error_set(&err, ERROR_SYSTEM,
                  "%s: %s was removed or renamed while the job ran; the job ended at "
                  "step %" PRId64 ", which is not saved",
                  attempt->job.path, attempt->job.run_dir, attempt->record.step);
    return attempt_refuse(attempt, &err);
}
