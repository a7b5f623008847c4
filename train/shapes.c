/* train/shapes.c - parameters and buffers as rows of two tables, and where each one lies.
 */
#include "config.h"

#include "train/shapes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* The logits of one chunk of rows: small enough for a cache, large enough that dW, which
 * every chunk reads and writes, is not the larger traffic. */
#define LOGITS_BYTES  ((size_t)32 << 20)
#define CHUNK_MAX     ((size_t)1024)
#define ALIGN_NUMBERS (SHAPES_ALIGNMENT / 2) /* aligned in every format */

/* What rows and columns of parameters and buffers are counted in. */
enum dim {
    DIM_NONE,
    DIM_ONE,
    DIM_N,    /* rows of the largest batch */
    DIM_RUNS, /* its sequences, and one */
    DIM_V,
    DIM_C,
    DIM_I,
    DIM_GATE_UP,
    DIM_H,
    DIM_D,
    DIM_Q,
    DIM_KV,
    DIM_QKV,
    DIM_WIDE,  /* max(C, H D) */
    DIM_CHUNK, /* rows of a classifier chunk */
    DIM_U_QKV,
    DIM_U_O,
    DIM_U_GATE_UP,
    DIM_U_DOWN, /* adapters over one input, times r */
    DIM_LORA_G, /* the widest of these */
    DIM_LORA_X, /* widest input under dropout */
    DIM_COPY,   /* C where the compute format is not fp32 */
    DIM_WEIGHT,
    DIM_BIAS, /* numbers to convert at a use */
    DIMS
};

static const struct module_row {
    const char *path;
    bool in_block, linear;
    enum dim rows, cols; /* a norm: one row */
} module_rows[MODULES] = {
    [MODULE_EMBED] = { "model.embed_tokens", false, false, DIM_V, DIM_C },
    [MODULE_NORM1] = { "input_layernorm", true, false, DIM_ONE, DIM_C },
    [MODULE_Q] = { "self_attn.q_proj", true, true, DIM_Q, DIM_C },
    [MODULE_K] = { "self_attn.k_proj", true, true, DIM_KV, DIM_C },
    [MODULE_V] = { "self_attn.v_proj", true, true, DIM_KV, DIM_C },
    [MODULE_O] = { "self_attn.o_proj", true, true, DIM_C, DIM_Q },
    [MODULE_NORM2] = { "post_attention_layernorm", true, false, DIM_ONE, DIM_C },
    [MODULE_GATE] = { "mlp.gate_proj", true, true, DIM_I, DIM_C },
    [MODULE_UP] = { "mlp.up_proj", true, true, DIM_I, DIM_C },
    [MODULE_DOWN] = { "mlp.down_proj", true, true, DIM_C, DIM_I },
    [MODULE_NORM] = { "model.norm", false, false, DIM_ONE, DIM_C },
    [MODULE_HEAD] = { "lm_head", false, false, DIM_V, DIM_C },
};

/* What lies side by side, in the order of the layout; a group begins aligned. */
struct group {
    enum part part;
    enum module first, last;
};

static const struct group before_blocks[] = {
    { PART_WEIGHT, MODULE_EMBED, MODULE_EMBED },
};

static const struct group block_groups[] = {
    { PART_WEIGHT, MODULE_NORM1, MODULE_NORM1 },
    { PART_WEIGHT, MODULE_Q, MODULE_V },
    { PART_BIAS, MODULE_Q, MODULE_V },
    { PART_LORA_A, MODULE_Q, MODULE_V },
    { PART_LORA_B, MODULE_Q, MODULE_Q },
    { PART_LORA_B, MODULE_K, MODULE_K },
    { PART_LORA_B, MODULE_V, MODULE_V },
    { PART_WEIGHT, MODULE_O, MODULE_O },
    { PART_BIAS, MODULE_O, MODULE_O },
    { PART_LORA_A, MODULE_O, MODULE_O },
    { PART_LORA_B, MODULE_O, MODULE_O },
    { PART_WEIGHT, MODULE_NORM2, MODULE_NORM2 },
    { PART_WEIGHT, MODULE_GATE, MODULE_UP },
    { PART_BIAS, MODULE_GATE, MODULE_UP },
    { PART_LORA_A, MODULE_GATE, MODULE_UP },
    { PART_LORA_B, MODULE_GATE, MODULE_GATE },
    { PART_LORA_B, MODULE_UP, MODULE_UP },
    { PART_WEIGHT, MODULE_DOWN, MODULE_DOWN },
    { PART_BIAS, MODULE_DOWN, MODULE_DOWN },
    { PART_LORA_A, MODULE_DOWN, MODULE_DOWN },
    { PART_LORA_B, MODULE_DOWN, MODULE_DOWN },
};

