/* tests/unit/test_cuda_launch.c - results do not depend on the number of multiprocessors,
 * and launchers work with little scratch. */
#include "config.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit_cuda.h"

enum { ROWS = 96, COLS = 1000, HEADS = 10, WORDS = 50 };

static struct tensor matrix(struct backend *be, enum format format, uint32_t seed)
{
    return unit_cuda_matrix(be, format, ROWS, COLS, COLS + 8, seed);
}

static struct tensor row(struct backend *be, size_t cols, uint32_t seed)
{
    return unit_cuda_matrix(be, FORMAT_FP32, 1, cols, cols, seed);
}

static int32_t *tokens(struct backend *be, size_t count)
{
    int32_t *host = malloc(count * sizeof(*host));
    int32_t *block = unit_cuda_block(be, count * sizeof(*host));

    for (size_t i = 0; i < count; i++)
        host[i] = (int32_t)(i * i % 97 % WORDS);
    be->ops->upload(be, block, host, count * sizeof(*host));
    free(host);
    return block;
}

/* Each issues an operation with its own operands and returns the result. */
typedef struct tensor launcher(struct backend *be, const struct cuda_launch *to);

static struct tensor put_add(struct backend *be, const struct cuda_launch *to)
{
    struct tensor out = matrix(be, FORMAT_FP32, 1);
    struct op_add op = { out, out, matrix(be, FORMAT_BF16, 2) };

    assert_int_equal(launch_add(to, &op), cudaSuccess);
    return out;
}

static struct tensor put_convert(struct backend *be, const struct cuda_launch *to)
{
    struct op_convert op = { matrix(be, FORMAT_BF16, 1), matrix(be, FORMAT_BF16, 2) };

    assert_int_equal(launch_convert(to, &op), cudaSuccess);
    return op.out;
}

static struct tensor put_zero(struct backend *be, const struct cuda_launch *to)
{
    struct op_zero op = { matrix(be, FORMAT_BF16, 1) };

    assert_int_equal(launch_zero(to, &op), cudaSuccess);
    return op.out;
}

static struct tensor put_dropout(struct backend *be, const struct cuda_launch *to)
{
    struct tensor x = matrix(be, FORMAT_BF16, 1);
    struct op_dropout op = { .out = x, .x = x, .p = 0.5f, .seed = 3 };

    assert_int_equal(launch_dropout(to, &op), cudaSuccess);
    return x;
}

static struct tensor put_norm(struct backend *be, const struct cuda_launch *to)
{
    struct op_rmsnorm op = { .out = matrix(be, FORMAT_BF16, 1),
                             .sum = matrix(be, FORMAT_FP32, 2),
                             .rstd = row(be, ROWS, 3),
                             .x = matrix(be, FORMAT_FP32, 4),
                             .delta = matrix(be, FORMAT_BF16, 5),
                             .weight = row(be, COLS, 6),
                             .eps = 1e-5f };

    assert_int_equal(launch_rmsnorm(to, &op), cudaSuccess);
    return op.out;
}

static struct tensor put_norm_backward(struct backend *be, const struct cuda_launch *to)
{
    struct op_rmsnorm_backward op = { .dx = matrix(be, FORMAT_FP32, 1),
                                      .dweight = row(be, COLS, 2),
                                      .dout = matrix(be, FORMAT_BF16, 3),
                                      .x = matrix(be, FORMAT_FP32, 4),
                                      .weight = row(be, COLS, 5),
                                      .rstd = row(be, ROWS, 6) };

    assert_int_equal(launch_rmsnorm_backward(to, &op), cudaSuccess);
    return op.dweight;
}

/* A format and stride that only the generic kernel handles. */
static struct tensor put_norm_any(struct backend *be, const struct cuda_launch *to)
{
    struct op_rmsnorm_backward op = {
        .dx = unit_cuda_matrix(be, FORMAT_FP32, ROWS, 333, 333, 1),
        .dweight = row(be, 333, 2),
        .dout = unit_cuda_matrix(be, FORMAT_FP16, ROWS, 333, 335, 3),
        .x = unit_cuda_matrix(be, FORMAT_FP32, ROWS, 333, 334, 4),
        .weight = row(be, 333, 5),
        .rstd = row(be, ROWS, 6)
    };

