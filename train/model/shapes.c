/* train/model/shapes.c - the dimensions of a run, and the sum of its bytes. */
#include "config.h"

#include "train/model/shapes.h"

#include "base/size.h"
#include "kernels/ops.h"
#include "precision/nf4.h"
#include "train/model/attention_room.h"
#include "train/model/expert_config.h"
#include "train/model/shapes_internal.h"

#define ROW_NUMBERS 16 /* rows of a widened buffer start aligned for vector loads */

static const struct {
    enum module first, last;
    enum dim outputs;  /* of all layers */
    enum dim adapters; /* of the separate buffer for x A^T */
    enum dim z;        /* of the buffer of weight-decomposed adapters */
    bool u_after_y;    /* if folded, x A^T follows x W^T in its buffer */
} stacks[STACKS] = {
    [STACK_QKV] = { MODULE_QKV, MODULE_IN_A, DIM_QKV, DIM_U_QKV, DIM_Z_QKV, true },
    [STACK_Q_B] = { MODULE_Q_B, MODULE_Q_B, DIM_Q_B, DIM_U_Q_B, DIM_Z_Q_B, false },
    [STACK_KV_B] = { MODULE_KV_B, MODULE_KV_B, DIM_KV_B, DIM_U_KV_B, DIM_Z_KV_B, false },
    [STACK_O] = { MODULE_O, MODULE_OUT, DIM_C, DIM_U_O, DIM_Z_O, false },
    [STACK_SCAN_OUT] = { MODULE_SCAN_OUT, MODULE_SCAN_OUT, DIM_C, DIM_U_SCAN_OUT,
                         DIM_Z_SCAN_OUT, false },
    [STACK_GATE_UP] = { MODULE_GATE_UP, MODULE_SHARED_UP, DIM_GATE_UP, DIM_U_GATE_UP,
                        DIM_Z_GATE_UP, true },
    [STACK_DOWN] = { MODULE_DOWN, MODULE_SHARED_DOWN, DIM_C, DIM_U_DOWN, DIM_Z_DOWN,
                     false },
    [STACK_INPUT_GATE] = { MODULE_INPUT_GATE, MODULE_INPUT_GATE, DIM_INPUT,
                           DIM_U_INPUT_GATE, DIM_Z_INPUT_GATE, false },
    [STACK_INPUT_OUT] = { MODULE_INPUT_OUT, MODULE_INPUT_OUT, DIM_C, DIM_U_INPUT_OUT,
                          DIM_Z_INPUT_OUT, false },
    [STACK_LAYER_INPUTS] = { MODULE_LAYER_INPUTS, MODULE_LAYER_INPUTS, DIM_INPUTS,
                             DIM_U_LAYER_INPUTS, DIM_Z_LAYER_INPUTS, false },
    [STACK_EXPERT_GATE_UP] = { .first = MODULE_EXPERT_GATE,
                               .last = MODULE_EXPERT_UP,
                               .adapters = DIM_U_EXPERT_GATE_UP },
    [STACK_EXPERT_DOWN] = { .first = MODULE_EXPERT_DOWN,
                            .last = MODULE_EXPERT_DOWN,
                            .adapters = DIM_U_EXPERT_DOWN },
    [STACK_CROSS_KV] = { .first = MODULE_CROSS_K,
                         .last = MODULE_CROSS_V,
                         .outputs = DIM_CROSS_KV,
                         .adapters = DIM_U_CROSS_KV },
    [STACK_ROUTER] = { .first = MODULE_SHARED_ROUTER,
                       .last = MODULE_LINEAR_ROUTER,
                       .adapters = DIM_U_ROUTER },
};

enum stack shapes_stack(enum module module)
{
    for (enum stack i = 0; i < STACKS; i++)
        if (module >= stacks[i].first && module <= stacks[i].last)
            return i;
    return STACKS;
}

enum module shapes_stack_last(enum stack stack)
{
    return stacks[stack].last;
}

size_t shapes_times(struct shapes_builder *m, size_t a, size_t b)
{
    size_t result;

    if (size_mul(a, b, &result) && result < SIZE_MAX / 8)
        return result;
    m->overflow = true;
    return 0;
}

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* A layer has either the MLP of a stack or the one next to its experts. */
size_t shapes_adapters(const struct lora *lora, enum stack stack)
{
    size_t count = 0, shared = 0;

    for (enum module i = stacks[stack].first; i <= stacks[stack].last; i++)
        if (module_is_sparse(i) && !module_is_of_experts(i))
            shared += lora->adapted[i];
        else
            count += lora->adapted[i];
    return max(count, shared) * lora->rank;
}

