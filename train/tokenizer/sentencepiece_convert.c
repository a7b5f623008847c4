/* train/tokenizer/sentencepiece_convert.c - tokenizer.model as tokenizer.json.  Source:
 * transformers 5.24, convert_slow_tokenizer.py (build_tokenizer_from_spm_proto) and the
 * classes of Llama and Gemma, which do not follow all of a file's settings. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/size.h"
#include "train/tokenizer/conversion.h"
#include "train/tokenizer/sentencepiece.h"

#define BLANK "\xe2\x96\x81" /* U+2581 */

enum kind { KIND_GENERIC, KIND_LLAMA, KIND_GEMMA };

/* Models for which transformers ignores the class of Llama's tokenizer. */
static const char generic_models[] =
    " arctic ernie4_5 ernie4_5_moe flex_olmo glm glm4 glm4_moe gpt_bigcode granite "
    "granitemoe granitemoehybrid granitemoeshared hyperclovax internlm2 internlm3 "
    "jamba llava llava_next minicpm3 minicpmv ministral ministral3 mistral mistral3 "
    "mixtral nemotron olmo2 olmo3 paddleocr_vl persimmon phi3 phi3_v phimoe pixtral "
    "stablelm vipllava voxtral ";
static const char gemma_models[] = " gemma gemma2 gemma3 gemma3_text gemma3n ";

struct reading {
    const struct conversion *conversion;
    const char *where;
    enum kind kind;
    struct sentencepiece_model model;
    struct arena *arena;
    const char **names; /* by id */
    bool unigram;
};

static bool has_word(const char *words, const char *word)
{
    struct text text;
    bool has;

    text_init(&text, 0);
    text_addf(&text, " %s ", word);
    has = *word && strstr(words, text.data);
    text_clear(&text);
    return has;
}

static bool is_class(const char *class, const char *name)
{
    size_t len = strlen(name);

    return strncmp(class, name, len) == 0 &&
           (!class[len] || strcmp(class + len, "Fast") == 0);
}

static enum kind find_kind(const struct conversion *conversion)
{
    const char *class = conversion_class(conversion);
    const char *type = conversion_model_type(conversion);

    if (is_class(class, "GemmaTokenizer") || (!*class && has_word(gemma_models, type)))
        return KIND_GEMMA;
    return is_class(class, "LlamaTokenizer") && !has_word(generic_models, type)
               ? KIND_LLAMA
               : KIND_GENERIC;
}

static bool is_prefixed_by_chunk(const struct reading *r)
{
    const json_t *legacy = json_object_get(r->conversion->config, "legacy");

    return legacy ? json_is_true(legacy) : r->kind == KIND_GENERIC;
}

/* ---- The names of pieces ---- */

/* Set the name of an id by the files of added tokens, if another piece does not keep it. */
static void rename_piece(struct reading *r, json_t *numbered, json_t *kept, long long id,
                         const char *content)
{
    if (!content || id < 0 || (uint64_t)id >= r->model.count)
        return;
    json_object_set_new(numbered, r->names[id], json_true());
    if (!json_object_get(kept, content))
        r->names[id] = arena_strdup(r->arena, content);
}

/* A file of added tokens may name the placeholders of a vocabulary. */
static void rename_pieces(struct reading *r)
{
    json_t *decoder = json_object_get(r->conversion->config, "added_tokens_decoder");
    json_t *from = decoder ? decoder : r->conversion->added, *value;
    json_t *kept = json_object(), *renamed = json_object();
    const char *key;

    for (size_t i = 0; i < r->model.count && json_object_size(from) > 0; i++)
        json_object_set_new(kept, r->names[i], json_integer((json_int_t)i));
    json_object_foreach(from, key, value)
    {
        long long id = decoder ? strtoll(key, NULL, 10) : json_integer_value(value);

        if (id >= 0 && (uint64_t)id < r->model.count)
            json_object_del(kept, r->names[id]);
    }
    json_object_foreach(from, key, value) rename_piece(
        r, renamed, kept, decoder ? strtoll(key, NULL, 10) : json_integer_value(value),
        decoder ? json_string_value(json_object_get(value, "content")) : key);
    json_decref(kept);
    json_decref(renamed);
}

