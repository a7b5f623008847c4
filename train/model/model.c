/* train/model/model.c - allocates the block of memory and sets up every parameter and
 * layer. */
#include "config.h"

#include "train/model/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "precision/nf4.h"
#include "train/model/model_dora.h"
#include "train/model/model_internal.h"
#include "train/model/shapes.h"

/* Start of each segment of the block, and of the buffer that weights are dequantized
 * into. */
struct segments {
    char *weights, *moments[MOMENTS_MAX], *copies, *frozen, *windows, *scratch;
    size_t window_bytes;
    float *gradients;
};

static struct segments segments_of(const struct shapes *s, char *block)
{
    struct segments at = { .weights = block };

    at.gradients = (float *)(void *)(at.weights + s->weight_bytes);
    at.copies = at.weights + s->weight_bytes + s->gradient_bytes;
    for (size_t i = 0; i < s->moments && !s->offloads; i++) {
        at.moments[i] = at.copies;
        at.copies += s->moment_bytes[i];
    }
    at.frozen = at.copies + s->copy_bytes;
    at.windows = at.frozen + s->windows_at;
    at.window_bytes = s->window_bytes;
    at.scratch = at.frozen + s->frozen_bytes + s->buffers[BUFFER_WEIGHT].at;
    return at;
}

static struct quantized place_quantized(const char *at, size_t elements,
                                        bool double_quant)
{
    struct nf4_layout parts = nf4_layout(elements, double_quant);
    struct quantized out = { .codes = (const uint8_t *)at,
                             .absmax = (const void *)(at + parts.absmax) };

    if (double_quant) {
        out.bytes = (const uint8_t *)at + parts.bytes;
        out.map = (const void *)(at + parts.map);
    }
    return out;
}

/* Return the position of a gathered weight or copy. */
static char *window_of(const struct segments *at, const struct shape_parameter *from)
{
    return at->windows + from->layer % SHAPES_WINDOWS * at->window_bytes +
           from->window_at;
}

static char *copy_of(const struct segments *at, const struct shape_parameter *from)
{
    if (from->gathered && !from->quantized)
        return window_of(at, from);
    return (from->folded      ? at->frozen
            : from->quantized ? at->scratch
                              : at->copies) +
           from->copy_at;
}

static void place_parameter(const struct segments *at, const struct shape_parameter *from,
                            bool double_quant, struct parameter *to)
{
    size_t bytes = format_info(from->format)->bytes;
    char *frozen = from->gathered ? window_of(at, from) : at->frozen + from->at;

    *to = (struct parameter) { .name = from->name,
                               .rank = from->rank,
                               .rows = from->rows,
                               .cols = from->cols,
                               .trainable = from->trainable,
                               .decays = from->decays,
                               .stored = from->stored,
                               .lr_factor = from->lr_factor };
    if (from->quantized)
        to->quantized = place_quantized(frozen, from->rows * from->cols, double_quant);
    else
        to->weight =
            tensor_of(from->trainable ? at->weights + from->weight_at * bytes : frozen,
                      from->format, from->rows, from->cols);
    to->sharded = from->sharded;
    to->gathered = from->gathered;
    if (from->sharded)
        to->weight.data = NULL;
    if (from->copy != FORMAT_COUNT)
        to->copy = tensor_of(copy_of(at, from), from->copy, from->rows, from->cols);
    if (!from->trainable)
        return;
    to->at = from->at;
    to->moments = from->moments;
    to->grad =
        tensor_of(at->gradients + from->grad_at, FORMAT_FP32, from->rows, from->cols);
}

static int compare_places(const void *a, const void *b)
{
    size_t left = (*(struct parameter *const *)a)->at,
           right = (*(struct parameter *const *)b)->at;

    return (left > right) - (left < right);
}

static void list_trained(struct model *m)
{
    m->trained = arena_array(m->arena, m->shapes.count, sizeof(struct parameter *));
    for (size_t i = 0; i < m->shapes.count; i++)
        if (m->parameters[i].trainable)
            m->trained[m->trained_count++] = &m->parameters[i];
    qsort(m->trained, m->trained_count, sizeof(struct parameter *), compare_places);
}

static size_t slot(enum module module, enum part part, size_t layer)
{
    return (layer * MODULES + module) * PARTS + part;
}

static struct parameter *find(const struct model *m, enum module module, enum part part,
                              size_t layer)
{
    return m->slots[slot(module, part, layer)];
}

