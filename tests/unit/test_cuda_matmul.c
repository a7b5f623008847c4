/* tests/unit/test_cuda_matmul.c - plans of matmuls, and the fallback if there is none. */
#include "config.h"

#include "kernels/cuda/cuda_matmul.h"

#include <math.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/unit/unit_cuda.h"

static const size_t gib = (size_t)1 << 30;

static size_t plans(struct backend *be)
{
    return cuda_matmul_plans(cuda_backend_of(be)->matmul);
}

/* op(a) op(b) + bias in double, and the largest possible sum of its terms. */
static void compare(struct backend *be, const struct op_matmul *op, double epsilon)
{
    float *a = unit_cuda_read(be, op->a), *b = unit_cuda_read(be, op->b);
    float *out = unit_cuda_read(be, op->out);
    float *bias = op->bias.data ? unit_cuda_read(be, op->bias) : NULL;
    size_t depth = op->trans_a ? op->a.rows : op->a.cols;

    for (size_t i = 0; i < op->out.rows; i++)
        for (size_t j = 0; j < op->out.cols; j++) {
            double sum = bias ? (double)bias[j] : 0, size = fabs(sum);

            for (size_t k = 0; k < depth; k++) {
                double x =
                    (double)a[op->trans_a ? k * op->a.stride + i : i * op->a.stride + k];
                double y =
                    (double)b[op->trans_b ? j * op->b.stride + k : k * op->b.stride + j];

                sum += x * y;
                size += fabs(x * y);
            }
            if (fabs(sum - (double)out[i * op->out.stride + j]) > epsilon * size)
                fail_msg("(%zu, %zu): %g, not %g", i, j,
                         (double)out[i * op->out.stride + j], sum);
        }
    free(a);
    free(b);
    free(out);
    free(bias);
}

/* Each shape, each transposition and each alignment is planned once; and again if the
 * matmul adds to its result. */
static void test_cuda_matmul_plans_a_shape_once(void **state)
{
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    struct tensor a =
        tensor_rows(unit_cuda_matrix(be, FORMAT_BF16, 13, 12, 20, 1), 0, 12);
    struct tensor b = unit_cuda_matrix(be, FORMAT_BF16, 12, 12, 12, 2);
    struct tensor out = unit_cuda_matrix(be, FORMAT_FP32, 12, 12, 12, 3);
    struct op_matmul op = { .out = out, .a = a, .b = b, .alpha = 1 };

    (void)state;
    for (int round = 0; round < 3; round++) {
        op.beta = (float)(round == 2); /* part of a plan; alpha is not */
        op.alpha = (float)(1 + round);
        for (int way = 0; way < 4; way++) {
            op.trans_a = way & 1;
            op.trans_b = way & 2;
            be->ops->matmul(be, &op);
        }
        assert_int_equal(plans(be), round == 2 ? 8 : 4);
    }
    op.a.data = (char *)a.data + 2;
    op.beta = 0;
    be->ops->matmul(be, &op);
    assert_int_equal(plans(be), 9);
    op.alpha = 1;
    be->ops->matmul(be, &op);
    unit_cuda_sync(be);
    assert_int_equal(plans(be), 9);
    compare(be, &op, 0x1p-20);
    backend_close(be);
}

/* In the matmul if the library can, after it if not: for one row, and in 16 bits, in which
 * the library takes the bias, also for rows that are not aligned and earlier results. */
