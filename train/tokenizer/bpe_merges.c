/* train/tokenizer/bpe_merges.c - hash table from pairs of tokens to ranks, with open
 * addressing. */
#include "config.h"

#include "train/tokenizer/bpe_merges.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* Empty if the rank is BPE_NO_MERGE. */
struct slot {
    uint32_t left, right;
    struct bpe_merge merge;
};

struct bpe_merges {
    struct slot *slots;
    size_t mask, count;
    uint32_t *results; /* by rank */
};

static size_t hash_pair(uint32_t left, uint32_t right)
{
    uint64_t hash = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;

    return hash ^ hash >> 32;
}

static struct slot *find_slot(const struct bpe_merges *merges, uint32_t left,
                              uint32_t right)
{
    for (size_t i = hash_pair(left, right) & merges->mask;; i = (i + 1) & merges->mask) {
        struct slot *slot = &merges->slots[i];

        if ((slot->left == left && slot->right == right) ||
            slot->merge.rank == BPE_NO_MERGE)
            return slot;
    }
}

struct bpe_merge bpe_merges_find(const struct bpe_merges *merges, uint32_t left,
                                 uint32_t right)
{
    return find_slot(merges, left, right)->merge;
}

size_t bpe_merges_count(const struct bpe_merges *merges)
{
    return merges->count;
}

uint32_t bpe_merges_result(const struct bpe_merges *merges, uint32_t rank)
{
    return merges->results[rank];
}

void bpe_merges_free(struct bpe_merges *merges)
{
    if (!merges)
        return;
    free(merges->slots);
    free(merges->results);
    free(merges);
}

/* The two parts of a merge as one string, and the position where the second starts. */
static bool read_parts(const json_t *item, struct text *out, size_t *cut)
{
    text_reset(out);
    if (json_is_array(item) && json_array_size(item) == 2 &&
        json_is_string(json_array_get(item, 0)) &&
        json_is_string(json_array_get(item, 1))) {
        const json_t *left = json_array_get(item, 0), *right = json_array_get(item, 1);

        *cut = json_string_length(left);
        text_add(out, json_string_value(left), *cut);
        return text_add(out, json_string_value(right), json_string_length(right));
    }
    if (json_is_string(item)) {
        const char *data = json_string_value(item);
        size_t len = json_string_length(item);
        const char *space = memchr(data, ' ', len);

        if (!space || memchr(space + 1, ' ', len - (size_t)(space + 1 - data)))
            return false;
        *cut = (size_t)(space - data);
        text_add(out, data, *cut);
        return text_add(out, space + 1, len - *cut - 1);
    }
    return false;
}

/* GPT-2's merges.txt starts with a comment, which some files have kept. */
static bool is_comment(const json_t *item)
{
    return json_is_string(item) && text_starts(json_string_value(item), "#version");
}

static bool read_merge(struct bpe_merges *merges, const struct vocabulary *names,
                       const struct text *parts, size_t cut)
{
    int64_t left = vocabulary_find(names, parts->data, cut);
    int64_t right = vocabulary_find(names, parts->data + cut, parts->len - cut);
    int64_t result = vocabulary_find(names, parts->data, parts->len);
    struct slot *slot;

    if (left < 0 || right < 0 || result < 0)
        return false;
    slot = find_slot(merges, (uint32_t)left, (uint32_t)right);
    *slot = (struct slot) {
        .left = (uint32_t)left,
        .right = (uint32_t)right,
        .merge = { .rank = (uint32_t)merges->count, .result = (uint32_t)result },
    };
    merges->results[merges->count++] = (uint32_t)result;
    return true;
}

static struct bpe_merges *merges_new(size_t count)
{
    struct bpe_merges *merges = memory_alloc(sizeof(*merges));
    size_t slots = 64;

    while (2 * slots < 3 * count)
        slots *= 2;
    merges->slots = memory_resize(NULL, slots, sizeof(struct slot));
    memset(merges->slots, 0xff, slots * sizeof(struct slot));
    merges->mask = slots - 1;
    merges->results = memory_resize(NULL, count + 1, sizeof(uint32_t));
    return merges;
}

struct bpe_merges *bpe_merges_read(const json_t *list, const struct vocabulary *names,
                                   const char *where, struct error *err)
{
    struct bpe_merges *merges;
    struct text parts;
    bool ok = true;

    if (!json_is_array(list)) {
        error_set(err, ERROR_DATA, "%s: model.merges must be a list", where);
        return NULL;
    }
    merges = merges_new(json_array_size(list));
    text_init(&parts, 0);
    for (size_t i = 0; i < json_array_size(list) && ok; i++) {
        const json_t *item = json_array_get(list, i);
        size_t cut = 0;

        if (is_comment(item))
            continue;
        if (!read_parts(item, &parts, &cut))
            ok = error_set(err, ERROR_DATA,
                           "%s: model.merges: entry %zu must be \"a b\" or [\"a\", "
                           "\"b\"]",
                           where, i + 1);
        else if (!read_merge(merges, names, &parts, cut))
            ok = error_set(err, ERROR_DATA,
                           "%s: model.merges: entry %zu, \"%.*s\" and \"%s\": a part, "
                           "or their concatenation, is not in the vocabulary",
                           where, i + 1, (int)cut, parts.data, parts.data + cut);
    }
    text_clear(&parts);
    if (ok)
        return merges;
    bpe_merges_free(merges);
    return NULL;
}
