/*
 * tests/unit/unit_nf4.h - the matrices of tests/golden/nf4.py, quantized to 4 bits.
 */
#ifndef TESTS_UNIT_UNIT_NF4_H
#define TESTS_UNIT_UNIT_NF4_H

#include "base/digest.h"
#include "base/json.h"
#include "precision/format.h"
#include "precision/nf4.h"
#include "tests/unit/unit.h"

/* One of the script's cases, quantized here. */
struct unit_nf4 {
    const json_t *wanted;
    size_t rows, cols, numbers, blocks, groups;
    enum format format;
    uint8_t *codes, *bytes;
    float *absmax, *nested;
    float map[NF4_MAP + 1]; /* the mean is last */
};

static inline json_t *unit_nf4_golden(void)
{
    char *name = unit_source("tests/golden/nf4.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(name, (size_t)1 << 20, &err);

    if (!golden)
        fail_msg("%s", err.text);
    free(name);
    return golden;
}

static inline uint32_t unit_nf4_bits(uint64_t seed, uint64_t i)
{
    uint32_t x = (uint32_t)(i * 2654435761u + seed * 2246822519u);

    x ^= x >> 16;
    x *= 0x45d9f3bu;
    return x ^ x >> 16;
}

/* The values of case `seed`, in fp32; malloc'ed. */
static inline float *unit_nf4_numbers(size_t seed, const struct unit_nf4 *c, double scale)
{
    float *x = malloc(c->numbers * sizeof(*x));
    uint16_t narrow;

    for (size_t i = 0; i < c->numbers; i++) {
        double whole = (double)(unit_nf4_bits(seed, i) % 2049) - 1024;

        x[i] = (float)(whole * whole * whole / 0x1p30 * scale);
        if (c->format != FORMAT_FP32) {
            format_convert(&narrow, c->format, &x[i], FORMAT_FP32, 1);
            format_convert(&x[i], FORMAT_FP32, &narrow, c->format, 1);
        }
    }
    return x;
}

static inline struct unit_nf4 unit_nf4_open(const json_t *golden, size_t seed)
{
    const json_t *wanted = json_array_get(json_object_get(golden, "cases"), seed);
    struct unit_nf4 c = { .wanted = wanted };
    float *x;

    c.rows = (size_t)json_integer_value(json_object_get(wanted, "rows"));
    c.cols = (size_t)json_integer_value(json_object_get(wanted, "cols"));
    assert_true(
        format_find(json_string_value(json_object_get(wanted, "dtype")), &c.format));
    c.numbers = c.rows * c.cols;
    c.blocks = nf4_blocks(c.numbers);
    c.groups = nf4_groups(c.blocks);
    c.codes = malloc(nf4_bytes(c.numbers));
    c.bytes = malloc(c.blocks);
    c.absmax = malloc(c.blocks * sizeof(float));
    c.nested = malloc(c.groups * sizeof(float));
    x = unit_nf4_numbers(seed, &c, json_number_value(json_object_get(wanted, "scale")));
    nf4_quantize(x, c.numbers, c.codes, c.absmax);
    nf4_map(c.map);
    c.map[NF4_MAP] = nf4_compress(c.absmax, c.blocks, c.bytes, c.nested);
    free(x);
    return c;
}

static inline void unit_nf4_close(struct unit_nf4 *c)
{
    free(c->codes);
    free(c->bytes);
    free(c->absmax);
    free(c->nested);
}

/* Check that the script recorded the SHA-256 of these bytes under the name. */
static inline void unit_nf4_same(const json_t *wanted, const char *name, const void *data,
                                 size_t bytes)
{
    char text[DIGEST_TEXT];

    digest_bytes(data, bytes, text);
    assert_string_equal(text, json_string_value(json_object_get(wanted, name)));
}

#endif
