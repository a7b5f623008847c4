/* tests/unit/test_cpu_dequantize.c - 4-bit matrices are dequantized exactly as by
 * bitsandbytes (tests/golden/nf4.py), in every format and order of rows; and integer codes
 * with groups of every size. */
#include "config.h"

#include "kernels/backend.h"

#include "base/size.h"
#include "precision/affine.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit_nf4.h"

OPERATION(dequantize)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

static void *copy_of(const void *data, size_t bytes)
{
    void *copy = machines_memory(bytes);

    memcpy(copy, data, bytes);
    return copy;
}

/* A case in memory that the machines can read. */
struct placed {
    uint8_t *codes, *bytes;
    float *absmax, *nested, *map;
};

static struct placed place(const struct unit_nf4 *c)
{
    return (struct placed) {
        .codes = copy_of(c->codes, nf4_bytes(c->numbers)),
        .bytes = copy_of(c->bytes, c->blocks),
        .absmax = copy_of(c->absmax, c->blocks * sizeof(float)),
        .nested = copy_of(c->nested, c->groups * sizeof(float)),
        .map = copy_of(c->map, sizeof(c->map)),
    };
}

static void clear(struct placed *p)
{
    machines_memory_free(p->codes);
    machines_memory_free(p->bytes);
    machines_memory_free(p->absmax);
    machines_memory_free(p->nested);
    machines_memory_free(p->map);
}

static struct quantized quantized_of(const struct placed *p, bool twice)
{
    if (twice)
        return (struct quantized) {
            .codes = p->codes, .bytes = p->bytes, .map = p->map, .absmax = p->nested
        };
    return (struct quantized) { .codes = p->codes, .absmax = p->absmax };
}

static void widen(const struct machines *machines, const struct unit_nf4 *c,
                  const struct placed *p, bool twice, enum format format)
{
    const json_t *wanted = json_object_get(c->wanted, twice ? "double" : "plain");
    size_t bytes = c->numbers * format_info(format)->bytes;
    void *out = machines_memory(bytes);
    struct op_dequantize op = { .out = tensor_of(out, format, c->rows, c->cols),
                                .x = quantized_of(p, twice) };

    for (size_t i = 0; i < machines->count; i++) {
        memset(out, 0x5a, bytes);
        machine_run(machines->backends[i], run_dequantize, &op);
        unit_nf4_same(wanted, format_info(format)->name, out, bytes);
    }
    machines_memory_free(out);
}

static void test_dequantize_matches_bitsandbytes_bit_for_bit(void **state)
{
    json_t *golden = unit_nf4_golden();
    size_t count = json_array_size(json_object_get(golden, "cases"));

    assert_true(count >= 10);
    for (size_t i = 0; i < count; i++) {
        struct unit_nf4 c = unit_nf4_open(golden, i);
        struct placed p = place(&c);

        for (size_t mix = 0; mix < 2 * TS_COUNT(formats); mix++)
            widen(*state, &c, &p, mix % 2, formats[mix / 2]);
        clear(&p);
        unit_nf4_close(&c);
    }
    json_decref(golden);
}

/* The codes of a case used as a matrix of another shape. */
struct shape {
    size_t rows, cols, heads, kv_heads;
};

static const struct shape shapes[] = {
    { 1, 1, 0, 0 },     { 3, 17, 0, 0 },   { 24, 64, 2, 2 }, { 24, 70, 4, 4 },
    { 33, 63, 11, 11 }, { 48, 128, 0, 0 }, { 32, 64, 4, 2 }, { 40, 30, 6, 2 },
    { 21, 70, 5, 1 },   { 24, 64, 3, 0 },
};

static struct row_order order_of(const struct shape *s)
{
    size_t size;

    if (s->heads == 0)
        return (struct row_order) { 0 };
    size = s->rows / (s->kv_heads > 0 ? s->heads + 2 * s->kv_heads : 2 * s->heads);
    if (s->kv_heads == 0)
        return (struct row_order) { s->heads, { size, size } };
    return (struct row_order) { s->kv_heads,
                                { s->heads / s->kv_heads * size, size, size } };
}

