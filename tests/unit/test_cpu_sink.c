/* tests/unit/test_cpu_sink.c - sinks join the softmax of attention, and with op_attention
 * and its backward pass they give the gradients of the whole. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(attention)
OPERATION(attention_backward)
OPERATION(sink)
OPERATION(sink_backward)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

/* rows, heads, columns of a head */
static const size_t sizes[][3] = { { 1, 1, 1 },   { 3, 2, 17 },  { 17, 8, 64 },
                                   { 70, 3, 40 }, { 259, 4, 8 }, { 9, 64, 64 } };

static void try_forward(struct machines *machines, enum format format,
                        const size_t size[3])
{
    struct operand out = operand_random(format, size[0], size[1] * size[2], 1, 1);
    struct operand lse = operand_random(FORMAT_FP32, size[1], size[0], 3, 2);
    struct operand sinks = operand_random(FORMAT_FP32, 1, size[1], 3, 3);
    double *wanted = calloc(out.numbers, sizeof(double));
    double *both = calloc(lse.numbers, sizeof(double));

    for (size_t i = 0; i < lse.numbers; i++)
        both[i] = log(exp(lse.real[i]) + exp(sinks.real[i / size[0]]));
    for (size_t i = 0; i < out.numbers; i++) {
        size_t row = i / out.tensor.cols, head = i % out.tensor.cols / size[2];
        double key = lse.real[head * size[0] + row];

        wanted[i] = out.real[i] / (1 + exp(sinks.real[head] - key));
    }
    machines_try(machines, run_sink,
                 &(struct op_sink) { out.tensor, lse.tensor, sinks.tensor, size[1] },
                 (struct outcome[]) { { &out, wanted, 8, 0 }, { &lse, both, 4, 1 } }, 2);
    operand_clear(&out);
    operand_clear(&lse);
    operand_clear(&sinks);
    free(wanted);
    free(both);
}

static void test_sinks_take_their_share(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++)
            try_forward(*state, formats[f], sizes[i]);
}

static void try_backward(struct machines *machines, enum format format,
                         const size_t size[3])
{
    struct operand out = operand_random(format, size[0], size[1] * size[2], 1, 1);
    struct operand dout = operand_random(format, size[0], size[1] * size[2], 1, 4);
    struct operand lse = operand_filled(FORMAT_FP32, size[1], size[0], 0);
    struct operand sinks = operand_random(FORMAT_FP32, 1, size[1], 3, 3);
    struct operand dsinks = operand_random(FORMAT_FP32, 1, size[1], 1, 5);
    double *wanted = calloc(size[1], sizeof(double));

    for (size_t i = 0; i < lse.numbers; i++) /* above the sink */
        lse.real[i] = sinks.real[i / size[0]] + 0.25 * (double)(i % 7);
    operand_write(&lse);
    operand_read(&lse);
    memcpy(wanted, dsinks.real, size[1] * sizeof(double));
    for (size_t i = 0; i < out.numbers; i++) {
        size_t row = i / out.tensor.cols, head = i % out.tensor.cols / size[2];

        wanted[head] -= exp(sinks.real[head] - lse.real[head * size[0] + row]) *
                        out.real[i] * dout.real[i];
    }
    machines_try(machines, run_sink_backward,
                 &(struct op_sink_backward) { dsinks.tensor, dout.tensor, out.tensor,
                                              lse.tensor, sinks.tensor, size[1] },
                 (struct outcome[]) { { &dsinks, wanted, 64, 1 } }, 1);
    operand_clear(&out);
    operand_clear(&dout);
    operand_clear(&lse);
    operand_clear(&sinks);
    operand_clear(&dsinks);
    free(wanted);
}

static void test_gradients_of_sinks_are_summed(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++)
            try_backward(*state, formats[f], sizes[i]);
}

static void test_nan_stays_in_its_row(void **state)
{
    struct machines *machines = *state;
    struct operand out = operand_filled(FORMAT_FP32, 2, 4, 1);
    struct operand lse = operand_filled(FORMAT_FP32, 1, 2, 0);
    struct operand sinks = operand_filled(FORMAT_FP32, 1, 1, 0);

    for (size_t m = 0; m < machines->count; m++) {
        lse.real[0] = NAN;
        lse.real[1] = 0;
        operand_write(&lse);
        for (size_t i = 0; i < out.numbers; i++)
            out.real[i] = 1;
        operand_write(&out);
        machine_run(machines->backends[m], run_sink,
                    &(struct op_sink) { out.tensor, lse.tensor, sinks.tensor, 1 });
        operand_read(&out);
        operand_read(&lse);
        assert_true(isnan(out.real[0]) && isnan(out.real[3]) && isnan(lse.real[0]));
        assert_float_equal(out.real[4], 0.5, 1e-6);
        assert_float_equal(lse.real[1], log(2), 1e-6);
    }
    operand_clear(&out);
    operand_clear(&lse);
    operand_clear(&sinks);
}

/* ---- With attention ---- */

