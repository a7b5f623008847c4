/* train/model/shapes_dims.c - the dimensions of a model's layers. */
#include "config.h"

#include "train/model/shapes.h"

#include "train/model/shapes_internal.h"
#include "train/model/shared_keys.h"

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t shapes_gate_up_columns(const struct model_config *c, size_t size)
{
    return (architecture_is_gated(c->architecture) ? 2 : 1) * size;
}

static void dims_experts(struct shapes_builder *m, const struct model_config *c)
{
    const char *const *has = c->architecture->paths;
    size_t *d = m->dims, factors = has[MODULE_SHARED_ROUTER] && c->shared_size > 0;

    d[DIM_MLP] = model_config_mlp_size(c);
    d[DIM_SHARED_I] = c->shared_size;
    d[DIM_SHARED_GATE_UP] = shapes_gate_up_columns(c, c->shared_size);
    d[DIM_ROUTER_ROW] = 1;
    if (c->experts == 0)
        return;
    d[DIM_EXPERTS] = c->experts;
    d[DIM_EXPERT_STARTS] = c->experts + 1;
    d[DIM_EXPERT_I] = c->expert_size;
    d[DIM_CHOSEN] = c->chosen_experts;
    d[DIM_CHOSEN_C] = shapes_times(m, c->chosen_experts, c->hidden_size);
    d[DIM_CHOSEN_I] = shapes_times(m, c->chosen_experts, c->expert_size);
    d[DIM_CHOSEN_GATE_UP] = shapes_gate_up_columns(c, d[DIM_CHOSEN_I]);
    d[DIM_BRANCH] = has[MODULE_EXPERT_POST] ? c->hidden_size : 0;
    d[DIM_BRANCH_STATS] = has[MODULE_EXPERT_POST] != NULL;
    d[DIM_SCALED] = has[MODULE_EXPERT_SCALE] ? c->chosen_experts : 0;
    d[DIM_SHARED_C] = factors ? c->hidden_size : 0;
    d[DIM_SHARED] = factors;
    d[DIM_SHARED_2] = factors * 2;
    d[DIM_SHARED_4] = factors * 4;
}

/* Return the most columns of q, with a gate if there is one, k and v of a layer. */
static size_t most_of_qkv(const struct shapes_builder *m, const struct model_config *c)
{
    size_t most = m->dims[DIM_Q_GATE] + 2 * m->dims[DIM_KV], q, kv;

    if (c->full_head_size == 0)
        return most;
    most = 0;
    for (size_t l = 0; l < c->layers; l++) {
        q = model_config_queries(c, l);
        kv = model_config_keys(c, l);
        most = max(most, q + 2 * kv);
    }
    return most;
}

/* Of layers with short convolutions. */
static void dims_convs(struct shapes_builder *m, const struct model_config *c)
{
    size_t *d = m->dims;

    d[DIM_CONV] = d[DIM_VALUES] = c->hidden_size;
    d[DIM_TAPS] = c->delta.taps;
    d[DIM_IN_QKV] = shapes_times(m, 3, c->hidden_size);
    d[DIM_QKV] = max(d[DIM_QKV], d[DIM_IN_QKV]);
    d[DIM_ATT] = max(d[DIM_Q], c->hidden_size);
}

/* Of layers with state space models. */
static void dims_scans(struct shapes_builder *m, const struct model_config *c)
{
    const struct state_space *ssm = &c->ssm;
    size_t *d = m->dims, attention = d[DIM_QKV];

    d[DIM_SCAN_IN] = state_space_columns(ssm);
    d[DIM_QKV] = c->linear ? max(attention, d[DIM_SCAN_IN]) : attention + d[DIM_SCAN_IN];
    d[DIM_CONV] = d[DIM_FILTERED] = state_space_mixed(ssm);
    d[DIM_TAPS] = ssm->taps;
    d[DIM_VALUE_HEADS] = ssm->heads;
    d[DIM_VALUE] = d[DIM_VALUES] = d[DIM_SCANNED] = state_space_inner(ssm);
    d[DIM_STATE] = shapes_times(m, d[DIM_VALUES], ssm->depth);
    d[DIM_SCAN_SUMS] = 3 * ssm->heads;
    d[DIM_GATED] = max(d[DIM_VALUES], c->attention_factor != 1 ? d[DIM_Q] : 0);
}

