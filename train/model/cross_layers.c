/* train/model/cross_layers.c - finds the layers of cross-attention, and their tensors. */
#include "config.h"

#include "train/model/cross_layers.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "base/text.h"

/* embed_tokens has rows for tokens without logits (MllamaTextModel): <|image|> and others */
enum { EMBEDDINGS_MORE = 8 };

static bool bad_list(const char *file, size_t layers, struct error *err)
{
    return error_set(
        err, ERROR_DATA,
        "%s: cross_attention_layers must be a list of numbers from 0 to %zu, "
        "and leave at least one layer",
        file, layers - 1);
}

/* Mark the listed layers; a number that is listed twice counts once. */
static bool mark_layers(const json_t *list, const char *file, size_t layers, bool *cross,
                        struct error *err)
{
    if (!json_is_array(list))
        return bad_list(file, layers, err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);

        if (!json_is_integer(one) || json_integer_value(one) < 0 ||
            json_integer_value(one) >= (json_int_t)layers)
            return bad_list(file, layers, err);
        cross[json_integer_value(one)] = true;
    }
    return true;
}

void cross_layers_read(const json_t *text, const char *file, struct arena *arena,
                       struct model_config *config, struct error *err)
{
    const size_t layers = config->layers;
    struct architecture *out;
    size_t *numbers, count = 0;
    bool *cross;

    if (err->code != ERROR_NONE || !config->multimodal->crosses)
        return;
    cross = arena_array(arena, layers, sizeof(*cross));
    numbers = arena_array(arena, layers, sizeof(*numbers));
    if (!mark_layers(json_object_get(text, "cross_attention_layers"), file, layers, cross,
                     err))
        return;
    for (size_t l = 0; l < layers; l++)
        if (!cross[l])
            numbers[count++] = l;
    if (count == 0) {
        bad_list(file, layers, err);
        return;
    }
    out = arena_alloc(arena, sizeof(*out));
    *out = *config->architecture;
    out->numbers = numbers;
    out->numbered = layers;
    config->architecture = out;
    config->layers = count;
    config->more_embeddings = EMBEDDINGS_MORE;
}

/* Return whether a number is one of those of the remaining layers, which increase. */
static bool remains(const struct model_config *config, unsigned long long number)
{
    for (size_t l = 0; l < config->layers; l++)
        if (model_config_number(config, l) == number)
            return true;
    return false;
}

/* transformers' modeling_mllama.py, MllamaCrossAttentionDecoderLayer. */
static const struct {
    enum module module;
    const char *path;
} cross_paths[] = {
    { MODULE_CROSS_Q, "cross_attn.q_proj" },
    { MODULE_CROSS_K, "cross_attn.k_proj" },
    { MODULE_CROSS_V, "cross_attn.v_proj" },
    { MODULE_CROSS_O, "cross_attn.o_proj" },
    { MODULE_CROSS_Q_NORM, "cross_attn.q_norm" },
    { MODULE_CROSS_K_NORM, "cross_attn.k_norm" },
    { MODULE_CROSS_GATE, "cross_attn_attn_gate" },
    { MODULE_CROSS_MLP_GATE, "cross_attn_mlp_gate" },
};

/* Of both kinds of layers.  Those of cross-attention have the first norm before the MLP. */
static const enum module cross_order[] = { MODULE_CROSS_GATE,
                                           MODULE_CROSS_MLP_GATE,
                                           MODULE_Q,
                                           MODULE_K,
                                           MODULE_V,
                                           MODULE_O,
                                           MODULE_CROSS_Q,
                                           MODULE_CROSS_K,
                                           MODULE_CROSS_V,
                                           MODULE_CROSS_O,
                                           MODULE_CROSS_Q_NORM,
                                           MODULE_CROSS_K_NORM,
                                           MODULE_NORM1,
                                           MODULE_GATE,
                                           MODULE_UP,
                                           MODULE_DOWN,
                                           MODULE_NORM1,
                                           MODULE_NORM2,
                                           MODULES };

bool cross_layers_join(struct model_config *config, struct arena *arena,
                       struct error *err)
{
    const size_t layers = model_config_numbered(config);
    struct architecture *out;
    bool *crosses;

    if (!config->architecture->numbers)
        return true;
    if (model_config_number(config, 0) > 0)
        return error_set(
            err, ERROR_DATA,
            "cross_attention_layers in config.json has layer 0, which is not "
            "supported with images");
    crosses = arena_array(arena, layers, sizeof(*crosses));
    out = arena_alloc(arena, sizeof(*out));
    *out = *config->architecture;
    for (size_t l = 0; l < layers; l++)
        crosses[l] = !remains(config, l);
    for (size_t i = 0; i < TS_COUNT(cross_paths); i++)
        out->paths[cross_paths[i].module] = cross_paths[i].path;
    out->order = cross_order;
    out->numbers = NULL;
    config->architecture = out;
    config->cross_layers = layers - config->layers;
    config->layers = layers;
    config->crosses = crosses;
    return true;
}

bool cross_layers_has(const struct model_config *config, const char *name)
{
    const struct architecture *a = config->architecture;
    const struct text_names *names =
        config->multimodal ? config->multimodal->names : NULL;
    unsigned long long number;
    char *end;

    for (; a->numbers && names->base; names++) {
        const char *blocks = a->blocks + strlen(a->base);
        size_t skip = strlen(names->base), more = strlen(blocks);

        if (!text_starts(name, names->base) || !text_starts(name + skip, blocks))
            continue;
        name += skip + more;
        if (*name < '0' || *name > '9')
            return false;
        number = strtoull(name, &end, 10);
        return *end == '.' && number < a->numbered && !remains(config, number);
    }
    return false;
}

bool model_config_keeps(const struct model_config *config, const char *name)
{
    return config->multimodal ? multimodal_is_tower(config->multimodal, name) ||
                                    cross_layers_has(config, name)
                              : architecture_keeps(config->architecture, name);
}
