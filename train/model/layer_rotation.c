/* train/model/layer_rotation.c - the layers of a model that rotate q and k by
 * position. */
#include "config.h"

#include "train/model/layer_rotation.h"

#include "base/json.h"

/* Return no_rope_layers, which has a number for each layer; NULL: not given. */
static const json_t *listed_layers(const json_t *root, const char *file, size_t layers,
                                   struct error *err)
{
    const json_t *list = json_object_get(root, "no_rope_layers");
    bool ok = json_array_size(list) >= layers;

    if (!list || json_is_null(list))
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
}
