/*
 * kernels/cuda/cuda_sdpa.c - builds the cuDNN graph of attention and its plan.
 *
 * The order of the operations is that of NVIDIA's own front end: an engine recognizes a
 * pattern, not a meaning.
 */
#include "config.h"

#include "kernels/cuda/cuda_sdpa.h"

#include "base/size.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The graph has 25 operations on 38 tensors, the heuristic a few configurations. */
enum { DESCRIPTORS_MOST = 160, OPS_MOST = 32, CONFIGS_MOST = 8, ALIGNMENT = 16 };

struct cuda_sdpa_plan {
    const struct cuda_cudnn *cudnn;
    cudnn_handle handle;
    cudnn_descriptor descriptors[DESCRIPTORS_MOST]; /* all that were created, in order */
    size_t count;
    cudnn_descriptor plan; /* one of them */
    int64_t workspace;
    bool windowed;
};

struct builder {
    struct cuda_sdpa_plan *plan; /* owns what is created */
    const struct cuda_cudnn *cudnn;
    const struct cuda_sdpa_key *key;
    int status;        /* the first error: later calls do nothing */
    const char *doing; /* where */
    char why[200];     /* what the library said of it */
    int64_t next_id;   /* of a tensor inside the graph */
    cudnn_descriptor ops[OPS_MOST];
    size_t op_count;
};

/* ---- Descriptors ---- */

static bool status_ok(struct builder *b, int status, const char *doing)
{
    if (b->status == CUDNN_SUCCESS && status != CUDNN_SUCCESS) {
        b->status = status;
        b->doing = doing;
        b->cudnn->last_error(b->why, sizeof(b->why));
        b->why[strcspn(b->why, "\n")] = '\0';
    }
    return b->status == CUDNN_SUCCESS;
}

static cudnn_descriptor make(struct builder *b, enum cudnn_kind kind)
{
    struct cuda_sdpa_plan *plan = b->plan;
    cudnn_descriptor *desc = &plan->descriptors[plan->count];

    assert(plan->count < DESCRIPTORS_MOST);
    if (b->status != CUDNN_SUCCESS ||
        !status_ok(b, b->cudnn->desc_create(kind, desc), "cannot create a descriptor"))
        return NULL;
    plan->count++;
    return *desc;
}

static void set(struct builder *b, cudnn_descriptor desc, enum cudnn_attribute attribute,
                enum cudnn_type type, int64_t count, const void *elements)
{
    if (b->status == CUDNN_SUCCESS)
        status_ok(b, b->cudnn->desc_set(desc, attribute, type, count, elements),
                  "cannot set an attribute");
}

static void set_number(struct builder *b, cudnn_descriptor desc,
                       enum cudnn_attribute attribute, int64_t number)
{
    set(b, desc, attribute, CUDNN_TYPE_INT64, 1, &number);
}

static void set_bool(struct builder *b, cudnn_descriptor desc,
                     enum cudnn_attribute attribute, bool is)
{
    set(b, desc, attribute, CUDNN_TYPE_BOOLEAN, 1, &is);
}

/* For an enumeration, which is an int here. */
static void set_word(struct builder *b, cudnn_descriptor desc,
                     enum cudnn_attribute attribute, enum cudnn_type type, int word)
{
    set(b, desc, attribute, type, 1, &word);
}

static void set_desc(struct builder *b, cudnn_descriptor desc,
                     enum cudnn_attribute attribute, cudnn_descriptor other)
{
    set(b, desc, attribute, CUDNN_TYPE_DESCRIPTOR, 1, &other);
}

static void finish(struct builder *b, cudnn_descriptor desc, const char *what)
{
    if (b->status == CUDNN_SUCCESS)
        status_ok(b, b->cudnn->finalize(desc), what);
}

static void finish_op(struct builder *b, cudnn_descriptor op)
{
    assert(b->op_count < OPS_MOST);
    finish(b, op, "cannot finalize an operation");
    if (b->status == CUDNN_SUCCESS)
        b->ops[b->op_count++] = op;
}

/* ---- Tensors: (sequences, heads, rows, numbers) ---- */

