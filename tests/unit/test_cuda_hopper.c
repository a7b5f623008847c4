/* tests/unit/test_cuda_hopper.c - attention for capability 9.0 equals that for others,
 * gives the same bits each time, and leaves other cases to the other kernels. */
#include "config.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit_cuda.h"

enum { OUT, LSE, DQ, DK, DV, RESULTS };
static const char *const names[] = { "out", "lse", "dq", "dk", "dv" };

struct shape {
    enum format format;
    size_t heads, kv_heads, head_size;
    bool known; /* the longest sequence */
    size_t window;
    float softcap, p;
    bool joined;        /* the rows of a sequence see each other */
    int32_t offsets[8]; /* up to the last nonzero one */
};

/* Tiles of all positions relative to a sequence's end, and more of them than blocks. */
static const struct shape shapes[] = {
    { FORMAT_BF16, 2, 1, 64, true, 0, 0, 0, false, { 0, 50, 133, 134, 460 } },
    { FORMAT_BF16, 2, 1, 128, false, 0, 0, 0, false, { 0, 1, 66, 66, 324 } },
    { FORMAT_FP16, 2, 2, 64, false, 0, 0, 0, false, { 0, 192, 321 } },
    { FORMAT_FP16, 2, 1, 128, true, 0, 0, 0, false, { 0, 0, 129, 257 } },
};

/* For the kernels of all cards. */
static const struct shape others[] = {
    { FORMAT_BF16, 2, 1, 64, true, 33, 0, 0, false, { 0, 70, 140 } },
    { FORMAT_BF16, 2, 1, 64, true, 0, 20, 0, false, { 0, 140 } },
    { FORMAT_FP16, 2, 1, 64, true, 0, 0, 0.25f, false, { 0, 140 } },
    { FORMAT_BF16, 2, 1, 96, true, 0, 0, 0, false, { 0, 140 } },
    { FORMAT_BF16, 2, 1, 128, true, 0, 0, 0, true, { 0, 70, 140 } },
};

struct result {
    struct tensor tensors[RESULTS];
    float *values[RESULTS];
};

static struct op_attention make(struct backend *be, const struct shape *shape)
{
    size_t runs = TS_COUNT(shape->offsets) - 1, longest = 0, rows, q, kv;
    int32_t *offsets = unit_cuda_block(be, sizeof(shape->offsets));
    struct op_attention op;
    struct tensor qkv;

    while (shape->offsets[runs] == 0)
        runs--;
    for (size_t i = 0; i < runs; i++)
        longest =
            (size_t)fmax((double)longest, shape->offsets[i + 1] - shape->offsets[i]);
    rows = (size_t)shape->offsets[runs];
    q = shape->heads * shape->head_size;
    kv = shape->kv_heads * shape->head_size;
    be->ops->upload(be, offsets, shape->offsets, sizeof(shape->offsets));
    qkv = unit_cuda_matrix(be, shape->format, rows, q + 2 * kv, q + 2 * kv + 8, 3);
    op = (struct op_attention) {
        .out = unit_cuda_matrix(be, shape->format, rows, q, q + 8, 4),
        .lse = unit_cuda_matrix(be, FORMAT_FP32, shape->heads, rows, rows + 3, 5),
        .q = tensor_columns(qkv, 0, q),
        .k = tensor_columns(qkv, q, kv),
        .v = tensor_columns(qkv, q + kv, kv),
        .offsets = offsets,
        .sequences = runs,
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_size = shape->head_size,
        .window = shape->window,
        .longest = shape->known ? longest : 0,
        .scale = 3 / sqrtf((float)shape->head_size),
        .softcap = shape->softcap,
        .dropout = { .p = shape->p, .stream = 7, .seed = 9 },
    };
    if (shape->joined)
        unit_cuda_join(be, &op, shape->offsets);
    return op;
}

static struct backend *open_card(int capability)
{
    struct backend *be;

    setenv("TRAINSPOOL_CUDNN", "0", 1);
    be = unit_cuda_alone(capability, (size_t)1 << 30);
    unsetenv("TRAINSPOOL_CUDNN");
    return be;
}

