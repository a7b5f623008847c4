/* runner/commands/cmd_retry.c - retry: queues an ended job again. */
#include "config.h"

#include "runner/commands/commands.h"

#include "runner/commands/queue_again.h"
#include "runner/job/submitted.h"

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

static bool retry_running(const struct job *job, struct job_answer *answer,
                          struct error *err)
{
    (void)err;
    text_adds(&answer->sentence, submitted_waits(job) ? "already waits in Slurm's queue"
                                                      : "is already running");
    return true;
}

static int cmd_retry(const struct options *options)
{
    static const struct job_change change = { "queued again", true, queue_again,
                                              retry_running };

    return job_change_all(&change, options);
}
