/* train/chat/template_media.c - tokens of media: one for each in the text that a template
 * writes, then one for each row of features. LLaMA-Factory repeats the token in the text;
 * tokens are the same, as it is one of those that the tokenizer finds first. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/chat/template_internal.h"

/* A sample has fewer tokens. */
#define TOKENS_MAX ((size_t)INT32_MAX)

const char *template_media_token(const struct chat_template *chat, enum media_kind kind)
{
    return chat->media[kind];
}

void template_media_write(const struct media_family *family,
                          const struct chat_template *chat, struct text *out)
{
    if (chat && chat->model_chat && family->written) {
        text_adds(out, family->written);
        return;
    }
    text_adds(out, family->before ? family->before : "");
    text_adds(out, family->token);
    text_adds(out, family->after ? family->after : "");
}

static size_t tokens_of(const struct template_medium *medium)
{
    if (medium->tile > 0)
        return medium->rows + medium->rows / medium->tile;
    return medium->rows + (medium->columns ? medium->rows / medium->columns : 0);
}

/* Each tile is followed by a token, and there is one before the whole image. */
static void add_tiles(const struct template_media *media,
                      const struct template_medium *medium, struct token_list *out)
{
    const uint32_t tiles = medium->rows / medium->tile;

    for (uint32_t t = 1; t <= tiles; t++) {
        if (t == tiles)
            token_list_add(out, (uint32_t)media->token);
        for (uint32_t row = 0; row < medium->tile; row++)
            token_list_add(out, (uint32_t)media->row);
        if (t < tiles)
            token_list_add(
                out, (uint32_t)(t % medium->across == 0 ? media->end : media->row_end));
    }
}

static void add_medium(const struct template_media *media,
                       const struct template_medium *medium, struct token_list *out)
{
    uint32_t columns = medium->columns;

    if (medium->tile > 0) {
        add_tiles(media, medium, out);
        return;
    }
    for (uint32_t row = 1; row <= medium->rows; row++) {
        token_list_add(out, (uint32_t)media->token);
        if (columns && row % columns == 0)
            token_list_add(out,
                           (uint32_t)(row == medium->rows ? media->end : media->row_end));
    }
}

static bool fail_text(const struct template_media *media, const char *token,
                      struct error *err)
{
    return error_set(err, ERROR_DATA,
                     "the text has %s itself, the token of %s that the record does not "
                     "have; remove it from the text",
                     token, media_one(media->family->kind));
}

static bool fail_count(const struct template_media *media, size_t found,
                       struct error *err)
{
    const enum media_kind kind = media->family->kind;

    if (found < media->count)
        return error_set(err, ERROR_DATA,
                         "the template writes %zu of the %zu %s of the conversation: it "
                         "leaves out the others, or a part of the text around them",
                         found, media->count, media_nouns(kind));
    return fail_text(media, media->family->token, err);
}

/* Return whether a text has the token that only rows of features have. */
static bool has_row(const struct template_media *media, const struct token_list *part)
{
    for (size_t i = 0; media->family->patch && i < part->count; i++)
        if (part->ids[i] == (uint64_t)media->row)
            return true;
    return false;
}

/* Count the tokens of media in a part; *tokens is increased by those that they become. */
static size_t count_media(const struct template_media *media,
                          const struct token_list *part, size_t first, size_t *tokens)
{
    size_t found = 0;

    for (size_t i = 0; i < part->count; i++) {
        if (part->ids[i] != (uint64_t)media->token)
            continue;
        if (first + found < media->count)
            *tokens += tokens_of(&media->list[first + found]) - 1;
        found++;
    }
    *tokens += part->count;
    return found;
}

static void expand_part(struct template_media *media, struct token_list *part,
                        size_t *first)
{
    struct token_list out = { 0 };

    for (size_t i = 0; i < part->count; i++) {
        const struct template_medium *medium = &media->list[*first];
        struct media_span *span = &media->spans[*first];

        if (part->ids[i] != (uint64_t)media->token) {
            token_list_add(&out, part->ids[i]);
            continue;
        }
        *span = (struct media_span) { (uint32_t)out.count, (uint32_t)tokens_of(medium),
                                      (uint32_t)*first };
        add_medium(media, medium, &out);
        ++*first;
    }
    token_list_clear(part);
    *part = out;
}

bool template_media_expand(struct template_media *media, struct turn *turns, size_t count,
                           struct error *err)
{
    size_t found = 0, tokens = 0, first = 0;

    media->span_count = 0;
    media->lost = false;
    for (size_t i = 0; i < count; i++) {
        struct turn *turn = &turns[i];

        if (has_row(media, &turn->source) || has_row(media, &turn->target))
            return fail_text(media, media->family->patch, err);
        turn->source_media = count_media(media, &turn->source, found, &tokens);
        found += turn->source_media;
        turn->target_media = count_media(media, &turn->target, found, &tokens);
        found += turn->target_media;
    }
    if (found != media->count)
        return fail_count(media, found, err);
    if (tokens > TOKENS_MAX)
        return error_set(err, ERROR_DATA,
                         "the conversation has %zu tokens with its media", tokens);
    for (size_t i = 0; i < count; i++) {
        if (turns[i].source_media > 0)
            expand_part(media, &turns[i].source, &first);
        if (turns[i].target_media > 0)
            expand_part(media, &turns[i].target, &first);
    }
    return true;
}

void template_media_place(struct template_media *media, size_t *next, size_t count,
                          size_t len, size_t at)
{
    for (size_t end = *next + count; *next < end; ++*next) {
        struct media_span span = media->spans[*next];

        if ((size_t)span.start + span.len > len) {
            media->lost = true;
            continue;
        }
        span.start += (uint32_t)at;
        media->spans[media->span_count++] = span;
    }
}

bool template_media_fill(struct template_media *media, struct token_list *ids,
                         struct error *err)
{
    struct turn turn = { .source = *ids };
    size_t next = 0;
    bool ok = template_media_expand(media, &turn, 1, err);

    *ids = turn.source;
    if (ok)
        template_media_place(media, &next, turn.source_media, ids->count, 0);
    return ok;
}
