/* runner/commands/cmd_retry.c - retry: queues an ended job again. */
#include "config.h"

#include "runner/commands/commands.h"

#include <stdlib.h>

#include "base/file.h"
#include "runner/commands/job_change.h"
#include "runner/spool/spool.h"

static int cmd_retry(const struct options *options);

const struct command command_retry = {
    .name = "retry",
    .operands = "JOB...",
    .min_operands = 1,
    .max_operands = -1,
    .help = "queue an ended job again",
    .details = "A finished job starts from scratch; any other continues from its last "
               "checkpoint if its text is the same.",
    .run = cmd_retry,
};

static void describe_queued(const struct job *job, struct text *sentence)
{
    char *dir = path_dir(job->path);

    text_adds(sentence, "queued again");
    if (!spool_is_watched(dir))
        text_addf(sentence, "; no watch is running on %s yet: trainspool watch %s", dir,
                  dir);
    free(dir);
}

static bool retry(const struct job *job, struct job_record *record, struct text *sentence,
                  struct error *err)
{
    /* a crash that is not recorded yet */
    if (record->state == JOB_RUNNING &&
        !job_event(job, record, EVENT_GAVE_UP, "trainspool-train vanished", err))
        return false;
    /* a finished job starts from scratch, any other resumes */
    record->resume = record->state != JOB_DONE;
    if (job_next(record->state, EVENT_RETRIED) == JOB_INVALID) {
        text_addf(sentence, "is already %s", job_state_names[record->state]);
        return true;
    }
    job_forget(job);
    describe_queued(job, sentence);
    return job_event(job, record, EVENT_RETRIED, NULL, err);
}

static bool retry_running(const struct job *job, struct text *sentence, struct error *err)
{
    (void)job;
    (void)err;
    text_adds(sentence, "is already running");
    return true;
}

static int cmd_retry(const struct options *options)
{
    static const struct job_change change = { retry, retry_running };

    return job_change_all(&change, options);
}
