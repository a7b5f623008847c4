/* tests/unit/test_cpu_decode.c - attention of new rows over a cache follows the formula,
 * and equals attention's last rows of whole sequences. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(attention)
OPERATION(decode)

enum { SLOTS_MAX = 5 };

struct shape {
    enum format format;
    size_t heads, kv_heads, head_size, window, room;
    double softcap;
    int32_t lengths[SLOTS_MAX]; /* up to the first negative one */
    size_t chunk;
};

static const struct shape shapes[] = {
    { FORMAT_FP32, 1, 1, 8, 0, 1, 0, { 0, -1 }, 0 },
    { FORMAT_FP32, 2, 1, 16, 0, 4, 0, { 0, 3, 1, -1 }, 0 },
    { FORMAT_FP32, 8, 4, 8, 0, 130, 0, { 63, 64, 65, 129, 0 }, 0 },
    { FORMAT_FP32, 3, 3, 6, 0, 70, 0, { 5, 69, -1 }, 0 },
    { FORMAT_FP32, 4, 2, 80, 0, 200, 0, { 130, 199, -1 }, 0 },
    { FORMAT_FP32, 2, 1, 256, 0, 67, 0, { 66, -1 }, 0 },
    { FORMAT_FP32, 2, 1, 512, 0, 67, 0, { 66, 0, -1 }, 0 },
    { FORMAT_FP32, 4, 2, 16, 1, 40, 0, { 0, 39, -1 }, 0 },
    { FORMAT_FP32, 4, 2, 16, 33, 150, 0, { 31, 32, 33, 149, -1 }, 0 },
    { FORMAT_FP32, 4, 2, 16, 0, 100, 5, { 99, 20, -1 }, 0 },
    { FORMAT_BF16, 6, 2, 64, 0, 140, 0, { 133, 7, -1 }, 0 },
    { FORMAT_BF16, 2, 1, 5, 20, 90, 0, { 89, 19, 20, -1 }, 0 },
    { FORMAT_BF16, 2, 2, 128, 0, 70, 30, { 69, -1 }, 0 },
    { FORMAT_FP16, 2, 1, 20, 0, 80, 0, { 79, 2, -1 }, 0 },
    { FORMAT_FP16, 1, 1, 192, 64, 131, 0, { 130, -1 }, 0 },
    { FORMAT_BF16, 4, 1, 512, 0, 40, 0, { 39, 1, -1 }, 0 },
    { FORMAT_FP32, 4, 2, 16, 0, 150, 0, { 31, 32, 33, 149, -1 }, 32 },
    { FORMAT_BF16, 2, 1, 16, 5, 40, 0, { 6, 8, 39, -1 }, 7 },
};

/* With a bias of scores: a row of slopes for each. */
static const struct attention_slopes no_slopes, slopes[] = { { 8, 1 }, { 8, 0.25f } };
static const struct shape leaning[] = {
    { FORMAT_FP32, 4, 2, 16, 0, 150, 0, { 149, 64, 0, -1 }, 0 },
    { FORMAT_BF16, 6, 6, 64, 33, 90, 0, { 89, 5, -1 }, 0 },
};

struct decode_case {
    struct operand q, k, v, keys, values, out, sinks;
    int32_t *lengths;
    double *real[3]; /* keys, values, out */
    struct op_decode op;
};

static double *copy_of(const double *from, size_t numbers)
{
    double *copy = calloc(numbers, sizeof(*copy));

    if (from)
        memcpy(copy, from, numbers * sizeof(*copy));
    return copy;
}

static size_t slots_of(const struct shape *shape)
{
    size_t slots = 0;

    while (slots < SLOTS_MAX && shape->lengths[slots] >= 0)
        slots++;
    return slots;
}

