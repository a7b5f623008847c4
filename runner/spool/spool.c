/* runner/spool/spool.c - keeps the names to check in a list, and starts jobs in turn. */
#include "config.h"

#include "runner/spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "runner/spool/arrivals.h"
#include "runner/spool/claim.h"
#include "runner/spool/fleet_use.h"
#include "runner/spool/spool_inside.h"

enum { CHECKS_AT_ONCE = 16, CROWD = 10000 };

static const double scan_every = 30, scan_crowd_every = 60, scan_polling_every = 1;
/* What a check of an item takes at most, and how many times as long as a scan and its checks
 * there is no scan although it was asked for. */
static const double check_seconds = 2e-5, rest_share = 9;
static const double reopen_first = 0.1, reopen_longest = 5; /* all in seconds */
/* How long the checks of one round may wait for examiners together: the watch answers
 * signals and events within 0.1 s. */
static const double examine_patience = 0.05;
/* When to look again at a job that another process is about to start; seconds. */
static const double taken_again = 0.2;

/* Schedule a check of an item now or at `due`, unless an earlier one is scheduled. */
static void schedule_check(struct spool *spool, struct item *item, double due)
{
    if (item->pending) {
        item->due = due < item->due ? due : item->due;
        return;
    }
    item->pending = true;
    item->history.first = clock_seconds();
    item->due = due;
    item->next = NULL;
    if (spool->last)
        spool->last->next = item;
    else
        spool->pending = item;
    spool->last = item;
}

static void on_name(void *context, const char *name, enum watch_hint hint)
{
    struct spool *spool = context;
    struct item *item;

    if (!drop_name_is_valid(name))
        return;
    item = items_find(&spool->items, name);
    items_see(&spool->items, item);
    drop_note_event(&item->history, hint, clock_seconds());
    schedule_check(spool, item, 0);
}

static void forget_gone(struct spool *spool, bool all)
{
    const size_t count = items_forget(&spool->items, all);

    if (count > 0)
        log_line(spool->intake.log, LOG_DEBUG, "watch: %zu names forgotten, %zu known",
                 count, spool->items.names.count);
}

static void check_due_items(struct spool *spool, bool (*may_start_one)(void *context),
                            void *context)
{
    struct item **at = &spool->pending, *before = NULL, *item;
    double now = clock_seconds();
    int checks = 0;

    spool->intake.until = now + examine_patience;
    while ((item = *at) && checks < CHECKS_AT_ONCE) {
        spool->intake.others = spool->pending->next != NULL;
        if (item->due <= now && checks++ >= 0 && intake_handle(&spool->intake, item)) {
            item->pending = false;
            items_note_check(&spool->items, item);
            *at = item->next;
            spool->last = spool->last == item ? before : spool->last;
        } else {
            at = &item->next;
            before = item;
        }
        if (checks > 0 && queue_count(&spool->intake.queue) > 0 && may_start_one(context))
            break;
    }
    forget_gone(spool, false);
}

static void check_again(void *context, struct item *item)
{
    schedule_check(context, item, 0);
}

static void on_found(void *context, const char *name)
{
    on_name(context, name, WATCH_SEEN);
}

static bool read_names(struct spool *spool, struct error *err)
{
    items_begin_scan(&spool->items);
    if (!arrivals_read(spool->dir, spool->path, on_found, spool, err))
        return false;
    items_end_scan(&spool->items);
    forget_gone(spool, true);
    return true;
}

static void read_pause(struct spool *spool)
{
    if (pause_changed(&spool->pause, spool->inner.dir))
        log_line(spool->intake.log, LOG_INFO, "watch: %s",
                 spool->pause.on ? spool->pause.reason
                                 : "jobs start again after the pause");
}

/* Scan; after a fault of the machine soon again. */
static void scan(struct spool *spool)
{
    const bool hears = spool->watch && !spool->nodes;
    double every = hears ? scan_every : scan_polling_every;
    struct error err = { 0 };
    const double from = clock_seconds();
    bool ok = read_names(spool, &err);

    spool->rest_until =
        clock_seconds() +
        rest_share * (clock_seconds() - from + check_seconds * spool->items.names.count);
    read_pause(spool);
    if (!ok && !spool->unread)
        log_line(spool->intake.log, LOG_ERROR, "watch: %s; trying again every %d s",
                 err.text, DROP_RETRY_SECONDS);
    if (!ok && !spool->unread)
        spool->unread_since = clock_seconds();
    spool->unread = !ok;
    if (!ok)
        every = fmin(every, DROP_RETRY_SECONDS);
    else if (hears && spool->items.names.count > CROWD)
        every = scan_crowd_every;
    spool->scan_at = clock_seconds() + every;
}