/* Return the elements of the biases of a stack of experts. */
static size_t biases_of_experts(struct shapes_builder *m)
{
    size_t widest = max(2 * m->config->expert_size, m->config->hidden_size);

    return m->config->architecture->experts.biased
               ? shapes_times(m, m->config->experts, widest)
               : 0;
}

bool shapes_is_quantized(const struct plan *plan, const struct model_config *config)
{
    return config->quantized.enabled || plan_is_quantized(plan);
}

size_t shapes_quantized_bytes(const struct shapes *shapes, size_t rows, size_t cols)
{
    return shapes->affine.bits ? affine_layout(shapes->affine, rows, cols).total
                               : nf4_layout(rows * cols, shapes->double_quant).total;
}

/* Folding requires that the adapters have the same input as W (no dropout), that [W; A]
 * is contiguous with one format and one rounding, and that only A is trained, through its
 * copy. */
static bool can_fold(const struct shapes_builder *m, enum stack stack)
{
    const struct shapes *s = m->out;
    enum format frozen = shapes_stored(m->plan->precision.frozen);

    if (stack == STACK_EXPERT_GATE_UP || stack == STACK_EXPERT_DOWN ||
        stack == STACK_Q_B || stack == STACK_KV_B || stack == STACK_ROUTER ||
        stack == STACK_INPUT_GATE || stack == STACK_INPUT_OUT ||
        stack == STACK_LAYER_INPUTS || stack == STACK_SCAN_OUT || stack == STACK_CROSS_KV)
        return false;
    if (stack == STACK_QKV && model_config_is_latent(m->config) && m->config->qkv_bias &&
        m->config->latent.q_rank == 0)
        return false; /* q has no bias */
    if (s->lora.dropout > 0 || s->lora.dora || m->plan->precision.fp8 || s->quantized ||
        s->trainable != FORMAT_FP32 ||
        (s->compute == FORMAT_FP32 && frozen != FORMAT_FP32))
        return false;
    for (enum module i = stacks[stack].first; i <= stacks[stack].last; i++)
        if (s->lora.saved[i])
            return false;
    return shapes_adapters(&s->lora, stack) > 0;
}

/* Return the columns including a stack's folded adapters, aligned for vector loads. */
static size_t folded_columns(const struct shapes_builder *m, enum stack stack,
                             size_t cols)
{
    if (!m->out->folded[stack])
        return cols;
    return size_round(cols + shapes_adapters(&m->out->lora, stack), ROW_NUMBERS);
}

/* Return the columns of a stack's outputs, in the widest MLP. */
static size_t output_columns(const struct shapes_builder *m, enum stack stack)
{
    return stack == STACK_GATE_UP ? shapes_gate_up_columns(m->config, m->dims[DIM_MLP])
                                  : m->dims[stacks[stack].outputs];
}

/* Stacks with weight-decomposed adapters keep their outputs before these are scaled. */
static void dims_dora(struct shapes_builder *m, const struct lora *lora)
{
    size_t *d = m->dims;

    for (enum stack i = 0; lora->dora && i < STACKS; i++) {
        size_t columns = output_columns(m, i);

        if (shapes_adapters(lora, i) == 0)
            continue;
        d[stacks[i].z] = columns;
        d[DIM_DORA_NORM] += columns;
        d[DIM_DORA_G] = max(d[DIM_DORA_G], columns);
    }
}

