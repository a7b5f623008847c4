/* train/model/model.c - allocates the block of memory and sets up every parameter. */
#include "config.h"

#include "train/model/model.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "precision/affine.h"
#include "precision/nf4.h"
#include "train/model/model_cross.h"
#include "train/model/model_exchange.h"
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

static struct quantized place_integers(const char *at, struct affine how, size_t rows,
                                       size_t cols)
{
    struct affine_layout parts = affine_layout(how, rows, cols);

    return (struct quantized) { .codes = (const uint8_t *)at,
                                .bits = how.bits,
                                .group = how.group ? how.group : cols,
                                .groups = affine_groups(how, cols),
                                .scales = (const void *)(at + parts.scales),
                                .zeros = (const uint8_t *)at + parts.zeros,
                                .columns = (const void *)(at + parts.columns) };
}

static struct quantized place_nf4(const char *at, size_t elements, bool double_quant)
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

static void place_parameter(const struct segments *at, const struct shapes *shapes,
                            const struct shape_parameter *from, struct parameter *to)
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
                               .matrices = from->matrices,
                               .tensor = from->tensor,
                               .lr_factor = from->lr_factor };
    if (from->quantized)
        to->quantized =
            shapes->affine.bits
                ? place_integers(frozen, shapes->affine, from->rows, from->cols)
                : place_nf4(frozen, from->rows * from->cols, shapes->double_quant);
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

/* Index the parameters by layer, module and part; of experts those of the first. */
static void fill_slots(struct model *m)
{
    m->slots = arena_array(m->arena, model_slot(0, 0, m->config->layers),
                           sizeof(struct parameter *));
    for (size_t i = 0; i < m->shapes.count; i++) {
        const struct shape_parameter *p = &m->shapes.parameters[i];

        if (p->expert == 0)
            m->slots[model_slot(p->module, p->part, p->layer)] = &m->parameters[i];
    }
}

static bool is_trained(const struct norm *norm)
{
    return (norm->weight && norm->weight->trainable) ||
           (norm->bias && norm->bias->trainable);
}

/* Return whether a part of linear attention, or of a short convolution, between its linear
 * layers is trained. */
static bool mixer_is_trained(const struct block *b)
{
    const struct parameter *const parts[] = { b->conv,  b->conv_bias, b->skip,
                                              b->a_log, b->dt_bias,   b->v_norm };
    bool any = false;

    for (size_t i = 0; i < TS_COUNT(parts); i++)
        any = any || (parts[i] && parts[i]->trainable);
    return any;
}

/* Return whether what follows experts, or the MLP next to them, is trained. */
static bool branch_is_trained(const struct block *b)
{
    return is_trained(&b->expert_post) || is_trained(&b->shared_post) ||
           (b->expert_scale && b->expert_scale->trainable);
}

static bool is_trained_gate(const struct parameter *gate)
{
    return gate && gate->trainable;
}

/* Return the index of the first sublayer, in the order of the forward pass, that is
 * trained. */
static size_t first_trained_index(const struct model *m)
{
    if (m->shapes.trains_projector || m->shapes.trains_encoder || m->embed->trainable ||
        (m->positions && m->positions->trainable) || is_trained(&m->embed_norm) ||
        m->layer_inputs.trained || is_trained(&m->layer_norm) ||
        (m->layer_embed && m->layer_embed->trainable))
        return 0;
    for (size_t l = 0; l < m->config->layers; l++) {
        const struct block *b = &m->blocks[l];
        const bool trained[SUBLAYERS] = {
            [SUBLAYER_NORM1] = is_trained(&b->norm1),
            [SUBLAYER_QKV] = b->qkv.trained || is_trained(&b->q_norm) ||
                             is_trained(&b->k_norm) || b->q_b.trained ||
                             b->kv_b.trained || mixer_is_trained(b) ||
                             b->cross_kv.trained || is_trained(&b->cross_q_norm) ||
                             is_trained(&b->cross_k_norm),
            [SUBLAYER_O] = b->o.trained || b->scan_out.trained || is_trained(&b->post1) ||
                           is_trained_gate(b->cross_gate),
            [SUBLAYER_NORM2] = is_trained(&b->norm2) || is_trained(&b->expert_norm) ||
                               is_trained(&b->router_norm),
            /* what a block with experts trains is in one sublayer */
            [SUBLAYER_GATE_UP] = b->gate_up.trained || b->expert_gate_up.trained ||
                                 b->expert_down.trained || b->router.trained ||
                                 (b->alpha_p && b->alpha_p->trainable) ||
                                 b->shared_router.trained || branch_is_trained(b) ||
                                 (b->sparse && b->down.trained),
            [SUBLAYER_DOWN] = b->down.trained || is_trained(&b->post2) ||
                              is_trained_gate(b->cross_mlp_gate),
            [SUBLAYER_INPUT] =
                b->input_gate.trained || b->input_out.trained || is_trained(&b->post3),
        };

        for (enum sublayer i = 0; i < SUBLAYERS; i++)
            if (trained[i])
                return sublayer_index(l, i);
    }
    return sublayer_index(m->config->layers + (is_trained(&m->norm) ? 0 : 1), 0);
}

/* transformers keeps Gemma's factor in the format that the embedding table is loaded in;
 * others are numbers. */
