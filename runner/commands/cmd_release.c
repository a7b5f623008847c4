/* runner/commands/cmd_release.c - release: a held job may start again. */
#include "config.h"

#include "runner/commands/commands.h"

#include <fcntl.h>

#include "runner/commands/job_change.h"
#include "runner/job/gate.h"

static int cmd_release(const struct options *options);

const struct command command_release = {
    .name = "release",
    .operands = "JOB|DIR...",
    .min_operands = 1,
    .max_operands = -1,
    .options = (const enum option_id[]) { OPTION_STATE, OPTION_DRY_RUN, OPTION_END },
    .help = "let a held job start",
    .details = "With --state held, all held jobs of a folder.",
    .run = cmd_release,
};

static bool release(const struct job *job, struct job_answer *answer, struct error *err)
{
    bool dry = answer->options->dry_run;
    struct gate gate;

    if (!gate_read(AT_FDCWD, job->run_dir, &gate, err))
        return false;
    if (gate.kind != GATE_HELD) {
        text_adds(&answer->sentence, "is not held");
        return true;
    }
    answer->changed = dry || gate_release(job, err);
    text_adds(&answer->sentence, dry ? "would be released" : "released");
    return answer->changed;
}

static bool release_waiting(const struct job *job, struct job_record *record,
                            struct job_answer *answer, struct error *err)
{
    (void)record;
    return release(job, answer, err);
}

static int cmd_release(const struct options *options)
{
    static const struct job_change change = { "released", false, release_waiting,
                                              release };

    return job_change_all(&change, options);
}