/* Index the parameters by layer, module and part. */
static void fill_slots(struct model *m)
{
    m->slots =
        arena_array(m->arena, slot(0, 0, m->config->layers), sizeof(struct parameter *));
    for (size_t i = 0; i < m->shapes.count; i++) {
        const struct shape_parameter *p = &m->shapes.parameters[i];

        m->slots[slot(p->module, p->part, p->layer)] = &m->parameters[i];
    }
}

/* Return the operand of a matmul. */
static struct tensor matmul_operand(const struct parameter *p)
{
    return p->copy.data ? p->copy : p->weight;
}

/* Return whether b directly follows a in memory, so that both are one matrix (or are both
 * absent). */
static bool is_adjacent(struct tensor a, struct tensor b, bool vector)
{
    size_t bytes;

    if (!a.data || !b.data)
        return !a.data && !b.data;
    bytes = a.rows * a.cols * format_info(a.format)->bytes;
    return a.format == b.format && (vector || a.cols == b.cols) &&
           (char *)a.data + bytes == (char *)b.data;
}

static void add_rows(struct tensor *a, struct tensor b)
{
    if (a->data)
        a->rows += b.rows;
}

static void add_columns(struct tensor *a, struct tensor b)
{
    if (a->data)
        *a = tensor_of(a->data, a->format, 1, a->cols + b.cols);
}

/* Append a linear layer, or extend the last one by it. */
static void append_linear(struct linear *list, size_t *count, const struct linear *next)
{
    struct linear *last = *count > 0 ? &list[*count - 1] : NULL;

    if (!last || !is_adjacent(last->weight, next->weight, false) ||
        !is_adjacent(last->grad, next->grad, false) ||
        !is_adjacent(last->bias, next->bias, true) ||
        !is_adjacent(last->bias_grad, next->bias_grad, true) ||
        last->in_first != next->in_first) {
        list[(*count)++] = *next;
        return;
    }
    add_rows(&last->weight, next->weight);
    add_rows(&last->grad, next->grad);
    add_columns(&last->bias, next->bias);
    add_columns(&last->bias_grad, next->bias_grad);
    for (size_t i = 0; i < next->quantized_count; i++)
        last->quantized[last->quantized_count++] = next->quantized[i];
    last->out_count += next->out_count;
}

static struct linear linear_of(const struct parameter *weight,
                               const struct parameter *bias, size_t first, size_t from)
{
    struct linear p = { .weight = matmul_operand(weight),
                        .grad = weight->grad,
                        .out_first = first,
                        .out_count = weight->rows,
                        .in_first = from,
                        .in_count = weight->cols };

    if (weight->quantized.codes)
        p.quantized[p.quantized_count++] = weight;
    if (bias) {
        p.bias = bias->weight;
        p.bias_grad = bias->grad;
    }
    return p;
}

/* Make W and A one matrix: the layout puts A's copy after W, and zeros after W's bias. */
static void fold(struct linear_stack *l)
{
    l->fused = l->base[0];
    assert(l->base_count == 1 && l->lora_a_count == 1 &&
           is_adjacent(l->fused.weight, l->lora_a[0].weight, false));
    add_rows(&l->fused.weight, l->lora_a[0].weight);
    if (l->fused.bias.data)
        l->fused.bias =
            tensor_of(l->fused.bias.data, l->fused.bias.format, 1, l->y_cols + l->u_cols);
    l->fused.out_count = l->y_cols + l->u_cols;
}

static const enum dropout_site lora_dropout[STACKS] = { [STACK_QKV] = DROP_LORA_QKV,
                                                        [STACK_O] = DROP_LORA_O,
                                                        [STACK_GATE_UP] =
                                                            DROP_LORA_GATE_UP,
                                                        [STACK_DOWN] = DROP_LORA_DOWN };

/* The rooms for weight and input are after those of the block's earlier modules. */
static void place_rooms(const struct model *m, enum module module, struct linear *p)
{
    enum stack last = STACKS;
    size_t weights = 0, inputs = 0;

    for (enum module i = 0; i < module; i++) {
        const enum stack stack = shapes_stack(i);
        const struct parameter *weight =
            stack < STACKS ? find(m, i, PART_WEIGHT, p->layer) : NULL;

        if (!weight)
            continue;
        weights += weight->rows * weight->cols;
        if (stack != last && stack != shapes_stack(module))
            inputs += weight->cols;
        last = stack;
    }
    p->w_room = shapes_room_at(module, 2 * weights);
    p->x_room = shapes_room_at(shapes_stack(module), m->shapes.rows * inputs);
}

/* Set up the linear layers first .. last of a block. */
static void make_stack(const struct model *m, size_t layer, enum module first,
                       enum module last, struct linear_stack *out)
{
    size_t y = 0, u = 0, rank = m->shapes.lora.rank;