static const struct group after_blocks[] = {
    { PART_WEIGHT, MODULE_NORM, MODULE_NORM },
    { PART_WEIGHT, MODULE_HEAD, MODULE_HEAD },
};

enum kind { KIND_FP32, KIND_COMPUTE };
/* How long a buffer lives: in every block whatever is recomputed, in every block unless
 * blocks are recomputed (and only if the products over it have something to train), or
 * once. */
enum life {
    LIFE_BLOCK,
    LIFE_KEPT,
    LIFE_KEPT_QKV,
    LIFE_KEPT_GATE_UP,
    LIFE_KEPT_DOWN,
    LIFE_ONCE
};

static const struct buffer_row {
    const char *name;
    enum kind kind;
    enum dim rows, cols;
    enum life life;
    bool activation;
} buffer_rows[BUFFERS] = {
    [BUFFER_X_IN] = { "block input", KIND_FP32, DIM_N, DIM_C, LIFE_BLOCK, true },
    [BUFFER_RSTD1] = { "first norm", KIND_FP32, DIM_ONE, DIM_N, LIFE_KEPT, true },
    [BUFFER_H1] = { "first norm", KIND_COMPUTE, DIM_N, DIM_C, LIFE_KEPT_QKV, true },
    [BUFFER_QKV] = { "q, k, v", KIND_COMPUTE, DIM_N, DIM_QKV, LIFE_KEPT, true },
    [BUFFER_ATT] = { "attention", KIND_COMPUTE, DIM_N, DIM_Q, LIFE_KEPT, true },
    [BUFFER_LSE] = { "attention", KIND_FP32, DIM_H, DIM_N, LIFE_KEPT, true },
    [BUFFER_X_MID] = { "after attention", KIND_FP32, DIM_N, DIM_C, LIFE_KEPT, true },
    [BUFFER_RSTD2] = { "second norm", KIND_FP32, DIM_ONE, DIM_N, LIFE_KEPT, true },
    [BUFFER_H2] = { "second norm", KIND_COMPUTE, DIM_N, DIM_C, LIFE_KEPT_GATE_UP, true },
    [BUFFER_GATE_UP] = { "gate, up", KIND_COMPUTE, DIM_N, DIM_GATE_UP, LIFE_KEPT, true },
    [BUFFER_ACT] = { "swiglu", KIND_COMPUTE, DIM_N, DIM_I, LIFE_KEPT_DOWN, true },
    [BUFFER_U_QKV] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_QKV, LIFE_KEPT, true },
    [BUFFER_U_O] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_O, LIFE_KEPT, true },
    [BUFFER_U_GATE_UP] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_GATE_UP, LIFE_KEPT, true },
    [BUFFER_U_DOWN] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_DOWN, LIFE_KEPT, true },
    [BUFFER_X_LAST] = { "last norm", KIND_FP32, DIM_N, DIM_C, LIFE_ONCE, true },
    [BUFFER_RSTD] = { "last norm", KIND_FP32, DIM_ONE, DIM_N, LIFE_ONCE, true },
    [BUFFER_H_LAST] = { "last norm", KIND_COMPUTE, DIM_N, DIM_C, LIFE_ONCE, true },
    [BUFFER_DELTA] = { "residual", KIND_FP32, DIM_N, DIM_C, LIFE_ONCE, true },
    [BUFFER_DX] = { "gradient", KIND_FP32, DIM_N, DIM_C, LIFE_ONCE, true },
    [BUFFER_DX_COPY] = { "gradient", KIND_COMPUTE, DIM_N, DIM_COPY, LIFE_ONCE, true },
    [BUFFER_DH] = { "gradient", KIND_COMPUTE, DIM_N, DIM_WIDE, LIFE_ONCE, true },
    [BUFFER_DQKV] = { "gradient", KIND_COMPUTE, DIM_N, DIM_QKV, LIFE_ONCE, true },
    [BUFFER_DACT] = { "gradient", KIND_COMPUTE, DIM_N, DIM_I, LIFE_ONCE, true },
    [BUFFER_DLSE] = { "gradient", KIND_FP32, DIM_H, DIM_N, LIFE_ONCE, true },
    [BUFFER_LORA_G] = { "lora gradient", KIND_COMPUTE, DIM_N, DIM_LORA_G, LIFE_ONCE,
                        true },
    [BUFFER_LORA_X] = { "lora dropout", KIND_COMPUTE, DIM_N, DIM_LORA_X, LIFE_ONCE,
                        true },
    [BUFFER_WEIGHT] = { "weight", KIND_COMPUTE, DIM_ONE, DIM_WEIGHT, LIFE_ONCE, false },
    [BUFFER_BIAS] = { "bias", KIND_FP32, DIM_ONE, DIM_BIAS, LIFE_ONCE, false },
    [BUFFER_LOGITS] = { "logits", KIND_FP32, DIM_CHUNK, DIM_V, LIFE_ONCE, false },
    [BUFFER_DLOGITS] = { "logits", KIND_COMPUTE, DIM_CHUNK, DIM_V, LIFE_ONCE, false },
    [BUFFER_GATHERED] = { "labelled", KIND_COMPUTE, DIM_CHUNK, DIM_C, LIFE_ONCE, false },
    [BUFFER_DGATHERED] = { "labelled", KIND_COMPUTE, DIM_CHUNK, DIM_C, LIFE_ONCE, false },
    [BUFFER_LOSSES] = { "losses", KIND_FP32, DIM_ONE, DIM_N, LIFE_ONCE, false },
    [BUFFER_ROPE] = { "rotations", KIND_FP32, DIM_N, DIM_D, LIFE_ONCE, false },
    [BUFFER_TOKENS] = { "tokens", KIND_FP32, DIM_ONE, DIM_N, LIFE_ONCE, false },
    [BUFFER_POSITIONS] = { "positions", KIND_FP32, DIM_ONE, DIM_N, LIFE_ONCE, false },
    [BUFFER_TARGETS] = { "targets", KIND_FP32, DIM_ONE, DIM_N, LIFE_ONCE, false },
    [BUFFER_OFFSETS] = { "offsets", KIND_FP32, DIM_ONE, DIM_RUNS, LIFE_ONCE, false },
    [BUFFER_NUMBER] = { "number", KIND_FP32, DIM_ONE, DIM_RUNS, LIFE_ONCE, false },
};