static void read_names(struct reading *r)
{
    r->names = arena_array(r->arena, r->model.count, sizeof(*r->names));
    for (size_t i = 0; i < r->model.count; i++)
        r->names[i] = arena_copy(r->arena, r->model.pieces[i].text.data,
                                 r->model.pieces[i].text.len);
    if (r->kind == KIND_GENERIC && !r->unigram)
        rename_pieces(r);
}

/* ---- The model ---- */

struct ranked {
    float score;
    uint32_t id;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Whether a piece is merged: the classes merge all of them. */
static bool is_merged(const struct reading *r, size_t id)
{
    return r->kind != KIND_GENERIC || r->model.pieces[id].type == PIECE_NORMAL;
}

/* The merges in the order of scores; the classes merge in the order of ids. */
static json_t *merges_of(const struct reading *r, struct error *err)
{
    struct vocabulary *names = vocabulary_new(r->model.count, r->model.count);
    struct ranked *ranked = memory_alloc(r->model.count * sizeof(*ranked));
    uint32_t *order = memory_alloc(r->model.count * sizeof(*order));
    json_t *merges;
    size_t count = 0;

    for (size_t i = 0; i < r->model.count; i++) {
        if (!is_merged(r, i))
            continue;
        vocabulary_add(names, r->names[i], strlen(r->names[i]), (uint32_t)i);
        ranked[count].score = r->kind == KIND_GENERIC ? r->model.pieces[i].score : 0;
        ranked[count++].id = (uint32_t)i;
    }
    qsort(ranked, count, sizeof(*ranked), compare_ranked);
    for (size_t i = 0; i < count; i++)
        order[i] = ranked[i].id;
    merges = conversion_merges(names, order, count, false, r->where, err);
    vocabulary_free(names);
    free(ranked);
    free(order);
    return merges;
}

static size_t count_type(const struct reading *r, enum sentencepiece_type type)
{
    size_t count = 0;

    for (size_t i = 0; i < r->model.count; i++)
        count += r->model.pieces[i].type == type;
    return count;
}

static json_t *bpe_of(const struct reading *r, struct error *err)
{
    json_t *vocab = json_object(), *merges, *model;
    const char *unknown = r->kind == KIND_GENERIC ? NULL : "<unk>";

    for (size_t i = 0; i < r->model.count; i++) {
        if (json_object_get(vocab, r->names[i])) {
            error_set(err, ERROR_DATA, "%s: the piece \"%.80s\" occurs twice", r->where,
                      r->names[i]);
            json_decref(vocab);
            return NULL;
        }
        json_object_set_new(vocab, r->names[i], json_integer((json_int_t)i));
    }
    merges = merges_of(r, err);
    if (!merges) {
        json_decref(vocab);
        return NULL;
    }
    if (r->kind == KIND_GENERIC && r->model.unk >= 0 &&
        (uint64_t)r->model.unk < r->model.count)
        unknown = r->names[r->model.unk];
    if (r->kind == KIND_LLAMA || (unknown && !json_object_get(vocab, unknown)))
        unknown = NULL;
    model = json_pack("{s:s, s:o, s:o, s:b, s:b, s:b}", "type", "BPE", "vocab", vocab,
                      "merges", merges, "fuse_unk", 1, "byte_fallback",
                      r->kind != KIND_GENERIC || r->model.byte_fallback, "ignore_merges",
                      r->kind == KIND_GENERIC && count_type(r, PIECE_USER) > 0);
    if (unknown)
        json_object_set_new(model, "unk_token", json_string(unknown));
    return model;
}

static json_t *unigram_of(const struct reading *r)
{
    json_t *vocab = json_array();

    for (size_t i = 0; i < r->model.count; i++)
        json_array_append_new(vocab,
                              json_pack("[s, o]", r->names[i],
                                        json_real((double)r->model.pieces[i].score)));
    return json_pack("{s:s, s:o, s:I, s:b}", "type", "Unigram", "vocab", vocab, "unk_id",
                     (json_int_t)r->model.unk, "byte_fallback", r->model.byte_fallback);
}

/* ---- The other parts ---- */

static json_t *replace(const char *kind, const char *pattern, const char *content)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", kind, pattern,
                     "content", content);
}

