/* tests/reference/reference_latent.c - heads of multi-head latent attention by their
 * formulas. */
#include "config.h"

#include "tests/reference/reference.h"

/* Turn `x` of R elements in place, or back. */
static void turn(const struct reference_latent *r, size_t row, double *x, double sign)
{
    const double *table = r->table + (size_t)r->positions[row] * r->rotated;
    size_t half = r->rotated / 2;

    for (size_t d = 0; d < half; d++) {
        double *a = &x[r->interleaved ? 2 * d : d], *b = a + (r->interleaved ? 1 : half);
        double left = *a, c = table[d], s = sign * table[half + d];

        *a = left * c - *b * s;
        *b = *b * c + left * s;
    }
}

void reference_latent(const struct reference_latent *r)
{
    for (size_t i = 0; i < r->rows * r->heads; i++) {
        const double *q = r->up_q + i * (r->plain + r->rotated);
        const double *kv = r->up_kv + i * (r->plain + r->value);

        for (size_t j = 0; j < r->head; j++) {
            size_t out = i * r->head + j;

            r->q[out] = j < r->plain + r->rotated ? q[j] : 0;
            r->k[out] = j < r->plain ? kv[j] : 0;
            if (j >= r->plain && j < r->plain + r->rotated)
                r->k[out] = r->shared[i / r->heads * r->rotated + j - r->plain];
            r->v[out] = j < r->value ? kv[r->plain + j] : 0;
        }
        turn(r, i / r->heads, r->q + i * r->head + r->plain, 1);
        turn(r, i / r->heads, r->k + i * r->head + r->plain, 1);
    }
}

void reference_latent_backward(const struct reference_latent *r)
{
    for (size_t i = 0; i < r->rows * r->rotated; i++)
        r->shared[i] = 0;
    for (size_t i = 0; i < r->rows * r->heads; i++) {
        double *q = r->up_q + i * (r->plain + r->rotated);
        double *kv = r->up_kv + i * (r->plain + r->value);

        for (size_t j = 0; j < r->plain + r->rotated; j++)
            q[j] = r->q[i * r->head + j];
        for (size_t j = 0; j < r->plain; j++)
            kv[j] = r->k[i * r->head + j];
        for (size_t j = 0; j < r->value; j++)
            kv[r->plain + j] = r->v[i * r->head + j];
        for (size_t j = 0; j < r->rotated; j++)
            r->shared[i / r->heads * r->rotated + j] += r->k[i * r->head + r->plain + j];
        turn(r, i / r->heads, q + r->plain, -1);
    }
    for (size_t row = 0; row < r->rows; row++)
        turn(r, row, r->shared + row * r->rotated, -1);
}