static void dims_lora(struct shapes_builder *m, const struct lora *lora)
{
    size_t *d = m->dims, dy;

    for (enum stack i = 0; i < STACKS; i++) {
        size_t cols = shapes_adapters(lora, i);

        if (i == STACK_EXPERT_GATE_UP || i == STACK_EXPERT_DOWN)
            cols = shapes_times(m, cols, d[DIM_CHOSEN]);
        m->out->folded[i] = can_fold(m, i);
        if (!m->out->folded[i])
            d[DIM_LORA_G] = max(d[DIM_LORA_G], cols);
        if (!m->out->folded[i] || !stacks[i].u_after_y)
            d[stacks[i].adapters] = cols;
    }
    dims_dora(m, lora);
    d[DIM_QKV_U] = folded_columns(m, STACK_QKV, d[DIM_QKV]);
    d[DIM_GATE_UP_U] =
        folded_columns(m, STACK_GATE_UP, shapes_gate_up_columns(m->config, d[DIM_MLP]));
    if (d[DIM_SHARED_C] > 0)
        d[DIM_SHARED_C] = folded_columns(m, STACK_DOWN, d[DIM_C]);
    /* the output gradient that the matmuls of o and down read */
    dy = max(folded_columns(m, STACK_O, d[DIM_C]),
             folded_columns(m, STACK_DOWN, d[DIM_C]));
    d[DIM_DROPPED] =
        m->config->residual_dropout > 0 && !m->plan->disable_dropout ? dy : 0;
    if (m->config->residual_scale != 1 || m->config->down_factor != 1 ||
        m->config->crosses)
        d[DIM_DROPPED] = dy;
    d[DIM_DX] = d[DIM_POST] || d[DIM_DROPPED] ? d[DIM_C] : dy;
    d[DIM_POST_DX] = d[DIM_POST] ? dy : 0;
    for (enum module i = 0; lora->dropout > 0 && i < MODULES; i++)
        if (lora->adapted[i])
            d[DIM_LORA_X] =
                max(d[DIM_LORA_X],
                    d[shapes_inputs(i)] * (module_is_of_experts(i) ? d[DIM_CHOSEN] : 1));
}

/* Return the elements of the largest matrix of a block, or stack of them. */
static size_t widest_of_blocks(struct shapes_builder *m)
{
    const size_t *d = m->dims;
    size_t inner = shapes_gate_up_columns(m->config, d[DIM_MLP]); /* also covers I */
    size_t experts = shapes_times(m, d[DIM_EXPERTS], d[DIM_EXPERT_I]);

    inner = max(max(inner, d[DIM_SCANNED]), shapes_gate_up_columns(m->config, experts));
    inner = max(max(inner, d[DIM_QKV]), d[DIM_INPUTS]);
    return max(shapes_times(m, inner, d[DIM_C]), shapes_latent_widest(m));
}

/* Weights that are not in the format of the matmul are converted when they are used. */
static void dims_convert(struct shapes_builder *m, enum format frozen)
{
    const struct shapes *s = m->out;
    bool any_frozen = m->plan->method != METHOD_FULL || m->plan->generation.alone;
    size_t *d = m->dims;

    if (s->compute != FORMAT_FP32) {
        d[DIM_COPY] = d[DIM_DROPPED] ? 0 : d[DIM_DX];
        d[DIM_DX] = d[DIM_C];
        d[DIM_POST_COPY] = d[DIM_POST_DX];
        d[DIM_POST_DX] = d[DIM_POST];
    }
    if (s->quantized)
        d[DIM_WEIGHT] = widest_of_blocks(m);
    if (s->compute == FORMAT_FP32 &&
        ((any_frozen && frozen != FORMAT_FP32) || s->trainable != FORMAT_FP32))
        d[DIM_WEIGHT] =
            max(widest_of_blocks(m), shapes_times(m, d[DIM_EMBEDDINGS], d[DIM_C]));
    if (s->trainable != FORMAT_FP32)
        d[DIM_BIAS] =
            max(max(max(d[DIM_QKV], shapes_gate_up_columns(m->config, d[DIM_MLP])),
                    m->config->head_bias ? d[DIM_V] : d[DIM_C]),
                biases_of_experts(m));
}

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t shapes_room_at(size_t index, size_t bytes)
{
    const size_t apart = rounded_matrix_bytes(0, false) + 2 * SHAPES_ALIGNMENT;

    return index * apart + size_round(bytes, SHAPES_ALIGNMENT);
}

/* Rooms for matrices in 8 bits, from which the layers of a stack take theirs by the order
 * of their modules. */
static void dims_rounded(struct shapes_builder *m, size_t rows)
{
    const bool *once = m->out->rounds_once;
    size_t *d = m->dims;
    size_t gate_up = shapes_gate_up_columns(m->config, d[DIM_MLP]);
    size_t widest =
        max(max(max(d[DIM_C], d[DIM_QKV]), gate_up), max(d[DIM_Q_B], d[DIM_KV_B]));
    size_t inputs =
        2 * d[DIM_C] + d[DIM_LATENTS] + d[DIM_ATT] + d[DIM_SCANNED] + d[DIM_MLP];
    size_t weights = shapes_times(m, d[DIM_C], d[DIM_QKV] + d[DIM_ATT] + d[DIM_SCANNED]) +
                     shapes_times(m, d[DIM_C], gate_up + d[DIM_MLP]) +
                     shapes_times(m, d[DIM_Q_B], d[DIM_Q_RANK]) +
                     shapes_times(m, d[DIM_KV_B], d[DIM_KV_RANK]);

    d[DIM_ROUNDED_DY] = d[DIM_ROUNDED_W] = d[DIM_ROUNDED_X] = 0;
    if (once[ROUNDED_DY])
        d[DIM_ROUNDED_DY] = shapes_room_at(MODULES, shapes_times(m, rows, widest)) / 4;
    if (once[ROUNDED_W])
        d[DIM_ROUNDED_W] = shapes_room_at(MODULES, shapes_times(m, weights, 2)) / 4;
    if (once[ROUNDED_X])
        d[DIM_ROUNDED_X] = shapes_room_at(MODULES, shapes_times(m, rows, inputs)) / 4;
}

