/* tests/unit/test_cpu_latent.c - heads of multi-head latent attention follow their formulas,
 * with their gradients. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(latent)
OPERATION(latent_backward)
OPERATION(pad_heads)

enum { POSITIONS = 40, ALL = 6 };

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

/* The sizes of DeepSeek-V2, of GLM-4.7-Flash, values wider than keys, and nothing aligned. */
static const struct size {
    size_t rows, heads, head, plain, rotated, value;
} sizes[] = { { 3, 2, 192, 128, 64, 128 }, { 2, 2, 256, 192, 64, 256 },
              { 5, 3, 24, 8, 8, 24 },      { 17, 1, 2, 0, 2, 1 },
              { 4, 5, 11, 3, 6, 5 },       { 70, 3, 32, 16, 16, 16 },
              { 2, 9, 48, 24, 8, 16 } };

/* q, k and v, and what they are made of. */
enum part { UP_Q, UP_KV, SHARED, Q, K, V };

struct latent {
    struct operand all[ALL], table;
    double *expected[ALL];
    int32_t *positions;
    struct reference_latent r;
};

static struct operand table_new(size_t rotated)
{
    struct operand table = operand_filled(FORMAT_FP32, POSITIONS, rotated, 0);

    for (size_t p = 0; p < POSITIONS; p++)
        for (size_t d = 0; d < rotated / 2; d++) {
            double angle = (double)p * pow(100, -2.0 * (double)d / (double)rotated);

            table.real[p * rotated + d] = 1.25 * cos(angle);
            table.real[p * rotated + rotated / 2 + d] = 1.25 * sin(angle);
        }
    operand_write(&table);
    operand_read(&table);
    return table;
}

static void latent_open(struct latent *l, enum format format, const struct size *s,
                        bool interleaved)
{
    const size_t cols[ALL] = { [UP_Q] = s->heads * (s->plain + s->rotated),
                               [UP_KV] = s->heads * (s->plain + s->value),
                               [SHARED] = s->rotated,
                               [Q] = s->heads * s->head,
                               [K] = s->heads * s->head,
                               [V] = s->heads * s->head };

    for (size_t i = 0; i < ALL; i++) {
        l->all[i] = operand_random(format, s->rows, cols[i], 1, i + 1);
        l->expected[i] = calloc(l->all[i].numbers, sizeof(double));
        memcpy(l->expected[i], l->all[i].real, l->all[i].numbers * sizeof(double));
    }
    l->table = table_new(s->rotated);
    l->positions = machines_memory(s->rows * sizeof(*l->positions));
    for (size_t i = 0; i < s->rows; i++)
        l->positions[i] = (int32_t)(i * 7 % POSITIONS);
    l->r = (struct reference_latent) { .rows = s->rows,
                                       .heads = s->heads,
                                       .head = s->head,
                                       .plain = s->plain,
                                       .rotated = s->rotated,
                                       .value = s->value,
                                       .positions = l->positions,
                                       .table = l->table.real,
                                       .interleaved = interleaved,
                                       .up_q = l->expected[UP_Q],
                                       .up_kv = l->expected[UP_KV],
                                       .shared = l->expected[SHARED],
                                       .q = l->expected[Q],
                                       .k = l->expected[K],
                                       .v = l->expected[V] };
}

static void latent_close(struct latent *l)
{
    for (size_t i = 0; i < ALL; i++) {
        operand_clear(&l->all[i]);
        free(l->expected[i]);
    }
    operand_clear(&l->table);
    machines_memory_free(l->positions);
}

static void try_forward(struct machines *machines, struct latent *l)
{
    const struct op_latent op = { .q = l->all[Q].tensor,
                                  .k = l->all[K].tensor,
                                  .v = l->all[V].tensor,
                                  .up_q = l->all[UP_Q].tensor,
                                  .up_kv = l->all[UP_KV].tensor,
                                  .shared = l->all[SHARED].tensor,
                                  .table = l->table.tensor,
                                  .positions = l->positions,
                                  .heads = l->r.heads,
                                  .interleaved = l->r.interleaved };

    reference_latent(&l->r);
    machines_try(machines, run_latent, &op,
                 (struct outcome[]) { { &l->all[Q], l->expected[Q], 4, 0 },
                                      { &l->all[K], l->expected[K], 4, 0 },
                                      { &l->all[V], l->expected[V], 0, 0 } },
                 3);
}

