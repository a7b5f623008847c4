/*
 * runner/commands/cmd_run.c - run: patches and freezes a job, then trains it in a child
 * on this terminal. The child is a separate process so that its crash can be reported;
 * signals are passed on to it.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/group.h"
#include "base/spawn.h"
#include "base/stop.h"
#include "patcher/document/document.h"
#include "runner/cluster/world.h"
#include "runner/commands/dry_run.h"
#include "runner/job/child_environment.h"
#include "runner/job/heal.h"
#include "runner/job/host_ranks.h"
#include "runner/job/launched.h"
#include "runner/job/record.h"
#include "runner/page/page.h"
#include "runner/output/report.h"
#include "runner/spool/worker.h"

static int cmd_run(const struct options *options);

const struct command command_run = {
    .name = "run",
    .operands = "JOB",
    .min_operands = 1,
    .max_operands = 1,
    .options = (const enum option_id[]) { OPTION_NO_PATCH, OPTION_RESUME, OPTION_SET,
                                          OPTION_NO_ONEDNN, OPTION_NO_SANDBOX,
                                          OPTION_GROUP, OPTION_DRY_RUN, OPTION_END },
    .help = "patch a job, then train it in the foreground",
    .details =
        "SIGTERM and Ctrl-C finish the step, save a checkpoint and exit; --resume "
        "continues from there.  Another one more than 2 s later ends at once.\n\n"
        "With --dry-run, nothing is written: it prints the batch script of a job that "
        "Slurm runs, and only that.",
    .run = cmd_run,
};

/* Block the signals that end a run, and the one that reports the child's end. */
static void block_signals(sigset_t *set)
{
    stop_signals(set);
    sigaddset(set, SIGCHLD);
    sigprocmask(SIG_BLOCK, set, NULL);
}

/* Ctrl-C also reaches the child, from the terminal (the kernel); kill(1) reaches only us,
 * timeout(1) both. Pass on the first signal and one that asks to
 * end at once. */
static int wait_for(struct child *child, const sigset_t *set)
{
    struct stop_request stop = { 0 };
    siginfo_t info;
    int status;

    while (!child_reap(child, false, &status)) {
        bool first = !stop.number;

        if (sigwaitinfo(set, &info) < 0 || info.si_signo == SIGCHLD)
            continue;
        if ((stop_request_add(&stop, info.si_signo) || first) &&
            info.si_code != SI_KERNEL)
            child_signal(child, info.si_signo == SIGHUP ? SIGTERM : info.si_signo);
    }
    return status;
}

/* Record the state that a crashed child could not write. A child that exited wrote its
 * state. */
static int record_end(const struct job *job, const struct options *options, int status)
{
    struct job_record record;
    struct error err = { 0 };

    if (!worker_record_end(job, &(struct worker_end) { .status = status }, &record,
                           &err)) {
        report_error(options->program, &err);
        return EXIT_SYSTEM;
    }
    if (WIFEXITED(status) && !child_met_memory(status))
        return WEXITSTATUS(status);
    /* the child could not write it; it may have died before it began */
    page_write(job, NULL, NULL);
    if (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM) {
        error_set(&err, ERROR_STOPPED,
                  "%s: ended at once; trainspool run --resume continues from the last "
                  "checkpoint",
                  job->path);
        report_error(options->program, &err);
        return 128 + WTERMSIG(status);
    }
    error_set(&err, ERROR_DIVERGED,
              "%s: %s; trainspool run --resume continues from the last checkpoint",
              job->path, record.reason);
    report_error(options->program, &err);
    return report_training_exit(err.code);
}

/* Train once, in a child that inherits the lock, and return the exit status. */
static int train(const struct job *job, const struct options *options,
                 const struct world *world, const struct job_record *record, int lock)
{
    char *program = spawn_sibling("trainspool-train");
    struct child_start start = { .program = program,
                                 .job = job,
                                 .lock = lock,
                                 .digest = record->frozen,
                                 .resume = options->resume,
                                 .launched = world->size > 1,
                                 .options = options };
    struct child child;
    struct error err = { 0 };
    sigset_t set;
    bool ok;
    int status;

    block_signals(&set);
    fflush(stdout);
    ok = child_start(&start, &child, &err);
    free(program);
    if (ok)
        job_pass_lock(job, lock);
    else
        job_unlock(job, lock);
    if (!ok) {
        report_error(options->program, &err);
        return EXIT_SYSTEM;
    }
    status = wait_for(&child, &set);
    return record_end(job, options, status);
}

