/*
 * runner/page/spool_page.c - the page is one file without scripts and loads nothing. All
 * text from jobs is escaped, and names become URLs only with everything unusual encoded.
 */
#include "config.h"

#include "runner/page/spool_page.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "runner/job/recent.h"
#include "runner/page/html.h"
#include "runner/page/page_sections.h"

/* A page must stay quick to read and to draw. */
enum { RUNNING_MAX = 100, WAITING_MAX = 1000, ENDED_MAX = 500, SPARK_COLUMNS = 120 };
enum { REFRESH_SECONDS = 5 };
static const size_t page_max = 16 << 20, curve_bytes = 1 << 20;

#define STAMP "<footer>"
/* of a column that is there if the jobs have several owners */
#define OWNER_HEAD "user:owner"

/* Rules in addition to those of a run's page. */
static const char style[] =
    "header{margin-bottom:2.25rem}\n"
    ".jobs{width:100%}\n"
    ".jobs th[scope=row]{min-width:8rem}.jobs .text{min-width:14rem}\n"
    ".jobs .number,.jobs .time{width:1%}\n"
    ".jobs th[scope=row]{color:var(--fg);white-space:normal;overflow-wrap:anywhere}\n"
    ".jobs td{vertical-align:middle}.jobs th{vertical-align:middle}\n"
    ".jobs .number{text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}\n"
    ".jobs .time{white-space:nowrap;color:var(--soft);"
    "font-variant-numeric:tabular-nums}\n"
    ".jobs tr>:last-child{padding-right:0}\n"
    ".jobs .state{vertical-align:0}.state.crashed,.state.unknown{color:var(--bad)}\n"
    ".spark{position:static;display:block;width:10rem;height:2.25rem;overflow:hidden}\n"
    "progress{display:block;width:100%;min-width:6rem;height:.5rem;margin-top:.3rem;"
    "accent-color:var(--train)}\n";

static void add_head(const char *title, bool active, struct text *out)
{
    text_adds(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                   "<meta charset=\"utf-8\">\n"
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
                   "'none'; style-src 'unsafe-inline'; img-src data:\">\n");
    if (active)
        text_addf(out, "<meta http-equiv=\"refresh\" content=\"%d\">\n", REFRESH_SECONDS);
    text_addf(out,
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
              "<meta name=\"generator\" content=\"trainspool %s\">\n"
              "<link rel=\"icon\" href=\"data:,\">\n<title>",
              PACKAGE_VERSION);
    html_text(out, title);
    text_addf(out, ": jobs</title>\n<style>\n%s%s</style>\n</head>\n", page_style, style);
}

static void add_url(struct text *out, const char *string)
{
    for (; *string; string++)
        if (strchr("-._~/", *string) || (*string >= '0' && *string <= '9') ||
            (*string >= 'A' && *string <= 'Z') || (*string >= 'a' && *string <= 'z'))
            text_addc(out, *string);
        else
            text_addf(out, "%%%02X", (unsigned char)*string);
}

/* The name of a job is a link if the job has a report. */
static void add_name(const struct listed *listed, const char *base, struct text *out)
{
    char *run = path_run_dir(listed->path), *report = path_join(run, "report.html");
    bool linked = file_exists(report);

    text_adds(out, "<th scope=\"row\">");
    if (linked) {
        text_addf(out, "<a href=\"%s", base);
        add_url(out, report);
        text_adds(out, "\">");
    }
    html_text(out, listed->name);
    text_adds(out, linked ? "</a></th>" : "</th>");
    free(report);
    free(run);
}

static void add_state(const struct listed *listed, struct text *out)
{
    text_addf(out, "<td><span class=\"state %s\">%s</span></td>", listed_state(listed),
              listed_state(listed));
}

static void add_number(double value, enum html_number how, struct text *out)
{
    char shown[32] = "";

    if (!isnan(value))
        html_number(value, how, shown);
    text_addf(out, "<td class=\"number\">%s</td>", shown);
}

/* "2026-11-20 14:08" of "2026-11-20T14:08:48Z" */
static void add_time(const char *iso, struct text *out)
{
    text_adds(out, "<td class=\"time\">");
    html_textf(out, "%.10s %.5s", iso, strlen(iso) > 11 ? iso + 11 : "");
    text_adds(out, "</td>");
}

static void add_text_cell(const char *class, const char *value, struct text *out)
{
    text_addf(out, "<td class=\"%s\">", class);
    html_text(out, value);
    text_adds(out, "</td>");
}

