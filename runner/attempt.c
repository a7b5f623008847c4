/* runner/attempt.c - connects the files next to a job with the trainer. */
#include "config.h"

#include "runner/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/fault.h"
#include "base/file.h"
#include "runner/attempt_internal.h"
#include "runner/job/heal.h"
#include "runner/job/launched.h"
#include "runner/job/launched_ranks.h"
#include "runner/job/run_summary.h"
#include "runner/job/run_manifest.h"
#include "runner/job/outputs.h"
#include "runner/job/record.h"
#include "runner/job/room.h"
#include "runner/page/page.h"
#include "runner/job/ranks.h"
#include "runner/lease.h"
#include "train/evaluation_only.h"
#include "train/merge.h"

/* state.json follows the steps, but is not rewritten for each of a thousand steps a
 * second. */
static const double state_seconds = 0.5;
/* It also follows the time, which a crash must not lose. */
static const double time_seconds = 5;
/* Largest share of a run's time that writing its page may take before the end. */
static const double page_share = 0.02;

/* Take the lock inherited from the parent, or lock the job here. */
static bool take_lock(struct attempt *attempt, struct error *err)
{
    bool busy = false;

    if (!job_make_dir(&attempt->job, err) ||
        (attempt->options->spooled && !job_check_dir(&attempt->job, geteuid(), err)))
        return false;
    if (attempt->options->lease) {
        lease_take_names(&attempt->job);
        attempt->lock_fd =
            lease_take(&attempt->job, attempt->options->lease, &attempt->lease, err);
        return attempt->lock_fd >= 0;
    }
    if (attempt->options->lock_fd >= 0) {
        attempt->lock_fd = (int)attempt->options->lock_fd;
        return job_keep_lock(&attempt->job, attempt->lock_fd, true, err);
    }
    attempt->lock_fd = job_lock(&attempt->job, &busy, err);
    if (busy)
        error_set(err, ERROR_SYSTEM, "job %s is already running", attempt->job.name);
    if (attempt->lock_fd >= 0)
        /* requested of the previous run; only later requests count */
        job_forget(&attempt->job);
    return attempt->lock_fd >= 0 &&
           job_keep_lock(&attempt->job, attempt->lock_fd, false, err);
}

static bool open_log(struct attempt *attempt, struct error *err)
{
    attempt->log_fd = job_open_log(&attempt->job, err);
    if (attempt->log_fd < 0)
        return false;
    attempt->log =
        log_new(attempt->log_fd, attempt->options->verbose ? LOG_DEBUG : LOG_INFO);
    return true;
}

/* The frozen text has the ranks and nodes that a launcher started. */
static bool fit_world(const struct attempt *attempt, struct text *text, struct error *err)
{
    struct arena *arena;
    bool ok;

    if (attempt->world->size == 1)
        return true;
    arena = arena_new();
    ok = launched_agree(attempt->world, text, err) &&
         launched_fit(attempt->world, arena, text, err);
    arena_free(arena);
    return ok;
}

/* A job that run or watch has not frozen becomes ready here: freeze its own text. */
static bool freeze(struct attempt *attempt, struct text *text, struct error *err)
{
    struct job_record *record = &attempt->record;
    bool resume = attempt->options->resume;

    record_init(record);
    attempt->before = 0;
    digest_bytes(text->data, text->len, record->digest);
    record->resume = resume;
    return fit_world(attempt, text, err) &&
           job_freeze(&attempt->job, text, true, record, err) &&
           job_event(&attempt->job, record, EVENT_ACCEPTED, NULL, err);
}

/* Of several ranks that a launcher started: choose the device of this one, and wait for the
 * others, which need the network. */
static bool meet_ranks(struct attempt *attempt, const struct text *text,
                       struct error *err)
{
    struct launched_start start = { .world = attempt->world,
                                    .options = attempt->options,
                                    .job = &attempt->job,
                                    .text = text,
                                    .stop = attempt->stop,
                                    .log = attempt->log };
    struct machine *own = &attempt->own_machine;

    if (attempt->world->size == 1)
        return true;
    *own = *attempt->machine;
    attempt->machine = attempt->containment.machine = start.machine = own;
    if (!launched_agree(attempt->world, text, err) ||
        !launched_machine(attempt->world, text, own, err))
        return false;
    attempt->called = true;
    return launched_ranks_meet(&start, &attempt->ranks, err);
}

