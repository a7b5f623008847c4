/* runner/spool/status_table.c - reads the lines with several threads, and formats them. */
#include "config.h"

#include "runner/spool/status_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/spread.h"
#include "runner/output/meter.h"
#include "runner/output/report.h"
#include "runner/spool/queue.h"

#define OWNER_HEAD "OWNER"

enum { SHORTEST_NAME = 12, LONGEST_NAME = 40, LINES_AT_ONCE = 128 };

static void read_lines(void *context, size_t from, size_t to)
{
    const struct status_table *table = context;

    for (size_t i = from; i < to; i++)
        table->lines[i].shown = listing_read(table->listing, i, &table->lines[i].job);
}

static struct queued queued_of(const struct status_line *line)
{
    return (struct queued) { .priority = line->job.record.priority,
                             .arrived = line->job.record.arrived };
}

static int compare_turn(const void *a, const void *b)
{
    struct queued one = queued_of(*(struct status_line *const *)a);
    struct queued two = queued_of(*(struct status_line *const *)b);

    return queue_precedes(&two, &one) - queue_precedes(&one, &two);
}

/* Number the jobs in the order in which a watch takes them. That of several users, only
 * the watch knows. */
static void number_turns(struct status_line *lines, size_t count)
{
    struct status_line **waiting =
        memory_resize(NULL, count + 1, sizeof(struct status_line *));
    size_t waits = 0;
    bool several = false;

    for (size_t i = 0; i < count; i++)
        if (lines[i].shown && lines[i].job.record.state == JOB_READY &&
            lines[i].job.gate == GATE_OPEN)
            waiting[waits++] = &lines[i];
    qsort(waiting, waits, sizeof(struct status_line *), compare_turn);
    for (size_t i = 1; i < waits; i++)
        several |= waiting[i]->job.owner != waiting[0]->job.owner;
    for (size_t i = 0; i < waits; i++)
        waiting[i]->turn = several ? waiting[i]->job.turn : i + 1;
    free(waiting);
}

static size_t fit(size_t columns, size_t len)
{
    return len > columns ? (len < LONGEST_NAME ? len : LONGEST_NAME) : columns;
}

/* Find the width of the owners, if there are several. */
static void measure_users(struct status_table *table)
{
    size_t columns = strlen(OWNER_HEAD);
    bool several = false;

    for (size_t i = 0; i < table->count; i++) {
        columns = fit(columns, strlen(table->lines[i].job.user));
        several |= table->lines[i].job.owner != table->lines[0].job.owner;
    }
    table->users = several ? columns : 0;
}

/* Find the width of the names, and drop what is not shown. */
static void measure(struct status_table *table)
{
    table->names = SHORTEST_NAME;
    for (size_t i = 0; i < table->listing->count; i++) {
        struct status_line *line = &table->lines[i];

        if (!line->shown)
            continue;
        if (!listing_shows(table->listing, &line->job)) {
            listed_clear(&line->job);
            continue;
        }
        table->names = fit(table->names, strlen(line->job.name));
        table->unread |= line->job.unread;
        table->lines[table->count++] = *line;
    }
    measure_users(table);
}

void status_table_read(struct status_table *table, const struct listing *listing)
{
    size_t to;

    *table = (struct status_table) { .listing = listing,
                                     .lines = memory_alloc((listing->count + 1) *
                                                           sizeof(struct status_line)) };
    spread_each(listing->count, LINES_AT_ONCE, read_lines, table);
    for (size_t from = 0; from < listing->count; from = to) {
        const char *folder = listing_folder(listing, from);

        for (to = from + 1; to < listing->count && listing_folder(listing, to) == folder;)
            to++;
        if (folder[0])
            number_turns(table->lines + from, to - from);
    }
    measure(table);
}

void status_table_clear(struct status_table *table)
{
    for (size_t i = 0; i < table->count; i++)
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

static void add_turn(struct text *out, const struct status_line *line)
{
    report_visible(out, line->job.waits[0] ? line->job.waits : "waiting");
    if (line->turn > 1)
        text_addf(out, ", %zu ahead of it", line->turn - 1);
    else if (line->turn == 1)
        text_adds(out, ", next");
}

static void add_reason(struct text *out, const struct status_line *line)
{
    const struct job_record *record = &line->job.record;
    bool waits = record->state == JOB_READY;

    report_visible(out, record->reason);
    if (waits && !record->reason[0])
        add_turn(out, line);
    if (record->heals > 0 &&
        (waits || record->state == JOB_RUNNING || record->state == JOB_DONE))
        text_addf(out, "%shealed %" PRId64 " time%s",
                  waits || record->reason[0] ? "; " : "", record->heals,
                  record->heals == 1 ? "" : "s");
}

void status_table_add_line(const struct status_table *table,
                           const struct status_line *line, bool color, struct text *out)
{
    const struct job_record *record = &line->job.record;
    const char *color_code = color ? state_colors[record->state] : NULL;
    char device[LISTED_DEVICE];
    struct text cell;

    text_init(&cell, 0);
    add_cell(out, line->job.name, table->names);
    if (table->users > 0)
        add_cell(out, line->job.user[0] ? line->job.user : "-", table->users);
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
    if (line->job.running && record->node[0])
        text_addf(&cell, "%s ", record->node);
    /* which of several GPUs of one name */
    if (line->job.running && strncmp(record->devices, "cuda", 4) == 0)
        text_addf(&cell, "%s ", record->devices);
    listed_device(&line->job, device);
    text_adds(&cell, device);
    if (cell.len > 20)
        cell.data[20] = 0;
    add_cell(out, cell.len ? cell.data : "-", 20);
    add_reason(out, line);
    while (out->len > 0 && out->data[out->len - 1] == ' ')
        out->data[--out->len] = 0;
    text_addc(out, '\n');
    text_clear(&cell);
}

void status_table_add_heads(const struct status_table *table, struct text *out)
{
    add_cell(out, "NAME", table->names);
    if (table->users > 0)
        add_cell(out, OWNER_HEAD, table->users);
    text_addf(out, "%-8s  %-11s  %-7s  %-7s  %-20s  %s\n", "STATE", "STEP", "LOSS",
              "LEFT", "DEVICE", "REASON");
}
