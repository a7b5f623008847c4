/*
 * runner/output/report.c - prints findings like a compiler: file:line:column:
 * severity[rule]: sentence.
 */
#include "config.h"

#include "runner/output/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/size.h"
#include "patcher/schema/redact.h"
#include "runner/output/report_excerpt.h"
#include "runner/output/report_similar.h"

enum { PAGE_WIDTH = 100 };

static const struct exit_row exits[] = {
    { EXIT_FINE, "no findings to fix, or training succeeded" },
    { EXIT_FINDINGS,
      "an error finding is left, an edit would be made, or training failed" },
    { EXIT_NO_JOB, "wrong usage, an unreadable file, or a file that is not a job" },
    { EXIT_SYSTEM, "an I/O or lock error, or a bug in trainspool" },
    { EXIT_AGAIN, "another trainspool watch has the folder" },
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
    [ERROR_FAULT] = { EXIT_SYSTEM, EXIT_SYSTEM },
    [ERROR_DEVICE] = { EXIT_FINDINGS, EXIT_FINDINGS },
    [ERROR_CARD] = { EXIT_FINDINGS, EXIT_FINDINGS },
    [ERROR_CONTEXT] = { EXIT_FINDINGS, EXIT_FINDINGS },
    [ERROR_DIVERGED] = { EXIT_FINDINGS, EXIT_FINDINGS },
    [ERROR_MEMORY] = { EXIT_FINDINGS, EXIT_FINDINGS },
    [ERROR_STOPPED] = { EXIT_TERMINATED, EXIT_TERMINATED },
};

static const char *const severity_colors[] = {
    [SEVERITY_INFO] = "\033[36m",
    [SEVERITY_WARNING] = "\033[33m",
    [SEVERITY_ERROR] = "\033[31m",
};
static const char bold[] = "\033[1m", plain[] = "\033[0m";
static const char red[] = "\033[31m", green[] = "\033[32m";

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

int report_spooled_exit(enum error_code code)
{
    return code == ERROR_FAULT  ? EXIT_AGAIN
           : code == ERROR_CARD ? EXIT_CARD
                                : report_training_exit(code);
}

/* Return whether to color; NO_COLOR counts if it is set and not empty (no-color.org). */
static bool use_color(const struct options *options, bool terminal)
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