static bool read_job(struct attempt *attempt, struct error *err)
{
    const struct options *options = attempt->options;
    const struct roots roots = { NULL, options->root, (uid_t)attempt->record.owner };
    struct inspect_options how = { .job = attempt->job.path,
                                   .will_run = true,
                                   .spooled = options->spooled,
                                   .roots = roots.list,
                                   .owner = roots.owner,
                                   .counts = true,
                                   .frozen = true,
                                   .origin = attempt->record.origin,
                                   .edit = INSPECT_AS_IS };
    struct text text;
    bool ok;

    text_init(&text, DOCUMENT_MAX_BYTES);
    ok = options->frozen
             ? job_read_frozen(&attempt->job, options->digest, &text, err)
             : file_read(attempt->job.path, DOCUMENT_MAX_BYTES, &text, NULL, err) &&
                   freeze(attempt, &text, err);
    ok = ok && (!options->spooled || outputs_check(&attempt->job, &text, &roots, err)) &&
         outputs_share(&attempt->job, &text, options->group, err);
    ok =
        ok && meet_ranks(attempt, &text, err) &&
        containment_enter(&attempt->containment, &attempt->job, &text, attempt->log, err);
    how.machine = attempt->machine;
    ok = ok && inspect_text(&how, text.data, text.len, &attempt->inspection, err);
    /* the share of the CPU that a watch gives to a job that does not say how many */
    if (ok && options->threads > 0 && attempt->inspection.patch.plan.threads == 0)
        attempt->inspection.patch.plan.threads = options->threads;
    if (ok && attempt->record.origin[0])
        attempt->inspection.patch.plan.job_digest = attempt->record.origin;
    text_clear(&text);
    return ok;
}

/* Report an error finding in a text that is no longer patched. */
static bool accept(struct attempt *attempt, struct error *err)
{
    const struct patch *patch = &attempt->inspection.patch;
    struct text reason;

    if (patch->has_plan && !patch_rejected(patch))
        return true;
    if (!attempt->options->spooled)
        report_findings(&attempt->report, patch);
    text_init(&reason, 0);
    report_reason(patch, &reason);
    error_set(err, ERROR_JOB, "%s: %s", attempt->job.path,
              reason.len ? reason.data : "the file is not a job");
    text_clear(&reason);
    return false;
}

/* Without its folder, the job could not record its end: another attempt may begin as soon
 * as this one ends. */
static void check_folder(struct attempt *attempt)
{
    attempt->lost =
        attempt->lost || file_was_replaced(attempt->lock_fd, attempt->job.lock) ||
        (attempt->options->lease && !lease_is_held(&attempt->job, &attempt->lease));
    if (attempt->lost && !*attempt->stop)
        *attempt->stop = SIGTERM;
}

/* Write the progress since the last time, but not too often; the next write may
 * succeed. */
static void write_progress(struct attempt *attempt)
{
    double now = clock_seconds();

    if (!attempt->unwritten || attempt->lost || now - attempt->written < state_seconds)
        return;
    check_folder(attempt);
    if (attempt->lost)
        return;
    attempt->written = now;
    attempt->unwritten = !job_write(&attempt->job, &attempt->record, false, NULL);
}

static void note_progress(struct attempt *attempt,
                          const struct trainer_progress *progress)
{
    struct job_record *record = &attempt->record;
    struct meter_reading reading = meter_read(&attempt->meter, progress);

    record->step = progress->step;
    record->total = progress->total;
    record->loss = progress->loss;
    record->seconds_left = meter_seconds_left(&reading);
    attempt->unwritten = true;
    write_progress(attempt);
}

void attempt_check_requests(struct attempt *attempt)
{
    attempt->request = job_requested(&attempt->job);
    if (attempt->request != REQUEST_NONE && !*attempt->stop)
        *attempt->stop = SIGTERM;
}

void attempt_check_time(struct attempt *attempt)
{
    double limit = attempt->inspection.patch.plan.timeout_seconds;
    double now = clock_seconds();

    attempt->record.seconds = attempt->before + now - attempt->started;
    attempt->unwritten |= now - attempt->written > time_seconds;
    if (limit <= 0 || attempt->record.seconds < limit || *attempt->stop)
        return;
    attempt->timed_out = true;
    *attempt->stop = SIGTERM;
}

static void on_beat(void *context)
{
    struct attempt *attempt = context;

    futimens(attempt->lock_fd, NULL); /* the sign of life that the watch looks for */
    check_folder(attempt);
    attempt_check_requests(attempt);
    attempt_check_time(attempt);
    write_progress(attempt);
}

static void on_progress(void *context, const struct trainer_progress *progress)
{
    struct attempt *attempt = context;

    meter_step(&attempt->meter, progress);
    note_progress(attempt, progress);
}

static void on_logged(void *context, const char *line)
{
    struct attempt *attempt = context;

    meter_log(&attempt->meter, line);
}

void attempt_write_page(struct attempt *attempt)
{
    double started = clock_seconds();
    struct error err = { 0 };

    if (!page_write(&attempt->job, NULL, &err))
        log_line(attempt->log, LOG_WARN, "report: %s", err.text);
    attempt->page_due = clock_seconds() + (clock_seconds() - started) / page_share;
}

