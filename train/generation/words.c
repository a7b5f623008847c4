/* train/generation/words.c - words as jieba 0.42.1 finds them (jieba/__init__.py,
 * jieba/finalseg/__init__.py). */
#include "config.h"

#include "train/generation/words.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "train/text/unicode.h"

/* All words of jieba/dict.txt without a Chinese character. */
static const char *const dictionary[] = { "AT&T", "c#", "C#", "c++", "C++" };

/* The kinds of characters of jieba's re_han_default and re_skip_default. */
enum kind { KIND_OTHER, KIND_SPACE, KIND_CHINESE, KIND_LATIN };

bool words_is_space(int32_t point)
{
    /* Unicode's White_Space, and the separators that Python adds by their bidirectional
     * class */
    return unicode_is_space(point) || (point >= 0x1c && point <= 0x1f);
}

static bool is_digit(int32_t point)
{
    return point >= '0' && point <= '9';
}

static bool is_letter_or_digit(int32_t point)
{
    return is_digit(point) || (point >= 'a' && point <= 'z') ||
           (point >= 'A' && point <= 'Z');
}

static enum kind kind_of(int32_t point)
{
    if (point >= 0x4e00 && point <= 0x9fd5)
        return KIND_CHINESE;
    if (is_letter_or_digit(point) ||
        (point > 0 && point < 0x80 && strchr("+#&._%-", (int)point)))
        return KIND_LATIN;
    return words_is_space(point) ? KIND_SPACE : KIND_OTHER;
}

void words_add(struct words *words, const char *text, size_t len)
{
    if (words->count == words->room) {
        words->room = words->room ? 2 * words->room : 256;
        words->list = memory_resize(words->list, words->room, sizeof(*words->list));
    }
    words->list[words->count++] = (struct word) { text, len };
}

void words_clear(struct words *words)
{
    free(words->list);
    *words = (struct words) { 0 };
}

/* Return the bytes of the match of [a-zA-Z0-9]+(?:\.\d+)?%? at the start; 0: none. */
static size_t match_number(const char *text, size_t len)
{
    size_t at = 0, digits;

    while (at < len && is_letter_or_digit(text[at]))
        at++;
    if (at == 0)
        return 0;
    if (at < len && text[at] == '.') {
        for (digits = at + 1; digits < len && is_digit(text[digits]); digits++)
            ;
        if (digits > at + 1)
            at = digits;
    }
    return at + (at < len && text[at] == '%');
}

/* Split a sequence that the dictionary does not know: matches, and what is between
 * them. */
static void split_unknown(struct words *words, const char *text, size_t len)
{
    size_t from = 0, at = 0, match;

    while (at < len) {
        match = match_number(text + at, len - at);
        if (match == 0) {
            at++;
            continue;
        }
        if (at > from)
            words_add(words, text + from, at - from);
        words_add(words, text + at, match);
        from = at += match;
    }
    if (len > from)
        words_add(words, text + from, len - from);
}

static size_t match_dictionary(const char *text, size_t len)
{
    for (size_t i = 0; i < TS_COUNT(dictionary); i++) {
        size_t size = strlen(dictionary[i]);

        if (size <= len && memcmp(text, dictionary[i], size) == 0)
            return size;
    }
    return 0;
}

/* Split letters, digits and +#&._%-.  A word of the dictionary is always more likely than
 * its characters, and no two of them can overlap. */
static void split_latin(struct words *words, const char *text, size_t len)
{
    size_t from = 0, at = 0, match;

    while (at < len) {
        match = match_dictionary(text + at, len - at);
        if (match == 0) {
            at++;
            continue;
        }
        split_unknown(words, text + from, at - from);
        words_add(words, text + at, match);
        from = at += match;
    }
    split_unknown(words, text + from, len - from);
}

/* Return the bytes of the Latin characters at the start. */
static size_t latin_len(const char *text, size_t len)
{
    size_t at = 0;

    while (at < len && kind_of((unsigned char)text[at]) == KIND_LATIN)
        at++;
    return at;
}

void words_split(struct words *words, const char *text, size_t len)
{
    size_t at = 0, size;
    int32_t point;

    while (at < len) {
        size = unicode_first(text + at, len - at, &point);
        switch (kind_of(point)) {
        case KIND_LATIN:
            size = latin_len(text + at, len - at);
            split_latin(words, text + at, size);
            break;
        case KIND_SPACE:
            size += point == '\r' && at + 1 < len && text[at + 1] == '\n';
            words_add(words, text + at, size);
            break;
        case KIND_CHINESE:
            words->has_chinese = true;
            words_add(words, text + at, size);
            break;
        case KIND_OTHER:
            words_add(words, text + at, size);
            break;
        }
        at += size;
    }
}
