/*
 * tests/unit/unit_config.h - parses a config.json that a test gives as text.
 */
#ifndef TESTS_UNIT_UNIT_CONFIG_H
#define TESTS_UNIT_UNIT_CONFIG_H

#include "tests/unit/unit.h"
#include "train/model/model_config.h"

#define SIZES                                                              \
    "\"vocab_size\": 100, \"hidden_size\": 64, \"intermediate_size\": 96," \
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4"
#define OPT SIZES ", \"ffn_dim\": 48, \"max_position_embeddings\": 8"
#define DBRX                                                                 \
    "\"vocab_size\": 40, \"d_model\": 24, \"n_heads\": 4, \"n_layers\": 2, " \
    "\"max_seq_len\": 64"
#define GPT2 "\"vocab_size\": 100, \"n_embd\": 64, \"n_layer\": 3, \"n_head\": 4"
#define NEO                                                                          \
    "\"vocab_size\": 100, \"hidden_size\": 64, \"num_layers\": 3, \"num_heads\": 4," \
    "\"max_position_embeddings\": 8"
#define GEMMA4 \
    "{\"model_type\": \"gemma4_text\", " SIZES ", \"hidden_size_per_layer_input\": 0"
#define LISTED(first) \
    ", \"layer_types\": [\"" first "\", \"full_attention\", \"full_attention\"]"

static struct arena *arena;

static inline int setup(void **state)
{
    (void)state;
    arena = arena_new();
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static inline bool parse(const char *text, struct model_config *out, struct error *err)
{
    *err = (struct error) { 0 };
    return model_config_parse(text, strlen(text), "config.json", arena, out, err);
}

static inline struct model_config parsed(const char *text)
{
    struct model_config config;
    struct error err;

    if (!parse(text, &config, &err))
        fail_msg("%s", err.text);
    return config;
}

#endif
