/* train/model/vocabulary_growth.c - a larger vocabulary than that of the model's files. */
#include "config.h"

#include "train/model/vocabulary_growth.h"

#include "base/json_edit.h"
#include "base/size.h"
#include "train/model/shapes.h"
#include "train/tokenizer/tokenizer.h"

enum { ROW_MULTIPLE = 64 };

static bool check_model(const struct plan *plan, const struct model_config *config,
                        struct error *err)
{
    if (shapes_is_quantized(plan, config))
        return error_set(err, ERROR_JOB,
                         "resize_vocab: the vocabulary of a quantized model cannot grow; "
                         "remove quantization_bit, or the new tokens");
    if (config->multimodal || config->head_bias)
        return error_set(err, ERROR_JOB,
                         "resize_vocab: the vocabulary of a model of this type cannot "
                         "grow here");
    return !plan_has_second_model(plan) ||
           error_set(
               err, ERROR_JOB,
               "resize_vocab: the vocabulary cannot grow with a teacher or a second "
               "model as the reference");
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

bool vocabulary_grow(const struct plan *plan, const char *dir, struct arena *arena,
                     struct model_config *config, struct error *err)
{
    const struct new_tokens more = plan_new_tokens(plan);
    struct tokenizer *plain, *tokenizer;
    size_t size;

    if (!plan_grows_vocabulary(plan) || plan->external)
        return true;
    if (!check_model(plan, config, err))
        return false;
    plain = tokenizer_open(dir, err);
    tokenizer = plain ? tokenizer_open_with(dir, &more, err) : NULL;
    if (tokenizer)
        list_new_tokens(tokenizer, tokenizer_size(plain), arena, config);
    size = tokenizer ? tokenizer_size(tokenizer) : 0;
    tokenizer_close(plain);
    if (!tokenizer)
        return false;
    tokenizer_close(tokenizer);
    config->stored_vocab = config->vocab_size;
    return size <= config->vocab_size ||
           set_size(size_round(size, ROW_MULTIPLE), arena, config, err);
}
