/* train/tokenizer/unigram.c - Viterbi search over a trie of the tokens, as in Hugging Face's
 * tokenizers (models/unigram/model.rs, encode_optimized): the same sums in double, and of
 * equal ones the first, give the same ids. */
#include "config.h"

#include "train/tokenizer/unigram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/heartbeat.h"
#include "train/text/unicode.h"

#define UNKNOWN_PENALTY 10.0 /* kUnkPenalty, sentencepiece/src/unigram_model.cc */
#define NONE            UINT32_MAX

enum { TICK_WORK = 64 << 10 };

/* The best way to reach a position of a word. */
struct unigram_end {
    double score;
    uint32_t id, start; /* start NONE: none yet */
};

/* An edge of the trie, in a table with open addressing; child 0: the slot is empty. */
struct edge {
    uint32_t node, child;
    unsigned char byte;
};

struct unigram {
    struct vocabulary *names;
    double *scores; /* by id */
    double unknown_score;
    int64_t unknown; /* -1: none */
    bool byte_fallback;
    int64_t byte_ids[256]; /* <0x00> to <0xFF>; -1 */
    struct edge *edges;
    size_t mask;
    uint32_t *tokens; /* by node; NONE */
    uint32_t nodes;
};

static struct edge *find_edge(const struct unigram *u, uint32_t node, unsigned char byte)
{
    uint64_t hash = ((uint64_t)node << 8 | byte) * 0x9e3779b97f4a7c15u;

    for (size_t i = (hash ^ hash >> 32) & u->mask;; i = (i + 1) & u->mask) {
        struct edge *edge = &u->edges[i];

        if (edge->child == 0 || (edge->node == node && edge->byte == byte))
            return edge;
    }
}

static void add_token(struct unigram *u, const char *name, size_t len, uint32_t id)
{
    uint32_t node = 0;

    for (size_t i = 0; i < len; i++) {
        struct edge *edge = find_edge(u, node, (unsigned char)name[i]);

        if (edge->child == 0) {
            *edge = (struct edge) { node, u->nodes, (unsigned char)name[i] };
            u->tokens[u->nodes++] = NONE;
        }
        node = edge->child;
    }
    u->tokens[node] = id;
}

/* Make the trie, which has at most a node for each byte of the tokens. */
static void make_trie(struct unigram *u, size_t bytes)
{
    size_t slots = 64, len = 0;

    while (2 * slots < 3 * (bytes + 1))
        slots *= 2;
    u->edges = memory_alloc(slots * sizeof(*u->edges));
    u->mask = slots - 1;
    u->tokens = memory_alloc((bytes + 1) * sizeof(*u->tokens));
    u->tokens[0] = NONE;
    u->nodes = 1;
    for (size_t id = 0; id < vocabulary_size(u->names); id++) {
        const char *name = vocabulary_string(u->names, (uint32_t)id, &len);

        if (len > 0)
            add_token(u, name, len, (uint32_t)id);
    }
}

const struct vocabulary *unigram_names(const struct unigram *unigram)
{
    return unigram->names;
}

void unigram_free(struct unigram *unigram)
{
    if (!unigram)
        return;
    vocabulary_free(unigram->names);
    free(unigram->scores);
    free(unigram->edges);
    free(unigram->tokens);
    free(unigram);
}

void unigram_scratch_clear(struct unigram_scratch *scratch)
{
    free(scratch->ends);
    *scratch = (struct unigram_scratch) { 0 };
}

static void improve(struct unigram_end *end, double score, uint32_t id, size_t start)
{
    if (end->start != NONE && !(score > end->score))
        return;
    *end = (struct unigram_end) { score, id, (uint32_t)start };
}

/* Extend the best way to `start` by all tokens there.  Returns the number of bytes that
 * were compared. */
static size_t extend(const struct unigram *u, const char *word, size_t len, size_t start,
                     struct unigram_end *ends)
{
    int32_t point;
    size_t one = unicode_first(word + start, len - start, &point), at = start;
    double score = ends[start].score;
    bool has_one = false;
    uint32_t node = 0;

    while (at < len) {
        const struct edge *edge = find_edge(u, node, (unsigned char)word[at]);

        if (edge->child == 0)
            break;
        node = edge->child;
        at++;
        if (u->tokens[node] == NONE)
            continue;
        improve(&ends[at], u->scores[u->tokens[node]] + score, u->tokens[node], start);
        has_one = has_one || at - start == one;
    }
    if (!has_one)
        improve(&ends[start + one], u->unknown_score + score, (uint32_t)u->unknown,
                start);
    return at - start + 1;
}

/* Append the bytes of an unknown sequence, or the unknown token. */
static void add_unknown(const struct unigram *u, const char *data, size_t len,
                        struct token_list *out)
{
    int64_t id = vocabulary_find(u->names, data, len);
    bool bytes = u->byte_fallback;

