/*
 * runner/commands/announce.c - passes the events of a watch to what reports them: at once
 * to `notify`, and to a child process that looks at the whole spool.
 */
#include "config.h"

#include "runner/commands/announce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "runner/page/spool_page.h"
#include "runner/spool/clerk.h"
#include "runner/spool/notify.h"
#include "runner/spool/spool_metrics.h"

/* Seconds. */
static const double notify_default = 60;

/* A job whose attempt began, until it ends. */
struct started {
    char *path; /* malloc'ed */
    int64_t crashes;
    struct started *next;
};

struct announce {
    char *spool, *metrics, *page; /* absolute; metrics, page: NULL: none */
    const char *node;             /* of nodes.h; "": none */
    struct notify *notify;
    struct clerk *clerk; /* NULL: nothing to write */
    struct spool_counters counters;
    struct started *started;
};

/* ---- In the child process ---- */

static bool write_metrics(const struct announce *announce,
                          const struct overview *overview, struct error *err)
{
    struct text text;
    bool ok;

    text_init(&text, 0);
    ok = spool_metrics_write(&announce->counters, overview, announce->node, &text)
             ? file_replace(announce->metrics, text.data, text.len, 0644, err)
             : error_set(err, ERROR_SYSTEM, "the metrics do not fit into memory");
    text_clear(&text);
    return ok;
}

/* That one file cannot be written does not keep the other from being written. */
static bool write_files(void *context, struct error *err)
{
    const struct announce *announce = context;
    struct overview overview;
    bool ok = overview_read(".", &overview, err);

    if (ok && announce->metrics)
        ok = write_metrics(announce, &overview, err);
    if (overview.jobs && announce->page)
        ok = spool_page_write(&overview, announce->spool, announce->page, err) && ok;
    overview_clear(&overview);
    return ok;
}

/* ---- In the watch ---- */

static char *absolute(const char *name)
{
    return name ? path_absolute(name) : NULL;
}

struct announce *announce_open(const struct options *options, struct log *log,
                               struct error *err)
{
    struct announce *announce = memory_alloc(sizeof(*announce));
    struct notify_options notify = {
        .program = options->on_end,
        .address = options->mail,
        .seconds = options->notify_timeout >= 0 ? (double)options->notify_timeout
                                                : notify_default,
        .log = log,
    };

    announce->spool = absolute(options->operands[0]);
    announce->metrics = absolute(options->metrics);
    announce->page = absolute(options->page);
    announce->node = "";
    announce->counters.watch_started = clock_wall();
    if (announce->metrics || announce->page)
        announce->clerk = clerk_new(write_files, announce, log);
    announce->notify = notify_new(&notify, err);
    if (announce->notify)
        return announce;
    announce_close(announce);
    return NULL;
}

static struct started **find_started(struct announce *announce, const char *path)
{
    struct started **at = &announce->started;

    while (*at && strcmp((*at)->path, path) != 0)
        at = &(*at)->next;
    return at;
}

static void forget_started(struct started **at)
{
    struct started *started = *at;

    if (!started)
        return;
    *at = started->next;
    free(started->path);
    free(started);
}

void announce_close(struct announce *announce)
{
    if (!announce)
        return;
    notify_free(announce->notify);
    clerk_free(announce->clerk);
    while (announce->started)
        forget_started(&announce->started);
    free(announce->spool);
    free(announce->metrics);
    free(announce->page);
    free(announce);
}

void announce_as_node(struct announce *announce, const char *node)
{
    const char *dot = announce->metrics ? strrchr(announce->metrics, '.') : NULL;
    struct text name;

    announce->node = node;
    if (!announce->metrics || !node[0])
        return;
    if (!dot || strchr(dot, '/'))
        dot = announce->metrics + strlen(announce->metrics);
    text_init(&name, 0);
    text_addf(&name, "%.*s.%s%s", (int)(dot - announce->metrics), announce->metrics, node,
              dot);
    free(announce->metrics);
    announce->metrics = text_detach(&name, NULL);
}

void announce_job_started(struct announce *announce, const char *path, bool adopted)
{
    struct spool_counters *counters = &announce->counters;
    struct started *started;
    struct job_record record;
    struct job job;

    if (!announce->clerk)
        return;
    clerk_ask(announce->clerk);
    job_init(&job, path);
    if (job_read(&job, &record, NULL)) {
        forget_started(find_started(announce, path));
        started = memory_alloc(sizeof(*started));
        *started =
            (struct started) { memory_strdup(path), record.crashes, announce->started };
        announce->started = started;
        /* the trainer may have counted its attempt already */
        if (!adopted && record.attempt - (record.state != JOB_READY) > 0)
            counters->restarts++;
        else if (!adopted && !isnan(record.arrived))
            spool_counters_wait(counters, fmax(clock_wall() - record.arrived, 0));
        counters->starts += !adopted;
    }
    job_clear(&job);
}

void announce_job_ended(void *context, const char *path, const struct job_record *record)
{
    struct announce *announce = context;
    struct started **started = find_started(announce, path);

    notify_job_ended(announce->notify, path, record);
    if (!announce->clerk)
        return;
    announce->counters.crashes += *started && record->crashes > (*started)->crashes;
    announce->counters.heals += record->ailment[0] != 0;
    announce->counters.ended[record->state]++;
    forget_started(started);
    clerk_ask(announce->clerk);
}

void announce_changed(struct announce *announce)
{
    if (announce->clerk)
        clerk_ask(announce->clerk);
}

void announce_poll(struct announce *announce, bool active)
{
    notify_poll(announce->notify);
    if (announce->clerk)
        clerk_poll(announce->clerk, active);
}

double announce_due(const struct announce *announce)
{
    double due = notify_due(announce->notify);

    return announce->clerk ? fmin(due, clerk_due(announce->clerk)) : due;
}

bool announce_is_idle(const struct announce *announce)
{
    return notify_is_idle(announce->notify) &&
           (!announce->clerk || clerk_is_idle(announce->clerk));
}

void announce_hurry(struct announce *announce, double seconds)
{
    notify_hurry(announce->notify, seconds);
    if (announce->clerk)
        clerk_hurry(announce->clerk, seconds);
}
