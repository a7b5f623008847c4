/* train/model/model_cross.c - cross-attention, forward and backward; model_cross.h says which
 * rows see which. */
#include "config.h"

#include "train/model/model_cross.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "kernels/reach.h"
#include "train/model/model_linear.h"

/* Of the last batch, on the host. */
struct cross_state {
    int32_t *offsets, *key_offsets; /* of the parts of texts, and of their images' rows */
    size_t parts, rows;             /* rows of images, of all parts */
    int32_t *seen, *reach, *since;
    struct key_range {
        int32_t first, end;
    } last, *slots; /* that the last row sees; of prompts, by slot */
};

struct cross_state *model_cross_new(const struct model *model)
{
    const struct shape_buffer *buffers = model->shapes.buffers;
    const size_t parts = buffers[BUFFER_CROSS_OFFSETS].cols;
    struct cross_state *state;

    if (parts == 0)
        return NULL;
    state = memory_alloc(sizeof(*state));
    *state = (struct cross_state) {
        .offsets = memory_alloc(parts * sizeof(int32_t)),
        .key_offsets = memory_alloc(parts * sizeof(int32_t)),
        .seen = memory_alloc(model->shapes.rows * sizeof(int32_t)),
        .reach = memory_alloc(model->shapes.rows * sizeof(int32_t)),
        .since = memory_alloc(buffers[BUFFER_CROSS_SINCE].cols * sizeof(int32_t)),
        .slots = memory_alloc(model->shapes.slots * sizeof(*state->slots)),
    };
    memset(state->slots, 0, model->shapes.slots * sizeof(*state->slots));
    return state;
}

void model_cross_free(struct cross_state *state)
{
    if (!state)
        return;
    free(state->offsets);
    free(state->key_offsets);
    free(state->seen);
    free(state->reach);
    free(state->since);
    free(state->slots);
    free(state);
}

size_t model_cross_parts(const struct model *model)
{
    return model->cross ? model->cross->parts : 0;
}

size_t model_cross_rows(const struct model *model)
{
    return model->cross->rows;
}

/* ---- Which rows see which ---- */

static void start_part(struct cross_state *s, int32_t row, int32_t key)
{
    s->offsets[s->parts] = row;
    s->key_offsets[s->parts++] = key;
}

/* Divide one text, whose images are `medium` .. `end`. */
static void divide(struct cross_state *s, const struct batch *batch, size_t sequence,
                   const struct batch_medium *medium, const struct batch_medium *end)
{
    const int32_t first = batch->offsets[sequence], last = batch->offsets[sequence + 1];
    const int32_t before = s->parts > 0 ? (int32_t)s->rows : 0;
    int32_t reach = before, previous = -2;
    bool seen = false;

    if (first < last && (medium == end || batch->media_at[medium->first] > first))
        start_part(s, first, before);
    for (int32_t row = first; row < last; row++) {
        if (medium < end && batch->media_at[medium->first] == row) {
            if (previous + 1 != row)
                start_part(s, row, (int32_t)medium->first);
            reach = (int32_t)(medium->first + medium->item->rows);
            previous = row;
            seen = true;
            medium++;
        }
        s->seen[row] = seen;
        s->reach[row] = reach;
    }
    s->rows = (size_t)reach;
    if (first < last)
        s->last = (struct key_range) { s->key_offsets[s->parts - 1], reach };
}

static void divide_all(struct cross_state *s, const struct batch *batch, size_t used)
{
    const struct batch_medium *at = batch->media, *end = at + batch->media_count, *next;

    s->parts = s->rows = 0;
    for (size_t i = 0; i < batch->sequences; i++) {
        for (next = at; next < end && next->sequence == i;)
            next++;
        divide(s, batch, i, at, next);
        at = next;
    }
    if (s->rows < used) /* which no row sees */
        start_part(s, (int32_t)batch->rows, (int32_t)s->rows);
    s->offsets[s->parts] = (int32_t)batch->rows;
    s->key_offsets[s->parts] = (int32_t)used;
    s->rows = used;
}