static json_t *sequence(const char *key, json_t *list)
{
    return json_pack("{s:s, s:o}", "type", "Sequence", key, list);
}

static json_t *normalizer_of(const struct reading *r)
{
    json_t *list = json_array();
    struct text charsmap;

    if (r->kind == KIND_LLAMA) {
        json_decref(list);
        return NULL;
    }
    if (r->kind == KIND_GEMMA) {
        json_decref(list);
        return replace("String", " ", BLANK);
    }
    text_init(&charsmap, (size_t)1 << 30);
    base64_encode(r->model.charsmap.data, r->model.charsmap.len, &charsmap);
    if (charsmap.len > 0)
        json_array_append_new(list, json_pack("{s:s, s:s%}", "type", "Precompiled",
                                              "precompiled_charsmap", charsmap.data,
                                              charsmap.len));
    text_clear(&charsmap);
    if (r->model.removes_blanks) {
        json_array_append_new(list, replace("Regex", "\\A +| +\\z", ""));
        json_array_append_new(list, replace("Regex", " {2,}", " "));
    }
    if (r->model.escapes_blanks)
        json_array_append_new(list, replace("String", " ", BLANK));
    /* the pre-tokenizer puts no blank before one, as SentencePiece does */
    if (r->model.dummy_prefix && is_prefixed_by_chunk(r))
        json_array_append_new(list, replace("Regex", "\\A" BLANK, BLANK BLANK));
    return sequence("normalizers", list);
}

static json_t *metaspace(const struct reading *r)
{
    bool prefix = r->kind == KIND_GENERIC ||
                  conversion_bool(r->conversion, "add_prefix_space", true);

    return json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", BLANK,
                     "prepend_scheme",
                     !prefix                   ? "never"
                     : is_prefixed_by_chunk(r) ? "always"
                                               : "first",
                     "split", 0);
}

static int compare_lengths(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    size_t left = strlen(*x), right = strlen(*y);

    if (left != right)
        return left > right ? -1 : 1;
    return strcmp(*x, *y);
}

/* Append an expression for exactly this string. */
static void add_literal(struct text *out, const char *string)
{
    for (; *string; string++) {
        unsigned char byte = (unsigned char)*string;

        if (byte < '0' || (byte > '9' && byte < 'A') || (byte > 'Z' && byte < 'a') ||
            (byte > 'z' && byte < 0x80))
            text_addf(out, "\\x{%x}", byte);
        else
            text_addc(out, *string);
    }
}

/* Pieces of the user are words of their own. */
static json_t *user_split(const struct reading *r)
{
    const char **users = memory_alloc((r->model.count + 1) * sizeof(*users));
    struct text pattern;
    size_t count = 0;
    json_t *step;

    for (size_t i = 0; i < r->model.count; i++)
        if (r->model.pieces[i].type == PIECE_USER)
            users[count++] = r->names[i];
    qsort(users, count, sizeof(*users), compare_lengths);
    text_init(&pattern, 0);
    for (size_t i = 0; i < count; i++) {
        text_adds(&pattern, i > 0 ? "|" : "");
        add_literal(&pattern, users[i]);
    }
    step = json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "Regex",
                     pattern.data, "behavior", "Isolated");
    text_clear(&pattern);
    free(users);
    return step;
}

static json_t *pre_tokenizer_of(const struct reading *r)
{
    json_t *list;

    if (r->kind == KIND_LLAMA)
        return metaspace(r);
    if (r->kind == KIND_GEMMA)
        return json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "String", " ",
                         "behavior", "MergedWithPrevious");
    list = json_array();
    if (r->model.dummy_prefix)
        json_array_append_new(list, metaspace(r));
    if (count_type(r, PIECE_USER) > 0)
        json_array_append_new(list, user_split(r));
    return sequence("pretokenizers", list);
}

