/*
 * tests/unit/unit_shapes.h - shared by tests of shapes: a small model and a plan, made again
 * for each test.
 */
#ifndef TESTS_UNIT_UNIT_SHAPES_H
#define TESTS_UNIT_UNIT_SHAPES_H

#include "tests/unit/unit.h"

#include "base/size.h"
#include "train/model/shapes.h"

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 512, \"hidden_size\": "
    "64,\"intermediate_size\": 172, \"num_hidden_layers\": 5, \"num_attention_heads\": "
    "8,\"num_key_value_heads\": 4, \"tie_word_embeddings\": true}";

static struct arena *arena;
static struct model_config config;
static struct plan plan;

static inline int setup(void **state)
{
    struct error err = { 0 };

    (void)state;
    arena = arena_new();
    plan = (struct plan) {
        .method = METHOD_FULL,
        .precision = { .compute = FORMAT_FP32, .trainable = FORMAT_FP32 },
        .per_device_train_batch_size = 2,
        .cutoff_len = 64,
        .lora_rank = 8,
        .seed = 42,
    };
    return model_config_parse(llama, strlen(llama), "config.json", arena, &config, &err)
               ? 0
               : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static inline struct shapes made(void)
{
    struct shapes shapes;
    struct error err = { 0 };

    if (!shapes_make(&plan, &config, 0, 0, arena, &shapes, &err))
        fail_msg("%s", err.text);
    return shapes;
}

#endif
