/* runner/spool/people.c - a list of the users, and their use as lines of text. */
#include "config.h"

#include "runner/spool/people.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "runner/spool/spool.h"

#define USAGE_FILE SPOOL_INNER "/usage"

enum { HOURS_MAX = 31 * 24, WEEK = 7 * 24, FILE_MODE = 0600 };

static const double half_life = 24;  /* hours after which use counts half */
static const double save_every = 30; /* seconds */
static const size_t file_most = 16 << 20;

struct people_hour {
    int64_t hour; /* since 1970 */
    double gpu_seconds, device_seconds;
};

/* ---- Limits ---- */

static bool gpu_hours_read(const char *text, struct people_limits *out)
{
    char *end;
    double hours = strtod(text, &end), window = WEEK;

    if (end == text || !(hours >= 0) || isinf(hours))
        return false;
    if (*end == '/') {
        const char *from = end + 1;

        window = strtod(from, &end);
        if (end == from || !(window > 0) || (*end != 'd' && *end != 'h') || end[1])
            return false;
        window *= *end == 'd' ? 24 : 1;
    } else if (*end) {
        return false;
    }
    out->gpu_seconds = hours * 3600;
    out->window = (int64_t)ceil(window);
    return window <= HOURS_MAX;
}

bool people_limits_read(const struct options *options, struct people_limits *out,
                        struct error *err)
{
    *out = (struct people_limits) { .running = options->max_running,
                                    .queued = options->max_queued,
                                    .gpu_seconds = -1,
                                    .window = WEEK };
    if (options->max_running == 0)
        return error_set(err, ERROR_USAGE, "--max-running must be at least 1");
    if (options->gpu_hours && !gpu_hours_read(options->gpu_hours, out))
        return error_set(err, ERROR_USAGE,
                         "--gpu-hours must be hours such as 40, 40/7d or 8/24h, in at "
                         "most 31 days, not %s",
                         options->gpu_hours);
    return true;
}

/* ---- The list ---- */

struct person *people_find(struct people *people, uid_t user)
{
    for (size_t i = 0; i < people->count; i++)
        if (people->list[i].user == user)
            return &people->list[i];
    if (people->count == people->room) {
        people->room = people->room ? 2 * people->room : 8;
        people->list = memory_resize(people->list, people->room, sizeof(*people->list));
    }
    people->list[people->count] = (struct person) { .user = user };
    return &people->list[people->count++];
}

void people_close(struct people *people)
{
    for (size_t i = 0; i < people->count; i++)
        free(people->list[i].hours);
    free(people->list);
    if (people->others)
        people_close(people->others);
    free(people->others);
    *people = (struct people) { .limits = people->limits };
}

/* Return the entry of an hour, made if there is none. They are in order, also after the
 * clock was set back. */
static struct people_hour *find_hour(struct person *person, int64_t hour)
{
    const size_t count = person->hour_count;
    size_t at = count;

    while (at > 0 && person->hours[at - 1].hour > hour)
        at--;
    if (at > 0 && person->hours[at - 1].hour == hour)
        return &person->hours[at - 1];
    if (count == person->hour_room) {
        person->hour_room = person->hour_room ? 2 * person->hour_room : 8;
        person->hours =
            memory_resize(person->hours, person->hour_room, sizeof(*person->hours));
    }
    memmove(person->hours + at + 1, person->hours + at,
            (count - at) * sizeof(*person->hours));
    person->hours[at] = (struct people_hour) { .hour = hour };
    person->hour_count++;
    return &person->hours[at];
}

static int64_t hour_now(void)
{
    return (int64_t)floor(clock_wall() / 3600);
}

static void forget_old(struct person *person, int64_t now)
{
    size_t old = 0;

    while (old < person->hour_count && person->hours[old].hour <= now - HOURS_MAX)
        old++;
    person->hour_count -= old;
    memmove(person->hours, person->hours + old,
            person->hour_count * sizeof(*person->hours));
}

void people_charge(struct people *people, uid_t user, double gpu_seconds,
                   double device_seconds)
{
    struct people_hour *hour = find_hour(people_find(people, user), hour_now());

    hour->gpu_seconds += gpu_seconds;
    hour->device_seconds += device_seconds;
    people->changed |= device_seconds > 0;
}

/* ---- The file ---- */

/* A line that is broken is ignored. */
static void read_line(struct people *people, const char *line)
{
    struct people_hour read, *hour;
    uint32_t user;

    if (sscanf(line, "%" SCNu32 " %" SCNd64 " %lf %lf", &user, &read.hour,
               &read.gpu_seconds, &read.device_seconds) != 4 ||
        !(read.gpu_seconds >= 0) || !(read.device_seconds >= 0))
        return;
    hour = find_hour(people_find(people, user), read.hour);
    hour->gpu_seconds += read.gpu_seconds;
    hour->device_seconds += read.device_seconds;
}

static void read_usage(struct people *people, const char *file)
{
    struct text text;
    char *line;

    text_init(&text, file_most);
    if (file_read_at(AT_FDCWD, file, file_most, &text, NULL, NULL) && text.len > 0) {
        if (sscanf(text.data, "saved %lf", &people->saved) != 1)
            people->saved = 0;
        for (line = strchr(text.data, '\n'); line; line = strchr(line + 1, '\n'))
            read_line(people, line + 1);
    }
    text_clear(&text);
}

/* Return the file of a node, malloc'ed. */
static char *usage_of(const char *node)
{
    struct text path;

    text_init(&path, 0);
    text_addf(&path, USAGE_FILE "%s%s", node[0] ? "." : "", node);
    return text_detach(&path, NULL);
}

