/* train/model/gguf_tokenizer.c - makes the values from tokenizer.json, or from what a folder
 * with only tokenizer.model would have in it, and tokenizer_config.json. */
#include "config.h"

#include "train/model/gguf_tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/tokenizer/conversion.h"
#include "train/tokenizer/sentencepiece.h"
#include "train/tokenizer/tokenizer.h"

#define FILE_BYTES_MAX ((size_t)256 << 20)
#define KEY(name)      "tokenizer.ggml." name
#define SPACE          "\xe2\x96\x81" /* how SentencePiece writes a blank */

/* llama.cpp's types of tokens. */
enum token_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

struct token {
    const char *text;
    enum token_type type;
    double score;
    bool scored;
};

/* How llama.cpp splits texts: its name of the splits of byte-level BPE, or NULL for
 * SentencePiece, which puts a blank before texts or does not. */
struct splits {
    const char *name;
    bool prefix;
};

struct source {
    const char *dir;
    json_t *json; /* tokenizer.json, or its contents */
    struct splits splits;
    struct token *tokens;
    size_t count;
    float *scores; /* of SentencePiece's file, by id, or NULL */
    size_t score_count;
    struct arena *arena;
};

/* Expressions of the step Split, and whether whole words of the vocabulary are not
 * merged, as llama.cpp's src/llama-vocab.cpp has them (LLAMA_VOCAB_PRE_TYPE_). */
