/* train/tokenizer/charsmap.c - reader of a double-array trie (J. Aoe, 1989; S. Yata's
 * darts-clone, include/darts.h) from UTF-8 to positions in a block of strings that end in
 * NUL.  Applied as in Hugging Face's spm_precompiled (src/lib.rs): a grapheme of less than
 * 6 bytes is replaced as a whole if a prefix of it is in the table, and otherwise each of
 * its characters is. */
#include "config.h"

#include "train/tokenizer/charsmap.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/arena.h"
#include "train/text/unicode.h"

/* A longer grapheme is not looked up as a whole. */
enum { GRAPHEME_BYTES = 6 };

struct charsmap {
    uint32_t *units;
    size_t count;
    char *strings; /* ends in a NUL */
    size_t bytes;
};

static uint32_t get32(const unsigned char *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

struct charsmap *charsmap_new(const void *data, size_t len, const char *where,
                              struct error *err)
{
    const unsigned char *from = data;
    size_t trie = len >= 4 ? get32(from) : 0;
    struct charsmap *charsmap;

    if (len < 4 || trie % 4 != 0 || trie == 0 || trie > len - 4 ||
        !text_is_utf8((const char *)from + 4 + trie, len - 4 - trie, NULL)) {
        error_set(err, ERROR_DATA, "%s: precompiled_charsmap is damaged", where);
        return NULL;
    }
    charsmap = memory_alloc(sizeof(*charsmap));
    charsmap->count = trie / 4;
    charsmap->units = memory_alloc(trie);
    for (size_t i = 0; i < charsmap->count; i++)
        charsmap->units[i] = get32(from + 4 + 4 * i);
    charsmap->bytes = len - 4 - trie;
    charsmap->strings = memory_alloc(charsmap->bytes + 1);
    if (charsmap->bytes > 0)
        memcpy(charsmap->strings, from + 4 + trie, charsmap->bytes);
    return charsmap;
}

void charsmap_free(struct charsmap *charsmap)
{
    if (!charsmap)
        return;
    free(charsmap->units);
    free(charsmap->strings);
    free(charsmap);
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* Return the replacement of the shortest prefix of a text that has one, or NULL. */
static const char *find(const struct charsmap *charsmap, const char *text, size_t len)
{
    size_t at = offset_of(charsmap->units[0]);

    for (size_t i = 0; i < len && text[i]; i++) {
        unsigned char byte = (unsigned char)text[i];
        uint32_t unit;

        at ^= byte;
        if (at >= charsmap->count)
            return NULL;
        unit = charsmap->units[at];
        if ((unit & (1u << 31 | 0xff)) != byte)
            return NULL;
        at ^= offset_of(unit);
        if (at >= charsmap->count)
            return NULL;
        if (unit >> 8 & 1) {
            size_t value = charsmap->units[at] & ~(1u << 31);

            return value < charsmap->bytes ? charsmap->strings + value : NULL;
        }
    }
    return NULL;
}

static void apply_grapheme(const struct charsmap *charsmap, const char *text, size_t len,
                           struct text *out)
{
    const char *whole = len < GRAPHEME_BYTES ? find(charsmap, text, len) : NULL;

    if (whole) {
        text_adds(out, whole);
        return;
    }
    for (size_t at = 0, bytes; at < len; at += bytes) {
        const char *one;
        int32_t point;

        bytes = unicode_first(text + at, len - at, &point);
        one = find(charsmap, text + at, bytes);
        if (one)
            text_adds(out, one);
        else
            text_add(out, text + at, bytes);
    }
}

void charsmap_apply(const struct charsmap *charsmap, const char *text, size_t len,
                    struct text *out)
{
    utf8proc_int32_t state = 0;
    int32_t last = 0, point;
    size_t start = 0, at = 0;

    while (at < len && !out->overflow) {
        size_t bytes = unicode_first(text + at, len - at, &point);

        if (at > start && utf8proc_grapheme_break_stateful(last, point, &state)) {
            apply_grapheme(charsmap, text + start, at - start, out);
            start = at;
        }
        last = point;
        at += bytes;
    }
    apply_grapheme(charsmap, text + start, at - start, out);
}
