/* train/model/linear_layers.c - the layers of a model that have linear attention, and its
 * sizes. */
#include "config.h"

#include "train/model/linear_layers.h"

#include <string.h>

#include "base/json.h"
#include "train/model/short_convs.h"

enum { SIZE_MOST = 1 << 20 };

/* What is read, and where errors are from. */
struct source {
    const json_t *root;
    const char *file;
    struct error *err;
};

static size_t read_count(const struct source *s, const char *key, size_t default_value,
                         size_t most)
{
    int64_t value = json_get_int(s->root, key, (int64_t)default_value, s->file, s->err);

    if (value >= 1 && (uint64_t)value <= most)
        return (size_t)value;
    error_set(s->err, ERROR_DATA, "%s: %s must be a number from 1 to %zu, not %lld",
              s->file, key, most, (long long)value);
    return 1;
}

/* Defaults: transformers/models/qwen3_5/configuration_qwen3_5.py. */
static void read_sizes(const struct source *s, struct linear_attention *out)
{
    *out = (struct linear_attention) {
        .heads = read_count(s, "linear_num_value_heads", 32, SIZE_MOST),
        .key_heads = read_count(s, "linear_num_key_heads", 16, SIZE_MOST),
        .key_size = read_count(s, "linear_key_head_dim", 128, DELTA_SIZE_MAX),
        .value_size = read_count(s, "linear_value_head_dim", 128, DELTA_SIZE_MAX),
        .taps = read_count(s, "linear_conv_kernel_dim", 4, CONV_TAPS_MAX),
    };
    if (out->taps < 2)
        error_set(s->err, ERROR_DATA, "%s: linear_conv_kernel_dim must be 2 or more",
                  s->file);
    if (out->heads % out->key_heads != 0)
        error_set(s->err, ERROR_DATA,
                  "%s: linear_num_value_heads %zu must be a multiple of "
                  "linear_num_key_heads %zu",
                  s->file, out->heads, out->key_heads);
}

/* Return layer_types, a string for each layer; NULL: not given. */
static const json_t *read_types(const struct source *s, size_t layers)
{
    const json_t *types = json_object_get(s->root, "layer_types");
    bool ok = json_array_size(types) == layers;

    if (!types || json_is_null(types))
        return NULL;
    for (size_t l = 0; ok && l < layers; l++) {
        const char *type = json_string_value(json_array_get(types, l));

        ok = type && (strcmp(type, "linear_attention") == 0 ||
                      strcmp(type, "full_attention") == 0);
    }
    if (ok)
        return types;
    error_set(s->err, ERROR_DATA,
              "%s: layer_types must be a list of %zu strings, linear_attention or "
              "full_attention for each layer",
              s->file, layers);
    return NULL;
}

void linear_layers_read(const json_t *root, const char *file, struct arena *arena,
                        struct model_config *out, struct error *err)
{
    const struct source s = { root, file, err };
    size_t interval = out->architecture->linear_interval;
    const json_t *types;
    bool *linear;

    if (out->architecture->short_convs)
        short_convs_read(root, file, arena, out, err);
    if (interval == 0 || err->code)
        return;
    if (out->activation != ACTIVATION_SILU)
        error_set(err, ERROR_DATA, "%s: %s must be silu", file,
                  out->architecture->keys->activation);
    read_sizes(&s, &out->delta);
    interval = read_count(&s, "full_attention_interval", interval, SIZE_MOST);
    types = read_types(&s, out->layers);
    linear = arena_array(arena, out->layers, sizeof(*linear));
    for (size_t l = 0; l < out->layers && !err->code; l++)
        linear[l] = types ? strcmp(json_string_value(json_array_get(types, l)),
                                   "linear_attention") == 0
                          : (l + 1) % interval != 0;
    out->linear = linear;
}
