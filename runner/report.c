/* runner/report.c - like a compiler: file:line:column: severity[rule]: sentence. */
#include "config.h"

#include "runner/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"

static const struct exit_row exits[] = {
    { EXIT_FINE, "nothing is left to mend, or the training is done" },
    { EXIT_FINDINGS,
      "an error finding is left, an edit would be made, or the training failed" },
    { EXIT_NO_JOB, "wrong usage, an unreadable file, or a file that is no job" },
    { EXIT_SYSTEM, "an I/O or lock error, or a defect in this program" },
    { EXIT_SECOND, "another trainspool watch has the folder" },
    { EXIT_INTERRUPT, "stopped by SIGINT" },
    { EXIT_TERMINATED, "stopped by SIGTERM" },
};

static const struct {
    int command, training;
} statuses[ERROR_CODES] = {
    [ERROR_NONE] = { EXIT_FINE, EXIT_FINE },
    [ERROR_USAGE] = { EXIT_NO_JOB, EXIT_NO_JOB },
    [ERROR_JOB] = { EXIT_FINDINGS, EXIT_FINDINGS },
    [ERROR_DATA] = { EXIT_NO_JOB, EXIT_FINDINGS },
    [ERROR_SYSTEM] = { EXIT_SYSTEM, EXIT_SYSTEM },
    [ERROR_DEVICE] = { EXIT_FINDINGS, EXIT_FINDINGS },
    [ERROR_DIVERGED] = { EXIT_FINDINGS, EXIT_FINDINGS },
    [ERROR_STOPPED] = { EXIT_TERMINATED, EXIT_TERMINATED },
};

static const char *const severity_colours[] = {
    [SEVERITY_INFO] = "\033[36m",
    [SEVERITY_WARNING] = "\033[33m",
    [SEVERITY_ERROR] = "\033[31m",
};
static const char bold[] = "\033[1m", plain[] = "\033[0m";

const struct exit_row *report_exits(size_t *count)
{
    *count = TS_COUNT(exits);
    return exits;
}

int report_exit(enum error_code code)
{
    return statuses[code].command;
}

int report_training_exit(enum error_code code)
{
    return statuses[code].training;
}

/* no-color.org: set and not empty. */
static bool wants_colour(const struct options *options, bool terminal)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    if (options->color && strcmp(options->color, "auto") != 0)
        return strcmp(options->color, "always") == 0;
    return terminal && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

static int threshold(const struct options *options)
{
    for (int i = SEVERITY_INFO; options->fail_on && i <= SEVERITY_ERROR; i++)
        if (strcmp(severity_names[i], options->fail_on) == 0)
            return i;
    return SEVERITY_ERROR;
}

void report_init(struct report *report, const struct options *options)
{
    bool terminal = isatty(STDOUT_FILENO);

    *report = (struct report) { .out = stdout,
                                .terminal = terminal,
                                .colour = wants_colour(options, terminal),
                                .quiet = options->quiet,
                                .least = threshold(options),
                                .verbose = options->verbose };
}

void report_write(struct report *report, const struct text *text)
{
    fwrite(text->data, 1, text->len, report->out);
}

bool report_diff(struct report *report, const struct text *was, const struct text *now,
                 const struct diff_options *how, struct error *err)
{
    struct diff_options options = *how;
    struct text shown[2], out;
    bool ok;

    options.visible = report->terminal;
    options.colour = report->colour;
    text_init(&shown[0], 0);
    text_init(&shown[1], 0);
    text_init(&out, 0);
    ok = patcher_redact(was->data, was->len, &shown[0]) &&
         patcher_redact(now->data, now->len, &shown[1]) &&
         diff_unified(shown[0].data, shown[0].len, shown[1].data, shown[1].len, &options,
                      &out);
    if (ok)
        report_write(report, &out);
    else
        error_set(err, ERROR_SYSTEM, "the difference is too large to show");
    text_clear(&shown[0]);
    text_clear(&shown[1]);
    text_clear(&out);
    return ok;
}

void report_visible(struct text *out, const char *string)
{
    text_add_visible(out, string, strlen(string));
}

void report_line(struct report *report, const char *fmt, ...)
{
    struct text line;
    va_list args;
    char *said = NULL;

    va_start(args, fmt);
    if (vasprintf(&said, fmt, args) < 0)
        said = NULL;
    va_end(args);
    if (!said)
        return;
    text_init(&line, 0);
    report_visible(&line, said);
    text_addc(&line, '\n');
    report_write(report, &line);
    text_clear(&line);
    free(said);
}

void report_error(const char *program, const struct error *err)
{
    struct text line;

    text_init(&line, 0);
    text_addf(&line, "%s: ", program);
    if (err->file[0]) {
        report_visible(&line, err->file);
        if (err->at.line)
            text_addf(&line, ":%u:%u", err->at.line, err->at.column);
        text_adds(&line, ": ");
    }
    report_visible(&line, err->text);
    text_addc(&line, '\n');
    fflush(stdout);
    fwrite(line.data, 1, line.len, stderr);
    text_clear(&line);
}

/* Without the line ends of an inserted line, and the blanks that keep a comment's column.
 */
static void add_value(struct text *out, const char *value)
{
    size_t len;

    value += strspn(value, "\r\n");
    len = strcspn(value, "\r\n");
    while (len > 0 && value[len - 1] == ' ')
        len--;
    if (len == 0)
        text_adds(out, "(nothing)");
    else
        text_add_visible(out, value, len);
}

