/*
 * tests/emulation/emulation_graph.cc - graphs of operations on tensors, by plain loops in
 * double; virtual tensors are rounded to their format as if they had been in memory.
 */
#include "tests/emulation/emulation_graph.h"

#include "tests/emulation/emulation_block.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pointwise operations; the result is boolean or of any other type. */
static const struct mode {
    int mode, operands;
    bool of_booleans, to_boolean;
} modes[] = {
    { CUDNN_ADD, 2, false, false },      { CUDNN_MUL, 2, false, false },
    { CUDNN_DIV, 2, false, false },      { CUDNN_SUB, 2, false, false },
    { CUDNN_EXP, 1, false, false },      { CUDNN_LOG, 1, false, false },
    { CUDNN_CMP_GT, 2, false, true },    { CUDNN_CMP_GE, 2, false, true },
    { CUDNN_CMP_LT, 2, false, true },    { CUDNN_AND, 2, true, true },
    { CUDNN_SELECT, 3, false, false },   { CUDNN_GEN_INDEX, 1, false, false },
    { CUDNN_IDENTITY, 1, false, false },
};

static const struct mode *mode_of(int mode)
{
    for (const struct mode &row : modes)
        if (row.mode == mode)
            return &row;
    return NULL;
}

int graph_mode(int mode)
{
    return mode_of(mode) ? mode_of(mode)->operands : 0;
}

int64_t graph_bytes(int type)
{
    switch (type) {
    case CUDNN_FLOAT:
    case CUDNN_INT32:
        return 4;
    case CUDNN_HALF:
    case CUDNN_BFLOAT16:
        return 2;
    case CUDNN_BOOLEAN:
        return 1;
    default:
        return 0;
    }
}

/* ---- Checks ---- */

static bool is_boolean(const struct tensor *t)
{
    return t->own.type == CUDNN_BOOLEAN;
}

/* int32 (count, 1, 1, 1) in memory */
static bool is_counts(const struct layout *l, int64_t count)
{
    return is_real(l) && l->type == CUDNN_INT32 && l->dims[0] == count &&
           l->dims[1] == 1 && l->dims[2] == 1 && l->dims[3] == 1 && l->strides[0] == 1;
}

int64_t graph_span(const struct layout *l)
{
    int64_t span = 1;

    for (int i = 0; i < RANK; i++)
        span += (l->dims[i] - 1) * l->strides[i];
    return span;
}

bool tensor_check(void *body)
{
    const struct tensor *t = (const struct tensor *)body;
    const struct layout *l = &t->own, *offsets = &t->offsets;
    bool is_one = true;

    for (int i = 0; i < RANK; i++) {
        is_one = is_one && l->dims[i] == 1;
        if (!graph_require(l->dims[i] > 0 && l->strides[i] > 0, BAD_PARAM,
                           "tensor %lld has a dimension or stride below 1",
                           (long long)l->id))
            return false;
    }
    return graph_require(l->alignment > 0 && !(l->alignment & (l->alignment - 1)),
                         BAD_PARAM, "the alignment of tensor %lld is not a power of 2",
                         (long long)l->id) &&
           graph_require(!l->by_value || (is_one && !l->is_virtual), BAD_PARAM,
                         "tensor %lld by value is virtual or has more than one element",
                         (long long)l->id) &&
           graph_require(!has(offsets) ||
                             (!l->by_value && is_counts(offsets, l->dims[0] + 1)),
                         BAD_PARAM,
                         "tensor %lld is ragged and by value, or its offsets are not "
                         "int32 (batches + 1, 1, 1, 1)",
                         (long long)l->id);
}

bool pointwise_check(void *body)
{
    const struct how *how = (const struct how *)body;

    return graph_require(how->axis < RANK &&
                             (how->axis >= 0) == (how->mode == CUDNN_GEN_INDEX),
                         BAD_PARAM, "an axis is missing, unexpected or out of bounds");
}

bool compute_check(void *body)
{
    return graph_require(((const struct how *)body)->precision == CUDNN_FLOAT,
                         NOT_SUPPORTED, "sums must be computed in fp32");
}

