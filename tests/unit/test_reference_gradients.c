/*
 * tests/unit/test_reference_gradients.c - in double, backward passes equal the slopes of
 * their forward passes: linear layers, embeddings, rotations, activations, dropout, rows of
 * media.
 * (Norms, attention, gates and losses are in their own tests.)
 */
#include "config.h"

#include <math.h>

#include "base/random.h"
#include "base/size.h"
#include "kernels/unfold.h"
#include "tests/reference/backend_double.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

enum { INPUTS = 3, ROWS = 5, BLOCK_NUMBERS = 4096 };

/* out = f(in), and grad = the gradients of sum(out * dout) with respect to in.  All are
 * contiguous in one block; `settings` is private to f. */
struct trial {
    struct backend *be;
    char *block;
    size_t used;
    struct tensor in[INPUTS], grad[INPUTS], out, dout;
    size_t inputs;
    void (*forward)(struct trial *t);
    void (*backward)(struct trial *t);
    const void *settings;
};

static struct trial trial_open(void)
{
    static const struct device cpu = { .kind = DEVICE_CPU };
    struct backend_options options = { .device = &cpu };
    struct trial t = { .be = backend_double.open(&options, NULL) };

    t.block = t.be->ops->alloc(t.be, BLOCK_NUMBERS * sizeof(float), NULL);
    return t;
}

static struct tensor matrix(struct trial *t, size_t rows, size_t cols)
{
    struct tensor m =
        tensor_of(t->block + t->used * sizeof(float), FORMAT_FP32, rows, cols);

    t->used += rows * cols;
    assert_true(t->used <= BLOCK_NUMBERS);
    return m;
}

/* The same with normally distributed values. */
static struct tensor drawn(struct trial *t, size_t rows, size_t cols)
{
    struct tensor m = matrix(t, rows, cols);
    double *numbers = double_values(t->be, m.data);

    for (size_t i = 0; i < rows * cols; i++)
        numbers[i] = random_normal(1, RANDOM_INIT, (uint32_t)t->used, i);
    return m;
}

static void add_input(struct trial *t, size_t rows, size_t cols)
{
    t->in[t->inputs] = drawn(t, rows, cols);
    t->grad[t->inputs++] = matrix(t, rows, cols);
}

static void set_output(struct trial *t, size_t rows, size_t cols)
{
    t->out = matrix(t, rows, cols);
    t->dout = drawn(t, rows, cols);
}

static double trial_loss(void *context)
{
    struct trial *t = context;
    const double *out = double_values(t->be, t->out.data);
    const double *dout = double_values(t->be, t->dout.data);
    double sum = 0;

    t->forward(t);
    for (size_t i = 0; i < t->out.rows * t->out.cols; i++)
        sum += out[i] * dout[i];
    return sum;
}

static void trial_close(struct trial *t, const char *what)
{
    t->forward(t);
    t->backward(t);
    for (size_t i = 0; i < t->inputs; i++) {
        double error = reference_slope_error(
            trial_loss, t, double_values(t->be, t->in[i].data),
            t->in[i].rows * t->in[i].cols, double_values(t->be, t->grad[i].data));

        if (!(error <= 1e-6))
            fail_msg("%s: the gradient by input %zu is off by %.2g", what, i, error);
    }
    backend_close(t->be);
}

/* ---- Y = alpha X W^T + b ---- */

static void linear(struct trial *t)
{
    const double *alpha = t->settings;

    t->be->ops->matmul(t->be, &(struct op_matmul) { .out = t->out,
                                                    .a = t->in[0],
                                                    .b = t->in[1],
                                                    .bias = t->in[2],
                                                    .trans_b = true,
                                                    .alpha = (float)*alpha });
}

static void linear_backward(struct trial *t)
{
    const double *alpha = t->settings;

    t->be->ops->matmul(t->be, &(struct op_matmul) { .out = t->grad[0],
                                                    .a = t->dout,
                                                    .b = t->in[1],
                                                    .alpha = (float)*alpha });
    t->be->ops->matmul(t->be, &(struct op_matmul) { .out = t->grad[1],
                                                    .a = t->dout,
                                                    .b = t->in[0],
                                                    .trans_a = true,
                                                    .alpha = (float)*alpha,
                                                    .beta = 1 });
    t->be->ops->sum_rows(t->be, &(struct op_sum_rows) { t->grad[2], t->dout });
}

