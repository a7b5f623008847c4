/*
 * kernels/cuda/cuda_sdpa.c - the cuDNN graphs of attention and of its gradients.
 *
 * The order of the operations is that of NVIDIA's own front end: an engine recognizes a
 * pattern, not a meaning.
 */
#include "config.h"

#include "kernels/cuda/cuda_sdpa.h"

#include <assert.h>
#include <stdlib.h>

struct builder {
    struct cudnn_graph graph;
    const struct cuda_sdpa_key *key;
    cudnn_descriptor lengths;
};

_Static_assert((int)SDPA_IDS <= (int)CUDNN_GRAPH_IDS, "a plan has a bit for each id");

/* ---- Tensors ---- */

/* Rows of a matrix, with the heads of a row adjacent. */
static struct cudnn_shape rows_of(const struct builder *b, int64_t heads,
                                  int64_t elements, int64_t stride)
{
    int64_t longest = b->key->longest;

    return (struct cudnn_shape) { { b->key->sequences, heads, longest, elements },
                                  { longest * stride, elements, stride, 1 } };
}

static cudnn_descriptor inside(struct builder *b, int64_t elements)
{
    return cudnn_graph_inside(&b->graph, CUDNN_FLOAT,
                              cudnn_shape_rows(&b->graph, elements));
}

static cudnn_descriptor offsets(struct builder *b, enum cuda_sdpa_id rows)
{
    return cudnn_graph_memory(&b->graph, rows, CUDNN_INT32,
                              cudnn_shape_list(b->key->sequences + 1), NULL);
}

static cudnn_descriptor matrix(struct builder *b, enum cuda_sdpa_id id,
                               enum cuda_sdpa_id rows, struct cudnn_shape shape)
{
    return cudnn_graph_memory(&b->graph, id, (int)b->key->data_type, shape,
                              offsets(b, rows));
}

/* Of query heads or of key heads. */
static struct cudnn_shape wide(const struct builder *b, int64_t stride)
{
    return rows_of(b, b->key->heads, b->key->head_size, stride);
}

static struct cudnn_shape narrow(const struct builder *b, int64_t stride)
{
    return rows_of(b, b->key->kv_heads, b->key->head_size, stride);
}

static cudnn_descriptor statistics(struct builder *b)
{
    int64_t heads = b->key->heads;

    return cudnn_graph_memory(&b->graph, SDPA_STATS, CUDNN_FLOAT,
                              rows_of(b, heads, 1, heads), offsets(b, SDPA_STATS_ROWS));
}

/* ---- Operations ---- */

static cudnn_descriptor arithmetic(struct builder *b, enum cudnn_pointwise mode,
                                   cudnn_descriptor x, cudnn_descriptor other)
{
    return cudnn_graph_apply(&b->graph, mode, CUDNN_FLOAT, x, other);
}

static cudnn_descriptor compare(struct builder *b, enum cudnn_pointwise mode,
                                cudnn_descriptor x, cudnn_descriptor other)
{
    return cudnn_graph_apply(&b->graph, mode, CUDNN_BOOLEAN, x, other);
}

static cudnn_descriptor place_of(struct builder *b, cudnn_descriptor x, int64_t axis)
{
    return cudnn_graph_index(&b->graph, x, axis);
}

static cudnn_descriptor keep(struct builder *b, cudnn_descriptor x, cudnn_descriptor seen,
                             cudnn_descriptor hidden)
{
    return cudnn_graph_select(&b->graph, x, seen, hidden);
}

static cudnn_descriptor value(struct builder *b, enum cuda_sdpa_id id)
{
    return cudnn_graph_value(&b->graph, id);
}

/* In fp32, for each row. */
static cudnn_descriptor by_rows(struct builder *b, enum cudnn_pointwise mode,
                                cudnn_descriptor y, cudnn_descriptor x,
                                cudnn_descriptor other)
{
    return cudnn_graph_pointwise(
        &b->graph,
        (struct cudnn_pointwise_op) {
            .mode = mode, .precision = CUDNN_FLOAT, .y = y, .x = x, .b = other });
}

static cudnn_descriptor reduce(struct builder *b, enum cudnn_reduction kind,
                               cudnn_descriptor x)
{
    return cudnn_graph_reduce(&b->graph, kind, x, inside(b, 1));
}

/* ---- Masks ---- */

/* Mask scores past the end of a sequence. */
static cudnn_descriptor mask_ends(struct builder *b, cudnn_descriptor s,
                                  cudnn_descriptor hidden)
{
    cudnn_descriptor row = place_of(b, s, 2), key = place_of(b, s, 3), there;

    there = compare(b, CUDNN_CMP_LT, row, b->lengths);
    there = compare(b, CUDNN_AND, there, compare(b, CUDNN_CMP_LT, key, b->lengths));
    return keep(b, s, there, hidden);
}