    assert_int_equal(launch_rmsnorm_backward(to, &op), cudaSuccess);
    return op.dweight;
}

static struct tensor put_layernorm(struct backend *be, const struct cuda_launch *to)
{
    struct op_layernorm op = { .out = matrix(be, FORMAT_BF16, 1),
                               .sum = matrix(be, FORMAT_FP32, 2),
                               .stats =
                                   unit_cuda_matrix(be, FORMAT_FP32, 2, ROWS, ROWS, 3),
                               .x = matrix(be, FORMAT_FP32, 4),
                               .delta = matrix(be, FORMAT_BF16, 5),
                               .weight = row(be, COLS, 6),
                               .bias = row(be, COLS, 7),
                               .eps = 1e-5f };

    assert_int_equal(launch_layernorm(to, &op), cudaSuccess);
    return op.out;
}

static struct tensor put_layernorm_backward(struct backend *be,
                                            const struct cuda_launch *to)
{
    struct op_layernorm_backward op = { .dx = matrix(be, FORMAT_FP32, 1),
                                        .dweight = row(be, COLS, 2),
                                        .dbias = row(be, COLS, 7),
                                        .dout = matrix(be, FORMAT_BF16, 3),
                                        .x = matrix(be, FORMAT_FP32, 4),
                                        .weight = row(be, COLS, 5),
                                        .stats = unit_cuda_matrix(be, FORMAT_FP32, 2,
                                                                  ROWS, ROWS, 6) };

    assert_int_equal(launch_layernorm_backward(to, &op), cudaSuccess);
    return op.dweight;
}

/* A format and stride that only the generic kernel handles. */
static struct tensor put_layernorm_any(struct backend *be, const struct cuda_launch *to)
{
    struct op_layernorm_backward op = {
        .dx = unit_cuda_matrix(be, FORMAT_FP32, ROWS, 333, 333, 1),
        .dweight = row(be, 333, 2),
        .dbias = row(be, 333, 7),
        .dout = unit_cuda_matrix(be, FORMAT_FP16, ROWS, 333, 335, 3),
        .x = unit_cuda_matrix(be, FORMAT_FP32, ROWS, 333, 334, 4),
        .weight = row(be, 333, 5),
        .stats = unit_cuda_matrix(be, FORMAT_FP32, 2, ROWS, ROWS, 6)
    };

    assert_int_equal(launch_layernorm_backward(to, &op), cudaSuccess);
    return op.dbias;
}

static struct tensor put_headnorm(struct backend *be, const struct cuda_launch *to)
{
    struct op_headnorm op = { .out = matrix(be, FORMAT_BF16, 1),
                              .rstd = unit_cuda_matrix(be, FORMAT_FP32, ROWS, HEADS,
                                                       HEADS, 2),
                              .x = matrix(be, FORMAT_BF16, 3),
                              .weight = row(be, COLS / HEADS, 4),
                              .eps = 1e-5f,
                              .heads = HEADS };

    assert_int_equal(launch_headnorm(to, &op), cudaSuccess);
    return op.out;
}

static struct tensor put_headnorm_backward(struct backend *be,
                                           const struct cuda_launch *to)
{
    struct tensor dx = matrix(be, FORMAT_BF16, 1);
    struct op_headnorm_backward op = { .dx = dx,
                                       .dweight = row(be, COLS / HEADS, 2),
                                       .dout = dx,
                                       .x = matrix(be, FORMAT_BF16, 3),
                                       .weight = row(be, COLS / HEADS, 4),
                                       .rstd = unit_cuda_matrix(be, FORMAT_FP32, ROWS,
                                                                HEADS, HEADS, 5),
                                       .heads = HEADS };

    assert_int_equal(launch_headnorm_backward(to, &op), cudaSuccess);
    return op.dweight;
}