static void test_cuda_matmul_adds_the_bias_either_way(void **state)
{
    static const struct {
        enum format out;
        size_t rows, gap;
        float beta;
        size_t kernels;
    } cases[] = {
        { FORMAT_FP32, 5, 1, 0, 0 }, { FORMAT_FP32, 1, 0, 0, 1 },
        { FORMAT_FP32, 5, 0, 1, 0 }, { FORMAT_BF16, 5, 0, 0, 1 }, /* rounds it */
        { FORMAT_BF16, 1, 0, 0, 1 }, { FORMAT_BF16, 5, 1, 0, 1 },
        { FORMAT_BF16, 5, 0, 1, 2 },
    };
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    struct tensor bias = unit_cuda_matrix(be, FORMAT_FP32, 1, 11, 11, 3);

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        size_t rows = cases[i].rows, stride = 16 + cases[i].gap;
        struct op_matmul op = {
            .out = unit_cuda_matrix(be, cases[i].out, rows, 11, 16, 4),
            .a = unit_cuda_matrix(be, FORMAT_BF16, rows, 9, stride, 1),
            .b = unit_cuda_matrix(be, FORMAT_BF16, 11, 9, 16, 2),
            .trans_b = true,
            .bias = bias,
            .alpha = 1,
            .beta = cases[i].beta,
        };
        size_t before;

        if (op.beta != 0)
            be->ops->zero(be, &(struct op_zero) { .out = op.out });
        unit_cuda_sync(be);
        before = emulation_kernels_run();
        be->ops->matmul(be, &op);
        unit_cuda_sync(be);
        assert_int_equal(emulation_kernels_run() - before, cases[i].kernels);
        compare(be, &op, cases[i].out == FORMAT_FP32 ? 0x1p-20 : 0x1p-8);
    }
    backend_close(be);
}

/* Sums of many rows with few columns on one side have their own kernel, in two passes. */
static void test_cuda_matmul_sums_into_thin_results(void **state)
{
    static const struct {
        size_t rows, cols, depth;
        enum format format;
        size_t kernels;
    } cases[] = {
        { 200, 16, 1024, FORMAT_BF16, 2 },
        { 136, 48, 1030, FORMAT_FP16, 2 },
        { 264, 8, 1100, FORMAT_BF16, 2 },
        { 72, 64, 4000, FORMAT_BF16, 2 },
        { 128, 24, 9000, FORMAT_BF16, 2 },
        { 200, 16, 1000, FORMAT_BF16, 0 }, /* not deep */
        { 200, 72, 1024, FORMAT_BF16, 0 }, /* not thin */
        { 16, 200, 1024, FORMAT_BF16, 0 },
        { 200, 12, 1024, FORMAT_BF16, 0 }, /* rows do not start at 16 bytes */
    };
    struct backend *be = unit_cuda_alone(80, 2 * gib);

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        size_t rows = cases[i].rows, cols = cases[i].cols, depth = cases[i].depth;
        struct op_matmul op = {
            .out = unit_cuda_matrix(be, FORMAT_FP32, rows, cols, cols + 3, 1),
            .a = unit_cuda_matrix(be, cases[i].format, depth, rows, rows + 16, 2),
            .b = unit_cuda_matrix(be, cases[i].format, depth, cols, cols + 8, 3),
            .trans_a = true,
            .alpha = 1,
        };
        size_t before = emulation_kernels_run();
        float *once, *twice;

        be->ops->matmul(be, &op);
        unit_cuda_sync(be);
        assert_int_equal(emulation_kernels_run() - before, cases[i].kernels);
        compare(be, &op, 0x1p-20);
        once = unit_cuda_read(be, op.out);
        op.beta = 1;
        be->ops->matmul(be, &op);
        unit_cuda_sync(be);
        twice = unit_cuda_read(be, op.out);
        for (size_t n = 0; n < rows; n++)
            for (size_t m = 0; m < cols; m++)
                assert_true(twice[n * op.out.stride + m] ==
                            2 * once[n * op.out.stride + m]);
        free(once);
        free(twice);
    }
    backend_close(be);
}

/* fp32 is exact unless the job requests tf32: then each operand is truncated to 2^-10 of
 * it. */