static size_t find_width(bool terminal)
{
    struct winsize size = { 0 };

    if (!terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return PAGE_WIDTH;
    return size.ws_col;
}

void report_init(struct report *report, const struct options *options)
{
    bool terminal = isatty(STDOUT_FILENO);

    *report = (struct report) { .out = stdout,
                                .terminal = terminal,
                                .color = use_color(options, terminal),
                                .quiet = options->quiet,
                                .width = find_width(terminal),
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
    options.use_color = report->color;
    text_init(&shown[0], 0);
    text_init(&shown[1], 0);
    text_init(&out, 0);
    ok = redact_text(was->data, was->len, &shown[0]) &&
         redact_text(now->data, now->len, &shown[1]) &&
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
    char *formatted = NULL;

    va_start(args, fmt);
    if (vasprintf(&formatted, fmt, args) < 0)
        formatted = NULL;
    va_end(args);
    if (!formatted)
        return;
    text_init(&line, 0);
    report_visible(&line, formatted);
    text_addc(&line, '\n');
    report_write(report, &line);
    text_clear(&line);
    free(formatted);
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

/* A stream remembers that a write failed, but not why: only a failing flush says so. */
int report_flush(const char *program, int status)
{
    struct error err = { 0 };
    bool lost = ferror(stdout);

    if (fflush(stdout) != 0)
        error_errno(&err, "cannot write to standard output");
    else if (lost)
        error_set(&err, ERROR_SYSTEM, "some standard output could not be written");
    if (err.code)
        report_error(program, &err);
    return err.code && status < EXIT_SYSTEM ? EXIT_SYSTEM : status;
}

/* ---- Findings ---- */

/* Options for printing findings. */
struct style {
    const char *job;
    const struct findings *findings;
    const struct excerpt *excerpt; /* NULL: without lines of the job */
    bool color, verbose;
};

static void add_color(const struct style *how, const char *color, struct text *out)
{
    text_adds(out, how->color ? color : "");
}

/* Leave out the newlines of an inserted line, and the spaces that keep a comment's
 * column. */
static void add_value(const struct style *how, const char *value, const char *color,
                      struct text *out)
{
    size_t len;

    value += strspn(value, " \r\n");
    len = strcspn(value, "\r\n");
    while (len > 0 && value[len - 1] == ' ')
        len--;
    add_color(how, color, out);
    if (len == 0)
        text_adds(out, "(nothing)");
    else
        text_add_visible(out, value, len);
    add_color(how, plain, out);
}

static bool has_edit(const struct finding *finding)
{
    return finding->old_text && finding->new_text;
}

/* "model_dtype: float16 -> float32", "+ loss_scale: none" */
static void add_edit(const struct style *how, const struct finding *finding,
                     struct text *out)
{
    if (!finding->old_text[0] && strpbrk(finding->new_text, "\r\n")) {
        add_color(how, green, out);
        text_adds(out, "+ ");
        add_value(how, finding->new_text, green, out);
        return;
    }
    if (finding->key && !text_starts(finding->old_text, finding->key)) {
        report_visible(out, finding->key);
        text_adds(out, ": ");
    }
    add_value(how, finding->old_text, red, out);
    text_adds(out, " -> ");
    add_value(how, finding->label ? finding->label : finding->new_text, green, out);
}

/* "    model_dtype: float16 -> float32   (note)" */
static void add_advice(const struct style *how, const struct finding *finding,
                       struct text *out)
{
    bool edit = has_edit(finding);

    if (!edit && (finding->fixed || finding->resolved)) { /* then advice is useless */
        text_adds(out, finding->fixed ? "    fixed with the others\n"
                                      : "    gone after the other edits\n");
        return;
    }
    if (!edit && !finding->note)
        return;
    text_adds(out, finding->fixed ? "    fixed: " : "    ");
    if (edit && !finding->fixed && !finding->resolved && finding->apply == APPLY_UNSAFE)
        text_adds(out, "with --unsafe: ");
    if (edit)
        add_edit(how, finding, out);
    if (finding->note) {
        text_adds(out, edit ? "   (" : "");
        report_visible(out, finding->note);
        text_adds(out, edit ? ")" : "");
    }
    text_addc(out, '\n');
}

/* Print the other edits of its group once: all of them are made, or none. */
static void add_group(const struct style *how, const struct finding *finding,
                      struct text *out)
{
    const struct findings *findings = how->findings;

    for (size_t i = 0; finding->group && has_edit(finding) && i < findings->count; i++) {
        const struct finding *other = &findings->list[i];

        if (other->group != finding->group || !has_edit(other))
            continue;
        if (other < finding)
            return;
        if (other == finding)
            continue;
        text_addf(out, "    and in line %u: ", other->at.line);
        add_edit(how, other, out);
        text_addc(out, '\n');
    }
}

/* Return whether an earlier finding says the same, with this one in its list. */
static bool is_listed(const struct findings *findings, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (report_is_similar(&findings->list[i], &findings->list[at]))
            return true;
    return false;
}

/* List the findings that say the same about other keys: "    also in line 8: ..." with an
 * edit each, or "    also dropout (line 8), seed (line 9)". */
static void add_similar(const struct style *how, size_t at, struct text *out)
{
    const struct finding *finding = &how->findings->list[at];
    const char *before = "    also ";

    for (size_t i = at + 1; i < how->findings->count; i++) {
        const struct finding *other = &how->findings->list[i];

        if (!report_is_similar(finding, other))
            continue;
        if (has_edit(other)) {
            text_addf(out, "    also in line %u: ", other->at.line);
            add_edit(how, other, out);
            text_addc(out, '\n');
        } else {
            text_adds(out, before);
            report_visible(out, other->key);
            text_addf(out, " (line %u)", other->at.line);
            before = ", ";
        }
    }
    text_adds(out, before[0] == ',' ? "\n" : "");
}

static void add_position(struct text *out, const char *job, const struct finding *finding)
{
    report_visible(out, job);
    if (finding->at.line)
        text_addf(out, ":%u:%u", finding->at.line, finding->at.column);
    text_adds(out, ": ");
}

/* The line that scripts parse: "gsm8k.yaml:7:14: error[TS105]: sentence". */
static void add_first_line(const struct style *how, const struct finding *finding,
                           struct text *out)
{
    add_color(how, bold, out);
    add_position(out, how->job, finding);
    add_color(how, severity_colors[finding->severity], out);
    text_addf(out, "%s[%s]", severity_names[finding->severity], finding->rule);
    add_color(how, plain, out);
    text_adds(out, ": ");
    report_visible(out, finding->message);
    text_addc(out, '\n');
}

static void add_finding(const struct style *how, size_t at, struct text *out)
{
    const struct finding *finding = &how->findings->list[at];
    const bool open = how->excerpt && !finding->fixed;

    if (is_listed(how->findings, at))
        return;
    if (open && out->len > 0 && !text_ends(out->data, "\n\n"))
        /* after fixed findings, which have no blank lines between them */
        text_addc(out, '\n');
    add_first_line(how, finding, out);
    if (open)
        excerpt_add(how->excerpt, how->findings, at, out);
    add_advice(how, finding, out);
    add_similar(how, at, out);
    if (open)
        add_group(how, finding, out);
    if (how->verbose && finding->because) {
        text_adds(out, "    because: ");
        report_visible(out, finding->because);
        text_addc(out, '\n');
    }
    text_adds(out, open ? "\n" : "");
}

/* Return whether -q prints the finding: it affects the exit status. */
static bool affects_status(const struct report *report, const struct finding *finding)
{
    bool would_edit = finding->new_text && finding->resolved;

    return !finding->fixed && ((int)finding->severity >= report->least || would_edit);
}

void report_findings(struct report *report, const struct patch *patch)
{
    struct style how = { .job = patch->job,
                         .findings = &patch->findings,
                         .color = report->color,
                         .verbose = report->verbose };
    struct excerpt *excerpt = NULL;
    struct text out;

    text_init(&out, 0);
    if (!report->quiet && patch->document.data)
        excerpt = excerpt_new(&patch->document, report->width, report->color);
    how.excerpt = excerpt;
    if (report->apart && patch->findings.count > 0)
        fputc('\n', report->out);
    report->apart = excerpt && patch->findings.count > 0;
    for (size_t i = 0; i < patch->findings.count; i++) {
        if (!report->quiet)
            add_finding(&how, i, &out);
        else if (affects_status(report, &patch->findings.list[i]))
            add_first_line(&how, &patch->findings.list[i], &out);
    }
    report_write(report, &out);
    excerpt_free(excerpt);
    text_clear(&out);
}

void report_findings_text(const struct patch *patch, struct text *out)
{
    struct style how = { .job = patch->job,
                         .findings = &patch->findings,
                         .verbose = true };

    for (size_t i = 0; i < patch->findings.count; i++)
        add_finding(&how, i, out);
}

struct counts {
    size_t left, errors, edits, fixed, ignored;
};

static struct counts count_findings(const struct patch *patch)
{
    struct counts counts = { .ignored = patch->ignored.count };

    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        counts.left += !finding->fixed;
        counts.errors += !finding->fixed && finding->severity == SEVERITY_ERROR;
        counts.edits += finding->new_text && finding->resolved && !finding->fixed;
        counts.fixed += finding->fixed && finding->new_text;
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
        text_adds(line, counts->fixed ? "nothing left" : "nothing to fix");
    if (counts->ignored > 0)
        text_addf(line, ", %zu ignored", counts->ignored);
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
        text_adds(&line, "; backup: ");
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

        if (finding->severity != SEVERITY_ERROR || finding->fixed || finding->resolved)
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
    if (options->exit_zero)
        return EXIT_FINE;
    if (findings_worst(&patch->findings) >= threshold(options) ||
        (edits && patch->changed))
        return EXIT_FINDINGS;
    return EXIT_FINE;
}