/* Everything the layout is made from. */
struct maker {
    const struct plan *plan;
    const struct model_config *config;
    struct arena *arena;
    struct shapes *out;
    size_t dims[DIMS];
    size_t room;
    size_t numbers, frozen, copies; /* where the next one goes */
    bool overflow;
};

const char *shapes_module(enum module module)
{
    return module_rows[module].path;
}

/* The storage a format has: TF32 is FP32 in memory. */
static enum format stored(enum format format)
{
    return format == FORMAT_TF32 || format >= FORMAT_COUNT ? FORMAT_FP32 : format;
}

static size_t times(struct maker *m, size_t a, size_t b)
{
    size_t product;

    if (size_mul(a, b, &product) && product < SIZE_MAX / 8)
        return product;
    m->overflow = true;
    return 0;
}

static size_t adapters(const struct lora *lora, enum module first, enum module last)
{
    size_t count = 0;

    for (enum module i = first; i <= last; i++)
        count += lora->adapted[i];
    return count * lora->rank;
}

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void dims_model(struct maker *m, const struct model_config *c)
{
    size_t *d = m->dims;

    d[DIM_ONE] = 1;
    d[DIM_V] = c->vocab_size;
    d[DIM_C] = c->hidden_size;
    d[DIM_I] = c->intermediate_size;
    d[DIM_GATE_UP] = 2 * c->intermediate_size;
    d[DIM_H] = c->heads;
    d[DIM_D] = c->head_size;
    d[DIM_Q] = times(m, c->heads, c->head_size);
    d[DIM_KV] = times(m, c->kv_heads, c->head_size);
    d[DIM_QKV] = d[DIM_Q] + 2 * d[DIM_KV];
    d[DIM_WIDE] = max(d[DIM_C], d[DIM_Q]);
}

