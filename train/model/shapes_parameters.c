/* train/model/shapes_parameters.c - every parameter of a model and its offset. */
#include "config.h"

#include "train/model/shapes.h"

#include <string.h>

#include "base/size.h"
#include "train/model/cross_layers.h"
#include "train/model/expert_adapters.h"
#include "train/model/matrix_layout.h"
#include "train/model/shapes_internal.h"
#include "train/model/weights.h"

enum dim shapes_inputs(enum module module)
{
    return shapes_module_dims[module].cols;
}

/* LLaMA-Factory: the last layers (negative: the first), or the last of each of so many
 * equal groups. */
static bool is_trained_layer(const struct shapes_builder *m, size_t layer)
{
    int64_t expected = m->plan->freeze_trainable_layers;
    size_t layers = model_config_numbered(m->config);

    layer = model_config_number(m->config, layer);
    if (m->plan->use_llama_pro)
        return (layer + 1) % (layers / (size_t)expected) == 0;
    return expected >= 0 ? layer + (size_t)expected >= layers : layer < (size_t)-expected;
}

/* Train these layers entirely or some of their modules. */
static bool freeze_trains(const struct shapes_builder *m, enum module module,
                          size_t layer)
{
    const char *at = m->plan->freeze_trainable_modules;

    if (!module_in_block(module) || !is_trained_layer(m, layer))
        return false;
    if (!at || strcmp(at, "all") == 0)
        return true;
    while (*at) {
        size_t skip = strspn(at, ", "), len = strcspn(at + skip, ", ");

        if (len > 0 &&
            architecture_is_under(m->config->architecture, module, at + skip, len))
            return true;
        at += skip + len;
    }
    return false;
}

/* Of a frozen text model, the job may train the layers of cross-attention. */
static bool full_trains(const struct shapes_builder *m, enum module module, size_t layer)
{
    if (!m->plan->freeze_language_model)
        return true;
    return m->plan->train_cross_attention && module_in_block(module) &&
           model_config_crosses(m->config, layer);
}

static bool is_trainable(const struct shapes_builder *m, enum module module,
                         enum part part, size_t layer)
{
    if (m->plan->generation.alone || module_is_buffer(module))
        return false;
    if (module == MODULE_ENCODER)
        return true;
    if (part >= PART_LORA_A || (module == MODULE_HEAD && m->config->scores))
        return true;
    switch (m->plan->method) {
    case METHOD_FULL:
        return module_is_of_projector(module) ? m->out->trains_projector
                                              : full_trains(m, module, layer);
    case METHOD_FREEZE:
        return module_is_of_projector(module) ? m->out->trains_projector
                                              : freeze_trains(m, module, layer);
    case METHOD_LORA:
    case METHOD_OFT:
        return m->out->lora.saved[module];
    }
    return false;
}

static bool scan_has_bias(const struct state_space *ssm, enum module module)
{
    return module == MODULE_CONV       ? ssm->conv_bias
           : module == MODULE_SCAN_IN  ? ssm->in_bias
           : module == MODULE_SCAN_OUT ? ssm->out_bias
                                       : false;
}

static bool has_bias(const struct model_config *c, enum module module)
{
    if (!module_in_mixer(module, true, false))
        return c->ssm.heads > 0 ? scan_has_bias(&c->ssm, module) : c->delta.bias;
    switch (shapes_stack(module)) {
    case STACK_QKV:
        return c->qkv_bias && !(model_config_is_latent(c) && module == MODULE_Q);
    case STACK_O:
        return c->output_bias;
    case STACK_GATE_UP:
    case STACK_DOWN:
        return c->mlp_bias;
    case STACK_Q_B:
    case STACK_KV_B:
    case STACK_EXPERT_GATE_UP:
    case STACK_EXPERT_DOWN:
        return c->architecture->experts.biased;
    case STACK_INPUT_GATE:
    case STACK_INPUT_OUT:
    case STACK_LAYER_INPUTS:
        return false;
    case STACK_ROUTER:
    case STACK_CROSS_KV:
    case STACK_SCAN_OUT:
    case STACKS:
        break;
    }
    if (module == MODULE_HEAD)
        return c->head_bias;
    if (module == MODULE_ROUTER)
        return c->architecture->experts.router_bias;
    if (module == MODULE_Q_NORM || module == MODULE_K_NORM)
        return c->architecture->biased_qk_norms;
    return norm_has_bias(c->architecture->norm) &&
           shapes_module_dims[module].rows == DIM_ONE;
}

