/*
 * runner/train_main.c - trainspool-train: one job, one device, one process (plus one for
 * each further rank). Drivers, models and data are used only here and never in
 * trainspool, which must not crash.
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/stop.h"
#include "kernels/backend.h"
#include "patcher/document/document.h"
#include "runner/attempt.h"
#include "runner/calibrate.h"
#include "runner/cluster/world.h"
#include "runner/count_steps.h"
#include "runner/generation/generation.h"
#include "runner/handover.h"
#include "runner/job/job_variables.h"
#include "runner/job/launched_ranks.h"
#include "runner/job/ranks.h"
#include "runner/output/report.h"
#include "runner/options/options_help.h"

static const struct command train_command = {
    .name = "",
    .operands = "JOB",
    .min_operands = 0,
    .max_operands = 1,
    .options =
        (const enum option_id[]) {
            OPTION_RESUME,  OPTION_PROBE,     OPTION_MEASURE,      OPTION_STEPS,
            OPTION_SET,     OPTION_CALIBRATE, OPTION_FROZEN,       OPTION_DIGEST,
            OPTION_ROOT,    OPTION_SPOOLED,   OPTION_LOCK_FD,      OPTION_LEASE,
            OPTION_THREADS, OPTION_RANK,      OPTION_ZERO_STAGE,   OPTION_LINK_FD,
            OPTION_GROUP,   OPTION_GENERATE,  OPTIONS_OF_GENERATE, OPTION_END },
    .help = "train one job in this process",
    .details =
        "trainspool run and trainspool watch start this program.  It follows the "
        "job file and never edits it.  On SIGTERM and SIGINT it finishes the step, "
        "saves a checkpoint and exits; another signal more than 2 s later ends it "
        "at once.",
};

static void probe_here(const char *requested, struct probe *out)
{
    *out = (struct probe) { 0 };
    probe_cpu(&out->devices[0]);
    out->count = 1 + backend_devices(requested, out->devices + 1, PROBE_MAX - 1,
                                     out->note, sizeof(out->note));
}

static int print_probe(void)
{
    struct probe probe;
    struct text out;

    probe_here("cuda", &probe);
    backend_examine(probe.devices + 1, probe.count - 1);
    text_init(&out, 0);
    probe_write(&probe, &out);
    fwrite(out.data, 1, out.len, stdout);
    text_clear(&out);
    return EXIT_FINE;
}

static int print_free(const char *list)
{
    struct device devices[DEVICE_RANKS_MAX];
    size_t count = probe_read_buses(list, devices, DEVICE_RANKS_MAX);
    struct text out;

    if (count == 0 || !backend_measure(devices, count))
        return EXIT_SYSTEM;
    text_init(&out, 0);
    probe_write_free(devices, count, &out);
    fwrite(out.data, 1, out.len, stdout);
    text_clear(&out);
    return EXIT_FINE;
}

static int print_page(const struct options *options)
{
    struct text out;

    text_init(&out, 0);
    if (options->version)
        text_addf(&out, "%s %s\n", options->program, PACKAGE_VERSION);
    else
        options_help(options->program, &train_command, &out);
    fwrite(out.data, 1, out.len, stdout);
    text_clear(&out);
    return EXIT_FINE;
}

/* Read the text of the job, before anything else. A job that cannot be read is reported by
 * the function that reads it next. */
static void read_text(const char *operand, bool frozen, struct text *out)
{
    struct job job;

    job_init(&job, operand);
    text_init(out, DOCUMENT_MAX_BYTES);
    file_read(frozen ? job.frozen : job.path, DOCUMENT_MAX_BYTES, out, NULL, NULL);
    job_clear(&job);
}

/* Return the device that the job requests, before the device is probed; malloc'ed. */
static char *requested_by_job(const char *operand, bool frozen)
{
    struct text text;
    char *requested;

    read_text(operand, frozen, &text);
    requested = machine_requested(text.data, text.len);
    text_clear(&text);
    return requested;
}

static void take_variables(const struct options *options, char **argv)
{
    struct text text;

    read_text(options->operands[0], options->frozen, &text);
    job_variables_apply(text.data, text.len, argv);
    text_clear(&text);
}

/* Open a device of this machine; those of the table cannot train. Probe only GPUs that
 * may be used: other processes may be working on the others. */
