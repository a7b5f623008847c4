/* runner/spool/spool_metrics.c - writes one family after the other, as the format
 * requires. */
#include "config.h"

#include "runner/spool/spool_metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "runner/job/recent.h"

/* A logged step is a line of a few hundred bytes. */
static const size_t tail_bytes = 16 << 10;

static const double wait_limits[SPOOL_WAIT_BUCKETS] = { 0.01, 0.1,  1,     10,   60,
                                                        600,  3600, 21600, 86400 };

void spool_counters_wait(struct spool_counters *counters, double seconds)
{
    for (size_t i = 0; i < SPOOL_WAIT_BUCKETS; i++)
        counters->waits[i] += seconds <= wait_limits[i];
    counters->wait_count++;
    counters->wait_seconds += seconds;
}

/* ---- The format ---- */

static void add_family(struct text *out, const char *name, const char *type,
                       const char *help)
{
    text_addf(out, "# HELP trainspool_%s %s\n# TYPE trainspool_%s %s\n", name, help, name,
              type);
}

/* A label's value; a job's name may contain quotes. */
static void add_label(struct text *out, const char *value)
{
    struct text shown;

    text_init(&shown, 0);
    text_add_visible(&shown, value, strlen(value));
    text_addc(out, '"');
    for (size_t i = 0; i < shown.len; i++) {
        if (shown.data[i] == '"' || shown.data[i] == '\\')
            text_addc(out, '\\');
        text_addc(out, shown.data[i]);
    }
    text_addc(out, '"');
    text_clear(&shown);
}

static void add_value(struct text *out, double value)
{
    if (isnan(value))
        text_adds(out, " NaN\n");
    else if (isinf(value))
        text_adds(out, value > 0 ? " +Inf\n" : " -Inf\n");
    else
        text_addf(out, " %.15g\n", value);
}

/* label: its name; NULL: none. */
static void add_sample(struct text *out, const char *name, const char *label,
                       const char *value_of_label, double value)
{
    text_addf(out, "trainspool_%s", name);
    if (label) {
        text_addf(out, "{%s=", label);
        add_label(out, value_of_label);
        text_addc(out, '}');
    }
    add_value(out, value);
}

/* ---- The spool ---- */

static void add_states(const struct overview *overview, struct text *out)
{
    static const char *const others[] = { "held", "crashed", "unknown" };

    add_family(out, "jobs", "gauge", "Jobs in the spool, by state.");
    for (int state = JOB_NEW; state < JOB_STATES + (int)TS_COUNT(others); state++) {
        const char *name =
            state < JOB_STATES ? job_state_names[state] : others[state - JOB_STATES];
        double count = 0;

        for (size_t i = 0; i < overview->count; i++)
            count += strcmp(listed_state(&overview->jobs[i]), name) == 0;
        add_sample(out, "jobs", "state", name, count);
    }
}

static int by_owner(const void *a, const void *b)
{
    const uid_t one = (*(const struct listed *const *)a)->owner;
    const uid_t two = (*(const struct listed *const *)b)->owner;

    return (one > two) - (one < two);
}

static void add_user_family(const char *name, const char *help,
                            const struct listed *const jobs[], size_t count,
                            struct text *out)
{
    const struct listed **list = memory_resize(NULL, count + 1, sizeof(*list));
    size_t to;

    memcpy(list, jobs, count * sizeof(*list));
    qsort(list, count, sizeof(*list), by_owner);
    add_family(out, name, "gauge", help);
    for (size_t from = 0; from < count; from = to) {
        for (to = from + 1; to < count && list[to]->owner == list[from]->owner;)
            to++;
        add_sample(out, name, "user", list[from]->user, (double)(to - from));
    }
    free(list);
}

static void add_users(const struct overview *overview, struct text *out)
{
    if (!overview->several)
        return;
    add_user_family("user_jobs_running", "Jobs that run, by user.", overview->running,
                    overview->running_count, out);
    add_user_family("user_jobs_waiting", "Jobs that wait, by user.", overview->waiting,
                    overview->waiting_count, out);
}

static void add_pause(const struct overview *overview, struct text *out)
{
    add_family(out, "paused", "gauge", "1 while the spool is paused: no job starts.");
    add_sample(out, "paused", NULL, NULL, overview->paused != NULL);
}

static void add_oldest(const struct overview *overview, struct text *out)
{
    double oldest = INFINITY;

    for (size_t i = 0; i < overview->waiting_count; i++)
        oldest = fmin(oldest, overview->waiting[i]->record.arrived);
    if (isinf(oldest))
        return;
    add_family(out, "oldest_ready_arrival_timestamp_seconds", "gauge",
               "When the job that has waited longest arrived, in seconds since 1970.");
    add_sample(out, "oldest_ready_arrival_timestamp_seconds", NULL, NULL, oldest);
}

