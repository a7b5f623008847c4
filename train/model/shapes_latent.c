/* train/model/shapes_latent.c - the dimensions of multi-head latent attention. */
#include "config.h"

#include "train/model/shapes.h"

#include "train/model/shapes_internal.h"

void shapes_latent_dims(struct shapes_builder *m)
{
    const struct latent_attention *l = &m->config->latent;
    size_t *d = m->dims;

    d[DIM_O_IN] = d[DIM_Q];
    if (!model_config_is_latent(m->config))
        return;
    d[DIM_Q_RANK] = d[DIM_Q_NORM] = l->q_rank;
    d[DIM_KV_RANK] = d[DIM_K_NORM] = l->kv_rank;
    d[DIM_LATENTS] = l->q_rank + l->kv_rank;
    d[DIM_KV_A] = l->kv_rank + l->rotated;
    d[DIM_HEADS] = l->q_rank > 0;
    d[DIM_K] = 1;
    d[DIM_Q_B] = d[DIM_Q_GATE] = latent_q_columns(m->config);
    d[DIM_KV_B] = latent_kv_columns(m->config);
    d[DIM_EXPANDED] = (l->q_rank > 0 ? d[DIM_Q_B] : 0) + d[DIM_KV_B];
    d[DIM_WHOLE] = shapes_times(m, 3, d[DIM_Q]);
    d[DIM_O_IN] = m->config->heads * l->value;
    d[DIM_QKV] = (l->q_rank > 0 ? l->q_rank : d[DIM_Q_B]) + d[DIM_KV_A];
    d[DIM_GATED] = d[DIM_O_IN] < d[DIM_Q] ? d[DIM_Q] : 0;
}

size_t shapes_latent_widest(struct shapes_builder *m)
{
    const size_t *d = m->dims;
    const size_t all[] = { shapes_times(m, d[DIM_Q_B], d[DIM_Q_RANK]),
                           shapes_times(m, d[DIM_KV_B], d[DIM_KV_RANK]),
                           shapes_times(m, d[DIM_O_IN], d[DIM_C]) };
    size_t widest = all[0];

    for (size_t i = 1; i < 3; i++)
        widest = all[i] > widest ? all[i] : widest;
    return widest;
}