bool op_matmul_check(void *body)
{
    struct operation *op = (struct operation *)body;
    const struct tensor *t = op->tensors;
    const int64_t *a = t[X].own.dims, *b = t[B].own.dims, *c = t[Y].own.dims;

    op->kind = CUDNN_OP_MATMUL;
    for (int i = M; i <= K; i++)
        if (!graph_require(
                !has(&t[i].own) || (is_counts(&t[i].own, a[0]) && !is_ragged(&t[i])),
                BAD_PARAM, "sizes of matmuls must be int32 (batches, 1, 1, 1)"))
            return false;
    return graph_require(a[0] == b[0] && a[0] == c[0] && a[1] == c[1] &&
                             a[1] % b[1] == 0 && a[2] == c[2] && a[3] == b[2] &&
                             b[3] == c[3],
                         BAD_PARAM, "the shapes of a matmul do not match") &&
           graph_require(!is_boolean(&t[X]) && !is_boolean(&t[B]) && !is_boolean(&t[Y]),
                         NOT_SUPPORTED, "a matmul of booleans") &&
           graph_require((has(&t[M].own) || (!is_ragged(&t[X]) && !is_ragged(&t[Y]))) &&
                             (has(&t[N].own) || has(&t[K].own) || !is_ragged(&t[B])),
                         NOT_SUPPORTED,
                         "a matmul of a ragged tensor without its lengths");
}

static bool op_pointwise_shapes(const struct tensor *t)
{
    for (int i = 0; i < RANK; i++) {
        int64_t largest = 1, dim = t[Y].own.dims[i];

        for (int j = X; j <= T; j++)
            if (has(&t[j].own) && t[j].own.dims[i] != 1)
                largest =
                    largest == 1 || largest == t[j].own.dims[i] ? t[j].own.dims[i] : -1;
        if (!graph_require(largest == dim, BAD_PARAM,
                           "dimension %d of a pointwise result is wrong", i))
            return false;
    }
    return true;
}

bool op_pointwise_check(void *body)
{
    struct operation *op = (struct operation *)body;
    const struct tensor *t = op->tensors;
    const struct mode *mode = mode_of(op->how.mode);
    int type = t[Y].own.type;

    op->kind = CUDNN_OP_POINTWISE;
    return graph_require(has(&t[B].own) == (mode->operands > 1) &&
                             has(&t[T].own) == (mode->operands > 2),
                         BAD_PARAM, "pointwise mode %d requires %d operands", mode->mode,
                         mode->operands) &&
           graph_require(
               is_boolean(&t[X]) == mode->of_booleans &&
                   is_boolean(&t[B]) == (mode->of_booleans && mode->operands > 1) &&
                   is_boolean(&t[T]) == (mode->operands > 2) &&
                   is_boolean(&t[Y]) == mode->to_boolean &&
                   (mode->mode != CUDNN_GEN_INDEX || type == CUDNN_INT32),
               BAD_PARAM, "wrong tensor types for pointwise mode %d", mode->mode) &&
           graph_require(type == CUDNN_INT32 || type == CUDNN_BOOLEAN ||
                             op->how.precision == CUDNN_FLOAT,
                         NOT_SUPPORTED, "pointwise mode %d must be computed in fp32",
                         mode->mode) &&
           op_pointwise_shapes(t);
}

bool op_reduction_check(void *body)
{
    struct operation *op = (struct operation *)body;
    const struct tensor *t = op->tensors;

    op->kind = CUDNN_OP_REDUCTION;
    for (int i = 0; i < RANK; i++)
        if (!graph_require(t[X].own.dims[i] % t[Y].own.dims[i] == 0, BAD_PARAM,
                           "dimension %d of a reduction is wrong", i))
            return false;
    return graph_require(!is_boolean(&t[X]) && !is_boolean(&t[Y]) && !is_ragged(&t[X]),
                         NOT_SUPPORTED, "a reduction of booleans or of a ragged tensor");
}

/* The same memory with the last two dimensions exchanged. */
bool op_reshape_check(void *body)
{
    struct operation *op = (struct operation *)body;
    const struct layout *x = &op->tensors[X].own, *y = &op->tensors[Y].own;
    bool same = true;

    op->kind = CUDNN_OP_RESHAPE;
    for (int i = 0; i < RANK; i++) {
        int from = i < 2 ? i : 5 - i;

        same = same && x->dims[from] == y->dims[i] && x->strides[from] == y->strides[i];
    }
    return graph_require(same, NOT_SUPPORTED, "a reshape that does not transpose");
}

/* Number of layouts of an operation: each tensor, followed by its offsets. */
enum { OF_OPERATION = 2 * OPERANDS };

static const struct layout *layout_at(const struct graph *graph, int64_t i)
{
    const struct tensor *t = &graph->ops[i / OF_OPERATION].tensors[i % OF_OPERATION / 2];

    return i % 2 ? &t->offsets : &t->own;
}