/* Find the jobs that an earlier watch left running, before any other job is started. */
static void find_running(struct spool *spool)
{
    for (struct item *item = spool->pending; item; item = item->next)
        intake_find_running(&spool->intake, item);
}

/* Watch, then scan; never the other way round. */
static bool open_dir(struct spool *spool, bool *busy, struct error *err)
{
    struct error no_events = { 0 };

    spool->dir = open(spool->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (spool->dir < 0 && fault_is(errno))
        return error_errno(err, "cannot open %s", spool->path);
    if (spool->dir < 0)
        return error_set(err, ERROR_USAGE, "cannot open %s: %s", spool->path,
                         strerror(errno));
    if (!spool_folder_trust(spool->dir, spool->path, err))
        return false;
    if (fchdir(spool->dir) != 0)
        return error_errno(err, "cannot enter %s", spool->path);
    spool_nodes_choose(spool);
    if (!spool_inner_open(spool->dir, spool->path, spool->node, &spool->inner, busy,
                          err) ||
        !spool_nodes_open(spool, busy, err))
        return false;
    spool->watch =
        spool_folder_watch(spool->path, spool->dir, spool->inner.dir, &no_events);
    if (!spool->watch)
        log_line(spool->intake.log, LOG_WARN, "watch: %s: %s; scanning every second",
                 spool->path, no_events.text);
    spool->absent = false;
    spool->writer.node = spool->node;
    spool->intake.dir = spool->dir;
    spool->intake.waiters.names = &spool->items.names;
    spool->intake.waiters.check = check_again;
    spool->intake.waiters.found = on_found;
    spool->intake.waiters.context = spool;
    spool->intake.examiners = examiners_new(&spool->how);
    people_open(spool->intake.people, spool_folder_is_shared(spool->dir), spool->node);
    scan(spool);
    find_running(spool);
    return true;
}

static void close_dir(struct spool *spool)
{
    fleet_use_save(spool->fleet);
    people_close(spool->intake.people);
    fleet_writer_close(&spool->writer);
    watch_close(spool->watch);
    spool->watch = NULL;
    spool_nodes_close(spool);
    spool_inner_close(&spool->inner);
    if (spool->dir >= 0)
        close(spool->dir);
    spool->dir = -1;
    items_clear(&spool->items);
    intake_clear(&spool->intake);
    spool->pending = spool->last = NULL;
}

/* A job that is admitted is placed next. */
static void measure(void *context)
{
    fleet_measure_cpu(context);
}

struct spool *spool_open(const char *path, const struct machine *machine,
                         const struct spool_options *options, bool *busy,
                         struct error *err)
{
    struct spool *spool = memory_alloc(sizeof(*spool));

    *spool = (struct spool) { .path = spool_folder_path(path),
                              .how = { .examine = claim_examine,
                                       .machine = machine,
                                       .limits = &examine_limits,
                                       .contained = options->contained,
                                       .meanwhile = measure,
                                       .context = options->fleet },
                              .fleet = options->fleet,
                              .asked_node = options->node,
                              .intake = { .dir = -1, .log = options->log },
                              .stalled_since = INFINITY,
                              .dir = -1,
                              .inner = { -1, -1, -1 },
                              .reopen_wait = reopen_first };
    spool->intake.people = &options->fleet->people;
    if (open_dir(spool, busy, err))
        return spool;
    spool_close(spool);
    return NULL;
}

void spool_set_access(struct spool *spool, const char *const *roots, gid_t group)
{
    spool->how.roots = roots;
    spool->how.group = group;
}

void spool_close(struct spool *spool)
{
    if (!spool)
        return;
    close_dir(spool);
    trouble_clear(&spool->trouble);
    free(spool->path);
    free(spool);
}

int spool_fd(const struct spool *spool)
{
    return watch_fd(spool->watch);
}

/* Return whether the path still means the open folder; mounts and replacements change
 * that. */
static bool is_same_dir(const struct spool *spool)
{
    struct stat path, dir;

    return stat(spool->path, &path) == 0 && fstat(spool->dir, &dir) == 0 &&
           path.st_dev == dir.st_dev && path.st_ino == dir.st_ino;
}

static void close_lost_folder(struct spool *spool)
{
    if (spool->absent)
        return;
    log_line(spool->intake.log, LOG_WARN, "watch: %s is gone; waiting for it",
             spool->path);
    spool->absent = true;
    spool->scan_at = 0;
}

void spool_read(struct spool *spool)
{
    struct watch_changes news;

    if (!spool->watch)
        return;
    watch_read(spool->watch, on_name, spool, &news);
    if (news.gone || (news.doubt && !is_same_dir(spool)))
        close_lost_folder(spool);
    if (news.overflow)
        log_line(spool->intake.log, LOG_WARN, "watch: too many events at once; scanning");
    if (news.overflow || news.woken)
        spool->scan_at = fmin(spool->scan_at, spool->rest_until);
    spool->woken |= news.woken;
}

bool spool_was_woken(struct spool *spool)
{
    bool woken = spool->woken;

    spool->woken = false;
    return woken;
}

static void reopen(struct spool *spool)
{
    struct error err = { 0 };
    bool busy = false;

    close_dir(spool);
    if (open_dir(spool, &busy, &err)) {
        log_line(spool->intake.log, LOG_INFO, "watch: %s is back", spool->path);
        spool->reopen_wait = reopen_first;
        return;
    }
    spool->absent = true;
    spool->scan_at = clock_seconds() + spool->reopen_wait;
    spool->reopen_wait = fmin(2 * spool->reopen_wait, reopen_longest);
}

void spool_handle_due(struct spool *spool, bool idle,
                      bool (*may_start_one)(void *context), void *context)
{
    bool time;

    spool_nodes_poll(spool);
    time = clock_seconds() >= spool->scan_at;
    if (!spool->absent && time && !is_same_dir(spool))
        close_lost_folder(spool);
    if (spool->absent && time && idle)
        reopen(spool);
    else if (spool->absent && time)
        spool->scan_at = clock_seconds() + reopen_longest;
    else if (time)
        scan(spool);
    if (!spool->absent)
        check_due_items(spool, may_start_one, context);
}

void spool_look_again(struct spool *spool)
{
    spool->scan_at = 0;
}

void spool_flush(struct spool *spool)
{
    intake_flush(&spool->intake);
}

void spool_show(struct spool *spool)
{
    if (!spool->absent)
        fleet_writer_poll(&spool->writer, spool->fleet, &spool->intake.queue);
}

double spool_due(const struct spool *spool)
{
    double due = fmin(fmin(spool->scan_at, fleet_due(spool->fleet)),
                      fmin(fleet_writer_due(&spool->writer), nodes_due(spool->nodes)));

    if (spool->absent)
        return due;
    for (const struct item *item = spool->pending; item; item = item->next)
        due = fmin(due, item->due);
    if (spool->pause.on) /* until a command ends it */
        return due;
    due = fmin(due, spool->turn_at);
    /* a job that is due already waits for its devices: for the end of another job, or for
     * the next look at them */
    return fmin(due, queue_due_again(&spool->intake.queue, spool->looked_at,
                                     spool->looked_at + DROP_RETRY_SECONDS));
}

bool spool_has_waiters(const struct spool *spool)
{
    return spool->intake.waiters.count > 0;
}

bool spool_is_empty(const struct spool *spool)
{
    return !spool->pending && !spool->unread && spool->intake.found_count == 0 &&
           queue_count(&spool->intake.queue) == 0;
}

static bool is_long_since(double then)
{
    return clock_seconds() - then >= DROP_PATIENCE_SECONDS;
}

bool spool_is_stuck(const struct spool *spool)
{
    for (const struct item *item = spool->pending; item; item = item->next)
        if (!item->blocked)
            return false;
    if (spool->unread && !is_long_since(spool->unread_since))
        return false;
    if (queue_count(&spool->intake.queue) > 0 && !spool->pause.on &&
        !is_long_since(spool->stalled_since) &&
        !(spool->trouble.text && is_long_since(spool->trouble.since)))
        return false;
    return spool->intake.found_count == 0;
}

/* Return a job that was found running, with the devices that its state names. */
static char *next_found(struct spool *spool, struct spool_next *out)
{
    struct intake *intake = &spool->intake;
    char *name = intake->found[0];
    struct item *item;

    intake->found_count--;
    memmove(intake->found, intake->found + 1, intake->found_count * sizeof(char *));
    item = items_find(&spool->items, name);
    fleet_adopt(spool->fleet, name, item->user);
    item->found = false;
    out->user = item->user;
    return name;
}

/* The check finds a new text, or a state that a command changed. It must not rely on what
 * is known: a job that left the queue is in no list until its state is read. */
static struct item *release(struct spool *spool, const char *name, double due)
{
    struct item *item = items_find(&spool->items, name);

    spool->intake.current -= item->current;
    item->current = false;
    item->returns = true;
    fleet_remove(spool->fleet, name);
    if (spool->absent)
        spool->scan_at = 0; /* nothing prevents us from opening it again */
    item->known[0] = 0;
    schedule_check(spool, item, due);
    return item;
}

/* Return the first job that fits now. */
static char *next_fitting(struct spool *spool, struct spool_next *out)
{
    struct queue *queue = &spool->intake.queue;
    struct fleet_choice choice;
    const double now = clock_seconds();

    if (!spool_nodes_take_turn(spool))
        return NULL;
    spool->looked_at = now;
    fleet_choose(spool->fleet, queue, now, &choice);
    if (!choice.stalled)
        spool->stalled_since = INFINITY;
    else if (!choice.probing)
        spool->stalled_since = fmin(spool->stalled_since, now);
    if (choice.misfit) {
        release(spool, choice.misfit->name, 0)->fit = FIT_UNKNOWN;
        queue_remove(queue, choice.misfit->name);
        return NULL;
    }
    if (!choice.job)
        return NULL;
    snprintf(out->devices, sizeof(out->devices), "%s", choice.name);
    out->threads = choice.threads;
    out->user = choice.job->user;
    fleet_add(spool->fleet, choice.job->name, out->user,
              &(struct placement_running) { .need = choice.job->waiting.need,
                                            .devices = choice.devices });
    return queue_take(queue, choice.job);
}

/* Return a job that Slurm may have: a pause does not keep it from being followed. */
static char *next_left(struct spool *spool, struct spool_next *out)
{
    struct queue *queue = &spool->intake.queue;
    struct queued *job = queue_find_submitted(queue, false, true, clock_seconds());

    if (!job || !spool_nodes_take_turn(spool))
        return NULL;
    snprintf(out->devices, sizeof(out->devices), "%s", PLACEMENT_SUBMITTED);
    out->user = job->user;
    fleet_add(spool->fleet, job->name, out->user,
              &(struct placement_running) { .need = job->waiting.need });
    return queue_take(queue, job);
}

static bool may_start(struct spool *spool)
{
    if (queue_count(&spool->intake.queue) > 0)
        read_pause(spool);
    return !spool->pause.on;
}

char *spool_next(struct spool *spool, struct spool_next *out)
{
    char *name = NULL;

    fleet_poll(spool->fleet);
    *out = (struct spool_next) { .running = spool->intake.found_count > 0 };
    if (out->running)
        name = next_found(spool, out);
    else if (!spool->absent && may_start(spool))
        name = next_fitting(spool, out);
    else if (!spool->absent)
        name = next_left(spool, out);
    if (name) {
        items_find(&spool->items, name)->current = true;
        item_count(items_find(&spool->items, name), spool->intake.people, false);
        spool->intake.current++;
    }
    return name;
}

void spool_put_back(struct spool *spool, const char *name)
{
    release(spool, name, 0);
}

void spool_job_ended(struct spool *spool, const char *name,
                     const struct job_record *record)
{
    spool->intake.failures += record->state == JOB_FAILED;
    spool_put_back(spool, name);
}

void spool_job_waits(struct spool *spool, const char *name)
{
    release(spool, name, clock_seconds() + DROP_RETRY_SECONDS);
}

void spool_job_is_taken(struct spool *spool, const char *name)
{
    release(spool, name, clock_seconds() + taken_again);
}

void spool_start_failed(struct spool *spool, const char *name, const struct error *why)
{
    const bool fault = why->code == ERROR_FAULT;
    const double again = clock_seconds() + DROP_RETRY_SECONDS;
    struct item *item = release(spool, name, fault ? 0 : again);

    if (fault) {
        item->tried = queue_round(&spool->intake.queue);
        queue_pause(&spool->intake.queue, again);
        trouble_note(&spool->trouble, spool->intake.log, why->text);
    } else {
        log_line(spool->intake.log, LOG_ERROR, "%s: %s; trying again every %d s", name,
                 why->text, DROP_RETRY_SECONDS);
    }
}

bool spool_is_troubled(const struct spool *spool)
{
    return spool->trouble.text != NULL;
}

void spool_start_succeeded(struct spool *spool)
{
    queue_end_round(&spool->intake.queue);
    trouble_end(&spool->trouble, spool->intake.log);
}

void spool_on_end(struct spool *spool, spool_end_function *ended, void *context)
{
    spool->intake.ended = ended;
    spool->intake.ended_context = context;
}

void spool_describe(const struct spool *spool, const char *running, struct text *out)
{
    if (spool->absent)
        text_addf(out, "%s is gone; ", spool->path);
    else if (spool->trouble.text)
        text_addf(out, "no job starts: %s; ", spool->trouble.text);
    text_addf(out, "%s%s, %zu queued, %zu failed", running ? "running " : "no job runs",
              running ? running : "", queue_count(&spool->intake.queue),
              spool->intake.failures);
}

size_t spool_failures(const struct spool *spool)
{
    return spool->intake.failures;
}