    if (id >= 0) { /* such as <unk> itself */
        token_list_add(out, (uint32_t)id);
        return;
    }
    for (size_t i = 0; i < len && bytes; i++)
        bytes = u->byte_ids[(unsigned char)data[i]] >= 0;
    for (size_t i = 0; i < len && bytes; i++)
        token_list_add(out, (uint32_t)u->byte_ids[(unsigned char)data[i]]);
    if (!bytes)
        token_list_add(out, (uint32_t)u->unknown);
}

/* Append the tokens of the best way, which links lead back from the end.  Unknown tokens
 * in a row become one. */
static void add_best(const struct unigram *u, const char *word, size_t len,
                     struct unigram_end *ends, struct token_list *out)
{
    size_t next = len;

    /* let the links lead forward: each start gets the end of its token */
    for (size_t at = len, start; at > 0; at = start) {
        start = ends[at].start;
        ends[at].start = (uint32_t)next;
        next = at;
    }
    ends[0].start = (uint32_t)next;
    for (size_t at = 0, from = 0; at < len; at = next) {
        next = ends[at].start;
        /* ends[next] still has the id of the token that ends there */
        if (ends[next].id != (uint32_t)u->unknown) {
            token_list_add(out, ends[next].id);
            from = next;
        } else if (next == len || ends[ends[next].start].id != (uint32_t)u->unknown) {
            add_unknown(u, word + from, next - from, out);
            from = next;
        }
    }
}

bool unigram_encode(const struct unigram *u, const char *word, size_t len,
                    struct unigram_scratch *scratch, struct token_list *out)
{
    if (len + 1 > scratch->room) {
        scratch->room = len + len / 2 + 64;
        scratch->ends =
            memory_resize(scratch->ends, scratch->room, sizeof(*scratch->ends));
    }
    for (size_t i = 0; i <= len; i++)
        scratch->ends[i] = (struct unigram_end) { .start = NONE };
    for (size_t at = 0; at < len;) {
        int32_t point;

        scratch->work += extend(u, word, len, at, scratch->ends);
        at += unicode_first(word + at, len - at, &point);
        if (scratch->work < TICK_WORK)
            continue;
        scratch->work = 0;
        if (!heartbeat_tick(scratch->heartbeat))
            return false;
    }
    add_best(u, word, len, scratch->ends, out);
    return !heartbeat_stopped(scratch->heartbeat);
}

/* Read the list of [token, score]. */
static bool read_tokens(struct unigram *u, const json_t *vocab, const char *where,
                        struct error *err)
{
    size_t count = json_array_size(vocab), bytes = 0;
    double least = INFINITY;

    u->names = vocabulary_new(count, count);
    u->scores = memory_alloc((count + 1) * sizeof(*u->scores));
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(vocab, i);
        const json_t *name = json_array_get(item, 0), *score = json_array_get(item, 1);

        if (!json_is_string(name) || !json_is_number(score))
            return error_set(err, ERROR_DATA,
                             "%s: model.vocab: entry %zu must be a token and its score",
                             where, i);
        if (!vocabulary_add(u->names, json_string_value(name), json_string_length(name),
                            (uint32_t)i))
            return error_set(err, ERROR_DATA, "%s: model.vocab: \"%s\" occurs twice",
                             where, json_string_value(name));
        u->scores[i] = json_number_value(score);
        least = u->scores[i] < least ? u->scores[i] : least;
        bytes += json_string_length(name);
    }
    if (bytes >= NONE)
        return error_set(err, ERROR_DATA, "%s: model.vocab is too large", where);
    u->unknown_score = least - UNKNOWN_PENALTY;
    make_trie(u, bytes);
    return true;
}

static bool read_model(struct unigram *u, const json_t *model, const char *where,
                       struct error *err)
{
    const json_t *vocab = json_object_get(model, "vocab");
    char name[8];

    if (!json_is_array(vocab) || json_array_size(vocab) >= NONE)
        return error_set(err, ERROR_DATA,
                         "%s: model.vocab must be a list of tokens and scores", where);
    u->unknown = json_get_int(model, "unk_id", -1, where, err);
    u->byte_fallback = json_get_bool(model, "byte_fallback", false, where, err);
    if (!read_tokens(u, vocab, where, err))
        return false;
    if (u->unknown < 0 || (uint64_t)u->unknown >= vocabulary_size(u->names))
        return error_set(err, ERROR_DATA, "%s: model.unk_id must be the id of a token",
                         where);
    for (int byte = 0; byte < 256; byte++) {
        snprintf(name, sizeof(name), "<0x%02X>", (unsigned)byte);
        u->byte_ids[byte] = vocabulary_find(u->names, name, strlen(name));
    }
    return !err || err->code == ERROR_NONE;
}

struct unigram *unigram_new(const json_t *model, const char *where, struct error *err)
{
    struct unigram *unigram = memory_alloc(sizeof(*unigram));

    if (read_model(unigram, model, where, err))
        return unigram;
    unigram_free(unigram);
    return NULL;
}