static void dims_lora(struct maker *m, const struct lora *lora)
{
    static const enum dim widths[] = { DIM_U_QKV, DIM_U_O, DIM_U_GATE_UP, DIM_U_DOWN };
    size_t *d = m->dims;

    d[DIM_U_QKV] = adapters(lora, MODULE_Q, MODULE_V);
    d[DIM_U_O] = adapters(lora, MODULE_O, MODULE_O);
    d[DIM_U_GATE_UP] = adapters(lora, MODULE_GATE, MODULE_UP);
    d[DIM_U_DOWN] = adapters(lora, MODULE_DOWN, MODULE_DOWN);
    for (size_t i = 0; i < TS_COUNT(widths); i++)
        d[DIM_LORA_G] = max(d[DIM_LORA_G], d[widths[i]]);
    for (enum module i = 0; lora->dropout > 0 && i < MODULES; i++)
        if (lora->adapted[i])
            d[DIM_LORA_X] = max(d[DIM_LORA_X], d[module_rows[i].cols]);
}

/* Weights that are not in the format products want are converted when they are used. */
static void dims_convert(struct maker *m, enum format frozen)
{
    const struct shapes *s = m->out;
    bool any_frozen = m->plan->method != METHOD_FULL;
    size_t *d = m->dims;

    if (s->compute != FORMAT_FP32)
        d[DIM_COPY] = d[DIM_C];
    if (s->compute == FORMAT_FP32 &&
        ((any_frozen && frozen != FORMAT_FP32) || s->trainable != FORMAT_FP32)) {
        d[DIM_WEIGHT] = times(m, d[DIM_GATE_UP], d[DIM_C]);
        d[DIM_WEIGHT] = max(d[DIM_WEIGHT], times(m, d[DIM_QKV], d[DIM_C]));
        d[DIM_WEIGHT] = max(d[DIM_WEIGHT], times(m, d[DIM_V], d[DIM_C]));
    }
    if (s->trainable != FORMAT_FP32)
        d[DIM_BIAS] = max(d[DIM_QKV], max(d[DIM_GATE_UP], d[DIM_C]));
}

static void dims_batch(struct maker *m, size_t rows, size_t sequences)
{
    size_t *d = m->dims;
    size_t chunk = LOGITS_BYTES / sizeof(float) / d[DIM_V];

    chunk = max(chunk & ~(size_t)15, 16);
    chunk = chunk < CHUNK_MAX ? chunk : CHUNK_MAX;
    d[DIM_N] = rows;
    d[DIM_RUNS] = max(sequences + 1, 2); /* a double too fits in two */
    d[DIM_CHUNK] = chunk < rows ? chunk : rows;
}

/* LLaMA-Factory: the last (or, below 0, the first) layers, whole or some of their
 * modules. */
static bool freeze_trains(const struct maker *m, enum module module, size_t layer)
{
    int64_t wanted = m->plan->freeze_trainable_layers;
    const char *modules = m->plan->freeze_trainable_modules;
    const char *path = module_rows[module].path;
    size_t length = strcspn(path, ".");
    size_t layers = m->config->layers;

    if (!module_rows[module].in_block)
        return false;
    if (wanted >= 0 ? layer + (size_t)wanted < layers : layer >= (size_t)-wanted)
        return false;
    if (!modules || strcmp(modules, "all") == 0)
        return true;
    while (*modules) {
        size_t skip = strspn(modules, ", "), name = strcspn(modules + skip, ", ");

        if (name == length && strncmp(modules + skip, path, length) == 0)
            return true;
        modules += skip + name;
    }
    return false;
}

