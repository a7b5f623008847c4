/* train/model/latent_config.c - the sizes of multi-head latent attention in config.json. */
#include "config.h"

#include "train/model/latent_config.h"

#include <math.h>

#include "base/json.h"

enum { COLUMNS_MOST = 1 << 16 };

/* What is read, and where errors are from. */
struct source {
    const json_t *root;
    const char *file;
    struct error *err;
};

static size_t read_columns(const struct source *s, const char *key, size_t default_value,
                           int64_t least)
{
    int64_t value = json_get_int(s->root, key, (int64_t)default_value, s->file, s->err);

    if (value >= least && value <= COLUMNS_MOST)
        return (size_t)value;
    error_set(s->err, ERROR_DATA, "%s: %s must be a number from %lld to %d, not %lld",
              s->file, key, (long long)least, COLUMNS_MOST, (long long)value);
    return (size_t)least + 1;
}

static void check(const struct source *s, const struct model_config *c)
{
    const struct latent_attention *l = &c->latent;
    const json_t *share = json_object_get(s->root, "partial_rotary_factor");

    if (c->kv_heads != c->heads)
        error_set(s->err, ERROR_DATA,
                  "%s: %s %zu must be %s %zu: all heads share one latent", s->file,
                  c->architecture->keys->kv_heads, c->kv_heads,
                  c->architecture->keys->heads, c->heads);
    if (l->rotated % 2 != 0)
        error_set(s->err, ERROR_DATA, "%s: qk_rope_head_dim must be even, not %zu",
                  s->file, l->rotated);
    if (json_is_number(share) && json_number_value(share) != 1)
        error_set(s->err, ERROR_DATA,
                  "%s: partial_rotary_factor must be 1: qk_rope_head_dim says which part "
                  "of a head turns",
                  s->file);
    if (c->head_size > HEAD_SIZE_MAX)
        error_set(s->err, ERROR_DATA,
                  "%s: a head size of %zu is not supported, only up to %d; it is "
                  "qk_nope_head_dim + qk_rope_head_dim, or v_head_dim",
                  s->file, c->head_size, HEAD_SIZE_MAX);
}

/* Attention reads heads of one size: values, or keys, that are narrower get zeros. */
bool latent_config_read(const json_t *root, const char *file, struct model_config *out,
                        struct error *err)
{
    const struct latent_columns *row = &out->architecture->latent;
    const struct source s = { root, file, err };
    struct latent_attention *l = &out->latent;
    size_t keys;

    if (row->kv_rank == 0)
        return false;
    *l = (struct latent_attention) {
        .kv_rank = read_columns(&s, "kv_lora_rank", row->kv_rank, 1),
        .plain = read_columns(&s, "qk_nope_head_dim", row->plain, 0),
        .rotated = read_columns(&s, "qk_rope_head_dim", row->rotated, 2),
        .value = read_columns(&s, "v_head_dim", row->value, 1),
    };
    if (out->architecture->paths[MODULE_Q_A])
        l->q_rank = read_columns(&s, "q_lora_rank", row->q_rank, 1);
    keys = l->plain + l->rotated;
    out->head_size = keys > l->value ? keys : l->value;
    out->head_size += out->head_size % 2;
    check(&s, out);
    return true;
}

/* transformers: yarn_apply_mscale in modeling_deepseek_v3.py; yarn_get_mscale: Peng et al.,
 * "YaRN", 2023, equation 22 */
void latent_config_scale(const json_t *root, const char *file, struct model_config *out,
                         struct error *err)
{
    const json_t *from = json_object_get(root, "rope_scaling");
    double scale;

    if (!model_config_is_latent(out))
        return;
    out->score_scale = 1 / sqrt((double)(out->latent.plain + out->latent.rotated));
    if (json_object_size(from) == 0)
        from = json_object_get(root, "rope_parameters");
    if (out->rope.kind == ROPE_DEFAULT || !json_object_get(from, "mscale_all_dim"))
        return;
    scale = json_get_real(from, "mscale_all_dim", 0, file, err);
    if (scale == 0 || out->rope.factor <= 1)
        return;
    scale = 0.1 * scale * log(out->rope.factor) + 1;
    out->score_scale *= scale * scale;
}