static const struct layout *find(const struct graph *graph, int64_t before, int64_t id)
{
    for (int64_t i = 0; i < before; i++)
        if (has(layout_at(graph, i)) && layout_at(graph, i)->id == id)
            return layout_at(graph, i);
    return NULL;
}

const struct layout *graph_find(const struct graph *graph, int64_t id)
{
    return find(graph, graph->count * OF_OPERATION, id);
}

/* A tensor is written once, before it is read. */
bool graph_check(void *body)
{
    const struct graph *graph = (const struct graph *)body;
    bool writes = false;

    for (int64_t i = 0; i < graph->count * OF_OPERATION; i++) {
        const struct layout *l = layout_at(graph, i), *first = find(graph, i, l->id);
        bool is_written = i % OF_OPERATION == 2 * Y;
        long long id = l->id;

        if (has(l) &&
            (!graph_require(!first || memcmp(first, l, sizeof(*l)) == 0, BAD_PARAM,
                            "two tensors have the id %lld", id) ||
             !graph_require(!is_written || (!first && !l->by_value), BAD_PARAM,
                            "tensor %lld is written again, after it is read or by value",
                            id) ||
             !graph_require(is_written || first || !l->is_virtual, BAD_PARAM,
                            "virtual tensor %lld is read before it is written", id)))
            return false;
        writes = writes || (is_written && is_real(l));
    }
    return graph_require(writes, BAD_PARAM, "the graph writes nothing");
}

static bool matmul_supported(const struct operation *op)
{
    const struct layout *a = &op->tensors[X].own, *b = &op->tensors[B].own;
    const struct layout *c = &op->tensors[Y].own;
    int64_t head_size = is_real(a) ? a->dims[3] : c->dims[3];
    bool in_registers = a->is_virtual && b->is_virtual && a->type == CUDNN_FLOAT;

    return graph_require((graph_bytes(a->type) == 2 || in_registers) &&
                             a->type == b->type && (c->is_virtual || c->type == a->type),
                         NOT_SUPPORTED, "operands must be all fp16 or all bfloat16") &&
           graph_require(head_size % 8 == 0 && head_size <= 256, NOT_SUPPORTED,
                         "heads must not have %lld elements", (long long)head_size);
}

static int matmuls_of(const struct graph *graph)
{
    int matmuls = 0;

    for (int64_t i = 0; i < graph->count; i++)
        matmuls += graph->ops[i].kind == CUDNN_OP_MATMUL;
    return matmuls;
}

bool graph_is_backward(const struct graph *graph)
{
    return matmuls_of(graph) == 5;
}

bool graph_is_attention(const struct graph *graph)
{
    for (int64_t i = 0; i < graph->count; i++)
        if (graph->ops[i].kind == CUDNN_OP_MATMUL && !matmul_supported(&graph->ops[i]))
            return false;
    return graph_require(matmuls_of(graph) == 2 || graph_is_backward(graph),
                         NOT_SUPPORTED, "the graph is not attention");
}

/* ---- Execution ---- */

double graph_load(const void *from, int type, int64_t at)
{
    switch (type) {
    case CUDNN_HALF:
        return __half2float(((const __half *)from)[at]);
    case CUDNN_BFLOAT16:
        return __bfloat162float(((const __nv_bfloat16 *)from)[at]);
    case CUDNN_INT32:
        return ((const int32_t *)from)[at];
    case CUDNN_BOOLEAN:
        return ((const uint8_t *)from)[at];
    default:
        return ((const float *)from)[at];
    }
}

static void store(void *to, int type, int64_t at, double x)
{
    switch (type) {
    case CUDNN_HALF:
        ((__half *)to)[at] = __float2half_rn((float)x);
        break;
    case CUDNN_BFLOAT16:
        ((__nv_bfloat16 *)to)[at] = __float2bfloat16_rn((float)x);
        break;
    case CUDNN_INT32:
        ((int32_t *)to)[at] = (int32_t)x;
        break;
    case CUDNN_BOOLEAN:
        ((uint8_t *)to)[at] = x != 0;
        break;
    default:
        ((float *)to)[at] = (float)x;
    }
}

/* A dimension of size 1 is broadcast. */
static int64_t index_of(const struct tensor *t, const int64_t at[RANK])
{
    int64_t index = 0;

    for (int i = 0; i < RANK; i++)
        if (i == 0 && t->starts)
            index += t->starts[at[0]];
        else if (t->own.dims[i] > 1)
            index += at[i] * t->own.strides[i];
    return index;
}