struct shape {
    int64_t dims[4], strides[4];
};

/* Rows of a matrix, with the heads of a row adjacent. */
static struct shape rows_of(const struct cuda_sdpa_key *key, int64_t heads,
                            int64_t numbers, int64_t stride)
{
    return (struct shape) { { key->sequences, heads, key->longest, numbers },
                            { key->longest * stride, numbers, stride, 1 } };
}

/* The matmul with the transpose is needed. */
static struct shape transposed(struct shape s)
{
    return (struct shape) { { s.dims[0], s.dims[1], s.dims[3], s.dims[2] },
                            { s.strides[0], s.strides[1], s.strides[3], s.strides[2] } };
}

/* This many elements for each row and head: scores, or one. */
static struct shape for_rows(const struct cuda_sdpa_key *key, int64_t numbers)
{
    int64_t rows = key->longest;

    return (struct shape) { { key->sequences, key->heads, rows, numbers },
                            { key->heads * rows * numbers, rows * numbers, numbers, 1 } };
}

static struct shape one_each(int64_t count)
{
    return (struct shape) { { count, 1, 1, 1 }, { 1, 1, 1, 1 } };
}

enum place { IN_GRAPH, IN_MEMORY, BY_VALUE };

static cudnn_descriptor tensor(struct builder *b, int64_t id, enum place place,
                               int data_type, struct shape shape, cudnn_descriptor rows)
{
    cudnn_descriptor desc = make(b, CUDNN_TENSOR);

    set_number(b, desc, CUDNN_TENSOR_ID, id);
    set_number(b, desc, CUDNN_TENSOR_ALIGNMENT, ALIGNMENT);
    set_word(b, desc, CUDNN_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, data_type);
    set(b, desc, CUDNN_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape.dims);
    set(b, desc, CUDNN_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape.strides);
    set_bool(b, desc, CUDNN_TENSOR_IS_VIRTUAL, place == IN_GRAPH);
    set_bool(b, desc, CUDNN_TENSOR_IS_BY_VALUE, place == BY_VALUE);
    if (rows)
        set_desc(b, desc, CUDNN_TENSOR_RAGGED_OFFSET, rows);
    finish(b, desc, "cannot finalize a tensor");
    return desc;
}

static cudnn_descriptor inside(struct builder *b, int data_type, struct shape shape)
{
    return tensor(b, b->next_id++, IN_GRAPH, data_type, shape, NULL);
}

static cudnn_descriptor scores(struct builder *b, int data_type)
{
    return inside(b, data_type, for_rows(b->key, b->key->longest));
}

static cudnn_descriptor value(struct builder *b, enum cuda_sdpa_id id)
{
    return tensor(b, id, BY_VALUE, CUDNN_FLOAT, one_each(1), NULL);
}

static cudnn_descriptor ragged(struct builder *b, enum cuda_sdpa_id id,
                               enum cuda_sdpa_id rows, int data_type, struct shape shape)
{
    cudnn_descriptor offsets =
        tensor(b, rows, IN_MEMORY, CUDNN_INT32, one_each(b->key->sequences + 1), NULL);

    return tensor(b, id, IN_MEMORY, data_type, shape, offsets);
}

/* ---- Operations ---- */

struct pointwise {
    enum cudnn_pointwise mode;
    int precision; /* a data type */
    cudnn_descriptor y, x, b, t;
    int64_t axis; /* of GEN_INDEX */
};

static cudnn_descriptor pointwise(struct builder *b, struct pointwise p)
{
    cudnn_descriptor how = make(b, CUDNN_POINTWISE), op;

    set_word(b, how, CUDNN_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, (int)p.mode);
    set_word(b, how, CUDNN_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, p.precision);
    if (p.mode == CUDNN_GEN_INDEX)
        set_number(b, how, CUDNN_POINTWISE_AXIS, p.axis);
    finish(b, how, "cannot finalize a pointwise operation");
    op = make(b, CUDNN_OP_POINTWISE);
    set_desc(b, op, CUDNN_OP_POINTWISE_DESC, how);
    set_desc(b, op, CUDNN_OP_POINTWISE_X, p.x);
    if (p.b)
        set_desc(b, op, CUDNN_OP_POINTWISE_B, p.b);
    if (p.t)
        set_desc(b, op, CUDNN_OP_POINTWISE_T, p.t);
    set_desc(b, op, CUDNN_OP_POINTWISE_Y, p.y);
    finish_op(b, op);
    return p.y;
}

