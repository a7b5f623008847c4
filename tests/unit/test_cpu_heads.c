/* tests/unit/test_cpu_heads.c - LayerNorm of each head, and limits of values, follow their
 * formulas, and so do their gradients. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(headlayer)
OPERATION(headlayer_backward)
OPERATION(clip)
OPERATION(clip_backward)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

#define EPS (1.0 / 64)

/* Parameters for all heads, or for each; biases or none.  Sizes of vectors of any width, sets
 * of more parameters than are summed at once, and many rows. */
static const struct shape {
    size_t rows, heads, size;
    bool each, biased;
} shapes[] = { { 1, 1, 2, false, true },    { 3, 2, 8, true, false },
               { 17, 9, 64, false, true },  { 5, 3, 128, true, false },
               { 3, 4, 256, true, true },   { 7, 5, 80, false, false },
               { 9, 3, 33, true, true },    { 257, 3, 96, false, true },
               { 1100, 2, 20, true, true }, { 2, 70, 512, true, false } };

struct heads {
    struct shape shape;
    struct operand x, weight, bias, dout, out, stats, dx, dweight, dbias;
    double *real[5]; /* out, stats, dx, dweight, dbias */
};

/* The sum over a head of dout * out, with x, weight or bias changed at one index. */
static double loss_of_head(const struct heads *h, size_t head, double *stats)
{
    const struct shape *s = &h->shape;
    const double *x = h->x.real + head * s->size, *dout = h->dout.real + head * s->size;
    size_t of = s->each ? head % s->heads * s->size : 0;
    double mean = 0, variance = 0, loss = 0, rstd;

    for (size_t i = 0; i < s->size; i++)
        mean += x[i] / (double)s->size;
    for (size_t i = 0; i < s->size; i++)
        variance += (x[i] - mean) * (x[i] - mean) / (double)s->size;
    rstd = 1 / sqrt(variance + EPS);
    stats[0] = mean;
    stats[1] = rstd;
    for (size_t i = 0; i < s->size; i++) {
        double out = (x[i] - mean) * rstd * h->weight.real[of + i] +
                     (s->biased ? h->bias.real[of + i] : 0);

        h->real[0][head * s->size + i] = out;
        loss += dout[i] * out;
    }
    return loss;
}

/* The central difference of the loss for one number. */
static double difference(const struct heads *h, size_t head, double *at)
{
    double kept = *at, unused[2], more, less;

    *at = kept + 1e-5;
    more = loss_of_head(h, head, unused);
    *at = kept - 1e-5;
    less = loss_of_head(h, head, unused);
    *at = kept;
    return (more - less) / 2e-5;
}

static void heads_open(struct heads *h, enum format format, struct shape s)
{
    size_t cols = s.heads * s.size, sets = s.each ? s.heads : 1;

    h->shape = s;
    h->x = operand_random(format, s.rows, cols, 3, 1);
    h->weight = operand_random(FORMAT_FP32, 1, sets * s.size, 1, 2);
    h->bias = operand_random(FORMAT_FP32, 1, sets * s.size, 1, 3);
    h->dout = operand_random(format, s.rows, cols, 1, 4);
    h->out = operand_filled(format, s.rows, cols, 7);
    h->dx = operand_filled(format, s.rows, cols, 7);
    h->stats = operand_filled(FORMAT_FP32, s.rows, 2 * s.heads, 7);
    h->dweight = operand_random(FORMAT_FP32, 1, sets * s.size, 1, 5);
    h->dbias = operand_random(FORMAT_FP32, 1, sets * s.size, 1, 6);
    for (size_t i = 0; i < TS_COUNT(h->real); i++)
        h->real[i] = calloc(s.rows * (cols + 2 * s.heads), sizeof(double));
    memcpy(h->real[3], h->dweight.real, h->dweight.numbers * sizeof(double));
    memcpy(h->real[4], h->dbias.real, h->dbias.numbers * sizeof(double));
    for (size_t head = 0; head < s.rows * s.heads; head++) {
        size_t of = s.each ? head % s.heads * s.size : 0;

        for (size_t i = 0; i < s.size; i++) {
            h->real[2][head * s.size + i] =
                difference(h, head, &h->x.real[head * s.size + i]);
            h->real[3][of + i] += difference(h, head, &h->weight.real[of + i]);
            h->real[4][of + i] += h->dout.real[head * s.size + i];
        }
        loss_of_head(h, head, h->real[1] + 2 * head);
    }
}