static void make_reference(struct decode_case *c, const struct shape *shape, bool sinks)
{
    c->real[0] = copy_of(c->keys.real, c->keys.numbers);
    c->real[1] = copy_of(c->values.real, c->values.numbers);
    c->real[2] = copy_of(NULL, c->out.numbers);
    reference_decode(&(struct reference_decode) {
        .sequences = slots_of(shape),
        .room = shape->room,
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_size = shape->head_size,
        .window = shape->window,
        .chunk = shape->chunk,
        .lengths = shape->lengths,
        .scale = (double)c->op.scale,
        .softcap = shape->softcap,
        .slopes_most = (double)c->op.slopes.most,
        .slopes_factor = (double)c->op.slopes.factor,
        .q = c->q.real,
        .k = c->k.real,
        .v = c->v.real,
        .sinks = sinks ? c->sinks.real : NULL,
        .keys = c->real[0],
        .values = c->real[1],
        .out = c->real[2],
    });
}

static void case_open(struct decode_case *c, const struct shape *shape, bool sinks,
                      struct attention_slopes slopes_of_heads)
{
    size_t slots = slots_of(shape), wide = shape->heads * shape->head_size,
           narrow = shape->kv_heads * shape->head_size;

    c->q = operand_random(shape->format, slots, wide, 2, 1);
    c->k = operand_random(shape->format, slots, narrow, 2, 2);
    c->v = operand_random(shape->format, slots, narrow, 1, 3);
    c->keys = operand_random(shape->format, slots * shape->room, narrow, 2, 4);
    c->values = operand_random(shape->format, slots * shape->room, narrow, 1, 5);
    c->out = operand_filled(shape->format, slots, wide, 7);
    c->sinks = operand_random(FORMAT_FP32, 1, shape->heads, 3, 6);
    c->lengths = machines_memory(sizeof(shape->lengths));
    memcpy(c->lengths, shape->lengths, sizeof(shape->lengths));
    c->op = (struct op_decode) {
        .out = c->out.tensor,
        .q = c->q.tensor,
        .k = c->k.tensor,
        .v = c->v.tensor,
        .keys = c->keys.tensor,
        .values = c->values.tensor,
        .lengths = c->lengths,
        .room = shape->room,
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_size = shape->head_size,
        .window = shape->window,
        .chunk = shape->chunk,
        .scale = (float)(1 / sqrt((double)shape->head_size)),
        .softcap = (float)shape->softcap,
        .slopes = slopes_of_heads,
        .sinks = sinks ? c->sinks.tensor.data : NULL,
    };
    make_reference(c, shape, sinks);
}

static void case_close(struct decode_case *c)
{
    struct operand *operands[] = { &c->q,      &c->k,   &c->v,    &c->keys,
                                   &c->values, &c->out, &c->sinks };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        free(c->real[i]);
    machines_memory_free(c->lengths);
}

/* The new rows are copied to the cache bit for bit, and nothing else in it changes. */
static void try_shapes(struct machines *machines, bool sinks)
{
    for (size_t i = 0; i < TS_COUNT(shapes); i++) {
        struct decode_case c;

        case_open(&c, &shapes[i], sinks, no_slopes);
        machines_try(machines, run_decode, &c.op,
                     (struct outcome[]) { { &c.out, c.real[2], 16, 0 },
                                          { &c.keys, c.real[0], 0, 0 },
                                          { &c.values, c.real[1], 0, 0 } },
                     3);
        case_close(&c);
    }
}

static void test_decode_follows_the_formula(void **state)
{
    try_shapes(*state, false);
}

static void test_decode_leans(void **state)
{
    struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(leaning); i++) {
        struct decode_case c;

        case_open(&c, &leaning[i], false, slopes[i]);
        machines_try(machines, run_decode, &c.op,
                     (struct outcome[]) { { &c.out, c.real[2], 16, 0 } }, 1);
        case_close(&c);
    }
}

static void test_decode_with_sinks_follows_the_formula(void **state)
{
    try_shapes(*state, true);
}

