/* tests/unit/test_cuda_attention_gradients.c - the gradients of attention by cuDNN, which a
 * run gets only if its bits may vary, equal those of our own kernels. */
#include "config.h"

#include "tests/unit/unit_cuda_attention.h"

static struct op_attention_backward make_backward(struct backend *be,
                                                  const struct op_attention *op)
{
    size_t rows = op->q.rows, q = op->q.cols, kv = op->k.cols;
    enum format format = op->q.format;

    return (struct op_attention_backward) {
        .dq = unit_cuda_matrix(be, format, rows, q, q + 8, 6),
        .dk = unit_cuda_matrix(be, format, rows, kv, kv + 16, 7),
        .dv = unit_cuda_matrix(be, format, rows, kv, kv, 8),
        .delta = unit_cuda_matrix(be, FORMAT_FP32, op->heads, rows, rows, 9),
        .dout = unit_cuda_matrix(be, format, rows, q, q + 24, 10),
        .forward = *op,
    };
}

/* Open a card whose gradients may vary, within this much memory. */
static struct backend *open_varying(size_t gradients_bytes)
{
    static const struct emulation_device card = { "Emulated", 90, 4, (size_t)2 << 30 };
    struct device device;
    char note[160];
    struct backend_options options = { .device = &device,
                                       .gradients_bytes = gradients_bytes };
    struct error err = { 0 };
    struct backend *be;

    emulation_reset(&card, 1);
    assert_int_equal(backend_cuda.devices("cuda", &device, 1, note, sizeof(note)), 1);
    setenv("TRAINSPOOL_CUDNN", "1", 1);
    be = backend_cuda.open(&options, &err);
    unsetenv("TRAINSPOOL_CUDNN");
    if (!be)
        fail_msg("%s", err.text);
    return be;
}

enum { DQ, DK, DV, GRADIENTS };

struct gradients {
    struct tensor tensors[GRADIENTS];
    float *values[GRADIENTS];
    size_t plans;
};

/* The log-sum-exp is that of our kernels or of cuDNN. */
static struct gradients run_backward(struct backend *be, const struct shape *shape,
                                     struct besides besides)
{
    struct op_attention op = make(be, shape, besides);
    struct op_attention_backward back = make_backward(be, &op);
    struct cuda_attention *attention = cuda_backend_of(be)->attention;
    struct gradients grads = { .tensors = { back.dq, back.dk, back.dv } };

    be->ops->attention(be, &op);
    be->ops->attention_backward(be, &back);
    for (size_t i = 0; i < GRADIENTS; i++)
        grads.values[i] = unit_cuda_read(be, grads.tensors[i]);
    grads.plans = attention ? cuda_attention_plans(attention) : 0;
    backend_close(be);
    return grads;
}

static void gradients_clear(struct gradients *grads)
{
    for (size_t i = 0; i < GRADIENTS; i++)
        free(grads->values[i]);
}

/* Columns outside the operands are the same; elements differ by at most `bound` times the
 * largest one, or by what fp32 rounds of a sum that is 0. */
static void assert_gradients_near(const struct gradients *a, const struct gradients *b,
                                  double bound)
{
    static const char *const names[] = { "dq", "dk", "dv" };

    for (size_t n = 0; n < GRADIENTS; n++) {
        struct tensor t = a->tensors[n];
        double largest = 0;

        for (size_t i = 0; i < t.rows; i++)
            for (size_t j = 0; j < t.cols; j++)
                largest = fmax(largest, fabs((double)b->values[n][i * t.stride + j]));
        for (size_t i = 0; i < t.rows * t.stride; i++) {
            double x = (double)a->values[n][i], y = (double)b->values[n][i];
            double allowed = i % t.stride < t.cols ? bound * largest + 1e-6 : 0;

            if (!(fabs(x - y) <= allowed))
                fail_msg("%s (%zu, %zu): %g, not %g +- %g", names[n], i / t.stride,
                         i % t.stride, x, y, allowed);
        }
    }
}

static struct gradients our_gradients(const struct shape *shape, struct besides besides)
{
    return run_backward(open_card(besides, false), shape, besides);
}

/* Both round weights and their gradients to 16 bits before they are multiplied, and the
 * result; cuDNN also the sums over the heads that share keys. */
static void test_cuda_attention_gradients_by_cudnn_match_ours(void **state)
{
    struct besides nothing = { 0 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(shapes); i++) {
        struct gradients ours = our_gradients(&shapes[i], nothing);
        struct gradients theirs =
            run_backward(open_varying((size_t)64 << 20), &shapes[i], nothing);

        assert_int_equal(ours.plans, 0);
        assert_int_equal(theirs.plans, 2);
        assert_gradients_near(&theirs, &ours, 4 * format_info(shapes[i].format)->epsilon);
        gradients_clear(&ours);
        gradients_clear(&theirs);
    }
}

/* The same bits in each run, or too little memory: our kernels use the log-sum-exp from
 * cuDNN. */
static void test_cuda_attention_gradients_are_ours(void **state)
{
    static const size_t rooms[] = { 0, 100000 };
    struct besides nothing = { 0 };
    struct gradients ours = our_gradients(&shapes[1], nothing);

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rooms); i++) {
        struct gradients mixed =
            run_backward(open_varying(rooms[i]), &shapes[1], nothing);

        assert_int_equal(mixed.plans, 1);
        assert_gradients_near(&mixed, &ours, 4 * format_info(FORMAT_BF16)->epsilon);
        gradients_clear(&mixed);
    }
    gradients_clear(&ours);
}

static void test_cuda_attention_gradients_are_ours_in_other_cases(void **state)
{
    static const struct besides cases[] = {
        { .softcap = 20 }, { .p = 0.25f }, { .slopes = { 8, 1 } }, { .joined = true }
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct gradients ours = our_gradients(&shapes[1], cases[i]);
        struct gradients same =
            run_backward(open_varying((size_t)64 << 20), &shapes[1], cases[i]);

        assert_int_equal(same.plans, 0);
        assert_gradients_near(&same, &ours, 0);
        gradients_clear(&ours);
        gradients_clear(&same);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_attention_gradients_by_cudnn_match_ours),
        cmocka_unit_test(test_cuda_attention_gradients_are_ours),
        cmocka_unit_test(test_cuda_attention_gradients_are_ours_in_other_cases),
    };

    emulation_cudnn(91900, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