/* Return whether it is an adapter of the matrices of all experts. */
static bool is_joined(const struct shapes_builder *m, enum module module, enum part part)
{
    return m->out->lora.joined && part >= PART_LORA_A && module_is_of_experts(module);
}

/* Return whether the model has this parameter. */
static bool exists(const struct shapes_builder *m, enum module module, enum part part,
                   size_t layer)
{
    const struct model_config *c = m->config;

    if (module_is_of_projector(module))
        return shapes_projector_has(m, module, part);
    if (!model_config_has(c, module, layer) || (module == MODULE_NORM2 && c->one_norm) ||
        (module == MODULE_HEAD && part == PART_WEIGHT && c->tied))
        return false;
    switch (part) {
    case PART_WEIGHT:
        return true;
    case PART_BIAS:
        return has_bias(c, module);
    case PART_LORA_A:
    case PART_LORA_B:
        return lora_is_on(&m->out->lora, module, layer) && !m->out->lora.rotation.on &&
               (!is_joined(m, module, part) ||
                expert_adapters_in(&m->out->lora, module, layer));
    case PART_OFT_R:
        return lora_is_on(&m->out->lora, module, layer) && m->out->lora.rotation.on;
    case PART_LORA_MAGNITUDE:
        return lora_is_on(&m->out->lora, module, layer) && m->out->lora.dora;
    }
    return false;
}

static const char *name_of(const struct shapes_builder *m,
                           const struct shape_parameter *p)
{
    static const char *const suffixes[] = { ".weight",
                                            ".bias",
                                            ".lora_A.weight",
                                            ".lora_B.weight",
                                            ".lora_magnitude_vector",
                                            ".oft_R.weight" };
    const bool bare = module_is_bare(p->module) || (p->module == MODULE_PROJECTOR_LAST &&
                                                    m->config->media.projector.bare);
    const char *suffix = bare ? "" : suffixes[p->part];
    const char *prefix = p->part >= PART_LORA_A ? "base_model.model." : "";
    const struct module_place at = { p->module, p->layer, p->expert };
    const char *out;
    struct text name;

    text_init(&name, 0);
    if (is_joined(m, p->module, p->part))
        expert_adapters_layer(m->config->architecture, &m->out->lora, p->module, p->layer,
                              &name);
    else
        architecture_name(m->config->architecture, &at, &name);
    out = arena_printf(m->arena, "%s%s%s", prefix, name.data, suffix);
    text_clear(&name);
    return out;
}

/* Return a dimension of a parameter: those of heads and MLPs depend on the layer. */
static size_t dim_of(const struct shapes_builder *m, enum dim dim, size_t layer)
{
    const struct model_config *c = m->config;

    if (c->full_head_size == 0)
        return m->dims[dim];
    switch (dim) {
    case DIM_Q:
    case DIM_O_IN:
    case DIM_Q_GATE:
        return model_config_queries(c, layer);
    case DIM_KV:
        return model_config_keys(c, layer);
    case DIM_I:
        return model_config_mlp_of(c, layer);
    case DIM_GATE_UP:
        return shapes_gate_up_columns(c, model_config_mlp_of(c, layer));
    case DIM_Q_NORM:
    case DIM_K_NORM:
        return model_config_head_size(c, layer);
    default:
        return m->dims[dim];
    }
}

