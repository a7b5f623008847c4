/* tests/reference/reference_matmul.c - the matmul as three loops. */
#include "config.h"

#include "tests/reference/reference.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* (depth, cols), in the layout the matmul reads. */
static double *right_of(const struct reference_matmul *r)
{
    double *b = memory_alloc(r->depth * r->cols * sizeof(*b));

    for (size_t k = 0; k < r->depth; k++)
        for (size_t j = 0; j < r->cols; j++)
            b[k * r->cols + j] = r->b[r->trans_b ? j * r->depth + k : k * r->cols + j];
    return b;
}

/* Each sum is in the order of depth. */
void reference_matmul(const struct reference_matmul *r)
{
    double *b = right_of(r), *sums = memory_alloc(r->cols * sizeof(*sums));

    for (size_t i = 0; i < r->rows; i++) {
        memset(sums, 0, r->cols * sizeof(*sums));
        for (size_t k = 0; k < r->depth; k++) {
            double a = r->a[r->trans_a ? k * r->rows + i : i * r->depth + k];

            for (size_t j = 0; j < r->cols; j++)
                sums[j] += a * b[k * r->cols + j];
        }
        for (size_t j = 0; j < r->cols; j++) {
            double *out = &r->out[i * r->cols + j];

            *out = r->alpha * sums[j] + (r->beta != 0 ? *out : 0) +
                   (r->bias ? r->bias[j] : 0);
        }
    }
    free(b);
    free(sums);
}