/* The dimension of the rows of a ragged tensor: K and V may be transposed. */
static int row_dim(const struct tensor *t)
{
    return t->own.strides[3] == 1 ? 2 : 3;
}

static int64_t rows_in(const struct tensor *t, int64_t batch)
{
    return (t->starts[batch + 1] - t->starts[batch]) / t->own.strides[row_dim(t)];
}

/* Rows after the end of a sequence have no value. */
static double get(const struct tensor *t, const int64_t at[RANK])
{
    if (t->starts && at[row_dim(t)] >= rows_in(t, at[0]))
        return NAN;
    return t->own.by_value     ? t->value
           : t->own.is_virtual ? t->values[index_of(t, at)]
                               : graph_load(t->data, t->own.type, index_of(t, at));
}

static void put(const struct tensor *t, const int64_t at[RANK], double x)
{
    uint32_t rounded;

    if (!t->own.is_virtual) {
        store(t->data, t->own.type, index_of(t, at), x);
        return;
    }
    store(&rounded, t->own.type, 0, x);
    t->values[index_of(t, at)] = graph_load(&rounded, t->own.type, 0);
}

/* Advance to the next index, the last dimension first; false after the last one. */
static bool step(int64_t at[RANK], const int64_t dims[RANK])
{
    for (int i = RANK - 1; i >= 0; i--) {
        if (++at[i] < dims[i])
            return true;
        at[i] = 0;
    }
    return false;
}

static int64_t count_or(const struct tensor *counts, int64_t batch, int64_t default_count)
{
    return has(&counts->own) ? graph_load(counts->data, CUDNN_INT32, batch)
                             : default_count;
}

/* Return the number of rows of a result that are written, if it is in memory. */
static int64_t rows_of(const struct operation *op, int64_t batch)
{
    const struct tensor *y = &op->tensors[Y];

    if (op->kind == CUDNN_OP_MATMUL)
        return count_or(&op->tensors[M], batch, y->own.dims[2]);
    return y->starts ? (y->starts[batch + 1] - y->starts[batch]) / y->own.strides[2]
                     : y->own.dims[2];
}

static void multiply(const struct operation *op)
{
    const struct tensor *t = op->tensors;
    const int64_t *dims = t[Y].own.dims, shared = dims[1] / t[B].own.dims[1];
    int64_t at[RANK] = {};

    do {
        int64_t rows = rows_of(op, at[0]),
                depth = count_or(&t[K], at[0], t[X].own.dims[3]);
        bool inside = at[2] < rows && at[3] < count_or(&t[N], at[0], dims[3]);
        double sum = inside ? 0 : op->how.padding;

        for (int64_t k = 0; inside && k < depth; k++) {
            const int64_t left[] = { at[0], at[1], at[2], k };
            const int64_t right[] = { at[0], at[1] / shared, k, at[3] };

            sum += get(&t[X], left) * get(&t[B], right);
        }
        if (inside || t[Y].own.is_virtual)
            put(&t[Y], at, sum);
    } while (step(at, dims));
}

static double apply(const struct operation *op, const int64_t at[RANK])
{
    const struct tensor *t = op->tensors;
    double x = op->how.mode == CUDNN_GEN_INDEX ? at[op->how.axis] : get(&t[X], at);
    double b = has(&t[B].own) ? get(&t[B], at) : 0;

    switch (op->how.mode) {
    case CUDNN_ADD:
        return x + b;
    case CUDNN_MUL:
        return x * b;
    case CUDNN_DIV:
        return x / b;
    case CUDNN_SUB:
        return x - b;
    case CUDNN_EXP:
        return exp(x);
    case CUDNN_LOG:
        return log(x);
    case CUDNN_CMP_GT:
        return x > b;
    case CUDNN_CMP_GE:
        return x >= b;
    case CUDNN_CMP_LT:
        return x < b;
    case CUDNN_AND:
        return x != 0 && b != 0;
    case CUDNN_SELECT:
        return get(&t[T], at) != 0 ? x : b;
    default:
        return x;
    }
}

/* Reduce over the dimensions along which the operand is larger: adjacent elements. The
 * maximum ignores NaN, as on a GPU. */
