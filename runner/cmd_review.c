/*
 * runner/cmd_review.c - review: the job as dropped and as it is, and under each hunk the
 * rules that changed it, with the reasons they gave; what no patch made is said to be by
 * hand.
 */
#include "config.h"

#include "runner/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "patcher/backup.h"
#include "patcher/document.h"
#include "patcher/history.h"
#include "patcher/redact.h"
#include "runner/report_json.h"

enum { CONTEXT = 2 }; /* lines: few, so that reasons stand close to what they are for */

struct review {
    struct report *report;
    const char *job;
    struct text was, now;
    struct history history;
};

static const char *string(const json_t *edit, const char *name)
{
    return json_string_value(json_object_get(edit, name));
}

static void add_reason(const struct review *review, const struct history_change *change,
                       struct text *out)
{
    const char *because = string(change->edit, "because");
    const char *rule = string(change->edit, "rule");
    const char *message = string(change->edit, "message");
    bool colour = review->report->colour;

    text_adds(out, colour ? "\033[33m# " : "# ");
    report_visible(out, rule ? rule : "");
    text_adds(out, colour ? "\033[m: " : ": ");
    report_visible(out, message ? message : "");
    if (because) {
        text_adds(out, " (");
        report_visible(out, because);
        text_adds(out, ")");
    }
    text_addc(out, '\n');
}

/* Is the same said already, by an earlier patch of the same line? */
static bool is_told(const struct history *history, size_t at)
{
    const struct history_change *change = &history->list[at];

    for (size_t i = 0; i < at; i++)
        if (history->list[i].line == change->line &&
            json_equal(json_object_get(history->list[i].edit, "rule"),
                       json_object_get(change->edit, "rule")))
            return true;
    return false;
}

/* The reasons for one line of the text as it is; false if no patch made it. */
static bool add_line_reasons(const struct review *review, size_t line, struct text *out)
{
    const struct history *history = &review->history;
    bool found = false;

    for (size_t i = 0; i < history->count; i++) {
        if (history->list[i].line != line)
            continue;
        if (!is_told(history, i))
            add_reason(review, &history->list[i], out);
        found = true;
    }
    return found;
}

/* Under each hunk: whose its lines are. */
static void add_reasons(void *context, const struct diff_hunk *hunk, struct text *out)
{
    const struct review *review = context;
    const char *hand = review->history.blind > 0
                           ? "# by hand, or by a patch whose reasons are not kept"
                           : "# by hand";
    size_t added = 0, others = 0;
    struct text lines;

    text_init(&lines, 0);
    for (size_t line = hunk->new_first; line <= hunk->new_last; line++) {
        if (!hunk->added[line - hunk->new_first])
            continue;
        added++;
        if (!add_line_reasons(review, line, out))
            text_addf(&lines, "%s%zu", others++ > 0 ? ", " : "", line);
    }
    if (others > 0)
        text_addf(out, "%s: line%s %s\n", hand, others > 1 ? "s" : "", lines.data);
    else if (hunk->removed > added)
        text_addf(out, "%s: what is taken out\n", hand);
    text_clear(&lines);
}

static struct diff_options diff_options(struct review *review)
{
    return (struct diff_options) { .from = "as dropped",
                                   .to = "as it is",
                                   .context = CONTEXT,
                                   .hunk = add_reasons,
                                   .hunk_context = review };
}

/* ---- JSON ---- */

static json_t *findings_array(const struct history *history)
{
    json_t *list = json_array();

    for (size_t i = 0; i < history->count; i++) {
        const struct history_change *change = &history->list[i];
        json_t *one = json_copy(change->edit);

        json_object_set_new(one, "time", report_json_string(change->time));
        json_object_set_new(one, "line_now",
                            change->line ? json_integer((json_int_t)change->line)
                                         : json_null());
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *review_object(struct review *review)
{
    struct diff_options how = diff_options(review);
    json_t *object = json_object();
    struct text was, now, diff;

    text_init(&was, 0);
    text_init(&now, 0);
    text_init(&diff, 0);
    how.hunk = NULL;
    if (redact_text(review->was.data, review->was.len, &was) &&
        redact_text(review->now.data, review->now.len, &now))
        diff_unified(was.data, was.len, now.data, now.len, &how, &diff);
    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "job", report_json_string(review->job));
    json_object_set_new(object, "diff", report_json_string(diff.data));
    json_object_set_new(object, "findings", findings_array(&review->history));
    json_object_set(object, "changes", review->history.journal);
    text_clear(&was);
    text_clear(&now);
    text_clear(&diff);
    return object;
}

/* ---- The command ---- */

static void show(struct review *review, const struct options *options, struct error *err)
{
    struct diff_options how = diff_options(review);

    if (options->json)
        report_json(review->report, review_object(review), err);
    else if (review->was.len == review->now.len &&
             memcmp(review->was.data, review->now.data, review->was.len) == 0)
        report_line(review->report, "%s: as it was dropped%s", review->job,
                    review->history.count > 0 ? "; what was patched is undone" : "");
    else
        report_diff(review->report, &review->was, &review->now, &how, err);
}

static bool read_texts(struct review *review, struct error *err)
{
    struct backup *list = NULL;
    size_t count = 0;
    bool ok = file_read(review->job, DOCUMENT_MAX_BYTES, &review->now, NULL, err) &&
              backup_list(review->job, &list, &count, err);

    if (ok && count > 0)
        ok = file_read(list[count - 1].path, DOCUMENT_MAX_BYTES, &review->was, NULL, err);
    else if (ok)
        ok = text_add(&review->was, review->now.data, review->now.len);
    backup_free(list, count);
    return ok;
}

int cmd_review(const struct options *options)
{
    struct error err = { 0 };
    struct report report;
    struct review review = { .report = &report, .job = options->operands[0] };

    report_init(&report, options);
    text_init(&review.was, DOCUMENT_MAX_BYTES);
    text_init(&review.now, DOCUMENT_MAX_BYTES);
    if (read_texts(&review, &err) &&
        history_read(review.job, &review.now, &review.history, &err))
        show(&review, options, &err);
    if (err.code)
        report_error(options->program, &err);
    history_clear(&review.history);
    text_clear(&review.was);
    text_clear(&review.now);
    return report_exit(err.code);
}
