/* train/model/window_config.c - reads which layers attend to a window of rows. */
#include "config.h"

#include "train/model/window_config.h"

#include <string.h>

#define WINDOW_MAX ((int64_t)1 << 30)

struct source {
    const json_t *root;
    const char *file; /* in errors */
    struct arena *arena;
    struct error *err;
};

/* GPT-Neo: [[["global", "local"], 12]], or attention_layers, which is that list
 * expanded.  By default every second layer is local. */
static bool is_local(const struct source *r, size_t layer)
{
    const json_t *types = json_object_get(r->root, "attention_types");
    const json_t *list = json_object_get(r->root, "attention_layers");
    size_t at = 0, count = json_array_size(types);
    const char *type = NULL;

    if (!json_is_array(list) && !json_is_array(types))
        return layer % 2 == 1;
    if (!json_is_array(types))
        type = json_string_value(json_array_get(list, layer));
    for (size_t i = 0; i < count && !type; i++) {
        const json_t *names = json_array_get(json_array_get(types, i), 0);
        json_int_t times =
            json_integer_value(json_array_get(json_array_get(types, i), 1));
        size_t each = json_array_size(names);

        if (times < 0 || times > MODEL_LAYERS_MAX || each > MODEL_LAYERS_MAX)
            break;
        if (layer < at + each * (size_t)times)
            type = json_string_value(json_array_get(names, (layer - at) % each));
        at += each * (size_t)times;
    }
    if (!type || (strcmp(type, "global") != 0 && strcmp(type, "local") != 0))
        error_set(r->err, ERROR_DATA,
                  "%s: attention_types must say global or local for layer %zu", r->file,
                  layer);
    return type && strcmp(type, "local") == 0;
}

/* Return layer_types, a string for each layer, for models that use it; NULL: not
 * given. */
static const json_t *read_layer_types(const struct source *r,
                                      const struct model_config *config)
{
    enum windows windows = config->architecture->windows;
    const json_t *types = json_object_get(r->root, "layer_types");

    if (windows == WINDOWS_NONE || windows == WINDOWS_ALL || windows == WINDOWS_LOCAL ||
        !types || json_is_null(types))
        return NULL;
    if (json_array_size(types) != config->layers) {
        error_set(r->err, ERROR_DATA,
                  "%s: layer_types must be a list of %zu strings, one for each layer",
                  r->file, config->layers);
        return NULL;
    }
    for (size_t l = 0; l < config->layers; l++) {
        const char *type = json_string_value(json_array_get(types, l));

        if (!type || (strcmp(type, "full_attention") != 0 &&
                      strcmp(type, "sliding_attention") != 0))
            error_set(r->err, ERROR_DATA,
                      "%s: layer_types must say full_attention "
                      "or sliding_attention for layer %zu",
                      r->file, l);
    }
    return types;
}

/* Return whether a layer attends to only `window` rows back.  `types` decides if it is
 * given. */
static bool is_windowed(const struct source *r, const struct model_config *config,
                        const json_t *types, size_t layer)
{
    const struct architecture *row = config->architecture;
    const char *type = json_string_value(json_array_get(types, layer));
    int64_t first, pattern = (int64_t)row->window_pattern;

    if (type)
        return strcmp(type, "sliding_attention") == 0;
    if (row->windows == WINDOWS_ALL || row->windows == WINDOWS_LISTED)
        return true;
    if (row->windows == WINDOWS_LOCAL)
        return is_local(r, layer);
    if (row->windows == WINDOWS_UNROTATED)
        return !config->rotated[layer];
    if (row->windows == WINDOWS_UPPER) {
        first = json_get_int(r->root, "max_window_layers", (int64_t)row->window_first,
                             r->file, r->err);
        return (int64_t)layer >= first;
    }
    pattern = json_get_int(r->root, "sliding_window_pattern", pattern, r->file, r->err);
    return pattern > 0 && ((int64_t)layer + 1) % pattern != 0;
}

/* Return the number of rows that layers with a window attend to; 0: no layer has a
 * window. */
static int64_t read_window_size(const struct source *r, const struct architecture *row)
{
    const char *key = row->keys->window;
    int64_t default_value =
        json_is_null(json_object_get(r->root, key)) ? 0 : (int64_t)row->window;

    if (row->windows == WINDOWS_NONE ||
        ((row->windows == WINDOWS_UPPER || row->windows == WINDOWS_UNROTATED) &&
         !json_get_bool(r->root, "use_sliding_window", false, r->file, r->err)))
        return 0;
    return json_get_int(r->root, key, default_value, r->file, r->err);
}

void window_config_read(const json_t *root, const char *file, struct arena *arena,
                        struct model_config *out, struct error *err)
{
    const struct source from = { root, file, arena, err }, *const r = &from;
    const struct architecture *row = out->architecture;
    const json_t *types = read_layer_types(r, out);
    int64_t window = read_window_size(r, row);
    bool *windowed;

    if (r->err->code)
        return;
    if (window <= 0 || window > WINDOW_MAX) {
        for (size_t l = 0; types && l < out->layers; l++)
            if (is_windowed(r, out, types, l))
                error_set(r->err, ERROR_DATA,
                          "%s: layer_types says sliding_attention for layer %zu, but "
                          "sliding_window is not set",
                          r->file, l);
        return;
    }
    windowed = arena_array(r->arena, out->layers, sizeof(*windowed));
    for (size_t l = 0; l < out->layers; l++)
        windowed[l] = is_windowed(r, out, types, l);
    if (row->full_head_size > 0) /* as transformers does, whatever layer_types says */
        windowed[out->layers - 1] = false;
    out->sliding_window = (size_t)window;
    out->windowed = windowed;
    if (row->unrotated == UNROTATED_FULL)
        out->rotated = windowed;
}
