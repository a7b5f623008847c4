/*
 * train/model/model_watch.c - finds the first value of a pass that is not finite.  For
 * one pass the backend gets another table of operations.  Each of them runs the real
 * operation and then checks what it has written.  The name of a tensor is found by its
 * address.
 */
#include "config.h"

#include "train/model/model_watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "train/model/model_exchange.h"
#include "train/model/model_internal.h"
#include "train/model/model_stored.h"

const char *const watch_kind_names[WATCH_KINDS] = {
    [WATCH_NOTHING] = "nothing",       [WATCH_WEIGHT] = "weight",
    [WATCH_ACTIVATION] = "activation", [WATCH_LOSS] = "loss",
    [WATCH_GRADIENT] = "gradient",
};

struct watcher {
    /* must be the first member: the backend's table during the pass */
    struct backend_ops ops;
    const struct backend_ops *original;
    struct backend *be;
    struct model *model;
    struct watch *watch;
    struct error *err; /* of the device */
    char *span;        /* host memory for MODEL_SPAN elements */
    size_t rows;       /* of the batch */
    int64_t layer;     /* of the previous operation */
    const void *codes; /* of the matrix that was dequantized last */
    const void *pairs; /* output of op_preference or op_policy */
    bool backward;     /* a gradient of the loss has been written */
    bool failed;
};

/* ---- One tensor ---- */

static float element_at(const char *data, enum format format, size_t i)
{
    uint16_t narrow;
    float single;

    if (format == FORMAT_FP16 || format == FORMAT_BF16) {
        memcpy(&narrow, data + 2 * i, sizeof(narrow));
        return format == FORMAT_FP16 ? format_from_fp16(narrow)
                                     : format_from_bf16(narrow);
    }
    memcpy(&single, data + 4 * i, sizeof(single));
    return single;
}

static void count_element(struct watch_result *result, float value, size_t row,
                          size_t col)
{
    if (isfinite(value)) {
        result->largest = fmax(result->largest, fabs((double)value));
        return;
    }
    if (result->nans + result->infs == 0) {
        result->row = row;
        result->col = col;
    }
    result->nans += isnan(value) != 0;
    result->infs += isinf(value) != 0;
}

/* Download the tensor in spans of whole rows (or of parts of a long row) and count. */
static bool scan(struct watcher *w, struct tensor t, struct watch_result *result)
{
    size_t bytes = format_info(t.format)->bytes, fitting_rows = MODEL_SPAN / t.stride;
    size_t span_rows = fitting_rows > 0 ? fitting_rows : 1,
           span_cols = fitting_rows > 0 ? t.cols : MODEL_SPAN;

    result->format = t.format;
    result->rows = t.rows;
    result->cols = t.cols;
    for (size_t row = 0; row < t.rows; row += span_rows)
        for (size_t col = 0; col < t.cols; col += span_cols) {
            size_t rows = t.rows - row < span_rows ? t.rows - row : span_rows;
            size_t cols = t.cols - col < span_cols ? t.cols - col : span_cols;

            w->original->download(w->be, w->span,
                                  (char *)t.data + (row * t.stride + col) * bytes,
                                  ((rows - 1) * t.stride + cols) * bytes);
            if (!w->original->sync(w->be, w->err))
                return false;
            for (size_t i = 0; i < rows; i++)
                for (size_t j = 0; j < cols; j++)
                    count_element(result, element_at(w->span, t.format, i * t.stride + j),
                                  row + i, col + j);
        }
    return true;
}

/* ---- Names by address ---- */

static bool is_within(const void *data, const struct tensor *whole)
{
    const char *at = data, *from = whole->data;

    return from && at >= from && at < from + tensor_bytes(*whole);
}

/* Return whether an address is in the gradient of a parameter.  Those of several levels
 * share a lane: it is that of the level which the backward pass is at. */
static bool is_in_gradient(const struct model *m, size_t index, const void *data)
{
    const struct shape_parameter *p = &m->shapes.parameters[index];

    return is_within(data, &m->parameters[index].grad) &&
           (!m->shapes.shards_gradients || p->at >= m->shapes.matrices_end ||
            shapes_level(&m->shapes, p) == m->level);
}

/* Return the parameter that an address belongs to, as weight, gradient or copy; the
 * copies of quantized ones share memory with others. */
