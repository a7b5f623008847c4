/* runner/about.c - the job as a paragraph and a block of code. */
#include "config.h"

#include "runner/about.h"

#include <string.h>

#include "patcher/redact.h"

/* Markdown's code by indentation: no text can end it too early. */
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

bool about_job(const struct patch *patch, struct text *out)
{
    struct text shown;
    bool ok;

    text_init(&shown, 0);
    ok = patch->text != NULL && redact_text(patch->text, patch->len, &shown);
    if (ok) {
        text_addf(out, "**precision**: %s\n\n", patch->plan.precision.message);
        add_code(&shown, out);
    }
    text_clear(&shown);
    return ok && !out->overflow;
}