/* On scores, computed in the type of the result. */
static cudnn_descriptor apply(struct builder *b, enum cudnn_pointwise mode, int data_type,
                              cudnn_descriptor x, cudnn_descriptor other)
{
    return pointwise(b, (struct pointwise) { .mode = mode,
                                             .precision = data_type,
                                             .y = scores(b, data_type),
                                             .x = x,
                                             .b = other });
}

static cudnn_descriptor arithmetic(struct builder *b, enum cudnn_pointwise mode,
                                   cudnn_descriptor x, cudnn_descriptor other)
{
    return apply(b, mode, CUDNN_FLOAT, x, other);
}

static cudnn_descriptor compare(struct builder *b, enum cudnn_pointwise mode,
                                cudnn_descriptor x, cudnn_descriptor other)
{
    return apply(b, mode, CUDNN_BOOLEAN, x, other);
}

/* The row index (axis 2) or key index (3) of each element. */
static cudnn_descriptor place_of(struct builder *b, cudnn_descriptor x, int64_t axis)
{
    return pointwise(b, (struct pointwise) { .mode = CUDNN_GEN_INDEX,
                                             .precision = CUDNN_INT32,
                                             .y = scores(b, CUDNN_INT32),
                                             .x = x,
                                             .axis = axis });
}

static cudnn_descriptor keep(struct builder *b, cudnn_descriptor x, cudnn_descriptor seen,
                             cudnn_descriptor hidden)
{
    return pointwise(b, (struct pointwise) { .mode = CUDNN_SELECT,
                                             .precision = CUDNN_FLOAT,
                                             .y = scores(b, CUDNN_FLOAT),
                                             .x = x,
                                             .b = hidden,
                                             .t = seen });
}

/* Use only as many rows, columns and depth as the sequences have rows; the rest of the
 * scores is 0. */
struct product {
    cudnn_descriptor c, a, b, m, n, k;
};

static cudnn_descriptor product(struct builder *b, struct product p)
{
    static const double nothing = 0;
    cudnn_descriptor how = make(b, CUDNN_MATMUL), op;

    set_word(b, how, CUDNN_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_FLOAT);
    if (p.n)
        set(b, how, CUDNN_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 1, &nothing);
    finish(b, how, "cannot finalize a matmul");
    op = make(b, CUDNN_OP_MATMUL);
    set_desc(b, op, CUDNN_OP_MATMUL_DESC, how);
    set_desc(b, op, CUDNN_OP_MATMUL_A, p.a);
    set_desc(b, op, CUDNN_OP_MATMUL_B, p.b);
    set_desc(b, op, CUDNN_OP_MATMUL_C, p.c);
    set_desc(b, op, CUDNN_OP_MATMUL_M, p.m);
    if (p.n)
        set_desc(b, op, CUDNN_OP_MATMUL_N, p.n);
    if (p.k)
        set_desc(b, op, CUDNN_OP_MATMUL_K, p.k);
    finish_op(b, op);
    return p.c;
}

/* Reduce over the keys of each row. */
static cudnn_descriptor reduce(struct builder *b, enum cudnn_reduction kind,
                               cudnn_descriptor x)
{
    cudnn_descriptor how = make(b, CUDNN_REDUCTION), op;
    cudnn_descriptor y = inside(b, CUDNN_FLOAT, for_rows(b->key, 1));

    set_word(b, how, CUDNN_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR, (int)kind);
    set_word(b, how, CUDNN_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_FLOAT);
    finish(b, how, "cannot finalize a reduction");
    op = make(b, CUDNN_OP_REDUCTION);
    set_desc(b, op, CUDNN_OP_REDUCTION_DESC, how);
    set_desc(b, op, CUDNN_OP_REDUCTION_X, x);
    set_desc(b, op, CUDNN_OP_REDUCTION_Y, y);
    finish_op(b, op);
    return y;
}

