/* train/model/layer_rotation.c - the layers of a model that rotate q and k by
 * position. */
#include "config.h"

#include "train/model/layer_rotation.h"

#include <stdint.h>
#include <string.h>

#include "base/json.h"

/* Return no_rope_layers, which has a number for each layer; NULL: not given. */
static const json_t *listed_layers(const json_t *root, const char *file, size_t layers,
                                   struct error *err)
{
    const json_t *list = json_object_get(root, "no_rope_layers");
    bool ok = json_array_size(list) >= layers;

    if (!list || json_is_null(list) ||
        (json_is_array(list) && json_array_size(list) == 0))
        return NULL;
    for (size_t l = 0; ok && l < layers; l++)
        ok = json_is_integer(json_array_get(list, l));
    if (ok)
        return list;
    error_set(err, ERROR_DATA,
              "%s: no_rope_layers must be a list of %zu numbers, one for each layer",
              file, layers);
    return NULL;
}

/* Published files have true, or 4. */
static bool tunes_temperature(const json_t *root)
{
    const json_t *given = json_object_get(root, "attn_temperature_tuning");

    return !given || json_is_true(given) || json_number_value(given) != 0;
}

static size_t read_size(const json_t *root, const char *key, size_t least,
                        const char *file, struct error *err)
{
    int64_t value = json_get_int(root, key, 8192, file, err);

    if (value >= (int64_t)least && value <= INT32_MAX)
        return (size_t)value;
    error_set(err, ERROR_DATA, "%s: %s must be a number from %zu to %d, not %lld", file,
              key, least, INT32_MAX, (long long)value);
    return least;
}

/* Find the layers that attend in chunks: layer_types decides if it is given, else those
 * that rotate q and k do. */
static bool find_chunked(const json_t *root, const char *file,
                         const struct model_config *config, bool *chunked,
                         struct error *err)
{
    const json_t *types = json_object_get(root, "layer_types");
    bool given = types && !json_is_null(types), found = false;

    for (size_t l = 0; l < config->layers; l++) {
        const char *type = json_string_value(json_array_get(types, l));
        bool chunks = type && strcmp(type, "chunked_attention") == 0;

        if (given && !chunks && (!type || strcmp(type, "full_attention") != 0))
            error_set(err, ERROR_DATA,
                      "%s: layer_types must say full_attention or chunked_attention for "
                      "layer %zu",
                      file, l);
        chunked[l] = given ? chunks : config->rotated[l];
        found = found || chunked[l];
    }
    return found;
}

/* transformers, models/llama4/modeling_llama4.py */
static void read_chunks(const json_t *root, const char *file, struct arena *arena,
                        struct model_config *out, struct error *err)
{
    bool *chunked = arena_array(arena, out->layers, sizeof(*chunked));
    size_t rotated = 0;

    for (size_t l = 0; l < out->layers; l++)
        rotated += out->rotated[l];
    if (!json_is_null(json_object_get(root, "attention_chunk_size")) &&
        find_chunked(root, file, out, chunked, err)) {
        out->attention_chunk = read_size(root, "attention_chunk_size", 1, file, err);
        out->chunked = chunked;
    }
    if (rotated == out->layers || !tunes_temperature(root))
        return;
    out->query_scaling = (struct query_scaling) {
        .beta = json_get_real(root, "attn_scale", 0.1, file, err),
        .interval = (double)read_size(root, "floor_scale", 1, file, err),
        .ahead = 1,
        .unrotated = true,
    };
}

void layer_rotation_read(const json_t *root, const char *file, struct arena *arena,
                         struct model_config *out, struct error *err)
{
    const struct architecture *row = out->architecture;
    const json_t *list;
    int64_t interval;
    bool *rotated;

    if (row->unrotated != UNROTATED_LISTED || err->code)
        return;
    rotated = arena_array(arena, out->layers, sizeof(*rotated));
    list = listed_layers(root, file, out->layers, err);
    interval = json_get_int(root, "no_rope_layer_interval",
                            (int64_t)row->unrotated_interval, file, err);
    if (interval < 1)
        error_set(err, ERROR_DATA, "%s: no_rope_layer_interval must be 1 or more", file);
    for (size_t l = 0; l < out->layers && !err->code; l++)
        rotated[l] = list ? json_integer_value(json_array_get(list, l)) != 0
                          : (int64_t)(l + 1) % interval != 0;
    out->rotated = rotated;
    if (row->chunks)
        read_chunks(root, file, arena, out, err);
}
