/* train/torch_activations.c - tables of counted activation bytes. */
#include "config.h"

#include "train/torch_activations.h"

#include <string.h>

#include "base/size.h"

/* Llama, Mistral, Qwen2. */
static const struct torch_row full_rows[MODE_COUNT] = {
    [MODE_FP32] = { 24, 8, 8, 16, 4, 12, 4, 4 },
    [MODE_TF32] = { 24, 8, 8, 16, 4, 12, 4, 4 },
    [MODE_FP16_MIXED] = { 26, 4, 4, 8, 6, 10, 4, 2 },
    [MODE_BF16_MIXED] = { 26, 4, 4, 8, 6, 10, 4, 2 },
    [MODE_FP16_PURE] = { 16, 4, 4, 8, 6, 8, 2, 2 },
    [MODE_BF16_PURE] = { 16, 4, 4, 8, 6, 8, 2, 2 },
};
/* Frozen norms keep nothing; adapters keep their own inputs. */
static const struct torch_row lora_rows[MODE_COUNT] = {
    [MODE_FP32] = { 16, 8, 8, 16, 4, 12, 4, 4 },
    [MODE_TF32] = { 16, 8, 8, 16, 4, 12, 4, 4 },
    [MODE_FP16_MIXED] = { 18, 6, 4, 8, 6, 8, 2, 2 },
    [MODE_BF16_MIXED] = { 18, 6, 4, 8, 6, 8, 2, 2 },
    [MODE_FP16_PURE] = { 18, 6, 4, 8, 6, 8, 2, 2 },
    [MODE_BF16_PURE] = { 18, 6, 4, 8, 6, 8, 2, 2 },
};

enum kind { KIND_FP32, KIND_MIXED, KIND_PURE, KINDS };

static const enum kind kinds[MODE_COUNT] = {
    [MODE_FP32] = KIND_FP32,        [MODE_TF32] = KIND_FP32,
    [MODE_FP16_MIXED] = KIND_MIXED, [MODE_BF16_MIXED] = KIND_MIXED,
    [MODE_FP16_PURE] = KIND_PURE,   [MODE_BF16_PURE] = KIND_PURE,
};

/* The first four fields for other families.  If heads times head size equals the width,
 * queries and keys are included in `width`.  Keys and values of Gemma 2 are counted
 * without repetition, which unfused attention adds. */
static const struct family {
    const char *model_type;
    bool always_plain;
    double plain; /* 0: as for Llama */
    struct widths {
        double width, queries, keys, mlp;
    } full[KINDS], lora[KINDS];
} families[] = {
    { .model_type = "qwen3",
      .full = { { 24, 16, 16, 16 }, { 26, 10, 10, 8 }, { 16, 10, 10, 8 } },
      .lora = { { 16, 12, 12, 16 }, { 18, 10, 8, 8 }, { 18, 10, 8, 8 } } },
    { .model_type = "phi3",
      .full = { { 28, 8, 8, 16 }, { 22, 4, 4, 8 }, { 18, 4, 4, 8 } },
      .lora = { { 20, 8, 8, 16 }, { 14, 4, 4, 8 }, { 14, 4, 4, 8 } } },
    /* gelu_new as separate operations, each of which keeps its input */
    { .model_type = "gpt2",
      .full = { { 40, 0, 0, 20 }, { 24, 0, 0, 10 }, { 20, 0, 0, 10 } },
      .lora = { { 40, 0, 0, 20 }, { 26, 0, 0, 10 }, { 26, 0, 0, 10 } } },
    { .model_type = "gpt_neo",
      .always_plain = true,
      .full = { { 32, 0, 0, 20 }, { 24, 0, 0, 10 }, { 20, 0, 0, 10 } },
      .lora = { { 32, 0, 0, 20 }, { 24, 0, 0, 10 }, { 24, 0, 0, 10 } } },
    { .model_type = "gpt_neox",
      .full = { { 32, 0, 0, 8 }, { 18, 0, 0, 4 }, { 16, 0, 0, 4 } },
      .lora = { { 32, 0, 0, 8 }, { 18, 0, 0, 4 }, { 18, 0, 0, 4 } } },
    { .model_type = "gemma",
      .full = { { 24, 8, 8, 16 }, { 26, 4, 4, 8 }, { 20, 4, 4, 8 } },
      .lora = { { 16, 8, 8, 16 }, { 18, 6, 4, 8 }, { 18, 6, 4, 8 } } },
    { .model_type = "gemma2",
      .always_plain = true,
      .plain = 8,
      .full = { { 40, 8, 8, 16 }, { 42, 4, 4, 8 }, { 36, 4, 4, 8 } },
      .lora = { { 24, 8, 8, 16 }, { 26, 4, 4, 8 }, { 26, 4, 4, 8 } } },
    { .model_type = "gemma3_text",
      .full = { { 40, 16, 16, 16 }, { 42, 12, 12, 8 }, { 36, 12, 12, 8 } },
      .lora = { { 24, 12, 12, 16 }, { 26, 10, 8, 8 }, { 26, 10, 8, 8 } } },
};

static const struct family *family_of(const char *model_type)
{
    for (size_t i = 0; i < TS_COUNT(families); i++)
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    return NULL;
}

struct torch_row torch_activations_of(const struct model_config *config, enum mode mode,
                                      bool lora)
{
    const struct family *family = family_of(config->architecture->model_type);
    struct torch_row row = lora ? lora_rows[mode] : full_rows[mode];
    const struct widths *widths;

    row.scores = row.plain + sizeof(float);
    if (!family)
        return row;
    widths = lora ? &family->lora[kinds[mode]] : &family->full[kinds[mode]];
    row.width = widths->width;
    row.queries = widths->queries;
    row.keys = widths->keys;
    row.mlp = widths->mlp;
    row.plain = family->plain > 0 ? family->plain : row.plain;
    row.always_plain = family->always_plain;
    /* GELU by erf and ReLU are one operation: its input and its output */
    if (!architecture_is_gated(config->architecture) &&
        (config->activation == ACTIVATION_GELU || config->activation == ACTIVATION_RELU))
        row.mlp = 2 * row.number;
    return row;
}