static void shape_of(const struct shapes_builder *m, struct shape_parameter *p)
{
    const struct module_dims *row = &shapes_module_dims[p->module];

    p->rows = dim_of(m, row->rows, p->layer);
    p->cols = dim_of(m, row->cols, p->layer);
    if (p->part == PART_LORA_A)
        p->rows = m->out->lora.rank;
    if (p->part == PART_LORA_B)
        p->cols = m->out->lora.rank;
    if (p->part == PART_OFT_R) { /* a triangle for each block */
        size_t size = rotation_size(&m->out->lora.rotation, p->cols);

        p->rows = p->cols / size;
        p->cols = size * (size - 1) / 2;
    }
    if (p->part == PART_BIAS ||
        p->part ==
            PART_LORA_MAGNITUDE) { /* one per output; a norm has as many as weights */
        p->cols = row->rows == DIM_ONE ? p->cols : p->rows;
        p->rows = 1;
    }
    p->rank =
        row->rows == DIM_ONE || p->part == PART_BIAS || p->part == PART_LORA_MAGNITUDE ? 1
        : p->module == MODULE_CONV                                                     ? 3
                                   : 2;
    if (p->module == MODULE_ROUTER_BIAS && m->config->architecture->experts.bias_is_row)
        p->rank = 2;
    if (module_is_scalar(p->module))
        p->rank = 0;
    if (m->config->architecture->qk_norms_by_head &&
        (p->module == MODULE_Q_NORM || p->module == MODULE_K_NORM) &&
        !strchr(m->config->architecture->paths[p->module],
                '*')) { /* one tensor for all */
        p->rank = 2;
        p->rows = p->module == MODULE_Q_NORM ? m->config->heads : m->config->kv_heads;
    }
}

static void shape_joined(const struct shapes_builder *m, struct shape_parameter *p)
{
    const struct expert_adapter shape =
        expert_adapter_of(m->config, &m->out->lora, p->module, p->part);

    p->rank = 2;
    p->rows = shape.rows;
    p->cols = shape.cols;
    p->stored = shape.stored;
    p->matrices = matrix_layout_is_stack(shape.stored) ? m->config->experts : 0;
}

/* Norms whose weights have two dimensions are used like vectors. */
static bool is_vector(const struct shape_parameter *p)
{
    if (p->tensor)
        return p->rank < 2;
    return p->rank != 2 ||
           (p->part == PART_WEIGHT && shapes_module_dims[p->module].rows == DIM_ONE);
}

/* B has the rows of its layer; it is [out][in] even for Conv1D. */
static enum storage storage_of(const struct shapes_builder *m,
                               const struct shape_parameter *p)
{
    const struct architecture *a = m->config->architecture;
    enum storage storage = p->module == MODULE_QKV ? a->fused : a->linear;

    if (p->part == PART_OFT_R)
        return STORED_ROWS;
    if (module_is_of_projector(p->module))
        return p->module == MODULE_PROJECTOR_LAST && m->config->media.projector.bare
                   ? STORED_COLUMNS
               : p->module == MODULE_PROJECTOR_MERGE ? STORED_PATCHES
                                                     : STORED_ROWS;
    if (p->module == MODULE_Q && a->gated_attention && p->part != PART_LORA_A)
        return STORED_PAIRS;
    if ((p->module == MODULE_IN_QKV || p->module == MODULE_IN_B) && a->fused_delta &&
        p->part != PART_LORA_A)
        return STORED_KEY_HEADS;
    if (!module_is_linear(p->module) || p->part == PART_LORA_A ||
        (p->part != PART_WEIGHT && storage == STORED_COLUMNS))
        return STORED_ROWS;
    return storage;
}

/* Choose the formats of storage and working copy; the header of shapes.h explains the
 * rules. */