static float embed_scale(const struct model *m, const struct parameter *table,
                         double factor)
{
    const struct precision *p = &m->plan->precision;
    enum format format = table->trainable ? p->trainable : p->frozen;
    float scale = (float)factor;
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
    const struct shape_buffer *experts = &m->shapes.buffers[BUFFER_EXPERT_COUNTS];
    size_t count = losses->rows * losses->cols;

    window->losses = arena_array(m->arena, count, sizeof(float));
    window->batch_items = arena_array(m->arena, losses->rows, sizeof(size_t));
    if (m->shapes.buffers[BUFFER_KD_LOSSES].step > 0)
        window->kd_losses = arena_array(m->arena, count, sizeof(float));
    if (pairs->step > 0)
        window->pairs = arena_array(m->arena, pairs->rows * pairs->cols, sizeof(float));
    if (experts->step == 0)
        return;
    count = experts->rows * experts->cols;
    window->expert_counts = arena_array(m->arena, count, sizeof(float));
    window->expert_sums = arena_array(m->arena, count, sizeof(float));
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
        place_parameter(&at, &m->shapes, &m->shapes.parameters[i], &m->parameters[i]);
    list_trained(m);
    fill_slots(m);
    m->embed = model_find(m, MODULE_EMBED, PART_WEIGHT, 0);
    m->positions = model_find(m, MODULE_POSITIONS, PART_WEIGHT, 0);
    m->embed_norm = model_norm_of(m, MODULE_EMBED_NORM, 0);
    m->norm = model_norm_of(m, MODULE_NORM, 0);
    m->head = m->config->tied ? m->embed : model_find(m, MODULE_HEAD, PART_WEIGHT, 0);
    m->head_weight = model_matmul_operand(m->head);
    m->head_bias = model_find(m, MODULE_HEAD, PART_BIAS, 0);
    if (m->config->scores) {
        m->score = model_score_layer(m);
        m->score_targets = arena_array(m->arena, m->shapes.rows, sizeof(int32_t));
    }
    m->embed_weight = m->embed->weight;
    m->embed_scale = embed_scale(m, m->embed, m->config->embed_scale);
    m->layer_embed = model_find(m, MODULE_LAYER_EMBED, PART_WEIGHT, 0);
    if (m->layer_embed) {
        m->layer_inputs = model_input_layer(m);
        m->layer_norm = model_norm_of(m, MODULE_LAYER_NORM, 0);
        m->layer_embed_scale =
            embed_scale(m, m->layer_embed, sqrt((double)m->config->layer_inputs));
    }
    m->blocks = arena_array(m->arena, layers, sizeof(*m->blocks));
    for (size_t l = 0; l < layers; l++)
        model_make_block(m, l, &m->blocks[l]);
    m->first_trained = first_trained_index(m);
    for (size_t i = 0; i < WINDOWS; i++)
        make_window(m, &m->results[i]);
    if (m->shapes.buffers[BUFFER_CORRECT].step > 0)
        m->correct = arena_array(m->arena, m->shapes.rows, sizeof(*m->correct));
    if (m->config->attention_chunk > 0)
        m->chunk_starts =
            arena_array(m->arena, m->shapes.buffers[BUFFER_CHUNK_STARTS].cols,
                        sizeof(*m->chunk_starts));
    m->position_ids = arena_array(m->arena, m->shapes.slots ? m->shapes.rows + 1 : 0,
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

static void fill_ones(struct model *m)
{
    const struct shape_buffer *b = &m->shapes.buffers[BUFFER_ONES];
    float *ones;

    if (b->step == 0)
        return;
    ones = arena_array(m->arena, b->cols, sizeof(*ones));
    for (size_t i = 0; i < b->cols; i++)
        ones[i] = 1;
    m->be->ops->upload(m->be, m->buffers + b->at, ones, b->cols * sizeof(*ones));
}

struct model *model_new(const struct model_options *options, struct error *err)
{
    struct model *m = memory_alloc(sizeof(*m));

    m->plan = options->plan;
    m->config = options->config;
    m->be = options->backend;
    m->unwatched = m->be->ops;
    m->rank = options->rank;
    m->writer = SIZE_MAX;
    m->arena = arena_new();
    if (!shapes_make_for(m->plan, m->config,
                         &(struct shapes_batch) { .rows = options->rows_max,
                                                  .sequences = options->sequences_max,
                                                  .media_rows = options->media_rows_max },
                         m->arena, &m->shapes, err))
        goto fail;
    assert(!m->shapes.rounds_in_matmul || m->be->ops->rounds_b);
    if (!take_memory(m, err))
        goto fail;
    lay_out(m);
    m->media = model_media_new(m);
    m->cross = model_cross_new(m);
    m->projector = model_projector_new(m);
    if (m->be->ops->begin)
        make_padded_batch(m);
    fill_ones(m);
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
    model_media_free(model->media);
    model_cross_free(model->cross);
    model_projector_free(model->projector);
    safetensors_close(model->base_files);
    safetensors_close(model->value_head);
    safetensors_close(model->merged);
    safetensors_close(model->pissa_file);
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

void model_set_log(struct model *model, struct log *log)
{
    model->log = log;
}

struct log *model_log(const struct model *model)
{
    return model->log;
}

int64_t model_issued_step(const struct model *model)
{
    return model->issued_step;
}

bool model_has_moments(const struct model *model)
{
    return model->has_moments;
}

struct step_scalars *model_step_scalars(struct model *model)
{
    return (struct step_scalars *)(void *)(model->buffers +
                                           model->shapes.buffers[BUFFER_STEP_SCALARS].at);
}