    for (enum module i = first; i <= last; i++) {
        const struct parameter *weight = find(m, i, PART_WEIGHT, layer);
        const struct parameter *bias = find(m, i, PART_BIAS, layer);
        const struct parameter *a = find(m, i, PART_LORA_A, layer);
        const struct parameter *b = find(m, i, PART_LORA_B, layer);
        struct linear p;

        if (!weight)
            continue;
        p = linear_of(weight, bias, y, 0);
        p.fp8 = m->plan->precision.fp8;
        p.layer = layer;
        p.dy_room = shapes_room_at(i, m->shapes.rows * y);
        place_rooms(m, i, &p);
        append_linear(out->base, &out->base_count, &p);
        if (a) {
            p = linear_of(a, NULL, u, 0);
            append_linear(out->lora_a, &out->lora_a_count, &p);
            out->lora_b[out->lora_b_count++] = linear_of(b, NULL, y, u);
            u += rank;
        }
        y += weight->rows;
        out->trained =
            out->trained || weight->trainable || (bias && bias->trainable) || a;
    }
    /* a matmul whose bias is added later processes the rows of x in parts */
    out->base[0].rounds_x = out->base[0].fp8 && out->base_count == 1 &&
                            out->base[0].grad.data && !out->base[0].bias.data;
    out->dropout_stream = dropout_stream(layer, lora_dropout[shapes_stack(first)]);
    out->y_cols = y;
    out->u_cols = u;
    if (m->shapes.lora.dora && u > 0)
        dora_open(m, layer, first, last, out);
    if (out->folded)
        fold(out);
}

/* u is in a separate buffer, or follows y in the buffer of y. */
static struct linear_stack stack_of(const struct model *m, enum stack stack,
                                    enum buffer separate, enum buffer y)
{
    bool folded = m->shapes.folded[stack], u_after_y = folded && y != separate;

    return (struct linear_stack) { .folded = folded,
                                   .u_after_y = u_after_y,
                                   .u = u_after_y ? y : separate };
}

static struct norm norm_of(const struct model *m, enum module module, size_t layer)
{
    return (struct norm) { find(m, module, PART_WEIGHT, layer),
                           find(m, module, PART_BIAS, layer) };
}

static void make_block(const struct model *m, size_t layer, struct block *out)
{
    const struct model_config *c = m->config;
    bool windowed = c->windowed && c->windowed[layer];
    double scale = c->score_scale / (double)(c->score_by_layer ? layer + 1 : 1);

    *out = (struct block) {
        .norm1 = norm_of(m, MODULE_NORM1, layer),
        .norm2 = norm_of(m, MODULE_NORM2, layer),
        .q_norm = norm_of(m, MODULE_Q_NORM, layer),
        .k_norm = norm_of(m, MODULE_K_NORM, layer),
        .post1 = norm_of(m, MODULE_POST1, layer),
        .post2 = norm_of(m, MODULE_POST2, layer),
        .qkv = stack_of(m, STACK_QKV, BUFFER_U_QKV, BUFFER_QKV),
        .o = stack_of(m, STACK_O, BUFFER_U_O, BUFFER_U_O),
        .gate_up = stack_of(m, STACK_GATE_UP, BUFFER_U_GATE_UP, BUFFER_GATE_UP),
        .down = stack_of(m, STACK_DOWN, BUFFER_U_DOWN, BUFFER_U_DOWN),
        .window = windowed ? c->sliding_window : 0,
        .rotates = c->rotary > 0 && (!c->rotated || c->rotated[layer]),
        .rope = windowed && c->has_local ? BUFFER_ROPE_LOCAL : BUFFER_ROPE,
        .scale = (float)scale,
    };
    make_stack(m, layer, MODULE_QKV, MODULE_V, &out->qkv);
    make_stack(m, layer, MODULE_O, MODULE_O, &out->o);
    make_stack(m, layer, MODULE_GATE_UP, MODULE_UP, &out->gate_up);
    make_stack(m, layer, MODULE_DOWN, MODULE_DOWN, &out->down);
    if (architecture_is_gated(c->architecture)) {
        /* in a parallel block, the layer o uses the rooms for dy before gate and up do */
        out->gate_up.base[0].measures_dy = out->gate_up.base_count == 1 && !c->parallel;
        out->down.base[0].measures_x = true;
    }
}

static bool is_trained(const struct norm *norm)
{
    return (norm->weight && norm->weight->trainable) ||
           (norm->bias && norm->bias->trainable);
}

/* Return the index of the first sublayer, in the order of the forward pass, that is
 * trained. */