static const struct shape_parameter *parameter_at(const struct model *m, const void *data)
{
    for (size_t i = 0; i < m->shapes.count; i++) {
        const struct parameter *p = &m->parameters[i];

        if (is_in_gradient(m, i, data))
            return &m->shapes.parameters[i];
        if (p->gathered && !model_holds_block(m, m->shapes.parameters[i].layer))
            continue;
        if (is_within(data, &p->weight) ||
            (p->quantized.codes ? data == p->quantized.codes : is_within(data, &p->copy)))
            return &m->shapes.parameters[i];
    }
    return NULL;
}

/* Return the layer that has an instance of a buffer. */
static int64_t layer_with(const struct model *m, const struct shape_buffer *b,
                          size_t instance)
{
    bool linear =
        b == &m->shapes.buffers[BUFFER_CONV] || b == &m->shapes.buffers[BUFFER_DECAY] ||
        b == &m->shapes.buffers[BUFFER_BETA] || b == &m->shapes.buffers[BUFFER_RSTD_V] ||
        b == &m->shapes.buffers[BUFFER_SCAN];

    for (size_t l = 0; b->index && l < m->config->layers; l++)
        if (b->index[l] == instance && model_config_is_linear(m->config, l) == linear)
            return (int64_t)l;
    return (int64_t)instance;
}

/* Return the buffer at an address, and its layer; -1 if there is only one instance. */
static const struct shape_buffer *buffer_at(const struct model *m, const void *data,
                                            int64_t *layer)
{
    const char *at = data;

    *layer = -1;
    for (size_t i = 0; i < BUFFERS; i++) {
        const struct shape_buffer *b = &m->shapes.buffers[i];
        const char *from = m->buffers + b->at;

        if (b->step == 0 || at < from || at >= from + b->count * b->step)
            continue;
        if (b->count > 1)
            *layer = layer_with(m, b, (size_t)(at - from) / b->step);
        return b;
    }
    return NULL;
}

static bool is_in_block(const struct shape_parameter *p)
{
    return p->module != MODULE_EMBED && p->module != MODULE_EMBED_NORM &&
           p->module < MODULE_NORM;
}

/* Return the layer of an operand, or -1 if it has none. */
static int64_t layer_of(const struct model *m, struct tensor t)
{
    const struct shape_parameter *p = t.data ? parameter_at(m, t.data) : NULL;
    int64_t layer = -1;

    if (p)
        return is_in_block(p) ? (int64_t)p->layer : -1;
    if (t.data)
        buffer_at(m, t.data, &layer);
    return layer;
}

/* Better names for some buffers; a gradient has the name of its tensor. */
static const char *const other_names[BUFFERS] = {
    [BUFFER_RSTD1] = "first norm's scale",
    [BUFFER_RSTD2] = "second norm's scale",
    [BUFFER_RSTD] = "last norm's scale",
    [BUFFER_LSE] = "attention's log sum",
    [BUFFER_ACT] = "mlp",
    [BUFFER_DX] = "residual stream",
    [BUFFER_DX_COPY] = "residual stream",
    [BUFFER_DROPPED] = "residual stream",
    [BUFFER_DH] = "norm or attention",
    [BUFFER_DQKV] = "q, k, v",
    [BUFFER_DCONV] = "convolution",
    [BUFFER_DDECAY] = "decays",
    [BUFFER_DBETA] = "decays",
    [BUFFER_NORMED] = "attention",
    [BUFFER_DACT] = "mlp",
    [BUFFER_LORA_G] = "lora",
    [BUFFER_ROTATED] = "rotated input",
    [BUFFER_DROTATED] = "rotated input",
    [BUFFER_ROTATIONS] = "rotation",
    [BUFFER_ROTATION_SCRATCH] = "rotation",
};

/* The gradient that the classifier writes belongs to the last norm, not to a layer. */
static const char *buffer_name(const struct watcher *w, const struct shape_buffer *b)
{
    const struct model *m = w->model;
    const char *name = b ? other_names[b - m->shapes.buffers] : NULL;

    if (b == &m->shapes.buffers[BUFFER_DH] && w->layer < 0)
        return "last norm";
    return name ? name : b ? b->name : m->teacher ? "the teacher" : "scratch";
}

/* Name the tensor by its first non-finite element, or by its first. */
static void set_name(const struct watcher *w, struct tensor t,
                     struct watch_result *result)
{
    size_t place = result->nans + result->infs ? result->row * t.stride + result->col : 0;
    const char *at = (char *)t.data + place * format_info(t.format)->bytes;
    const struct shape_parameter *p = parameter_at(w->model, at);
    const struct shape_buffer *b = buffer_at(w->model, at, &(int64_t) { 0 });
    int64_t layer = -1;

