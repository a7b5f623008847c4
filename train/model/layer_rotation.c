/* train/model/layer_rotation.c - the layers of a model that rotate q and k by
 * position. */
#include "config.h"

#include "train/model/layer_rotation.h"

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

static size_t read_limit(const json_t *root, const char *key, const char *file,
                         struct error *err)
{
    int64_t value = json_get_int(root, key, 8192, file, err);

    if (value >= 2)
        return (size_t)value;
    error_set(err, ERROR_DATA, "%s: %s must be 2 or more, not %lld", file, key,
              (long long)value);
    return 2;
}

/* Return whether attention of a layer is in chunks: layer_types decides if it is given,
 * else layers that rotate q and k attend in chunks. */
static bool has_chunks(const json_t *root, const char *file,
                       const struct model_config *config, struct error *err)
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
        found = found || (given ? chunks : config->rotated[l]);
    }
    return found;
}

/*
 * Return how many positions attention is plain for; 0: any number.  With the first chunk,
 * attention in chunks is that to all previous rows.  Queries of position p are multiplied by
 * 1 + attn_scale * log(1 + floor((p + 1) / floor_scale)).  Source: transformers,
 * models/llama4/modeling_llama4.py.
 */
static size_t read_exact_positions(const json_t *root, const char *file,
                                   const struct model_config *config, struct error *err)
{
    const json_t *chunk = json_object_get(root, "attention_chunk_size");
    size_t limit = 0, rotated = 0;

    for (size_t l = 0; l < config->layers; l++)
        rotated += config->rotated[l];
    if (!json_is_null(chunk) && has_chunks(root, file, config, err))
        limit = read_limit(root, "attention_chunk_size", file, err);
    if (rotated < config->layers && tunes_temperature(root)) {
        size_t unscaled = read_limit(root, "floor_scale", file, err) - 1;

        limit = limit > 0 && limit < unscaled ? limit : unscaled;
    }
    return limit;
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
        out->chunk_positions = read_exact_positions(root, file, out, err);
}
