/* patcher/document/comment.c - reader of trainspool directives in one comment. */
#include "config.h"

#include "patcher/document/comment.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/nearest.h"

enum { NEAR = 1, WORD_MAX = 32 };

static const char mark[] = "trainspool:";
static const char *const names[] = {
    [COMMENT_IGNORE] = "ignore",
    [COMMENT_KEEP] = "keep",
};

/* A part of a comment: from its # to the next one, or to the end of the line. */
struct part {
    const char *data;
    size_t from, to;
    bool last;
};

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static size_t skip_blanks(const struct part *part, size_t at)
{
    while (at < part->to && is_blank(part->data[at]))
        at++;
    return at;
}

static size_t skip_comma(const struct part *part, size_t at)
{
    at = skip_blanks(part, at);
    return at < part->to && part->data[at] == ',' ? skip_blanks(part, at + 1) : at;
}

static bool find_kind(const char *data, size_t len, struct comment_word *out)
{
    char word[WORD_MAX + 1];

    snprintf(word, sizeof(word), "%.*s", (int)(len < WORD_MAX ? len : WORD_MAX), data);
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        out->kind = (enum comment_kind)i;
        if (strcmp(word, names[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        out->kind = COMMENT_MISSPELLED;
        out->meant = names[i];
        if (nearest_distance(word, names[i], NEAR) <= NEAR)
            return true;
    }
    return false;
}

/* Read the brackets after a word.  Return the position after them. */
static size_t read_brackets(const struct part *part, size_t open,
                            struct comment_word *out)
{
    const char *close = memchr(part->data + open, ']', part->to - open);

    out->rules_from = open + 1;
    out->rules_to = close ? (size_t)(close - part->data) : part->to;
    if (!close)
        return part->to;
    out->to = out->rules_to + 1;
    return out->to;
}

/*
 * Read the word at `at`.  Return the position after it, 0 if there is no word.  `strict`
 * applies where the word may be part of a sentence: ignore must have closed brackets, and
 * only a comma may follow keep.
 */
static size_t read_word(const struct part *part, size_t at, bool strict,
                        struct comment_word *out)
{
    const char *data = part->data;
    size_t end = at, open;

    *out = (struct comment_word) { .from = at };
    while (end < part->to && !strchr(" \t[,", data[end]))
        end++;
    if (end == at || !find_kind(data + at, end - at, out))
        return 0;
    out->to = end;
    open = skip_blanks(part, end);
    if (open < part->to && data[open] == '[') {
        end = read_brackets(part, open, out);
        return strict && data[end - 1] != ']' ? 0 : end;
    }
    if (strict && (out->kind != COMMENT_KEEP || (open < part->to && data[open] != ',')))
        return 0;
    return end;
}

static bool has_mark(const struct part *part, size_t at)
{
    return part->to - at >= sizeof(mark) - 1 &&
           memcmp(part->data + at, mark, sizeof(mark) - 1) == 0;
}

/* Return whether the rest of the part is a list of words. */
static bool is_list(const struct part *part, size_t at)
{
    struct comment_word word;
    size_t end = 0, next;

    while ((next = read_word(part, at, true, &word))) {
        end = next;
        at = skip_comma(part, end);
    }
    return end == part->to;
}

/* Find the last mark that follows other text and is followed only by words; 0 if there is
 * none. */
static size_t find_trailing_mark(const struct part *part)
{
    size_t at = part->to;

    while (at > part->from + 1 && !has_mark(part, at))
        at--;
    return has_mark(part, at) && strchr(" \t;,.", part->data[at - 1]) &&
                   is_list(part, skip_blanks(part, at + sizeof(mark) - 1))
               ? at
               : 0;
}

static void read_part(const struct part *part,
                      void (*take)(void *context, const struct comment_word *word),
                      void *context)
{
    size_t at = skip_blanks(part, part->from + 1), end, next;
    bool begins = has_mark(part, at);
    size_t from = begins ? part->from : find_trailing_mark(part);
    struct comment_word word, following;

    if (from == 0 && !begins)
        return;
    at = skip_blanks(part, (begins ? at : from) + sizeof(mark) - 1);
    end = read_word(part, at, !begins, &word);
    word.from = from;
    for (bool first = true; end > 0; first = false) {
        next = read_word(part, skip_comma(part, end), true, &following);
        word.last = part->last && first && next == 0;
        take(context, &word);
        word = following;
        end = next;
    }
}

void comment_read(const char *data, size_t from, size_t to,
                  void (*take)(void *context, const struct comment_word *word),
                  void *context)
{
    struct part part = { .data = data, .from = from };

    for (size_t i = from + 1; i <= to; i++) {
        if (i < to && data[i] != '#')
            continue;
        part.to = i;
        while (part.to > part.from + 1 && is_blank(data[part.to - 1]))
            part.to--;
        part.last = i == to;
        read_part(&part, take, context);
        part.from = i;
    }
}