static json_t *decoder_of(const struct reading *r)
{
    bool generic = r->kind == KIND_GENERIC;
    bool bytes = !generic || r->model.byte_fallback;
    bool prefix = generic ? r->model.dummy_prefix
                          : r->kind == KIND_LLAMA &&
                                conversion_bool(r->conversion, "add_prefix_space", true);
    json_t *list = json_pack("[o]", replace("String", BLANK, " "));

    if (bytes)
        json_array_append_new(list, json_pack("{s:s}", "type", "ByteFallback"));
    if (bytes || prefix)
        json_array_append_new(list, json_pack("{s:s}", "type", "Fuse"));
    if (prefix)
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip",
                                              "content", " ", "start", 1, "stop", 0));
    return sequence("decoders", list);
}

/* Control pieces are special.  The classes add those of the user, too. */
static json_t *own_tokens(const struct reading *r)
{
    json_t *list = json_array();

    for (size_t i = 0; i < r->model.count; i++) {
        bool control = r->model.pieces[i].type == PIECE_CONTROL;

        if (control || (r->kind != KIND_GENERIC && r->model.pieces[i].type == PIECE_USER))
            json_array_append_new(list, conversion_token(r->names[i], control, false));
    }
    return list;
}

static void set_defaults(const struct reading *r, struct conversion_parts *parts)
{
    static const char *const llama[CONVERSION_NAMES] = {
        [NAME_BOS] = "<s>", [NAME_EOS] = "</s>", [NAME_UNK] = "<unk>"
    };
    static const char *const gemma[CONVERSION_NAMES] = {
        [NAME_BOS] = "<bos>", [NAME_EOS] = "<eos>",   [NAME_UNK] = "<unk>",
        [NAME_PAD] = "<pad>", [NAME_MASK] = "<mask>",
    };
    const struct {
        enum conversion_name name;
        int64_t id;
        const struct sentencepiece_text *piece;
    } own[] = { { NAME_BOS, r->model.bos, &r->model.bos_piece },
                { NAME_EOS, r->model.eos, &r->model.eos_piece },
                { NAME_UNK, r->model.unk, &r->model.unk_piece } };

    if (r->kind != KIND_GENERIC) {
        memcpy(parts->defaults, r->kind == KIND_LLAMA ? llama : gemma,
               sizeof(parts->defaults));
        return;
    }
    for (size_t i = 0; i < TS_COUNT(own); i++)
        if (own[i].id >= 0)
            parts->defaults[own[i].name] =
                arena_copy(r->arena, own[i].piece->data, own[i].piece->len);
}

static json_t *convert(struct reading *r, struct error *err)
{
    struct conversion_parts parts = { 0 };

    r->unigram = r->kind == KIND_GENERIC && r->model.type == MODEL_UNIGRAM;
    read_names(r);
    parts.tokens = r->unigram ? unigram_of(r) : bpe_of(r, err);
    if (!parts.tokens)
        return NULL;
    parts.normalizer = normalizer_of(r);
    parts.pre_tokenizer = pre_tokenizer_of(r);
    parts.decoder = decoder_of(r);
    parts.own = own_tokens(r);
    parts.original = r->kind == KIND_GENERIC && r->model.dummy_prefix;
    set_defaults(r, &parts);
    return conversion_finish(r->conversion, &parts);
}

json_t *sentencepiece_convert(struct conversion *conversion, struct error *err)
{
    char *path = path_join(conversion->dir, "tokenizer.model");
    struct reading r = { .conversion = conversion, .where = path };
    json_t *tree = NULL;
    struct text text;

    text_init(&text, 0);
    if (conversion_read(conversion, "tokenizer.model", &text, err) &&
        sentencepiece_read(text.data, text.len, &r.model, path, err)) {
        r.kind = find_kind(conversion);
        r.arena = arena_new();
        tree = convert(&r, err);
        arena_free(r.arena);
        sentencepiece_clear(&r.model);
    }
    text_clear(&text);
    free(path);
    return tree;
}