/* ---- The graph ---- */

/* Mask scores past the end of a sequence, of future keys, and of keys before
 * the window. */
static cudnn_descriptor masked(struct builder *b, cudnn_descriptor s,
                               cudnn_descriptor lengths)
{
    cudnn_descriptor hidden = value(b, SDPA_HIDDEN), row, key, there;

    row = place_of(b, s, 2);
    key = place_of(b, s, 3);
    there = compare(b, CUDNN_CMP_LT, row, lengths);
    there = compare(b, CUDNN_AND, there, compare(b, CUDNN_CMP_LT, key, lengths));
    s = keep(b, s, there, hidden);
    row = place_of(b, s, 2);
    key = place_of(b, s, 3);
    s = keep(b, s, compare(b, CUDNN_CMP_GE, row, key), hidden);
    if (b->key->window == 0)
        return s;
    row = place_of(b, s, 2);
    key = place_of(b, s, 3);
    key = arithmetic(b, CUDNN_ADD, key, value(b, SDPA_WINDOW));
    return keep(b, s, compare(b, CUDNN_CMP_GT, key, row), hidden);
}

/* Compute the weights, and the log-sum-exp of their rows into the statistics. */
static cudnn_descriptor softmax(struct builder *b, cudnn_descriptor s)
{
    const struct cuda_sdpa_key *key = b->key;
    cudnn_descriptor largest = reduce(b, CUDNN_REDUCE_MAX, s), sum, lse, stats;

    s = arithmetic(b, CUDNN_SUB, s, largest);
    s = arithmetic(b, CUDNN_EXP, s, NULL);
    sum = reduce(b, CUDNN_REDUCE_ADD, s);
    lse = pointwise(b, (struct pointwise) { .mode = CUDNN_LOG,
                                            .precision = CUDNN_FLOAT,
                                            .y = inside(b, CUDNN_FLOAT, for_rows(key, 1)),
                                            .x = sum });
    stats = ragged(b, SDPA_STATS, SDPA_STATS_ROWS, CUDNN_FLOAT,
                   rows_of(key, key->heads, 1, key->heads));
    pointwise(b, (struct pointwise) { .mode = CUDNN_ADD,
                                      .precision = CUDNN_FLOAT,
                                      .y = stats,
                                      .x = largest,
                                      .b = lse });
    return pointwise(b, (struct pointwise) { .mode = CUDNN_DIV,
                                             .precision = CUDNN_FLOAT,
                                             .y = scores(b, (int)key->data_type),
                                             .x = s,
                                             .b = sum });
}

static void build_ops(struct builder *b)
{
    const struct cuda_sdpa_key *key = b->key;
    int type = (int)key->data_type;
    int64_t size = key->head_size;
    cudnn_descriptor q, k, v, out, lengths, s;

    lengths =
        tensor(b, SDPA_LENGTHS, IN_MEMORY, CUDNN_INT32, one_each(key->sequences), NULL);
    q = ragged(b, SDPA_Q, SDPA_Q_ROWS, type,
               rows_of(key, key->heads, size, key->q_stride));
    k = ragged(b, SDPA_K, SDPA_K_ROWS, type,
               transposed(rows_of(key, key->kv_heads, size, key->k_stride)));
    s = product(
        b, (struct product) { scores(b, CUDNN_FLOAT), q, k, lengths, lengths, NULL });
    s = arithmetic(b, CUDNN_MUL, s, value(b, SDPA_SCALE));
    s = softmax(b, masked(b, s, lengths));
    v = ragged(b, SDPA_V, SDPA_V_ROWS, type,
               rows_of(key, key->kv_heads, size, key->v_stride));
    out = ragged(b, SDPA_OUT, SDPA_OUT_ROWS, type,
                 rows_of(key, key->heads, size, key->out_stride));
    product(b, (struct product) { out, s, v, lengths, NULL, lengths });
}