/* Of layers with linear attention; and of the gate of others. */
static void dims_mixers(struct shapes_builder *m, const struct model_config *c)
{
    const struct linear_attention *delta = &c->delta;
    const bool fused = c->architecture->fused_delta;
    size_t *d = m->dims;

    d[DIM_Q_GATE] = (c->architecture->gated_attention ? 2 : 1) * d[DIM_Q];
    d[DIM_QKV] = most_of_qkv(m, c);
    d[DIM_ATT] = d[DIM_Q];
    d[DIM_SINKS] = c->heads;
    d[DIM_GATED] = c->architecture->gated_attention ? d[DIM_Q] : 0;
    if (c->linear && c->architecture->short_convs)
        dims_convs(m, c);
    if (c->ssm.heads > 0)
        dims_scans(m, c);
    if (!c->linear || c->architecture->short_convs || c->ssm.heads > 0)
        return;
    d[DIM_CONV] = d[DIM_FILTERED] = linear_attention_columns(delta);
    d[DIM_IN_QKV] = d[DIM_CONV] + (fused ? linear_attention_values(delta) : 0);
    d[DIM_IN_B] = (fused ? 2 : 1) * delta->heads;
    d[DIM_TAPS] = delta->taps;
    d[DIM_VALUE_HEADS] = d[DIM_BETA] = delta->heads;
    d[DIM_VALUE] = delta->value_size;
    d[DIM_VALUES] = linear_attention_values(delta);
    d[DIM_STATE] = shapes_times(m, d[DIM_VALUES], delta->key_size);
    d[DIM_QKV] = max(d[DIM_QKV], d[DIM_CONV] + d[DIM_VALUES] + 2 * delta->heads);
    d[DIM_ATT] = d[DIM_GATED] = max(d[DIM_Q], d[DIM_VALUES]);
}

/* Number the layers of each kind. */
static void index_mixers(struct shapes_builder *m, const struct model_config *c)
{
    size_t linear = 0;

    if (!c->linear)
        return;
    m->out->mixer_index = arena_array(m->arena, c->layers, sizeof(*m->out->mixer_index));
    for (size_t l = 0; l < c->layers; l++) {
        m->out->mixer_index[l] = c->linear[l] ? linear : l - linear;
        linear += c->linear[l];
    }
    m->out->linear_layers = linear;
}

/* Of layers that have inputs of their own, and of their norm. */
static void dims_layer_inputs(struct shapes_builder *m, const struct model_config *c)
{
    size_t *d = m->dims;

    if (c->layer_inputs == 0)
        return;
    d[DIM_INPUT] = c->layer_inputs;
    d[DIM_INPUTS] = shapes_times(m, c->layers, c->layer_inputs);
    d[DIM_INPUT_LAYERS] = c->layers;
    d[DIM_INPUT_C] = c->hidden_size;
    d[DIM_INPUT_STATS] = 1;
}

/* Of layers with cross-attention. */
static void dims_cross(struct shapes_builder *m, const struct model_config *c)
{
    size_t *d = m->dims, count = 0;

    if (!c->crosses)
        return;
    d[DIM_CROSS_NORM] = c->head_size;
    d[DIM_CROSS_Q] = d[DIM_Q];
    d[DIM_CROSS_KV] = shapes_times(m, 2, d[DIM_KV]);
    d[DIM_CROSS_K] = d[DIM_KV];
    d[DIM_CROSS_HEADS] = c->heads;
    d[DIM_CROSS_KEYS] = c->kv_heads;
    d[DIM_CROSS_C] = c->hidden_size;
    d[DIM_CROSS_ONE] = 1;
    m->out->cross_index = arena_array(m->arena, c->layers, sizeof(*m->out->cross_index));
    for (size_t l = 0; l < c->layers; l++) {
        m->out->cross_index[l] = count;
        count += c->crosses[l];
    }
}