static bool is_trainable(const struct maker *m, enum module module, enum part part,
                         size_t layer)
{
    if (part == PART_LORA_A || part == PART_LORA_B)
        return true;
    switch (m->plan->method) {
    case METHOD_FULL:
        return true;
    case METHOD_FREEZE:
        return freeze_trains(m, module, layer);
    case METHOD_LORA:
        return m->out->lora.saved[module];
    }
    return false;
}

/* Is there such a parameter at all? */
static bool exists(const struct maker *m, enum module module, enum part part)
{
    const struct model_config *c = m->config;

    switch (part) {
    case PART_WEIGHT:
        return module != MODULE_HEAD || !c->tied;
    case PART_BIAS:
        if (module == MODULE_O)
            return c->output_bias;
        return module <= MODULE_V ? c->qkv_bias : c->mlp_bias;
    case PART_LORA_A:
    case PART_LORA_B:
        return m->out->lora.adapted[module];
    }
    return false;
}

static const char *name_of(const struct maker *m, const struct shape_parameter *p)
{
    static const char *const suffix[] = { ".weight", ".bias", ".lora_A.weight",
                                          ".lora_B.weight" };
    const char *prefix = p->part >= PART_LORA_A ? "base_model.model." : "";
    const char *path = module_rows[p->module].path;

    if (module_rows[p->module].in_block)
        return arena_printf(m->arena, "%smodel.layers.%zu.%s%s", prefix, p->layer, path,
                            suffix[p->part]);
    return arena_printf(m->arena, "%s%s%s", prefix, path, suffix[p->part]);
}

static void shape_of(const struct maker *m, struct shape_parameter *p)
{
    const struct module_row *row = &module_rows[p->module];

    p->rows = m->dims[row->rows];
    p->cols = m->dims[row->cols];
    if (p->part == PART_LORA_A)
        p->rows = m->out->lora.rank;
    if (p->part == PART_LORA_B)
        p->cols = m->out->lora.rank;
    if (p->part == PART_BIAS) {
        p->cols = p->rows;
        p->rows = 1;
    }
    p->rank = row->rows == DIM_ONE || p->part == PART_BIAS ? 1 : 2;
}

/* Formats of storage and working copy; the head of this page in shapes.h says which and
 * why. */
static void formats_of(const struct maker *m, struct shape_parameter *p)
{
    const struct shapes *s = m->out;
    enum format frozen = stored(m->plan->precision.frozen);
    bool looked_up = p->module == MODULE_EMBED;
    bool multiplied = p->rank == 2 && (!looked_up || m->config->tied);

    p->copy = FORMAT_COUNT;
    p->format = p->trainable ? s->trainable : p->rank == 1 ? FORMAT_FP32 : frozen;
    if (!multiplied || s->compute == FORMAT_FP32 || p->format == s->compute)
        return;
    if (p->trainable || looked_up)
        p->copy = s->compute;
    else
        p->format = s->compute;
}

static void place(struct maker *m, struct shape_parameter *p)
{
    size_t numbers = times(m, p->rows, p->cols);
    size_t bytes = times(m, numbers, format_info(p->format)->bytes);

    if (p->trainable) {
        p->at = m->numbers;
        m->numbers += numbers;
        m->out->trainable_numbers += numbers;
    } else {
        p->at = m->frozen;
        m->frozen += bytes;
    }
    if (p->copy != FORMAT_COUNT) {
        p->copy_at = m->copies;
        m->copies += times(m, numbers, format_info(p->copy)->bytes);
    }
    m->out->numbers += numbers;
    if (m->numbers > SIZE_MAX / 64 || m->frozen > SIZE_MAX / 8 ||
        m->copies > SIZE_MAX / 8)
        m->overflow = true;
}