/* Heads longer than a warp's lanes hold. */
static struct tensor put_headnorm_long(struct backend *be, const struct cuda_launch *to)
{
    struct tensor dx = matrix(be, FORMAT_FP32, 1);
    struct op_headnorm_backward op = { .dx = dx,
                                       .dweight = row(be, COLS / 2, 2),
                                       .dout = dx,
                                       .x = matrix(be, FORMAT_FP32, 3),
                                       .weight = row(be, COLS / 2, 4),
                                       .rstd = unit_cuda_matrix(be, FORMAT_FP32, ROWS, 2,
                                                                2, 5),
                                       .heads = 2 };

    assert_int_equal(launch_headnorm_backward(to, &op), cudaSuccess);
    return op.dweight;
}

static struct tensor put_rope(struct backend *be, const struct cuda_launch *to)
{
    struct op_rope op = { .x = matrix(be, FORMAT_FP16, 1),
                          .table = unit_cuda_matrix(be, FORMAT_FP32, WORDS, COLS / HEADS,
                                                    COLS / HEADS, 2),
                          .positions = tokens(be, ROWS),
                          .heads = HEADS };

    assert_int_equal(launch_rope(to, &op), cudaSuccess);
    return op.x;
}

static struct tensor put_swiglu(struct backend *be, const struct cuda_launch *to)
{
    struct op_swiglu op = { matrix(be, FORMAT_BF16, 1), matrix(be, FORMAT_BF16, 2),
                            matrix(be, FORMAT_BF16, 3), ACTIVATION_SILU, NULL };

    assert_int_equal(launch_swiglu(to, &op), cudaSuccess);
    return op.out;
}

static struct tensor put_swiglu_backward(struct backend *be, const struct cuda_launch *to)
{
    struct tensor gate = matrix(be, FORMAT_BF16, 1), up = matrix(be, FORMAT_BF16, 2);
    struct op_swiglu_backward op = { .dgate = gate,
                                     .dup = up,
                                     .dout = matrix(be, FORMAT_BF16, 3),
                                     .gate = gate,
                                     .up = up };

    assert_int_equal(launch_swiglu_backward(to, &op), cudaSuccess);
    return gate;
}

static struct tensor put_activation(struct backend *be, const struct cuda_launch *to)
{
    struct op_activation op = { matrix(be, FORMAT_BF16, 1), matrix(be, FORMAT_BF16, 2),
                                ACTIVATION_GELU };

    assert_int_equal(launch_activation(to, &op), cudaSuccess);
    return op.out;
}

static struct tensor put_activation_backward(struct backend *be,
                                             const struct cuda_launch *to)
{
    struct tensor x = matrix(be, FORMAT_FP32, 1);
    struct op_activation_backward op = {
        .dx = x, .dout = matrix(be, FORMAT_FP32, 2), .x = x, .kind = ACTIVATION_GELU_TANH
    };

    assert_int_equal(launch_activation_backward(to, &op), cudaSuccess);
    return x;
}

static struct tensor put_embedding(struct backend *be, const struct cuda_launch *to)
{
    struct op_embedding op = { matrix(be, FORMAT_FP32, 1),
                               unit_cuda_matrix(be, FORMAT_BF16, WORDS, COLS, COLS, 2),
                               tokens(be, ROWS), 1 };

    assert_int_equal(launch_embedding(to, &op), cudaSuccess);
    return op.out;
}

/* More rows than a tile of its sort has. */
static struct tensor put_embedding_backward(struct backend *be,
                                            const struct cuda_launch *to)
{
    struct op_embedding_backward op = {
        .dtable = unit_cuda_matrix(be, FORMAT_FP32, WORDS, 12, 12, 1),
        .dout = unit_cuda_matrix(be, FORMAT_FP32, 5000, 12, 12, 2),
        .tokens = tokens(be, 5000),
        .scale = 1,
    };

    assert_int_equal(launch_embedding_backward(to, &op), cudaSuccess);
    return op.dtable;
}

