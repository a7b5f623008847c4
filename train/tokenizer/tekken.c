/* train/tokenizer/tekken.c - reader of tekken.json, Mistral's format: tokens as bytes in
 * base64, in the order in which they were merged, after special tokens.  Source:
 * transformers 5.24, integrations/mistral/tokenizer.py. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/size.h"
#include "train/tokenizer/bpe.h"
#include "train/tokenizer/conversion.h"

#define IDS_MAX ((int64_t)1 << 24)

/* The special tokens of files that list none (mistral_common's tekken.py). */
static const char *const old_specials[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};

struct reading {
    const char *where;
    const json_t *root, *settings; /* "config" */
    int64_t specials, size;        /* ids of special tokens, and of all tokens */
    struct vocabulary *names;
    json_t *vocab, *own;
};

static bool add_name(struct reading *r, const char *name, size_t len, size_t id,
                     struct error *err)
{
    if (!vocabulary_add(r->names, name, len, (uint32_t)id))
        return error_set(err, ERROR_DATA, "%s: the token %zu occurs twice", r->where, id);
    json_object_setn_new(r->vocab, name, len, json_integer((json_int_t)id));
    return true;
}

static bool add_special(struct reading *r, const char *name, size_t id, struct error *err)
{
    json_array_append_new(r->own, conversion_token(name, true, false));
    return add_name(r, name, strlen(name), id, err);
}

/* Sort the names by rank. */
static void sort_names(const json_t *list, const char **names)
{
    size_t count = json_array_size(list);

    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        const json_t *rank = json_object_get(item, "rank");

        if (json_is_integer(rank) && json_integer_value(rank) >= 0 &&
            (uint64_t)json_integer_value(rank) < count)
            names[json_integer_value(rank)] =
                json_string_value(json_object_get(item, "token_str"));
    }
}

static bool add_ranked(struct reading *r, const json_t *list, struct error *err)
{
    size_t count = json_array_size(list);
    const char **names = memory_alloc((count + 1) * sizeof(*names));
    bool ok = true;

    sort_names(list, names);
    for (size_t i = 0; ok && i < count; i++)
        ok = names[i] ? add_special(r, names[i], i, err)
                      : error_set(err, ERROR_DATA,
                                  "%s: special_tokens has none of rank %zu", r->where, i);
    free(names);
    return ok;
}

static bool read_specials(struct reading *r, struct error *err)
{
    const json_t *list = json_object_get(r->root, "special_tokens");
    bool listed = list && !json_is_null(list);
    size_t count = listed ? json_array_size(list) : TS_COUNT(old_specials);
    const json_t *number = json_object_get(r->settings, "default_num_special_tokens");
    char name[32];

    r->specials = json_is_integer(number) ? json_integer_value(number) : (int64_t)count;
    if (r->specials < (int64_t)count || r->specials > IDS_MAX)
        return error_set(err, ERROR_DATA,
                         "%s: default_num_special_tokens is smaller than special_tokens, "
                         "or too large",
                         r->where);
    if (listed && !add_ranked(r, list, err))
        return false;
    for (size_t i = listed ? count : 0; i < (size_t)r->specials; i++) {
        snprintf(name, sizeof(name), "<SPECIAL_%zu>", i);
        if (!add_special(r, i < count ? old_specials[i] : name, i, err))
            return false;
    }
    return true;
}

/* Add the token in GPT-2's printable characters, as in other byte-level vocabularies.  One
 * with the characters of a special token never occurs, because that is found first. */
static bool add_bytes(struct reading *r, const struct text *bytes, size_t id,
                      struct text *name, struct error *err)
{
    int64_t other;

    text_reset(name);
    bpe_add_bytes(name, bytes->data, bytes->len);
    other = vocabulary_find(r->names, name->data, name->len);
    if (other >= 0 && other < r->specials)
        return true;
    return add_name(r, name->data, name->len, id, err);
}