static size_t first_trained_index(const struct model *m)
{
    if (m->embed->trainable || (m->positions && m->positions->trainable))
        return 0;
    for (size_t l = 0; l < m->config->layers; l++) {
        const struct block *b = &m->blocks[l];
        const bool trained[SUBLAYERS] = {
            [SUBLAYER_NORM1] = is_trained(&b->norm1),
            [SUBLAYER_QKV] =
                b->qkv.trained || is_trained(&b->q_norm) || is_trained(&b->k_norm),
            [SUBLAYER_O] = b->o.trained || is_trained(&b->post1),
            [SUBLAYER_NORM2] = is_trained(&b->norm2),
            [SUBLAYER_GATE_UP] = b->gate_up.trained,
            [SUBLAYER_DOWN] = b->down.trained || is_trained(&b->post2),
        };

        for (enum sublayer i = 0; i < SUBLAYERS; i++)
            if (trained[i])
                return sublayer_index(l, i);
    }
    return sublayer_index(m->config->layers + (is_trained(&m->norm) ? 0 : 1), 0);
}

/* transformers keeps Gemma's factor in the format that the embedding table is loaded in;
 * others are numbers. */
static float embed_scale(const struct model *m)
{
    const struct precision *p = &m->plan->precision;
    enum format format = m->embed->trainable ? p->trainable : p->frozen;
    float scale = (float)m->config->embed_scale;
    uint16_t narrow;

    if (!m->config->architecture->embed_scaled ||
        (format != FORMAT_FP16 && format != FORMAT_BF16))
        return scale;
    format_convert(&narrow, format, &scale, FORMAT_FP32, 1);
    format_convert(&scale, FORMAT_FP32, &narrow, format, 1);
    return scale;
}

static void make_window(struct model *m, struct window *window)
{
    const struct shape_buffer *losses = &m->shapes.buffers[BUFFER_LOSSES];
    const struct shape_buffer *pairs = &m->shapes.buffers[BUFFER_PAIRS];
    size_t count = losses->rows * losses->cols;

    window->losses = arena_array(m->arena, count, sizeof(float));
    window->batch_items = arena_array(m->arena, losses->rows, sizeof(size_t));
    if (m->shapes.buffers[BUFFER_KD_LOSSES].step > 0)
        window->kd_losses = arena_array(m->arena, count, sizeof(float));
    if (pairs->step > 0)
        window->pairs = arena_array(m->arena, pairs->rows * pairs->cols, sizeof(float));
}

static void lay_out(struct model *m)
{
    struct segments at = segments_of(&m->shapes, m->memory_block);
    size_t layers = m->config->layers;

    m->gradients = at.gradients;
    for (size_t i = 0, on_host = 0; i < m->shapes.moments; i++) {
        m->moments[i] = m->shapes.offloads ? m->host_block + on_host : at.moments[i];
        on_host += m->shapes.moment_bytes[i];
    }
    m->buffers = at.frozen + m->shapes.frozen_bytes;
    m->frozen_shard = at.frozen + m->shapes.frozen_shard_at;
    m->windows = at.windows;
    model_drop_windows(m);
    m->parameters = arena_array(m->arena, m->shapes.count, sizeof(*m->parameters));
    for (size_t i = 0; i < m->shapes.count; i++)
        place_parameter(&at, &m->shapes.parameters[i], m->shapes.double_quant,
                        &m->parameters[i]);
    list_trained(m);
    fill_slots(m);
    m->embed = find(m, MODULE_EMBED, PART_WEIGHT, 0);
    m->positions = find(m, MODULE_POSITIONS, PART_WEIGHT, 0);
    m->norm = norm_of(m, MODULE_NORM, 0);
    m->head = m->config->tied ? m->embed : find(m, MODULE_HEAD, PART_WEIGHT, 0);
    m->head_weight = matmul_operand(m->head);
    m->head_bias = find(m, MODULE_HEAD, PART_BIAS, 0);
    m->embed_weight = m->embed->weight;
    m->embed_scale = embed_scale(m);
    m->blocks = arena_array(m->arena, layers, sizeof(*m->blocks));
    for (size_t l = 0; l < layers; l++)
        make_block(m, l, &m->blocks[l]);
    m->first_trained = first_trained_index(m);
    for (size_t i = 0; i < WINDOWS; i++)
        make_window(m, &m->results[i]);
    if (m->shapes.buffers[BUFFER_CORRECT].step > 0)
        m->correct = arena_array(m->arena, m->shapes.rows, sizeof(*m->correct));
    m->position_ids = arena_array(m->arena, m->shapes.slots ? m->shapes.rows : 0,
                                  sizeof(*m->position_ids));
}

