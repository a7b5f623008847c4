/* tests/unit/training_small.h - a model that is small enough for emulated kernels. */
#ifndef TESTS_UNIT_TRAINING_SMALL_H
#define TESTS_UNIT_TRAINING_SMALL_H

#include "base/arena.h"
#include "tests/unit/training.h"

static const char training_small_config[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 512, \"hidden_size\": "
    "32,\"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 1, \"max_position_embeddings\": "
    "64,\"tie_word_embeddings\": true, \"bos_token_id\": 1, \"eos_token_id\": 2}";

static inline void training_put(const char *dir, const char *base, const char *data,
                                size_t len)
{
    char *name = path_join(dir, base);
    struct error err = { 0 };

    if (!file_replace(name, data, len, 0644, &err))
        fail_msg("%s", err.text);
    free(name);
}

#define TRAINING_SMALL "data/stories260K/hf"

/* Make a folder with a model that is small enough for emulated kernels, and a real
 * tokenizer. */
static inline char *training_small_dir(void)
{
    static const char *const files[] = { "tokenizer.json", "tokenizer_config.json" };
    char *dir = unit_dir_new(), *model = path_join(dir, "model");
    char *shared = unit_shared(TRAINING_SMALL);
    struct error err = { 0 };

    assert_true(file_make_dir(model, 0755, &err));
    training_put(model, "config.json", training_small_config,
                 strlen(training_small_config));
    for (size_t i = 0; i < 2; i++) {
        char *from = path_join(shared, files[i]);
        struct text text;

        text_init(&text, 16 << 20);
        assert_true(file_read(from, 16 << 20, &text, NULL, &err));
        training_put(model, files[i], text.data, text.len);
        text_clear(&text);
        free(from);
    }
    free(shared);
    free(model);
    return dir;
}

#endif