static void say_waits_for(const char *host)
{
    fprintf(stderr,
            "trainspool: %s has the lock of the job; waiting for a sign of life\n", host);
}

static bool lock_job(const struct job *job, const char *group, int *lock,
                     struct error *err)
{
    char host[65];
    bool busy = false;
    gid_t gid;

    if (!group_open(group, &gid, err) || !job_make_dir(job, err) ||
        !group_share(job->run_dir, gid, err))
        return false;
    *lock = job_lock_patiently(job, say_waits_for, &busy, err);
    if (busy) {
        job_holder(job, host);
        error_set(err, ERROR_SYSTEM,
                  "job %s is already running%s%s; trainspool status shows it", job->path,
                  host[0] ? " on " : "", host);
    }
    /* the check may have to read much */
    if (*lock >= 0 && !job_keep_lock(job, *lock, false, err)) {
        job_unlock(job, *lock);
        *lock = -1;
    }
    return *lock >= 0;
}

/* ---- Healing ---- */

static void show_patch(const struct options *options, const struct inspection *inspection)
{
    struct report report;

    report_init(&report, options);
    report_findings(&report, &inspection->patch);
    if (inspection->patch.findings.count > 0)
        report_summary(&report, &inspection->patch);
}

/* Patch a job that met a problem. Return whether it is ready again; *lock is then held. */
static bool heal(const struct job *job, const struct options *options,
                 struct job_record *record, int *lock)
{
    struct machine machine;
    const struct admit_options how = { .machine = &machine };
    struct inspection inspection = { 0 };
    struct error err = { 0 };
    bool ok;

    *lock = -1;
    if (!job_read(job, record, &err) || !heal_is_due(record))
        return false;
    ok = machine_open(NULL, &machine, &err) &&
         lock_job(job, options->group, lock, &err) &&
         heal_job(job, &how, record, &inspection, &err);
    if (ok && record->state == JOB_READY)
        show_patch(options, &inspection);
    else if (ok)
        error_set(&err, ERROR_JOB, "%s: %s", job->path, record->reason);
    if (err.code)
        report_error(options->program, &err);
    inspect_clear(&inspection);
    ok = ok && record->state == JOB_READY;
    if (!ok && *lock >= 0)
        job_unlock(job, *lock);
    return ok;
}

/* The other ranks of a launcher end with the first attempt. */
static int train_and_heal(const struct job *job, const struct options *options,
                          const struct world *world, const struct job_record *ready,
                          int lock)
{
    struct job_record record = *ready;
    int status;

    do
        status = train(job, options, world, &record, lock);
    while (world->size == 1 && heal(job, options, &record, &lock));
    return status;
}

/* Of several ranks that a launcher started, check the job for the device of this one. */
static bool fit_world(const struct job *job, const struct world *world,
                      struct machine *machine, struct error *err)
{
    struct text text;
    bool ok;

    if (world->size == 1)
        return true;
    text_init(&text, DOCUMENT_MAX_BYTES);
    ok = file_read(job->path, DOCUMENT_MAX_BYTES, &text, NULL, err) &&
         launched_agree(world, &text, err) &&
         launched_machine(world, &text, machine, err);
    text_clear(&text);
    return ok;
}

/* A run starts from scratch even if checkpoints exist; only --resume continues from a
 * checkpoint. Write nothing before the command line is known to be valid. */
static bool claim(const struct job *job, const struct options *options,
                  const struct world *world, int *lock, struct inspection *inspection,
                  struct job_record *record, struct error *err)
{
    struct machine machine;
    struct admit_options how = { .machine = &machine,
                                 .set = options->set,
                                 .launched = world->size > 1,
                                 .no_patch = options->no_patch,
                                 .resume = options->resume };

