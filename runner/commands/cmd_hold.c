/* runner/commands/cmd_hold.c - hold: a job does not start until it is released. */
#include "config.h"

#include "runner/commands/commands.h"

#include <fcntl.h>

#include "runner/commands/job_change.h"
#include "runner/job/gate.h"
#include "runner/job/submitted.h"

static int cmd_hold(const struct options *options);

const struct command command_hold = {
    .name = "hold",
    .operands = "JOB|DIR...",
    .min_operands = 1,
    .max_operands = -1,
    .options = (const enum option_id[]) { OPTION_STATE, OPTION_REASON, OPTION_DRY_RUN,
                                          OPTION_END },
    .help = "keep a waiting job from starting until it is released",
    .details = "With --state, all jobs of a folder that are in one of these states.",
    .run = cmd_hold,
};

static bool hold(const struct job *job, struct job_record *record,
                 struct job_answer *answer, struct error *err)
{
    struct gate gate;

    /* a job that crashed is about to wait again */
    if (!gate_matters(record->state) && record->state != JOB_RUNNING) {
        text_addf(&answer->sentence, "is %s, there is nothing to hold",
                  job_state_names[record->state]);
        return true;
    }
    if (!gate_read(AT_FDCWD, job->run_dir, &gate, err))
        return false;
    if (gate.kind == GATE_HELD) {
        text_addf(&answer->sentence, "is already %s", gate.reason);
        return true;
    }
    /* a watch that starts later takes it out of Slurm's queue */
    answer->changed = answer->options->dry_run ||
                      (gate_hold(job, answer->options->reason, err) &&
                       (!submitted_is_left(job) || job_requested(job) != REQUEST_NONE ||
                        job_request(job, REQUEST_REQUEUE, err)));
    text_adds(&answer->sentence, answer->options->dry_run ? "would be held" : "held");
    return answer->changed;
}

static bool hold_running(const struct job *job, struct job_answer *answer,
                         struct error *err)
{
    const bool dry = answer->options->dry_run;

    if (!submitted_waits(job)) {
        text_adds(&answer->sentence, "is running; requeue --hold stops and holds it");
        return true;
    }
    answer->changed = dry || (gate_hold(job, answer->options->reason, err) &&
                              job_request(job, REQUEST_REQUEUE, err));
    text_addf(&answer->sentence, "%s leave Slurm's queue, held", dry ? "would" : "will");
    return answer->changed;
}

static int cmd_hold(const struct options *options)
{
    static const struct job_change change = { "held", false, hold, hold_running };

    return job_change_all(&change, options);
}
