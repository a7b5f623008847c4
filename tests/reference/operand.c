/* tests/reference/operand.c - operands, and their comparison with the reference. */
#include "config.h"

#include "tests/reference/operand.h"

#include <math.h>

#include "base/random.h"
#include "base/size.h"
#include "tests/unit/unit.h"

enum { BEFORE = 3, BETWEEN = 5, ALIGNED = 16, PADDED = 64 };

static double get(const void *data, enum format format, size_t at)
{
    switch (format) {
    case FORMAT_FP16:
        return (double)format_from_fp16(((const uint16_t *)data)[at]);
    case FORMAT_BF16:
        return (double)format_from_bf16(((const uint16_t *)data)[at]);
    default:
        return (double)((const float *)data)[at];
    }
}

static void put(void *data, enum format format, size_t at, double value)
{
    switch (format) {
    case FORMAT_FP16:
        ((uint16_t *)data)[at] = format_to_fp16((float)value);
        break;
    case FORMAT_BF16:
        ((uint16_t *)data)[at] = format_to_bf16((float)value);
        break;
    default:
        ((float *)data)[at] = (float)value;
        break;
    }
}

/* `before` elements before the first row, `stride` from one row to the next. */
static struct operand place_rows(enum format format, size_t rows, size_t cols,
                                 size_t before, size_t stride)
{
    size_t width = format_info(format)->bytes;
    struct operand o = { .numbers = rows * cols };

    o.bytes = (before + (rows - 1) * stride + cols) * width;
    o.block = machines_memory(o.bytes);
    o.initial = malloc(o.bytes);
    o.real = calloc(o.numbers, sizeof(*o.real));
    memset(o.block, 0xff, o.bytes); /* NaN in every format */
    o.tensor = (struct tensor) { .data = o.block + before * width,
                                 .format = format,
                                 .rows = rows,
                                 .cols = cols,
                                 .stride = stride };
    return o;
}

/* Rows that can start on multiples of 16 bytes do so if their count is odd, without gaps
 * if the count is one more than a multiple of four; a single row does so unless its
 * length is three more than a multiple of four: all combinations occur. */
static struct operand make(enum format format, size_t rows, size_t cols)
{
    size_t width = format_info(format)->bytes;
    bool even = rows == 1 ? cols % 4 != 3 : cols * width % ALIGNED == 0;
    bool aligned = machines_like_alignment() && rows % 2 && even;
    size_t before = aligned ? ALIGNED / width : BEFORE;
    size_t gap = !aligned ? BETWEEN : rows % 4 == 1 ? 0 : ALIGNED / width;

    return place_rows(format, rows, cols, before, rows == 1 ? cols : cols + gap);
}

void operand_write(struct operand *o)
{
    for (size_t i = 0; i < o->numbers; i++)
        put(o->tensor.data, o->tensor.format,
            i / o->tensor.cols * o->tensor.stride + i % o->tensor.cols, o->real[i]);
    memcpy(o->initial, o->block, o->bytes);
    operand_read(o);
}

void operand_read(struct operand *o)
{
    for (size_t i = 0; i < o->numbers; i++)
        o->real[i] = get(o->tensor.data, o->tensor.format,
                         i / o->tensor.cols * o->tensor.stride + i % o->tensor.cols);
}

/* The first normal values of a seed; cached, because many operands share them. */
static const double *normals_of(uint64_t seed, size_t count)
{
    static struct normals {
        uint64_t seed;
        double *numbers;
        size_t count;
    } kept[16];
    struct normals *n = &kept[seed % TS_COUNT(kept)];

    if (n->seed != seed)
        n->count = 0;
    n->seed = seed;
    if (n->count < count)
        n->numbers = memory_resize(n->numbers, count, sizeof(*n->numbers));
    for (; n->count < count; n->count++)
        n->numbers[n->count] = random_normal(seed, RANDOM_INIT, 0, n->count);
    return n->numbers;
}

