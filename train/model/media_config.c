/* train/model/media_config.c - what a text model does at the rows of images and sounds. */
#include "config.h"

#include "train/model/media_config.h"

#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "train/media/features.h"

/* Sources: transformers/models/NAME/modeling_NAME.py. */
static const struct family {
    const char *model_type;
    bool blocks;
    bool blocks_key; /* unless use_bidirectional_attention of the text model is null */
    size_t deep;     /* rows of DeepStack that its class has by default */
} families[] = {
    { .model_type = "gemma3", .blocks = true },
    { .model_type = "gemma4_unified", .blocks = true, .blocks_key = true },
    { .model_type = "qwen3_vl", .deep = 3 },
    { .model_type = "qwen3_vl_moe", .deep = 3 },
};

static size_t read_deep(const json_t *root, size_t default_value, const char *file,
                        struct error *err)
{
    const json_t *layers = json_object_get(json_object_get(root, "vision_config"),
                                           "deepstack_visual_indexes");
    const size_t count = layers ? json_array_size(layers) : default_value;

    if (count > FEATURE_DEEP_MAX)
        error_set(err, ERROR_DATA,
                  "%s: deepstack_visual_indexes must have at most %d layers, not %zu",
                  file, FEATURE_DEEP_MAX, count);
    return count;
}

void media_config_read(const char *model_type, const json_t *root, const char *file,
                       struct media_config *out, struct error *err)
{
    const json_t *vision = json_object_get(root, "vision_config");

    *out = (struct media_config) { .merge = (size_t)json_get_int(
                                       vision, "spatial_merge_size", 2, file, err) };
    for (size_t i = 0; i < TS_COUNT(families); i++) {
        if (strcmp(families[i].model_type, model_type) != 0)
            continue;
        out->blocks = families[i].blocks &&
                      !(families[i].blocks_key &&
                        json_is_null(json_object_get(json_object_get(root, "text_config"),
                                                     "use_bidirectional_attention")));
        if (families[i].deep > 0)
            out->deep = read_deep(root, families[i].deep, file, err);
    }
}