/* Note whose keys and values layers use, if some use those of others. */
static void index_keys(struct shapes_builder *m, const struct model_config *c)
{
    if (c->sharing_layers == 0)
        return;
    m->dims[DIM_SHARED_KEYS] = 2 * m->dims[DIM_KV];
    m->out->key_index = arena_array(m->arena, c->layers, sizeof(*m->out->key_index));
    m->out->key_room = arena_array(m->arena, c->layers, sizeof(*m->out->key_room));
    for (size_t l = 0; l < c->layers; l++) {
        m->out->key_index[l] = shared_keys_layer(c, l);
        m->out->key_room[l] = !c->windowed[l];
    }
}

void shapes_dims_model(struct shapes_builder *m, const struct model_config *c)
{
    const char *const *has = c->architecture->paths;
    bool whole = c->architecture->whole_qk_norms;
    size_t *d = m->dims;

    d[DIM_ONE] = 1;
    d[DIM_V] = c->vocab_size;
    d[DIM_EMBEDDINGS] = c->vocab_size + c->more_embeddings;
    d[DIM_HEAD] = c->scores ? 1 : c->vocab_size;
    d[DIM_C] = c->hidden_size;
    d[DIM_I] = model_config_mlp_of(c, c->layers - 1); /* the widest are the last ones */
    d[DIM_GATE_UP] = shapes_gate_up_columns(c, d[DIM_I]);
    dims_experts(m, c);
    d[DIM_H] = c->heads;
    d[DIM_Q] = shapes_times(m, c->heads, max(c->head_size, c->full_head_size));
    d[DIM_KV] = max(shapes_times(m, c->kv_heads, c->head_size),
                    shapes_times(m, c->full_kv_heads, c->full_head_size));
    dims_mixers(m, c);
    shapes_latent_dims(m);
    index_mixers(m, c);
    dims_layer_inputs(m, c);
    index_keys(m, c);
    dims_cross(m, c);
    d[DIM_WIDE] = max(max(d[DIM_C], d[DIM_ATT]), d[DIM_SCANNED]);
    d[DIM_MID] = c->parallel ? 0 : d[DIM_C];
    d[DIM_STATS] = norm_is_centered(c->architecture->norm) ? 2 : 1;
    d[DIM_C_2] = c->one_norm ? 0 : d[DIM_C];
    d[DIM_STATS_2] = c->one_norm ? 0 : d[DIM_STATS];
    d[DIM_BARE] = c->architecture->norm == NORM_LAYER_BARE ? d[DIM_C] : 0;
    d[DIM_ROTARY] = c->rotary;
    d[DIM_QUERY_SCALES] = c->query_scaling.beta != 0 ? 2 : 0;
    d[DIM_ROTARY_LOCAL] = c->has_local ? c->rotary_local : 0;
    if (has[MODULE_POSITIONS])
        d[DIM_P] = c->max_positions + c->architecture->position_offset;
    if (has[MODULE_POST1]) {
        d[DIM_POST] = d[DIM_C];
        d[DIM_POST_STATS] = 1;
    }
    if (has[MODULE_EMBED_NORM]) {
        d[DIM_EMBED_NORM] = d[DIM_C];
        d[DIM_EMBED_STATS] = d[DIM_STATS];
    }
    if (c->architecture->bare_qk_norms)
        d[DIM_BARE] = c->head_size;
    if ((has[MODULE_Q_NORM] && !model_config_is_latent(c)) ||
        c->architecture->bare_qk_norms) {
        d[DIM_QK] = d[DIM_Q] + d[DIM_KV];
        if (c->architecture->value_norms) {
            d[DIM_VALUE_NORMS] = max(c->kv_heads, c->full_kv_heads);
            d[DIM_BARE] = max(d[DIM_BARE], max(c->head_size, c->full_head_size));
        }
        d[DIM_HEADS] = whole ? 1 : c->heads;
        d[DIM_K] = whole ? 1 : max(c->kv_heads, c->full_kv_heads);
        d[DIM_Q_NORM] = d[DIM_Q] / d[DIM_HEADS];
        d[DIM_K_NORM] = d[DIM_KV] / d[DIM_K];
        d[DIM_HEADS] *= d[DIM_STATS];
        d[DIM_K] *= d[DIM_STATS];
    }
    if (model_config_copies_values(c))
        d[DIM_QK] = d[DIM_QKV];
}