static bool open_machine(const struct options *options, struct machine *machine,
                         struct error *err)
{
    bool named = options->device && strcmp(options->device, "auto") != 0;
    char *requested = named ? memory_strdup(options->device)
                      : options->operand_count == 0
                          ? memory_strdup("auto")
                          : requested_by_job(options->operands[0], options->frozen);
    const struct device *devices[DEVICE_RANKS_MAX];
    size_t count;

    *machine = (struct machine) { .whole = options->spooled };
    probe_here(requested, &machine->probe);
    free(requested);
    if (!named)
        return true;
    count = probe_select(&machine->probe, options->device, 1, devices, err);
    if (count == 0)
        return false;
    if (count > 1) /* a watch chose them: the ranks take them from the probe */
        return true;
    machine->named = true;
    machine->device = *devices[0];
    return true;
}

/* Return whether the process does no more than print something: it needs no time to
 * stop. */
static bool is_query(const struct options *options)
{
    return options->help || options->version || options->probe || options->measure ||
           options->steps || options->calibrate;
}

/* Return whether this process trains, and rank 0 did not start it. */
static bool may_hand_over(const struct options *options)
{
    return !is_query(options) && !options->generate && options->rank == 0 &&
           options->operand_count > 0;
}

/* Return whether a launcher, and not a watch, may have started this process; srun starts
 * the ranks of a submission, which have a lease. */
static bool may_be_launched(const struct options *options)
{
    return may_hand_over(options) && (!options->spooled || options->lease);
}

static int train(const struct options *options, struct error *err)
{
    volatile sig_atomic_t *stop = NULL;
    struct machine machine;
    struct world world = { .size = 1, .local_size = 1, .nodes = 1 };

    if (is_query(options) || options->generate)
        stop_ignore_none();
    else
        stop = stop_catch();

    if (options->calibrate) {
        if (open_machine(options, &machine, err))
            return calibrate_print(options, &machine, err);
    } else if (options->operand_count == 0)
        error_set(err, ERROR_USAGE, "no job given; see %s --help", options->program);
    else if (may_hand_over(options) && handover_is_due(options))
        return handover_run(options, stop, err);
    else if ((!may_be_launched(options) || world_read(&world, err)) &&
             open_machine(options, &machine, err))
        return world.rank > 0
                   ? launched_ranks_follow(options, &world, &machine, stop, err)
               : options->rank > 0 ? ranks_follow(options, &machine, err)
               : options->generate ? generation_run(options, &machine, err)
               : options->steps    ? count_steps(options, &machine)
                                   : attempt_run(options, &machine, &world, stop, err);
    report_error(options->program, err);
    return report_exit(err->code);
}

/* A query has a limit of its own, not that of the process that asks, and ends with it. */
static void prepare_query(void)
{
    limits_lift();
    limits_end_with(getppid());
}

/* Exit without exit handlers once everything is written. A driver's handlers may wait for
 * a GPU that is lost or hangs, while the lock of the job is held. */
static void exit_at_once(int status)
{
    fflush(NULL);
    _exit(status);
}

int main(int argc, char **argv)
{
    static const char program[] = "trainspool-train";
    struct options options;
    struct error err = { 0 };
    int status;

    signal(SIGPIPE, SIG_IGN);    /* a run outlives the reader of its output */
    prctl(PR_SET_NAME, program); /* a start by /proc/self/exe changes it */
    if (!options_read(argc, argv, program, &train_command, &options, &err)) {
        report_error(program, &err);
        status = report_exit(err.code);
    } else if (options.generate && !options.help && !options.version) {
        options.program = "trainspool"; /* messages come from trainspool generate */
        status = train(&options, &err);
    } else if (options.help || options.version) {
        status = print_page(&options);
    } else {
        if (is_query(&options))
            prepare_query();
        else if (options.frozen)
            memory_set_status(EXIT_NO_MEMORY);
        if (!is_query(&options) && options.operand_count > 0 && options.rank == 0)
            take_variables(&options, argv);
        status = options.probe     ? print_probe()
                 : options.measure ? print_free(options.measure)
                                   : train(&options, &err);
    }
    /* a run continues without its output, and a generation checks it separately */
    if (is_query(&options))
        status = report_flush(program, status);
    if (err.code == ERROR_DEVICE || err.code == ERROR_CARD || err.code == ERROR_CONTEXT)
        exit_at_once(status);
    options_clear(&options);
    return status;
}