static void test_cuda_matmul_rounds_to_tf32_only_if_requested(void **state)
{
    static const struct emulation_device device = { "Emulated", 80, 4, (size_t)2 << 30 };
    const double epsilon[] = { 0x1p-21, 0x1p-9 };

    (void)state;
    for (int tf32 = 0; tf32 < 2; tf32++) {
        struct device gpu = { .kind = DEVICE_CUDA, .name = "Emulated" };
        struct backend_options options = { .device = &gpu, .tf32 = tf32 };
        struct error err = { 0 };
        struct op_matmul op = { .alpha = 1 };
        struct backend *be;
        float *one, wanted = 1 + 0x1p-12f;

        emulation_reset(&device, 1);
        be = backend_cuda.open(&options, &err);
        op.a = unit_cuda_matrix(be, FORMAT_FP32, 6, 40, 40, 1);
        op.b = unit_cuda_matrix(be, FORMAT_FP32, 40, 7, 7, 2);
        op.out = unit_cuda_matrix(be, FORMAT_FP32, 6, 7, 7, 3);
        be->ops->matmul(be, &op);
        compare(be, &op, epsilon[tf32]);
        op = (struct op_matmul) { .out = unit_cuda_matrix(be, FORMAT_FP32, 1, 1, 1, 1),
                                  .a = unit_cuda_matrix(be, FORMAT_FP32, 1, 1, 1, 1),
                                  .b = unit_cuda_matrix(be, FORMAT_FP32, 1, 1, 1, 1),
                                  .alpha = 1 };
        be->ops->upload(be, op.a.data, &wanted, 4);
        be->ops->upload(be, op.b.data, &(float) { 1 }, 4);
        be->ops->matmul(be, &op);
        one = unit_cuda_read(be, op.out);
        assert_true((one[0] == wanted) == !tf32);
        free(one);
        backend_close(be);
    }
}

static struct op_matmul rounded_product(struct backend *be, size_t rows, size_t cols,
                                        size_t depth, bool trans_a, bool trans_b)
{
    return (struct op_matmul) {
        .out = unit_cuda_matrix(be, FORMAT_FP32, rows, cols, size_round(cols, 4), 1),
        .a = trans_a ? unit_cuda_matrix(be, FORMAT_BF16, depth, rows, rows, 2)
                     : unit_cuda_matrix(be, FORMAT_BF16, rows, depth, depth, 2),
        .b = trans_b ? unit_cuda_matrix(be, FORMAT_BF16, cols, depth, depth, 3)
                     : unit_cuda_matrix(be, FORMAT_BF16, depth, cols, cols, 3),
        .trans_a = trans_a,
        .trans_b = trans_b,
        .alpha = 1,
        .round_a = FORMAT_FP8_E4M3,
        .round_b = FORMAT_FP8_E4M3,
    };
}

static size_t in_fp8(struct backend *be)
{
    return cuda_matmul_in_fp8(cuda_backend_of(be)->matmul);
}

/* Every transposition is converted to the only layout that fp8 supports, for any number
 * of rows; two roundings of 2^-4 per term. */
static void test_cuda_matmul_multiplies_in_8_bits(void **state)
{
    struct backend *be = unit_cuda_alone(90, 2 * gib);

    (void)state;
    for (int way = 0; way < 4; way++) {
        size_t rows = way < 2 ? 32 : 7;
        struct op_matmul op = rounded_product(be, rows, 48, 64, way & 1, way & 2);
        float *exact, *rough;
        double apart = 0;

        be->ops->matmul(be, &op);
        assert_int_equal(in_fp8(be), way + 1);
        compare(be, &op, 0x1p-3);
        rough = unit_cuda_read(be, op.out);
        op.round_a = op.round_b = FORMAT_FP32;
        be->ops->matmul(be, &op);
        exact = unit_cuda_read(be, op.out);
        for (size_t i = 0; i < rows * 48; i++)
            apart = fmax(apart, fabs((double)exact[i] - (double)rough[i]));
        assert_true(apart > 1e-3); /* so it was rounded */
        free(exact);
        free(rough);
    }
    assert_true(cuda_matmul_bytes(cuda_backend_of(be)->matmul) > 0);
    backend_close(be);
    assert_int_equal(emulation_bytes_held(), 0);
}

