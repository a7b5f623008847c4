/* train/tokenizer/conversion.c - the added tokens and settings that all formats share.
 * Source: transformers 5.24, tokenization_utils_base.py, _from_pretrained, and
 * tokenization_utils_tokenizers.py. */
#include "config.h"

#include "train/tokenizer/conversion.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"

#define MAX_FILE_BYTES ((size_t)256 << 20)

static const char *const names[CONVERSION_NAMES] = {
    [NAME_BOS] = "bos_token",   [NAME_EOS] = "eos_token", [NAME_UNK] = "unk_token",
    [NAME_SEP] = "sep_token",   [NAME_PAD] = "pad_token", [NAME_CLS] = "cls_token",
    [NAME_MASK] = "mask_token",
};

/* Read a JSON object of the folder; an empty one if there is no such file. */
static json_t *read_object(const char *dir, const char *base, struct error *err)
{
    char *path = path_join(dir, base);
    json_t *root = NULL;
    struct text text;

    text_init(&text, MAX_FILE_BYTES);
    if (!file_exists(path))
        root = json_object();
    else if (file_read(path, MAX_FILE_BYTES, &text, NULL, err))
        root = json_read_loose(text.data, text.len, path, 1, err);
    if (root && !json_is_object(root)) {
        error_set(err, ERROR_DATA, "%s must be an object", path);
        json_decref(root);
        root = NULL;
    }
    text_clear(&text);
    free(path);
    return root;
}

bool conversion_open(struct conversion *conversion, const char *dir, struct error *err)
{
    *conversion = (struct conversion) { .dir = dir };
    conversion->config = read_object(dir, "tokenizer_config.json", err);
    conversion->model = read_object(dir, "config.json", err);
    if (!conversion->config || !conversion->model)
        return false;
    /* the files of older versions count only without this member of the newer one */
    if (json_object_get(conversion->config, "added_tokens_decoder")) {
        conversion->map = json_object();
        conversion->added = json_object();
        return true;
    }
    conversion->map = read_object(dir, "special_tokens_map.json", err);
    conversion->added = read_object(dir, "added_tokens.json", err);
    return conversion->map && conversion->added;
}

void conversion_clear(struct conversion *conversion)
{
    json_decref(conversion->config);
    json_decref(conversion->map);
    json_decref(conversion->added);
    json_decref(conversion->model);
    *conversion = (struct conversion) { 0 };
}

