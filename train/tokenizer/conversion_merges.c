/* train/tokenizer/conversion_merges.c - the merges of a vocabulary that has none: every way
 * to cut a token into two others.  Source: transformers 5.24, generate_merges. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/tokenizer/conversion.h"

/* Bytes that are compared at most: a published vocabulary takes about a hundredth of it. */
#define WORK_MAX ((size_t)1 << 32)

struct cut {
    int64_t left, right;
    size_t at;
};

static int compare_cuts(const void *a, const void *b)
{
    const struct cut *x = a, *y = b;

    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

/* "a b", or ["a", "b"] if one has a blank. */
static json_t *merge_of(const char *token, size_t len, size_t at, struct text *text)
{
    if (memchr(token, ' ', len))
        return json_pack("[s%, s%]", token, at, token + at, len - at);
    text_reset(text);
    text_add(text, token, at);
    text_addc(text, ' ');
    text_add(text, token + at, len - at);
    return json_stringn(text->data, text->len);
}

/* Find the cuts of a token between characters. */
static size_t find_cuts(const struct vocabulary *names, const char *token, size_t len,
                        struct cut *cuts)
{
    size_t count = 0;

    for (size_t at = 1; at < len; at++) {
        struct cut cut = { .at = at };

        if (((unsigned char)token[at] & 0xc0) == 0x80)
            continue;
        cut.left = vocabulary_find(names, token, at);
        if (cut.left < 0)
            continue;
        cut.right = vocabulary_find(names, token + at, len - at);
        if (cut.right >= 0)
            cuts[count++] = cut;
    }
    return count;
}

json_t *conversion_merges(const struct vocabulary *names, const uint32_t *order,
                          size_t count, bool by_ids, const char *where, struct error *err)
{
    json_t *list = json_array();
    struct cut *cuts = NULL;
    size_t room = 0, work = 0;
    struct text text;

    text_init(&text, 0);
    for (size_t i = 0; i < count && work <= WORK_MAX; i++) {
        size_t len = 0, found;
        const char *token = vocabulary_string(names, order[i], &len);

        if (len > WORK_MAX || (work += len * len) > WORK_MAX)
            break;
        if (len > room) {
            room = 2 * len;
            cuts = memory_resize(cuts, room, sizeof(*cuts));
        }
        found = find_cuts(names, token, len, cuts);
        if (by_ids)
            qsort(cuts, found, sizeof(*cuts), compare_cuts);
        for (size_t k = 0; k < found; k++)
            json_array_append_new(list, merge_of(token, len, cuts[k].at, &text));
    }
    text_clear(&text);
    free(cuts);
    if (work <= WORK_MAX)
        return list;
    error_set(err, ERROR_DATA, "%s: its tokens are too long", where);
    json_decref(list);
    return NULL;
}
