/* train/tokenizer/tokenizer.c - encoding pipeline: added tokens are split off, the text
 * between them is normalized and split into words, and the model encodes each word. */
#include "config.h"

#include "train/tokenizer/tokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"
#include "train/tokenizer/added_tokens.h"
#include "train/tokenizer/bpe.h"
#include "train/tokenizer/conversion.h"
#include "train/tokenizer/detokenizer.h"
#include "train/tokenizer/postprocessor.h"
#include "train/tokenizer/pretokenizer.h"
#include "train/tokenizer/unigram.h"

/* The largest published tokenizer.json files have about 35 MB. */
enum { NO_TOKEN = -2 }; /* no token, and no substitute is searched for */

#define MAX_FILE_BYTES ((size_t)256 << 20)
#define MAX_TEXT_BYTES ((size_t)1 << 30)
/* The longest tokens of published vocabularies have some hundred bytes. */
#define DECODED_FREE      ((size_t)1 << 20)
#define DECODED_PER_TOKEN ((size_t)1 << 10)
/* Ids below this are always allowed; above it, a file of n bytes may have n. */
#define FREE_IDS ((size_t)1 << 20)

struct tokenizer {
    char *file;
    struct normalizer *normalizer;
    struct pretokenizer *pretokenizer;
    struct bpe *bpe; /* or */
    struct unigram *unigram;
    struct added_tokens *added;
    struct postprocessor *postprocessor;
    struct detokenizer *detokenizer;
    struct heartbeat *heartbeat; /* borrowed; or NULL */
    void *attached;
    void (*release)(void *attached);
    int64_t bos, eos, pad;
    bool adds_bos;
    json_t *new_tokens; /* members of "added_tokens"; NULL: none */
};

void token_list_add(struct token_list *list, uint32_t id)
{
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->ids = memory_resize(list->ids, list->room, sizeof(uint32_t));
    }
    list->ids[list->count++] = id;
}

void token_list_clear(struct token_list *list)
{
    free(list->ids);
    *list = (struct token_list) { 0 };
}

/* The strings of the model. */
static const struct vocabulary *model_names(const struct tokenizer *tokenizer)
{
    return tokenizer->unigram ? unigram_names(tokenizer->unigram)
                              : bpe_names(tokenizer->bpe);
}

/* State of one call of tokenizer_encode. */
struct encoding {
    const struct tokenizer *tokenizer;
    struct pattern_scratch *patterns;
    struct bpe_scratch bpe;
    struct unigram_scratch unigram;
    struct normal_form normal;
    struct token_list *out;
};

static bool take_word(void *context, const char *word, size_t len)
{
    struct encoding *encoding = context;

    if (encoding->tokenizer->unigram)
        return unigram_encode(encoding->tokenizer->unigram, word, len, &encoding->unigram,
                              encoding->out);
    return bpe_encode(encoding->tokenizer->bpe, word, len, &encoding->bpe, encoding->out);
}

static bool encode_plain(struct encoding *encoding, const char *text, size_t len,
                         bool first, struct error *err)
{
    const struct word_sink sink = { take_word, encoding };

    return pretokenizer_run(encoding->tokenizer->pretokenizer, text, len, first,
                            encoding->patterns, &sink, err) &&
           (!heartbeat_stopped(encoding->tokenizer->heartbeat) ||
            error_set(err, ERROR_STOPPED, "stopped while reading the data"));
}

/* Return whether a search for added tokens ended within its limit. */
static bool check_search(const struct encoding *encoding, struct error *err)
{
    return !pattern_is_spent(encoding->patterns) ||
           error_set(err, ERROR_DATA, "the search for added tokens takes too long");
}

/* Encode a text in normal form, which may contain normalized tokens. */
static bool encode_normal(struct encoding *encoding, const char *text, size_t len,
                          bool first, struct error *err)
{
    struct added_search search = {
        .added = encoding->tokenizer->added,
        .scratch = encoding->patterns,
        .normalized = true,
        .text = text,
        .len = len,
    };
    size_t end;

    while (added_tokens_next(&search, &end)) {
        if (!encode_plain(encoding, text + search.done, search.start - search.done,
                          first && search.done == 0, err))
            return false;
        token_list_add(encoding->out, search.token->id);
        search.done = end;
    }
    return check_search(encoding, err) &&
           encode_plain(encoding, text + search.done, len - search.done,
                        first && search.done == 0, err);
}

