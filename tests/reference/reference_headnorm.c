/* tests/reference/reference_headnorm.c - RMSNorm of each head and its gradients, in
 * double. */
#include "config.h"

#include "tests/reference/reference.h"

#include <math.h>

static double rstd_of(const struct reference_headnorm *r, const double *x)
{
    double squares = 0;

    for (size_t d = 0; d < r->size; d++)
        squares += x[d] * x[d];
    return 1 / sqrt(squares / (double)r->size + r->eps);
}

void reference_headnorm(const struct reference_headnorm *r)
{
    for (size_t i = 0; i < r->rows * r->heads; i++) {
        const double *x = r->x + i * r->size;

        r->rstd[i] = rstd_of(r, x);
        for (size_t d = 0; d < r->size; d++)
            r->out[i * r->size + d] = x[d] * r->rstd[i] * (r->offset + r->weight[d]);
    }
}

/* d out_c / d x_j = factor_c (rstd [c = j] - x_c x_j rstd^3 / D) */
void reference_headnorm_backward(const struct reference_headnorm *r)
{
    for (size_t i = 0; i < r->rows * r->heads; i++) {
        const double *x = r->x + i * r->size, *dout = r->dout + i * r->size;
        double rstd = r->rstd[i], product = 0;

        for (size_t d = 0; d < r->size; d++)
            product += dout[d] * (r->offset + r->weight[d]) * x[d];
        for (size_t d = 0; d < r->size; d++) {
            r->dx[i * r->size + d] = dout[d] * (r->offset + r->weight[d]) * rstd -
                                     x[d] * pow(rstd, 3) * product / (double)r->size;
            r->dweight[d] += dout[d] * x[d] * rstd;
        }
    }
}
