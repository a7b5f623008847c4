/* tests/reference/reference_layernorm.c - LayerNorm and its gradients, in double. */
#include "config.h"

#include "tests/reference/reference.h"

#include <math.h>

/* Mean and 1 / deviation of a row. */
static void row_stats(const double *x, size_t cols, double eps, double *mean,
                      double *rstd)
{
    double sum = 0, squares = 0;

    for (size_t c = 0; c < cols; c++)
        sum += x[c];
    *mean = sum / (double)cols;
    for (size_t c = 0; c < cols; c++)
        squares += (x[c] - *mean) * (x[c] - *mean);
    *rstd = 1 / sqrt(squares / (double)cols + eps);
}

void reference_layernorm(const struct reference_layernorm *r)
{
    for (size_t n = 0; n < r->rows; n++) {
        const double *sum = r->sum + n * r->cols;
        double *mean = &r->stats[n], *rstd = &r->stats[r->rows + n];

        for (size_t i = n * r->cols; i < (n + 1) * r->cols; i++)
            r->sum[i] = r->x[i] + (r->delta ? r->delta[i] : 0);
        row_stats(sum, r->cols, r->eps, mean, rstd);
        for (size_t c = 0; c < r->cols; c++)
            r->out[n * r->cols + c] =
                (sum[c] - *mean) * *rstd * (r->offset + r->weight[c]) +
                (r->bias ? r->bias[c] : 0);
    }
}

/* d h_c / d x_j = rstd ([c = j] - 1 / C - h_c h_j / C),  h = (x - mean) rstd */
void reference_layernorm_backward(const struct reference_layernorm_backward *r)
{
    for (size_t n = 0; n < r->rows; n++) {
        const double *x = r->x + n * r->cols, *dout = r->dout + n * r->cols;
        double mean, rstd, sum = 0, product = 0;

        row_stats(x, r->cols, r->eps, &mean, &rstd);
        if (r->stats) {
            mean = r->stats[n];
            rstd = r->stats[r->rows + n];
        }
        for (size_t c = 0; c < r->cols; c++) {
            double g = dout[c] * (r->offset + r->weight[c]);

            sum += g;
            product += g * (x[c] - mean) * rstd;
        }
        for (size_t c = 0; c < r->cols; c++) {
            double h = (x[c] - mean) * rstd;

            r->dx[n * r->cols + c] += rstd * (dout[c] * (r->offset + r->weight[c]) -
                                              (sum + h * product) / (double)r->cols);
            r->dweight[c] += dout[c] * h;
            r->dbias[c] += dout[c];
        }
    }
}