/* "    model_dtype: float16 -> float32   (what stays as it is)" */
static void add_advice(struct text *out, const struct finding *finding)
{
    bool edit = finding->was && finding->now;

    if (finding->fixed && !edit) { /* its advice is of no use any more */
        text_adds(out, "    mended with the others\n");
        return;
    }
    if (!edit && !finding->note)
        return;
    text_adds(out, finding->fixed ? "    mended: " : "    ");
    if (edit && !finding->was[0] && strchr(finding->now, '\n')) {
        text_adds(out, "+ ");
        add_value(out, finding->now);
    } else if (edit) {
        if (finding->key && !text_starts(finding->was, finding->key)) {
            report_visible(out, finding->key);
            text_adds(out, ": ");
        }
        add_value(out, finding->was);
        text_adds(out, " -> ");
        add_value(out, finding->label ? finding->label : finding->now);
    }
    if (finding->note) {
        text_adds(out, edit ? "   (" : "");
        report_visible(out, finding->note);
        text_adds(out, edit ? ")" : "");
    }
    text_addc(out, '\n');
}

static void add_place(struct text *out, const char *job, const struct finding *finding)
{
    report_visible(out, job);
    if (finding->at.line)
        text_addf(out, ":%u:%u", finding->at.line, finding->at.column);
    text_adds(out, ": ");
}

static void add_finding(struct text *out, const char *job, const struct finding *finding,
                        bool colour, bool verbose)
{
    text_adds(out, colour ? bold : "");
    add_place(out, job, finding);
    text_adds(out, colour ? severity_colours[finding->severity] : "");
    text_addf(out, "%s[%s]", severity_names[finding->severity], finding->rule);
    text_adds(out, colour ? plain : "");
    text_adds(out, ": ");
    report_visible(out, finding->message);
    text_addc(out, '\n');
    add_advice(out, finding);
    if (verbose && finding->because) {
        text_adds(out, "    because: ");
        report_visible(out, finding->because);
        text_addc(out, '\n');
    }
}

/* What -q leaves: what the exit status is about. */
static bool is_told(const struct report *report, const struct finding *finding)
{
    bool would_edit = finding->now && finding->settled && !finding->fixed;

    return (int)finding->severity >= report->least || would_edit;
}

void report_findings(struct report *report, const struct patch *patch)
{
    struct text out;

    text_init(&out, 0);
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (!report->quiet || is_told(report, finding))
            add_finding(&out, patch->job, finding, report->colour, report->verbose);
    }
    report_write(report, &out);
    text_clear(&out);
}

void report_findings_text(const struct patch *patch, struct text *out)
{
    for (size_t i = 0; i < patch->findings.count; i++)
        add_finding(out, patch->job, &patch->findings.list[i], false, true);
}

struct counts {
    size_t left, errors, edits, fixed;
};

static struct counts count_findings(const struct patch *patch)
{
    struct counts counts = { 0 };

    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        counts.left += !finding->fixed;
        counts.errors += !finding->fixed && finding->severity == SEVERITY_ERROR;
        counts.edits += finding->now && finding->settled && !finding->fixed;
        counts.fixed += finding->fixed && finding->now;
    }
    return counts;
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* "2 edits made, 4 findings left (0 errors)", "6 findings (1 error), ..." */
static void add_counts(struct text *line, const struct counts *counts)
{
    if (counts->fixed > 0)
        text_addf(line, "%zu edit%s made, ", counts->fixed, plural(counts->fixed));
    if (counts->left > 0)
        text_addf(line, "%zu finding%s%s (%zu error%s)", counts->left,
                  plural(counts->left), counts->fixed ? " left" : "", counts->errors,
                  plural(counts->errors));
    else
        text_adds(line, counts->fixed ? "nothing left" : "nothing to mend");
    if (counts->edits > 0)
        text_addf(line, "; trainspool patch makes %zu edit%s", counts->edits,
                  plural(counts->edits));
}

void report_summary(struct report *report, const struct patch *patch)
{
    struct counts counts = count_findings(patch);
    struct text line;

    if (report->quiet)
        return;
    text_init(&line, 0);
    report_visible(&line, patch->job);
    text_adds(&line, ": ");
    add_counts(&line, &counts);
    if (patch->backup) {
        text_adds(&line, "; as it was: ");
        report_visible(&line, patch->backup);
    }
    text_addc(&line, '\n');
    report_write(report, &line);
    text_clear(&line);
}

void report_reason(const struct patch *patch, struct text *out)
{
    const struct finding *first = NULL;
    size_t more = 0;

    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (finding->severity != SEVERITY_ERROR || finding->fixed || finding->settled)
            continue;
        if (!first)
            first = finding;
        else
            more++;
    }
    if (!first)
        return;
    text_addf(out, "%s", first->rule);
    if (first->at.line)
        text_addf(out, " in line %u", first->at.line);
    text_adds(out, ": ");
    report_visible(out, first->message);
    if (more > 0)
        text_addf(out, ", and %zu more", more);
}

int report_status(const struct patch *patch, const struct options *options, bool edits)
{
    if (!patch->is_job)
        return EXIT_NO_JOB;
    if (findings_worst(&patch->findings) >= threshold(options) ||
        (edits && patch->changed))
        return EXIT_FINDINGS;
    return EXIT_FINE;
}