static void add_parameter(struct maker *m, enum module module, enum part part,
                          size_t layer)
{
    struct shape_parameter *p = &m->out->parameters[m->out->count++];
    double plus = m->plan->loraplus_lr_ratio;

    *p = (struct shape_parameter) { .module = module, .part = part, .layer = layer };
    shape_of(m, p);
    p->name = name_of(m, p);
    p->trainable = is_trainable(m, module, part, layer);
    p->decays =
        p->trainable && p->rank == 2; /* as transformers' get_decay_parameter_names */
    /* LoRA+: B matrices and vectors; LLaMA-Factory's _create_loraplus_optimizer */
    p->lr_factor = plus > 0 && (part == PART_LORA_B || p->rank == 1) ? plus : 1;
    formats_of(m, p);
    place(m, p);
}

static void add_groups(struct maker *m, const struct group *groups, size_t count,
                       size_t layer)
{
    for (size_t i = 0; i < count && !m->overflow; i++) {
        m->numbers = size_round(m->numbers, ALIGN_NUMBERS);
        m->frozen = size_round(m->frozen, SHAPES_ALIGNMENT);
        m->copies = size_round(m->copies, SHAPES_ALIGNMENT);
        for (enum module j = groups[i].first; j <= groups[i].last; j++)
            if (exists(m, j, groups[i].part))
                add_parameter(m, j, groups[i].part, layer);
    }
}

static void add_parameters(struct maker *m)
{
    struct shapes *s = m->out;
    size_t moments = m->plan->optimizer == OPTIMIZER_ADAMW ? 1 : 0;

    /* no group of the tables has more than three members */
    s->parameters =
        arena_array(m->arena, 3 + m->config->layers * 3 * TS_COUNT(block_groups),
                    sizeof(*s->parameters));
    add_groups(m, before_blocks, TS_COUNT(before_blocks), 0);
    for (size_t l = 0; l < m->config->layers; l++)
        add_groups(m, block_groups, TS_COUNT(block_groups), l);
    add_groups(m, after_blocks, TS_COUNT(after_blocks), 0);
    s->segment = size_round(m->numbers, ALIGN_NUMBERS);
    s->weight_bytes = s->segment * format_info(s->trainable)->bytes;
    s->gradient_bytes = s->segment * sizeof(float);
    s->moment_bytes = moments * s->weight_bytes;
    s->copy_bytes = size_round(m->copies, SHAPES_ALIGNMENT);
    s->frozen_bytes = size_round(m->frozen, SHAPES_ALIGNMENT);
}

/* Do the products over one input have anything to train, in any block? */
static bool trains(const struct maker *m, enum module first, enum module last)
{
    for (size_t i = 0; i < m->out->count; i++) {
        const struct shape_parameter *p = &m->out->parameters[i];

        if (p->trainable && p->module >= first && p->module <= last)
            return true;
    }
    return false;
}

static size_t instances(const struct maker *m, enum life life)
{
    size_t layers = m->config->layers;
    size_t kept = m->out->checkpointing ? 1 : layers;

    switch (life) {
    case LIFE_BLOCK:
        return layers;
    case LIFE_KEPT:
        return kept;
    case LIFE_KEPT_QKV:
        return trains(m, MODULE_Q, MODULE_V) ? kept : 1;
    case LIFE_KEPT_GATE_UP:
        return trains(m, MODULE_GATE, MODULE_UP) ? kept : 1;
    case LIFE_KEPT_DOWN:
        return trains(m, MODULE_DOWN, MODULE_DOWN) ? kept : 1;
    case LIFE_ONCE:
        break;
    }
    return 1;
}

static void add_buffers(struct maker *m)
{
    size_t at = 0;

    for (enum buffer i = 0; i < BUFFERS; i++) {
        const struct buffer_row *row = &buffer_rows[i];
        struct shape_buffer *b = &m->out->buffers[i];
        size_t bytes;

        *b = (struct shape_buffer) {
            .name = row->name,
            .format = row->kind == KIND_COMPUTE ? m->out->compute : FORMAT_FP32,
            .rows = m->dims[row->rows],
            .cols = m->dims[row->cols],
            .rows_are_n = row->rows == DIM_N,
            .cols_are_n = row->cols == DIM_N,
            .activation = row->activation,
            .count = instances(m, row->life),
            .at = at,
        };
        bytes = times(m, times(m, b->rows, b->cols), format_info(b->format)->bytes);
        b->step = size_round(bytes, SHAPES_ALIGNMENT);
        if (!size_add(at, times(m, b->step, b->count), &at))
            m->overflow = true;
    }
    m->out->buffer_bytes = at;
}