static void upload_ids(const struct pass *pass, enum buffer buffer, const int32_t *from,
                       size_t count)
{
    pass->ops->upload(pass->be, pass_buffer(pass, buffer, 0).data, from,
                      count * sizeof(*from));
}

void model_cross_upload(const struct pass *pass, const struct batch *batch, size_t used)
{
    struct cross_state *s = pass->model->cross;

    if (!s)
        return;
    divide_all(s, batch, used);
    assert(s->parts < pass->model->shapes.buffers[BUFFER_CROSS_OFFSETS].cols);
    reach_since_keys(s->since, s->reach, s->offsets, s->key_offsets, s->parts);
    upload_ids(pass, BUFFER_CROSS_OFFSETS, s->offsets, s->parts + 1);
    upload_ids(pass, BUFFER_CROSS_KEY_OFFSETS, s->key_offsets, s->parts + 1);
    upload_ids(pass, BUFFER_CROSS_SEEN, s->seen, batch->rows);
    upload_ids(pass, BUFFER_CROSS_REACH, s->reach, batch->rows);
    upload_ids(pass, BUFFER_CROSS_SINCE, s->since, used);
}

/* ---- Generation ---- */

void model_cross_started(const struct pass *pass)
{
    struct cross_state *s = pass->model->cross;

    if (s)
        s->slots[pass->slot] = pass->media ? s->last : (struct key_range) { 0, 0 };
}

/* The rows of a slot start at a multiple of those that memory was planned for. */
static int32_t slot_start(const struct pass *pass, size_t slot)
{
    return (int32_t)(slot * pass->model->shapes.buffers[BUFFER_MEDIA_AT].cols);
}

void model_cross_decode(const struct pass *pass)
{
    struct cross_state *s = pass->model->cross;
    int32_t at = 0;

    if (!s)
        return;
    s->parts = 0;
    for (size_t i = 0; i < pass->sequences; i++) {
        const int32_t first = slot_start(pass, i) + s->slots[i].first;

        if (first > at) /* which no row sees */
            start_part(s, (int32_t)i, at);
        start_part(s, (int32_t)i, first);
        at = slot_start(pass, i) + s->slots[i].end;
        s->seen[i] = s->slots[i].end > s->slots[i].first;
    }
    if (at < slot_start(pass, pass->sequences))
        start_part(s, (int32_t)pass->sequences, at);
    s->offsets[s->parts] = (int32_t)pass->sequences;
    s->key_offsets[s->parts] = slot_start(pass, pass->sequences);
    upload_ids(pass, BUFFER_CROSS_OFFSETS, s->offsets, s->parts + 1);
    upload_ids(pass, BUFFER_CROSS_KEY_OFFSETS, s->key_offsets, s->parts + 1);
    upload_ids(pass, BUFFER_CROSS_SEEN, s->seen, pass->sequences);
}

/* ---- Operations ---- */

/* Return the rows of images in a buffer that has more. */
static struct tensor image_rows(const struct pass *pass, enum buffer buffer, size_t layer)
{
    return tensor_rows(pass_buffer(pass, buffer, layer), 0, pass->model->cross->rows);
}

static struct tensor queries(const struct pass *pass, size_t layer, enum buffer buffer)
{
    return model_queries(pass, layer, pass_buffer(pass, buffer, layer));
}

static struct tensor keys(const struct pass *pass, struct tensor kv)
{
    return tensor_columns(kv, 0, model_config_most_keys(pass->model->config));
}

static struct tensor values(const struct pass *pass, struct tensor kv)
{
    const size_t cols = model_config_most_keys(pass->model->config);

    return tensor_columns(kv, cols, cols);
}

static void norm_heads(const struct pass *pass, const struct norm *norm, struct tensor x,
                       struct tensor out, struct tensor rstd)
{
    const struct model_config *c = pass->model->config;

    pass->ops->headnorm(pass->be, &(struct op_headnorm) { .out = out,
                                                          .rstd = rstd,
                                                          .x = x,
                                                          .weight = norm->weight->weight,
                                                          .eps = (float)c->norm_eps,
                                                          .heads = rstd.cols });
}