static struct tensor put_sum_rows(struct backend *be, const struct cuda_launch *to)
{
    struct op_sum_rows op = { row(be, COLS, 1), matrix(be, FORMAT_BF16, 2) };

    assert_int_equal(launch_sum_rows(to, &op), cudaSuccess);
    return op.out;
}

static struct tensor put_add_bias(struct backend *be, const struct cuda_launch *to)
{
    struct tensor out = matrix(be, FORMAT_BF16, 1);

    assert_int_equal(launch_add_bias(to, out, out, row(be, COLS, 2)), cudaSuccess);
    return out;
}

/* slices: the sums are in the scratch, so that less scratch changes their order. */
static const struct {
    launcher *put;
    bool slices;
} all[] = {
    { put_add, false },          { put_convert, false },
    { put_zero, false },         { put_dropout, false },
    { put_norm, false },         { put_norm_backward, true },
    { put_norm_any, true },      { put_layernorm, false },
    { put_layernorm_any, true }, { put_layernorm_backward, true },
    { put_headnorm, false },     { put_headnorm_backward, true },
    { put_headnorm_long, true }, { put_rope, false },
    { put_swiglu, false },       { put_swiglu_backward, false },
    { put_activation, false },   { put_activation_backward, false },
    { put_embedding, false },    { put_embedding_backward, false },
    { put_sum_rows, true },      { put_add_bias, false },
};

static float *result(struct backend *be, launcher *put, const struct cuda_launch *to,
                     struct tensor *out)
{
    *out = put(be, to);
    return unit_cuda_read(be, *out);
}

static void test_cuda_launch_is_the_same_on_any_number_of_multiprocessors(void **state)
{
    struct backend *be = unit_cuda_alone(90, (size_t)1 << 30);
    struct cuda_launch to = cuda_backend_of(be)->launch, one = to;

    (void)state;
    to.multiprocessors = 100;
    one.multiprocessors = 1;
    for (size_t i = 0; i < TS_COUNT(all); i++) {
        struct tensor out;
        float *wanted = result(be, all[i].put, &to, &out);
        float *got = result(be, all[i].put, &one, &out);

        assert_memory_equal(got, wanted, out.rows * out.stride * sizeof(float));
        free(wanted);
        free(got);
    }
    be->ops->close(be);
}

/* A tile of the sort, or sums of some slices. */
static void test_cuda_launch_works_with_little_scratch(void **state)
{
    struct backend *be = unit_cuda_alone(80, (size_t)1 << 30);
    struct cuda_launch to = cuda_backend_of(be)->launch, poor = to;

    (void)state;
    poor.scratch_bytes = 36000;
    for (size_t i = 0; i < TS_COUNT(all); i++) {
        struct tensor out;
        float *wanted = result(be, all[i].put, &to, &out);
        float *got = result(be, all[i].put, &poor, &out);

        for (size_t k = 0; k < out.rows * out.stride; k++) {
            double room = all[i].slices ? 1e-5 * (1 + fabs((double)wanted[k])) : 0;

            if (!(fabs((double)got[k] - (double)wanted[k]) <= room))
                fail_msg("%zu, element %zu: %.9g, not %.9g", i, k, (double)got[k],
                         (double)wanted[k]);
        }
        free(wanted);
        free(got);
    }
    be->ops->close(be);
}

static void test_cuda_launch_refuses_no_scratch(void **state)
{
    struct backend *be = unit_cuda_alone(80, (size_t)1 << 30);
    struct cuda_launch poor = cuda_backend_of(be)->launch;
    struct op_sum_rows op = { row(be, COLS, 1), matrix(be, FORMAT_BF16, 2) };

    (void)state;
    poor.scratch_bytes = 100;
    assert_int_equal(launch_sum_rows(&poor, &op), cudaErrorNotSupported);
    be->ops->close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_launch_is_the_same_on_any_number_of_multiprocessors),
        cmocka_unit_test(test_cuda_launch_works_with_little_scratch),
        cmocka_unit_test(test_cuda_launch_refuses_no_scratch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