static void dims_batch(struct shapes_builder *m, size_t rows, size_t sequences)
{
    size_t *d = m->dims;

    dims_rounded(m, rows);
    if (m->config->linear && !m->config->architecture->short_convs)
        d[DIM_CHUNKS] = op_delta_chunks(rows, sequences);
    d[DIM_DCHUNKS] = m->plan->device.kind == DEVICE_CPU ? 0 : d[DIM_CHUNKS];
    if (m->config->ssm.heads > 0)
        d[DIM_CHUNKS] = d[DIM_DCHUNKS] = op_scan_chunks(rows, sequences);
    d[DIM_N] = rows;
    d[DIM_OFFSETS] = sequences + 1;
    if (m->config->attention_chunk > 0)
        d[DIM_CHUNK_STARTS] = model_config_chunks(m->config, rows, sequences) + 1;
    d[DIM_V_ROW] = shapes_logits_row(&m->plan->device, d[DIM_V]);
    d[DIM_CHUNK] =
        shapes_chunk_rows(&m->plan->device, m->large_chunks, d[DIM_V_ROW], rows);
    if (m->config->scores) { /* there are no logits */
        d[DIM_CHUNK] = 0;
        d[DIM_SCORES] = rows;
    }
    d[DIM_DACT] = m->out->keeps[STACK_DOWN] ? d[DIM_MLP] : 0;
    if (m->out->compute != FORMAT_FP32 || m->plan->stage == STAGE_DISTILL)
        d[DIM_DCHUNK] = d[DIM_CHUNK];
    d[DIM_WINDOW] = max((size_t)m->plan->gradient_accumulation_steps, 1);
    d[DIM_BALANCE_WINDOW] =
        expert_config_balance(m->plan, m->config) > 0 ? d[DIM_WINDOW] : 0;
    d[DIM_STEP_SCALARS] = sizeof(struct step_scalars) / sizeof(float);
}

static void dims_cache(struct shapes_builder *m)
{
    const struct generation *g = &m->plan->generation;
    struct shapes *s = m->out;

    m->dims[DIM_POSITIONS] = s->rows;
    m->dims[DIM_CORRECT] =
        m->plan->compute_accuracy && m->plan->stage < STAGE_DPO ? s->rows : 0;
    if (!g->on)
        return;
    s->slots = max((size_t)g->slots, 1);
    s->slot_rows = shapes_slot_rows(m->plan, m->config);
    m->dims[DIM_POSITIONS] = max(s->rows, s->slot_rows);
    m->dims[DIM_CACHE] = shapes_times(m, s->slots, s->slot_rows);
    if (m->config->crosses) { /* with rows that no sequence sees between those of slots */
        m->dims[DIM_CROSS_CACHE] = shapes_times(m, s->slots, m->media_rows);
        m->dims[DIM_CROSS_PARTS] = max(m->dims[DIM_CROSS_PARTS], 2 * s->slots + 2);
    }
    if (!m->config->linear && m->config->ssm.heads == 0)
        return;
    m->dims[DIM_OFFSETS] = max(m->dims[DIM_OFFSETS], s->slots + 1);
    m->dims[DIM_SLOTS] = s->slots;
    m->dims[DIM_CONV_ROWS] = s->slots * (model_config_taps(m->config) - 1);
}

static void dims_distill(struct shapes_builder *m)
{
    const struct distillation_settings *kd = &m->plan->kd;

    if (m->plan->stage != STAGE_DISTILL)
        return;
    m->dims[DIM_KD_WINDOW] = m->plan->generation.alone ? 0 : m->dims[DIM_WINDOW];
    m->dims[DIM_TEACHER_LOGITS] =
        kd->topk > 0 ? min((size_t)kd->topk, m->dims[DIM_V]) : 0;
}

