/* train/tokenizer/bpe.c - BPE of words. Most words are one token: the strings of the
 * vocabulary that the merges really produce are determined once, so such a word costs one
 * lookup. Short words are merged in an array, long ones with a heap over linked
 * symbols. */
#include "config.h"

#include "train/tokenizer/bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "train/tokenizer/bpe_merges.h"
#include "train/text/unicode.h"

enum { SHORT_WORD = 48, TICK_WORK = 64 << 10 };

#define NO_LINK UINT32_MAX

/* SentencePiece's blank, U+2581. */
static const char blank[] = "\xe2\x96\x81";

struct bpe {
    struct vocabulary *names; /* as in the file */
    struct vocabulary *keys;  /* as in words; same as names unless byte_level */
    struct bpe_merges *merges;
    bool byte_level, fuse_unknown, ignore_merges;
    bool byte_fallback;
    /* words can be split before blanks: no merge crosses into a blank, and no character
     * between two is dropped */
    bool splits;
    int64_t unknown;           /* -1: none */
    int64_t byte_ids[256];     /* token of one byte, or of one ASCII character; -1 */
    int64_t fallback_ids[256]; /* <0x00> to <0xFF>; -1 */
    /* bit per id: merging the token's string yields the token */
    uint8_t *reachable;
};

/* A symbol of a long word. */
struct bpe_link {
    uint32_t id, before, after;
    bool merged;
};

int32_t bpe_byte_point(unsigned char byte)
{
    if ((byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad))
        return byte;
    if (byte <= ' ')
        return 256 + byte;
    return byte == 0xad ? 256 + 67 : 256 + 33 + (byte - 0x7f);
}

void bpe_add_bytes(struct text *out, const char *bytes, size_t len)
{
    char character[4];

    for (size_t i = 0; i < len; i++)
        text_add(out, character,
                 unicode_put(bpe_byte_point((unsigned char)bytes[i]), character));
}

int bpe_point_byte(int32_t point)
{
    if ((point >= '!' && point <= '~') ||
        (point >= 0xa1 && point <= 0xff && point != 0xad))
        return point;
    if (point < 256 || point > 256 + 67)
        return -1;
    point -= 256;
    return point <= ' ' ? point : point == 67 ? 0xad : point - 33 + 0x7f;
}

const struct vocabulary *bpe_names(const struct bpe *bpe)
{
    return bpe->names;
}

void bpe_scratch_clear(struct bpe_scratch *scratch)
{
    free(scratch->ids);
    free(scratch->links);
    free(scratch->heap);
    *scratch = (struct bpe_scratch) { 0 };
}

static void scratch_grow(struct bpe_scratch *scratch, size_t symbols)
{
    if (symbols <= scratch->room)
        return;
    scratch->room = symbols + symbols / 2 + 64;
    scratch->ids = memory_resize(scratch->ids, scratch->room, sizeof(uint32_t));
    scratch->links =
        memory_resize(scratch->links, scratch->room, sizeof(struct bpe_link));
}

/* The initial symbols of a word. */
struct symbols {
    uint32_t *ids;
    size_t count;
    bool unknown; /* one is pending */
};

static void flush_unknown(const struct bpe *bpe, struct symbols *symbols)
{
    if (symbols->unknown)
        symbols->ids[symbols->count++] = (uint32_t)bpe->unknown;
    symbols->unknown = false;
}

/* Take one <0xNN> for each byte, if the vocabulary has them all. */
static bool add_fallback(const struct bpe *bpe, const char *data, size_t len,
                         struct symbols *symbols)
{
    for (size_t i = 0; i < len; i++)
        if (bpe->fallback_ids[(unsigned char)data[i]] < 0)
            return false;
    for (size_t i = 0; i < len; i++)
        symbols->ids[symbols->count++] =
            (uint32_t)bpe->fallback_ids[(unsigned char)data[i]];
    return true;
}

static void add_missing(const struct bpe *bpe, const char *data, size_t len,
                        struct symbols *symbols)
{
    /* a pending unknown symbol stays pending across fallback bytes, as in the library */
    if (bpe->byte_fallback && add_fallback(bpe, data, len, symbols))
        return;
    if (bpe->unknown < 0)
        return;
    if (!bpe->fuse_unknown)
        flush_unknown(bpe, symbols);
    symbols->unknown = true;
}

/* The symbols of a word: its bytes (byte_level) or its characters. */
static size_t word_symbols(const struct bpe *bpe, const char *word, size_t len,
                           uint32_t *ids)
{
    struct symbols symbols = { .ids = ids };

    for (size_t i = 0; i < len;) {
        int64_t id = bpe->byte_ids[(unsigned char)word[i]];
        size_t bytes = 1;

        if (!bpe->byte_level && (unsigned char)word[i] >= 0x80) {
            int32_t point;

            bytes = unicode_first(word + i, len - i, &point);
            id = vocabulary_find(bpe->keys, word + i, bytes);
        }
        if (id >= 0) {
            flush_unknown(bpe, &symbols);
            symbols.ids[symbols.count++] = (uint32_t)id;
        } else {
            add_missing(bpe, word + i, bytes, &symbols);
        }
        i += bytes;
    }
    flush_unknown(bpe, &symbols);
    return symbols.count;
}

