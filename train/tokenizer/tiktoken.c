/* train/tokenizer/tiktoken.c - reader of qwen.tiktoken, Qwen's format: a line for each token,
 * in the order in which they were merged: its bytes in base64, and its number.  The words of
 * a text and the special tokens are those of tokenization_qwen.py in Qwen's folders. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/size.h"
#include "train/tokenizer/bpe.h"
#include "train/tokenizer/conversion.h"

#define FILE_NAME "qwen.tiktoken"
#define END       "<|endoftext|>"
#define EXTRA     205 /* <|extra_0|> to <|extra_204|> */

static const char words[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static const char *const specials[] = { END, "<|im_start|>", "<|im_end|>" };

struct reading {
    const char *where;
    struct vocabulary *names;
    json_t *vocab, *own;
    struct text bytes, name; /* of a token */
};

static bool add_name(struct reading *r, struct error *err)
{
    size_t id = vocabulary_count(r->names);

    if (!vocabulary_add(r->names, r->name.data, r->name.len, (uint32_t)id))
        return error_set(err, ERROR_DATA, "%s: the token %zu occurs twice", r->where, id);
    json_object_setn_new(r->vocab, r->name.data, r->name.len,
                         json_integer((json_int_t)id));
    return true;
}

/* Read "IQ== 0". */
static bool read_line(struct reading *r, const char *line, size_t len, struct error *err)
{
    const size_t id = vocabulary_count(r->names);
    const char *blank = memchr(line, ' ', len);
    struct text number;
    bool ok;

    text_init(&number, 0);
    text_addf(&number, "%zu", id);
    text_reset(&r->bytes);
    ok = blank && len == (size_t)(blank - line) + 1 + number.len &&
         memcmp(blank + 1, number.data, number.len) == 0 &&
         base64_decode(line, (size_t)(blank - line), &r->bytes) && r->bytes.len > 0;
    text_clear(&number);
    if (!ok)
        return error_set(err, ERROR_DATA,
                         "%s: the line of token %zu must have its bytes in base64, a "
                         "blank and %zu",
                         r->where, id, id);
    text_reset(&r->name);
    bpe_add_bytes(&r->name, r->bytes.data, r->bytes.len);
    return add_name(r, err);
}

static bool read_tokens(struct reading *r, const struct text *file, struct error *err)
{
    bool ok = true;

    for (size_t at = 0; ok && at < file->len;) {
        const char *line = file->data + at;
        const char *end = memchr(line, '\n', file->len - at);
        size_t len = end ? (size_t)(end - line) : file->len - at;

        at += len + 1;
        if (len > 0 && line[len - 1] == '\r')
            len--;
        if (len > 0)
            ok = read_line(r, line, len, err);
    }
    return ok;
}

static bool add_specials(struct reading *r, struct error *err)
{
    bool ok = true;

    for (size_t i = 0; ok && i < TS_COUNT(specials) + EXTRA; i++) {
        text_reset(&r->name);
        if (i < TS_COUNT(specials))
            text_adds(&r->name, specials[i]);
        else
            text_addf(&r->name, "<|extra_%zu|>", i - TS_COUNT(specials));
        json_array_append_new(r->own, conversion_token(r->name.data, true, false));
        ok = add_name(r, err);
    }
    return ok;
}

/* Merge tokens in the order of their numbers. */
static json_t *read_merges(const struct reading *r, size_t count, struct error *err)
{
    uint32_t *order = memory_alloc((count + 1) * sizeof(*order));
    json_t *merges;

    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    merges = conversion_merges(r->names, order, count, true, r->where, err);
    free(order);
    return merges;
}

static json_t *make_tree(const struct reading *r, const struct conversion *conversion,
                         json_t *merges)
{
    struct conversion_parts parts = {
        .normalizer = json_pack("{s:s}", "type", "NFC"),
        .decoder = json_pack("{s:s}", "type", "ByteLevel"),
        .own = json_incref(r->own),
        .own_first = true,
        /* without a name of its own, LLaMA-Factory and Axolotl take this one */
        .defaults = { [NAME_EOS] = END, [NAME_PAD] = END },
    };

    parts.tokens = json_pack("{s:s, s:O, s:o, s:b}", "type", "BPE", "vocab", r->vocab,
                             "merges", merges, "ignore_merges", 1);
    parts.pre_tokenizer =
        json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s, s:b, s:b}]}", "type", "Sequence",
                  "pretokenizers", "type", "Split", "pattern", "Regex", words, "behavior",
                  "Isolated", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 0);
    return conversion_finish(conversion, &parts);
}

static json_t *convert(struct reading *r, const struct conversion *conversion,
                       const struct text *file, struct error *err)
{
    json_t *tree = NULL, *merges;

    if (read_tokens(r, file, err)) {
        size_t count = vocabulary_count(r->names);

        if (add_specials(r, err) && (merges = read_merges(r, count, err)))
            tree = make_tree(r, conversion, merges);
    }
    return tree;
}

json_t *tiktoken_convert(struct conversion *conversion, struct error *err)
{
    char *path = path_join(conversion->dir, FILE_NAME);
    struct reading r = { .where = path, .vocab = json_object(), .own = json_array() };
    struct text file;
    json_t *tree = NULL;

    text_init(&file, 0);
    text_init(&r.bytes, 0);
    text_init(&r.name, 0);
    if (conversion_read(conversion, FILE_NAME, &file, err)) {
        /* a line has at least six bytes */
        r.names = vocabulary_new(file.len + TS_COUNT(specials) + EXTRA, file.len / 6);
        tree = convert(&r, conversion, &file, err);
    }
    vocabulary_free(r.names);
    text_clear(&r.name);
    text_clear(&r.bytes);
    text_clear(&file);
    json_decref(r.vocab);
    json_decref(r.own);
    free(path);
    return tree;
}