static struct result run(const struct shape *shape, int capability, uint64_t seed)
{
    struct backend *be = open_card(capability);
    struct op_attention op = make(be, shape);
    size_t rows = op.q.rows, q = op.q.cols, kv = op.k.cols;
    struct tensor dqkv =
        unit_cuda_matrix(be, op.q.format, rows, q + 2 * kv, q + 2 * kv, 6);
    struct op_attention_backward back = {
        .dq = tensor_columns(dqkv, 0, q),
        .dk = tensor_columns(dqkv, q, kv),
        .dv = tensor_columns(dqkv, q + kv, kv),
        .delta = unit_cuda_matrix(be, FORMAT_FP32, op.heads, rows, rows, 9),
        .dout = unit_cuda_matrix(be, op.q.format, rows, q, q, 10),
        .forward = op,
    };
    struct result result = { { op.out, op.lse, back.dq, back.dk, back.dv }, { NULL } };
    float *whole;

    emulation_seed(seed);
    be->ops->attention(be, &op);
    be->ops->attention_backward(be, &back);
    result.values[OUT] = unit_cuda_read(be, op.out);
    result.values[LSE] = unit_cuda_read(be, op.lse);
    whole = unit_cuda_read(be, dqkv);
    for (size_t i = DQ; i < RESULTS; i++) {
        struct tensor *t = &result.tensors[i];
        size_t column = i == DQ ? 0 : i == DK ? q : q + kv;

        result.values[i] = malloc(rows * t->cols * sizeof(float));
        for (size_t j = 0; j < rows * t->cols; j++)
            result.values[i][j] = whole[j / t->cols * dqkv.stride + column + j % t->cols];
        t->stride = t->cols;
    }
    free(whole);
    backend_close(be);
    assert_string_equal(emulation_failure(), "");
    return result;
}

static void result_clear(struct result *result)
{
    for (size_t i = 0; i < RESULTS; i++)
        free(result->values[i]);
}

/* The same bits, in columns after the matrix too. */
static void assert_same(const struct result *a, const struct result *b)
{
    for (size_t i = 0; i < RESULTS; i++)
        assert_memory_equal(a->values[i], b->values[i],
                            a->tensors[i].rows * a->tensors[i].stride * sizeof(float));
}

/* Relative to the largest: both round weights and gradients of scores once to 16 bits, and
 * then the result. */
static void assert_near(const struct result *a, const struct result *b, double epsilon)
{
    for (size_t i = 0; i < RESULTS; i++) {
        struct tensor t = a->tensors[i];
        double largest = 0, bound;

        for (size_t j = 0; j < t.rows * t.stride; j++)
            if (j % t.stride < t.cols)
                largest = fmax(largest, fabs((double)b->values[i][j]));
        bound = (i == LSE ? 1e-6 : 2 * epsilon) * largest;
        for (size_t j = 0; j < t.rows * t.stride; j++) {
            double x = (double)a->values[i][j], y = (double)b->values[i][j];

            if (!(fabs(x - y) <= (j % t.stride < t.cols ? bound : 0)))
                fail_msg("(%zu, %zu) of %s: %g, not %g", j / t.stride, j % t.stride,
                         names[i], x, y);
        }
    }
}

static void test_cuda_hopper_matches_the_other_kernels(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(shapes); i++) {
        struct result here = run(&shapes[i], 90, 1), again = run(&shapes[i], 90, 2);
        struct result other = run(&shapes[i], 80, 1);

        assert_same(&again, &here);
        assert_near(&here, &other, format_info(shapes[i].format)->epsilon);
        assert_memory_not_equal(here.values[DQ], other.values[DQ],
                                here.tensors[DQ].rows * here.tensors[DQ].cols *
                                    sizeof(float));
        result_clear(&here);
        result_clear(&again);
        result_clear(&other);
    }
}

static void test_cuda_hopper_leaves_other_cases_to_the_other_kernels(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(others); i++) {
        struct result here = run(&others[i], 90, 1), other = run(&others[i], 80, 1);

        assert_same(&here, &other);
        result_clear(&here);
        result_clear(&other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_hopper_matches_the_other_kernels),
        cmocka_unit_test(test_cuda_hopper_leaves_other_cases_to_the_other_kernels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
