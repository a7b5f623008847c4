/* runner/commands/cmd_status.c - status: prints one line per job, like squeue. */
#include "config.h"

#include "runner/commands/commands.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"
#include "runner/job/job.h"
#include "runner/output/meter.h"
#include "runner/spool/queue.h"
#include "runner/output/report_json.h"
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

enum { SHORTEST_NAME = 12, LONGEST_NAME = 40 };

struct line {
    struct job job;
    struct job_record record;
    bool running; /* the lock is held */
    size_t turn;  /* its position among the waiting jobs of its folder, from 1; 0: none */
};

struct table {
    struct line *lines; /* malloc'ed */
    size_t count, room;
};

static void table_clear(struct table *table)
{
    for (size_t i = 0; i < table->count; i++)
        job_clear(&table->lines[i].job);
    free(table->lines);
    *table = (struct table) { 0 };
}

static bool table_add(struct table *table, const char *path, struct error *err)
{
    struct error taken = { 0 };
    struct line *line;

    if (table->count == table->room) {
        table->room = table->room ? 2 * table->room : 16;
        table->lines = memory_resize(table->lines, table->room, sizeof(*table->lines));
    }
    line = &table->lines[table->count++];
    *line = (struct line) { 0 };
    job_init(&line->job, path);
    if (!path_run_is_free(path, &taken)) {
        line->record = (struct job_record) { .state = JOB_REJECTED, .loss = NAN };
        snprintf(line->record.reason, sizeof(line->record.reason), "%s", taken.text);
        return true;
    }
    if (!job_read(&line->job, &line->record, err))
        return false;
    line->running = line->record.state == JOB_RUNNING && job_is_locked(&line->job);
    return true;
}

static int is_job_name(const struct dirent *item)
{
    return text_ends(item->d_name, ".yaml") || text_ends(item->d_name, ".yml") ||
                   text_ends(item->d_name, ".run")
               ? item->d_name[0] != '.'
               : 0;
}

/* Add x.run whose job was removed: it is shown while it runs or waits. */
static void add_removed_job(struct table *table, const char *run)
{
    static const char *const endings[] = { "", ".yml", ".yaml" };
    struct error ignored = { 0 };
    struct line *last;
    struct text path;
    bool job = false;

    text_init(&path, 0);
    for (size_t i = 0; i < TS_COUNT(endings) && !job; i++) {
        text_reset(&path);
        text_add(&path, run, strlen(run) - strlen(".run"));
        text_adds(&path, endings[i]);
        job = file_exists(path.data);
    }
    if (!job) {
        job = table_add(table, path.data, &ignored);
        last = &table->lines[table->count - 1];
        if (!job ||
            (last->record.state != JOB_RUNNING && last->record.state != JOB_READY))
            job_clear(&table->lines[--table->count].job);
    }
    text_clear(&path);
}

static struct queued queued_of(const struct line *line)
{
    return (struct queued) { .priority = line->record.priority,
                             .arrived = line->record.arrived };
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
        if (lines[i].record.state == JOB_READY)
            waiting[waits++] = &lines[i];
    qsort(waiting, waits, sizeof(struct line *), compare_turn);
    for (size_t i = 0; i < waits; i++)
        waiting[i]->turn = i + 1;
    free(waiting);
}

static bool add_folder(struct table *table, const char *dir, struct error *err)
{
    size_t from = table->count;
    struct dirent **items;
    int count = scandir(dir, &items, is_job_name, alphasort);
    bool ok = true;

    if (count < 0)
        return error_set(err, ERROR_USAGE, "cannot read %s: %s", dir, strerror(errno));
    for (int i = 0; i < count; i++) {
        char *path = path_join(dir, items[i]->d_name);

        if (text_ends(path, ".run"))
            add_removed_job(table, path);
        else
            ok = ok && table_add(table, path, err);
        free(path);
        free(items[i]);
    }
    free(items);
    number_turns(table->lines + from, table->count - from);
    return ok;
}

static bool is_known_job(const char *path)
{
    char *run = path_run_dir(path), *state = path_join(run, "state.json");
    bool known = file_exists(path) || file_exists(state);

    free(state);
    free(run);
    return known;
}

static bool read_table(const struct options *options, struct table *table,
                       struct error *err)
{
    for (size_t i = 0; i < options->operand_count; i++) {
        const char *path = options->operands[i];

        if (file_is_dir(path)     ? !add_folder(table, path, err)
            : !is_known_job(path) ? !error_set(err, ERROR_USAGE, "there is no %s", path)
                                  : !table_add(table, path, err))
            return false;
    }
    return true;
}

/* Return the name to show: `running` with a free lock is a crash that is not recorded
 * yet. */
static const char *state_name(const struct line *line)
{
    if (line->record.state == JOB_RUNNING && !line->running)
        return "crashed";
    return job_state_names[line->record.state];
}

static json_t *real(double value)
{
    return isnan(value) ? json_null() : json_number(value);
}