static bool read_tokens(struct reading *r, struct error *err)
{
    const json_t *list = json_object_get(r->root, "vocab");
    const json_t *number = json_object_get(r->settings, "default_vocab_size");
    size_t count = json_array_size(list);
    struct text bytes, name;
    bool ok = true;

    if (json_is_integer(number)) {
        if (json_integer_value(number) < r->specials)
            return error_set(err, ERROR_DATA, "%s: default_vocab_size is too small",
                             r->where);
        /* the tokens after that are not used */
        count = size_min(count, (size_t)(json_integer_value(number) - r->specials));
    }
    text_init(&bytes, 0);
    text_init(&name, 0);
    for (size_t i = 0; ok && i < count; i++) {
        const json_t *value = json_object_get(json_array_get(list, i), "token_bytes");

        text_reset(&bytes);
        ok =
            (json_is_string(value) &&
             base64_decode(json_string_value(value), json_string_length(value), &bytes) &&
             bytes.len > 0) ||
            error_set(err, ERROR_DATA, "%s: token %zu has no token_bytes in base64",
                      r->where, i);
        ok = ok && add_bytes(r, &bytes, (size_t)r->specials + i, &name, err);
    }
    text_clear(&bytes);
    text_clear(&name);
    return ok;
}

/* Merge tokens in the order of their ids. */
static json_t *read_merges(const struct reading *r, struct error *err)
{
    size_t count = vocabulary_size(r->names) - (size_t)r->specials;
    uint32_t *order = memory_alloc((count + 1) * sizeof(*order));
    json_t *merges;

    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)((size_t)r->specials + i);
    merges = conversion_merges(r->names, order, count, true, r->where, err);
    free(order);
    return merges;
}

static json_t *make_tree(const struct reading *r, const struct conversion *conversion,
                         json_t *merges)
{
    struct conversion_parts parts = {
        .decoder = json_pack("{s:s}", "type", "ByteLevel"),
        .own = json_incref(r->own),
        .own_first = true,
        .defaults = { [NAME_BOS] = "<s>",
                      [NAME_EOS] = "</s>",
                      [NAME_UNK] = "<unk>",
                      [NAME_PAD] = "<pad>" },
    };

    for (size_t i = 0; i < CONVERSION_NAMES; i++)
        if (parts.defaults[i] && !json_object_get(r->vocab, parts.defaults[i]))
            parts.defaults[i] = NULL;
    parts.tokens = json_pack("{s:s, s:O, s:o, s:b}", "type", "BPE", "vocab", r->vocab,
                             "merges", merges, "ignore_merges", 1);
    parts.pre_tokenizer =
        json_pack("{s:s, s:[{s:s, s:{s:O}, s:s}, {s:s, s:b, s:b}]}", "type", "Sequence",
                  "pretokenizers", "type", "Split", "pattern", "Regex",
                  json_object_get(r->settings, "pattern"), "behavior", "Isolated", "type",
                  "ByteLevel", "add_prefix_space", 0, "use_regex", 0);
    return conversion_finish(conversion, &parts);
}

static json_t *convert(struct reading *r, const struct conversion *conversion,
                       struct error *err)
{
    json_t *tree = NULL, *merges;

    r->settings = json_object_get(r->root, "config");
    if (!json_is_string(json_object_get(r->settings, "pattern")) ||
        !json_is_array(json_object_get(r->root, "vocab"))) {
        error_set(err, ERROR_DATA, "%s must have config.pattern and vocab", r->where);
        return NULL;
    }
    r->names = vocabulary_new(conversion->bytes + (size_t)IDS_MAX,
                              json_array_size(json_object_get(r->root, "vocab")));
    r->vocab = json_object();
    r->own = json_array();
    if (read_specials(r, err) && read_tokens(r, err) && (merges = read_merges(r, err)))
        tree = make_tree(r, conversion, merges);
    vocabulary_free(r->names);
    json_decref(r->vocab);
    json_decref(r->own);
    return tree;
}

json_t *tekken_convert(struct conversion *conversion, struct error *err)
{
    char *path = path_join(conversion->dir, "tekken.json");
    struct reading r = { .where = path };
    json_t *root = NULL, *tree = NULL;
    struct text text;

    text_init(&text, 0);
    if (conversion_read(conversion, "tekken.json", &text, err))
        root = json_read_text(text.data, text.len, path, 1, err);
    text_clear(&text);
    r.root = root;
    if (root)
        tree = convert(&r, conversion, err);
    json_decref(root);
    free(path);
    return tree;
}