static void norm_heads_backward(const struct pass *pass, const struct norm *norm,
                                struct tensor x, struct tensor d, struct tensor rstd)
{
    pass->ops->headnorm_backward(
        pass->be, &(struct op_headnorm_backward) { .dx = d,
                                                   .dweight = norm->weight->grad,
                                                   .dout = d,
                                                   .x = x,
                                                   .weight = norm->weight->weight,
                                                   .rstd = rstd,
                                                   .heads = rstd.cols });
}

static struct op_attention attention_of(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;
    const struct tensor q = pass_buffer(pass, BUFFER_CROSS_Q, layer);
    struct op_attention op = {
        .dropout = model_attention_dropout(pass, layer),
        .out = tensor_columns(pass_buffer(pass, BUFFER_ATT, layer), 0, q.cols),
        .lse = pass_buffer(pass, BUFFER_LSE, layer),
        .q = q,
        .k = image_rows(pass, BUFFER_CROSS_K, layer),
        .v = values(pass, image_rows(pass, BUFFER_CROSS_KV, layer)),
        .offsets = pass_buffer(pass, BUFFER_CROSS_OFFSETS, 0).data,
        .key_offsets = pass_buffer(pass, BUFFER_CROSS_KEY_OFFSETS, 0).data,
        .reach = pass_buffer(pass, BUFFER_CROSS_REACH, 0).data,
        .since = pass_buffer(pass, BUFFER_CROSS_SINCE, 0).data,
        .sequences = pass->model->cross->parts,
        .longest = pass->longest,
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .head_size = c->head_size,
        .scale = pass->model->blocks[layer].scale,
    };

    if (pass->decoding) {
        op.k = pass_buffer(pass, BUFFER_CROSS_KEYS, layer);
        op.v = pass_buffer(pass, BUFFER_CROSS_VALUES, layer);
        op.reach = op.since = NULL;
    }
    return op;
}

/* Keep the keys, or the values, of a prompt. */
static void cache(const struct pass *pass, enum buffer buffer, size_t layer,
                  struct tensor x)
{
    const size_t first = (size_t)slot_start(pass, pass->slot);
    const struct tensor to = tensor_rows(pass_buffer(pass, buffer, layer), first, x.rows);

    pass->ops->convert(pass->be, &(struct op_convert) { .out = to, .x = x });
}

static void make_keys(const struct pass *pass, size_t layer)
{
    const struct block *b = &pass->model->blocks[layer];
    const struct tensor rows = image_rows(pass, BUFFER_MEDIA_ROWS, 0);
    const struct tensor kv = image_rows(pass, BUFFER_CROSS_KV, layer);
    const struct tensor k = image_rows(pass, BUFFER_CROSS_K, layer);

    stack_forward(pass, &b->cross_kv, layer, rows, kv, 0);
    norm_heads(pass, &b->cross_k_norm, keys(pass, kv), k,
               image_rows(pass, BUFFER_RSTD_CROSS_K, layer));
    if (!pass->prefill)
        return;
    cache(pass, BUFFER_CROSS_KEYS, layer, k);
    cache(pass, BUFFER_CROSS_VALUES, layer, values(pass, kv));
}

void model_cross_run(const struct pass *pass, size_t layer)
{
    const struct block *b = &pass->model->blocks[layer];
    struct op_attention attention;

    if (!pass->decoding)
        make_keys(pass, layer);
    norm_heads(pass, &b->cross_q_norm, queries(pass, layer, BUFFER_QKV),
               pass_buffer(pass, BUFFER_CROSS_Q, layer),
               pass_buffer(pass, BUFFER_RSTD_CROSS_Q, layer));
    attention = attention_of(pass, layer);
    pass->ops->attention(pass->be, &attention);
}

/* The backward pass starts at the last of these layers. */
static bool starts_sum(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;

    for (size_t l = layer + 1; l < c->layers; l++)
        if (model_config_crosses(c, l))
            return false;
    return true;
}

