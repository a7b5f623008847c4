/* runner/commands/status_view.c - reads the jobs every second, sorts and filters them, and
 * draws a frame. */
#include "config.h"

#include "runner/commands/status_view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/size.h"
#include "runner/output/screen.h"
#include "runner/spool/spool.h"
#include "runner/spool/status_table.h"

enum { REFRESH_MS = 1000, FILTER_ROOM = 64, FRAME_LINES = 3 };

enum order { BY_NAME, BY_STATE, BY_LOSS, BY_LEFT, ORDERS };
static const char *const order_names[ORDERS] = { "name", "state", "loss", "time left" };

struct view {
    const struct options *options;
    const struct report *report;
    status_view_read *read;
    struct screen screen;
    struct listing listing;
    struct status_table table;
    struct error err;                 /* what could not be read */
    const struct status_line **lines; /* that match, in order; malloc'ed */
    size_t count, top;                /* top: the first one on the screen */
    char filter[FILTER_ROOM];
    bool typing, reverse, active; /* active: only jobs that have not ended */
    enum order order;
    double read_at;
};

/* ---- Order and choice ---- */

/* What runs first, then what waits in its order, what ended last. */
static int rank(const struct status_line *line)
{
    static const int ranks[JOB_STATES] = {
        [JOB_RUNNING] = 0, [JOB_READY] = 1,    [JOB_NEW] = 3,     [JOB_BLOCKED] = 4,
        [JOB_FAILED] = 5,  [JOB_REJECTED] = 6, [JOB_STOPPED] = 7, [JOB_DONE] = 8,
    };

    return ranks[line->job.record.state] +
           (line->job.record.state == JOB_READY && line->job.gate != GATE_OPEN);
}