static void add_waits(const struct spool_counters *counters, struct text *out)
{
    char limit[32];

    add_family(out, "job_wait_seconds", "histogram",
               "Time from the arrival of a job to its first start.");
    for (size_t i = 0; i < SPOOL_WAIT_BUCKETS; i++) {
        snprintf(limit, sizeof(limit), "%g", wait_limits[i]);
        add_sample(out, "job_wait_seconds_bucket", "le", limit,
                   (double)counters->waits[i]);
    }
    add_sample(out, "job_wait_seconds_bucket", "le", "+Inf",
               (double)counters->wait_count);
    add_sample(out, "job_wait_seconds_sum", NULL, NULL, counters->wait_seconds);
    add_sample(out, "job_wait_seconds_count", NULL, NULL, (double)counters->wait_count);
}

static void add_counters(const struct spool_counters *counters, struct text *out)
{
    static const enum job_state ends[] = { JOB_DONE, JOB_FAILED, JOB_STOPPED,
                                           JOB_REJECTED };

    add_family(out, "watch_start_time_seconds", "gauge",
               "When the watch started, in seconds since 1970.");
    add_sample(out, "watch_start_time_seconds", NULL, NULL, counters->watch_started);
    add_family(out, "job_starts_total", "counter", "Attempts at jobs that were started.");
    add_sample(out, "job_starts_total", NULL, NULL, (double)counters->starts);
    add_family(out, "job_restarts_total", "counter",
               "Attempts that were not the first one of their job.");
    add_sample(out, "job_restarts_total", NULL, NULL, (double)counters->restarts);
    add_family(out, "job_crashes_total", "counter",
               "Attempts that ended without a result.");
    add_sample(out, "job_crashes_total", NULL, NULL, (double)counters->crashes);
    add_family(out, "job_heals_total", "counter",
               "Attempts that met a problem to be remedied by a patch.");
    add_sample(out, "job_heals_total", NULL, NULL, (double)counters->heals);
    add_family(out, "jobs_ended_total", "counter", "Jobs that ended, by state.");
    for (size_t i = 0; i < TS_COUNT(ends); i++)
        add_sample(out, "jobs_ended_total", "state", job_state_names[ends[i]],
                   (double)counters->ended[ends[i]]);
}

/* ---- Running jobs ---- */

struct active {
    const char *name, *device;
    const struct job_record *record;
    double planned;
    struct recent recent;
};

/* Read the jobs of this node; those of others are in their metrics. */
static struct active *read_active(const struct overview *overview, const char *node,
                                  size_t *count)
{
    struct active *list = memory_alloc((overview->running_count + 1) * sizeof(*list));

    *count = 0;
    for (size_t i = 0; i < overview->running_count; i++) {
        const struct listed *listed = overview->running[i];
        struct active *active = &list[*count];
        struct job job;

        if (node[0] && strcmp(listed->record.node, node) != 0)
            continue;
        job_init(&job, listed->path);
        *active = (struct active) { .name = listed->name,
                                    .device = listed->record.device,
                                    .record = &listed->record,
                                    .planned = recent_planned_bytes(&job) };
        recent_read(&job, tail_bytes, &active->recent);
        job_clear(&job);
        ++*count;
    }
    return list;
}

enum quantity { PLANNED, USED, TOKENS, SPEED, STEP, STEPS, LOSS };

static double value_of(const struct active *job, enum quantity quantity)
{
    switch (quantity) {
    case PLANNED:
        return job->planned;
    case USED:
        return job->recent.memory;
    case TOKENS:
        return job->recent.tokens;
    case SPEED:
        return job->recent.tokens_per_second;
    case STEP:
        return (double)job->record->step;
    case STEPS:
        return job->record->total > 0 ? (double)job->record->total : NAN;
    case LOSS:
        return job->record->loss;
    }
    return NAN;
}

/* A device of a job, by its name for --device; of a job that no watch started, by that of its
 * kind. */
struct used_device {
    const struct active *job;
    char name[80];
};

/* "cuda:0,2" is a list of two. Return the number of devices of the job. */
static size_t name_devices(const struct active *job, struct used_device *out, size_t room)
{
    const char *all = job->record->devices, *at = strchr(all, ':');
    size_t count = 0;

    if (!at) {
        out[0].job = job;
        snprintf(out[0].name, sizeof(out[0].name), "%s", all[0] ? all : job->device);
        return 1;
    }
    for (const char *next = at; next && count < room; next = strchr(next + 1, ',')) {
        const size_t len = strcspn(next + 1, ",");

        out[count].job = job;
        snprintf(out[count].name, sizeof(out[count].name), "%.*s:%.*s", (int)(at - all),
                 all, (int)len, next + 1);
        count++;
    }
    return count;
}

static size_t list_devices(const struct active *list, size_t count,
                           struct used_device **out)
{
    size_t used = 0;

