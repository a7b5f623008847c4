/* tests/unit/test_cpu_dora.c - norms of adapted weights, and columns scaled by magnitudes,
 * follow their formulas, with their gradients. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(dora_norm)
OPERATION(dora_scale)
OPERATION(dora_scale_backward)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };
static const size_t sizes[][2] = {
    { 1, 1 }, { 3, 17 }, { 17, 64 }, { 5, 701 }, { 259, 96 }
};

static void try_norm(struct machines *machines, size_t mix, const size_t size[2],
                     size_t rank)
{
    struct operand w = operand_random(formats[mix % 3], size[0], size[1], 1, 1);
    struct operand a = operand_random(formats[mix / 3 % 3], rank, size[1], 1, 2);
    struct operand b = operand_random(formats[mix / 9], size[0], rank, 1, 3);
    struct operand norm = operand_filled(FORMAT_FP32, 1, size[0], 7);
    double *wanted = calloc(size[0], sizeof(double));

    for (size_t o = 0; o < size[0]; o++) {
        for (size_t i = 0; i < size[1]; i++) {
            double value = w.real[o * size[1] + i];

            for (size_t k = 0; k < rank; k++)
                value += 0.75 * b.real[o * rank + k] * a.real[k * size[1] + i];
            wanted[o] += value * value;
        }
        wanted[o] = sqrt(wanted[o]);
    }
    machines_try(
        machines, run_dora_norm,
        &(struct op_dora_norm) { norm.tensor, w.tensor, a.tensor, b.tensor, 0.75f },
        (struct outcome[]) { { &norm, wanted, 8, 0 } }, 1);
    operand_clear(&w);
    operand_clear(&a);
    operand_clear(&b);
    operand_clear(&norm);
    free(wanted);
}

static void test_norm_is_of_the_adapted_weight(void **state)
{
    for (size_t mix = 0; mix < 27; mix++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++)
            try_norm(*state, mix, sizes[i], 1 + 2 * i);
}

struct columns {
    struct operand x, dout, out, dx, magnitude, norm, bias, dmagnitude;
    double *wanted, *sums;
    size_t cols;
};

static void columns_open(struct columns *c, enum format x, enum format out,
                         const size_t size[2])
{
    c->cols = size[1];
    c->x = operand_random(x, size[0], size[1], 1, 1);
    c->dout = operand_random(x, size[0], size[1], 1, 2);
    c->out = operand_random(out, size[0], size[1], 1, 3);
    c->dx = operand_filled(x, size[0], size[1], 7);
    c->magnitude = operand_random(FORMAT_FP32, 1, size[1], 1, 4);
    c->norm = operand_random(FORMAT_FP32, 1, size[1], 1, 5);
    c->bias = operand_random(FORMAT_FP32, 1, size[1], 1, 6);
    c->dmagnitude = operand_random(FORMAT_FP32, 1, size[1], 1, 7);
    for (size_t i = 0; i < size[1]; i++)
        c->norm.real[i] = 1 + fabs(c->norm.real[i]);
    operand_write(&c->norm);
    operand_read(&c->norm);
    c->wanted = calloc(c->x.numbers, sizeof(double));
    c->sums = calloc(size[1], sizeof(double));
}

static void columns_close(struct columns *c)
{
    struct operand *all[] = { &c->x,         &c->dout, &c->out,  &c->dx,
                              &c->magnitude, &c->norm, &c->bias, &c->dmagnitude };

    for (size_t i = 0; i < TS_COUNT(all); i++)
        operand_clear(all[i]);
    free(c->wanted);
    free(c->sums);
}

static double factor_of(const struct columns *c, size_t i, bool adapted)
{
    return adapted ? c->magnitude.real[i % c->cols] / c->norm.real[i % c->cols] : 1;
}

/* variant: bit 0 without a magnitude, bit 1 with an offset, bit 2 added to out with a
 * bias */
static void try_scale(struct machines *machines, struct columns *c, unsigned variant)
{
    bool adapted = !(variant & 1), adds = variant & 4;
    double offset = variant & 2 ? -2 : 0;
    struct op_dora_scale op = {
        .out = c->out.tensor, .x = c->x.tensor, .beta = adds, .offset = (float)offset
    };

    if (adapted) {
        op.magnitude = c->magnitude.tensor;
        op.norm = c->norm.tensor;
    }
    if (adds)
        op.bias = c->bias.tensor;
    for (size_t i = 0; i < c->x.numbers; i++)
        c->wanted[i] = c->x.real[i] * (factor_of(c, i, adapted) + offset) +
                       (adds ? c->out.real[i] + c->bias.real[i % c->cols] : 0);
    machines_try(machines, run_dora_scale, &op,
                 (struct outcome[]) { { &c->out, c->wanted, 4, 0 } }, 1);
}

static void test_scale_multiplies_columns(void **state)
{
    for (size_t mix = 0; mix < 5; mix++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++)
            for (unsigned variant = 0; variant < 8; variant++) {
                enum format x = formats[mix % 3];
                struct columns c;

                columns_open(&c, x, mix < 3 ? x : FORMAT_FP32, sizes[i]);
                try_scale(*state, &c, variant);
                columns_close(&c);
            }
}

static void try_backward(struct machines *machines, struct columns *c)
{
    struct op_dora_scale_backward op = { .dx = c->dx.tensor,
                                         .dmagnitude = c->dmagnitude.tensor,
                                         .dout = c->dout.tensor,
                                         .x = c->x.tensor,
                                         .magnitude = c->magnitude.tensor,
                                         .norm = c->norm.tensor };

    memcpy(c->sums, c->dmagnitude.real, c->cols * sizeof(double));
    for (size_t i = 0; i < c->x.numbers; i++) {
        c->wanted[i] = c->dout.real[i] * factor_of(c, i, true);
        c->sums[i % c->cols] +=
            c->dout.real[i] * c->x.real[i] / c->norm.real[i % c->cols];
    }
    machines_try(machines, run_dora_scale_backward, &op,
                 (struct outcome[]) { { &c->dx, c->wanted, 4, 0 },
                                      { &c->dmagnitude, c->sums, 16, 0 } },
                 2);
    op.dmagnitude = op.x = (struct tensor) { 0 };
    op.dx = op.dout; /* in place, minus 1 */
    op.offset = -1;
    for (size_t i = 0; i < c->x.numbers; i++)
        c->wanted[i] = c->dout.real[i] * (factor_of(c, i, true) - 1);
    machines_try(machines, run_dora_scale_backward, &op,
                 (struct outcome[]) { { &c->dout, c->wanted, 4, 0 } }, 1);
}

static void test_gradients_keep_the_norm(void **state)
{
    for (size_t mix = 0; mix < 3; mix++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            struct columns c;

            columns_open(&c, formats[mix], formats[mix], sizes[i]);
            try_backward(*state, &c);
            columns_close(&c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm_is_of_the_adapted_weight),
        cmocka_unit_test(test_scale_multiplies_columns),
        cmocka_unit_test(test_gradients_keep_the_norm),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