    if (b == &w->model->shapes.buffers[BUFFER_WEIGHT] && w->codes)
        p = parameter_at(w->model, w->codes);
    if (p) {
        snprintf(result->tensor, sizeof(result->tensor), "%s", p->name);
        result->layer = is_in_block(p) ? (int64_t)p->layer : -1;
        return;
    }
    b = buffer_at(w->model, at, &layer);
    snprintf(result->tensor, sizeof(result->tensor), "%s", buffer_name(w, b));
    result->layer = layer >= 0 ? layer : w->layer;
    result->batch_row = t.rows == w->rows   ? result->row
                        : t.cols == w->rows ? result->col
                                            : SIZE_MAX;
}

/* ---- The pass ---- */

static enum watch_kind kind_of(const struct watcher *w, struct tensor t)
{
    const struct shape_buffer *losses = &w->model->shapes.buffers[BUFFER_LOSSES];

    if (t.data == w->pairs || buffer_at(w->model, t.data, &(int64_t) { 0 }) == losses)
        return WATCH_LOSS;
    return w->backward ? WATCH_GRADIENT : WATCH_ACTIVATION;
}

static void remember(struct watch *watch, const struct watch_result *result)
{
    if (watch->before_count == WATCH_TRAIL) {
        memmove(watch->before, watch->before + 1,
                (WATCH_TRAIL - 1) * sizeof(watch->before[0]));
        watch->before_count--;
    }
    watch->before[watch->before_count++] = *result;
    if (result->largest > watch->largest_output.largest)
        watch->largest_output = *result;
}

static void check_output(struct watcher *w, const char *operation, struct tensor t)
{
    struct watch_result result = { .operation = operation,
                                   .layer = -1,
                                   .batch_row = SIZE_MAX };

    if (!t.data || w->failed || w->watch->kind != WATCH_NOTHING)
        return;
    if (!scan(w, t, &result)) {
        w->failed = true;
        return;
    }
    set_name(w, t, &result);
    if (result.nans + result.infs == 0) {
        remember(w->watch, &result);
        return;
    }
    w->watch->kind = kind_of(w, t);
    w->watch->found = result;
}

enum { OPERANDS = 7 };

struct operands {
    struct tensor out[OPERANDS], in[OPERANDS]; /* unused ones are absent */
};

/* Set the layer first: a buffer that exists only once gets the layer of the inputs. */
static void check_outputs(struct watcher *w, const char *operation,
                          const struct operands *all)
{
    int64_t layer = -1;

    for (size_t i = 0; i < OPERANDS && layer < 0; i++)
        layer = layer_of(w->model, all->out[i]);
    for (size_t i = 0; i < OPERANDS && layer < 0; i++)
        layer = layer_of(w->model, all->in[i]);
    if (layer >= 0)
        w->layer = layer;
    for (size_t i = 0; i < OPERANDS; i++)
        check_output(w, operation, all->out[i]);
}

