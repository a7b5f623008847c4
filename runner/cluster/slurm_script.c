/* runner/cluster/slurm_script.c - the batch script of a job. */
#include "config.h"

#include "runner/cluster/slurm.h"

#include <inttypes.h>

#include "patcher/schema/slurm_values.h"

/* Quote a word for the shell. */
static void add_quoted(struct text *out, const char *word)
{
    text_addc(out, '\'');
    for (; *word; word++)
        if (*word == '\'')
            text_adds(out, "'\\''");
        else
            text_addc(out, *word);
    text_addc(out, '\'');
}

static void add_option(struct text *out, const char *name, const char *value)
{
    if (value)
        text_addf(out, "#SBATCH --%s=%s\n", name, value);
}

/* Time for a checkpoint: two minutes, or a tenth of a short limit. */
static int64_t margin(const struct plan *plan)
{
    int64_t limit;

    if (!plan->slurm.time || !slurm_is_time(plan->slurm.time, &limit))
        return 120;
    return limit >= 1200 ? 120 : limit / 10 + 1;
}

/* The values were checked: they have no spaces and no control characters. */
static void add_options(const struct slurm_script *script, struct text *out)
{
    const struct plan *plan = script->plan;
    const struct plan_slurm *slurm = &plan->slurm;

    add_option(out, "job-name", script->name);
    text_addf(out, "#SBATCH --nodes=%" PRId64 "\n", plan->nodes > 1 ? plan->nodes : 1);
    text_addf(out, "#SBATCH --ntasks=%zu\n", plan_ranks(plan));
    text_addf(out, "#SBATCH --ntasks-per-node=%zu\n", plan_local_ranks(plan));
    if (slurm->cpus_per_task > 0)
        text_addf(out, "#SBATCH --cpus-per-task=%" PRId64 "\n", slurm->cpus_per_task);
    add_option(out, "partition", slurm->partition);
    add_option(out, "account", slurm->account);
    add_option(out, "qos", slurm->qos);
    add_option(out, "reservation", slurm->reservation);
    add_option(out, "constraint", slurm->constraint);
    add_option(out, "gres", slurm->gres);
    add_option(out, "mem", slurm->mem);
    add_option(out, "time", slurm->time);
    text_addf(out,
              "#SBATCH --requeue\n"
              "#SBATCH --open-mode=append\n"
              "#SBATCH --signal=B:TERM@%" PRId64 "\n"
              "#SBATCH --dependency=singleton\n",
              margin(plan));
}

void slurm_script_write(const struct slurm_script *script, struct text *out)
{
    text_adds(out, "#!/bin/sh\n");
    add_options(script, out);
    text_adds(out, "\n# Written by trainspool.\nname=");
    add_quoted(out, script->name);
    text_adds(out, "\nrun=");
    add_quoted(out, script->run_dir);
    text_adds(out,
              "\n\n# Another submission took the place of this one, or the job was "
              "canceled.\n"
              "[ \"$(cat \"$run/lease\" 2>/dev/null)\" = \"$name\" ] || exit 0\n"
              "# The job is done, and Slurm was asked to start it again.\n"
              "[ \"$(cat \"$run/slurm.exit\" 2>/dev/null)\" != \"$name 0\" ] || exit 0\n"
              "rm -f \"$run/slurm.exit\"\ncd ");
    add_quoted(out, script->dir);
    /* a trap runs only while the shell waits; scancel signals steps, not this script */
    text_adds(
        out,
        " || exit 75\n\n"
        "# Slurm signals this shell; the ranks save a checkpoint and end. (srun would kill\n"
        "# them at a SIGTERM of its own.)\n"
        "stop=\n"
        "end() { stop=yes; scancel --signal=TERM \"$SLURM_JOB_ID\"; }\n"
        "trap end TERM\n"
        "srun --kill-on-bad-exit=1");
    if (script->plan->slurm.cpus_per_task > 0)
        text_addf(out, " --cpus-per-task=%" PRId64, script->plan->slurm.cpus_per_task);
    for (const char *const *word = script->words; *word; word++) {
        text_adds(out, " \\\n    ");
        add_quoted(out, *word);
    }
    text_adds(
        out, " &\nstep=$!\n"
             "[ -z \"$stop\" ] || end\n"
             "while :; do\n"
             "    wait \"$step\"\n"
             "    status=$?\n"
             "    kill -0 \"$step\" 2>/dev/null || break\n"
             "done\n"
             "[ -e \"$run/slurm.exit\" ] || echo \"$name $status\" >\"$run/slurm.exit\"\n"
             "exit \"$status\"\n");
}
