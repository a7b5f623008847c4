/* train/model/vocabulary_growth.c - another vocabulary than that of the model's files. */
#include "config.h"

#include "train/model/vocabulary_growth.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/json_edit.h"
#include "base/size.h"
#include "train/files/safetensors.h"
#include "train/model/shapes.h"
#include "train/model/weights.h"
#include "train/tokenizer/tokenizer.h"

enum { ROW_MULTIPLE = 64 };

/* `key` names the cause. */
static bool check_model(const struct plan *plan, const struct model_config *config,
                        const char *key, struct error *err)
{
    if (shapes_is_quantized(plan, config))
        return error_set(err, ERROR_JOB,
                         "%s: the vocabulary of a quantized model cannot change; remove "
                         "quantization_bit, or the new tokens",
                         key);
    if (config->multimodal || config->head_bias || config->layer_inputs > 0)
        return error_set(err, ERROR_JOB,
                         "%s: the vocabulary of a model of this type cannot change here",
                         key);
    return !plan_has_second_model(plan) ||
           error_set(err, ERROR_JOB,
                     "%s: the vocabulary cannot change with a teacher or a second model "
                     "as the reference",
                     key);
}

/* Note the new tokens that have no row in the files, or one that was never trained.  A
 * name of the tokenizer, which has `size` tokens without the new ones, keeps its id and
 * its row. */
static void list_new_tokens(const struct tokenizer *tokenizer, size_t size,
                            struct arena *arena, struct model_config *config)
{
    const json_t *list = tokenizer_new_tokens(tokenizer);
    uint32_t *ids = arena_array(arena, json_array_size(list) + 1, sizeof(*ids));

    config->new_tokens = ids;
    config->new_token_count = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_int_t id =
            json_integer_value(json_object_get(json_array_get(list, i), "id"));

        if (id >= (json_int_t)size)
            ids[config->new_token_count++] = (uint32_t)id;
    }
}

static bool set_size(size_t size, struct arena *arena, struct model_config *config,
                     struct error *err)
{
    json_t *value = json_integer((json_int_t)size);
    struct text text;
    bool ok;

    text_init(&text, 0);
    text_add(&text, config->text, config->text_len);
    ok = json_edit_set(&text, "vocab_size", value, "config.json", err);
    if (ok) {
        config->text = arena_copy(arena, text.data, text.len);
        config->text_len = text.len;
        config->vocab_size = size;
    }
    text_clear(&text);
    json_decref(value);
    return ok;
}

/* Return the rows of the embeddings, or else of the head, that an adapter has a copy of; 0:
 * none. */
static size_t adapter_rows(const char *dir, const struct model_config *config)
{
    static const enum module modules[] = { MODULE_EMBED, MODULE_HEAD };
    struct safetensors *set = safetensors_open(dir, "adapter_model", false, NULL);
    size_t rows = 0;

    for (size_t i = 0; set && rows == 0 && i < TS_COUNT(modules); i++) {
        const char *path = config->architecture->paths[modules[i]];
        const struct stored_tensor *found = NULL;
        struct text name;

        if (!path || (modules[i] == MODULE_HEAD && config->scores))
            continue;
        text_init(&name, 0);
        text_addf(&name, "base_model.model.%s.weight", path);
        found = weights_find_adapter(set, config, name.data);
        text_clear(&name);
        rows = found && found->rank == 2 ? found->shape[0] : 0;
        if (modules[i] == MODULE_EMBED && rows > config->more_embeddings)
            rows -= config->more_embeddings;
    }
    safetensors_close(set);
    return rows;
}

static bool has_tokenizer(const char *dir)
{
    char *path = path_join(dir, "tokenizer.json");
    bool exists = file_exists(path);

    free(path);
    return exists;
}

/* What decides the vocabulary. */
struct growth {
    const struct plan *plan;
    const char *dir, *adapter; /* NULL: no adapter with embeddings */
    size_t rows;               /* of the adapter's embeddings */
    struct arena *arena;
    struct model_config *config;
};

/* The embeddings of an adapter end with its own tokens. */
static bool check_adapter(const struct growth *growth, const struct tokenizer *tokenizer,
                          const struct tokenizer *without, struct error *err)
{
    const json_t *list = tokenizer_new_tokens(tokenizer);
    size_t size = tokenizer_size(tokenizer);

    for (size_t i = 0; has_tokenizer(growth->adapter) && i < json_array_size(list); i++) {
        const char *name =
            json_string_value(json_object_get(json_array_get(list, i), "content"));

        if (tokenizer_find(without, name) < 0)
            return error_set(err, ERROR_JOB,
                             "add_tokens: the adapter was trained without the token %s, "
                             "and its embeddings replace those of the model; remove the "
                             "token, or merge the adapter first and add the token to the "
                             "merged model",
                             name);
    }
    return size <= growth->rows ||
           error_set(err, ERROR_JOB,
                     "adapter_name_or_path: the adapter has embeddings for %zu tokens, "
                     "but the tokenizer has %zu with the new ones",
                     growth->rows, size);
}

static bool read_tokens(const struct growth *growth, size_t *size, struct error *err)
{
    const struct plan *plan = growth->plan;
    const struct new_tokens more = plan_new_tokens(plan, growth->config);
    struct tokenizer *plain = tokenizer_open(growth->dir, err), *without = NULL,
                     *tokenizer =
                         plain ? tokenizer_open_with(growth->dir, &more, err) : NULL;
    bool ok = tokenizer != NULL;

    if (ok)
        list_new_tokens(tokenizer, tokenizer_size(plain), growth->arena, growth->config);
    if (ok && growth->adapter) {
        without = tokenizer_open_with(
            growth->dir, &(struct new_tokens) { .adapter = growth->adapter }, err);
        ok = without && check_adapter(growth, tokenizer, without, err);
    }
    *size = ok ? tokenizer_size(tokenizer) : 0;
    tokenizer_close(without);
    tokenizer_close(tokenizer);
    tokenizer_close(plain);
    return ok;
}

bool vocabulary_grow(const struct plan *plan, const char *dir, struct arena *arena,
                     struct model_config *config, struct error *err)
{
    struct growth growth = { .plan = plan, .dir = dir, .arena = arena, .config = config };
    size_t size;

    if (plan->external)
        return true;
    if (plan_adapts(plan) && plan->adapter_name_or_path)
        growth.rows = adapter_rows(plan->adapter_name_or_path, config);
    if (growth.rows > 0)
        growth.adapter = plan->adapter_name_or_path;
    config->adapter_tokens = growth.adapter != NULL;
    if (!plan_grows_vocabulary(plan) &&
        (!growth.adapter || growth.rows == config->vocab_size))
        return true;
    if (!check_model(
            plan, config,
            plan_grows_vocabulary(plan) ? "resize_vocab" : "adapter_name_or_path", err))
        return false;
    if (!read_tokens(&growth, &size, err))
        return false;
    config->stored_vocab = config->vocab_size;
    if (growth.adapter)
        return set_size(growth.rows, arena, config, err);
    return size <= config->vocab_size ||
           set_size(size_round(size, ROW_MULTIPLE), arena, config, err);
}
