/* train/chat/chat_media.c - media in a text of a model's own template. Some templates write
 * a mark for a medium, which the model's processor replaces before the text becomes tokens
 * (transformers/models/gemma3/processing_gemma3.py). */
#include "config.h"

#include <string.h>

#include "train/chat/chat_internal.h"

/* Move the ends of spans after byte `at`, where a mark of `cut` bytes becomes `len`. */
static void move_spans(struct jinja_output *output, size_t at, size_t cut, size_t len)
{
    for (size_t i = 0; i < output->span_count; i++) {
        struct jinja_span *span = &output->spans[i];

        if (span->start > at)
            span->start = span->start - cut + len;
        else if (span->start + span->len > at)
            span->len = span->len - cut + len;
    }
}

void chat_media_write(const struct template_media *media, struct jinja_output *output)
{
    const struct media_family *family = media->family;
    const char *before = family->own_before ? family->own_before : family->before;
    const char *after = family->own_after ? family->own_after : family->after;
    const char *mark = family->written, *from = output->text.data, *found;
    size_t len = mark ? strlen(mark) : 0, left = output->text.len;
    struct text out;

    if (len == 0)
        return;
    text_init(&out, output->text.max);
    while ((found = memmem(from, left, mark, len))) {
        size_t at;

        text_add(&out, from, (size_t)(found - from));
        at = out.len;
        text_adds(&out, before);
        text_adds(&out, family->token);
        text_adds(&out, after);
        move_spans(output, at, len, out.len - at);
        left -= (size_t)(found - from) + len;
        from = found + len;
    }
    if (!text_add(&out, from, left)) { /* too long: the marks remain, and are counted */
        text_clear(&out);
        return;
    }
    text_clear(&output->text);
    output->text = out;
}