static bool encode_segment(struct encoding *encoding, const char *text, size_t len,
                           bool first, struct error *err)
{
    const struct normalizer *normalizer = encoding->tokenizer->normalizer;
    struct normal_form *form = &encoding->normal;

    if (len == 0)
        return true;
    if (normalizer_is_empty(normalizer))
        return encode_normal(encoding, text, len, first, err);
    text_reset(&form->text);
    text_add(&form->text, text, len);
    /* if its start was cut off, it does not start the input, as in the library */
    return normalizer_apply(normalizer, form, encoding->patterns, err) &&
           encode_normal(encoding, form->text.data, form->text.len, first && !form->cut,
                         err);
}

static bool encode_text(struct encoding *encoding, const char *text, size_t len,
                        struct error *err)
{
    struct added_search search = {
        .added = encoding->tokenizer->added,
        .scratch = encoding->patterns,
        .text = text,
        .len = len,
    };
    size_t end;

    while (added_tokens_next(&search, &end)) {
        if (!encode_segment(encoding, text + search.done, search.start - search.done,
                            search.done == 0, err))
            return false;
        token_list_add(encoding->out, search.token->id);
        search.done = end;
    }
    return check_search(encoding, err) &&
           encode_segment(encoding, text + search.done, len - search.done,
                          search.done == 0, err);
}

bool tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t len,
                      bool special, struct token_list *out, struct error *err)
{
    struct encoding encoding = { .tokenizer = tokenizer,
                                 .bpe = { .heartbeat = tokenizer->heartbeat },
                                 .unigram = { .heartbeat = tokenizer->heartbeat },
                                 .out = out };
    struct error cause = { 0 };
    size_t bad;
    bool ok;

    if (len > MAX_TEXT_BYTES)
        return error_set(err, ERROR_DATA,
                         "a text of %zu bytes is too long for one record", len);
    if (!text_is_utf8(text, len, &bad))
        return error_set(err, ERROR_DATA, "the text is not UTF-8 at byte %zu", bad + 1);
    encoding.patterns = pattern_scratch_new();
    normalizer_limit(encoding.patterns, len);
    normal_form_init(&encoding.normal, 4 * MAX_TEXT_BYTES);
    if (special)
        postprocessor_begin(tokenizer->postprocessor, out);
    ok = encode_text(&encoding, text, len, &cause);
    if (!ok && cause.code == ERROR_STOPPED)
        error_set(err, cause.code, "%s", cause.text);
    else if (!ok)
        error_set(err, cause.code, "%s: %s (in a text of %zu bytes)", tokenizer->file,
                  cause.text, len);
    if (special)
        postprocessor_end(tokenizer->postprocessor, out);
    normal_form_clear(&encoding.normal);
    bpe_scratch_clear(&encoding.bpe);
    unigram_scratch_clear(&encoding.unigram);
    pattern_scratch_free(encoding.patterns);
    return ok;
}

bool tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids,
                      size_t count, bool skip_special, struct text *out)
{
    const struct vocabulary *names = model_names(tokenizer);
    struct pieces pieces;
    bool ok;

    pieces_init(&pieces);
    pieces.text.max = DECODED_FREE + DECODED_PER_TOKEN * count;
    for (size_t i = 0; i < count; i++) {
        const struct added_token *token = added_tokens_by_id(tokenizer->added, ids[i]);
        const char *data = token ? token->normal : NULL;
        size_t len = token ? token->normal_len : 0;

        if (token && token->special && skip_special)
            continue;
        if (!token)
            data = vocabulary_string(names, ids[i], &len);
        if (!data)
            continue;
        text_add(&pieces.text, data, len);
        pieces_end(&pieces);
    }
    ok = detokenizer_run(tokenizer->detokenizer, &pieces, out);
    pieces_clear(&pieces);
    return ok;
}

size_t tokenizer_size(const struct tokenizer *tokenizer)
{
    size_t model = vocabulary_size(model_names(tokenizer));
    size_t added = added_tokens_size(tokenizer->added);

    return model > added ? model : added;
}