/* Return the bits of a matmul's result, malloc'ed. */
static float *result_of(struct backend *be, const struct op_matmul *op)
{
    be->ops->matmul(be, op);
    return unit_cuda_read(be, op->out);
}

/* An operand that is rounded for two matmuls, which read it and its transpose, gives both
 * the bits that rounding it for each does; also if the first does not run in 8 bits. */
static void test_cuda_matmul_rounds_once_for_two_matmuls(void **state)
{
    struct backend *be = unit_cuda_alone(90, 2 * gib);

    (void)state;
    for (int way = 0; way < 4; way++) {
        bool fits = way & 1, turned_only = way & 2;
        struct op_matmul first =
            rounded_product(be, 80, fits ? 48 : 49, 64, false, false);
        struct op_matmul second = rounded_product(be, 64, 32, 80, true, false);
        size_t bytes = rounded_matrix_bytes(80 * 64, turned_only);
        char *room =
            unit_cuda_block(be, bytes + rounded_matrix_bytes(64 * 49, turned_only));
        size_t before = in_fp8(be);
        float *wanted[2], *found[2];

        second.a = first.a;
        wanted[0] = result_of(be, &first);
        wanted[1] = result_of(be, &second);
        first.rounded_a = second.rounded_a =
            (struct rounded_matrix) { .room = room, .turned_only = turned_only };
        first.rounded_b =
            (struct rounded_matrix) { .room = room + bytes, .turned_only = turned_only };
        second.rounded_a.ready = true;
        found[0] = result_of(be, &first);
        be->ops->zero(be, &(struct op_zero) { .out = first.a }); /* not read again */
        found[1] = result_of(be, &second);
        assert_memory_equal(found[0], wanted[0], first.out.rows * first.out.stride * 4);
        assert_memory_equal(found[1], wanted[1], second.out.rows * second.out.stride * 4);
        assert_int_equal(in_fp8(be) - before, fits ? 4 : 2);
        for (size_t i = 0; i < 2; i++) {
            free(wanted[i]);
            free(found[i]);
        }
    }
    backend_close(be);
    assert_int_equal(emulation_bytes_held(), 0);
}

/* A shape without an fp8 matmul uses another format, and the log has one line about
 * it. */
static void test_cuda_matmul_logs_once_what_8_bits_do_not_support(void **state)
{
    static const struct emulation_device device = { "Emulated", 90, 4, (size_t)2 << 30 };
    struct error err = { 0 };
    struct backend *be;
    struct log *log;
    char text[600];
    int ends[2];
    ssize_t got;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    log = log_new(ends[1], LOG_INFO);
    emulation_reset(&device, 1);
    be = unit_cuda_try(0, log, &err);
    for (size_t i = 0; i < 3; i++) {
        struct op_matmul op = rounded_product(be, 9 + i, 48, 65, false, true);

        be->ops->matmul(be, &op);
        compare(be, &op, 0x1p-20);
    }
    assert_int_equal(in_fp8(be), 0);
    backend_close(be);
    log_free(log);
    close(ends[1]);
    got = read(ends[0], text, sizeof(text) - 1);
    assert_true(got > 0);
    text[got] = 0;
    close(ends[0]);
    assert_non_null(strstr(text, "(9, 65) (65, 48)"));
    assert_ptr_equal(strchr(text, '\n'), text + got - 1);
}

static void test_cuda_matmul_refuses_fp8_on_devices_without_it(void **state)
{
    struct backend *be = unit_cuda_alone(86, 2 * gib);
    struct op_matmul op = rounded_product(be, 16, 16, 16, false, true);
    struct error err = { 0 };

    (void)state;
    be->ops->matmul(be, &op);
    assert_false(be->ops->sync(be, &err));
    assert_int_equal(err.code, ERROR_DEVICE);
    assert_non_null(strstr(err.text, "fp8: false"));
    backend_close(be);
}

