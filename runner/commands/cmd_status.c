/* runner/commands/cmd_status.c - status: prints one line per job, like squeue. */
#include "config.h"

#include "runner/commands/commands.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "base/spread.h"
#include "runner/commands/status_view.h"
#include "runner/output/line_changes.h"
#include "runner/output/report.h"
#include "runner/output/screen.h"
#include "runner/spool/listing.h"
#include "runner/spool/placement.h"
#include "runner/spool/spool.h"
#include "runner/spool/status_table.h"

static int cmd_status(const struct options *options);

const struct command command_status = {
    .name = "status",
    .operands = "DIR|JOB...",
    .min_operands = 1,
    .max_operands = -1,
    .options =
        (const enum option_id[]) { OPTION_JSON, OPTION_FOLLOW, OPTION_USER, OPTION_END },
    .help = "show one line per job: state, step, loss, time left, reason",
    .run = cmd_status,
};

enum { LINES_AT_ONCE = 128 };

static bool is_known_job(const char *path)
{
    char *run = path_run_dir(path), *state = path_join(run, "state.json");
    bool known = file_exists(path) || file_exists(state);

    free(state);
    free(run);
    return known;
}

/* *last: the last error; without it, report each. Return the worst exit status. */
static int note_error(const struct options *options, const struct error *err,
                      struct error *last, int worst)
{
    const int status = report_exit(err->code);

    if (err->code && last)
        *last = *err;
    else if (err->code)
        report_error(options->program, err);
    return status > worst ? status : worst;
}

/* Read what is there. */
static int read_listing(const struct options *options, struct listing *listing,
                        struct error *last)
{
    struct error err = { 0 };
    int worst = EXIT_FINE;

    listing->chosen = options->user != NULL;
    if (listing->chosen)
        user_named(options->user, &listing->only, &err);
    if (err.code)
        return note_error(options, &err, last, EXIT_FINE);
    for (size_t i = 0; i < options->operand_count; i++) {
        const char *path = options->operands[i];

        err = (struct error) { 0 };
        if (file_is_dir(path))
            listing_add_folder(listing, path, &err);
        else if (is_known_job(path))
            listing_add_job(listing, path);
        else
            error_set(&err, ERROR_USAGE, "there is no %s", path);
        worst = note_error(options, &err, last, worst);
    }
    return worst;
}

/* Each adds a member of an object; `key` has its quotes and the characters around
 * them. */
static void add_text(struct text *out, const char *key, const char *value)
{
    size_t len = strlen(value);
    struct text shown;

    text_adds(out, key);
    text_init(&shown, 0);
    if (!text_is_utf8(value, len, NULL)) {
        text_add_visible(&shown, value, len);
        value = shown.data;
        len = shown.len;
    }
    json_add_string(out, value, len);
    text_clear(&shown);
}

static void add_integer(struct text *out, const char *key, int64_t value)
{
    text_adds(out, key);
    json_add_integer(out, value);
}

static void add_real(struct text *out, const char *key, double value)
{
    text_adds(out, key);
    if (isfinite(value))
        json_add_real(out, value);
    else
        text_adds(out, "null");
}

static void add_object(struct text *out, const struct listed *job)
{
    const struct job_record *record = &job->record;

    add_text(out, "{\"job\":", job->path);
    add_text(out, ",\"name\":", job->name);
    add_text(out, ",\"owner\":", job->user);
    add_text(out, ",\"state\":", listed_state(job));
    add_text(out, ",\"reason\":", listed_reason(job));
    add_integer(out, ",\"step\":", record->step);
    add_integer(out, ",\"total\":", record->total);
    add_real(out, ",\"loss\":", record->loss);
    add_real(out, ",\"seconds\":", record->seconds);
    add_real(out, ",\"seconds_left\":", record->seconds_left);
    add_integer(out, ",\"attempt\":", record->attempt);
    add_integer(out, ",\"crashes\":", record->crashes);
    add_integer(out, ",\"heals\":", record->heals);
    add_integer(out, ",\"priority\":", record->priority);
    add_text(out, ",\"device\":", record->device);
    add_text(out, ",\"contained\":", record->contained);
    add_text(out, ",\"devices\":",
             strcmp(record->wanted, PLACEMENT_SUBMITTED) == 0 ? PLACEMENT_SUBMITTED
                                                              : record->devices);
    add_text(out, ",\"node\":", record->node);
    add_text(out, ",\"queued\":", record->queued);
    add_text(out, ",\"started\":", record->started);
    add_text(out, ",\"ended\":", record->ended);
    text_adds(out, "}\n");
}

/* The texts of some jobs each, made by several threads. */
struct part {
    struct text out;
    bool unread; /* some job */
};
struct objects {
    const struct listing *listing;
    struct part *parts; /* one per LINES_AT_ONCE jobs */
};

static void add_objects(void *context, size_t from, size_t to)
{
    const struct objects *objects = context;
    struct part *part = &objects->parts[from / LINES_AT_ONCE];
    struct listed job;

    text_init(&part->out, 0);
    for (size_t i = from; i < to; i++)
        if (listing_read(objects->listing, i, &job)) {
            if (listing_shows(objects->listing, &job)) {
                add_object(&part->out, &job);
                part->unread |= job.unread;
            }
            listed_clear(&job);
        }
}