    *out = memory_alloc((count + 1) * DEVICE_RANKS_MAX * sizeof(**out));
    for (size_t i = 0; i < count; i++)
        used += name_devices(&list[i], *out + used, DEVICE_RANKS_MAX);
    return used;
}

/* Return the sum over the jobs of a device; NAN if it is listed before. */
static double sum_of(const struct used_device *list, size_t count, size_t index,
                     enum quantity quantity)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++) {
        double value = value_of(list[i].job, quantity);

        if (strcmp(list[i].name, list[index].name) != 0)
            continue;
        if (i < index)
            return NAN;
        sum += isnan(value) ? 0 : value;
    }
    return sum;
}

static void add_devices(const struct active *list, size_t count, struct text *out)
{
    static const struct {
        enum quantity quantity;
        const char *name, *help;
    } families[] = {
        { PLANNED, "device_memory_planned_bytes",
          "Memory that the running jobs need according to their plans." },
        { USED, "device_memory_used_bytes", "Memory that the running jobs have used." },
    };
    struct used_device *devices;
    const size_t used = list_devices(list, count, &devices);

    for (size_t f = 0; f < TS_COUNT(families); f++) {
        add_family(out, families[f].name, "gauge", families[f].help);
        for (size_t i = 0; i < used; i++) {
            double sum = sum_of(devices, used, i, families[f].quantity);

            if (!isnan(sum))
                add_sample(out, families[f].name, "device", devices[i].name, sum);
        }
    }
    free(devices);
}

static void add_jobs(const struct active *list, size_t count, struct text *out)
{
    static const struct {
        enum quantity quantity;
        const char *name, *type, *help;
    } families[] = {
        { TOKENS, "job_tokens_total", "counter",
          "Tokens that a running job trained on." },
        { SPEED, "job_tokens_per_second", "gauge", "Speed of a running job." },
        { STEP, "job_step", "gauge", "Steps that a running job has made." },
        { STEPS, "job_planned_steps", "gauge", "Steps that a running job will make." },
        { LOSS, "job_loss", "gauge", "Last logged training loss of a running job." },
    };

    for (size_t f = 0; f < TS_COUNT(families); f++) {
        add_family(out, families[f].name, families[f].type, families[f].help);
        for (size_t i = 0; i < count; i++)
            if (!isnan(value_of(&list[i], families[f].quantity)))
                add_sample(out, families[f].name, "job", list[i].name,
                           value_of(&list[i], families[f].quantity));
    }
}

/* ---- The devices of the watch ---- */

static void add_slots(const struct fleet_view *view, struct text *out)
{
    add_family(out, "jobs_running", "gauge", "Jobs that the watch runs.");
    add_sample(out, "jobs_running", NULL, NULL, (double)view->running);
    if (view->slots == 0)
        return;
    add_family(out, "slots", "gauge", "Jobs that may run at once.");
    add_sample(out, "slots", NULL, NULL, (double)view->slots);
}

static void add_view(const struct fleet_view *view, struct text *out)
{
    add_slots(view, out);
    add_family(out, "device_usable", "gauge", "0 for a device that gets no job.");
    for (size_t i = 0; i < view->device_count; i++)
        add_sample(out, "device_usable", "device", view->devices[i].name,
                   !view->devices[i].ill[0]);
    add_family(out, "device_jobs", "gauge", "Jobs that the watch runs on a device.");
    for (size_t i = 0; i < view->device_count; i++)
        add_sample(out, "device_jobs", "device", view->devices[i].name,
                   (double)view->devices[i].jobs);
    add_family(out, "device_memory_free_bytes", "gauge",
               "Memory of a device that was free when it was last measured.");
    for (size_t i = 0; i < view->device_count; i++)
        add_sample(out, "device_memory_free_bytes", "device", view->devices[i].name,
                   view->devices[i].available);
}

static void add_nodes(const struct fleet_views *views, struct text *out)
{
    add_family(out, "node_alive", "gauge",
               "0 for a node of the folder that shows no sign of life.");
    for (size_t i = 0; i < views->count; i++)
        add_sample(out, "node_alive", "node", views->list[i].node, views->list[i].alive);
}

bool spool_metrics_write(const struct spool_counters *counters,
                         const struct overview *overview, const char *node,
                         struct text *out)
{
    const struct fleet_view *view = fleet_views_find(&overview->views, node);
    size_t count;
    struct active *list = read_active(overview, node, &count);

    add_states(overview, out);
    add_users(overview, out);
    add_pause(overview, out);
    add_oldest(overview, out);
    add_waits(counters, out);
    add_counters(counters, out);
    add_devices(list, count, out);
    if (view)
        add_view(view, out);
    if (node[0])
        add_nodes(&overview->views, out);
    add_jobs(list, count, out);
    for (size_t i = 0; i < count; i++)
        recent_clear(&list[i].recent);
    free(list);
    return !out->overflow;
}