static void make_padded_batch(struct model *m)
{
    size_t rows = m->shapes.rows;

    m->padded.tokens = arena_array(m->arena, rows, sizeof(int32_t));
    m->padded.positions = arena_array(m->arena, rows, sizeof(int32_t));
    m->padded.targets = arena_array(m->arena, rows, sizeof(int32_t));
    m->padded.offsets = arena_array(m->arena, m->shapes.sequences + 1, sizeof(int32_t));
    m->row_weights = arena_array(m->arena, rows, sizeof(float));
}

/* Allocate the block.  If that fails, report everything that was requested. */
static bool take_memory(struct model *m, struct error *err)
{
    struct error why = { 0 };
    char parts[5][16];
    struct memory_use planned;

    if (m->shapes.offloads) {
        m->host_block = m->be->ops->alloc_host(m->be, m->shapes.moments_bytes, err);
        if (!m->host_block)
            return false;
    }
    m->memory_block = m->be->ops->alloc(m->be, m->shapes.total, &why);
    if (m->memory_block)
        return true;
    shapes_use(&m->shapes, &planned);
    memory_text(planned.weights, parts[0]);
    memory_text(planned.gradients, parts[1]);
    memory_text(planned.optimizer, parts[2]);
    memory_text(planned.activations, parts[3]);
    memory_text(planned.workspace, parts[4]);
    return error_set(
        err, why.code,
        "cannot allocate weights %s, gradients %s, optimizer %s, activations %s and "
        "workspace %s: %s%s",
        parts[0], parts[1], parts[2], parts[3], parts[4], why.text,
        m->be->ops->kind == DEVICE_CPU
            ? m->plan->generation.on
                  ? "; lower the batch sizes, cutoff_len or max_new_tokens"
                  : "; lower per_device_train_batch_size or cutoff_len"
            : "");
}

struct model *model_new(const struct model_options *options, struct error *err)
{
    struct model *m = memory_alloc(sizeof(*m));

    m->plan = options->plan;
    m->config = options->config;
    m->be = options->backend;
    m->unwatched = m->be->ops;
    m->rank = options->rank;
    m->arena = arena_new();
    if (!shapes_make(m->plan, m->config, options->rows_max, options->sequences_max,
                     m->arena, &m->shapes, err))
        goto fail;
    assert(!m->shapes.rounds_in_matmul || m->be->ops->rounds_b);
    if (!take_memory(m, err))
        goto fail;
    lay_out(m);
    if (m->be->ops->begin)
        make_padded_batch(m);
    if (!model_rope_open(m, err))
        goto fail;
    model_expect_attention(m);
    return m;
fail:
    model_free(m);
    return NULL;
}

void model_free(struct model *model)
{
    if (!model)
        return;
    if (model->memory_block)
        model->be->ops->free(model->be, model->memory_block);
    if (model->host_block)
        model->be->ops->free(model->be, model->host_block);
    safetensors_close(model->base_files);
    safetensors_close(model->merged);
    arena_free(model->arena);
    free(model);
}

void model_set_heartbeat(struct model *model, struct heartbeat *heartbeat)
{
    model->heartbeat = heartbeat;
}

struct heartbeat *model_heartbeat(const struct model *model)
{
    return model->heartbeat;
}

struct backend *model_backend(struct model *model)
{
    return model->be;
}

size_t model_parameters(const struct model *model)
{
    return model->shapes.count;
}

struct parameter *model_parameter(struct model *model, size_t index)
{
    return &model->parameters[index];
}

size_t model_trained_parameters(const struct model *model)
{
    return model->trained_count;
}

struct parameter *model_trained(struct model *model, size_t index)
{
    return model->trained[index];
}

uint64_t model_trainable_elements(const struct model *model)
{
    return model->shapes.trainable_elements;
}

uint64_t model_total_elements(const struct model *model)
{
    return model->shapes.elements;
}

const struct memory_use *model_memory(const struct model *model)
{
    struct model *m = (struct model *)model; /* the result is stored in it */
    uint64_t held = m->be->ops->workspace(m->be);

    shapes_use(&m->shapes, &m->memory);
    m->memory.low = m->memory.total;
    m->memory.high = m->memory.total + held;
    m->memory.workspace += held;
    m->memory.total += held;
    return &m->memory;
}

struct tensor model_gradients(const struct model *model)
{
    return tensor_of(model->gradients, FORMAT_FP32, 1,
                     model->shapes.shards_gradients ? model->shapes.shard
                                                    : model->shapes.segment);
}

struct step_scalars *model_step_scalars(struct model *model)
{
    return (struct step_scalars *)(void *)(model->buffers +
                                           model->shapes.buffers[BUFFER_STEP_SCALARS].at);
}
