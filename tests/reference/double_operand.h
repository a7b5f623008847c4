/*
 * tests/reference/double_operand.h - the operands of one operation of backend_double, from
 * the backend's doubles and back to them.
 */
#ifndef TESTS_REFERENCE_DOUBLE_OPERAND_H
#define TESTS_REFERENCE_DOUBLE_OPERAND_H

#include <assert.h>
#include <string.h>

#include "tests/reference/double_ops.h"

static inline double *room(struct backend *be, size_t count)
{
    return arena_array(double_of(be)->operands, count, sizeof(double));
}

/* Return the values, contiguous; NULL: absent. */
static inline double *take(struct backend *be, struct tensor t)
{
    double *out, *from;

    if (!t.data)
        return NULL;
    assert(t.format == FORMAT_FP32);
    out = room(be, t.rows * t.cols);
    from = double_values(be, t.data);
    for (size_t r = 0; r < t.rows; r++)
        memcpy(out + r * t.cols, from + r * t.stride, t.cols * sizeof(*out));
    return out;
}

static inline void put(struct backend *be, struct tensor t, const double *values)
{
    double *to;

    if (!t.data)
        return;
    assert(t.format == FORMAT_FP32);
    to = double_values(be, t.data);
    for (size_t r = 0; r < t.rows; r++)
        for (size_t c = 0; c < t.cols; c++) {
            to[r * t.stride + c] = values[r * t.cols + c];
            ((float *)t.data)[r * t.stride + c] = (float)values[r * t.cols + c];
        }
}

static inline size_t numbers_of(struct tensor t)
{
    return t.rows * t.cols;
}

static inline void done(struct backend *be)
{
    arena_free(double_of(be)->operands);
    double_of(be)->operands = arena_new();
}

#endif