static void add_owner(const struct overview *overview, const struct listed *listed,
                      struct text *out)
{
    if (overview->several)
        add_text_cell("user", listed->user, out);
}

static void begin_section(const char *id, const char *title, size_t count,
                          struct text *out)
{
    text_addf(out,
              "<section id=\"%s\" aria-labeledby=\"%s-h\">\n"
              "<h2 id=\"%s-h\">%s <small>%zu</small></h2>\n",
              id, id, id, title, count);
}

/* headings: NULL-ended, each with its class before a colon. */
static void begin_table(const struct overview *overview, const char *label,
                        const char *const headings[], struct text *out)
{
    text_addf(out,
              "<div class=\"scroll\" role=\"region\" aria-label=\"%s\" tabindex=\"0\">\n"
              "<table class=\"jobs\">\n<thead><tr>",
              label);
    for (; *headings; headings++) {
        const char *name = strchr(*headings, ':');

        if (strcmp(*headings, OWNER_HEAD) == 0 && !overview->several)
            continue;
        text_addf(out, "<th scope=\"col\" class=\"%.*s\">%s</th>",
                  (int)(name - *headings), *headings, name + 1);
    }
    text_adds(out, "</tr></thead>\n<tbody>\n");
}

static void end_section(size_t shown, size_t count, struct text *out)
{
    text_adds(out, "</tbody>\n</table>\n</div>\n");
    if (shown < count)
        text_addf(out, "<p class=\"note\">%zu more are not shown.</p>\n", count - shown);
    text_adds(out, "</section>\n");
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- What runs ---- */

/* Points of a curve in the box of the drawing; a value that is not finite interrupts the
 * line. */
static void add_path(const struct recent *recent, double low, double high,
                     struct text *out)
{
    double first = recent->steps[0], last = recent->steps[recent->count - 1];
    size_t stride = size_divide_up(recent->count, SPARK_COLUMNS);
    bool drawing = false;

    for (size_t i = 0; i < recent->count; i += stride) {
        size_t end = least(i + stride, recent->count);
        double sum = 0, n = 0;

        for (size_t j = i; j < end; j++)
            if (isfinite(recent->losses[j])) {
                sum += recent->losses[j];
                n++;
            }
        if (n > 0)
            text_addf(out, "%s%.1f %.1f", drawing ? "L" : "M",
                      1 + 98 * (recent->steps[end - 1] - first) / fmax(last - first, 1),
                      38 - 36 * (sum / n - low) / fmax(high - low, 1e-12));
        drawing = n > 0;
    }
}

static void add_spark(const struct recent *recent, struct text *out)
{
    double low = INFINITY, high = -INFINITY;

    for (size_t i = 0; i < recent->count; i++)
        if (isfinite(recent->losses[i])) {
            low = fmin(low, recent->losses[i]);
            high = fmax(high, recent->losses[i]);
        }
    text_adds(out, "<td>");
    if (recent->count > 1 && low <= high) {
        text_addf(out,
                  "<svg class=\"spark\" viewBox=\"0 0 100 40\" "
                  "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"training loss "
                  "from step %.0f to %.0f, between %.4g and %.4g\"><path class=\"line "
                  "train\" d=\"",
                  recent->steps[0], recent->steps[recent->count - 1], low, high);
        add_path(recent, low, high, out);
        text_adds(out, "\"></path></svg>");
    }
    text_adds(out, "</td>");
}

static void add_progress(const struct job_record *record, struct text *out)
{
    text_adds(out, "<td class=\"number\">");
    if (record->total > 0)
        text_addf(out,
                  "%" PRId64 " of %" PRId64 "<progress max=\"%" PRId64
                  "\" value=\"%" PRId64 "\" aria-label=\"steps\"></progress>",
                  record->step, record->total, record->total, record->step);
    else
        text_addf(out, "%" PRId64, record->step);
    text_adds(out, "</td>");
}

/* 1 d 4 h, 2 h 5 min, 4 min, 12 s */
static void add_left(double seconds, struct text *out)
{
    text_adds(out, "<td class=\"number\">");
    if (seconds >= 86400)
        text_addf(out, "%.0f d %.0f h", floor(seconds / 86400),
                  floor(fmod(seconds, 86400) / 3600));
    else if (seconds >= 3600)
        text_addf(out, "%.0f h %.0f min", floor(seconds / 3600),
                  floor(fmod(seconds, 3600) / 60));
    else if (seconds >= 60)
        text_addf(out, "%.0f min", floor(seconds / 60));
    else if (seconds >= 0)
        text_addf(out, "%.0f s", seconds);
    text_adds(out, "</td>");
}

/* After the node, if there are several. */
static void add_device(const struct job_record *record, const char *device,
                       struct text *out)
{
    struct text cell;

    text_init(&cell, 0);
    text_addf(&cell, "%s%s%s", record->node, record->node[0] ? " " : "", device);
    add_text_cell("device", cell.data, out);
    text_clear(&cell);
}

static void add_running(const struct overview *overview, const char *base,
                        struct text *out)
{
    static const char *const headings[] = {
        ":job",        OWNER_HEAD,    ":device",         "number:steps",
        "number:loss", ":loss curve", "number:tokens/s", "number:left",
        NULL
    };
    size_t shown = least(overview->running_count, RUNNING_MAX);

    begin_section("running", "Running", overview->running_count, out);
    if (shown == 0) {
        text_adds(out, "<p class=\"note\">No job runs.</p>\n</section>\n");
        return;
    }
    begin_table(overview, "Running jobs", headings, out);
    for (size_t i = 0; i < shown; i++) {
        const struct listed *listed = overview->running[i];
        char device[LISTED_DEVICE];
        struct recent recent;
        struct job job;

        job_init(&job, listed->path);
        recent_read(&job, curve_bytes, &recent);
        text_adds(out, "<tr>");
        add_name(listed, base, out);
        add_owner(overview, listed, out);
        listed_device(listed, device);
        add_device(&listed->record, device, out);
        add_progress(&listed->record, out);
        add_number(listed->record.loss, HTML_PLAIN, out);
        add_spark(&recent, out);
        add_number(recent.tokens_per_second, HTML_SHORT, out);
        add_left(listed->record.seconds_left, out);
        text_adds(out, "</tr>\n");
        recent_clear(&recent);
        job_clear(&job);
    }
    end_section(shown, overview->running_count, out);
}

/* ---- What waits, and what ended ---- */

static void add_waiting(const struct overview *overview, const char *base,
                        struct text *out)
{
    static const char *const headings[] = {
        "number:turn", ":job", OWNER_HEAD, "number:priority", "time:since", ":note", NULL
    };
    size_t shown = least(overview->waiting_count, WAITING_MAX);

    begin_section("queue", "Queue", overview->waiting_count, out);
    if (shown == 0) {
        text_adds(out, "<p class=\"note\">No job waits.</p>\n</section>\n");
        return;
    }
    begin_table(overview, "Waiting jobs", headings, out);
    for (size_t i = 0; i < shown; i++) {
        const struct listed *listed = overview->waiting[i];

        text_adds(out, "<tr><td class=\"number\">");
        if (listed->gate == GATE_OPEN && (listed->turn > 0 || !overview->several))
            text_addf(out, "%zu", i + 1);
        text_adds(out, "</td>");
        add_name(listed, base, out);
        add_owner(overview, listed, out);
        text_addf(out, "<td class=\"number\">%" PRId64 "</td>", listed->record.priority);
        add_time(listed->record.queued, out);
        add_text_cell("text", listed_reason(listed), out);
        text_adds(out, "</tr>\n");
    }
    end_section(shown, overview->waiting_count, out);
}

static void add_ended(const struct overview *overview, const char *base, struct text *out)
{
    static const char *const headings[] = { ":job",         OWNER_HEAD,    ":state",
                                            "number:steps", "number:loss", "time:ended",
                                            ":reason",      NULL };
    size_t shown = least(overview->ended_count, ENDED_MAX);

    begin_section("ended", "Other jobs", overview->ended_count, out);
    if (shown == 0) {
        text_adds(out, "<p class=\"note\">No job has ended.</p>\n</section>\n");
        return;
    }
    begin_table(overview, "Other jobs", headings, out);
    for (size_t i = 0; i < shown; i++) {
        const struct listed *listed = overview->ended[i];
        const struct job_record *record = &listed->record;

        text_adds(out, "<tr>");
        add_name(listed, base, out);
        add_owner(overview, listed, out);
        add_state(listed, out);
        add_number(record->total > 0 ? (double)record->step : NAN, HTML_WHOLE, out);
        add_number(record->loss, HTML_PLAIN, out);
        add_time(record->ended, out);
        add_text_cell("text", record->reason, out);
        text_adds(out, "</tr>\n");
    }
    end_section(shown, overview->ended_count, out);
}

/* ---- The page ---- */

/* bad: it needs a look. */
static void add_subject(const struct text *line, bool bad, struct text *out)
{
    text_adds(out, bad ? "<p class=\"subject\"><strong>" : "<p class=\"subject\">");
    html_text(out, line->data);
    text_adds(out, bad ? "</strong></p>\n" : "</p>\n");
}

/* What a watch says of its GPUs. The CPU's free memory changes all the time, as does the age
 * of a sign of life. */
static void add_devices(const struct fleet_view *view, struct text *out)
{
    struct text line;

    text_init(&line, 0);
    if (view->node[0] && !view->alive) {
        text_addf(&line, "node %s shows no sign of life", view->node);
        add_subject(&line, true, out);
    }
    for (size_t i = 1; i < view->device_count; i++) {
        text_reset(&line);
        if (view->node[0])
            text_addf(&line, "node %s: ", view->node);
        fleet_view_describe_device(&view->devices[i], &line);
        add_subject(&line, view->devices[i].ill[0], out);
    }
    text_clear(&line);
}

bool spool_page_make(const struct overview *overview, const char *title, const char *base,
                     struct text *out)
{
    char now[32];

    clock_iso(now);
    add_head(title, overview->running_count + overview->waiting_count > 0, out);
    text_adds(out, "<body>\n<main>\n<header>\n<h1>");
    html_text(out, title);
    text_addf(out,
              "</h1>\n<p class=\"subject\">%zu running, %zu waiting, %zu other jobs; "
              "times are UTC</p>\n",
              overview->running_count, overview->waiting_count, overview->ended_count);
    if (overview->paused) {
        text_adds(out, "<p class=\"subject\"><strong>No job starts:</strong> ");
        html_text(out, overview->paused);
        text_adds(out, "</p>\n");
    }
    for (size_t i = 0; i < overview->views.count; i++)
        add_devices(&overview->views.list[i], out);
    text_adds(out, "</header>\n");
    add_running(overview, base, out);
    add_waiting(overview, base, out);
    add_ended(overview, base, out);
    text_addf(out,
              "</main>\n" STAMP "Written by trainspool %s on <time>%s</time>.</footer>\n"
              "</body>\n</html>\n",
              PACKAGE_VERSION, now);
    return !out->overflow;
}

/* Return whether the file has the same text, apart from the time. */
static bool is_same(const char *file, const struct text *page)
{
    const char *stamp = strstr(page->data, STAMP);
    size_t len = stamp ? (size_t)(stamp - page->data) : page->len;
    struct text old;
    bool same;

    text_init(&old, page_max);
    same = file_read_at(AT_FDCWD, file, page_max, &old, NULL, NULL) && old.len > len &&
           memcmp(old.data, page->data, len) == 0;
    text_clear(&old);
    return same;
}

bool spool_page_write(const struct overview *overview, const char *spool,
                      const char *file, struct error *err)
{
    char *base = spool_page_base(file, spool);
    struct text page;
    bool ok;

    text_init(&page, page_max);
    ok = spool_page_make(overview, path_base(spool), base, &page) ||
         error_set(err, ERROR_DATA, "the page %s would be larger than %zu MiB", file,
                   page_max >> 20);
    if (ok && !is_same(file, &page))
        ok = file_replace(file, page.data, page.len, 0644, err);
    text_clear(&page);
    free(base);
    return ok;
}

/* Return the length of the leading folders that both share, up to and with a slash. */
static size_t shared_folders(const char *a, const char *b)
{
    size_t shared = 0;

    for (size_t i = 0; a[i] == b[i]; i++) {
        if (a[i] == '/' || !a[i])
            shared = i + (a[i] == '/');
        if (!a[i])
            break;
    }
    return shared;
}

char *spool_page_base(const char *from, const char *to)
{
    struct text whole, out;
    size_t shared;

    text_init(&whole, 0);
    text_init(&out, 0);
    text_addf(&whole, "%s/", to);
    shared = shared_folders(from, whole.data);
    for (const char *at = from + shared; *at; at++)
        if (*at == '/')
            text_adds(&out, "../");
    add_url(&out, whole.data + shared);
    text_clear(&whole);
    return text_detach(&out, NULL);
}