/* Mask future keys, and keys before the window. */
static cudnn_descriptor mask_keys(struct builder *b, cudnn_descriptor s,
                                  cudnn_descriptor hidden)
{
    cudnn_descriptor row = place_of(b, s, 2), key = place_of(b, s, 3);

    s = keep(b, s, compare(b, CUDNN_CMP_GE, row, key), hidden);
    if (b->key->window == 0)
        return s;
    row = place_of(b, s, 2);
    key = place_of(b, s, 3);
    key = arithmetic(b, CUDNN_ADD, key, value(b, SDPA_WINDOW));
    return keep(b, s, compare(b, CUDNN_CMP_GT, key, row), hidden);
}

/* ---- The forward pass ---- */

/* Compute the weights, and the log-sum-exp of their rows into the statistics. */
static cudnn_descriptor softmax(struct builder *b, cudnn_descriptor s)
{
    const struct cuda_sdpa_key *key = b->key;
    cudnn_descriptor largest = reduce(b, CUDNN_REDUCE_MAX, s), sum, lse;

    s = arithmetic(b, CUDNN_SUB, s, largest);
    s = arithmetic(b, CUDNN_EXP, s, NULL);
    sum = reduce(b, CUDNN_REDUCE_ADD, s);
    lse = by_rows(b, CUDNN_LOG, inside(b, 1), sum, NULL);
    by_rows(b, CUDNN_ADD, statistics(b), largest, lse);
    return by_rows(b, CUDNN_DIV,
                   cudnn_graph_inside(&b->graph, (int)key->data_type,
                                      cudnn_shape_rows(&b->graph, key->longest)),
                   s, sum);
}

static void build_forward(struct builder *b)
{
    const struct cuda_sdpa_key *key = b->key;
    cudnn_descriptor q, k, v, out, s, hidden;

    q = matrix(b, SDPA_Q, SDPA_Q_ROWS, wide(b, key->q_stride));
    k = matrix(b, SDPA_K, SDPA_K_ROWS, cudnn_shape_transposed(narrow(b, key->k_stride)));
    s = cudnn_graph_product(&b->graph,
                            (struct cudnn_product) { .c = inside(b, key->longest),
                                                     .a = q,
                                                     .b = k,
                                                     .m = b->lengths,
                                                     .n = b->lengths,
                                                     .pads = true });
    s = arithmetic(b, CUDNN_MUL, s, value(b, SDPA_SCALE));
    hidden = value(b, SDPA_HIDDEN);
    s = mask_keys(b, mask_ends(b, s, hidden), hidden);
    s = softmax(b, s);
    v = matrix(b, SDPA_V, SDPA_V_ROWS, narrow(b, key->v_stride));
    out = matrix(b, SDPA_OUT, SDPA_OUT_ROWS, wide(b, key->out_stride));
    cudnn_graph_product(&b->graph,
                        (struct cudnn_product) {
                            .c = out, .a = s, .b = v, .m = b->lengths, .k = b->lengths });
}

/* ---- The backward pass ---- */

/* Return delta: the sum over each row's columns of dout * out. */
static cudnn_descriptor delta_of(struct builder *b, cudnn_descriptor dout)
{
    const struct cuda_sdpa_key *key = b->key;
    cudnn_descriptor out = matrix(b, SDPA_OUT, SDPA_OUT_ROWS, wide(b, key->out_stride));
    cudnn_descriptor sum = reduce(
        b, CUDNN_REDUCE_ADD, by_rows(b, CUDNN_MUL, inside(b, key->head_size), dout, out));
    cudnn_descriptor delta = cudnn_graph_memory(&b->graph, SDPA_DELTA, CUDNN_FLOAT,
                                                cudnn_shape_rows(&b->graph, 1), NULL);

    return by_rows(b, CUDNN_MUL, delta, sum, value(b, SDPA_ONE));
}

/* The transpose of scores, rounded to the format of the operands. */
static cudnn_descriptor turned(struct builder *b, cudnn_descriptor s)
{
    struct cudnn_shape shape =
        cudnn_shape_transposed(cudnn_shape_rows(&b->graph, b->key->longest));

    return cudnn_graph_reshape(
        &b->graph, s, cudnn_graph_inside(&b->graph, (int)b->key->data_type, shape));
}

/* out = s^T x, of query heads, summed over those that share a key head. */
static void gradient_of_keys(struct builder *b, cudnn_descriptor out, cudnn_descriptor s,
                             cudnn_descriptor x)
{
    const struct cuda_sdpa_key *key = b->key;
    bool shared = key->kv_heads < key->heads;
    cudnn_descriptor each = out;

    s = turned(b, s);
    if (shared)
        each = cudnn_graph_inside(&b->graph, (int)key->data_type,
                                  cudnn_shape_rows(&b->graph, key->head_size));
    cudnn_graph_product(
        &b->graph, (struct cudnn_product) {
                       .c = each, .a = s, .b = x, .m = b->lengths, .k = b->lengths });
    if (shared)
        cudnn_graph_reduce(&b->graph, CUDNN_REDUCE_ADD, each, out);
}