static void try_backward(struct machines *machines, struct latent *l)
{
    const struct op_latent_backward op = { .dup_q = l->all[UP_Q].tensor,
                                           .dup_kv = l->all[UP_KV].tensor,
                                           .dshared = l->all[SHARED].tensor,
                                           .dq = l->all[Q].tensor,
                                           .dk = l->all[K].tensor,
                                           .dv = l->all[V].tensor,
                                           .table = l->table.tensor,
                                           .positions = l->positions,
                                           .heads = l->r.heads,
                                           .interleaved = l->r.interleaved };

    reference_latent_backward(&l->r);
    machines_try(machines, run_latent_backward, &op,
                 (struct outcome[]) { { &l->all[UP_Q], l->expected[UP_Q], 4, 0 },
                                      { &l->all[UP_KV], l->expected[UP_KV], 0, 0 },
                                      { &l->all[SHARED], l->expected[SHARED], 16, 0 } },
                 3);
}

static void try_all(struct machines *machines, bool backward)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++)
            for (int interleaved = 0; interleaved < 2; interleaved++) {
                struct latent l;

                latent_open(&l, formats[f], &sizes[i], interleaved);
                if (backward)
                    try_backward(machines, &l);
                else
                    try_forward(machines, &l);
                latent_close(&l);
            }
}

static void test_latent_follows_the_formula(void **state)
{
    try_all(*state, false);
}

static void test_latent_backward_follows_the_formula(void **state)
{
    try_all(*state, true);
}

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Both are linear: <f(x), y> = <x, f'(y)>. */
static void test_reference_backward_is_the_gradient(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(sizes); i++)
        for (int interleaved = 0; interleaved < 2; interleaved++) {
            struct latent x, y;
            double left = 0, right = 0;

            latent_open(&x, FORMAT_FP32, &sizes[i], interleaved);
            latent_open(&y, FORMAT_FP32, &sizes[i], interleaved);
            reference_latent(&x.r);
            reference_latent_backward(&y.r);
            for (enum part p = Q; p <= V; p++)
                left += dot(x.expected[p], y.all[p].real, x.all[p].numbers);
            for (enum part p = UP_Q; p <= SHARED; p++)
                right += dot(x.all[p].real, y.expected[p], x.all[p].numbers);
            assert_true(fabs(left - right) < 1e-9 * (1 + fabs(left)));
            latent_close(&x);
            latent_close(&y);
        }
}

/* The keys of two heads share what turns by 1 radian; a value is narrower than a head. */
static void test_reference_makes_heads(void **state)
{
    const double table[] = { 1, 0, cos(1), sin(1) };
    const double up_q[] = { 5, 1, 0, 6, 0, 1 }, up_kv[] = { 7, 8, 9, 10 };
    const double expected_k[] = { 7, cos(1), sin(1), 9, cos(1), sin(1) };
    double shared[] = { 1, 0 }, q[6], k[6], v[6];
    int32_t position = 1;
    const struct reference_latent r = {
        .rows = 1,
        .heads = 2,
        .head = 3,
        .plain = 1,
        .rotated = 2,
        .value = 1,
        .positions = &position,
        .table = table,
        .interleaved = true,
        .up_q = (double *)up_q,
        .up_kv = (double *)up_kv,
        .shared = shared,
        .q = q,
        .k = k,
        .v = v,
    };

    (void)state;
    reference_latent(&r);
    for (size_t i = 0; i < 6; i++)
        assert_true(fabs(k[i] - expected_k[i]) < 1e-15);
    assert_true(q[0] == 5 && fabs(q[1] - cos(1)) < 1e-15 && fabs(q[4] + sin(1)) < 1e-15);
    assert_true(v[0] == 8 && v[1] == 0 && v[2] == 0 && v[3] == 10);
}

static void try_pad(struct machines *machines, enum format format, size_t from, size_t to)
{
    enum { ROWS = 19, HEADS = 3 };
    struct operand x = operand_random(format, ROWS, HEADS * from, 1, 1);
    struct operand out = operand_filled(format, ROWS, HEADS * to, 7);
    double *expected = calloc(out.numbers, sizeof(double));

    for (size_t i = 0; i < ROWS * HEADS; i++)
        for (size_t j = 0; j < from && j < to; j++)
            expected[i * to + j] = x.real[i * from + j];
    machines_try(machines, run_pad_heads,
                 &(struct op_pad_heads) { out.tensor, x.tensor, HEADS },
                 (struct outcome[]) { { &out, expected, 0, 0 } }, 1);
    operand_clear(&x);
    operand_clear(&out);
    free(expected);
}

static void test_heads_are_padded_and_cut(void **state)
{
    static const size_t pairs[][2] = { { 128, 192 }, { 192, 128 }, { 5, 3 },
                                       { 3, 5 },     { 8, 8 },     { 7, 24 } };

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(pairs); i++)
            try_pad(*state, formats[f], pairs[i][0], pairs[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_makes_heads),
        cmocka_unit_test(test_reference_backward_is_the_gradient),
        cmocka_unit_test(test_latent_follows_the_formula),
        cmocka_unit_test(test_latent_backward_follows_the_formula),
        cmocka_unit_test(test_heads_are_padded_and_cut),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