/* Merge in place: always the first pair of the lowest rank, until none is left. */
static size_t merge_short(const struct bpe *bpe, uint32_t *ids, size_t count)
{
    struct bpe_merge pairs[SHORT_WORD];

    for (size_t i = 0; i + 1 < count; i++)
        pairs[i] = bpe_merges_find(bpe->merges, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;

        for (size_t i = 1; i + 1 < count; i++)
            if (pairs[i].rank < pairs[best].rank)
                best = i;
        if (pairs[best].rank == BPE_NO_MERGE)
            break;
        ids[best] = pairs[best].result;
        count--;
        memmove(&ids[best + 1], &ids[best + 2], (count - best - 1) * sizeof(ids[0]));
        if (best + 1 < count) {
            memmove(&pairs[best + 1], &pairs[best + 2],
                    (count - best - 2) * sizeof(pairs[0]));
            pairs[best] = bpe_merges_find(bpe->merges, ids[best], ids[best + 1]);
        }
        if (best > 0)
            pairs[best - 1] = bpe_merges_find(bpe->merges, ids[best - 1], ids[best]);
    }
    return count;
}

/* A heap of rank << 32 | position: the smallest is the next merge. */
static void heap_push(struct bpe_scratch *scratch, size_t *count, uint64_t entry)
{
    size_t at = (*count)++;

    if (at == scratch->heap_room) {
        scratch->heap_room = at + at / 2 + 256;
        scratch->heap =
            memory_resize(scratch->heap, scratch->heap_room, sizeof(uint64_t));
    }
    while (at > 0 && scratch->heap[(at - 1) / 2] > entry) {
        scratch->heap[at] = scratch->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    scratch->heap[at] = entry;
}

static uint64_t heap_pop(uint64_t *heap, size_t *count)
{
    uint64_t top = heap[0], last = heap[--*count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < *count) {
        if (child + 1 < *count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* The merge of the symbol at `at` with the one after it. */
static struct bpe_merge link_merge(const struct bpe *bpe, const struct bpe_link *links,
                                   uint32_t at)
{
    if (at == NO_LINK || links[at].merged || links[at].after == NO_LINK)
        return (struct bpe_merge) { .rank = BPE_NO_MERGE };
    return bpe_merges_find(bpe->merges, links[at].id, links[links[at].after].id);
}

/* A tick costs as much as a short word. */
static bool may_continue(struct bpe_scratch *scratch, size_t work)
{
    scratch->work += work;
    if (scratch->work < TICK_WORK)
        return true;
    scratch->work = 0;
    return heartbeat_tick(scratch->heartbeat);
}

static void push_merge(const struct bpe *bpe, struct bpe_scratch *scratch, size_t *heap,
                       uint32_t at)
{
    struct bpe_merge merge = link_merge(bpe, scratch->links, at);

    if (merge.rank != BPE_NO_MERGE)
        heap_push(scratch, heap, (uint64_t)merge.rank << 32 | at);
}

static size_t merge_long(const struct bpe *bpe, struct bpe_scratch *scratch, size_t count)
{
    struct bpe_link *links = scratch->links;
    size_t heap = 0, left = 0;

    for (size_t i = 0; i < count; i++)
        links[i] = (struct bpe_link) {
            .id = scratch->ids[i],
            .before = i > 0 ? (uint32_t)i - 1 : NO_LINK,
            .after = i + 1 < count ? (uint32_t)i + 1 : NO_LINK,
        };
    for (size_t i = 0; i < count; i++)
        push_merge(bpe, scratch, &heap, (uint32_t)i);
    while (heap > 0 && may_continue(scratch, 1)) {
        uint64_t top = heap_pop(scratch->heap, &heap);
        uint32_t at = (uint32_t)top, after;
        struct bpe_merge merge = link_merge(bpe, links, at);

        /* skip an entry whose symbols have changed since it was pushed */
        if (merge.rank != top >> 32)
            continue;
        after = links[at].after;
        links[at].id = merge.result;
        links[at].after = links[after].after;
        links[after].merged = true;
        if (links[at].after != NO_LINK)
            links[links[at].after].before = at;
        push_merge(bpe, scratch, &heap, links[at].before);
        push_merge(bpe, scratch, &heap, at);
    }
    for (uint32_t i = 0; i < count; i++)
        if (!links[i].merged)
            scratch->ids[left++] = links[i].id;
    return left;
}

/* Store the tokens of a word in scratch->ids; return their number. */
static size_t merge_word(const struct bpe *bpe, const char *word, size_t len,
                         struct bpe_scratch *scratch)
{
    size_t count;

    scratch_grow(scratch, len + 1);
    count = word_symbols(bpe, word, len, scratch->ids);
    return count <= SHORT_WORD ? merge_short(bpe, scratch->ids, count)
                               : merge_long(bpe, scratch, count);
}

static void encode_word(const struct bpe *bpe, const char *word, size_t len,
                        struct bpe_scratch *scratch, struct token_list *out)
{
    int64_t id = vocabulary_find(bpe->keys, word, len);
    size_t count;

    if (id >= 0 && (bpe->ignore_merges || bpe->reachable[id / 8] >> (id % 8) & 1)) {
        token_list_add(out, (uint32_t)id);
        return;
    }
    count = merge_word(bpe, word, len, scratch);
    for (size_t i = 0; i < count; i++)
        token_list_add(out, scratch->ids[i]);
}

static bool is_blank(const char *data)
{
    return memcmp(data, blank, 3) == 0;
}

/* Bytes up to the next blank that does not follow a blank. */
static size_t word_length(const char *text, size_t len)
{
    size_t at = 0;

    while (at + 3 <= len && is_blank(text + at))
        at += 3;
    for (; at + 3 <= len; at++)
        if (text[at] == blank[0] && is_blank(text + at))
            return at;
    return len;
}

bool bpe_encode(const struct bpe *bpe, const char *word, size_t len,
                struct bpe_scratch *scratch, struct token_list *out)
{
    while (bpe->splits && len > 0) {
        size_t part = word_length(word, len);

        if (!may_continue(scratch, part))
            return false;
        encode_word(bpe, word, part, scratch, out);
        word += part;
        len -= part;
    }
    if (len > 0)
        encode_word(bpe, word, len, scratch, out);
    return may_continue(scratch, len) && !heartbeat_stopped(scratch->heartbeat);
}

void bpe_free(struct bpe *bpe)
{
    if (!bpe)
        return;
    if (bpe->keys != bpe->names)
        vocabulary_free(bpe->keys);
    vocabulary_free(bpe->names);
    bpe_merges_free(bpe->merges);
    free(bpe->reachable);
    free(bpe);
}

/* Convert a string of GPT-2's printable characters to the bytes that it encodes; false if
 * it has other characters. */
static bool decode_bytes(const char *data, size_t len, struct text *out)
{
    int32_t point;

    text_reset(out);
    for (size_t i = 0; i < len;) {
        int byte;

        i += unicode_first(data + i, len - i, &point);
        byte = bpe_point_byte(point);
        if (byte < 0)
            return false;
        text_addc(out, (char)byte);
    }
    return true;
}

static struct vocabulary *read_names(const json_t *vocab, size_t ids, const char *where,
                                     struct error *err)
{
    struct vocabulary *names;
    const char *key;
    json_t *value;

    if (!json_is_object(vocab)) {
        error_set(err, ERROR_DATA, "%s: model.vocab must be an object of strings and ids",
                  where);
        return NULL;
    }
    names = vocabulary_new(ids, json_object_size(vocab));
    json_object_foreach((json_t *)vocab, key, value)
    {
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;

        if (id < 0 || (uint64_t)id >= ids) {
            error_set(
                err, ERROR_DATA,
                "%s: model.vocab: the id of \"%s\" must be an integer from 0 to %zu",
                where, key, ids - 1);
            break;
        }
        if (!vocabulary_add(names, key, strlen(key), (uint32_t)id)) {
            error_set(err, ERROR_DATA, "%s: model.vocab: id %lld occurs twice", where,
                      (long long)id);
            break;
        }
    }
    if (!key) /* the loop reached its end */
        return names;
    vocabulary_free(names);
    return NULL;
}

/* The strings as bytes; a string that does not encode bytes cannot occur and is left
 * out. */
static struct vocabulary *decode_names(const struct vocabulary *names)
{
    size_t size = vocabulary_size(names), len;
    struct vocabulary *keys = vocabulary_new(size, size);
    struct text bytes;

    text_init(&bytes, 0);
    for (size_t id = 0; id < size; id++) {
        const char *name = vocabulary_string(names, (uint32_t)id, &len);

        if (name && decode_bytes(name, len, &bytes))
            vocabulary_add(keys, bytes.data, bytes.len, (uint32_t)id);
    }
    text_clear(&bytes);
    return keys;
}

/* Tokens of single bytes and characters, and the fallback tokens of missing ones. */
static void find_symbols(struct bpe *bpe)
{
    for (int byte = 0; byte < 256; byte++) {
        char one = (char)byte, name[8];
        int len = snprintf(name, sizeof(name), "<0x%02X>", (unsigned)byte);

        bpe->byte_ids[byte] =
            bpe->byte_level || byte < 0x80 ? vocabulary_find(bpe->keys, &one, 1) : -1;
        bpe->fallback_ids[byte] = vocabulary_find(bpe->names, name, (size_t)len);
    }
}

static void find_reachable(struct bpe *bpe)
{
    size_t size = vocabulary_size(bpe->names), len;
    struct bpe_scratch scratch = { 0 };

    bpe->reachable = memory_alloc(size / 8 + 1);
    for (size_t id = 0; id < size && !bpe->ignore_merges; id++) {
        const char *key = vocabulary_string(bpe->keys, (uint32_t)id, &len);

        if (key && merge_word(bpe, key, len, &scratch) == 1 && scratch.ids[0] == id)
            bpe->reachable[id / 8] |= (uint8_t)(1 << id % 8);
    }
    bpe_scratch_clear(&scratch);
}

/* Return whether the result of any merge has a blank after another character. */
static bool crosses_blank(const struct bpe *bpe)
{
    for (uint32_t rank = 0; rank < bpe_merges_count(bpe->merges); rank++) {
        size_t len;
        const char *name =
            vocabulary_string(bpe->names, bpe_merges_result(bpe->merges, rank), &len);

        if (word_length(name, len) < len)
            return true;
    }
    return false;
}

/* Return whether characters can be dropped, which makes their neighbors adjacent. */
static bool drops_characters(const struct bpe *bpe)
{
    for (int byte = 0; byte < 256; byte++)
        if (bpe->unknown < 0 && (!bpe->byte_fallback || bpe->fallback_ids[byte] < 0))
            return true;
    return false;
}

/* Refuse unsupported options that would change the ids. */
static bool refuse_options(const json_t *model, const char *where, struct error *err)
{
    static const char *const affixes[] = { "continuing_subword_prefix",
                                           "end_of_word_suffix" };
    const char *type = json_get_string(model, "type", "BPE", where, err);

    if (strcmp(type, "BPE") != 0)
        return error_set(err, ERROR_DATA,
                         "%s: a model of type %s is not supported, only BPE", where,
                         type);
    if (json_get_real(model, "dropout", 0, where, err) != 0)
        return error_set(err, ERROR_DATA, "%s: model.dropout is not supported", where);
    for (size_t i = 0; i < TS_COUNT(affixes); i++)
        if (json_get_string(model, affixes[i], "", where, err)[0] != 0)
            return error_set(err, ERROR_DATA, "%s: model.%s is not supported", where,
                             affixes[i]);
    return !err || err->code == ERROR_NONE;
}

static bool read_options(struct bpe *bpe, const json_t *model, const char *where,
                         struct error *err)
{
    const char *unknown = json_get_string(model, "unk_token", NULL, where, err);

    bpe->fuse_unknown = json_get_bool(model, "fuse_unk", false, where, err);
    bpe->byte_fallback = json_get_bool(model, "byte_fallback", false, where, err);
    bpe->ignore_merges = json_get_bool(model, "ignore_merges", false, where, err);
    bpe->unknown = unknown ? vocabulary_find(bpe->names, unknown, strlen(unknown)) : -1;
    if (unknown && bpe->unknown < 0)
        return error_set(err, ERROR_DATA,
                         "%s: model.unk_token \"%s\" is not in the vocabulary", where,
                         unknown);
    return !err || err->code == ERROR_NONE;
}

static bool read_model(struct bpe *bpe, const json_t *model, size_t ids,
                       const char *where, struct error *err)
{
    if (!refuse_options(model, where, err))
        return false;
    bpe->names = read_names(json_object_get(model, "vocab"), ids, where, err);
    if (!bpe->names || !read_options(bpe, model, where, err))
        return false;
    bpe->keys = bpe->byte_level ? decode_names(bpe->names) : bpe->names;
    bpe->merges =
        bpe_merges_read(json_object_get(model, "merges"), bpe->names, where, err);
    if (!bpe->merges)
        return false;
    find_symbols(bpe);
    find_reachable(bpe);
    bpe->splits = !bpe->byte_level && !bpe->ignore_merges && !drops_characters(bpe) &&
                  vocabulary_find(bpe->keys, blank, 3) >= 0 && !crosses_blank(bpe);
    return true;
}

struct bpe *bpe_new(const json_t *model, bool byte_level, size_t ids, const char *where,
                    struct error *err)
{
    struct bpe *bpe;

    if (!json_is_object(model)) {
        error_set(err, ERROR_DATA, "%s: there is no model", where);
        return NULL;
    }
    bpe = memory_alloc(sizeof(*bpe));
    bpe->byte_level = byte_level;
    if (read_model(bpe, model, ids, where, err))
        return bpe;
    bpe_free(bpe);
    return NULL;
}