static void formats_of(const struct shapes_builder *m, struct shape_parameter *p)
{
    const struct shapes *s = m->out;
    enum format frozen = shapes_stored(m->plan->precision.frozen);
    bool buffer = module_is_buffer(p->module);
    bool looked_up = module_is_table(p->module);
    bool multiplied = !is_vector(p) && p->part != PART_OFT_R &&
                      (!looked_up || (p->module == MODULE_EMBED && m->config->tied)) &&
                      (!p->tensor || p->tensor->multiplied);

    p->copy = p->folded || p->quantized ? s->compute : FORMAT_COUNT;
    /* was trained before, may be trained now */
    if (s->lora.saved[p->module] || p->part >= PART_LORA_A)
        frozen = FORMAT_FP32;
    p->format = p->trainable             ? s->trainable
                : is_vector(p) || buffer ? FORMAT_FP32
                                         : frozen;
    if (p->gathered && p->trainable && !p->folded) /* in a window */
        p->copy = p->format;
    if (p->folded || p->quantized || !multiplied || buffer || s->compute == FORMAT_FP32 ||
        p->format == s->compute)
        return;
    if (p->trainable && s->rounds_in_matmul)
        return;
    if (p->trainable || looked_up)
        p->copy = s->compute;
    else
        p->format = s->compute;
}

/* The biases of a folded stack are followed by zeros, because x A^T has no bias. */
static size_t bias_padding(const struct shapes_builder *m,
                           const struct shape_parameter *p)
{
    enum stack stack = shapes_stack(p->module);

    if (p->part != PART_BIAS || stack == STACKS || !m->out->folded[stack])
        return 0;
    for (enum module i = p->module + 1; i <= shapes_stack_last(stack); i++)
        if (exists(m, i, PART_BIAS, p->layer))
            return 0;
    return shapes_adapters(&m->out->lora, stack) * sizeof(float);
}

/* Return the bytes in storage. */
static size_t bytes_of(struct shapes_builder *m, const struct shape_parameter *p,
                       size_t elements)
{
    if (p->quantized)
        return size_round(shapes_quantized_bytes(m->out, p->rows, p->cols),
                          SHAPES_ALIGNMENT);
    return shapes_times(m, elements, format_info(p->format)->bytes);
}

/* Return the next offset of a copy; NULL if it is in the window of a block. */
static size_t *copies_of(struct shapes_builder *m, const struct shape_parameter *p,
                         size_t *frozen_at)
{
    if (p->folded)
        return frozen_at;
    if (p->quantized)
        return &m->scratch_at;
    return p->gathered ? NULL : &m->copies_at;
}

static void place_parameter(struct shapes_builder *m, struct shape_parameter *p)
{
    size_t elements = shapes_times(m, p->rows, p->cols);
    size_t bytes = bytes_of(m, p, elements);
    size_t *frozen_at = p->gathered ? &m->blocks_at : &m->frozen_at;
    size_t *copies_at = copies_of(m, p, frozen_at);

    if (p->starts_group) {
        m->trainable_at = size_round(m->trainable_at, shapes_trained_alignment(m));
        if (!p->folded)
            *frozen_at = size_round(*frozen_at, SHAPES_ALIGNMENT);
        m->copies_at = size_round(m->copies_at, SHAPES_ALIGNMENT);
        m->scratch_at = 0;
    }
    if (p->quantized)
        *frozen_at = size_round(*frozen_at, SHAPES_ALIGNMENT);
    if (p->trainable) {
        p->at = m->trainable_at;
        m->trainable_at += elements;
        m->out->trainable_elements += elements;
    } else {
        p->at = *frozen_at;
        *frozen_at += bytes;
    }
    if (p->copy != FORMAT_COUNT && copies_at) {
        p->copy_at = *copies_at;
        *copies_at += shapes_times(m, elements, format_info(p->copy)->bytes);
    }
    if (p->tensor)
        m->trainable_at += p->tensor->gap;
    m->frozen_at += bias_padding(m, p);
    m->out->elements += elements;
    if (m->trainable_at > SIZE_MAX / 64 || m->frozen_at > SIZE_MAX / 8 ||
        m->blocks_at > SIZE_MAX / 8 || m->copies_at > SIZE_MAX / 8)
        m->overflow = true;
}

enum region shapes_region(const struct shape_parameter *p)
{
    if (is_vector(p))
        return REGION_VECTORS;
    return p->part == PART_LORA_B ? REGION_LORA_B : REGION_MATRICES;
}

