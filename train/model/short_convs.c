/* train/model/short_convs.c - the layers of a model that have short convolutions, and the
 * sizes of LFM2.  Source: transformers/models/lfm2/configuration_lfm2.py and
 * modeling_lfm2.py. */
#include "config.h"

#include "train/model/short_convs.h"

#include <string.h>

#include "base/json.h"
#include "base/size.h"

#define SIZE_MOST (1 << 30)

/* What is read, and where errors are from. */
struct source {
    const json_t *root;
    const char *file;
    struct error *err;
};

static bool is_given(const struct source *s, const char *key)
{
    const json_t *value = json_object_get(s->root, key);

    return value && !json_is_null(value);
}

static size_t read_count(const struct source *s, const char *key, size_t default_value,
                         size_t least, size_t most)
{
    int64_t value = json_get_int(s->root, key, (int64_t)default_value, s->file, s->err);

    if (value >= (int64_t)least && (uint64_t)value <= most)
        return (size_t)value;
    error_set(s->err, ERROR_DATA, "%s: %s must be a number from %zu to %zu, not %lld",
              s->file, key, least, most, (long long)value);
    return least;
}

/* layer_types, a string for each layer. */
static void read_types(const struct source *s, size_t layers, bool *convs)
{
    const json_t *types = json_object_get(s->root, "layer_types");
    bool ok = json_array_size(types) == layers;

    for (size_t l = 0; ok && l < layers; l++) {
        const char *type = json_string_value(json_array_get(types, l));

        convs[l] = type && strcmp(type, "conv") == 0;
        ok = convs[l] || (type && strcmp(type, "full_attention") == 0);
    }
    if (!ok)
        error_set(s->err, ERROR_DATA,
                  "%s: layer_types must be a list of %zu strings, conv or full_attention "
                  "for each layer",
                  s->file, layers);
}

/* full_attn_idxs, the layers that have attention; by default all have.  A layer that the
 * model does not have means nothing, as in transformers. */
static void read_indices(const struct source *s, size_t layers, bool *convs)
{
    const json_t *list = json_object_get(s->root, "full_attn_idxs");
    bool ok = json_is_array(list);

    if (!is_given(s, "full_attn_idxs"))
        return;
    for (size_t l = 0; l < layers; l++)
        convs[l] = true;
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        const json_t *layer = json_array_get(list, i);

        ok = json_is_integer(layer);
        if (ok && json_integer_value(layer) >= 0 &&
            (uint64_t)json_integer_value(layer) < layers)
            convs[json_integer_value(layer)] = false;
    }
    if (!ok)
        error_set(s->err, ERROR_DATA,
                  "%s: full_attn_idxs must be a list of numbers of layers", s->file);
}

/* Lfm2MLP.  A factor of null also means that the size is not rounded. */
static size_t adjusted(const struct source *s, size_t size)
{
    static const char key[] = "block_ffn_dim_multiplier";
    const json_t *given = json_object_get(s->root, key);
    size_t unit = read_count(s, "block_multiple_of", 256, 1, SIZE_MOST);
    double factor;

    if (!json_get_flag(s->root, "block_auto_adjust_ff_dim", true, s->file, s->err))
        return size;
    size = 2 * size / 3;
    if (size == 0 || json_is_null(given))
        return size + (size == 0);
    factor = json_get_real(s->root, key, 1, s->file, s->err);
    if (factor * (double)size >= 1 && factor < 1e4)
        return size_divide_up((size_t)(factor * (double)size), unit) * unit;
    error_set(s->err, ERROR_DATA, "%s: %s must be a number above 0, not %g", s->file, key,
              factor);
    return size;
}

void short_convs_read(const json_t *root, const char *file, struct arena *arena,
                      struct model_config *out, struct error *err)
{
    const struct source s = { root, file, err };
    bool *convs;

    if (err->code)
        return;
    out->delta = (struct linear_attention) {
        .taps = read_count(&s, "conv_L_cache", 3, 2, CONV_TAPS_MAX),
        .bias = json_get_bool(root, "conv_bias", false, file, err),
    };
    convs = arena_array(arena, out->layers, sizeof(*convs));
    if (is_given(&s, "layer_types") || !out->architecture->adjusts_mlp)
        read_types(&s, out->layers, convs);
    else
        read_indices(&s, out->layers, convs);
    if (out->architecture->adjusts_mlp)
        out->intermediate_size = adjusted(&s, out->intermediate_size);
    out->tied = json_get_bool(root, "tie_embedding", out->tied, file, err);
    out->linear = convs;
}