static void test_linear(void **state)
{
    static const double alphas[] = { 1, 0.25 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(alphas); i++) {
        struct trial t = trial_open();

        add_input(&t, ROWS, 7);
        add_input(&t, 3, 7);
        add_input(&t, 1, 3);
        set_output(&t, ROWS, 3);
        t.settings = &alphas[i];
        t.forward = linear;
        t.backward = linear_backward;
        trial_close(&t, "linear");
    }
}

/* ---- Rows of a table, one used twice, one never ---- */

static const int32_t tokens[ROWS] = { 2, 0, 3, 2, 1 };

static void embedding(struct trial *t)
{
    const float *scale = t->settings;

    t->be->ops->embedding(t->be,
                          &(struct op_embedding) { t->out, t->in[0], tokens, *scale });
}

static void embedding_backward(struct trial *t)
{
    const float *scale = t->settings;

    t->be->ops->embedding_backward(
        t->be,
        &(struct op_embedding_backward) {
            .dtable = t->grad[0], .dout = t->dout, .tokens = tokens, .scale = *scale });
}

static void test_embedding(void **state)
{
    static const float scales[] = { 0, 5 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(scales); i++) {
        struct trial t = trial_open();

        add_input(&t, 5, 6);
        set_output(&t, ROWS, 6);
        t.settings = &scales[i];
        t.forward = embedding;
        t.backward = embedding_backward;
        trial_close(&t, "embedding");
    }
}

/* ---- In-place, so on a copy ---- */

static const int32_t places[ROWS] = { 0, 1, 2, 0, 3 };

static void rotate(struct trial *t, struct tensor x, struct tensor out, bool inverse)
{
    struct op_rope *op = &(struct op_rope) { .x = out,
                                             .table = t->in[1],
                                             .positions = places,
                                             .heads = 3,
                                             .rotary = t->in[1].cols,
                                             .interleaved = *(const bool *)t->settings,
                                             .inverse = inverse };

    t->be->ops->convert(t->be, &(struct op_convert) { out, x });
    t->be->ops->rope(t->be, op);
}

static void rope(struct trial *t)
{
    rotate(t, t->in[0], t->out, false);
}

static void rope_backward(struct trial *t)
{
    rotate(t, t->dout, t->grad[0], true);
}

static void test_rope(void **state)
{
    static const size_t rotary[] = { 8, 4, 8, 4 };
    static const bool interleaved[] = { false, false, true, true };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rotary); i++) {
        struct trial t = trial_open();
        double *table;

        add_input(&t, ROWS, 24);
        set_output(&t, ROWS, 24);
        t.in[1] = matrix(&t, 4, rotary[i]); /* no input: t.inputs is 1 */
        table = double_values(t.be, t.in[1].data);
        for (size_t p = 0; p < 4; p++)
            for (size_t d = 0; d < rotary[i] / 2; d++) {
                table[p * rotary[i] + d] = cos((double)(p * (d + 1)));
                table[p * rotary[i] + d + rotary[i] / 2] = sin((double)(p * (d + 1)));
            }
        t.settings = &interleaved[i];
        t.forward = rope;
        t.backward = rope_backward;
        trial_close(&t, "rope");
    }
}

/* ---- Elementwise ---- */

static void activation(struct trial *t)
{
    const enum activation *kind = t->settings;

    t->be->ops->activation(t->be, &(struct op_activation) { t->out, t->in[0], *kind });
}

static void activation_backward(struct trial *t)
{
    const enum activation *kind = t->settings;

    t->be->ops->activation_backward(
        t->be, &(struct op_activation_backward) {
                   .dx = t->grad[0], .dout = t->dout, .x = t->in[0], .kind = *kind });
}

static void test_activations(void **state)
{
    static const enum activation kinds[] = { ACTIVATION_SILU,      ACTIVATION_GELU,
                                             ACTIVATION_GELU_TANH, ACTIVATION_RELU,
                                             ACTIVATION_RELU2,     ACTIVATION_SIGMOID,
                                             ACTIVATION_QUICK_GELU };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(kinds); i++) {
        struct trial t = trial_open();

        add_input(&t, ROWS, 9);
        set_output(&t, ROWS, 9);
        t.settings = &kinds[i];
        t.forward = activation;
        t.backward = activation_backward;
        trial_close(&t, "activation");
    }
}