/* WATCHED(operation, its outputs in the order of writing, its inputs) */
#define OUT(...) .out = { __VA_ARGS__ }
#define IN(...)  .in = { __VA_ARGS__ }
#define WATCHED(name, ...)                                                     \
    static void watched_##name(struct backend *be, const struct op_##name *op) \
    {                                                                          \
        struct watcher *w = (struct watcher *)(void *)be->ops;                 \
                                                                               \
        w->original->name(be, op);                                             \
        check_outputs(w, #name, &(struct operands) { __VA_ARGS__ });           \
    }

WATCHED(matmul, OUT(op->out), IN(op->b, op->a))
WATCHED(sum_rows, OUT(op->out), IN(op->x))
WATCHED(embedding, OUT(op->out), IN(op->table))
WATCHED(embedding_backward, OUT(op->dtable), IN(op->dout))
WATCHED(rmsnorm, OUT(op->delta.data ? op->sum : (struct tensor) { 0 }, op->rstd, op->out),
        IN(op->weight))
WATCHED(rmsnorm_backward, OUT(op->dx, op->dcopy, op->dweight), IN(op->weight, op->x))
WATCHED(layernorm,
        OUT(op->delta.data ? op->sum : (struct tensor) { 0 }, op->stats, op->out),
        IN(op->weight))
WATCHED(layernorm_backward, OUT(op->dx, op->dcopy, op->dweight, op->dbias),
        IN(op->weight, op->x))
WATCHED(headnorm, OUT(op->rstd, op->out), IN(op->weight, op->x))
WATCHED(headnorm_backward, OUT(op->dx, op->dweight), IN(op->weight, op->x))
WATCHED(headlayer, OUT(op->stats, op->out), IN(op->weight, op->x))
WATCHED(headlayer_backward, OUT(op->dx, op->dweight, op->dbias), IN(op->weight, op->x))
WATCHED(clip, OUT(op->out), IN(op->x))
WATCHED(clip_backward, OUT(op->dx), IN(op->dout, op->x))
WATCHED(rope, OUT(op->x), IN(op->table))
WATCHED(latent, OUT(op->q, op->k, op->v), IN(op->up_kv, op->up_q))
WATCHED(latent_backward, OUT(op->dup_q, op->dup_kv, op->dshared), IN(op->dk, op->dq))
WATCHED(pad_heads, OUT(op->out), IN(op->x))
WATCHED(attention, OUT(op->lse, op->out), IN(op->q))
WATCHED(attention_backward, OUT(op->dq, op->dk, op->dv), IN(op->forward.q))
WATCHED(place_rows, OUT(op->x), IN(op->rows))
WATCHED(place_rows_backward, OUT(op->drows, op->dx), IN(op->dx))
WATCHED(pool_rows, OUT(op->out), IN(op->x))
WATCHED(pool_rows_backward, OUT(op->dx), IN(op->dout))
WATCHED(unfold, OUT(op->out), IN(op->x))
WATCHED(unfold_backward, OUT(op->dx), IN(op->dout))
WATCHED(filter_rows, OUT(op->out), IN(op->weight, op->x))
WATCHED(conv, OUT(op->out), IN(op->weight, op->x))
WATCHED(conv_backward, OUT(op->dx, op->dbefore, op->dafter, op->dweight, op->dbias),
        IN(op->weight, op->x))
WATCHED(decay, OUT(op->decay, op->beta), IN(op->a_log, op->a))
WATCHED(decay_backward, OUT(op->da, op->db, op->da_log, op->dbias), IN(op->a_log, op->a))
WATCHED(delta, OUT(op->out), IN(op->q))
WATCHED(delta_backward, OUT(op->dq, op->dk, op->dv, op->ddecay, op->dbeta),
        IN(op->forward.q))
WATCHED(scan, OUT(op->out), IN(op->a_log, op->dt, op->x))
WATCHED(scan_backward,
        OUT(op->dx, op->db, op->dc, op->ddt, op->da_log, op->dbias, op->dskip),
        IN(op->forward.x))
WATCHED(activation, OUT(op->out), IN(op->x))
WATCHED(activation_backward, OUT(op->dx, op->out), IN(op->dout, op->x))
WATCHED(swiglu, OUT(op->out), IN(op->gate))
WATCHED(swiglu_backward, OUT(op->dgate, op->dup, op->out), IN(op->dout))
WATCHED(add, OUT(op->out), IN(op->a, op->b))
WATCHED(scale, OUT(op->out), IN(op->x))
WATCHED(convert, OUT(op->out), IN(op->x))
WATCHED(dropout, OUT(op->out), IN(op->x))
WATCHED(route, OUT(op->probabilities, op->weights), IN(op->logits))
WATCHED(route_backward, OUT(op->dlogits), IN(op->dweights))
WATCHED(grouped_matmul, OUT(op->out), IN(op->b, op->a))
WATCHED(gather_pairs, OUT(op->out), IN(op->x))
WATCHED(sum_pairs, OUT(op->out), IN(op->y))
WATCHED(combine, OUT(op->out), IN(op->y, op->weights))
WATCHED(combine_backward, OUT(op->dy, op->dweights), IN(op->dout))
WATCHED(pair_scale, OUT(op->out), IN(op->weights, op->scales))
WATCHED(pair_scale_backward, OUT(op->dweights, op->dscales), IN(op->dweights))
WATCHED(noise, OUT(op->x), IN(op->x))
WATCHED(jitter, OUT(op->x), IN(op->x))
WATCHED(sink, OUT(op->out), IN(op->out, op->lse, op->sinks))
WATCHED(sink_backward, OUT(op->dsinks), IN(op->dout, op->lse))
WATCHED(clamped, OUT(op->out), IN(op->gate, op->up))
WATCHED(clamped_backward, OUT(op->dgate, op->dup), IN(op->dout))
WATCHED(xielu, OUT(op->out), IN(op->by.alpha_p, op->by.alpha_n, op->x))
WATCHED(xielu_backward, OUT(op->dx, op->out, op->dalpha_p, op->dalpha_n),
        IN(op->by.alpha_p, op->by.alpha_n, op->dout, op->x))
WATCHED(gate, OUT(op->out), IN(op->gate, op->x))
WATCHED(gate_backward, OUT(op->dx, op->dgate), IN(op->gate, op->dout, op->x))
WATCHED(group_bias, OUT(op->out), IN(op->bias, op->out))
WATCHED(group_bias_backward, OUT(op->dbias), IN(op->dout))
WATCHED(dora_norm, OUT(op->norm), IN(op->w, op->b))
WATCHED(dora_scale, OUT(op->out), IN(op->magnitude, op->x))
WATCHED(dora_scale_backward, OUT(op->dx, op->dmagnitude), IN(op->magnitude, op->dout))
WATCHED(skew, OUT(op->out), IN(op->x))
WATCHED(skew_backward, OUT(op->dx), IN(op->dout))
WATCHED(block_matmul, OUT(op->out), IN(op->b, op->a))
WATCHED(block_inverse, OUT(op->x), IN(op->x))

/* The output is named after the quantized input. */
static void watched_dequantize(struct backend *be, const struct op_dequantize *op)
{
    struct watcher *w = (struct watcher *)(void *)be->ops;

    w->codes = op->x.codes;
    w->original->dequantize(be, op);
    check_outputs(
        w, "dequantize",
        &(struct operands) { OUT(op->out), IN({ .data = (void *)op->x.codes }) });
    w->codes = NULL;
}

/* The operations inside are not watched.  After the gradient of a loss, every output is a
 * gradient. */
static void watched_classifier(struct backend *be, const struct op_classifier *op)
{
    struct watcher *w = (struct watcher *)(void *)be->ops;

    w->layer = -1;
    be->ops = w->original;
    w->original->classifier(be, op);
    be->ops = &w->ops;
    check_outputs(w, "classifier", &(struct operands) { OUT(op->losses) });
    w->backward = w->backward || op->dx.data || op->dw.data;
    check_outputs(w, "classifier", &(struct operands) { OUT(op->dx, op->dw, op->dbias) });
}

static void watched_distill(struct backend *be, const struct op_distill *op)
{
    struct watcher *w = (struct watcher *)(void *)be->ops;

    w->layer = -1;
    be->ops = w->original;
    w->original->distill(be, op);
    be->ops = &w->ops;
    check_outputs(w, "distill",
                  &(struct operands) { OUT(op->student.losses, op->kd_losses) });
    w->backward = true;
    check_outputs(w, "distill",
                  &(struct operands) { OUT(op->student.dx, op->student.dw) });
}

/* Its weights are the first gradient of a pass. */
static void watched_preference(struct backend *be, const struct op_preference *op)
{
    struct watcher *w = (struct watcher *)(void *)be->ops;
    struct tensor weights = tensor_of(op->weights, FORMAT_FP32, 1, op->losses.cols);

    w->layer = -1;
    w->pairs = op->pairs.data;
    w->original->preference(be, op);
    check_outputs(w, "preference", &(struct operands) { OUT(op->pairs) });
    w->backward = true;
    check_outputs(w, "preference", &(struct operands) { OUT(weights) });
}

/* The same for its weights. */
static void watched_policy(struct backend *be, const struct op_policy *op)
{
    struct watcher *w = (struct watcher *)(void *)be->ops;
    struct tensor weights = tensor_of(op->weights, FORMAT_FP32, 1, op->losses.cols);

    w->layer = -1;
    w->pairs = op->values.data;
    w->original->policy(be, op);
    check_outputs(w, "policy", &(struct operands) { OUT(op->values) });
    w->backward = true;
    check_outputs(w, "policy", &(struct operands) { OUT(weights) });
}

/* Put the functions above into the table, as the column `watch` of kernels/operations.h
 * says.  Nothing is replayed from a recording: each operation runs and is checked. */
#define SET_WATCHED(name) ops->name = watched_##name;
#define SET_UNWATCHED(name)
#define SET_OPERATION(name, tensors, cpu, cuda, reference, watch) SET_##watch(name)
static void watch_operations(struct backend_ops *ops)
{
    ops->begin = NULL;
    ops->end = NULL;
    OPERATIONS(SET_OPERATION)
}

static void watcher_open(struct watcher *w, struct model *model, struct watch *out,
                         struct error *err)
{
    *out = (struct watch) { 0 };
    *w = (struct watcher) { .ops = *model->be->ops,
                            .original = model->be->ops,
                            .be = model->be,
                            .model = model,
                            .watch = out,
                            .err = err,
                            .span = memory_alloc(MODEL_SPAN * sizeof(float)),
                            .layer = -1 };
    watch_operations(&w->ops);
}

/* Restore the backend's table after a pass, and close w. */
static bool watcher_close(struct watcher *w, bool ok, struct error *err)
{
    w->model->be->ops = w->original;
    ok = ok && !w->failed && w->original->sync(w->be, err);
    free(w->span);
    return ok;
}

bool model_watch_batch(struct model *model, const struct batch *batch,
                       const struct step_scalars *scalars, struct watch *out,
                       struct error *err)
{
    struct watcher w;

    watcher_open(&w, model, out, err);
    w.rows = batch->rows;
    model_begin(model, scalars);
    model->expected_batches = SIZE_MAX; /* no other rank takes part */
    model->be->ops = &w.ops;
    return watcher_close(&w, model_train(model, batch, scalars->draw, err), err);
}

bool model_watch_evaluation(struct model *model, const struct batch *batch,
                            struct watch *out, struct error *err)
{
    struct watcher w;
    double loss = 0;

    watcher_open(&w, model, out, err);
    w.rows = batch->rows;
    model->be->ops = &w.ops;
    return watcher_close(&w, model_evaluate(model, batch, &loss, err), err);
}

/* ---- Parameters and gradients ---- */

static bool scan_tensor(struct watcher *w, const char *name, int64_t layer,
                        struct tensor t, struct watch_result *result)
{
    *result =
        (struct watch_result) { .operation = "", .layer = layer, .batch_row = SIZE_MAX };
    snprintf(result->tensor, sizeof(result->tensor), "%s", name);
    return scan(w, t, result);
}

static bool scan_parameter(struct watcher *w, size_t index, struct watch *out)
{
    const struct shape_parameter *shape = &w->model->shapes.parameters[index];
    const struct parameter *p = &w->model->parameters[index];
    const struct tensor both[] = { p->weight, p->copy };

    if (p->gathered)
        model_use_block(w->model, shape->layer, SIZE_MAX);
    if (p->quantized.codes)
        model_dequantize(w->model, p);
    for (size_t i = 0; i < 2 && out->kind == WATCH_NOTHING; i++) {
        struct watch_result result;

        if (!both[i].data)
            continue;
        if (!scan_tensor(w, p->name, is_in_block(shape) ? (int64_t)shape->layer : -1,
                         both[i], &result))
            return false;
        if (result.nans + result.infs > 0) {
            out->kind = WATCH_WEIGHT;
            out->found = result;
        } else if (result.largest > out->largest_output.largest) {
            out->largest_output = result;
        }
    }
    return true;
}

bool model_watch_weights(struct model *model, struct watch *out, struct error *err)
{
    struct watcher w;
    bool ok = true;

    watcher_open(&w, model, out, err);
    for (size_t i = 0; ok && i < model->shapes.count && out->kind == WATCH_NOTHING; i++)
        ok = scan_parameter(&w, i, out);
    free(w.span);
    return ok;
}

static int non_finite_first(const void *a, const void *b)
{
    const struct watch_result *left = a, *right = b;
    bool l = left->nans + left->infs > 0, r = right->nans + right->infs > 0;

    return l != r ? r - l : strcmp(left->tensor, right->tensor);
}

bool model_watch_gradients(struct model *model, struct watch_result *out, size_t *broken,
                           struct error *err)
{
    struct watch ignored;
    struct watcher w;
    bool ok = true;

    *broken = 0;
    watcher_open(&w, model, &ignored, err);
    for (size_t i = 0; ok && i < model->trained_count; i++) {
        const struct parameter *p = model->trained[i];

        ok = scan_tensor(&w, p->name, -1, p->grad, &out[i]);
        *broken += ok && out[i].nans + out[i].infs > 0;
    }
    free(w.span);
    if (ok)
        qsort(out, model->trained_count, sizeof(*out), non_finite_first);
    return ok;
}
