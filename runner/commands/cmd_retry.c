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
    .operands = "JOB|DIR...",
    .min_operands = 1,
    .max_operands = -1,
    .options = (const enum option_id[]) { OPTION_STATE, OPTION_DRY_RUN, OPTION_END },
    .help = "queue an ended job again",
    .details = "A finished job starts from scratch; any other continues from its last "
               "checkpoint if its text is the same.  With --state, all jobs of a folder "
               "that are in one of these states.",
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

/* Record a crash that is not recorded yet. */
static bool settle(const struct job *job, struct job_record *record, bool dry,
                   struct error *err)
{
    if (record->state != JOB_RUNNING)
        return true;
    if (!dry)
        return job_event(job, record, EVENT_GAVE_UP, "trainspool-train vanished", err);
    record->state = JOB_FAILED;
    return true;
}

static bool retry(const struct job *job, struct job_record *record,
                  struct job_answer *answer, struct error *err)
{
    bool dry = answer->options->dry_run;

    if (!settle(job, record, dry, err))
        return false;
    /* a finished job starts from scratch, any other resumes */
    record->resume = record->state != JOB_DONE;
    answer->changed = job_next(record->state, EVENT_RETRIED) != JOB_INVALID;
    if (!answer->changed) {
        text_addf(&answer->sentence, "is already %s", job_state_names[record->state]);
        return true;
    }
    if (dry) {
        text_adds(&answer->sentence, "would be queued again");
        return true;
    }
    job_forget(job);
    describe_queued(job, &answer->sentence);
    return job_event(job, record, EVENT_RETRIED, NULL, err);
}

static bool retry_running(const struct job *job, struct job_answer *answer,
                          struct error *err)
{
    (void)job;
    (void)err;
    text_adds(&answer->sentence, "is already running");
    return true;
}

static int cmd_retry(const struct options *options)
{
    static const struct job_change change = { "queued again", retry, retry_running };

    return job_change_all(&change, options);
}