static json_t *line_object(const struct line *line)
{
    const struct job_record *record = &line->record;
    json_t *object = json_object();

    json_object_set_new(object, "job", report_json_string(line->job.path));
    json_object_set_new(object, "name", report_json_string(line->job.name));
    json_object_set_new(object, "state", json_string(state_name(line)));
    json_object_set_new(object, "reason", report_json_string(record->reason));
    json_object_set_new(object, "step", json_integer(record->step));
    json_object_set_new(object, "total", json_integer(record->total));
    json_object_set_new(object, "loss", real(record->loss));
    json_object_set_new(object, "seconds_left", real(record->seconds_left));
    json_object_set_new(object, "attempt", json_integer(record->attempt));
    json_object_set_new(object, "crashes", json_integer(record->crashes));
    json_object_set_new(object, "priority", json_integer(record->priority));
    json_object_set_new(object, "device", report_json_string(record->device));
    json_object_set_new(object, "queued", report_json_string(record->queued));
    json_object_set_new(object, "started", report_json_string(record->started));
    json_object_set_new(object, "ended", report_json_string(record->ended));
    return object;
}

static const char *const state_colors[JOB_STATES] = {
    [JOB_RUNNING] = "\033[36m", [JOB_DONE] = "\033[32m",     [JOB_FAILED] = "\033[31m",
    [JOB_STOPPED] = "\033[33m", [JOB_REJECTED] = "\033[31m",
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
    report_visible(out, line->record.reason);
    if (line->record.state != JOB_READY || line->record.reason[0])
        return;
    text_adds(out, "waiting");
    if (line->turn > 1)
        text_addf(out, ", %zu ahead of it", line->turn - 1);
    else if (line->turn == 1)
        text_adds(out, ", next");
}

static void add_line(struct text *out, const struct line *line, size_t names, bool color)
{
    const struct job_record *record = &line->record;
    const char *color_code = color ? state_colors[record->state] : NULL;
    struct text cell;

    text_init(&cell, 0);
    add_cell(out, line->job.name, names);
    text_adds(out, color_code ? color_code : "");
    add_cell(out, state_name(line), 8);
    text_adds(out, color_code ? "\033[0m" : "");
    if (record->total > 0)
        text_addf(&cell, "%" PRId64 "/%" PRId64, record->step, record->total);
    add_cell(out, cell.len ? cell.data : "-", 11);
    text_reset(&cell);
    if (!isnan(record->loss))
        text_addf(&cell, "%.4g", record->loss);
    add_cell(out, cell.len ? cell.data : "-", 7);
    text_reset(&cell);
    if (line->running)
        meter_clock(record->seconds_left, &cell);
    add_cell(out, cell.len ? cell.data : "-", 7);
    text_reset(&cell);
    text_addf(&cell, "%.20s", record->device);
    add_cell(out, cell.len ? cell.data : "-", 20);
    add_reason(out, line);
    while (out->len > 0 && out->data[out->len - 1] == ' ')
        out->data[--out->len] = 0;
    text_addc(out, '\n');
    text_clear(&cell);
}

static void add_table(struct text *out, const struct table *table, bool color)
{
    size_t names = SHORTEST_NAME;

    for (size_t i = 0; i < table->count; i++) {
        size_t len = strlen(table->lines[i].job.name);

        names = len > names ? (len < LONGEST_NAME ? len : LONGEST_NAME) : names;
    }
    text_addf(out, "%-*s  %-8s  %-11s  %-7s  %-7s  %-20s  %s\n", (int)names, "NAME",
              "STATE", "STEP", "LOSS", "LEFT", "DEVICE", "REASON");
    for (size_t i = 0; i < table->count; i++)
        add_line(out, &table->lines[i], names, color);
}

static bool show(struct report *report, const struct options *options, struct error *err)
{
    struct table table = { 0 };
    struct text out;
    bool ok = read_table(options, &table, err);

    text_init(&out, 0);
    for (size_t i = 0; ok && options->json && i < table.count; i++)
        ok = report_json(report, line_object(&table.lines[i]), err);
    if (ok && !options->json) {
        /* move home, print, clear the rest: this does not flicker */
        text_adds(&out, options->follow && report->terminal ? "\033[H" : "");
        add_table(&out, &table, report->color);
        if (!options->quiet && file_is_dir(options->operands[0]) &&
            !spool_is_watched(options->operands[0]))
            text_adds(&out, "no watch is running on this folder\n");
        text_adds(&out, options->follow && report->terminal ? "\033[J" : "");
        report_write(report, &out);
    }
    fflush(report->out);
    text_clear(&out);
    table_clear(&table);
    return ok;
}

static int cmd_status(const struct options *options)
{
    static const struct timespec second = { .tv_sec = 1 };
    struct error err = { 0 };
    struct report report;

    report_init(&report, options);
    if (options->follow && report.terminal && !options->json)
        fputs("\033[2J", stdout);
    while (show(&report, options, &err) && options->follow && !ferror(stdout))
        nanosleep(&second, NULL);
    if (err.code)
        report_error(options->program, &err);
    return report_exit(err.code);
}