/* Place the parameters of one region, in the order of the list. */
static void place_region(struct shapes_builder *m, enum region region)
{
    for (size_t i = 0; i < m->out->count && !m->overflow; i++)
        if (shapes_region(&m->out->parameters[i]) == region)
            place_parameter(m, &m->out->parameters[i]);
}

/* Files have layers in few bits, not tensors of all experts.  GPTQ and AWQ leave routers as
 * they are. A projector is as it would be next to a frozen encoder. */
static bool is_quantized(const struct shapes_builder *m, const struct shape_parameter *p)
{
    const struct model_config *c = m->config;

    if (!m->out->quantized || p->part != PART_WEIGHT || !module_is_linear(p->module) ||
        p->trainable || m->out->lora.saved[p->module] ||
        module_is_of_projector(p->module) ||
        (shapes_stack(p->module) == STACK_ROUTER && m->out->affine.bits > 0))
        return false;
    return !(c->quantized.enabled && module_is_of_experts(p->module) &&
             c->architecture->experts.only_tensors && !c->expert_layers) &&
           !weights_skip_quantization(c, p->name);
}

static void add_parameter(struct shapes_builder *m, const struct module_place *at,
                          enum part part, bool starts_group)
{
    struct shape_parameter *p = &m->out->parameters[m->out->count++];
    double lr_ratio = m->plan->loraplus_lr_ratio;
    const enum module module = at->module;

    *p = (struct shape_parameter) { .module = module,
                                    .part = part,
                                    .layer = at->layer,
                                    .expert = at->expert,
                                    .starts_group = starts_group };
    if (is_joined(m, module, part)) {
        shape_joined(m, p);
    } else {
        shape_of(m, p);
        p->stored = storage_of(m, p);
        if (p->stored == STORED_PATCHES)
            p->matrices = m->config->media.projector.patches;
    }
    p->name = name_of(m, p);
    p->trainable = is_trainable(m, module, part, at->layer);
    p->folded = part == PART_LORA_A && m->out->folded[shapes_stack(module)];
    p->quantized = is_quantized(m, p);
    /* like transformers' get_decay_parameter_names: not if a name has "norm" or "bias",
     * which magnitudes have not */
    p->decays =
        p->trainable &&
        (!is_vector(p) || p->rank > 2 || module == MODULE_A_LOG ||
         (m->config->architecture->norms_decay && part == PART_WEIGHT) ||
         module == MODULE_SINKS || module == MODULE_SKIP || module == MODULE_ALPHA_P ||
         module == MODULE_ALPHA_N || module == MODULE_ROUTER_SCALE ||
         module == MODULE_EXPERT_SCALE || module == MODULE_CROSS_GATE ||
         module == MODULE_CROSS_MLP_GATE || part == PART_LORA_MAGNITUDE ||
         (module == MODULE_PROJECTOR_NORM && part == PART_WEIGHT &&
          m->config->media.projector.norm_decays));
    if (m->config->architecture->undecayed_attention &&
        (shapes_stack(module) == STACK_QKV || shapes_stack(module) == STACK_O))
        p->decays = false;
    /* LoRA+: B matrices and vectors; LLaMA-Factory's _create_loraplus_optimizer */
    p->lr_factor = lr_ratio > 0 && (part == PART_LORA_B || p->rank == 1) ? lr_ratio : 1;
    p->gathered = shapes_is_gathered(m, p);
    formats_of(m, p);
}

/* The two matrices of a layer of the encoder. */
static void add_encoder_adapter(struct shapes_builder *m, size_t index)
{
    const struct encoder_tensor *t = &m->config->encoder.list[index];
    const double lr_ratio = m->plan->loraplus_lr_ratio;

    for (enum part part = PART_LORA_A; part <= PART_LORA_B; part++) {
        struct shape_parameter *p = &m->out->parameters[m->out->count++];
        const bool a = part == PART_LORA_A;

        *p = (struct shape_parameter) {
            .name = arena_printf(m->arena, "base_model.model.%s.lora_%c.weight", t->path,
                                 a ? 'A' : 'B'),
            .module = MODULE_ENCODER,
            .part = part,
            .expert = index,
            .rank = 2,
            .rows = a ? m->out->lora.rank : t->rows,
            .cols = a ? t->cols : m->out->lora.rank,
            .trainable = is_trainable(m, MODULE_ENCODER, part, 0),
            .starts_group = true,
            .stored = STORED_ROWS,
            .decays = true,
            .lr_factor = lr_ratio > 0 && !a ? lr_ratio : 1,
        };
        formats_of(m, p);
    }
}

