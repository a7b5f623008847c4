/*
 * runner/commands/cmd_cancel.c - cancel: ends a waiting job under its lock; a running job
 * ends after a checkpoint.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include "base/digest.h"
#include "base/file.h"
#include "patcher/document/document.h"
#include "runner/commands/job_change.h"
#include "runner/job/submitted.h"

static int cmd_cancel(const struct options *options);

const struct command command_cancel = {
    .name = "cancel",
    .operands = "JOB|DIR...",
    .min_operands = 1,
    .max_operands = -1,
    .options = (const enum option_id[]) { OPTION_STATE, OPTION_DRY_RUN, OPTION_END },
    .help = "end a waiting job at once, a running job after a checkpoint",
    .details = "With --state, all jobs of a folder that are in one of these states.",
    .run = cmd_cancel,
};

/* Record the text that is canceled: a watch that has not read it yet must not take it
 * for a new job. */
static bool note_text(const struct job *job, struct job_record *record, struct error *err)
{
    struct stat st;
    struct text text;
    bool ok;

    text_init(&text, DOCUMENT_MAX_BYTES);
    ok = file_read(job->path, DOCUMENT_MAX_BYTES, &text, &st, err);
    if (ok) {
        job_source(&st, record->source);
        digest_bytes(text.data, text.len, record->digest);
    }
    text_clear(&text);
    return ok;
}

static bool record_cancel(const struct job *job, struct job_record *record,
                          struct error *err)
{
    bool crashed = record->state == JOB_RUNNING; /* and nothing recorded that yet */

    record->resume |= crashed;
    return ((record->state != JOB_NEW && record->state != JOB_BLOCKED) ||
            note_text(job, record, err)) &&
           job_event(job, record, EVENT_CANCELLED,
                     crashed ? "canceled" : "canceled before it ran", err);
}

/* The state cannot be written for now: leave a request, which the watch records later. */
static bool leave_request(const struct job *job, const struct error *why,
                          struct text *sentence, struct error *err)
{
    text_addf(sentence, "will not run; its state follows when the fault is over: %s",
              why->text);
    return job_request(job, REQUEST_CANCEL, err);
}

static bool cancel(const struct job *job, struct job_record *record,
                   struct job_answer *answer, struct error *err)
{
    struct text *sentence = &answer->sentence;
    struct error why = { 0 };

    answer->changed = job_next(record->state, EVENT_CANCELLED) != JOB_INVALID;
    if (!answer->changed) {
        text_addf(sentence, "is %s, there is nothing to cancel",
                  job_state_names[record->state]);
        return true;
    }
    if (answer->options->dry_run || record_cancel(job, record, &why)) {
        text_adds(sentence, answer->options->dry_run ? "would be canceled" : "canceled");
        return true;
    }
    answer->changed = why.code == ERROR_FAULT && leave_request(job, &why, sentence, err);
    return answer->changed || error_set(err, why.code, "%s", why.text);
}

static bool cancel_running(const struct job *job, struct job_answer *answer,
                           struct error *err)
{
    const bool dry = answer->options->dry_run, waits = submitted_waits(job);

    answer->changed = dry || job_request(job, REQUEST_CANCEL, err);
    text_addf(&answer->sentence, "%s %s", dry ? "would" : "will",
              waits ? "leave Slurm's queue" : "end after this step, with a checkpoint");
    return answer->changed;
}

static int cmd_cancel(const struct options *options)
{
    static const struct job_change change = { "canceled", false, cancel, cancel_running };

    return job_change_all(&change, options);
}