/* Read what others have counted: other nodes, or a watch that had another name. */
static void read_others(struct people *people)
{
    char *own = usage_of(people->node);
    DIR *dir = opendir(SPOOL_INNER);
    const struct dirent *entry;

    if (people->others)
        people_close(people->others);
    else
        people->others = memory_alloc(sizeof(*people->others));
    *people->others = (struct people) { .node = "" };
    while (dir && (entry = readdir(dir))) {
        char *file = path_join(SPOOL_INNER, entry->d_name);

        if (text_starts(file, USAGE_FILE) && strcmp(file, own) != 0 &&
            (!file[strlen(USAGE_FILE)] || file[strlen(USAGE_FILE)] == '.'))
            read_usage(people->others, file);
        free(file);
    }
    if (dir)
        closedir(dir);
    free(own);
    people->others_at = clock_seconds() + (people->node[0] ? save_every : INFINITY);
}

void people_open(struct people *people, bool shared, const char *node)
{
    char *file;

    people->shared = shared;
    people->node = node;
    people->on = shared || people->limits.running >= 0 || people->limits.queued >= 0 ||
                 people->limits.gpu_seconds >= 0;
    if (!people->on)
        return;
    file = usage_of(node);
    read_usage(people, file);
    free(file);
    read_others(people);
}

bool people_save(struct people *people, struct error *err)
{
    const double wall = clock_wall();
    struct text text;
    char *file;
    bool ok;

    if (!people->changed)
        return true;
    text_init(&text, 0);
    text_addf(&text, "saved %.3f\n", wall);
    for (size_t i = 0; i < people->count; i++) {
        struct person *person = &people->list[i];

        forget_old(person, hour_now());
        for (size_t j = 0; j < person->hour_count; j++)
            text_addf(&text, "%ju %" PRId64 " %.3f %.3f\n", (uintmax_t)person->user,
                      person->hours[j].hour, person->hours[j].gpu_seconds,
                      person->hours[j].device_seconds);
    }
    file = usage_of(people->node);
    ok = file_replace(file, text.data, text.len, FILE_MODE, err);
    free(file);
    text_clear(&text);
    people->save_at = clock_seconds() + save_every;
    people->saved = ok ? wall : people->saved;
    people->changed = !ok;
    return ok;
}

/* ---- Turns ---- */

/* Add what was counted of a user. */
static void add_hours(const struct people *people, const struct person *from,
                      struct person *out)
{
    const double now = clock_wall() / 3600;
    const int64_t since = (int64_t)floor(now) - people->limits.window;

    for (size_t j = 0; j < from->hour_count; j++) {
        const struct people_hour *hour = &from->hours[j];
        const double age = fmax(now - (double)hour->hour - 1, 0);

        /* the clock was wrong; that of another node may be ahead */
        if (hour->hour > (int64_t)floor(now) && from == out)
            break;
        out->use += hour->device_seconds * exp2(-age / half_life);
        out->gpu_seconds += hour->hour > since ? hour->gpu_seconds : 0;
    }
}

void people_refresh(struct people *people)
{
    if (people->others && clock_seconds() >= people->others_at)
        read_others(people);
    for (size_t i = 0; i < people->count; i++) {
        struct person *person = &people->list[i];

        person->gpu_seconds = person->use = 0;
        add_hours(people, person, person);
        if (people->others)
            add_hours(people, people_find(people->others, person->user), person);
    }
}

void people_rank(struct people *people)
{
    for (size_t i = 0; i < people->count; i++) {
        struct person *person = &people->list[i];

        person->rank = 0;
        for (size_t j = 0; j < people->count; j++)
            person->rank += people->list[j].waits && people->list[j].use < person->use;
    }
}

size_t people_waiting(const struct people *people)
{
    size_t count = 0;

    for (size_t i = 0; i < people->count; i++)
        count += people->list[i].waits;
    return count;
}

static bool is_limited(uid_t user)
{
    return user != 0;
}

enum placement_verdict people_judge(const struct people *people,
                                    const struct person *person,
                                    const struct placement_need *need)
{
    const struct people_limits *limits = &people->limits;

    if (!is_limited(person->user))
        return PLACEMENT_STARTS;
    if (limits->running >= 0 && person->running >= (size_t)limits->running)
        return PLACEMENT_RUNNING;
    if (limits->gpu_seconds >= 0 && strcmp(need->wanted, "cpu") != 0 &&
        !placement_is_submitted(need) && person->gpu_seconds >= limits->gpu_seconds)
        return PLACEMENT_HOURS;
    return PLACEMENT_STARTS;
}

void people_describe(struct people *people, uid_t user, enum placement_verdict verdict,
                     char out[160])
{
    const struct people_limits *limits = &people->limits;
    const bool in_days = limits->window % 24 == 0;
    const int64_t window = in_days ? limits->window / 24 : limits->window;

    if (verdict == PLACEMENT_RUNNING)
        snprintf(out, 160,
                 "waits for another job of its owner: %" PRId64 " may run (max_running)",
                 limits->running);
    else
        snprintf(out, 160,
                 "waits: its owner has used %.1f of %g GPU hours in %" PRId64
                 " %s%s (gpu_hours)",
                 people_find(people, user)->gpu_seconds / 3600,
                 limits->gpu_seconds / 3600, window, in_days ? "day" : "hour",
                 window == 1 ? "" : "s");
}

bool people_may_queue(struct people *people, uid_t user, char out[256])
{
    const int64_t most = people->limits.queued;

    if (!people->on || most < 0 || !is_limited(user) ||
        people_find(people, user)->queued < (size_t)most)
        return true;
    snprintf(out, 256,
             "its owner has %" PRId64 " job%s in the queue, as many as may wait "
             "(max_queued); retry it when one of them has started",
             most, most == 1 ? "" : "s");
    return false;
}