static int compare_numbers(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static int compare(const struct status_line *a, const struct status_line *b,
                   enum order order)
{
    int result = 0;

    if (order == BY_STATE) {
        result = rank(a) - rank(b);
        result = result ? result : (a->turn > b->turn) - (a->turn < b->turn);
    } else if (order == BY_LOSS) {
        result = compare_numbers(a->job.record.loss, b->job.record.loss);
    } else if (order == BY_LEFT) {
        result = compare_numbers(a->job.running ? a->job.record.seconds_left : NAN,
                                 b->job.running ? b->job.record.seconds_left : NAN);
    }
    return result;
}

/* Lines that are equal stay in the order of their names. */
static int by_order(const void *a, const void *b, void *context)
{
    const struct status_line *one = *(const struct status_line *const *)a;
    const struct status_line *two = *(const struct status_line *const *)b;
    const struct view *view = context;
    int result = compare(one, two, view->order);

    result = result ? result : (one > two) - (one < two);
    return view->reverse ? -result : result;
}

static bool has_ended(const struct status_line *line)
{
    enum job_state state = line->job.record.state;

    return state == JOB_DONE || state == JOB_FAILED || state == JOB_STOPPED ||
           state == JOB_REJECTED;
}

static bool matches(const struct view *view, const struct status_line *line)
{
    const char *const texts[] = { line->job.name, listed_state(&line->job),
                                  line->job.record.device, listed_reason(&line->job),
                                  line->job.user };

    if (view->active && has_ended(line))
        return false;
    for (size_t i = 0; i < TS_COUNT(texts); i++)
        if (strcasestr(texts[i], view->filter))
            return true;
    return false;
}

static void choose(struct view *view)
{
    view->count = 0;
    for (size_t i = 0; i < view->table.count; i++)
        if (matches(view, &view->table.lines[i]))
            view->lines[view->count++] = &view->table.lines[i];
    qsort_r(view->lines, view->count, sizeof(*view->lines), by_order, view);
}

/* ---- Reading ---- */

static void forget(struct view *view)
{
    if (!view->lines)
        return;
    status_table_clear(&view->table);
    listing_clear(&view->listing);
    free(view->lines);
    view->lines = NULL;
}

static void read_jobs(struct view *view)
{
    forget(view);
    view->err = (struct error) { 0 };
    view->read(view->options, &view->listing, &view->err);
    status_table_read(&view->table, &view->listing);
    view->lines = memory_resize(NULL, view->table.count + 1, sizeof(*view->lines));
    view->read_at = clock_seconds();
}

/* ---- Drawing ---- */

static size_t page_rows(const struct view *view)
{
    return view->screen.rows > FRAME_LINES ? view->screen.rows - FRAME_LINES : 1;
}

static void add_counts(const struct view *view, struct text *out)
{
    static const char *const states[] = { "running", "ready",   "held",     "blocked",
                                          "new",     "failed",  "rejected", "stopped",
                                          "done",    "crashed", "unknown" };

    for (size_t i = 0; i < TS_COUNT(states); i++) {
        size_t count = 0;

        for (size_t j = 0; j < view->table.count; j++)
            count += strcmp(listed_state(&view->table.lines[j].job), states[i]) == 0;
        if (count > 0)
            text_addf(out, "  %zu %s", count, states[i]);
    }
}

/* What is shown, and what is wrong with it. */
static void add_title(const struct view *view, struct text *out)
{
    const char *first = view->options->operands[0], *path;
    char now[32];

    clock_iso(now);
    text_adds(out, "\033[7m ");
    report_visible(out, first);
    text_addf(out, "  %.8s UTC", now + 11);
    add_counts(view, out);
    for (size_t i = 0; i < view->listing.folder_count; i++)
        if (listing_paused(&view->listing, i, &path) && path[0]) {
            text_adds(out, "  ");
            report_visible(out, listing_paused(&view->listing, i, &path));
        }
    if (view->listing.folder_count > 0 &&
        (listing_paused(&view->listing, 0, &path), path[0]) && !spool_is_watched(path))
        text_adds(out, "  no watch is running");
    if (view->err.code) {
        text_adds(out, "  ");
        report_visible(out, view->err.text);
    }
    text_addf(out, "%*s\n", (int)view->screen.columns, "");
}

static void add_keys(const struct view *view, struct text *out)
{
    text_adds(out, "\033[7m ");
    if (view->typing) {
        text_adds(out, "filter: ");
        report_visible(out, view->filter);
        text_adds(out, "_  (Enter keeps it, Esc clears it)");
    } else {
        text_addf(out, "q quit  / filter%s", view->filter[0] ? ": " : "");
        report_visible(out, view->filter);
        text_addf(out, "  s sort: %s%s  r reverse  a %s  arrows scroll  %zu of %zu",
                  order_names[view->order], view->reverse ? ", reversed" : "",
                  view->active ? "all jobs" : "only active jobs", view->count,
                  view->table.count);
    }
    text_addf(out, "%*s\n", (int)view->screen.columns, "");
}

static void draw(struct view *view)
{
    size_t rows = page_rows(view), last;
    struct text frame;

    choose(view);
    last = view->count > rows ? view->count - rows : 0;
    view->top = view->top > last ? last : view->top;
    text_init(&frame, 0);
    add_title(view, &frame);
    status_table_add_heads(&view->table, &frame);
    for (size_t i = view->top; i < view->top + rows; i++)
        if (i < view->count)
            status_table_add_line(&view->table, view->lines[i], view->report->color,
                                  &frame);
        else
            text_addc(&frame, '\n');
    add_keys(view, &frame);
    screen_draw(&view->screen, &frame);
    text_clear(&frame);
}

/* ---- Keys ---- */

static void type(struct view *view, int key)
{
    size_t len = strlen(view->filter);

    if (key == SCREEN_ESCAPE)
        view->filter[0] = 0;
    if (key == SCREEN_ESCAPE || key == '\r' || key == '\n')
        view->typing = false;
    else if ((key == 0x7f || key == '\b') && len > 0)
        view->filter[len - 1] = 0;
    else if (key >= ' ' && key < 0x7f && len + 1 < FILTER_ROOM) {
        view->filter[len] = (char)key;
        view->filter[len + 1] = 0;
    }
    view->top = 0;
}

static void scroll(struct view *view, int key)
{
    size_t rows = page_rows(view), step = 0;

    if (key == SCREEN_UP || key == 'k')
        step = 1;
    else if (key == SCREEN_PAGE_UP || key == 'b')
        step = rows;
    view->top -= step < view->top ? step : view->top;
    if (key == SCREEN_DOWN || key == 'j')
        view->top++;
    else if (key == SCREEN_PAGE_DOWN || key == ' ')
        view->top += rows;
    else if (key == SCREEN_HOME || key == 'g')
        view->top = 0;
    else if (key == SCREEN_END || key == 'G')
        view->top = view->count;
}

static void press(struct view *view, int key)
{
    switch (key) {
    case '/':
        view->typing = true;
        break;
    case 's':
        view->order = (view->order + 1) % ORDERS;
        break;
    case 'r':
        view->reverse = !view->reverse;
        break;
    case 'a':
        view->active = !view->active;
        break;
    case SCREEN_ESCAPE:
        view->filter[0] = 0;
        break;
    default:
        scroll(view, key);
    }
}

/* Draw and wait for keys until the user quits. */
static void follow(struct view *view)
{
    for (;;) {
        double left = view->read_at + REFRESH_MS / 1e3 - clock_seconds();
        int key;

        if (left <= 0) {
            read_jobs(view);
            left = REFRESH_MS / 1e3;
        }
        draw(view);
        key = screen_key(&view->screen, (int)(left * 1000) + 1);
        if (key == SCREEN_SIGNAL || key == SCREEN_GONE || (key == 'q' && !view->typing))
            return;
        if (view->typing && key != SCREEN_NONE && key != SCREEN_CHANGED)
            type(view, key);
        else
            press(view, key);
    }
}

int status_view_run(const struct options *options, const struct report *report,
                    status_view_read *read)
{
    struct view view = { .options = options, .report = report, .read = read };
    struct error err = { 0 };

    read_jobs(&view);
    if (view.err.code || !screen_open(&view.screen, &err)) {
        forget(&view);
        report_error(options->program, view.err.code ? &view.err : &err);
        return report_exit(view.err.code ? view.err.code : err.code);
    }
    follow(&view);
    screen_close(&view.screen);
    forget(&view);
    return view.screen.signal ? 128 + view.screen.signal : EXIT_FINE;
}