/* The last row of a sequence, by op_attention over all of it. */
static void check_attention(struct backend *be, const struct decode_case *c, size_t slot,
                            const double *wanted)
{
    size_t rows = (size_t)c->lengths[slot] + 1, wide = c->out.tensor.cols,
           narrow = c->k.tensor.cols;
    struct operand q = operand_filled(FORMAT_FP32, rows, wide, 0),
                   k = operand_filled(FORMAT_FP32, rows, narrow, 0),
                   v = operand_filled(FORMAT_FP32, rows, narrow, 0),
                   out = operand_filled(FORMAT_FP32, rows, wide, 0),
                   lse = operand_filled(FORMAT_FP32, c->op.heads, rows, 0);
    int32_t *offsets = machines_memory(3 * sizeof(*offsets));
    struct op_attention op = {
        .out = out.tensor,
        .lse = lse.tensor,
        .q = q.tensor,
        .k = k.tensor,
        .v = v.tensor,
        .offsets = offsets,
        .sequences = 2, /* the first: rows before the chunk */
        .heads = c->op.heads,
        .kv_heads = c->op.kv_heads,
        .head_size = c->op.head_size,
        .window = c->op.window,
        .scale = c->op.scale,
        .slopes = c->op.slopes,
    };

    offsets[0] = 0;
    offsets[1] = (int32_t)(c->op.chunk ? (rows - 1) / c->op.chunk * c->op.chunk : 0);
    offsets[2] = (int32_t)rows;
    memcpy(q.real + (rows - 1) * wide, c->q.real + slot * wide, wide * sizeof(double));
    memcpy(k.real, c->real[0] + slot * c->op.room * narrow,
           rows * narrow * sizeof(double));
    memcpy(v.real, c->real[1] + slot * c->op.room * narrow,
           rows * narrow * sizeof(double));
    operand_write(&q);
    operand_write(&k);
    operand_write(&v);
    machine_run(be, run_attention, &op);
    operand_read(&out);
    for (size_t i = 0; i < wide; i++)
        assert_true(fabs(out.real[(rows - 1) * wide + i] - wanted[i]) < 1e-5);
    operand_clear(&q);
    operand_clear(&k);
    operand_clear(&v);
    operand_clear(&out);
    operand_clear(&lse);
    machines_memory_free(offsets);
}

static void test_decode_equals_the_last_row_of_attention(void **state)
{
    struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(shapes); i++) {
        struct decode_case c;

        if (shapes[i].format != FORMAT_FP32 || shapes[i].softcap > 0)
            continue;
        case_open(&c, &shapes[i], false, no_slopes);
        machine_run(machines->backends[0], run_decode, &c.op);
        operand_read(&c.out);
        for (size_t slot = 0; slot < slots_of(&shapes[i]); slot++)
            check_attention(machines->backends[0], &c, slot,
                            c.out.real + slot * c.out.tensor.cols);
        case_close(&c);
    }
}

/* A NaN reaches only its own sequence. */
static void test_decode_propagates_nan(void **state)
{
    static const struct shape shape = { FORMAT_FP32,        2, 1, 8, 0, 100, 0,
                                        { 90, 20, 99, -1 }, 0 };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        struct decode_case c;

        case_open(&c, &shape, false, no_slopes);
        c.values.real[(shape.room + 3) * 8] = NAN;
        operand_write(&c.values);
        machine_run(machines->backends[m], run_decode, &c.op);
        operand_read(&c.out);
        assert_true(isfinite(c.out.real[0]));
        assert_false(isfinite(c.out.real[16]));
        assert_true(isfinite(c.out.real[32]));
        case_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_follows_the_formula),
        cmocka_unit_test(test_decode_leans),
        cmocka_unit_test(test_decode_with_sinks_follows_the_formula),
        cmocka_unit_test(test_decode_equals_the_last_row_of_attention),
        cmocka_unit_test(test_decode_propagates_nan),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