static void add_encoder_tensor(struct shapes_builder *m, size_t index)
{
    struct shape_parameter *p = &m->out->parameters[m->out->count++];
    const struct encoder_tensor *t = &m->config->encoder.list[index];

    *p = (struct shape_parameter) {
        .name = t->name,
        .module = MODULE_ENCODER,
        .part = PART_WEIGHT,
        .expert = index,
        .tensor = t,
        .rank = t->rank,
        .rows = t->rows,
        .cols = t->cols,
        .trainable = is_trainable(m, MODULE_ENCODER, PART_WEIGHT, 0),
        .starts_group = !t->joins,
        .stored = STORED_ROWS,
        .decays = t->decays,
        .lr_factor = 1,
    };
    formats_of(m, p);
}

/* The encoder is a list of tensors, not of modules.  Next to adapters it is frozen, and not among
 * the parameters. */
static void add_encoder(struct shapes_builder *m)
{
    const bool adapts = plan_adapts(m->plan);

    for (size_t i = 0; m->out->trains_encoder && i < m->config->encoder.count; i++)
        if (!adapts)
            add_encoder_tensor(m, i);
        else if (i < LORA_ENCODER_MAX && m->out->lora.encoder[i])
            add_encoder_adapter(m, i);
}

static void add_groups(struct shapes_builder *m, const struct shape_groups *groups,
                       size_t layer)
{
    for (size_t i = 0; i < groups->count; i++) {
        const struct shape_group *g = &groups->list[i];
        size_t first = m->out->count;
        size_t copies = is_joined(m, g->first, g->part)
                            ? 1
                            : model_config_copies(m->config, g->first);

        for (size_t e = 0; e < copies; e++)
            for (enum module j = g->first; j <= g->last; j++)
                if (exists(m, j, g->part, layer))
                    add_parameter(m, &(struct module_place) { j, layer, e }, g->part,
                                  m->out->count == first);
    }
}

void shapes_add_parameters(struct shapes_builder *m)
{
    struct shapes *s = m->out;
    size_t ranks = plan_ranks(m->plan);

    /* no group in the tables has more than three members in a block, or for an expert, but
     * one of linear attention, which lacks those of other groups */
    s->shards_blocks = m->plan->zero_stage > 2 && ranks > 1;
    s->parameters =
        arena_array(m->arena,
                    2 * m->config->encoder.count + shapes_groups_before.count +
                        shapes_groups_after.count +
                        m->config->layers *
                            (3 * shapes_groups_of_block.count + 12 * m->config->experts +
                             m->config->heads + m->config->kv_heads),
                    sizeof(*s->parameters));
    add_encoder(m);
    add_groups(m, &shapes_groups_before, 0);
    for (size_t l = 0; l < m->config->layers; l++)
        add_groups(m, &shapes_groups_of_block, l);
    add_groups(m, &shapes_groups_after, 0);
    place_region(m, REGION_MATRICES);
    s->matrices_end = m->trainable_at;
    place_region(m, REGION_LORA_B);
    s->vectors_start = m->trainable_at;
    place_region(m, REGION_VECTORS);
    s->vector_elements = m->trainable_at - s->vectors_start;
    s->shard =
        size_round((m->trainable_at + ranks - 1) / ranks, shapes_trained_alignment(m));
    s->segment = s->shard * ranks;
    shapes_place_weights(m);
    shapes_place_gradients(m);
    shapes_place_windows(m);
    shapes_place_moments(m);
    s->copy_bytes = size_round(m->copies_at, SHAPES_ALIGNMENT);
}