struct operand operand_random(enum format format, size_t rows, size_t cols, double scale,
                              uint64_t seed)
{
    struct operand o = make(format, rows, cols);
    const double *normals = normals_of(seed, o.numbers);

    for (size_t i = 0; i < o.numbers; i++)
        o.real[i] = scale * normals[i];
    operand_write(&o);
    return o;
}

struct operand operand_filled(enum format format, size_t rows, size_t cols, double value)
{
    struct operand o = make(format, rows, cols);

    for (size_t i = 0; i < o.numbers; i++)
        o.real[i] = value;
    operand_write(&o);
    return o;
}

struct operand operand_padded(enum format format, size_t rows, size_t cols, double value)
{
    struct operand o = place_rows(format, rows, cols, PADDED, size_round(cols, PADDED));

    for (size_t i = 0; i < o.numbers; i++)
        o.real[i] = value;
    operand_write(&o);
    return o;
}

void operand_clear(struct operand *o)
{
    machines_memory_free(o->block);
    free(o->initial);
    free(o->real);
    *o = (struct operand) { 0 };
}

/* Check and restore everything around the elements; the elements are the result. */
static void check_around(struct operand *o)
{
    size_t width = format_info(o->tensor.format)->bytes;
    size_t first = (size_t)((unsigned char *)o->tensor.data - o->block);

    assert_memory_equal(o->block, o->initial, first);
    for (size_t row = 0; row + 1 < o->tensor.rows; row++) {
        size_t end = first + (row * o->tensor.stride + o->tensor.cols) * width;

        assert_memory_equal(o->block + end, o->initial + end,
                            (o->tensor.stride - o->tensor.cols) * width);
    }
}

static void check_near(const struct outcome *outcome, const char *machine)
{
    struct operand *o = outcome->operand;
    const struct format_info *info = format_info(o->tensor.format);
    double largest = outcome->least;

    for (size_t i = 0; i < o->numbers; i++)
        if (!isinf(outcome->wanted[i]))
            largest = fmax(largest, fabs(outcome->wanted[i]));
    for (size_t i = 0; i < o->numbers; i++) {
        double wanted = outcome->wanted[i], got = o->real[i];
        double room = info->epsilon / 2 * fabs(wanted) + info->min_subnormal / 2 +
                      outcome->units * 0x1p-23 * largest;

        if (got != wanted && !(fabs(got - wanted) <= room && isfinite(wanted)))
            fail_msg(
                "%s, %s (%zu, %zu): element %zu is %.9g, not %.9g: %.3g of the tolerance",
                machine, info->name, o->tensor.rows, o->tensor.cols, i, got, wanted,
                fabs(got - wanted) / room);
    }
}

void machine_run(struct backend *be, operation *run, const void *op)
{
    struct error err = { 0 };

    machine_enter(be);
    run(be, op);
    if (!be->ops->sync(be, &err))
        fail_msg("%s", err.text);
}

void machines_try(struct machines *machines, operation *run, const void *op,
                  const struct outcome *outcomes, size_t count)
{
    unsigned char *first[16] = { NULL };

    assert_in_range(count, 1, TS_COUNT(first));
    for (size_t i = 0; i < machines->count; i++) {
        struct backend *be = machines->backends[i];

        for (size_t k = 0; k < count; k++)
            memcpy(outcomes[k].operand->block, outcomes[k].operand->initial,
                   outcomes[k].operand->bytes);
        machine_run(be, run, op);
        for (size_t k = 0; k < count; k++) {
            struct operand *o = outcomes[k].operand;

            operand_read(o);
            check_around(o);
            if (outcomes[k].wanted)
                check_near(&outcomes[k], be->ops->describe(be));
            if (i == 0) {
                first[k] = malloc(o->bytes);
                memcpy(first[k], o->block, o->bytes);
            } else if (i < machines->alike) {
                assert_memory_equal(first[k], o->block, o->bytes);
            }
        }
    }
    for (size_t k = 0; k < count; k++) {
        struct operand *o = outcomes[k].operand;

        memcpy(o->block, first[k], o->bytes);
        operand_read(o);
        free(first[k]);
    }
}
