/*
 * runner/commands/cmd_pause.c - pause: a watched folder starts no job until it is
 * unpaused.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include <stdlib.h>

#include "base/file.h"
#include "runner/job/submitted.h"
#include "runner/output/report.h"
#include "runner/spool/listing.h"
#include "runner/spool/pause.h"
#include "runner/spool/spool.h"
#include "runner/spool/watch.h"

static int cmd_pause(const struct options *options);

const struct command command_pause = {
    .name = "pause",
    .operands = "DIR",
    .min_operands = 1,
    .max_operands = 1,
    .options =
        (const enum option_id[]) { OPTION_STOP_RUNNING, OPTION_REASON, OPTION_END },
    .help = "start no job of a folder until it is unpaused",
    .details = "Running jobs continue to their end, or with --stop until their next "
               "checkpoint, from which they continue after `trainspool unpause`.",
    .run = cmd_pause,
};

/* Return whether a process works on the job: it runs, or is about to. */
static bool is_active(const struct listed *listed)
{
    struct job job;
    bool active;

    if (listed->record.state != JOB_READY)
        return listed->running;
    job_init(&job, listed->path);
    active = job_is_locked(&job) || submitted_is_left(&job);
    job_clear(&job);
    return active;
}

static bool request_stop(const char *path, struct error *err)
{
    struct job job;
    bool ok;

    job_init(&job, path);
    /* a job that is to end is not to continue later */
    ok = job_requested(&job) != REQUEST_NONE || job_request(&job, REQUEST_PAUSE, err);
    job_clear(&job);
    return ok;
}

/* Jobs that a process works on. */
struct active {
    size_t running, submitted; /* submitted: they wait in Slurm */
};

static bool waits_in_slurm(const char *path)
{
    struct job job;
    bool waits;

    job_init(&job, path);
    waits = submitted_waits(&job);
    job_clear(&job);
    return waits;
}

/* Count what runs, and ask it to stop (stop). The pause is on disk: a job that starts at
 * this moment finds it, or is locked by now. */
static bool find_running(const char *dir, bool stop, struct active *out,
                         struct error *err)
{
    struct listing listing = { 0 };
    bool ok = listing_add_folder(&listing, dir, err);

    *out = (struct active) { 0 };
    for (size_t i = 0; ok && i < listing.count; i++) {
        struct listed listed;

        if (!listing_read(&listing, i, &listed))
            continue;
        if (is_active(&listed)) {
            *(waits_in_slurm(listed.path) ? &out->submitted : &out->running) += 1;
            ok = !stop || request_stop(listed.path, err);
        }
        listed_clear(&listed);
    }
    listing_clear(&listing);
    return ok;
}

/* Report what becomes of the jobs that a process works on. */
static void report_active(const struct options *options, const struct active *active,
                          struct report *report)
{
    const bool stop = options->stop_running;
    struct text line;

    text_init(&line, 0);
    if (active->running == 0)
        text_adds(&line, "no job runs");
    else
        text_addf(&line, "%zu running job%s will %s", active->running,
                  active->running == 1 ? "" : "s",
                  stop ? "stop after this step, with a checkpoint"
                       : "continue to the end");
    if (active->submitted > 0)
        text_addf(&line, "; %zu submitted job%s will %s", active->submitted,
                  active->submitted == 1 ? "" : "s",
                  stop ? "leave Slurm's queue"
                       : "start when Slurm does so (--stop takes them out of its queue)");
    report_line(report, "%s: paused; %s", options->operands[0], line.data);
    text_clear(&line);
}

static bool pause_spool(const struct options *options, const char *inner,
                        struct report *report, struct error *err)
{
    const char *dir = options->operands[0];
    struct active active;

    if (!file_is_dir(dir))
        return error_set(err, ERROR_USAGE, "%s is not a folder", dir);
    if (!pause_begin(inner, options->reason, err))
        return false;
    if (spool_is_watched(dir))
        watch_wake(inner);
    if (!find_running(dir, options->stop_running, &active, err))
        return false;
    if (!options->quiet)
        report_active(options, &active, report);
    return true;
}

static int cmd_pause(const struct options *options)
{
    char *inner = path_join(options->operands[0], SPOOL_INNER);
    struct report report;
    struct error err = { 0 };

    report_init(&report, options);
    if (!pause_spool(options, inner, &report, &err))
        report_error(options->program, &err);
    free(inner);
    return report_exit(err.code);
}