/* A matmul that the library does not have fails by name, and the next one works. */
static void test_cuda_matmul_names_an_unsupported_matmul(void **state)
{
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    struct op_matmul op = { .out = unit_cuda_matrix(be, FORMAT_FP32, 3, 4, 4, 1),
                            .a = unit_cuda_matrix(be, FORMAT_FP32, 3, 5, 5, 1),
                            .b = unit_cuda_matrix(be, FORMAT_FP32, 5, 4, 4, 1),
                            .alpha = 1 };
    struct op_matmul odd = op;
    struct error err = { 0 };

    (void)state;
    odd.a.data = (char *)op.a.data + 2; /* not an fp32 address */
    odd.a.rows = odd.out.rows = 2;
    be->ops->matmul(be, &odd);
    assert_false(be->ops->sync(be, &err));
    if (!strstr(err.text, "matmul (2, 4) fp32 = (2, 5) (5, 4) fp32"))
        fail_msg("%s", err.text);
    be->ops->matmul(be, &op);
    compare(be, &op, 0x1p-20);
    backend_close(be);
}

/* Matmuls of the last layer, all with gradients, in one chunk. */
static size_t classifier_plans(size_t words)
{
    enum { ROWS = 16, COLS = 24 };
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    size_t apart = size_round(words, 64), count;
    int32_t *targets = unit_cuda_block(be, ROWS * sizeof(*targets)); /* 0 */
    struct op_classifier op = {
        .losses = unit_cuda_matrix(be, FORMAT_FP32, 1, ROWS, ROWS, 1),
        .dx = unit_cuda_matrix(be, FORMAT_BF16, ROWS, COLS, COLS, 1),
        .dw = unit_cuda_matrix(be, FORMAT_FP32, words, COLS, COLS, 1),
        .x = unit_cuda_matrix(be, FORMAT_BF16, ROWS, COLS, COLS, 2),
        .w = unit_cuda_matrix(be, FORMAT_BF16, words, COLS, COLS, 3),
        .logits = unit_cuda_matrix(be, FORMAT_FP32, ROWS, words, apart, 1),
        .dlogits = unit_cuda_matrix(be, FORMAT_BF16, ROWS, words, apart, 1),
        .gathered = unit_cuda_matrix(be, FORMAT_BF16, ROWS, COLS, COLS, 1),
        .dgathered = unit_cuda_matrix(be, FORMAT_BF16, ROWS, COLS, COLS, 1),
        .targets = targets,
        .rows = unit_cuda_block(be, ROWS * sizeof(int32_t)),
        .grad_scale = 1,
    };

    be->ops->classifier(be, &op);
    unit_cuda_sync(be);
    count = plans(be);
    backend_close(be);
    return count;
}

/* Whole tiles of tokens and the rest separately, if rows would end within 16 bytes. */
static void test_cuda_classifier_splits_an_odd_vocabulary(void **state)
{
    (void)state;
    assert_int_equal(classifier_plans(200), 3); /* logits, dx, dw */
    assert_int_equal(classifier_plans(128), 3);
    assert_int_equal(classifier_plans(203), 6);
    assert_int_equal(classifier_plans(65), 6);
    assert_int_equal(classifier_plans(63), 3); /* no tile */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_matmul_plans_a_shape_once),
        cmocka_unit_test(test_cuda_matmul_adds_the_bias_either_way),
        cmocka_unit_test(test_cuda_matmul_sums_into_thin_results),
        cmocka_unit_test(test_cuda_matmul_rounds_to_tf32_only_if_requested),
        cmocka_unit_test(test_cuda_matmul_multiplies_in_8_bits),
        cmocka_unit_test(test_cuda_matmul_rounds_once_for_two_matmuls),
        cmocka_unit_test(test_cuda_matmul_logs_once_what_8_bits_do_not_support),
        cmocka_unit_test(test_cuda_matmul_refuses_fp8_on_devices_without_it),
        cmocka_unit_test(test_cuda_matmul_names_an_unsupported_matmul),
        cmocka_unit_test(test_cuda_classifier_splits_an_odd_vocabulary),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
