/* runner/job/run_summary.c - summarizes a run as Markdown paragraphs and indented code
 * blocks. */
#include "config.h"

#include "runner/job/run_summary.h"

#include <string.h>

#include "patcher/schema/redact.h"
#include "runner/output/review.h"

/* Markdown code by indentation: no text can end the block early. */
static void add_code(const struct text *text, struct text *out)
{
    for (const char *line = text->data; *line;) {
        const char *end = strchrnul(line, '\n');

        text_adds(out, "    ");
        text_add_visible(out, line, (size_t)(end - line));
        text_addc(out, '\n');
        line = *end ? end + 1 : end;
    }
}

/* Add nothing if there was no patch. */
static void add_changes(const struct job *job, struct text *out)
{
    struct review review;
    struct text diff;

    text_init(&diff, 0);
    if (review_read(job->path, job->frozen, &review, NULL) &&
        review_add(&review, true, &diff) && diff.len > 0) {
        text_adds(out, "**patched**\n\n");
        add_code(&diff, out);
        text_addc(out, '\n');
    }
    review_clear(&review);
    text_clear(&diff);
}

bool run_summary_write(const struct job *job, const struct patch *patch, struct text *out)
{
    struct text shown;
    bool ok;

    text_init(&shown, 0);
    ok = patch->text && redact_text(patch->text, patch->len, &shown);
    if (ok) {
        text_addf(out, "**precision**: %s\n\n", patch->plan.precision.message);
        add_changes(job, out);
        text_adds(out, "**job**\n\n");
        add_code(&shown, out);
    }
    text_clear(&shown);
    return ok && !out->overflow;
}