static const char *member(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

const char *conversion_class(const struct conversion *conversion)
{
    const char *class = member(conversion->config, "tokenizer_class");

    return *class ? class : member(conversion->model, "tokenizer_class");
}

const char *conversion_model_type(const struct conversion *conversion)
{
    return member(conversion->model, "model_type");
}

bool conversion_bool(const struct conversion *conversion, const char *key,
                     bool default_value)
{
    const json_t *value = json_object_get(conversion->config, key);

    return json_is_boolean(value) ? json_is_true(value) : default_value;
}

bool conversion_read(struct conversion *conversion, const char *base, struct text *out,
                     struct error *err)
{
    char *path = path_join(conversion->dir, base);
    bool ok = file_read(path, MAX_FILE_BYTES, out, NULL, err);

    conversion->bytes += out->len;
    free(path);
    return ok;
}

json_t *conversion_token(const char *content, bool special, bool normalized)
{
    return json_pack("{s:s, s:b, s:b}", "content", content, "special", special,
                     "normalized", normalized);
}

/* A named token, which is a string, or an object with its content; NULL: none. */
static const char *content_of(const json_t *value)
{
    const char *text = json_string_value(
        json_is_object(value) ? json_object_get(value, "content") : value);

    return text && *text ? text : NULL;
}

static const json_t *find_named(const struct conversion *conversion, const char *key)
{
    const json_t *value = json_object_get(conversion->map, key);

    return value ? value : json_object_get(conversion->config, key);
}

/* The list of added tokens while it is made. */
struct listing {
    const struct conversion *conversion;
    const struct conversion_parts *parts;
    json_t *ids; /* token -> id: of the vocabulary, then of the list too */
    json_t *list;
    json_t *listed; /* by content */
    size_t next;
};

/* Add a token: a string or an object, special if `special`. */
static void add_token(struct listing *l, const json_t *value, bool special)
{
    static const char *const flags[] = { "lstrip", "rstrip", "single_word" };
    const char *content = content_of(value);
    const json_t *normalized = json_object_get(value, "normalized"), *id;
    json_t *entry;

    if (!content || json_object_get(l->listed, content))
        return;
    special = special || json_is_true(json_object_get(value, "special"));
    entry = conversion_token(content, special,
                             normalized ? json_is_true(normalized) : !special);
    for (size_t i = 0; i < TS_COUNT(flags); i++)
        if (json_is_true(json_object_get(value, flags[i])))
            json_object_set_new(entry, flags[i], json_true());
    id = json_object_get(l->ids, content);
    if (!id)
        json_object_set_new(l->ids, content, json_integer((json_int_t)l->next++));
    id = json_object_get(l->ids, content);
    json_object_set(entry, "id", (json_t *)id);
    json_object_set_new(l->listed, content, json_true());
    json_array_append_new(l->list, entry);
}

static bool is_named(const struct listing *l, const char *content)
{
    for (size_t i = 0; i < CONVERSION_NAMES; i++) {
        const json_t *value = find_named(l->conversion, names[i]);
        const char *name = value ? content_of(value) : l->parts->defaults[i];

        if (name && strcmp(name, content) == 0)
            return true;
    }
    return false;
}

/* Further special tokens: a list, which versions call differently. */
static const json_t *find_extra(const struct conversion *conversion)
{
    static const char *const keys[] = { "extra_special_tokens",
                                        "additional_special_tokens" };

    for (size_t i = 0; i < TS_COUNT(keys); i++) {
        const json_t *value = find_named(conversion, keys[i]);

        if (json_is_array(value) || json_is_object(value))
            return value;
    }
    return NULL;
}

/* Those that are a list, as an object by content. */
static json_t *extra_set(const struct conversion *conversion)
{
    const json_t *extra = find_extra(conversion);
    json_t *set = json_object();

    for (size_t i = 0; i < json_array_size(extra); i++) {
        const char *content = content_of(json_array_get(extra, i));

        if (content)
            json_object_set_new(set, content, json_true());
    }
    return set;
}

/* A token with its id in a file, for sorting. */
struct numbered {
    long long id;
    const json_t *value; /* an object, or NULL */
    const char *content;
};

static int compare_numbers(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

/* Tokens with ids: {"5": {"content": ...}} of new files, {"...": 5} of old ones.  Only
 * their order counts. */
static void add_numbered(struct listing *l)
{
    json_t *decoder = json_object_get(l->conversion->config, "added_tokens_decoder");
    json_t *from = decoder ? decoder : l->conversion->added, *value;
    json_t *extra = extra_set(l->conversion);
    struct numbered *all = memory_alloc((json_object_size(from) + 1) * sizeof(*all));
    const char *key;
    size_t count = 0;

    json_object_foreach(from, key, value) all[count++] = (struct numbered) {
        decoder ? strtoll(key, NULL, 10) : json_integer_value(value),
        decoder ? value : NULL,
        decoder ? content_of(value) : key,
    };
    qsort(all, count, sizeof(*all), compare_numbers);
    for (size_t i = 0; i < count; i++) {
        json_t *entry;
        bool special;

        if (!all[i].content)
            continue;
        special = is_named(l, all[i].content) ||
                  (!decoder && json_object_get(extra, all[i].content));
        entry = decoder ? json_deep_copy(all[i].value) : json_string(all[i].content);
        if (l->parts->original && decoder)
            json_object_set_new(entry, "normalized", json_false());
        else if (l->parts->original) {
            json_decref(entry);
            entry = conversion_token(all[i].content, special, false);
        }
        add_token(l, entry, special);
        json_decref(entry);
    }
    json_decref(extra);
    free(all);
}

/* Tokens with names of their own, such as image_token. */
static void add_other_names(struct listing *l)
{
    const char *key;
    json_t *value;

    json_object_foreach(
        l->conversion->config, key,
        value) if (text_ends(key, "_token") &&
                   (json_is_string(value) || json_object_get(value, "__type")))
        add_token(l, value, true);
}

static void add_files(struct listing *l)
{
    const json_t *extra = find_extra(l->conversion);
    const char *key;
    json_t *value;

    add_numbered(l);
    for (size_t i = 0; i < CONVERSION_NAMES; i++) {
        const json_t *named = find_named(l->conversion, names[i]);
        json_t *name = json_string(l->parts->defaults[i] ? l->parts->defaults[i] : "");

        add_token(l, named ? named : name, true);
        json_decref(name);
    }
    add_other_names(l);
    for (size_t i = 0; i < json_array_size(extra); i++)
        add_token(l, json_array_get(extra, i), true);
    json_object_foreach((json_t *)extra, key, value) add_token(l, value, true);
}

static void add_own(struct listing *l)
{
    for (size_t i = 0; i < json_array_size(l->parts->own); i++)
        add_token(l, json_array_get(l->parts->own, i), false);
}

/* The ids of the vocabulary, which is an object, or a list of tokens and scores. */
static json_t *ids_of(const json_t *vocab)
{
    json_t *ids = json_is_object(vocab) ? json_copy((json_t *)vocab) : json_object();

    for (size_t i = 0; i < json_array_size(vocab); i++)
        json_object_set_new(
            ids, json_string_value(json_array_get(json_array_get(vocab, i), 0)),
            json_integer((json_int_t)i));
    return ids;
}

/* The token with a name, as a string or null. */
static json_t *named_token(const struct listing *l, enum conversion_name name)
{
    const json_t *value = find_named(l->conversion, names[name]);
    const char *content = value ? content_of(value) : l->parts->defaults[name];

    return content ? json_string(content) : json_null();
}

/* A template with the tokens around a text that the settings ask for; null: none. */
static json_t *processor_of(const struct listing *l, json_t *settings)
{
    static const struct {
        const char *setting;
        enum conversion_name name;
    } ends[] = { { "add_bos_token", NAME_BOS }, { "add_eos_token", NAME_EOS } };
    json_t *single = json_pack("[{s:{s:s}}]", "Sequence", "id", "A");
    json_t *specials = json_object();

    for (size_t i = 0; i < TS_COUNT(ends); i++) {
        json_t *token = named_token(l, ends[i].name), *item;
        bool adds = conversion_bool(l->conversion, ends[i].setting, false) &&
                    json_is_string(token);

        json_object_set_new(settings, ends[i].setting, json_boolean(adds));
        if (adds) {
            item = json_pack("{s:{s:O}}", "SpecialToken", "id", token);
            json_array_insert_new(single, i == 0 ? 0 : json_array_size(single), item);
            item = json_pack("{s:[O]}", "ids",
                             json_object_get(l->ids, json_string_value(token)));
            json_object_set_new(specials, json_string_value(token), item);
        }
        json_decref(token);
    }
    return json_pack("{s:s, s:o, s:o}", "type", "TemplateProcessing", "single", single,
                     "special_tokens", specials);
}

static json_t *or_null(json_t *value)
{
    return value ? value : json_null();
}

json_t *conversion_finish(const struct conversion *conversion,
                          struct conversion_parts *parts)
{
    struct listing l = {
        .conversion = conversion,
        .parts = parts,
        .ids = ids_of(json_object_get(parts->tokens, "vocab")),
        .list = json_array(),
        .listed = json_object(),
    };
    json_t *settings = json_object(), *tree;

    l.next = json_object_size(l.ids);
    if (parts->own_first)
        add_own(&l);
    add_files(&l);
    add_own(&l);
    json_object_set_new(settings, names[NAME_BOS], named_token(&l, NAME_BOS));
    json_object_set_new(settings, names[NAME_EOS], named_token(&l, NAME_EOS));
    json_object_set_new(settings, names[NAME_PAD], named_token(&l, NAME_PAD));
    tree = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "added_tokens", l.list,
                     "normalizer", or_null(parts->normalizer), "pre_tokenizer",
                     or_null(parts->pre_tokenizer), "post_processor",
                     processor_of(&l, settings), "decoder", or_null(parts->decoder),
                     "model", parts->tokens);
    json_object_set_new(tree, "settings", settings);
    json_decref(l.ids);
    json_decref(l.listed);
    json_decref(parts->own);
    return tree;
}
