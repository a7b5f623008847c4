/* train/model/architecture_fit.c - fits the row of an architecture to a config.json. */
#include "config.h"

#include "train/model/architecture_fit.h"

#include "base/json.h"
#include "base/size.h"
#include "train/model/layer_inputs.h"

#define BLOCKS_MAX 4096

/* Return a number of blocks. */
static size_t read_blocks(const json_t *root, const char *key, int64_t default_value,
                          const char *file, struct error *err)
{
    int64_t value = json_get_int(root, key, default_value, file, err);

    if (value >= 0 && value <= BLOCKS_MAX)
        return (size_t)value;
    error_set(err, ERROR_DATA, "%s: %s must be a number from 0 to %d, not %lld", file,
              key, BLOCKS_MAX, (long long)value);
    return 0;
}

/* transformers 5 writes the newer of the two names as an attribute only. */
static size_t read_predictors(const json_t *root, const char *file, struct error *err)
{
    static const char new_key[] = "num_mtp_layers",
                      old_key[] = "num_nextn_predict_layers";

    return read_blocks(root, json_object_get(root, old_key) ? old_key : new_key, 1, file,
                       err);
}

/* LFM2's first files have the size of MLPs under another name, which has precedence. */
static const struct config_keys *rename_size(const struct config_keys *keys,
                                             struct arena *arena)
{
    struct config_keys *out = arena_alloc(arena, sizeof(*out));

    *out = *keys;
    out->intermediate_size = "block_ff_dim";
    return out;
}

/* Without experts, the MLP next to them is that of the blocks. */
static void drop_experts(struct architecture *out, struct arena *arena)
{
    struct config_keys *keys = arena_alloc(arena, sizeof(*keys));

    *keys = *out->keys;
    keys->intermediate_size = out->experts.shared_size_key;
    out->keys = keys;
    out->paths[MODULE_GATE_UP] = out->paths[MODULE_SHARED_GATE_UP];
    out->paths[MODULE_DOWN] = out->paths[MODULE_SHARED_DOWN];
    for (enum module i = 0; i < MODULES; i++)
        if (module_is_sparse(i))
            out->paths[i] = NULL;
    out->experts = (struct expert_columns) { 0 };
}

static void drop_layer_inputs(struct architecture *out)
{
    static const enum module modules[] = { MODULE_INPUT_GATE,   MODULE_INPUT_OUT,
                                           MODULE_POST3,        MODULE_LAYER_EMBED,
                                           MODULE_LAYER_INPUTS, MODULE_LAYER_NORM };

    for (size_t i = 0; i < TS_COUNT(modules); i++)
        out->paths[modules[i]] = NULL;
}

const struct architecture *architecture_fit(const struct architecture *row,
                                            const json_t *root, const char *file,
                                            struct arena *arena, struct error *err)
{
    struct architecture *out;

    if (!row->qk_norms_key && !row->keeps_blocks && row->latent.kv_rank == 0 &&
        !row->bare_qk_norms && !row->adjusts_mlp && !row->experts.correction_key &&
        !row->experts.none_is_dense && row->layer_inputs == 0)
        return row;
    out = arena_alloc(arena, sizeof(*out));
    *out = *row;
    if (row->qk_norms_key && !json_get_bool(root, row->qk_norms_key, false, file, err))
        out->paths[MODULE_Q_NORM] = out->paths[MODULE_K_NORM] = NULL;
    if (row->experts.correction_key &&
        !json_get_flag(root, row->experts.correction_key, true, file, err))
        out->paths[MODULE_ROUTER_BIAS] = NULL;
    if (row->adjusts_mlp && json_object_get(root, "block_ff_dim"))
        out->keys = rename_size(row->keys, arena);
    if (row->experts.none_is_dense &&
        json_get_int(root, row->experts.count_key, (int64_t)row->experts.count, file,
                     err) == 0)
        drop_experts(out, arena);
    if (row->layer_inputs > 0 && layer_inputs_size(row, root, file, err) == 0)
        drop_layer_inputs(out);
    if (row->interleave_key)
        out->rotary_interleaved =
            json_get_flag(root, row->interleave_key, row->rotary_interleaved, file, err);
    if (row->latent.kv_rank > 0 && json_is_null(json_object_get(root, "q_lora_rank")))
        out->paths[MODULE_Q_A] = out->paths[MODULE_Q_NORM] = out->paths[MODULE_Q_B] =
            NULL;
    else if (row->latent.kv_rank > 0)
        out->paths[MODULE_Q] = NULL;
    if (row->bare_qk_norms)
        out->bare_qk_norms = json_get_flag(root, "use_qk_norm", true, file, err);
    if (row->keeps_blocks) {
        out->kept_first = read_blocks(root, row->keys->layers, 0, file, err);
        out->kept_end = out->kept_first + read_predictors(root, file, err);
    }
    return out;
}
