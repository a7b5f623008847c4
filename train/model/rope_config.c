/* train/model/rope_config.c - the rotation of positions that config.json describes, as
 * transformers 4 and 5 write it. */
#include "config.h"

#include "train/model/rope_config.h"

#include <math.h>

#include "base/json.h"

#define COLUMNS_MAX ((int64_t)1 << 30)

/* What is read, and where errors are from. */
struct reader {
    const json_t *root;
    const char *file;
    struct arena *arena;
    struct error *err;
};

static double read_positive(const struct reader *r, const json_t *object, const char *key,
                            double default_value)
{
    double value = json_get_real(object, key, default_value, r->file, r->err);

    if (value > 0 && value <= 1e30)
        return value;
    error_set(r->err, ERROR_DATA, "%s: %s must be a number above 0", r->file, key);
    return 1;
}

static size_t read_size(const struct reader *r, const char *key, size_t default_value)
{
    int64_t value = json_get_int(r->root, key, (int64_t)default_value, r->file, r->err);

    if (value >= 1 && value <= COLUMNS_MAX)
        return (size_t)value;
    error_set(r->err, ERROR_DATA, "%s: %s must be a number from 1 to %lld", r->file, key,
              (long long)COLUMNS_MAX);
    return 1;
}

/* Return the columns of a head that are rotated: a share of them, rounded as in
 * transformers. */
static size_t read_rotary(const struct reader *r, const struct model_config *config,
                          const json_t *both)
{
    double share = config->architecture->rotary;
    size_t columns = 0;

    if (config->architecture->rotary_size > 0) {
        columns = read_size(r, "rotary_dim", config->architecture->rotary_size);
        if (columns % 2 != 0 || columns > config->head_size)
            error_set(r->err, ERROR_DATA,
                      "%s: rotary_dim must be an even number up to %zu, not %zu", r->file,
                      config->head_size, columns);
        return columns;
    }
    if (share == 0)
        return config->latent.rotated > 0   ? config->latent.rotated
               : config->full_head_size > 0 ? config->full_head_size
                                            : config->head_size;
    if (config->architecture->rotary_dim_divides)
        share = (double)read_size(r, "rotary_dim", config->head_size) /
                (double)config->head_size;
    share = read_positive(r, r->root, "rotary_pct", share);
    share = read_positive(r, r->root, "partial_rotary_factor", share);
    if (json_is_object(both))
        share = read_positive(r, both, "partial_rotary_factor", share);
    if (share <= 1)
        columns = (size_t)((double)config->head_size * share);
    if (columns == 0 || columns % 2 != 0)
        error_set(r->err, ERROR_DATA,
                  "%s: rotary_pct %g of a head of %zu must be an even number of columns",
                  r->file, share, config->head_size);
    return columns;
}

/* Hunyuan: dynamic scaling with an alpha does not depend on the length. */
static void read_rope_alpha(const struct reader *r, const json_t *from,
                            struct model_config *out)
{
    double columns = (double)out->rotary;
    double alpha = json_is_null(json_object_get(from, "alpha"))
                       ? 0
                       : json_get_real(from, "alpha", 0, r->file, r->err);

    if (out->rope.kind != ROPE_DYNAMIC || !(alpha > 0) || out->rotary <= 2)
        return;
    out->rope.kind = ROPE_DEFAULT;
    out->rope.theta *= pow(alpha, columns / (columns - 2));
}

/* Phi-3.5-MoE */
static void read_rope_mscales(const struct reader *r, const json_t *from,
                              struct model_config *out)
{
    if (out->rope.kind == ROPE_DEFAULT)
        return;
    if (out->rope.kind != ROPE_LONGROPE)
        error_set(r->err, ERROR_DATA, "%s: model_type %s requires the rope type longrope",
                  r->file, out->architecture->model_type);
    out->rope.short_scale = read_positive(r, from, "short_mscale", 0);
    out->rope.long_scale = read_positive(r, from, "long_mscale", 0);
}

/* rope_parameters (new) holds theta and type; rope_scaling (old) holds the type, with
 * theta next to it, and wins as in transformers.  If layers with a window differ,
 * rope_parameters has an object for each type of layer, and the old scaling applies to
 * the other layers. */
static void read_rope(const struct reader *r, struct model_config *out)
{
    const struct architecture *row = out->architecture;
    const json_t *both = json_object_get(r->root, "rope_parameters");
    const json_t *full = json_object_get(both, "full_attention");
    const json_t *local = json_object_get(both, "sliding_attention");
    const json_t *scaling = json_object_get(r->root, "rope_scaling");
    double theta = row->theta > 0 ? row->theta : 10000;
    struct rope_source source = { .file = r->file,
                                  .max_positions = (double)out->max_positions,
                                  .arena = r->arena,
                                  .err = r->err };

    if (row->paths[MODULE_POSITIONS] || row->alibi > 0)
        return;
    if (full || local)
        both = full;
    out->rotary = source.columns = read_rotary(r, out, both);
    out->rotary_local = out->full_head_size > 0 ? out->head_size : out->rotary;
    theta = read_positive(r, r->root, "rotary_emb_base", theta);
    out->rope.theta = read_positive(r, r->root, "rope_theta", theta);
    if (json_is_object(both))
        out->rope.theta = read_positive(r, both, "rope_theta", out->rope.theta);
    source.original_max_positions =
        json_get_real(r->root, "original_max_position_embeddings",
                      (double)row->original_positions, r->file, r->err);
    if (row->needs_rope_type && !both && !scaling)
        error_set(r->err, ERROR_DATA, "%s: rope_parameters is missing", r->file);
    scaling = json_object_size(scaling) > 0 ? scaling : both;
    rope_read(&source, scaling, &out->rope);
    if (row->proportional > 0 && !json_is_object(scaling)) {
        out->rope.kind = ROPE_PROPORTIONAL;
        out->rope.factor = 1;
        out->rope.turning = (size_t)(row->proportional * (double)source.columns / 2);
    }
    if (row->rope_alpha)
        read_rope_alpha(r, scaling, out);
    if (row->rope_mscales)
        read_rope_mscales(r, scaling, out);
    out->has_local = row->local_theta > 0 || (local && row->windows != WINDOWS_NONE);
    if (!out->has_local)
        return;
    theta = row->local_theta > 0 ? row->local_theta : out->rope.theta;
    theta = read_positive(r, r->root, "rope_local_base_freq", theta);
    out->rope_local.theta = theta;
    if (json_is_object(local))
        out->rope_local.theta = read_positive(r, local, "rope_theta", theta);
    source.columns = out->rotary_local;
    rope_read(&source, local, &out->rope_local);
}

void rope_config_read(const json_t *root, const char *file, struct arena *arena,
                      struct model_config *out, struct error *err)
{
    const struct reader r = { root, file, arena, err };
    const json_t *scaling = json_object_get(root, "rope_scaling");

    read_rope(&r, out);
    if (json_object_size(scaling) == 0)
        scaling = json_object_get(root, "rope_parameters");
    rope_axes_read(out->multimodal ? out->multimodal->model_type : NULL, scaling,
                   out->rotary, file, &out->media.axes, err);
}