int64_t tokenizer_find(const struct tokenizer *tokenizer, const char *token)
{
    size_t len = strlen(token);
    const struct added_token *added =
        added_tokens_by_content(tokenizer->added, token, len);

    return added ? added->id : vocabulary_find(model_names(tokenizer), token, len);
}

int64_t tokenizer_bos(const struct tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int64_t tokenizer_eos(const struct tokenizer *tokenizer)
{
    return tokenizer->eos == NO_TOKEN ? -1 : tokenizer->eos;
}

int64_t tokenizer_pad(const struct tokenizer *tokenizer)
{
    return tokenizer->pad;
}

bool tokenizer_adds_bos(const struct tokenizer *tokenizer)
{
    return tokenizer->adds_bos;
}

void tokenizer_set_heartbeat(struct tokenizer *tokenizer, struct heartbeat *heartbeat)
{
    tokenizer->heartbeat = heartbeat;
}

struct heartbeat *tokenizer_heartbeat(const struct tokenizer *tokenizer)
{
    return tokenizer->heartbeat;
}

void tokenizer_attach(struct tokenizer *tokenizer, void *value, void (*release)(void *))
{
    assert(!tokenizer->attached);
    tokenizer->attached = value;
    tokenizer->release = release;
}

void *tokenizer_attached(const struct tokenizer *tokenizer)
{
    return tokenizer->attached;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    if (tokenizer->attached)
        tokenizer->release(tokenizer->attached);
    detokenizer_free(tokenizer->detokenizer);
    postprocessor_free(tokenizer->postprocessor);
    json_decref(tokenizer->new_tokens);
    added_tokens_free(tokenizer->added);
    bpe_free(tokenizer->bpe);
    unigram_free(tokenizer->unigram);
    pretokenizer_free(tokenizer->pretokenizer);
    normalizer_free(tokenizer->normalizer);
    free(tokenizer->file);
    free(tokenizer);
}

static bool read_model_part(struct tokenizer *tokenizer, const json_t *model, size_t ids,
                            const char *where, struct error *err)
{
    const char *type = json_string_value(json_object_get(model, "type"));

    if (type && strcmp(type, "Unigram") == 0) {
        tokenizer->unigram = unigram_new(model, where, err);
        return tokenizer->unigram != NULL;
    }
    tokenizer->bpe = bpe_new(model, pretokenizer_is_byte_level(tokenizer->pretokenizer),
                             ids, where, err);
    return tokenizer->bpe != NULL;
}

/* Read the parts of tokenizer.json, in the order of their dependencies. `truncation` and
 * `padding` are left over from the publisher's last run and are ignored. */
static bool read_parts(struct tokenizer *tokenizer, const json_t *json, size_t ids,
                       const char *where, struct error *err)
{
    tokenizer->normalizer =
        normalizer_new(json_object_get(json, "normalizer"), where, err);
    if (!tokenizer->normalizer)
        return false;
    tokenizer->pretokenizer =
        pretokenizer_new(json_object_get(json, "pre_tokenizer"), where, err);
    if (!tokenizer->pretokenizer)
        return false;
    if (!read_model_part(tokenizer, json_object_get(json, "model"), ids, where, err))
        return false;
    tokenizer->added =
        added_tokens_new(json_object_get(json, "added_tokens"), model_names(tokenizer),
                         tokenizer->normalizer, ids, where, err);
    if (!tokenizer->added)
        return false;
    tokenizer->postprocessor =
        postprocessor_new(json_object_get(json, "post_processor"), ids, where, err);
    tokenizer->detokenizer =
        detokenizer_new(json_object_get(json, "decoder"), where, err);
    return tokenizer->postprocessor && tokenizer->detokenizer;
}

/* Find a token named in tokenizer_config.json: a string, or an object with its
 * content. */
static int64_t named_token(const struct tokenizer *tokenizer, const json_t *config,
                           const char *key)
{
    const json_t *value = json_object_get(config, key);

    if (json_is_object(value))
        value = json_object_get(value, "content");
    return json_is_string(value) ? tokenizer_find(tokenizer, json_string_value(value))
                                 : -1;
}

/* A generic tokenizer class has only named tokens; a model-specific class has
 * defaults. */
static void read_end(struct tokenizer *tokenizer, const json_t *config, const char *class)
{
    int64_t end = named_token(tokenizer, config, "eos_token");

    if (end >= 0)
        tokenizer->eos = end;
    else if (json_is_null(json_object_get(config, "eos_token")) ||
             (class && (strcmp(class, "PreTrainedTokenizerFast") == 0 ||
                        strcmp(class, "TokenizersBackend") == 0)))
        tokenizer->eos = NO_TOKEN;
}

static void read_config(struct tokenizer *tokenizer, const json_t *config)
{
    const json_t *adds_bos = json_object_get(config, "add_bos_token");
    const json_t *class = json_object_get(config, "tokenizer_class");

    if (tokenizer->bos < 0)
        tokenizer->bos = named_token(tokenizer, config, "bos_token");
    if (tokenizer->eos < 0)
        read_end(tokenizer, config, json_string_value(class));
    if (tokenizer->pad < 0)
        tokenizer->pad = named_token(tokenizer, config, "pad_token");
    /* transformers' LlamaTokenizer adds it by default; the generic class does not */
    if (json_is_boolean(adds_bos))
        tokenizer->adds_bos = json_is_true(adds_bos);
    else if (json_is_string(class))
        tokenizer->adds_bos = text_starts(json_string_value(class), "LlamaTokenizer");
}

/* If no file of the tokenizer mentions the end of a text, transformers takes it from the
 * model-specific class, as GPT-2's <|endoftext|>. We use that of config.json: the first,
 * if there are several. */
static void read_model(struct tokenizer *tokenizer, const json_t *config)
{
    const json_t *value = json_object_get(config, "eos_token_id");
    int64_t id;

    if (json_is_array(value))
        value = json_array_get(value, 0);
    id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (tokenizer->eos == -1 && id >= 0 && (uint64_t)id < tokenizer_size(tokenizer))
        tokenizer->eos = id;
}

static bool read_config_file(struct tokenizer *tokenizer, const char *path,
                             void (*read)(struct tokenizer *, const json_t *),
                             struct error *err)
{
    json_t *config = NULL;
    struct text text;

    text_init(&text, MAX_FILE_BYTES);
    if (file_read(path, MAX_FILE_BYTES, &text, NULL, err))
        config = json_read_loose(text.data, text.len, path, 1, err);
    text_clear(&text);
    if (!config)
        return false;
    read(tokenizer, config);
    json_decref(config);
    return true;
}

/* Files next to tokenizer.json, as old and new versions of transformers write them. */
static bool read_configs(struct tokenizer *tokenizer, const char *dir, struct error *err)
{
    static const struct {
        const char *name;
        void (*read)(struct tokenizer *, const json_t *);
    } files[] = { { "tokenizer_config.json", read_config },
                  { "special_tokens_map.json", read_config },
                  { "config.json", read_model } };
    bool ok = true;

    for (size_t i = 0; i < TS_COUNT(files) && ok; i++) {
        char *path = path_join(dir, files[i].name);

        ok = !file_exists(path) || read_config_file(tokenizer, path, files[i].read, err);
        free(path);
    }
    return ok;
}

/* Make a tokenizer of a tokenizer.json, or of what one would have; `bytes` limits its
 * ids. */
static struct tokenizer *tokenizer_new(const json_t *json, const char *where,
                                       size_t bytes, struct error *err)
{
    struct tokenizer *tokenizer = memory_alloc(sizeof(*tokenizer));

    tokenizer->file = memory_strdup(where);
    tokenizer->bos = tokenizer->eos = tokenizer->pad = -1;
    if (read_parts(tokenizer, json, bytes > FREE_IDS ? bytes : FREE_IDS, where, err))
        return tokenizer;
    tokenizer_close(tokenizer);
    return NULL;
}

/* Keep the last `count` of the added tokens, with their ids. */
static void keep_new(struct tokenizer *tokenizer, const json_t *json, size_t count)
{
    const json_t *list = json_object_get(json, "added_tokens");
    size_t all = json_array_size(list);

    if (count == 0)
        return;
    tokenizer->new_tokens = json_array();
    for (size_t i = all - count; i < all; i++) {
        json_t *token = json_deep_copy(json_array_get(list, i));
        const char *name = json_string_value(json_object_get(token, "content"));

        json_object_set_new(token, "id", json_integer(tokenizer_find(tokenizer, name)));
        json_array_append_new(tokenizer->new_tokens, token);
    }
}

const json_t *tokenizer_new_tokens(const struct tokenizer *tokenizer)
{
    return tokenizer->new_tokens;
}

static struct tokenizer *open_file(const char *file, const struct new_tokens *more,
                                   struct error *err)
{
    struct tokenizer *tokenizer = NULL;
    struct text text;
    json_t *json = NULL;

    text_init(&text, MAX_FILE_BYTES);
    if (file_read(file, MAX_FILE_BYTES, &text, NULL, err))
        json = json_read_text(text.data, text.len, file, 1, err);
    if (json) {
        bool adds = more->normal || more->special || more->adapter;
        size_t count = 0;

        if (!adds || new_tokens_append(more, json, &count, err))
            tokenizer = tokenizer_new(json, file, text.len, err);
        if (tokenizer)
            keep_new(tokenizer, json, count);
        if (tokenizer && more->adapter &&
            !new_tokens_agree(tokenizer, more->adapter, err)) {
            tokenizer_close(tokenizer);
            tokenizer = NULL;
        }
    }
    json_decref(json);
    text_clear(&text);
    return tokenizer;
}

/* Files that have the tokens, if there is no tokenizer.json. */
static const struct {
    const char *name, *other; /* NULL: one file */
    json_t *(*convert)(struct conversion *conversion, struct error *err);
} sources[] = {
    { "tokenizer.model", NULL, sentencepiece_convert },
    { "tekken.json", NULL, tekken_convert },
    { "qwen.tiktoken", NULL, tiktoken_convert },
    { "merges.txt", "vocab.json", merges_file_convert },
};

static bool has_file(const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    bool exists = file_exists(path);

    free(path);
    return exists;
}

/* Return the row of the files that the folder has, or TS_COUNT. */
static size_t find_source(const char *dir)
{
    size_t found = 0;

    while (found < TS_COUNT(sources) &&
           !(has_file(dir, sources[found].name) &&
             (!sources[found].other || has_file(dir, sources[found].other))))
        found++;
    return found;
}

bool tokenizer_exists(const char *dir)
{
    return has_file(dir, "tokenizer.json") || find_source(dir) < TS_COUNT(sources);
}

/* Open a folder without tokenizer.json. */
static struct tokenizer *open_source(const char *dir, struct error *err)
{
    size_t found = find_source(dir);
    struct tokenizer *tokenizer = NULL;
    struct conversion conversion;
    json_t *json = NULL;
    char *path;

    if (found == TS_COUNT(sources)) {
        error_set(err, ERROR_DATA,
                  "%s: there is no tokenizer.json, tokenizer.model, tekken.json, "
                  "qwen.tiktoken, or vocab.json and merges.txt",
                  dir);
        return NULL;
    }
    if (conversion_open(&conversion, dir, err))
        json = sources[found].convert(&conversion, err);
    path = path_join(dir, sources[found].name);
    if (json)
        tokenizer = tokenizer_new(json, path, conversion.bytes, err);
    if (tokenizer) {
        read_config(tokenizer, json_object_get(json, "settings"));
        read_model(tokenizer, conversion.model);
    }
    free(path);
    json_decref(json);
    conversion_clear(&conversion);
    return tokenizer;
}

struct tokenizer *tokenizer_open(const char *path, struct error *err)
{
    return tokenizer_open_with(path, &(struct new_tokens) { .normal = NULL }, err);
}

struct tokenizer *tokenizer_open_with(const char *path, const struct new_tokens *more,
                                      struct error *err)
{
    bool is_dir = file_is_dir(path);
    char *file = is_dir ? path_join(path, "tokenizer.json") : memory_strdup(path);
    struct tokenizer *tokenizer = NULL;

    if (file_exists(file)) {
        tokenizer = open_file(file, more, err);
        if (tokenizer && is_dir && !read_configs(tokenizer, path, err)) {
            tokenizer_close(tokenizer);
            tokenizer = NULL;
        }
    } else if (is_dir && (more->normal || more->special)) {
        error_set(
            err, ERROR_JOB,
            "add_tokens: %s has no tokenizer.json to which tokens can be added; save "
            "one with transformers first",
            path);
    } else if (is_dir) {
        tokenizer = open_source(path, err);
    } else {
        error_set(err, ERROR_DATA, "%s does not exist", path);
    }
    free(file);
    return tokenizer;
}
