/* train/model/config_refusals.c - rejects settings of config.json that change the arithmetic of a
 * model and are not supported. */
#include "config.h"

#include "train/model/config_refusals.h"

#include <string.h>

#include "base/size.h"

static bool is_text(const json_t *root, const char *key, const char *value)
{
    const char *given = json_string_value(json_object_get(root, key));

    return given && strcmp(given, value) == 0;
}

void config_refuse(const json_t *root, const char *file, const struct architecture *row,
                   struct error *err)
{
    static const char *const off[] = { "add_cross_attention",
                                       "use_bidirectional_attention",
                                       "_remove_final_layer_norm", "alibi",
                                       "apply_residual_connection_post_layernorm" };
    /* norms of q and k, unless the architecture always has them */
    static const char *const norms[] = { "qk_layernorm", "use_qk_norm" };
    static const char *const on[] = { "do_layer_norm_before",
                                      "layer_norm_elementwise_affine" };
    const json_t *width = json_object_get(root, "word_embed_proj_dim");
    const json_t *hidden = json_object_get(root, row->keys->hidden_size);
    const bool has_norms = row->paths[MODULE_Q_NORM] || row->bare_qk_norms;

    for (size_t i = 0; i < TS_COUNT(off); i++)
        if (json_is_true(json_object_get(root, off[i])))
            error_set(err, ERROR_DATA, "%s: %s is not supported", file, off[i]);
    if (is_text(root, "use_bidirectional_attention", "all"))
        error_set(err, ERROR_DATA,
                  "%s: use_bidirectional_attention: all is not supported", file);
    for (size_t i = 0; i < TS_COUNT(norms) && !has_norms; i++)
        if (json_is_true(json_object_get(root, norms[i])))
            error_set(err, ERROR_DATA, "%s: %s is not supported", file, norms[i]);
    for (size_t i = 0; i < TS_COUNT(on); i++)
        if (json_is_false(json_object_get(root, on[i])))
            error_set(err, ERROR_DATA, "%s: %s: false is not supported", file, on[i]);
    if (!row->clips_qkv && json_is_number(json_object_get(root, "clip_qkv")))
        error_set(err, ERROR_DATA, "%s: clip_qkv is not supported", file);
    if (json_is_integer(width) && json_integer_value(width) != json_integer_value(hidden))
        error_set(err, ERROR_DATA,
                  "%s: word_embed_proj_dim must be %s; embeddings of another width are "
                  "not supported",
                  file, row->keys->hidden_size);
    for (size_t i = 0; i < ZERO_KEYS && row->zero_keys[i]; i++)
        if (json_number_value(json_object_get(root, row->zero_keys[i])) > 0)
            error_set(err, ERROR_DATA, "%s: %s is not supported; set it to 0", file,
                      row->zero_keys[i]);
}