/* Return whether the state of some job is unknown. */
static bool add_json(struct text *out, const struct listing *listing)
{
    size_t count = size_divide_up(listing->count, LINES_AT_ONCE);
    struct objects objects = { listing, memory_alloc(count * sizeof(struct part)) };
    bool unread = false;

    spread_each(listing->count, LINES_AT_ONCE, add_objects, &objects);
    for (size_t i = 0; i < count; i++) {
        text_add(out, objects.parts[i].out.data, objects.parts[i].out.len);
        text_clear(&objects.parts[i].out);
        unread |= objects.parts[i].unread;
    }
    free(objects.parts);
    return unread;
}

/* Say what contains the running jobs, once unless they differ. */
static void add_containment(struct text *out, const struct status_table *table)
{
    const struct status_line *end = table->lines + table->count;
    const char *last = NULL;

    for (const struct status_line *line = table->lines; line < end; line++) {
        const char *contained = line->job.record.contained;

        if (!line->job.running || !*contained || text_equal(contained, last))
            continue;
        report_visible(out, line->job.name);
        text_adds(out, " is contained by ");
        report_visible(out, contained);
        text_addc(out, '\n');
        last = contained;
    }
}

/* Say which folders are paused; a single job has it as its reason. */
static void add_pauses(struct text *out, const struct listing *listing)
{
    const char *path;

    for (size_t i = 0; i < listing->folder_count; i++) {
        const char *paused = listing_paused(listing, i, &path);

        if (!paused || !path[0])
            continue;
        report_visible(out, path);
        text_adds(out, " is ");
        report_visible(out, paused);
        text_addc(out, '\n');
    }
}

/* Show the devices of a watch that has several, or slots, one a line; of one of several
 * watches in any case. */
static void add_view(struct text *out, const struct fleet_view *view)
{
    struct text line;

    if (!view->node[0] && (view->slots == 0 && view->device_count < 2 &&
                           view->running < 2 && view->submitted == 0))
        return;
    text_init(&line, 0);
    fleet_view_describe_slots(view, &line);
    report_visible(out, line.data);
    text_addc(out, '\n');
    for (size_t i = 0; i < view->device_count; i++) {
        text_reset(&line);
        if (view->node[0])
            text_addf(&line, "node %s: ", view->node);
        fleet_view_describe_device(&view->devices[i], &line);
        report_visible(out, line.data);
        text_addc(out, '\n');
    }
    text_clear(&line);
}

static void add_views(struct text *out, const struct listing *listing)
{
    const char *path;

    for (size_t i = 0; i < listing->folder_count; i++) {
        listing_paused(listing, i, &path);
        for (size_t j = 0; path[0] && j < listing_views(listing, i)->count; j++)
            add_view(out, &listing_views(listing, i)->list[j]);
    }
}

/* Return whether the state of some job is unknown. */
static bool add_table(const struct options *options, const struct listing *listing,
                      bool color, struct text *out)
{
    const char *first = options->operands[0];
    struct status_table table;
    bool unread;

    status_table_read(&table, listing);
    status_table_add_heads(&table, out);
    for (size_t i = 0; i < table.count; i++)
        status_table_add_line(&table, &table.lines[i], color, out);
    unread = table.unread;
    if (!options->quiet)
        add_containment(out, &table);
    status_table_clear(&table);
    if (!options->quiet) {
        add_views(out, listing);
        add_pauses(out, listing);
    }
    if (!options->quiet && file_is_dir(first) && !spool_is_watched(first))
        text_adds(out, "no watch is running on this folder\n");
    return unread;
}

/* Show all jobs once, or what has changed since the last time (changes), and return the
 * exit status. */
static int show(struct report *report, const struct options *options,
                struct line_changes *changes)
{
    struct listing listing = { 0 };
    int status = read_listing(options, &listing, NULL);
    struct text out;
    bool unread;

    text_init(&out, 0);
    if (options->json)
        unread = add_json(&out, &listing);
    else
        unread = add_table(options, &listing, report->color, &out);
    if (changes)
        line_changes_write(changes, out.data ? out.data : "", report);
    else
        report_write(report, &out);
    fflush(report->out);
    text_clear(&out);
    listing_clear(&listing);
    return unread ? EXIT_SYSTEM : status;
}

static void read_for_view(const struct options *options, struct listing *listing,
                          struct error *err)
{
    read_listing(options, listing, err);
}

/* Without a terminal, print the lines that change. */
static int follow(struct report *report, const struct options *options)
{
    static const struct timespec second = { .tv_sec = 1 };
    struct line_changes changes = { 0 };
    int status;

    do
        status = show(report, options, &changes);
    while (status != EXIT_NO_JOB && !ferror(stdout) && nanosleep(&second, NULL) == 0);
    line_changes_clear(&changes);
    return status;
}

static int cmd_status(const struct options *options)
{
    struct report report;

    report_init(&report, options);
    if (options->follow && !options->json && screen_is_possible())
        return status_view_run(options, &report, read_for_view);
    return options->follow ? follow(&report, options) : show(&report, options, NULL);
}