static const struct {
    const char *regex, *name;
    bool whole_words;
} known_splits[] = {
    { "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      "qwen2", false },
    { "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      "llama-bpe", true },
};

static const char *string_at(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

static bool is_type(const json_t *step, const char *type)
{
    return strcmp(string_at(step, "type"), type) == 0;
}

static bool is_bytes(const json_t *step, bool splits)
{
    const json_t *regex = json_object_get(step, "use_regex");

    return is_type(step, "ByteLevel") &&
           !json_is_true(json_object_get(step, "add_prefix_space")) &&
           (!regex || json_is_true(regex)) == splits;
}

/* Return the name of the splits of a step, which bytes follow. */
static const char *split_name(const json_t *step, bool whole_words)
{
    const char *regex = string_at(json_object_get(step, "pattern"), "Regex");

    if (!is_type(step, "Split") || strcmp(string_at(step, "behavior"), "Isolated") != 0 ||
        json_is_true(json_object_get(step, "invert")))
        return NULL;
    for (size_t i = 0; i < TS_COUNT(known_splits); i++)
        if (strcmp(regex, known_splits[i].regex) == 0 &&
            whole_words == known_splits[i].whole_words)
            return known_splits[i].name;
    return NULL;
}

static bool find_byte_splits(const json_t *json, struct splits *out)
{
    const json_t *step = json_object_get(json, "pre_tokenizer");
    const json_t *steps = json_object_get(step, "pretokenizers");
    const json_t *normalizer = json_object_get(json, "normalizer");
    const json_t *first = steps ? json_array_get(steps, 0) : step;
    const json_t *second = json_array_get(steps, 1);
    bool whole_words =
        json_is_true(json_object_get(json_object_get(json, "model"), "ignore_merges"));

    *out = (struct splits) { .name = NULL };
    /* convert_hf_to_gguf.py ignores NFC, too: texts rarely are in another form */
    if ((json_is_object(normalizer) && !is_type(normalizer, "NFC")) ||
        json_array_size(steps) > 2)
        return false;
    if (!second && is_bytes(first, true) && !whole_words)
        out->name = "gpt-2";
    else if (is_type(first, "Digits") && is_bytes(second, true) && !whole_words &&
             json_is_true(json_object_get(first, "individual_digits")))
        out->name = "smollm";
    else if (is_bytes(second, false))
        out->name = split_name(first, whole_words);
    return out->name != NULL;
}

static bool is_replacement(const json_t *step, const char *kind, const char *from,
                           const char *to)
{
    return is_type(step, "Replace") &&
           strcmp(string_at(json_object_get(step, "pattern"), kind), from) == 0 &&
           strcmp(string_at(step, "content"), to) == 0;
}

/* Blanks become SPACE; one may come before a text, also before one that begins with a
 * blank. */
static bool find_piece_splits(const json_t *json, struct splits *out)
{
    const json_t *normalizer = json_object_get(json, "normalizer");
    const json_t *before = json_object_get(json, "pre_tokenizer");
    const json_t *list = json_object_get(before, "pretokenizers");
    const json_t *steps = json_object_get(normalizer, "normalizers");
    size_t count = json_is_object(normalizer) ? 1 : 0;
    bool replaces = false;

    *out = (struct splits) { .name = NULL };
    count = steps ? json_array_size(steps) : count;
    for (size_t i = 0; i < count; i++) {
        const json_t *step = steps ? json_array_get(steps, i) : normalizer;

        if (is_type(step, "Prepend") && strcmp(string_at(step, "prepend"), SPACE) == 0)
            out->prefix = true;
        else if (is_replacement(step, "String", " ", SPACE))
            replaces = true;
        else if (!is_replacement(step, "Regex", "\\A" SPACE, SPACE SPACE))
            return false;
    }
    if (json_array_size(list) > 1)
        return false;
    before = list ? json_array_get(list, 0) : before;
    if (is_type(before, "Metaspace")) {
        replaces = strcmp(string_at(before, "replacement"), SPACE) == 0;
        out->prefix = strcmp(string_at(before, "prepend_scheme"), "never") != 0;
    }
    return replaces;
}

static json_t *read_json(const char *dir, const char *name, struct error *err)
{
    char *path = path_join(dir, name);
    struct text text;
    json_t *json = NULL;

    text_init(&text, FILE_BYTES_MAX);
    if (file_read(path, FILE_BYTES_MAX, &text, NULL, err))
        json = json_read_loose(text.data, text.len, name, 1, err);
    text_clear(&text);
    free(path);
    return json;
}

static bool has_file(const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    bool exists = file_exists(path);

    free(path);
    return exists;
}

/* Keep the scores of SentencePiece's file, as convert_hf_to_gguf.py does. */
static bool read_scores(struct source *source, struct error *err)
{
    char *path = path_join(source->dir, "tokenizer.model");
    struct sentencepiece_model model = { .count = 0 };
    struct text text;
    bool ok;

    text_init(&text, FILE_BYTES_MAX);
    ok = file_read(path, FILE_BYTES_MAX, &text, NULL, err) &&
         sentencepiece_read(text.data, text.len, &model, path, err);
    if (ok) {
        source->score_count = model.count;
        source->scores = memory_alloc((model.count + 1) * sizeof(*source->scores));
    }
    for (size_t i = 0; ok && i < model.count; i++)
        source->scores[i] = model.pieces[i].score;
    sentencepiece_clear(&model);
    text_clear(&text);
    free(path);
    return ok;
}

/* Read tokenizer.json, or what SentencePiece's file gives in its place. */
static bool read_source(struct source *source, struct error *err)
{
    const char *dir = source->dir;
    struct conversion conversion;

    if (has_file(dir, "tokenizer.json") || !has_file(dir, "tokenizer.model")) {
        source->json = read_json(dir, "tokenizer.json", err);
        return source->json != NULL;
    }
    if (conversion_open(&conversion, dir, err))
        source->json = sentencepiece_convert(&conversion, err);
    conversion_clear(&conversion);
    return source->json && read_scores(source, err);
}

static void close_source(struct source *source)
{
    json_decref(source->json);
    free(source->scores);
}

static bool open_source(struct source *source, const char *dir, struct error *err)
{
    const json_t *model;

    *source = (struct source) { .dir = dir };
    if (!read_source(source, err)) {
        close_source(source);
        return false;
    }
    model = json_object_get(source->json, "model");
    if (is_type(model, "BPE") && json_is_true(json_object_get(model, "byte_fallback"))
            ? find_piece_splits(source->json, &source->splits)
            : is_type(model, "BPE") && find_byte_splits(source->json, &source->splits))
        return true;
    close_source(source);
    return error_set(err, ERROR_DATA,
                     "export_gguf: llama.cpp has no name for the way in which "
                     "tokenizer.json splits texts");
}

bool gguf_tokenizer_check(const char *dir, struct error *err)
{
    struct source source;

    if (!open_source(&source, dir, err))
        return false;
    close_source(&source);
    return true;
}

static bool set_token(struct source *source, int64_t id, struct token token,
                      struct error *err)
{
    if (id < 0 || (uint64_t)id >= source->count)
        return error_set(err, ERROR_DATA,
                         "export_gguf: token %s has the id %lld, but the model has only "
                         "%zu embeddings",
                         token.text, (long long)id, source->count);
    source->tokens[id] = token;
    return true;
}

/* convert_hf_to_gguf.py, does_token_look_special. */
static bool looks_special(const char *text)
{
    return (text_starts(text, "<|") && text_ends(text, "|>")) ||
           (text_starts(text, "<unused") && text_ends(text, ">")) ||
           strcmp(text, "<pad>") == 0 || strcmp(text, "<mask>") == 0;
}

/* Return the text with blanks for SPACE. */
static const char *with_blanks(const char *text, struct arena *arena)
{
    struct text out;
    const char *copy;

    text_init(&out, 0);
    while (*text) {
        bool space = text_starts(text, SPACE);

        text_addc(&out, space ? ' ' : *text);
        text += space ? strlen(SPACE) : 1;
    }
    copy = arena_strdup(arena, out.len > 0 ? out.data : "");
    text_clear(&out);
    return copy;
}

/* Return the name of the unknown token; "" if there is none.  With byte fallback,
 * tokenizer.json may not name that of SentencePiece. */
static const char *unknown_token(const struct source *source)
{
    const json_t *model = json_object_get(source->json, "model");
    const char *name = string_at(model, "unk_token");

    if (*name || source->splits.name ||
        !json_object_get(json_object_get(model, "vocab"), "<unk>"))
        return name;
    return "<unk>";
}

static bool add_added_tokens(struct source *source, struct error *err)
{
    const json_t *list = json_object_get(source->json, "added_tokens");
    const char *unknown = unknown_token(source);
    const json_t *each;
    size_t i;

    json_array_foreach((json_t *)list, i, each)
    {
        const char *content = string_at(each, "content");
        struct token token = { .text = content, .type = CONTROL, .scored = true };

        if (!source->splits.name && strcmp(content, unknown) == 0) {
            token.type = UNKNOWN;
        } else if (!json_is_true(json_object_get(each, "special")) &&
                   !looks_special(content)) {
            token.type = USER_DEFINED;
            token.text = with_blanks(content, source->arena);
            token.score = -1000; /* as convert_hf_to_gguf.py has it */
        }
        if (!set_token(source, json_integer_value(json_object_get(each, "id")), token,
                       err))
            return false;
    }
    return true;
}

static bool is_byte(const char *text)
{
    return strlen(text) == 6 && text_starts(text, "<0x") && text[5] == '>';
}

static bool add_vocabulary(struct source *source, struct error *err)
{
    json_t *vocabulary = json_object_get(json_object_get(source->json, "model"), "vocab");
    const char *text;
    json_t *id;

    for (size_t i = 0; i < source->count; i++)
        source->tokens[i] =
            (struct token) { .text = arena_printf(source->arena, "[PAD%zu]", i),
                             .type = UNUSED };
    json_object_foreach(vocabulary, text, id)
    {
        bool byte = !source->splits.name && is_byte(text);

        if (!set_token(source, json_integer_value(id),
                       (struct token) {
                           .text = text, .type = byte ? BYTE : NORMAL, .scored = byte },
                       err))
            return false;
    }
    return true;
}

/* Copy a part of a merge; a blank in it would end it. */
static void add_part(struct text *out, const char *part)
{
    for (; *part; part++)
        if (*part == ' ')
            text_adds(out, "\xc4\xa0"); /* how byte-level BPE writes a blank */
        else
            text_addc(out, *part);
}

/* Set *out to a merge, "a b"; in `joined`, to "ab". */
static void merge_text(const json_t *merge, bool joined, struct text *out)
{
    const char *both = json_string_value(merge);
    const char *blank = both ? strchr(both, ' ') : NULL;

    text_reset(out);
    if (blank) {
        text_add(out, both, (size_t)(blank - both));
        text_adds(out, joined ? "" : " ");
        text_adds(out, blank + 1);
    } else if (joined) {
        for (size_t i = 0; i < 2; i++)
            if (json_is_string(json_array_get(merge, i)))
                text_adds(out, json_string_value(json_array_get(merge, i)));
    } else {
        for (size_t i = 0; i < 2; i++) {
            text_adds(out, i > 0 ? " " : "");
            if (json_is_string(json_array_get(merge, i)))
                add_part(out, json_string_value(json_array_get(merge, i)));
        }
    }
}

static void add_merges(const struct source *source, struct gguf_values *out)
{
    const json_t *merges =
        json_object_get(json_object_get(source->json, "model"), "merges");
    struct text text;

    text_init(&text, 0);
    gguf_add_array(out, KEY("merges"), GGUF_STRING, json_array_size(merges));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        merge_text(json_array_get(merges, i), false, &text);
        gguf_put_string(out, text.data ? text.data : "", text.len);
    }
    text_clear(&text);
}

/* SentencePiece joins the two tokens whose result has the highest score.  The first merge
 * that makes a token has its rank among the tokens. */
static void score_tokens(struct source *source)
{
    const json_t *model = json_object_get(source->json, "model");
    const json_t *merges = json_object_get(model, "merges");
    const json_t *vocabulary = json_object_get(model, "vocab");
    size_t rank = 0;
    struct text text;

    text_init(&text, 0);
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *id;

        merge_text(json_array_get(merges, i), true, &text);
        id = text.len > 0 ? json_object_get(vocabulary, text.data) : NULL;
        if (!id || source->tokens[json_integer_value(id)].scored)
            continue;
        source->tokens[json_integer_value(id)].score = -(double)rank++;
        source->tokens[json_integer_value(id)].scored = true;
    }
    text_clear(&text);
    for (size_t i = 0; i < source->count; i++) {
        if (!source->tokens[i].scored)
            source->tokens[i].score = -(double)rank;
        if (i < source->score_count)
            source->tokens[i].score = (double)source->scores[i];
    }
}

static void add_tokens(struct source *source, struct gguf_values *out)
{
    gguf_add_array(out, KEY("tokens"), GGUF_STRING, source->count);
    for (size_t i = 0; i < source->count; i++)
        gguf_put_string(out, source->tokens[i].text, strlen(source->tokens[i].text));
    if (!source->splits.name) {
        score_tokens(source);
        gguf_add_array(out, KEY("scores"), GGUF_FLOAT32, source->count);
        for (size_t i = 0; i < source->count; i++)
            gguf_put_float32(out, source->tokens[i].score);
    }
    gguf_add_array(out, KEY("token_type"), GGUF_INT32, source->count);
    for (size_t i = 0; i < source->count; i++)
        gguf_put_int32(out, (int32_t)source->tokens[i].type);
}

static void add_id(struct gguf_values *out, const char *key, int64_t id, int64_t other)
{
    if (id >= 0 || other >= 0)
        gguf_add_uint32(out, key, (uint64_t)(id >= 0 ? id : other));
}

/* Whether texts begin with BOS and end with EOS is what the tokenizer does. */
static bool add_special_tokens(const struct source *source,
                               const struct model_config *config, struct gguf_values *out,
                               struct error *err)
{
    struct tokenizer *tokenizer = tokenizer_open(source->dir, err);
    struct token_list list = { .count = 0 };
    int64_t bos, eos;
    bool ok = tokenizer && tokenizer_encode(tokenizer, "a", 1, true, &list, err);

    if (ok) {
        const char *unknown = unknown_token(source);

        bos = tokenizer_bos(tokenizer);
        eos = tokenizer_eos(tokenizer);
        add_id(out, KEY("bos_token_id"), bos, config->bos_token_id);
        add_id(out, KEY("eos_token_id"), eos,
               config->eos_tokens > 0 ? config->eos_token_ids[0] : -1);
        add_id(out, KEY("unknown_token_id"),
               *unknown ? tokenizer_find(tokenizer, unknown) : -1, -1);
        add_id(out, KEY("padding_token_id"), tokenizer_pad(tokenizer), -1);
        gguf_add_bool(out, KEY("add_bos_token"),
                      list.count > 0 && bos >= 0 && list.ids[0] == bos);
        gguf_add_bool(out, KEY("add_eos_token"),
                      list.count > 0 && eos >= 0 && list.ids[list.count - 1] == eos);
    }
    token_list_clear(&list);
    tokenizer_close(tokenizer);
    return ok;
}

/* The template of a list that has the name default. */
static const char *default_template(const json_t *value)
{
    for (size_t i = 0; i < json_array_size(value); i++)
        if (strcmp(string_at(json_array_get(value, i), "name"), "default") == 0)
            return string_at(json_array_get(value, i), "template");
    return json_is_string(value) ? json_string_value(value) : "";
}

static bool add_template(const char *dir, struct gguf_values *out, struct error *err)
{
    char *path = path_join(dir, "chat_template.jinja");
    json_t *config = NULL;
    struct text text;
    bool ok = true;

    text_init(&text, FILE_BYTES_MAX);
    if (has_file(dir, "tokenizer_config.json"))
        ok = (config = read_json(dir, "tokenizer_config.json", err)) != NULL;
    if (ok)
        text_adds(&text, default_template(json_object_get(config, "chat_template")));
    if (ok && text.len == 0 && file_exists(path))
        ok = file_read(path, FILE_BYTES_MAX, &text, NULL, err);
    if (ok && text.len > 0)
        gguf_add_string(out, "tokenizer.chat_template", text.data);
    text_clear(&text);
    json_decref(config);
    free(path);
    return ok;
}

bool gguf_tokenizer_add(const char *dir, const struct model_config *config,
                        struct gguf_values *out, struct error *err)
{
    struct source source;
    bool ok;

    if (!open_source(&source, dir, err))
        return false;
    source.count = config->vocab_size;
    source.tokens = memory_alloc(source.count * sizeof(*source.tokens));
    source.arena = arena_new();
    ok = add_vocabulary(&source, err) && add_added_tokens(&source, err);
    if (ok) {
        gguf_add_string(out, KEY("model"), source.splits.name ? "gpt2" : "llama");
        gguf_add_string(out, KEY("pre"),
                        source.splits.name ? source.splits.name : "default");
        if (source.splits.name)
            add_merges(&source, out);
        else
            gguf_add_bool(out, KEY("add_space_prefix"), source.splits.prefix);
        add_tokens(&source, out);
        ok = add_special_tokens(&source, config, out, err) && add_template(dir, out, err);
    }
    arena_free(source.arena);
    free(source.tokens);
    close_source(&source);
    return ok;
}