static void heads_close(struct heads *h)
{
    struct operand *all[] = { &h->x,     &h->weight, &h->bias,    &h->dout, &h->out,
                              &h->stats, &h->dx,     &h->dweight, &h->dbias };

    for (size_t i = 0; i < TS_COUNT(all); i++)
        operand_clear(all[i]);
    for (size_t i = 0; i < TS_COUNT(h->real); i++)
        free(h->real[i]);
}

/* Parameters are contiguous: a row of all sets. */
static struct tensor by_set(const struct heads *h, const struct operand *operand)
{
    struct tensor row = operand->tensor;

    return tensor_of(row.data, row.format, row.cols / h->shape.size, h->shape.size);
}

static void try_forward(struct machines *machines, struct heads *h)
{
    struct op_headlayer op = { .out = h->out.tensor,
                               .stats = h->stats.tensor,
                               .x = h->x.tensor,
                               .weight = by_set(h, &h->weight),
                               .eps = (float)EPS,
                               .heads = h->shape.heads };

    if (h->shape.biased)
        op.bias = by_set(h, &h->bias);
    machines_try(machines, run_headlayer, &op,
                 (struct outcome[]) { { &h->out, h->real[0], 16, 0 },
                                      { &h->stats, h->real[1], 16, 0 } },
                 2);
}

static void try_backward(struct machines *machines, struct heads *h)
{
    struct op_headlayer_backward op = { .dx = h->dx.tensor,
                                        .dweight = by_set(h, &h->dweight),
                                        .dout = h->dout.tensor,
                                        .x = h->x.tensor,
                                        .weight = by_set(h, &h->weight),
                                        .stats = h->stats.tensor,
                                        .heads = h->shape.heads };
    double least = sqrt(1 / EPS); /* what cancels, of a head of two columns */

    if (h->shape.biased)
        op.dbias = by_set(h, &h->dbias);
    memcpy(h->stats.real, h->real[1], h->stats.numbers * sizeof(double));
    operand_write(&h->stats);
    machines_try(machines, run_headlayer_backward, &op,
                 (struct outcome[]) { { &h->dx, h->real[2], 16, least },
                                      { &h->dweight, h->real[3], 32, 1 },
                                      { &h->dbias, h->real[4], 32, 1 } },
                 h->shape.biased ? 3 : 2);
    op.dx = op.dout; /* in place, with frozen parameters */
    op.dweight = op.dbias = (struct tensor) { 0 };
    machines_try(machines, run_headlayer_backward, &op,
                 (struct outcome[]) { { &h->dout, h->real[2], 16, least } }, 1);
}

static void test_norms_follow_the_formula(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(shapes); i++) {
            struct heads h;

            heads_open(&h, formats[f], shapes[i]);
            try_forward(*state, &h);
            try_backward(*state, &h);
            heads_close(&h);
        }
}