enum { ROWS = 7, HEADS = 4, KV_HEADS = 2, SIZE = 6, WINDOW = 4, INPUTS = 4 };
#define SCALE 0.3

/* q, k, v, sinks, in double, and the gradient of the output */
struct whole {
    double *in[INPUTS], *dout;
};

/* Return the sum of dout times attention with sinks, by its formula. */
static double value_of(const struct whole *w)
{
    double sum = 0;

    for (size_t n = 0; n < ROWS; n++)
        for (size_t h = 0; h < HEADS; h++) {
            size_t at = h / (HEADS / KV_HEADS) * SIZE;
            double all = exp(w->in[3][h]), weighted = 0;

            for (size_t m = n + 1 > WINDOW ? n + 1 - WINDOW : 0; m <= n; m++) {
                double score = 0, dot = 0;

                for (size_t i = 0; i < SIZE; i++) {
                    score += w->in[0][(n * HEADS + h) * SIZE + i] *
                             w->in[1][m * KV_HEADS * SIZE + at + i];
                    dot += w->dout[(n * HEADS + h) * SIZE + i] *
                           w->in[2][m * KV_HEADS * SIZE + at + i];
                }
                all += exp(SCALE * score);
                weighted += exp(SCALE * score) * dot;
            }
            sum += weighted / all;
        }
    return sum;
}

static void check_slope(const struct whole *w, size_t input, const struct operand *is)
{
    for (size_t i = 0; i < is->numbers; i++) {
        double kept = w->in[input][i], up, down;

        w->in[input][i] = kept + 1e-5;
        up = value_of(w);
        w->in[input][i] = kept - 1e-5;
        down = value_of(w);
        w->in[input][i] = kept;
        assert_float_equal(is->real[i], (up - down) / 2e-5, 2e-5);
    }
}

static void test_attention_with_sinks_has_the_slope_of_the_formula(void **state)
{
    const size_t q = HEADS * SIZE, kv = KV_HEADS * SIZE;
    struct machines *machines = *state;
    struct operand in[INPUTS] = { operand_random(FORMAT_FP32, ROWS, q, 1, 1),
                                  operand_random(FORMAT_FP32, ROWS, kv, 1, 2),
                                  operand_random(FORMAT_FP32, ROWS, kv, 1, 3),
                                  operand_random(FORMAT_FP32, 1, HEADS, 1, 4) };
    struct operand out = operand_filled(FORMAT_FP32, ROWS, q, 0);
    struct operand lse = operand_filled(FORMAT_FP32, HEADS, ROWS, 0);
    struct operand delta = operand_filled(FORMAT_FP32, HEADS, ROWS, 0);
    struct operand dout = operand_random(FORMAT_FP32, ROWS, q, 1, 5);
    int32_t *offsets = machines_memory(2 * sizeof(*offsets));
    struct op_attention op = { .out = out.tensor,
                               .lse = lse.tensor,
                               .q = in[0].tensor,
                               .k = in[1].tensor,
                               .v = in[2].tensor,
                               .offsets = offsets,
                               .sequences = 1,
                               .heads = HEADS,
                               .kv_heads = KV_HEADS,
                               .head_size = SIZE,
                               .window = WINDOW,
                               .scale = (float)SCALE };
    struct whole w = { { in[0].real, in[1].real, in[2].real, in[3].real }, dout.real };

    offsets[0] = 0;
    offsets[1] = ROWS;
    for (size_t m = 0; m < machines->count; m++) {
        struct operand d[INPUTS] = { operand_filled(FORMAT_FP32, ROWS, q, 0),
                                     operand_filled(FORMAT_FP32, ROWS, kv, 0),
                                     operand_filled(FORMAT_FP32, ROWS, kv, 0),
                                     operand_filled(FORMAT_FP32, 1, HEADS, 0) };
        struct backend *be = machines->backends[m];

        machine_run(be, run_attention, &op);
        machine_run(be, run_sink,
                    &(struct op_sink) { out.tensor, lse.tensor, in[3].tensor, HEADS });
        machine_run(be, run_sink_backward,
                    &(struct op_sink_backward) { d[3].tensor, dout.tensor, out.tensor,
                                                 lse.tensor, in[3].tensor, HEADS });
        machine_run(be, run_attention_backward,
                    &(struct op_attention_backward) { d[0].tensor, d[1].tensor,
                                                      d[2].tensor, delta.tensor,
                                                      dout.tensor, op });
        for (size_t i = 0; i < INPUTS; i++) {
            operand_read(&d[i]);
            check_slope(&w, i, &d[i]);
            operand_clear(&d[i]);
        }
    }
    for (size_t i = 0; i < INPUTS; i++)
        operand_clear(&in[i]);
    operand_clear(&out);
    operand_clear(&lse);
    operand_clear(&delta);
    operand_clear(&dout);
    machines_memory_free(offsets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sinks_take_their_share),
        cmocka_unit_test(test_gradients_of_sinks_are_summed),
        cmocka_unit_test(test_nan_stays_in_its_row),
        cmocka_unit_test(test_attention_with_sinks_has_the_slope_of_the_formula),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
