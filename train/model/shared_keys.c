/* train/model/shared_keys.c - layers that attend to the keys and values of an earlier layer. */
#include "config.h"

#include "train/model/shared_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char count_key[] = "num_kv_shared_layers";

static bool is_windowed(const struct model_config *c, size_t layer)
{
    return c->windowed && c->windowed[layer];
}

/* Return the last layer below `end` that has a window as `layer` has; SIZE_MAX: none. */
static size_t last_like(const struct model_config *c, size_t layer, size_t end)
{
    while (end-- > 0)
        if (is_windowed(c, end) == is_windowed(c, layer))
            return end;
    return SIZE_MAX;
}

/* transformers also rejects layers without others that have their keys. */
static void check_sources(const struct model_config *c, const char *file,
                          struct error *err)
{
    const size_t first = c->layers - c->sharing_layers;

    for (size_t l = first; l < c->layers; l++)
        if (last_like(c, l, first) == SIZE_MAX) {
            error_set(err, ERROR_DATA,
                      "%s: %s: layer %zu has %s, but none of the first %zu layers, whose "
                      "keys and values it would use, has",
                      file, count_key, l, is_windowed(c, l) ? "a window" : "no window",
                      first);
            return;
        }
}

void shared_keys_read(const json_t *root, const char *file, struct model_config *out,
                      struct error *err)
{
    int64_t count;

    if (err->code)
        return;
    count = json_get_int(root, count_key, 0, file, err);
    if (!out->architecture->shares_keys) {
        if (out->architecture->full_head_size > 0 && count != 0)
            error_set(err, ERROR_DATA, "%s: %s is not supported in models of type %s",
                      file, count_key, out->architecture->model_type);
        return;
    }
    if (count < 0 || (uint64_t)count >= out->layers) {
        error_set(
            err, ERROR_DATA,
            "%s: %s must be a number from 0 to %zu, below num_hidden_layers, not %lld",
            file, count_key, out->layers - 1, (long long)count);
        return;
    }
    out->sharing_layers = (size_t)count;
    out->wide_sharing = json_get_bool(root, "use_double_wide_mlp", false, file, err);
    if (out->wide_sharing && out->experts > 0 && count > 0)
        error_set(err, ERROR_DATA,
                  "%s: use_double_wide_mlp is not supported with experts", file);
    check_sources(out, file, err);
}

size_t shared_keys_layer(const struct model_config *config, size_t layer)
{
    return model_config_shares_keys(config, layer)
               ? last_like(config, layer, config->layers - config->sharing_layers)
               : layer;
}

bool shared_keys_are_shared(const struct model_config *config, size_t layer)
{
    for (size_t l = config->layers - config->sharing_layers; l < config->layers; l++)
        if (shared_keys_layer(config, l) == layer)
            return !model_config_shares_keys(config, layer);
    return false;
}

bool shared_keys_is_last(const struct model_config *config, size_t layer)
{
    for (size_t l = layer + 1; l < config->layers; l++)
        if (shared_keys_layer(config, l) == shared_keys_layer(config, layer))
            return false;
    return true;
}

bool shared_keys_ignores(const struct model_config *config, const char *blocks,
                         const char *name)
{
    static const enum module modules[] = { MODULE_K, MODULE_V, MODULE_K_NORM };
    unsigned long long layer;
    char *rest;

    if (config->sharing_layers == 0 || !text_starts(name, blocks) ||
        name[strlen(blocks)] < '0' || name[strlen(blocks)] > '9')
        return false;
    layer = strtoull(name + strlen(blocks), &rest, 10);
    if (*rest != '.' || layer >= config->layers ||
        !model_config_shares_keys(config, (size_t)layer))
        return false;
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
        const char *path = config->architecture->paths[modules[i]];

        if (path && text_starts(rest + 1, path) && rest[1 + strlen(path)] == '.')
            return true;
    }
    return false;
}