/* All layers read the same rows of images. */
static void keys_backward(const struct pass *pass, size_t layer, struct tensor dkv)
{
    const struct tensor x = image_rows(pass, BUFFER_MEDIA_ROWS, 0);
    const struct tensor sum = pass_buffer(pass, BUFFER_DCROSS_SUM, 0);
    struct tensor dx = { 0 };

    if (sum.data)
        dx = image_rows(pass, BUFFER_DCROSS_ROWS, 0);
    stack_backward(pass, &pass->model->blocks[layer].cross_kv, layer, x, dkv, dx);
    if (!sum.data)
        return;
    if (starts_sum(pass, layer))
        pass->ops->zero(pass->be, &(struct op_zero) { .out = sum });
    pass->ops->add(pass->be, &(struct op_add) { .out = tensor_rows(sum, 0, dx.rows),
                                                .a = tensor_rows(sum, 0, dx.rows),
                                                .b = dx });
}

void model_cross_rows_backward(const struct pass *pass)
{
    if (pass_buffer(pass, BUFFER_DCROSS_SUM, 0).data)
        pass->ops->convert(pass->be, &(struct op_convert) {
                                         .out = image_rows(pass, BUFFER_MEDIA_ROWS, 0),
                                         .x = image_rows(pass, BUFFER_DCROSS_SUM, 0) });
}

void model_cross_backward(const struct pass *pass, size_t layer, struct tensor datt)
{
    const struct block *b = &pass->model->blocks[layer];
    const struct tensor dq =
        model_queries(pass, layer, pass_buffer(pass, BUFFER_DQKV, 0));
    const struct tensor dkv = image_rows(pass, BUFFER_DCROSS_KV, 0);
    const struct op_attention_backward op = {
        .dq = dq,
        .dk = keys(pass, dkv),
        .dv = values(pass, dkv),
        .delta = pass_buffer(pass, BUFFER_DLSE, 0),
        .dout = datt,
        .forward = attention_of(pass, layer),
    };

    pass->ops->attention_backward(pass->be, &op);
    norm_heads_backward(pass, &b->cross_q_norm, queries(pass, layer, BUFFER_QKV), dq,
                        pass_buffer(pass, BUFFER_RSTD_CROSS_Q, layer));
    norm_heads_backward(pass, &b->cross_k_norm,
                        keys(pass, image_rows(pass, BUFFER_CROSS_KV, layer)), op.dk,
                        image_rows(pass, BUFFER_RSTD_CROSS_K, layer));
    keys_backward(pass, layer, dkv);
}

static const int32_t *seen_rows(const struct pass *pass, bool o)
{
    /* attention without keys is 0 */
    return o ? NULL : pass_buffer(pass, BUFFER_CROSS_SEEN, 0).data;
}

static const struct parameter *gate_of(const struct pass *pass, size_t layer, bool o)
{
    const struct block *b = &pass->model->blocks[layer];

    return o ? b->cross_gate : b->cross_mlp_gate;
}

void model_cross_gate(const struct pass *pass, size_t layer, bool o, struct tensor x,
                      struct tensor out)
{
    pass->ops->gate(pass->be, &(struct op_gate) { .out = out,
                                                  .x = x,
                                                  .gate = gate_of(pass, layer, o)->weight,
                                                  .seen = seen_rows(pass, o) });
}

void model_cross_gate_backward(const struct pass *pass, size_t layer, bool o,
                               struct tensor dout, struct tensor dx)
{
    const struct parameter *gate = gate_of(pass, layer, o);

    pass->ops->gate_backward(
        pass->be,
        &(struct op_gate_backward) {
            .dx = dx,
            .dgate = gate->grad,
            .dout = dout,
            .x = pass_buffer(pass, o ? BUFFER_CROSS_ATT : BUFFER_CROSS_MLP, layer),
            .gate = gate->weight,
            .seen = seen_rows(pass, o) });
}

/* Those of vectors are only added to. */
void model_cross_skip_backward(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;

    for (size_t i = 0; pass->first && i < m->shapes.count; i++) {
        const struct shape_parameter *p = &m->shapes.parameters[i];

        if (p->trainable && module_in_block(p->module) && p->layer == layer &&
            shapes_stack(p->module) < STACKS)
            pass->ops->zero(pass->be, &(struct op_zero) { .out = m->parameters[i].grad });
    }
}