static void drop(struct trial *t, struct tensor x, struct tensor out)
{
    static const uint64_t draw = 7;

    t->be->ops->dropout(
        t->be,
        &(struct op_dropout) {
            .out = out, .x = x, .p = 0.3f, .seed = 11, .draw = &draw, .stream = 2 });
}

static void dropout(struct trial *t)
{
    drop(t, t->in[0], t->out);
}

static void dropout_backward(struct trial *t)
{
    drop(t, t->dout, t->grad[0]);
}

static void test_dropout(void **state)
{
    struct trial t = trial_open();

    (void)state;
    add_input(&t, ROWS, 9);
    set_output(&t, ROWS, 9);
    t.forward = dropout;
    t.backward = dropout_backward;
    trial_close(&t, "dropout");
}

/* ---- Rows of media ---- */

static const int32_t rows_at[3] = { 3, -1, 0 };

static void place_rows(struct trial *t)
{
    const bool *add = t->settings;

    t->be->ops->convert(t->be, &(struct op_convert) { t->out, t->in[0] });
    t->be->ops->place_rows(t->be,
                           &(struct op_place_rows) { t->out, t->in[1], rows_at, *add });
}

static void place_rows_backward(struct trial *t)
{
    const bool *add = t->settings;

    t->be->ops->convert(t->be, &(struct op_convert) { t->grad[0], t->dout });
    t->be->ops->place_rows_backward(
        t->be, &(struct op_place_rows_backward) { .dx = t->grad[0],
                                                  .drows = t->grad[1],
                                                  .at = rows_at,
                                                  .count = 3,
                                                  .add = *add });
}

static void test_place_rows(void **state)
{
    static const bool adds[] = { false, true };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(adds); i++) {
        struct trial t = trial_open();

        add_input(&t, ROWS, 6);
        add_input(&t, 3, 6);
        set_output(&t, ROWS, 6);
        t.settings = &adds[i];
        t.forward = place_rows;
        t.backward = place_rows_backward;
        trial_close(&t, "rows that are placed");
    }
}

static void pool_rows(struct trial *t)
{
    t->be->ops->pool_rows(t->be, &(struct op_pool_rows) { t->out, t->in[0], 2 });
}

static void pool_rows_backward(struct trial *t)
{
    t->be->ops->pool_rows_backward(
        t->be, &(struct op_pool_rows_backward) { t->grad[0], t->dout, 2 });
}

static void test_pool_rows(void **state)
{
    struct trial t = trial_open();

    (void)state;
    add_input(&t, ROWS, 6);
    set_output(&t, ROWS / 2, 6);
    t.forward = pool_rows;
    t.backward = pool_rows_backward;
    trial_close(&t, "means of rows");
}

static const struct unfold_line line = { .size = 3, .stride = 2, .padding = 1 };

static void unfold(struct trial *t)
{
    const int32_t offsets[] = { 0, 2, ROWS };
    int32_t taps[9];

    unfold_taps(&line, offsets, 2, taps);
    t->be->ops->unfold(t->be, &(struct op_unfold) { t->out, t->in[0], taps, 3 });
}

static void unfold_backward(struct trial *t)
{
    const int32_t offsets[] = { 0, 2, ROWS };
    int32_t taps[9], uses[2 * ROWS];

    unfold_taps(&line, offsets, 2, taps);
    unfold_uses(taps, TS_COUNT(taps), ROWS, 2, uses);
    t->be->ops->unfold_backward(
        t->be, &(struct op_unfold_backward) { t->grad[0], t->dout, uses, 3, 2 });
}

static void test_unfold(void **state)
{
    struct trial t = trial_open();

    (void)state;
    add_input(&t, ROWS, 4);
    set_output(&t, 3, 12);
    t.forward = unfold;
    t.backward = unfold_backward;
    trial_close(&t, "unfolded rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),    cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_rope),      cmocka_unit_test(test_activations),
        cmocka_unit_test(test_dropout),   cmocka_unit_test(test_place_rows),
        cmocka_unit_test(test_pool_rows), cmocka_unit_test(test_unfold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
