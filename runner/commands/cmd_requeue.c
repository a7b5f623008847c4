/*
 * runner/commands/cmd_requeue.c - requeue: a running job stops at a checkpoint and goes
 * to the end of the queue; an ended job runs again, too.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include "base/clock.h"
#include "runner/commands/queue_again.h"
#include "runner/job/gate.h"
#include "runner/job/submitted.h"

static int cmd_requeue(const struct options *options);

const struct command command_requeue = {
    .name = "requeue",
    .operands = "JOB|DIR...",
    .min_operands = 1,
    .max_operands = -1,
    .options = (const enum option_id[]) { OPTION_STATE, OPTION_HOLD, OPTION_DRY_RUN,
                                          OPTION_END },
    .help = "put a running or ended job at the end of the queue",
    .details =
        "A running job stops after a checkpoint and continues from there when its "
        "turn comes again.  A finished job starts from scratch; any other continues "
        "from its last checkpoint if its text is the same.  With --state, all jobs of a "
        "folder that are in one of these states.",
    .run = cmd_requeue,
};

static bool hold_first(const struct job *job, const struct options *options,
                       struct error *err)
{
    return !options->hold || options->dry_run || gate_hold(job, NULL, err);
}

static bool requeue(const struct job *job, struct job_record *record,
                    struct job_answer *answer, struct error *err)
{
    bool ended = !gate_matters(record->state);

    if (ended && !hold_first(job, answer->options, err))
        return false;
    if (ended)
        record->arrived = clock_wall();
    return queue_again(job, record, answer, err);
}

static bool requeue_running(const struct job *job, struct job_answer *answer,
                            struct error *err)
{
    const char *would = answer->options->dry_run ? "would" : "will";
    const bool dry = answer->options->dry_run, waits = submitted_waits(job);

    answer->changed = dry || (hold_first(job, answer->options, err) &&
                              job_request(job, REQUEST_REQUEUE, err));
    if (waits)
        text_addf(&answer->sentence, "%s leave Slurm's queue and be %s", would,
                  answer->options->hold ? "held" : "submitted again");
    else
        text_addf(&answer->sentence,
                  "%s stop after this step, with a checkpoint, and be queued again%s",
                  would, answer->options->hold ? ", held" : "");
    return answer->changed;
}

static int cmd_requeue(const struct options *options)
{
    static const struct job_change change = { "queued again", true, requeue,
                                              requeue_running };

    return job_change_all(&change, options);
}