static void dims_preference(struct shapes_builder *m, size_t sequences)
{
    if (m->plan->stage == STAGE_GRPO) {
        m->dims[DIM_PAIR_WINDOW] = m->dims[DIM_WINDOW];
        m->dims[DIM_PAIRS] = shapes_times(m, sequences, POLICY_VALUES);
        m->dims[DIM_ADVANTAGES] = 2;
        m->dims[DIM_OLD] = plan_generation_uses(m->plan) > 1 ? m->dims[DIM_N] : 0;
        m->dims[DIM_REFERENCE] = plan_has_reference(m->plan) ? m->dims[DIM_N] : 0;
    }
    if (!plan_prefers(m->plan))
        return;
    m->dims[DIM_PAIR_WINDOW] = m->dims[DIM_WINDOW];
    m->dims[DIM_PAIRS] = shapes_times(m, sequences / 2, PREFERENCE_VALUES);
    m->dims[DIM_REFERENCE] = plan_has_reference(m->plan) ? m->dims[DIM_N] : 0;
}

static void sum_up(struct shapes_builder *m)
{
    struct shapes *s = m->out;
    const size_t moments = s->moments_bytes;
    const size_t parts[] = { s->weight_bytes,           s->gradient_bytes,
                             s->offloads ? 0 : moments, s->copy_bytes,
                             s->frozen_bytes,           s->buffer_bytes };

    s->total = 0;
    for (size_t i = 0; i < TS_COUNT(parts); i++)
        if (!size_add(s->total, parts[i], &s->total))
            m->overflow = true;
}

/* Return whether matmuls round trained weights from fp32, as some backends do
 * (backend_ops.rounds_b).  fp16 keeps its copies, so that a weight that overflows to inf
 * is found there. */
static bool rounds_in_matmul(const struct plan *plan)
{
    static const bool rounds_b[] = {
        [DEVICE_CPU] = true, [DEVICE_CUDA] = false, [DEVICE_OTHER] = false
    };

    return rounds_b[plan->device.kind] && !plan->precision.fp8 &&
           shapes_stored(plan->precision.compute) == FORMAT_BF16 &&
           shapes_stored(plan->precision.trainable) == FORMAT_FP32;
}

/* A device whose backend records passes (backend_ops.begin) pads batches, which takes
 * room for whole units of fp8 matmuls and for one more sequence. */
static const bool pads_batches[] = {
    [DEVICE_CPU] = false, [DEVICE_CUDA] = true, [DEVICE_OTHER] = true
};
enum { ROW_UNIT = 16 };

size_t shapes_rows(const struct plan *plan, size_t rows)
{
    return pads_batches[plan->device.kind] ? size_round(rows, ROW_UNIT) : rows;
}

/* Lay out the buffers for a batch, after the parameters. */
static void lay_out_buffers(struct shapes_builder *m, size_t rows, size_t sequences)
{
    m->out->rows = rows;
    m->out->sequences = sequences;
    dims_batch(m, rows, sequences);
    shapes_media_dims(m, rows);
    dims_cache(m);
    dims_distill(m);
    dims_preference(m, sequences);
    shapes_add_buffers(m);
    sum_up(m);
}

/* Return whether the backward pass needs the input of a stack's matmuls, and it is an
 * output of a norm or of the activation, which it would otherwise compute again. */
static bool can_keep(const struct shapes_builder *m, enum stack stack)
{
    const struct lora *lora = &m->out->lora;
    bool trained = m->plan->method == METHOD_FULL || shapes_adapters(lora, stack) > 0;

    for (enum module i = stacks[stack].first; i <= stacks[stack].last; i++)
        trained |= lora->rotation.on && lora->adapted[i];
    for (enum module i = stacks[stack].first; i <= stacks[stack].last; i++)
        trained |= lora->saved[i];
    return (stack == STACK_QKV || stack == STACK_GATE_UP || stack == STACK_DOWN) &&
           trained && !m->out->checkpointing;
}

/* Use memory for something if what has been decided fits with it. */
static void use_if_fits(struct shapes_builder *m, bool *used, size_t rows,
                        size_t sequences)
{
    const uint64_t room = shapes_room_to_keep(m->plan);

    lay_out_buffers(m, rows, sequences);
    *used = *used && !m->overflow && m->out->total <= room;
}