static double reduce(const struct operation *op, const int64_t at[RANK])
{
    const struct tensor *x = &op->tensors[X], *y = &op->tensors[Y];
    bool adds = op->how.mode == CUDNN_REDUCE_ADD;
    double result = adds ? 0 : -INFINITY;
    int64_t over[RANK], further[RANK] = {}, from[RANK];

    for (int i = 0; i < RANK; i++)
        over[i] = x->own.dims[i] / y->own.dims[i];
    do {
        for (int i = 0; i < RANK; i++)
            from[i] = at[i] * over[i] + further[i];
        result = adds ? result + get(x, from) : fmax(result, get(x, from));
    } while (step(further, over));
    return result;
}

static double transposed(const struct operation *op, const int64_t at[RANK])
{
    const int64_t from[] = { at[0], at[1], at[3], at[2] };

    return get(&op->tensors[X], from);
}

static void perform(const struct operation *op)
{
    const struct tensor *y = &op->tensors[Y];
    int64_t at[RANK] = {};

    if (op->kind == CUDNN_OP_MATMUL) {
        multiply(op);
        return;
    }
    do
        if (at[2] < rows_of(op, at[0]))
            put(y, at,
                op->kind == CUDNN_OP_REDUCTION ? reduce(op, at)
                : op->kind == CUDNN_OP_RESHAPE ? transposed(op, at)
                                               : apply(op, at));
    while (step(at, y->own.dims));
}

/* Return whether the sequence has so many rows, along `dim`, and they are in device
 * memory. */
static bool fits(const struct tensor *t, int64_t batch, int dim, int64_t rows)
{
    int64_t bytes = graph_bytes(t->own.type), start;
    struct layout sequence = t->own;

    if (!t->starts || rows == 0)
        return true;
    start = t->starts[batch];
    sequence.dims[0] = 1;
    sequence.dims[dim] = rows;
    return start >= 0 && rows * sequence.strides[dim] <= t->starts[batch + 1] - start &&
           runtime_is_device(t->data + start * bytes,
                             (size_t)(graph_span(&sequence) * bytes));
}

static bool operation_fits(const struct operation *op)
{
    const struct tensor *t = op->tensors;
    const int64_t *a = t[X].own.dims, *y = t[Y].own.dims;
    bool is_matmul = op->kind == CUDNN_OP_MATMUL;

    for (int64_t batch = 0; batch < y[0]; batch++) {
        int64_t m = rows_of(op, batch), n = count_or(&t[N], batch, y[3]);
        int64_t k = count_or(&t[K], batch, a[3]);

        if (m < 0 || m > y[2] || !fits(&t[Y], batch, 2, m))
            return false;
        if (is_matmul &&
            (n < 0 || n > y[3] || k < 0 || k > a[3] || !fits(&t[X], batch, 2, m) ||
             !fits(&t[B], batch, has(&t[N].own) ? 3 : 2, has(&t[N].own) ? n : k)))
            return false;
        for (int i = X; i <= T && !is_matmul; i++)
            if (t[i].starts && !fits(&t[i], batch, row_dim(&t[i]), rows_in(&t[i], batch)))
                return false;
    }
    return true;
}

/* Allocate a virtual result and share it with all operations that read it. */
static void share(struct graph *graph, int64_t writer)
{
    struct tensor *y = &graph->ops[writer].tensors[Y];
    size_t values = (size_t)graph_span(&y->own);

    y->values = (double *)emulation_memory(values * sizeof(double));
    for (int64_t i = writer + 1; i < graph->count; i++)
        for (struct tensor &t : graph->ops[i].tensors)
            if (t.own.id == y->own.id && t.own.is_virtual)
                t.values = y->values;
}

void graph_run(const void *argument)
{
    const struct job *job = (const struct job *)argument;
    struct graph *graph = (struct graph *)emulation_memory(sizeof(*graph));
    bool fit = true;

    *graph = job->graph;
    memset(job->workspace, 0xa5, job->bytes);
    for (int64_t i = 0; i < graph->count; i++)
        fit = fit && operation_fits(&graph->ops[i]);
    if (!fit) {
        emulation_report("cuDNN: a sequence is shorter than the part that is multiplied");
        runtime_fail(cudaErrorIllegalAddress);
    }
    for (int64_t i = 0; fit && i < graph->count; i++) {
        if (graph->ops[i].tensors[Y].own.is_virtual)
            share(graph, i);
        perform(&graph->ops[i]);
    }
    for (struct operation &op : graph->ops)
        free(op.tensors[Y].values);
    free(graph);
}