static void on_milestone(void *context)
{
    struct attempt *attempt = context;

    check_folder(attempt);
    if (attempt->lost)
        return;
    job_write(&attempt->job, &attempt->record, false, NULL);
    if (clock_seconds() >= attempt->page_due)
        attempt_write_page(attempt);
}

static void on_opened(void *context, const struct run_info *facts)
{
    struct attempt *attempt = context;
    struct job_record *record = &attempt->record;
    struct error err = { 0 };

    record->step = attempt->first = facts->first;
    record->total = facts->steps;
    record->loss = facts->loss;
    heal_note_resumed(&attempt->job, record);
    if (!run_manifest_write(&attempt->job, &attempt->inspection.patch.plan, facts, &err))
        log_line(attempt->log, LOG_WARN, "run.json: %s", err.text);
}

/* Show a warning or an error of the log on the terminal; -q shows errors only. A spool's
 * jobs have no terminal. */
static void on_warning(void *context, enum log_level level, const char *message)
{
    struct attempt *attempt = context;
    const struct options *options = attempt->options;
    struct text line;

    attempt->warnings++;
    if (options->spooled || (options->quiet && level != LOG_ERROR))
        return;
    text_init(&line, 0);
    text_addf(&line, "%s: %s: %s", attempt->job.path,
              level == LOG_ERROR ? "error" : "warning", message);
    meter_note(&attempt->meter, stderr, line.data);
    text_clear(&line);
}

/* Start the other ranks of a job that has several, unless a launcher did; plan->device
 * becomes rank 0's. */
static bool start_ranks(struct attempt *attempt, struct error *err)
{
    struct plan *plan = &attempt->inspection.patch.plan;
    size_t count = plan_ranks(plan);
    struct device devices[DEVICE_RANKS_MAX];
    const struct ranks_start how = { .options = attempt->options,
                                     .job = &attempt->job,
                                     .log = attempt->log,
                                     .lock = attempt->lock_fd,
                                     .count = (int)count,
                                     .zero_stage = (int)plan->zero_stage,
                                     .devices = devices };

    if (attempt->world->size > 1)
        return launched_ranks_begin(&attempt->ranks, plan->zero_stage, err);
    if (count == 1)
        return true;
    if (!machine_devices(attempt->machine, plan->device_wanted, count, devices, err))
        return false;
    plan->device = devices[0];
    return ranks_start(&how, &attempt->ranks, err);
}

/* Die from the signal of a rank, so that the parent records a crash and retries. */
static void die_from_signal(struct attempt *attempt, int number)
{
    log_line(attempt->log, LOG_ERROR, "job %s: ending with the same signal as that rank",
             attempt->job.name);
    signal(number, SIG_DFL);
    raise(number);
}

static bool train_ranks(struct attempt *attempt, struct trainer_options *how,
                        struct error *err)
{
    struct ranks *ranks = &attempt->ranks;
    bool ok = start_ranks(attempt, err);
    int number;

    containment_close(&attempt->containment, attempt->log);
    if (attempt->world->size > 1)
        ranks->group.stop = attempt->stop;
    if (ok) {
        how->group = ranks->group.ranks > 1 ? &ranks->group : NULL;
        ok = trainer_run(&attempt->inspection.patch.plan, how, err);
    }
    /* launched ranks that have finished wait for the end of the attempt */
    if (attempt->world->size > 1 && (ok || err->code == ERROR_STOPPED))
        return ok;
    number = ranks_end(ranks, attempt->log);
    if (!ok && number)
        die_from_signal(attempt, number);
    return ok;
}

/* Train, or do what the job asks for instead. */
static bool work(struct attempt *attempt, struct trainer_options *how, struct error *err)
{
    const struct plan *plan = &attempt->inspection.patch.plan;
    bool ok;

    fault_clear();
    if (!plan_trains(plan))
        containment_close(&attempt->containment, attempt->log);
    ok = plan_merges(plan)           ? merge_run(plan, how, err)
         : plan_only_evaluates(plan) ? evaluation_only_run(plan, how, err)
                                     : train_ranks(attempt, how, err);
    if (!ok)
        fault_doubt(err);
    return ok;
}

static void note_containment(struct attempt *attempt)
{
    struct text text;

    text_init(&text, 0);
    containment_describe(&attempt->containment, &text);
    snprintf(attempt->record.contained, sizeof(attempt->record.contained), "%s",
             text.data);
    text_clear(&text);
}