/* s = x y^T */
static cudnn_descriptor scores_of(struct builder *b, cudnn_descriptor x,
                                  cudnn_descriptor y)
{
    return cudnn_graph_product(&b->graph,
                               (struct cudnn_product) { .c = inside(b, b->key->longest),
                                                        .a = x,
                                                        .b = y,
                                                        .m = b->lengths,
                                                        .n = b->lengths });
}

/* dq = ds k, summed in fp32 by blocks of keys. */
static void gradient_of_queries(struct builder *b, cudnn_descriptor ds,
                                cudnn_descriptor turned_k)
{
    const struct cuda_sdpa_key *key = b->key;
    struct cudnn_graph *g = &b->graph;
    cudnn_descriptor k = cudnn_graph_reshape(
        g, turned_k,
        cudnn_graph_inside_ragged(g, CUDNN_FLOAT, narrow(b, key->k_stride),
                                  offsets(b, SDPA_K_ROWS)));
    cudnn_descriptor sum = cudnn_graph_memory(g, SDPA_DQ_SUM, CUDNN_FLOAT,
                                              cudnn_shape_rows(g, key->head_size), NULL);

    cudnn_graph_product(
        g, (struct cudnn_product) {
               .c = sum, .a = ds, .b = k, .m = b->lengths, .k = b->lengths });
    by_rows(b, CUDNN_IDENTITY, matrix(b, SDPA_DQ, SDPA_DQ_ROWS, wide(b, key->dq_stride)),
            sum, NULL);
}

static void build_backward(struct builder *b)
{
    const struct cuda_sdpa_key *key = b->key;
    cudnn_descriptor q, k, v, dout, delta, s, p, ds, hidden, scale;

    dout = matrix(b, SDPA_DOUT, SDPA_DOUT_ROWS, wide(b, key->dout_stride));
    delta = delta_of(b, dout);
    q = matrix(b, SDPA_Q, SDPA_Q_ROWS, wide(b, key->q_stride));
    k = matrix(b, SDPA_K, SDPA_K_ROWS, cudnn_shape_transposed(narrow(b, key->k_stride)));
    v = matrix(b, SDPA_V, SDPA_V_ROWS, cudnn_shape_transposed(narrow(b, key->v_stride)));
    scale = value(b, SDPA_SCALE);
    hidden = value(b, SDPA_HIDDEN);
    s = arithmetic(b, CUDNN_MUL, scores_of(b, q, k), scale);
    s = arithmetic(b, CUDNN_SUB, mask_ends(b, s, hidden), statistics(b));
    p = arithmetic(b, CUDNN_EXP, mask_keys(b, s, hidden), NULL);
    gradient_of_keys(b, matrix(b, SDPA_DV, SDPA_DV_ROWS, narrow(b, key->dv_stride)), p,
                     dout);
    ds = arithmetic(b, CUDNN_SUB, scores_of(b, dout, v), delta);
    ds = arithmetic(b, CUDNN_MUL, ds, p);
    ds = arithmetic(b, CUDNN_MUL, ds, scale);
    gradient_of_keys(b, matrix(b, SDPA_DK, SDPA_DK_ROWS, narrow(b, key->dk_stride)), ds,
                     q);
    gradient_of_queries(b, ds, k);
}

/* ---- The plan ---- */

struct cudnn_plan *cuda_sdpa_plan_new(const struct cuda_cudnn *cudnn,
                                      const struct cudnn_choice *choice,
                                      const struct cuda_sdpa_key *key, bool *none,
                                      struct error *err)
{
    struct cudnn_plan *plan = calloc(1, sizeof(*plan));
    struct builder b = { .graph = { .plan = plan,
                                    .cudnn = cudnn,
                                    .next_id = SDPA_IDS,
                                    .scores = { key->sequences, key->heads,
                                                key->longest } },
                         .key = key };

    *none = false;
    if (!plan) {
        error_errno(err, "cannot allocate memory for the plan of attention");
        return NULL;
    }
    plan->cudnn = cudnn;
    b.lengths = cudnn_graph_memory(&b.graph, SDPA_LENGTHS, CUDNN_INT32,
                                   cudnn_shape_list(key->sequences), NULL);
    if (key->backward)
        build_backward(&b);
    else
        build_forward(&b);
    if (cudnn_graph_plan(&b.graph, choice, none, err))
        return plan;
    cudnn_plan_free(plan);
    return NULL;
}

static size_t of_rows(const struct cuda_sdpa_key *key, int64_t elements)
{
    return (size_t)(key->sequences * key->heads * key->longest * elements) *
           sizeof(float);
}

size_t cuda_sdpa_delta_bytes(const struct cuda_sdpa_key *key)
{
    return of_rows(key, 1);
}

size_t cuda_sdpa_dq_bytes(const struct cuda_sdpa_key *key)
{
    return of_rows(key, key->head_size);
}
