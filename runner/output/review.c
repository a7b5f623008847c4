/*
 * runner/output/review.c - annotates each hunk with the rules that changed it and their
 * reasons; changes that no patch made are marked as made by hand.
 */
#include "config.h"

#include "runner/output/review.h"

#include <string.h>

#include "base/file.h"
#include "patcher/history/backup.h"
#include "patcher/document/document.h"
#include "patcher/schema/redact.h"
#include "runner/output/report.h"

/* context lines: few, so that reasons are close to the lines they explain */
enum { CONTEXT = 2 };

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
    bool color = review->color;

    text_adds(out, color ? "\033[33m# " : "# ");
    report_visible(out, rule ? rule : "");
    text_adds(out, color ? "\033[m: " : ": ");
    report_visible(out, message ? message : "");
    if (because) {
        text_adds(out, " (");
        report_visible(out, because);
        text_adds(out, ")");
    }
    text_addc(out, '\n');
}

/* Return whether an earlier patch of the same line already gives the same reason. */
static bool is_repeated(const struct history *history, size_t at)
{
    const struct history_change *change = &history->list[at];

    for (size_t i = 0; i < at; i++)
        if (history->list[i].line == change->line &&
            json_equal(json_object_get(history->list[i].edit, "rule"),
                       json_object_get(change->edit, "rule")))
            return true;
    return false;
}

/* Add the reasons for one line of the current text; return false if no patch made it. */
static bool add_line_reasons(const struct review *review, size_t line, struct text *out)
{
    const struct history *history = &review->history;
    bool found = false;

    for (size_t i = 0; i < history->count; i++) {
        if (history->list[i].line != line)
            continue;
        if (!is_repeated(history, i))
            add_reason(review, &history->list[i], out);
        found = true;
    }
    return found;
}

/* Add to each hunk the origin of its lines. */
static void add_reasons(void *context, const struct diff_hunk *hunk, struct text *out)
{
    const struct review *review = context;
    const char *hand = review->history.unknown_patches > 0
                           ? "# by hand, or by a patch whose reasons are lost"
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
        text_addf(out, "%s: removed lines\n", hand);
    text_clear(&lines);
}

struct diff_options review_diff(const struct review *review)
{
    return (struct diff_options) { .from = "original",
                                   .to = "current",
                                   .context = CONTEXT,
                                   .hunk = add_reasons,
                                   .hunk_context = (void *)review };
}

bool review_add(const struct review *review, bool reasons, struct text *out)
{
    struct diff_options how = review_diff(review);
    struct text was, now;
    bool ok;

    how.hunk = reasons ? how.hunk : NULL;
    text_init(&was, 0);
    text_init(&now, 0);
    ok = redact_text(review->was.data, review->was.len, &was) &&
         redact_text(review->now.data, review->now.len, &now) &&
         diff_unified(was.data, was.len, now.data, now.len, &how, out);
    text_clear(&was);
    text_clear(&now);
    return ok;
}

static bool read_texts(struct review *review, const char *name, bool *kept,
                       struct error *err)
{
    struct backup *list = NULL;
    size_t count = 0;
    bool ok = file_read(name, DOCUMENT_MAX_BYTES, &review->now, NULL, err) &&
              backup_list(review->job, &list, &count, err);

    if (ok && count > 0)
        ok = file_read(list[count - 1].path, DOCUMENT_MAX_BYTES, &review->was, NULL, err);
    else if (ok)
        ok = text_add(&review->was, review->now.data, review->now.len);
    *kept = count > 0;
    backup_free(list, count);
    return ok;
}

bool review_read(const char *job, const char *name, struct review *out, struct error *err)
{
    bool kept;

    *out = (struct review) { .job = job };
    text_init(&out->was, DOCUMENT_MAX_BYTES);
    text_init(&out->now, DOCUMENT_MAX_BYTES);
    if (!read_texts(out, name, &kept, err) ||
        !history_read(job, &out->now, &out->history, err))
        return false;
    out->lost = !kept && out->history.count + out->history.unknown_patches > 0;
    return true;
}

void review_clear(struct review *review)
{
    history_clear(&review->history);
    text_clear(&review->was);
    text_clear(&review->now);
}
