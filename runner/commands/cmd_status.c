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
#include "runner/output/meter.h"
#include "runner/output/report.h"
#include "runner/spool/listing.h"
#include "runner/spool/queue.h"
#include "runner/spool/spool.h"

static int cmd_status(const struct options *options);

const struct command command_status = {
    .name = "status",
    .operands = "DIR|JOB...",
    .min_operands = 1,
    .max_operands = -1,
    .options = (const enum option_id[]) { OPTION_JSON, OPTION_FOLLOW, OPTION_END },
    .help = "show one line per job: state, step, loss, time left, reason",
    .run = cmd_status,
};

enum { SHORTEST_NAME = 12, LONGEST_NAME = 40, LINES_AT_ONCE = 128 };

static bool is_known_job(const char *path)
{
    char *run = path_run_dir(path), *state = path_join(run, "state.json");
    bool known = file_exists(path) || file_exists(state);

    free(state);
    free(run);
    return known;
}

/* Read what is there, report the rest, and return the worst exit status. */
static int read_listing(const struct options *options, struct listing *listing)
{
    int worst = EXIT_FINE;

    for (size_t i = 0; i < options->operand_count; i++) {
        const char *path = options->operands[i];
        struct error err = { 0 };

        if (file_is_dir(path))
            listing_add_folder(listing, path, &err);
        else if (is_known_job(path))
            listing_add_job(listing, path);
        else
            error_set(&err, ERROR_USAGE, "there is no %s", path);
        if (err.code)
            report_error(options->program, &err);
        if (report_exit(err.code) > worst)
            worst = report_exit(err.code);
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
    add_text(out, ",\"state\":", listed_state(job));
    add_text(out, ",\"reason\":", record->reason);
    add_integer(out, ",\"step\":", record->step);
    add_integer(out, ",\"total\":", record->total);
    add_real(out, ",\"loss\":", record->loss);
    add_real(out, ",\"seconds\":", record->seconds);
    add_real(out, ",\"seconds_left\":", record->seconds_left);
    add_integer(out, ",\"attempt\":", record->attempt);
    add_integer(out, ",\"crashes\":", record->crashes);
    add_integer(out, ",\"priority\":", record->priority);
    add_text(out, ",\"device\":", record->device);
    add_text(out, ",\"contained\":", record->contained);
    add_text(out, ",\"devices\":", record->devices);
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
            add_object(&part->out, &job);
            part->unread |= job.unread;
            listed_clear(&job);
        }
}

/* Return whether the state of some job is unknown. */
static bool show_json(struct report *report, const struct listing *listing)
{
    size_t count = size_divide_up(listing->count, LINES_AT_ONCE);
    struct objects objects = { listing, memory_alloc(count * sizeof(struct part)) };
    bool unread = false;

    spread_each(listing->count, LINES_AT_ONCE, add_objects, &objects);
    for (size_t i = 0; i < count; i++) {
        report_write(report, &objects.parts[i].out);
        text_clear(&objects.parts[i].out);
        unread |= objects.parts[i].unread;
    }
    free(objects.parts);
    return unread;
}

/* A line of the table. */
struct line {
    struct listed job;
    bool shown;
    size_t turn; /* its position among the waiting jobs of its folder, from 1; 0: none */
};

struct table {
    const struct listing *listing;
    struct line *lines; /* malloc'ed */
};

static void read_lines(void *context, size_t from, size_t to)
{
    const struct table *table = context;

    for (size_t i = from; i < to; i++)
        table->lines[i].shown = listing_read(table->listing, i, &table->lines[i].job);
}

static struct queued queued_of(const struct line *line)
{
    return (struct queued) { .priority = line->job.record.priority,
                             .arrived = line->job.record.arrived };
}

static int compare_turn(const void *a, const void *b)
{
    struct queued one = queued_of(*(struct line *const *)a);
    struct queued two = queued_of(*(struct line *const *)b);

    return queue_precedes(&two, &one) - queue_precedes(&one, &two);
}

/* Number the jobs in the order in which a watch takes them. */
static void number_turns(struct line *lines, size_t count)
{
    struct line **waiting = memory_resize(NULL, count + 1, sizeof(struct line *));
    size_t waits = 0;

    for (size_t i = 0; i < count; i++)
        if (lines[i].shown && lines[i].job.record.state == JOB_READY &&
            lines[i].job.gate == GATE_OPEN)
            waiting[waits++] = &lines[i];
    qsort(waiting, waits, sizeof(struct line *), compare_turn);
    for (size_t i = 0; i < waits; i++)
        waiting[i]->turn = i + 1;
    free(waiting);
}

static void table_read(struct table *table, const struct listing *listing)
{
    size_t to;

    *table =
        (struct table) { listing, memory_alloc(listing->count * sizeof(struct line)) };
    spread_each(listing->count, LINES_AT_ONCE, read_lines, table);
    for (size_t from = 0; from < listing->count; from = to) {
        const char *folder = listing_folder(listing, from);

        for (to = from + 1; to < listing->count && listing_folder(listing, to) == folder;)
            to++;
        if (folder[0])
            number_turns(table->lines + from, to - from);
    }
}

static void table_clear(struct table *table)
{
    for (size_t i = 0; i < table->listing->count; i++)
        if (table->lines[i].shown)
            listed_clear(&table->lines[i].job);
    free(table->lines);
}

