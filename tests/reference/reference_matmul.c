/* tests/reference/reference_matmul.c - the product as three loops. */
#include "config.h"

#include "tests/reference/reference.h"

void reference_matmul(const struct reference_matmul *r)
{
    for (size_t i = 0; i < r->rows; i++)
        for (size_t j = 0; j < r->cols; j++) {
            double *out = &r->out[i * r->cols + j], sum = 0;

            for (size_t k = 0; k < r->depth; k++)
                sum += r->a[r->trans_a ? k * r->rows + i : i * r->depth + k] *
                       r->b[r->trans_b ? j * r->depth + k : k * r->cols + j];
            *out =
                r->alpha * sum + (r->beta != 0 ? *out : 0) + (r->bias ? r->bias[j] : 0);
        }
}