static bool train(struct attempt *attempt, struct error *err)
{
    struct trainer_options how = { .log = attempt->log,
                                   .heartbeat = &attempt->heartbeat,
                                   .lost = &attempt->lost,
                                   .progress = on_progress,
                                   .logged = on_logged,
                                   .opened = on_opened,
                                   .milestone = on_milestone,
                                   .context = attempt,
                                   .resume =
                                       attempt->options->resume || attempt->record.resume,
                                   .before = attempt->record.bad_from,
                                   .bad_from = &attempt->bad_from,
                                   .no_onednn = attempt->options->no_onednn };
    struct plan *plan = &attempt->inspection.patch.plan;
    struct text about;
    bool ok;

    if (plan_ranks(plan) > 1 && plan_trains(plan))
        snprintf(attempt->record.device, sizeof(attempt->record.device), "%zu x %.70s",
                 plan_ranks(plan), plan->device.name);
    else
        snprintf(attempt->record.device, sizeof(attempt->record.device), "%s",
                 plan->device.name);
    note_containment(attempt);
    attempt->record.resume =
        true; /* the next attempt continues from this one, however it ends */
    /* --resume means the last checkpoint, even one that another text of the job made */
    if (attempt->options->resume && !attempt->options->spooled &&
        !plan->resume_from_checkpoint)
        plan->resume_from_checkpoint = "true";
    if (!job_event(&attempt->job, &attempt->record, EVENT_STARTED, NULL, err))
        return false;
    log_line(attempt->log, LOG_INFO, "job %s: attempt %" PRId64 " on %s%s",
             attempt->job.name, attempt->record.attempt, attempt->record.device,
             how.resume && plan_trains(plan)
                 ? ", continuing from the last checkpoint if there is one"
                 : "");
    log_listen(attempt->log, LOG_WARN, on_warning, attempt);
    text_init(&about, 0);
    how.about = run_summary_write(&attempt->job, &attempt->inspection.patch, &about)
                    ? about.data
                    : NULL;
    ok = work(attempt, &how, err);
    text_clear(&about);
    log_listen(attempt->log, LOG_WARN, NULL, NULL);
    return ok;
}

static int run(struct attempt *attempt, struct error *err)
{
    bool ok, done;

    if (!take_lock(attempt, err) || !open_log(attempt, err) ||
        !job_read(&attempt->job, &attempt->record, err))
        return attempt_refuse(attempt, err);
    /* Slurm starts a job again whose node it lost */
    if (attempt->options->lease && attempt->record.state == JOB_RUNNING)
        attempt->record.state = JOB_READY;
    job_remove_leftovers(&attempt->job, attempt->options->spooled);
    attempt->before = isnan(attempt->record.seconds) ? 0 : attempt->record.seconds;
    attempt->first = attempt->record.step;
    ok = read_job(attempt, err) && accept(attempt, err);
    /* since the watch chose its devices, other programs may have taken memory */
    attempt->waits = ok && attempt->options->spooled &&
                     !room_check(attempt->machine, &attempt->inspection.patch.plan, err);
    check_folder(attempt);
    if (attempt->lost)
        return attempt_end_lost(attempt);
    if (!ok || attempt->waits) {
        if (attempt->record.state != JOB_READY)
            return attempt_refuse(attempt, err);
        return attempt_finish(attempt, false, err);
    }
    done = train(attempt, err);
    check_folder(attempt);
    if (attempt->lost)
        return attempt_end_lost(attempt);
    return attempt_finish(attempt, done, err);
}

int attempt_run(const struct options *options, const struct machine *machine,
                const struct world *world, volatile sig_atomic_t *stop, struct error *err)
{
    struct attempt attempt = { .options = options,
                               .machine = machine,
                               .world = world,
                               .stop = stop,
                               .log_fd = -1,
                               .lock_fd = -1 };
    int status;

    attempt.started = clock_seconds();
    attempt.heartbeat =
        (struct heartbeat) { .stop = stop, .beat = on_beat, .context = &attempt };
    attempt.containment = (struct containment) { .on = !options->no_sandbox,
                                                 .frozen = options->frozen,
                                                 .machine = machine };
    report_init(&attempt.report, options);
    job_init(&attempt.job, options->operands[0]);
    meter_open(&attempt.meter, options->spooled || options->quiet ? NULL : stdout,
               attempt.report.terminal);
    status = run(&attempt, err);
    if (options->lease && attempt.lock_fd >= 0)
        lease_note_exit(&attempt.job, &attempt.lease, status);
    launched_ranks_finish(&attempt.ranks, status);
    /* without the lock, the folder is another run's */
    if (world->size > 1 && !attempt.called && attempt.lock_fd >= 0)
        launched_dismiss(world, &attempt.job, stop);
    ranks_end(&attempt.ranks, NULL);
    inspect_clear(&attempt.inspection);
    log_free(attempt.log);
    if (attempt.log_fd >= 0)
        close(attempt.log_fd);
    if (attempt.lock_fd >= 0)
        job_unlock(&attempt.job, attempt.lock_fd);
    job_clear(&attempt.job);
    return status;
}
