/* train/model/full_heads.c - the heads of layers without a window. */
#include "config.h"

#include "train/model/full_heads.h"

#include <stdio.h>
#include <string.h>

enum { SIZE_MOST = 1 << 20 };

/* What is read, and where errors are from. */
struct source {
    const json_t *root; /* or an object in it */
    const char *file;
    struct error *err;
};

static size_t read_count(const struct source *s, const char *key, size_t default_value)
{
    int64_t value = json_get_int(s->root, key, (int64_t)default_value, s->file, s->err);

    if (value >= 1 && value <= SIZE_MOST)
        return (size_t)value;
    error_set(s->err, ERROR_DATA, "%s: %s must be a number from 1 to %d, not %lld",
              s->file, key, SIZE_MOST, (long long)value);
    return 1;
}

static bool is_given(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);

    return value && !json_is_null(value);
}

/* Gemma 4 12B has no experts. */
static void refuse(const struct source *s, const struct architecture *row)
{
    static const char experts[] = "enable_moe_block";

    if (!row->experts.enabled_key &&
        json_get_bool(s->root, experts, false, s->file, s->err))
        error_set(s->err, ERROR_DATA, "%s: %s is not supported in models of type %s",
                  s->file, experts, row->model_type);
}

static void check_sizes(const struct source *s, const struct model_config *c)
{
    if (c->full_head_size % 2 != 0)
        error_set(s->err, ERROR_DATA,
                  "%s: the head size of layers with full attention must be an even "
                  "number, not %zu",
                  s->file, c->full_head_size);
    if (c->full_head_size > HEAD_SIZE_MAX)
        error_set(s->err, ERROR_DATA,
                  "%s: a head size of %zu is not supported, only up to %d", s->file,
                  c->full_head_size, HEAD_SIZE_MAX);
    if (c->heads % c->full_kv_heads != 0)
        error_set(
            s->err, ERROR_DATA,
            "%s: num_attention_heads %zu must be a multiple of the key heads %zu of "
            "layers with full attention",
            s->file, c->heads, c->full_kv_heads);
}

void full_heads_read(const json_t *root, const char *file, struct model_config *out,
                     struct error *err)
{
    const size_t size = out->architecture->full_head_size;
    const struct source s = { root, file, err };
    const json_t *layers = json_object_get(root, "per_layer_config");
    void *first = json_object_iter((json_t *)layers); /* NULL: no object, or empty */
    const json_t *of_first = first ? json_object_iter_value(first) : layers;

    if (size == 0 || err->code)
        return;
    refuse(&s, out->architecture);
    out->shares_values = json_get_bool(root, "attention_k_eq_v", false, file, err);
    out->full_kv_heads = out->kv_heads;
    if (json_is_object(layers)) { /* empty: these layers are like the others */
        const struct source layer = { of_first, file, err };

        out->full_head_size = read_count(&layer, "head_dim", out->head_size);
        out->full_kv_heads = read_count(&layer, "num_key_value_heads", out->kv_heads);
    } else {
        static const char kv_heads[] = "num_global_key_value_heads";

        out->full_head_size = read_count(&s, "global_head_dim", size);
        if (out->shares_values && is_given(root, kv_heads))
            out->full_kv_heads = read_count(&s, kv_heads, 0);
    }
    check_sizes(&s, out);
}

/* Return whether per_layer_config has for a layer what it must have. */
static bool is_consistent(const struct source *layer, const struct model_config *c,
                          size_t index)
{
    const char *key;
    const json_t *value;

    json_object_foreach((json_t *)layer->root, key, value)
    {
        if (strcmp(key, "head_dim") != 0 && strcmp(key, "num_key_value_heads") != 0)
            return false;
    }
    return read_count(layer, "head_dim", c->head_size) ==
               model_config_head_size(c, index) &&
           read_count(layer, "num_key_value_heads", c->kv_heads) ==
               model_config_kv_heads(c, index);
}

void full_heads_check(const json_t *root, const char *file,
                      const struct model_config *config, struct error *err)
{
    const json_t *layers = json_object_get(root, "per_layer_config");
    char index[24];

    if (config->full_head_size == 0 || err->code)
        return;
    if (!config->windowed)
        error_set(err, ERROR_DATA, "%s: sliding_window must be a number above 0", file);
    if (!json_is_object(layers))
        return;
    for (size_t l = 0; l < config->layers; l++) {
        snprintf(index, sizeof(index), "%zu", l);
        const struct source layer = { json_object_get(layers, index), file, err };

        if (!is_consistent(&layer, config, l))
            error_set(err, ERROR_DATA,
                      "%s: per_layer_config must have the same head_dim and "
                      "num_key_value_heads for all layers with full_attention, and "
                      "nothing else; layer %zu differs",
                      file, l);
    }
}
