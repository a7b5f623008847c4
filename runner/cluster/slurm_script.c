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
void slurm_script_options(const struct plan *plan, struct text *out)
{
    const struct plan_slurm *slurm = &plan->slurm;

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
              "#SBATCH --signal=B:TERM@%" PRId64 "\n",
              margin(plan));
}

static void add_words(struct text *out, const char *before, const char *const *words)
{
    for (; *words; words++) {
        text_addf(out, " \\\n%s", before);
        add_quoted(out, *words);
    }
}

static void add_variables(struct text *out, const char *before, const char *name,
                          const char *run_dir)
{
    text_addf(out, "%sname=", before);
    add_quoted(out, name);
    text_addf(out, "\n%srun=", before);
    add_quoted(out, run_dir);
    text_addc(out, '\n');
}

/* Each task has a name, a folder and a command of its own.  The number of a task is not
 * SLURM_JOB_ID: one of them has that of the array. */
static void add_tasks(struct text *out, const struct slurm_script_tasks *tasks)
{
    text_adds(out, "# Another array took the place of this one.\nid=$(cat ");
    add_quoted(out, tasks->id);
    text_adds(out,
              " 2>/dev/null)\n"
              "[ \"${id:-$SLURM_ARRAY_JOB_ID}\" = \"$SLURM_ARRAY_JOB_ID\" ] || exit 0\n"
              "self=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\n"
              "case $SLURM_ARRAY_TASK_ID in\n");
    for (size_t i = 0; i < tasks->count; i++) {
        const struct slurm_script_task *task = &tasks->list[i];

        text_addf(out, "%zu)\n", i);
        add_variables(out, "    ", task->name, task->run_dir);
        text_adds(out, "    set --");
        add_words(out, "        ", task->words);
        text_adds(out, "\n    ;;\n");
    }
    text_adds(out, "esac\n");
}

/* What the ranks print goes next to their job. */
static void add_output(struct text *out, const struct slurm_script *script)
{
    if (script->tasks)
        text_adds(out, "exec >>\"$run/slurm.log\" 2>&1\n");
    text_adds(out, "cd ");
    add_quoted(out, script->dir);
    text_adds(out, " || exit 75\n\n");
}

static void add_command(struct text *out, const struct slurm_script *script)
{
    text_adds(out, "srun --kill-on-bad-exit=1");
    if (script->plan->slurm.cpus_per_task > 0)
        text_addf(out, " --cpus-per-task=%" PRId64, script->plan->slurm.cpus_per_task);
    if (script->tasks)
        text_adds(out, " \"$@\"");
    else
        add_words(out, "    ", script->words);
    text_adds(out, " &\n");
}

static void add_head(struct text *out, const struct slurm_script *script)
{
    text_adds(out, "#!/bin/sh\n");
    add_option(out, "job-name", script->name);
    if (script->tasks)
        text_addf(out, "#SBATCH --array=0-%zu\n", script->tasks->count - 1);
    slurm_script_options(script->plan, out);
    /* the tasks of an array have one name */
    if (!script->tasks)
        text_adds(out, "#SBATCH --dependency=singleton\n");
    text_adds(out, "\n# Written by trainspool.\n");
}

void slurm_script_write(const struct slurm_script *script, struct text *out)
{
    add_head(out, script);
    if (script->tasks) {
        add_tasks(out, script->tasks);
    } else {
        add_variables(out, "", script->name, script->run_dir);
        text_adds(out, "self=$SLURM_JOB_ID\n");
    }
    text_adds(out,
              "\n# Another submission took the place of this one, or the job was "
              "canceled.\n"
              "[ \"$(head -n 1 \"$run/lease\" 2>/dev/null)\" = \"$name\" ] || exit 0\n"
              "TRAINSPOOL_START=$(date +%s).$$.$SLURM_JOB_ID\n"
              "export TRAINSPOOL_START\n"
              "# The job is done, and Slurm was asked to start it again.\n"
              "[ \"$(cat \"$run/slurm.exit\" 2>/dev/null)\" != \"$name 0\" ] || exit "
              "0\n"
              "rm -f \"$run/slurm.exit\"\n");
    add_output(out, script);
    /* a trap runs only while the shell waits; scancel signals steps, not this script */
    text_adds(
        out,
        "# Slurm signals this shell; the ranks save a checkpoint and end. (srun would kill\n"
        "# them at a SIGTERM of its own.)\n"
        "stop=\n"
        "end() { stop=yes; scancel --signal=TERM \"$self\"; }\n"
        "trap end TERM\n");
    add_command(out, script);
    text_adds(
        out,
        "step=$!\n"
        "[ -z \"$stop\" ] || end\n"
        "while :; do\n"
        "    wait \"$step\"\n"
        "    status=$?\n"
        "    kill -0 \"$step\" 2>/dev/null || break\n"
        "done\n"
        "# Rank 0 did not note how it ended; if another start has the lease, that one does so.\n"
        "case $(cat \"$run/lease\" 2>/dev/null) in\n"
        "\"$name\" | \"$name\n"
        "$TRAINSPOOL_START \"*) ;;\n"
        "*) exit \"$status\" ;;\n"
        "esac\n"
        "[ -e \"$run/slurm.exit\" ] || echo \"$name $status\" >\"$run/slurm.exit\"\n"
        "exit \"$status\"\n");
}