/* Compare every machine with the reference: `mix` chooses the formats. */
static void try_matrix(struct machines *machines, struct quantized x,
                       const struct shape *s, size_t mix)
{
    enum format through = formats[mix % 3];
    struct operand out = operand_filled(formats[mix / 3 % 3], s->rows, s->cols, 7);
    double *wanted = calloc(out.numbers, sizeof(*wanted));
    const struct op_dequantize op = {
        .out = out.tensor, .x = x, .through = through, .order = order_of(s)
    };
    struct reference_dequantize r = { .rows = s->rows,
                                      .cols = s->cols,
                                      .heads = s->heads,
                                      .kv_heads = s->kv_heads,
                                      .codes = x.codes,
                                      .bytes = x.bytes,
                                      .map = x.map,
                                      .absmax = x.absmax,
                                      .bits = x.bits,
                                      .group = x.group,
                                      .groups = x.groups,
                                      .scales = x.scales,
                                      .zeros = x.zeros,
                                      .columns = x.columns,
                                      .out = wanted };

    reference_dequantize(&r);
    for (size_t i = 0; i < out.numbers; i++) {
        float value = (float)wanted[i];
        uint32_t narrow;

        format_convert(&narrow, through, &value, FORMAT_FP32, 1);
        format_convert(&value, FORMAT_FP32, &narrow, through, 1);
        wanted[i] = value;
    }
    machines_try(machines, run_dequantize, &op,
                 (struct outcome[]) { { &out, wanted, 0, 0 } }, 1);
    free(wanted);
    operand_clear(&out);
}

static void test_dequantize_handles_shapes_head_order_and_rounding(void **state)
{
    json_t *golden = unit_nf4_golden();
    struct unit_nf4 c = unit_nf4_open(golden, 1);
    struct placed p = place(&c);

    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        for (size_t mix = 0; mix < 18; mix++) {
            assert_true(shapes[i].rows * shapes[i].cols <= c.numbers);
            try_matrix(*state, quantized_of(&p, mix / 9), &shapes[i], mix);
        }
    clear(&p);
    unit_nf4_close(&c);
    json_decref(golden);
}

/* ---- Integer codes ---- */

/* One group of a row, groups that fill it or not, that begin at any column; and columns of
 * each group spread over the row. */
static const struct grouping {
    unsigned bits;
    size_t group; /* 0: one */
    bool spread;
} groupings[] = {
    { 4, 0, false }, { 4, 32, false }, { 4, 128, false }, { 4, 8, false },
    { 4, 7, false }, { 8, 0, false },  { 8, 16, false },  { 8, 33, false },
    { 4, 0, true },  { 4, 16, true },  { 4, 5, true },    { 8, 32, true },
};

static unsigned drawn(uint64_t *seed, unsigned below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % below;
}

/* Random codes, zero points, and scales of 16 bits. */
static struct quantized integers_of(char *data, const struct shape *s,
                                    const struct grouping *g)
{
    const struct affine how = { g->bits, g->group };
    struct affine_layout at = affine_layout(how, s->rows, s->cols);
    size_t groups = affine_groups(how, s->cols);
    uint8_t *codes = (uint8_t *)data, *zeros = (uint8_t *)data + at.zeros;
    float *scales = (float *)(void *)(data + at.scales);
    uint32_t *columns = (uint32_t *)(void *)(data + at.columns);
    uint64_t seed = s->rows * 1000 + s->cols + g->group;

    for (size_t i = 0; i < at.scales; i++)
        codes[i] = (uint8_t)drawn(&seed, 256);
    for (size_t i = 0; i < s->rows * groups; i++) {
        zeros[i] = (uint8_t)drawn(&seed, 1u << g->bits);
        scales[i] = (float)(1 + drawn(&seed, 2047)) / 65536;
    }
    for (size_t i = 0; i < s->cols; i++)
        columns[i] = drawn(&seed, (unsigned)groups);
    return (struct quantized) { .codes = codes,
                                .bits = g->bits,
                                .group = g->group ? g->group : s->cols,
                                .groups = groups,
                                .scales = scales,
                                .zeros = zeros,
                                .columns = g->spread ? columns : NULL };
}

static void test_dequantize_handles_integer_codes_of_groups(void **state)
{
    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        for (size_t k = 0; k < TS_COUNT(groupings); k++) {
            const struct affine how = { groupings[k].bits, groupings[k].group };
            char *data =
                machines_memory(affine_layout(how, shapes[i].rows, shapes[i].cols).total);
            struct quantized x = integers_of(data, &shapes[i], &groupings[k]);

            for (size_t mix = 0; mix < 9; mix++)
                try_matrix(*state, x, &shapes[i], mix);
            machines_memory_free(data);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dequantize_matches_bitsandbytes_bit_for_bit),
        cmocka_unit_test(test_dequantize_handles_shapes_head_order_and_rounding),
        cmocka_unit_test(test_dequantize_handles_integer_codes_of_groups),
    };

    return cmocka_run_group_tests_name("dequantize", tests, machines_open,
                                       machines_close);
}