    record_init(record);
    record->resume = options->resume;
    if (!file_exists(job->path))
        return error_set(err, ERROR_DATA, "there is no job %s", job->path);
    if (file_is_dir(job->path))
        return error_set(err, ERROR_DATA, "%s is a directory; name a file in it",
                         job->path);
    return machine_open(NULL, &machine, err) && fit_world(job, world, &machine, err) &&
           admit_settings_are_valid(job, &how, err) &&
           lock_job(job, options->group, lock, err) &&
           admit_job(job, &how, record, inspection, err);
}

/* Let go of a job that does not run. */
static void leave(const struct job *job, const struct world *world, int lock)
{
    if (lock < 0)
        return;
    if (world->size > 1)
        launched_dismiss(world, job, NULL);
    job_unlock(job, lock);
}

static int run(const struct job *job, const struct options *options,
               const struct world *world)
{
    struct error err = { 0 };
    struct report report;
    struct inspection inspection = { 0 };
    struct job_record record;
    int lock = -1, status;

    report_init(&report, options);
    if (!claim(job, options, world, &lock, &inspection, &record, &err)) {
        report_error(options->program, &err);
        leave(job, world, lock);
        inspect_clear(&inspection);
        return report_exit(err.code);
    }
    report_findings(&report, &inspection.patch);
    if (inspection.patch.findings.count > 0)
        report_summary(&report, &inspection.patch);
    if (record.state == JOB_READY) {
        status = train_and_heal(job, options, world, &record, lock);
    } else {
        leave(job, world, lock);
        status = inspection.patch.is_job ? EXIT_FINDINGS : EXIT_NO_JOB;
    }
    inspect_clear(&inspection);
    return status;
}

extern char **environ;

/* Become trainspool-train, with the environment that rank 0 gives its own; it waits for what
 * rank 0 sends. */
static int follow(const struct options *options)
{
    char *program = spawn_sibling("trainspool-train");
    const char *const words[] = { program, "--", options->operands[0], NULL };
    struct error err = { 0 };

    execve(program, (char *const *)words,
           options->no_sandbox ? environ : child_environment_of_rank());
    error_errno(&err, "cannot start %s", program);
    report_error(options->program, &err);
    free(program);
    return report_exit(err.code);
}

/* Rank 0 of a launcher: run with the settings of --set and of the world. */
static int run_launched(const struct job *job, const struct options *options,
                        const struct world *world)
{
    struct options own = *options;
    char ranks[48], nodes[48];
    const char **set;
    size_t count = 0;
    int status;

    while (options->set && options->set[count])
        count++;
    set = memory_alloc((count + 3) * sizeof(*set));
    if (count > 0)
        memcpy(set, options->set, count * sizeof(*set));
    snprintf(ranks, sizeof(ranks), "trainspool.ranks=%d", world->size);
    snprintf(nodes, sizeof(nodes), "trainspool.nodes=%d", world->nodes);
    set[count] = ranks;
    set[count + 1] = nodes;
    own.set = set;
    status = run(job, &own, world);
    free(set);
    return status;
}

/* Start the ranks of this machine, one of several. */
static int run_host(const struct host *host, const struct options *options)
{
    struct error err = { 0 };
    int ranks, status;

    if (!host_ranks_count(host, options->operands[0], &ranks, &err)) {
        report_error(options->program, &err);
        return report_exit(err.code);
    }
    status = host_ranks_run(host, ranks, options, &err);
    if (err.code)
        report_error(options->program, &err);
    return status;
}

static int cmd_run(const struct options *options)
{
    struct error err = { 0 };
    struct world world;
    struct host host;
    struct job job;
    int status;

    if (!world_read(&world, &err) || !host_read(&host, &err)) {
        report_error(options->program, &err);
        return report_exit(err.code);
    }
    if (options->dry_run)
        return world.rank > 0 || host.index > 0 ? EXIT_FINE : dry_run_of_run(options);
    /* a rank has the variables of its machine, too */
    if (!world.launcher && host.launcher)
        return run_host(&host, options);
    if (world.rank > 0)
        return follow(options);
    job_init(&job, options->operands[0]);
    status =
        world.size > 1 ? run_launched(&job, options, &world) : run(&job, options, &world);
    job_clear(&job);
    return status;
}