static const char *const state_colors[JOB_STATES] = {
    [JOB_RUNNING] = "\033[36m", [JOB_DONE] = "\033[32m",     [JOB_FAILED] = "\033[31m",
    [JOB_STOPPED] = "\033[33m", [JOB_REJECTED] = "\033[31m", [JOB_BLOCKED] = "\033[33m",
};

/* Append a cell of `width` columns; a non-ASCII character counts as one column. */
static void add_cell(struct text *out, const char *value, size_t width)
{
    size_t from = out->len, columns = 0;

    report_visible(out, value);
    for (size_t i = from; i < out->len; i++)
        columns += ((unsigned char)out->data[i] & 0xc0) != 0x80;
    text_addf(out, "%*s  ", columns < width ? (int)(width - columns) : 0, "");
}

static void add_reason(struct text *out, const struct line *line)
{
    report_visible(out, line->job.record.reason);
    if (line->job.record.state != JOB_READY || line->job.record.reason[0])
        return;
    text_adds(out, "waiting");
    if (line->turn > 1)
        text_addf(out, ", %zu ahead of it", line->turn - 1);
    else if (line->turn == 1)
        text_adds(out, ", next");
}

static void add_line(struct text *out, const struct line *line, size_t names, bool color)
{
    const struct job_record *record = &line->job.record;
    const char *color_code = color ? state_colors[record->state] : NULL;
    struct text cell;

    text_init(&cell, 0);
    add_cell(out, line->job.name, names);
    text_adds(out, color_code ? color_code : "");
    add_cell(out, listed_state(&line->job), 8);
    text_adds(out, color_code ? "\033[0m" : "");
    if (record->total > 0)
        text_addf(&cell, "%" PRId64 "/%" PRId64, record->step, record->total);
    add_cell(out, cell.len ? cell.data : "-", 11);
    text_reset(&cell);
    if (!isnan(record->loss))
        text_addf(&cell, "%.4g", record->loss);
    add_cell(out, cell.len ? cell.data : "-", 7);
    text_reset(&cell);
    if (line->job.running)
        meter_clock(record->seconds_left, &cell);
    add_cell(out, cell.len ? cell.data : "-", 7);
    text_reset(&cell);
    /* which of several GPUs of one name */
    if (line->job.running && strncmp(record->devices, "cuda", 4) == 0)
        text_addf(&cell, "%s ", record->devices);
    text_addf(&cell, "%s", record->device);
    if (cell.len > 20)
        cell.data[20] = 0;
    add_cell(out, cell.len ? cell.data : "-", 20);
    add_reason(out, line);
    while (out->len > 0 && out->data[out->len - 1] == ' ')
        out->data[--out->len] = 0;
    text_addc(out, '\n');
    text_clear(&cell);
}

/* Return whether the state of some job is unknown. */
static bool add_table(struct text *out, const struct table *table, bool color)
{
    const struct line *lines = table->lines, *end = lines + table->listing->count;
    size_t names = SHORTEST_NAME;
    bool unread = false;

    for (const struct line *line = lines; line < end; line++) {
        size_t len = line->shown ? strlen(line->job.name) : 0;

        names = len > names ? (len < LONGEST_NAME ? len : LONGEST_NAME) : names;
        unread |= line->shown && line->job.unread;
    }
    text_addf(out, "%-*s  %-8s  %-11s  %-7s  %-7s  %-20s  %s\n", (int)names, "NAME",
              "STATE", "STEP", "LOSS", "LEFT", "DEVICE", "REASON");
    for (const struct line *line = lines; line < end; line++)
        if (line->shown)
            add_line(out, line, names, color);
    return unread;
}

/* Say what contains the running jobs, once unless they differ. */
static void add_containment(struct text *out, const struct table *table)
{
    const struct line *lines = table->lines, *end = lines + table->listing->count;
    const char *last = NULL;

    for (const struct line *line = lines; line < end; line++) {
        const char *contained = line->job.record.contained;

        if (!line->shown || !line->job.running || !*contained ||
            text_equal(contained, last))
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

static bool show_table(struct report *report, const struct options *options,
                       const struct listing *listing)
{
    const char *first = options->operands[0];
    struct table table;
    struct text out;
    bool unread;

    text_init(&out, 0);
    /* move home, print, clear the rest: this does not flicker */
    text_adds(&out, options->follow && report->terminal ? "\033[H" : "");
    table_read(&table, listing);
    unread = add_table(&out, &table, report->color);
    if (!options->quiet)
        add_containment(&out, &table);
    table_clear(&table);
    if (!options->quiet)
        add_pauses(&out, listing);
    if (!options->quiet && file_is_dir(first) && !spool_is_watched(first))
        text_adds(&out, "no watch is running on this folder\n");
    text_adds(&out, options->follow && report->terminal ? "\033[J" : "");
    report_write(report, &out);
    text_clear(&out);
    return unread;
}

/* Show all jobs once, and return the exit status. */
static int show(struct report *report, const struct options *options)
{
    struct listing listing = { 0 };
    int status = read_listing(options, &listing);
    bool unread = options->json ? show_json(report, &listing)
                                : show_table(report, options, &listing);

    fflush(report->out);
    listing_clear(&listing);
    return unread ? EXIT_SYSTEM : status;
}

static int cmd_status(const struct options *options)
{
    static const struct timespec second = { .tv_sec = 1 };
    struct report report;
    int status;

    report_init(&report, options);
    if (options->follow && report.terminal && !options->json)
        fputs("\033[2J", stdout);
    do
        status = show(&report, options);
    while (status != EXIT_NO_JOB && options->follow && !ferror(stdout) &&
           nanosleep(&second, NULL) == 0);
    return status;
}
