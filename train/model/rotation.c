/* train/model/rotation.c - sizes and values of the rotations of orthogonal adapters. */
#include "config.h"

#include "train/model/rotation.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* PEFT's adjust_oft_parameters: the nearest divisor of the inputs, the smaller of two. */
static size_t nearest_divisor(size_t inputs, size_t wanted)
{
    size_t low = wanted, high = wanted;

    if (wanted >= inputs)
        return inputs;
    while (inputs % high != 0)
        high++;
    while (low > 1 && inputs % low != 0)
        low--;
    return wanted - low <= high - wanted ? low : high;
}

size_t rotation_size(const struct rotation *rotation, size_t inputs)
{
    return rotation->size ? nearest_divisor(inputs, rotation->size)
                          : inputs / nearest_divisor(inputs, rotation->blocks);
}

size_t rotation_degree(const struct rotation *rotation)
{
    return rotation->terms > 4 ? rotation->terms - 1 : 3;
}

/* out = a b + diagonal I */
static void multiply(size_t size, const double *a, const double *b, double diagonal,
                     double *out)
{
    for (size_t i = 0; i < size; i++) {
        double *row = out + i * size;

        memset(row, 0, size * sizeof(*row));
        row[i] = diagonal;
        for (size_t k = 0; k < size; k++)
            for (size_t j = 0; j < size; j++)
                row[j] += a[i * size + k] * b[k * size + j];
    }
}

/* Invert I + Q in place, whose pivots are at least 1. */
static void invert(size_t size, double *x)
{
    for (size_t p = 0; p < size; p++) {
        double pivot = 1 / x[p * size + p];

        x[p * size + p] = 1;
        for (size_t j = 0; j < size; j++)
            x[p * size + j] *= pivot;
        for (size_t i = 0; i < size; i++) {
            double factor = x[i * size + p];

            if (i == p)
                continue;
            x[i * size + p] = 0;
            for (size_t j = 0; j < size; j++)
                x[i * size + j] -= factor * x[p * size + j];
        }
    }
}

/* (I - Q) (I + Q)^-1 = 2 (I + Q)^-1 - I */
static void compute_exact(size_t size, const double *q, double *out)
{
    for (size_t i = 0; i < size * size; i++)
        out[i] = q[i] + (i % (size + 1) == 0);
    invert(size, out);
    for (size_t i = 0; i < size * size; i++)
        out[i] = 2 * out[i] - (i % (size + 1) == 0);
}

/* By Horner's rule, from 2 I + Q on. */
static void compute_series(size_t size, size_t degree, const double *q, double *scratch,
                           double *out)
{
    for (size_t i = 0; i < size * size; i++)
        out[i] = q[i] + (i % (size + 1) == 0 ? 2 : 0);
    for (size_t k = degree - 1; k-- > 0;) {
        memcpy(scratch, out, size * size * sizeof(*out));
        multiply(size, q, scratch, k > 0 ? 2 : 1, out);
    }
}

void rotation_compute(const struct rotation *rotation, size_t size, const float *packed,
                      double *out)
{
    double *q = memory_alloc(2 * size * size * sizeof(*q));

    for (size_t j = 0; j < size; j++) {
        q[j * size + j] = 0;
        for (size_t k = j + 1; k < size; k++) {
            q[j * size + k] = *packed;
            q[k * size + j] = -*packed++;
        }
    }
    if (rotation->exact)
        compute_exact(size, q, out);
    else
        compute_series(size, rotation_degree(rotation), q, q + size * size, out);
    free(q);
}
