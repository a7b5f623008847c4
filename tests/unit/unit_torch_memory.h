/* tests/unit/unit_torch_memory.h - plans and models for estimates of PyTorch's memory. */
#ifndef TESTS_UNIT_UNIT_TORCH_MEMORY_H
#define TESTS_UNIT_UNIT_TORCH_MEMORY_H

#include "tests/unit/unit.h"
#include "train/torch_memory.h"

/* A step of a Llama, and its measured peak. */
struct measured {
    enum mode mode;
    bool checkpointing, plain;
    int width, mlp, layers, heads, keys, vocabulary, batch, length;
    uint64_t bytes;
    bool lora;
};

static struct arena *arena; /* of the configs */

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

static inline void read_config(const struct measured *s, struct model_config *config)
{
    struct error err = { 0 };
    char text[512];

    snprintf(text, sizeof(text),
             "{\"model_type\": \"llama\", \"vocab_size\": %d, \"hidden_size\": "
             "%d,\"intermediate_size\": %d, \"num_hidden_layers\": "
             "%d,\"num_attention_heads\": %d, \"num_key_value_heads\": %d}",
             s->vocabulary, s->width, s->mlp, s->layers, s->heads, s->keys);
    if (!model_config_parse(text, strlen(text), "config.json", arena, config, &err))
        fail_msg("%s", err.text);
}

static inline struct plan plan_of(const struct measured *s)
{
    return (struct plan) {
        .method = s->lora ? METHOD_LORA : METHOD_FULL,
        .external = true,
        .precision = { .mode = s->mode,
                       .trainable = s->mode == MODE_BF16_PURE ? FORMAT_BF16 : FORMAT_FP32,
                       .frozen = s->mode == MODE_FP32 ? FORMAT_FP32 : FORMAT_BF16 },
        .gradient_checkpointing = s->checkpointing,
        .per_device_train_batch_size = s->batch,
        .per_device_eval_batch_size = 8,
        .gradient_accumulation_steps = 1,
        .lora_rank = 8,
        .lora_target = "all",
        .cutoff_len = s->length
    };
}

static inline struct memory_use use_of(const struct plan *plan,
                                       const struct model_config *config)
{
    struct memory_use use;
    struct error err = { 0 };

    if (!torch_memory(plan, config, &use, &err))
        fail_msg("%s", err.text);
    return use;
}

#endif