/* Heads whose mean is far larger than what differs from it, in place. */
static void test_norms_keep_small_differences(void **state)
{
    struct operand x = operand_filled(FORMAT_FP32, 3, 64, 0);
    struct operand weight = operand_filled(FORMAT_FP32, 1, 32, 2);
    struct operand stats = operand_filled(FORMAT_FP32, 3, 4, 7);
    double *wanted = calloc(x.numbers, sizeof(double));

    for (size_t i = 0; i < x.numbers; i++) {
        x.real[i] = 4096 + (i % 2 ? 1 : -1);
        wanted[i] = (i % 2 ? 2 : -2) / sqrt(1 + EPS);
    }
    operand_write(&x);
    machines_try(*state, run_headlayer,
                 &(struct op_headlayer) { .out = x.tensor,
                                          .stats = stats.tensor,
                                          .x = x.tensor,
                                          .weight = weight.tensor,
                                          .eps = (float)EPS,
                                          .heads = 2 },
                 (struct outcome[]) { { &x, wanted, 8, 0 } }, 1);
    operand_clear(&x);
    operand_clear(&weight);
    operand_clear(&stats);
    free(wanted);
}

/* ---- Limits ---- */

static const size_t sizes[][2] = { { 1, 1 }, { 3, 17 }, { 17, 576 }, { 5, 701 } };

/* Values on the limit pass their gradient; NaN stays, without one. */
static void try_clip(struct machines *machines, enum format format, const size_t size[2])
{
    struct operand x = operand_random(format, size[0], size[1], 2, 1);
    struct operand dout = operand_random(format, size[0], size[1], 1, 2);
    struct operand out = operand_filled(format, size[0], size[1], 7);
    struct operand dx = operand_filled(format, size[0], size[1], 7);
    double *wanted = calloc(x.numbers, sizeof(double));
    double *slopes = calloc(x.numbers, sizeof(double));

    x.real[0] = x.numbers > 8 ? 1.5 : -1.5;
    x.real[x.numbers - 1] = -1.5;
    operand_write(&x);
    for (size_t i = 0; i < x.numbers; i++) {
        wanted[i] = fmin(fmax(x.real[i], -1.5), 1.5);
        slopes[i] = fabs(x.real[i]) > 1.5 ? 0 : dout.real[i];
    }
    machines_try(machines, run_clip, &(struct op_clip) { out.tensor, x.tensor, 1.5f },
                 (struct outcome[]) { { &out, wanted, 0, 0 } }, 1);
    machines_try(machines, run_clip_backward,
                 &(struct op_clip_backward) { dx.tensor, dout.tensor, x.tensor, 1.5f },
                 (struct outcome[]) { { &dx, slopes, 0, 0 } }, 1);
    machines_try(machines, run_clip_backward,
                 &(struct op_clip_backward) { dout.tensor, dout.tensor, x.tensor, 1.5f },
                 (struct outcome[]) { { &dout, slopes, 0, 0 } }, 1);
    machines_try(machines, run_clip, &(struct op_clip) { x.tensor, x.tensor, 1.5f },
                 (struct outcome[]) { { &x, wanted, 0, 0 } }, 1);
    operand_clear(&x);
    operand_clear(&dout);
    operand_clear(&out);
    operand_clear(&dx);
    free(wanted);
    free(slopes);
}

static void test_values_are_limited(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++)
            try_clip(*state, formats[f], sizes[i]);
}

static void test_nan_is_not_limited(void **state)
{
    struct machines *machines = *state;
    struct operand x = operand_filled(FORMAT_FP32, 1, 2, NAN);
    struct operand g = operand_filled(FORMAT_FP32, 1, 2, 3);

    for (size_t m = 0; m < machines->count; m++) {
        machine_run(machines->backends[m], run_clip,
                    &(struct op_clip) { x.tensor, x.tensor, 1.5f });
        machine_run(machines->backends[m], run_clip_backward,
                    &(struct op_clip_backward) { g.tensor, g.tensor, x.tensor, 1.5f });
        operand_read(&x);
        operand_read(&g);
        assert_true(isnan(x.real[1]) && g.real[1] == 0);
    }
    operand_clear(&x);
    operand_clear(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms_follow_the_formula),
        cmocka_unit_test(test_norms_keep_small_differences),
        cmocka_unit_test(test_values_are_limited),
        cmocka_unit_test(test_nan_is_not_limited),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