static void sum_up(struct maker *m)
{
    struct shapes *s = m->out;
    const size_t parts[] = { s->weight_bytes, s->gradient_bytes, s->moment_bytes,
                             s->moment_bytes, s->copy_bytes,     s->frozen_bytes,
                             s->buffer_bytes };

    s->total = 0;
    for (size_t i = 0; i < TS_COUNT(parts); i++)
        if (!size_add(s->total, parts[i], &s->total))
            m->overflow = true;
}

static bool check_plan(const struct plan *plan, const struct model_config *config,
                       struct error *err)
{
    if (plan->method == METHOD_LORA && plan->train_from_scratch)
        return error_set(
            err, ERROR_JOB,
            "train_from_scratch wants finetuning_type: full, not lora: there is "
            "nothing to adapt yet");
    if (plan->method == METHOD_FREEZE && plan->freeze_trainable_layers == 0)
        return error_set(err, ERROR_JOB,
                         "freeze_trainable_layers: 0 leaves nothing to train");
    (void)config;
    return true;
}

bool shapes_make(const struct plan *plan, const struct model_config *config,
                 size_t rows_max, size_t sequences_max, struct arena *arena,
                 struct shapes *out, struct error *err)
{
    struct maker m = { .plan = plan, .config = config, .arena = arena, .out = out };
    size_t batch = (size_t)plan->per_device_train_batch_size;

    *out = (struct shapes) { .compute = stored(plan->precision.compute),
                             .trainable = stored(plan->precision.trainable),
                             .checkpointing = plan->gradient_checkpointing };
    if (!check_plan(plan, config, err) || !lora_read(plan, &out->lora, err))
        return false;
    if (config->tied && out->lora.saved[MODULE_HEAD])
        return error_set(
            err, ERROR_JOB,
            "additional_target lm_head: this model's head is its embed_tokens; "
            "name embed_tokens instead");
    out->rows = rows_max ? rows_max : times(&m, batch, (size_t)plan->cutoff_len);
    out->sequences = sequences_max ? sequences_max : batch;
    dims_model(&m, config);
    dims_lora(&m, &out->lora);
    dims_convert(&m, stored(plan->precision.frozen));
    dims_batch(&m, out->rows, out->sequences);
    add_parameters(&m);
    add_buffers(&m);
    sum_up(&m);
    if (m.overflow)
        return error_set(err, ERROR_DATA, "the model or the batch is too large to count");
    if (out->trainable_numbers == 0)
        return error_set(err, ERROR_JOB, "this job has nothing to train");
    return true;
}

bool shapes_memory(const struct plan *plan, const struct model_config *config,
                   size_t rows_max, size_t sequences_max, struct memory_use *out,
                   struct error *err)
{
    struct arena *arena = arena_new();
    struct shapes shapes;
    bool ok = shapes_make(plan, config, rows_max, sequences_max, arena, &shapes, err);

    *out = (struct memory_use) { .fits = true };
    if (ok)
        shapes_use(&shapes, out);
    arena_free(arena);
    return ok;
}

void shapes_use(const struct shapes *shapes, struct memory_use *out)
{
    *out = (struct memory_use) {
        .weights = shapes->weight_bytes + shapes->copy_bytes + shapes->frozen_bytes,
        .gradients = shapes->gradient_bytes,
        .optimizer = 2 * shapes->moment_bytes,
        .total = shapes->total,
        .fits = true,
    };
    for (enum buffer i = 0; i < BUFFERS; i++) {
        const struct shape_buffer *b = &shapes->buffers[i];

        *(b->activation ? &out->activations : &out->workspace) += b->step * b->count;
    }
}