static cudnn_descriptor build_graph(struct builder *b, cudnn_handle handle)
{
    cudnn_descriptor graph;

    build_ops(b);
    graph = make(b, CUDNN_GRAPH);
    set(b, graph, CUDNN_GRAPH_OPS, CUDNN_TYPE_DESCRIPTOR, (int64_t)b->op_count, b->ops);
    if (handle)
        set(b, graph, CUDNN_GRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    finish(b, graph, "cannot finalize the graph of attention");
    return graph;
}

/* ---- The plan ---- */

/* Return whether the engine declares that it may give different bits next time. */
static bool is_nondeterministic(struct builder *b, cudnn_descriptor config)
{
    cudnn_descriptor engine = make(b, CUDNN_ENGINE);
    int notes[CUDNN_NOTES];
    int64_t count = 0;

    if (b->status != CUDNN_SUCCESS ||
        !status_ok(b,
                   b->cudnn->desc_get(config, CUDNN_ENGINE_CONFIG_ENGINE,
                                      CUDNN_TYPE_DESCRIPTOR, 1, &count, &engine),
                   "cannot read an engine") ||
        !status_ok(b,
                   b->cudnn->desc_get(engine, CUDNN_ENGINE_NUMERICAL_NOTES,
                                      CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NOTES, &count,
                                      notes),
                   "cannot read the notes of an engine"))
        return true;
    for (int64_t i = 0; i < count && i < CUDNN_NOTES; i++)
        if (notes[i] == CUDNN_NONDETERMINISTIC)
            return true;
    return false;
}

/* Create the plan with this configuration; false leaves the builder unchanged for the
 * next. */
static bool try_config(struct builder *b, cudnn_handle handle, cudnn_descriptor device,
                       cudnn_descriptor config)
{
    cudnn_descriptor plan = make(b, CUDNN_PLAN);
    int64_t count;

    set_desc(b, plan, CUDNN_PLAN_ENGINE_CONFIG, config);
    if (handle)
        set(b, plan, CUDNN_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    if (device)
        set_desc(b, plan, CUDNN_PLAN_DEVICE, device);
    finish(b, plan, "cannot finalize a plan");
    if (b->status == CUDNN_SUCCESS)
        status_ok(b,
                  b->cudnn->desc_get(plan, CUDNN_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                     &count, &b->plan->workspace),
                  "cannot read the size of the workspace");
    if (b->status != CUDNN_SUCCESS)
        return false;
    b->plan->plan = plan;
    return true;
}

static int64_t ask_heuristic(struct builder *b, cudnn_descriptor device,
                             cudnn_descriptor graph,
                             cudnn_descriptor configs[CONFIGS_MOST])
{
    cudnn_descriptor heuristic = make(b, CUDNN_HEURISTIC);
    int64_t count = 0;

    set_desc(b, heuristic, CUDNN_HEURISTIC_GRAPH, graph);
    set_word(b, heuristic, CUDNN_HEURISTIC_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEURISTIC_A);
    if (device)
        set_desc(b, heuristic, CUDNN_HEURISTIC_DEVICE, device);
    finish(b, heuristic, "cannot finalize the heuristic");
    for (int i = 0; i < CONFIGS_MOST; i++)
        configs[i] = make(b, CUDNN_ENGINE_CONFIG);
    if (b->status == CUDNN_SUCCESS)
        status_ok(b,
                  b->cudnn->desc_get(heuristic, CUDNN_HEURISTIC_RESULTS,
                                     CUDNN_TYPE_DESCRIPTOR, CONFIGS_MOST, &count,
                                     configs),
                  "cannot read the heuristic");
    return count;
}

/* Statuses from 3000 on mean that cuDNN does not support the request
 * (CUDNN_STATUS_CATEGORY). */
static bool is_refusal(int status)
{
    return status / 1000 == 3;
}

/* Best first; if one is refused, try the next. */
static bool build_plan(struct builder *b, cudnn_handle handle, cudnn_descriptor device)
{
    cudnn_descriptor graph = build_graph(b, handle), configs[CONFIGS_MOST];
    int64_t count = ask_heuristic(b, device, graph, configs);

    for (int64_t i = 0; i < count && i < CONFIGS_MOST; i++) {
        if (!is_nondeterministic(b, configs[i]) &&
            try_config(b, handle, device, configs[i]))
            return true;
        if (b->status != CUDNN_SUCCESS && !is_refusal(b->status))
            return false;
        if (i + 1 < count)
            b->status = CUDNN_SUCCESS;
    }
    if (b->status == CUDNN_SUCCESS) {
        b->doing = "attention of this shape";
        snprintf(b->why, sizeof(b->why), "%s",
                 count > 0 ? "no engine that gives the same bits each time"
                           : "no engine");
    }
    return false;
}

struct cuda_sdpa_plan *cuda_sdpa_plan_new(const struct cuda_cudnn *cudnn,
                                          cudnn_handle handle, cudnn_descriptor device,
                                          const struct cuda_sdpa_key *key, bool *none,
                                          struct error *err)
{
    struct cuda_sdpa_plan *plan = calloc(1, sizeof(*plan));
    struct builder builder = { .plan = plan, .cudnn = cudnn, .key = key };

    if (!plan) {
        error_errno(err, "cannot allocate memory for the plan of attention");
        return NULL;
    }
    *none = false;
    builder.next_id = SDPA_IDS;
    plan->cudnn = cudnn;
    plan->handle = handle;
    plan->windowed = key->window > 0;
    if (build_plan(&builder, handle, device))
        return plan;
    *none = builder.status == CUDNN_SUCCESS || is_refusal(builder.status);
    error_set(err, ERROR_DEVICE, "%s: %s: %s%s%s", cudnn->name, builder.doing,
              builder.status == CUDNN_SUCCESS ? "" : cudnn->text(builder.status),
              builder.status == CUDNN_SUCCESS ? "" : ": ", builder.why);
    cuda_sdpa_plan_free(plan);
    return NULL;
}

void cuda_sdpa_plan_free(struct cuda_sdpa_plan *plan)
{
    if (!plan)
        return;
    while (plan->count > 0)
        plan->cudnn->desc_destroy(plan->descriptors[--plan->count]);
    free(plan);
}

size_t cuda_sdpa_workspace(const struct cuda_sdpa_plan *plan)
{
    return (size_t)plan->workspace;
}

bool cuda_sdpa_run(const struct cuda_sdpa_plan *plan, void *const tensors[SDPA_IDS],
                   void *workspace, struct error *err)
{
    const struct cuda_cudnn *cudnn = plan->cudnn;
    int64_t ids[SDPA_IDS], count = 0;
    void *pointers[SDPA_IDS];
    cudnn_descriptor pack = NULL;
    int status = cudnn->desc_create(CUDNN_VARIANT_PACK, &pack);
    char why[200] = "";

    for (int64_t id = SDPA_Q; id < SDPA_IDS; id++)
        if (id != SDPA_WINDOW || plan->windowed) {
            ids[count] = id;
            pointers[count++] = tensors[id];
        }
    if (status == CUDNN_SUCCESS)
        status =
            cudnn->desc_set(pack, CUDNN_VARIANT_PACK_IDS, CUDNN_TYPE_INT64, count, ids);
    if (status == CUDNN_SUCCESS)
        status = cudnn->desc_set(pack, CUDNN_VARIANT_PACK_POINTERS, CUDNN_TYPE_VOID_PTR,
                                 count, pointers);
    if (status == CUDNN_SUCCESS)
        status = cudnn->desc_set(pack, CUDNN_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                 1, &workspace);
    if (status == CUDNN_SUCCESS)
        status = cudnn->finalize(pack);
    if (status == CUDNN_SUCCESS)
        status = cudnn->execute(plan->handle, plan->plan, pack);
    if (status != CUDNN_SUCCESS)
        cudnn->last_error(why, sizeof(why));
    if (pack)
        cudnn->desc_destroy(pack);
    return status == CUDNN_SUCCESS ||
           error_set(err, ERROR_DEVICE,
                     "%s: attention: %s (%.*s); unset TRAINSPOOL_CUDNN", cudnn->name,
                     cudnn->text(status), (int)strcspn(why, "\n"), why);
}
