/* tests/unit/unit_cuda_attention.h - shared by tests of attention by cuDNN on an emulated
 * card: shapes, operands, a run with or without it. */
#ifndef TESTS_UNIT_UNIT_CUDA_ATTENTION_H
#define TESTS_UNIT_UNIT_CUDA_ATTENTION_H

#include "kernels/cuda/cuda_attention.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit_cuda.h"

struct shape {
    enum format format;
    size_t heads, kv_heads, head_size, window, longest;
    int32_t offsets[8]; /* up to the last nonzero one */
};

static const struct shape shapes[] = {
    { FORMAT_BF16, 1, 1, 8, 0, 0, { 0, 9 } },
    { FORMAT_BF16, 4, 2, 64, 0, 0, { 0, 50, 133 } },
    { FORMAT_FP16, 4, 1, 64, 0, 0, { 0, 71, 130, 201 } },
    { FORMAT_FP16, 2, 2, 128, 20, 66, { 0, 0, 64, 64, 130, 130, 130, 130 } },
    { FORMAT_BF16, 2, 1, 256, 1, 0, { 0, 67 } },
    { FORMAT_BF16, 3, 1, 80, 33, 128, { 0, 128, 190 } },
};

/* Cases for our own kernels although cuDNN is requested. */
struct besides {
    float softcap, p;
    size_t shift;   /* q begins this many elements after an aligned address */
    int capability; /* 90 by default */
    struct attention_slopes slopes;
    bool joined; /* the rows of a sequence see each other */
};

struct result {
    struct tensor out, lse;
    float *values[2]; /* number of values */
    size_t plans;     /* built by cuDNN */
};

static inline size_t runs_of(const struct shape *shape)
{
    size_t runs = TS_COUNT(shape->offsets) - 1;

    while (shape->offsets[runs] == 0)
        runs--;
    return runs;
}

static inline struct op_attention make(struct backend *be, const struct shape *shape,
                                       struct besides besides)
{
    size_t runs = runs_of(shape), rows = (size_t)shape->offsets[runs];
    size_t q = shape->heads * shape->head_size, kv = shape->kv_heads * shape->head_size;
    size_t stride = q + 2 * kv + 16; /* adjacent, as in a model, and separate */
    size_t bytes = (runs + 1) * sizeof(int32_t);
    int32_t *offsets = unit_cuda_block(be, bytes);
    struct op_attention op;
    struct tensor qkv = unit_cuda_matrix(be, shape->format, rows, stride - 8, stride, 3);

    be->ops->upload(be, offsets, shape->offsets, bytes);
    op = (struct op_attention) {
        .out = unit_cuda_matrix(be, shape->format, rows, q, q + 8, 4),
        .lse = unit_cuda_matrix(be, FORMAT_FP32, shape->heads, rows, rows + 3, 5),
        .q = tensor_columns(qkv, besides.shift, q),
        .k = tensor_columns(qkv, q, kv),
        .v = tensor_columns(qkv, q + kv, kv),
        .offsets = offsets,
        .sequences = runs,
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_size = shape->head_size,
        .window = shape->window,
        .longest = shape->longest,
        .scale = 1 / sqrtf((float)shape->head_size),
        .softcap = besides.softcap,
        .slopes = besides.slopes,
        .dropout = { .p = besides.p, .stream = 7, .seed = 9 },
    };
    if (besides.joined)
        unit_cuda_join(be, &op, shape->offsets);
    return op;
}

static inline struct backend *open_card(struct besides besides, bool cudnn)
{
    struct backend *be;

    setenv("TRAINSPOOL_CUDNN", cudnn ? "1" : "0", 1);
    be = unit_cuda_alone(besides.capability ? besides.capability : 90, (size_t)2 << 30);
    unsetenv("TRAINSPOOL_CUDNN");
    return be;
}

static inline void read_result(struct backend *be, struct result *result)
{
    struct cuda_attention *attention = cuda_backend_of(be)->attention;

    result->values[0] = unit_cuda_read(be, result->out);
    result->values[1] = unit_cuda_read(be, result->lse);
    result->plans = attention ? cuda_attention_plans(attention) : 0;
}

static inline struct result run_on(struct backend *be, const struct shape *shape,
                                   struct besides besides)
{
    struct op_attention op = make(be, shape, besides);
    struct result result = { .out = op.out, .lse = op.lse };

    be->ops->attention(be, &op);
    read_result(be, &result);
    return result;
}

static inline struct result run(const struct shape *shape, struct besides besides,
                                bool cudnn)
{
    struct backend *be = open_card(besides, cudnn);
    struct result result = run_on(be, shape, besides);

    backend_close(be);
    assert_int_equal(emulation_bytes_held(), 0);
    return result;
}

static inline void result_clear(struct result *result)
{
    free(result->values[0]);
    free(result->values[1]);
}

#endif