/*
 * Take memory for speed if there is room, with full batches or the largest one: first for
 * larger chunks, then for inputs that need not be computed again, and for matrices that
 * need not be rounded to 8 bits again.
 *
 * Chunks change the bits.  So they must not depend on what is free, nor on where moments
 * and the weights of blocks are (zero_stage 2 and 3 give the same bits, and so does
 * offload_optimizer).
 */
static void use_room(struct shapes_builder *m, size_t rows, size_t sequences)
{
    const uint64_t room = shapes_room(m->plan);
    const size_t full =
        shapes_times(m, plan_batch_sequences(m->plan), (size_t)m->plan->cutoff_len);
    struct shapes *s = m->out;
    const bool trained_in_fp8 = m->plan->precision.fp8 && !plan_adapts(m->plan);
    const size_t on_host = s->offloads ? s->moments_bytes : 0;

    if (room == 0 || m->overflow)
        return;
    rows = max(rows, shapes_rows(m->plan, full));
    m->large_chunks = !s->shards_gradients;
    lay_out_buffers(m, rows, sequences);
    m->large_chunks =
        m->large_chunks && !m->overflow && on_host <= room && s->total <= room - on_host;
    s->rounds_once[ROUNDED_DY] = trained_in_fp8;
    use_if_fits(m, &s->rounds_once[ROUNDED_DY], rows, sequences);
    for (enum stack i = 0; i < STACKS; i++) {
        s->keeps[i] = can_keep(m, i);
        use_if_fits(m, &s->keeps[i], rows, sequences);
    }
    s->rounds_once[ROUNDED_X] = trained_in_fp8 && !s->checkpointing;
    use_if_fits(m, &s->rounds_once[ROUNDED_X], rows, sequences);
    s->rounds_once[ROUNDED_W] = m->plan->precision.fp8 && !s->shards_blocks;
    use_if_fits(m, &s->rounds_once[ROUNDED_W], rows, sequences);
    m->overflow = false;
}

bool shapes_make_for(const struct plan *plan, const struct model_config *config,
                     const struct shapes_batch *largest, struct arena *arena,
                     struct shapes *out, struct error *err)
{
    struct shapes_builder m = { .plan = plan,
                                .config = config,
                                .arena = arena,
                                .out = out,
                                .media_rows = largest->media_rows };
    const size_t sequences_max = largest->sequences;
    size_t batch = plan_batch_sequences(plan), rows, sequences;

    *out = (struct shapes) { .compute = shapes_stored(plan->precision.compute),
                             .trainable = shapes_stored(plan->precision.trainable),
                             .rounds_in_matmul = rounds_in_matmul(plan),
                             .quantized = shapes_is_quantized(plan, config),
                             .affine = config->quantized.affine,
                             .double_quant = config->quantized.enabled
                                                 ? config->quantized.double_quant
                                                 : plan->double_quantization,
                             .checkpointing = plan->gradient_checkpointing };
    if (!shapes_check(plan, config, &out->lora, err))
        return false;
    if (plan->stage >= STAGE_DPO && plan->stage != STAGE_RM)
        /* regardless of an adapter's own settings */
        out->lora.dropout = 0;
    rows = largest->rows ? largest->rows
                         : shapes_times(&m, batch, shapes_sequence_rows(plan, config));
    rows = max(rows, shapes_generation_rows(plan, config));
    rows = shapes_rows(plan, rows);
    sequences = (sequences_max ? sequences_max : batch) + pads_batches[plan->device.kind];
    shapes_dims_model(&m, config);
    shapes_projector_dims(&m);
    dims_lora(&m, &out->lora);
    dims_convert(&m, shapes_stored(plan->precision.frozen));
    m.dims[DIM_BRANCH_DX] = m.dims[DIM_BRANCH] ? m.dims[DIM_POST_DX] : 0;
    m.dims[DIM_BRANCH_COPY] = m.dims[DIM_BRANCH] ? m.dims[DIM_POST_COPY] : 0;
    shapes_add_parameters(&m);
    if (!shapes_rotation_dims(&m, err) || !shapes_check_pissa(&m, err) ||
        !shapes_check_projections(&m, err))
        return false;
    use_room(&m, rows, sequences);
    lay_out_buffers(&m, rows, sequences);
    if (m.overflow)
        return error_set(err, ERROR_DATA,
                         "the model or the batch is "
                         "too large: its size overflows");
    if (out->trainable_elements == 0 && !plan->generation.alone)
        return error_set(err, ERROR_JOB, "this job has nothing to train");
    return true;
}
