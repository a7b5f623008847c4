/* tests/reference/reference_layers.c - norm, rotary positions, gate, loss, AdamW, in
 * double. */
#include "config.h"

#include "tests/reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void reference_norm(const struct reference_norm *r)
{
    for (size_t n = 0; n < r->rows; n++) {
        double squares = 0;

        for (size_t c = 0; c < r->cols; c++) {
            size_t i = n * r->cols + c;

            r->sum[i] = r->x[i] + (r->delta ? r->delta[i] : 0);
            squares += r->sum[i] * r->sum[i];
        }
        r->rstd[n] = 1 / sqrt(squares / (double)r->cols + r->eps);
        for (size_t c = 0; c < r->cols; c++)
            r->out[n * r->cols + c] =
                r->sum[n * r->cols + c] * r->rstd[n] * (r->offset + r->weight[c]);
    }
}

/* d out_c / d x_j = weight_c (rstd [c = j] - x_c x_j rstd^3 / C) */
void reference_norm_backward(const struct reference_norm_backward *r)
{
    for (size_t n = 0; n < r->rows; n++) {
        const double *x = r->x + n * r->cols, *dout = r->dout + n * r->cols;
        double squares = 0, product = 0, rstd;

        for (size_t c = 0; c < r->cols; c++) {
            squares += x[c] * x[c];
            product += dout[c] * (r->offset + r->weight[c]) * x[c];
        }
        rstd = r->rstd ? r->rstd[n] : 1 / sqrt(squares / (double)r->cols + r->eps);
        for (size_t c = 0; c < r->cols; c++) {
            r->dx[n * r->cols + c] += dout[c] * (r->offset + r->weight[c]) * rstd -
                                      x[c] * pow(rstd, 3) * product / (double)r->cols;
            if (r->dweight)
                r->dweight[c] += dout[c] * x[c] * rstd;
        }
    }
}

void reference_rope(const struct reference_rope *r)
{
    size_t half = r->rotary / 2;

    for (size_t n = 0; n < r->rows; n++)
        for (size_t h = 0; h < r->heads; h++)
            for (size_t d = 0; d < half; d++) {
                double *x = r->x + (n * r->heads + h) * r->head_size;
                double angle = r->positions[n] *
                               pow(r->base, -2.0 * (double)d / (double)r->rotary) *
                               (r->inverse ? -1 : 1);
                size_t one = r->interleaved ? 2 * d : d;
                size_t other = r->interleaved ? 2 * d + 1 : d + half;
                double left = x[one], right = x[other];

                x[one] = left * cos(angle) - right * sin(angle);
                x[other] = right * cos(angle) + left * sin(angle);
            }
}

void reference_activation(enum activation kind, double x, double *value, double *slope)
{
    double pi = acos(-1), z = sqrt(2 / pi) * (x + 0.044715 * x * x * x);
    double s = 1 / (1 + exp(-x)), normal = erfc(-x / sqrt(2)) / 2, t = tanh(z);

    switch (kind) {
    case ACTIVATION_SILU:
        *value = x * s;
        *slope = s + x * s * (1 - s);
        break;
    case ACTIVATION_GELU:
        *value = x * normal;
        *slope = normal + x * exp(-x * x / 2) / sqrt(2 * pi);
        break;
    case ACTIVATION_GELU_TANH: /* (1 + tanh z) / 2 without cancellation below 0 */
        *value = x / (1 + exp(-2 * z));
        *slope =
            (1 + t) / 2 + x / 2 * (1 - t * t) * sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x);
        break;
    case ACTIVATION_RELU:
        *value = x > 0 ? x : 0;
        *slope = x > 0 ? 1 : 0;
        break;
    case ACTIVATION_RELU2:
        *value = x > 0 ? x * x : 0;
        *slope = x > 0 ? 2 * x : 0;
        break;
    case ACTIVATION_SIGMOID:
        *value = s;
        *slope = exp(-fabs(x)) / pow(1 + exp(-fabs(x)), 2);
        break;
    case ACTIVATION_QUICK_GELU:
        s = 1 / (1 + exp(-1.702 * x));
        *value = x * s;
        *slope = s + 1.702 * x * s * (1 - s);
        break;
    }
}

void reference_swiglu(const struct reference_swiglu *r)
{
    for (size_t i = 0; i < r->numbers; i++) {
        double value, slope;

        reference_activation(r->kind, r->gate[i], &value, &slope);
        if (r->out)
            r->out[i] = value * r->up[i];
        if (!r->dgate)
            continue;
        r->dgate[i] = r->dout[i] * r->up[i] * slope;
        r->dup[i] = r->dout[i] * value;
    }
}

static void classifier_logits(const struct reference_classifier *r, size_t n,
                              double *logits)
{
    for (size_t v = 0; v < r->words; v++) {
        logits[v] = r->bias ? r->bias[v] : 0;
        for (size_t c = 0; c < r->cols; c++)
            logits[v] += r->x[n * r->cols + c] * r->w[v * r->cols + c];
        if (r->softcap > 0)
            logits[v] = r->softcap * tanh(logits[v] / r->softcap);
    }
}

static void classifier_gradient(const struct reference_classifier *r, size_t n,
                                size_t word, double dlogit)
{
    if (r->dbias)
        r->dbias[word] += dlogit;
    for (size_t c = 0; c < r->cols; c++) {
        r->dx[n * r->cols + c] += dlogit * r->w[word * r->cols + c];
        if (r->dw)
            r->dw[word * r->cols + c] += dlogit * r->x[n * r->cols + c];
    }
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

/* The entropy of the softmax over the largest logits. */
static double top_entropy(const double *logits, size_t words)
{
    size_t count = words < EAFT_TOKENS ? words : EAFT_TOKENS;
    double *sorted = calloc(words, sizeof(*sorted)), sum = 0, entropy = 0;

    memcpy(sorted, logits, words * sizeof(*sorted));
    qsort(sorted, words, sizeof(*sorted), descending);
    for (size_t i = 0; i < count; i++)
        sum += exp(sorted[i] - sorted[0]);
    for (size_t i = 0; i < count; i++) {
        double p = exp(sorted[i] - sorted[0]) / sum;

        entropy -= p > 0 ? p * log(p) : 0;
    }
    free(sorted);
    return entropy;
}

static double loss_factor(const struct reference_classifier *r, const double *logits,
                          double probability)
{
    return r->kind == TOKEN_LOSS_DFT    ? probability
           : r->kind == TOKEN_LOSS_EAFT ? pow(top_entropy(logits, r->words) / 3, r->alpha)
                                        : 1;
}

static void classifier_row(const struct reference_classifier *r, size_t n, double *logits)
{
    double words = (double)r->words, max = -INFINITY, sum = 0, all;
    double weight = r->weights ? r->weights[n] : 1;

    classifier_logits(r, n, logits);
    for (size_t v = 0; v < r->words; v++)
        max = fmax(max, logits[v]);
    for (size_t v = 0; v < r->words; v++)
        sum += exp(logits[v] - max);
    all = max + log(sum);
    weight *= loss_factor(r, logits, exp(logits[r->targets[n]] - all));
    if (r->hits)
        r->hits[n] = logits[r->targets[n]] == max;
    for (size_t v = 0; v < r->words; v++) {
        bool is_target = v == (size_t)r->targets[n];
        double wanted = (is_target ? 1 - r->smoothing : 0) + r->smoothing / words;
        double t = r->softcap > 0 ? logits[v] / r->softcap : 0;

        r->losses[n] += weight * wanted * (all - logits[v]);
        if (r->dx)
            classifier_gradient(r, n, v,
                                weight * r->grad_scale * (exp(logits[v] - all) - wanted) *
                                    (1 - t * t));
    }
}

void reference_classifier(const struct reference_classifier *r)
{
    double *logits = calloc(r->words, sizeof(*logits));

    for (size_t n = 0; n < r->rows; n++) {
        r->losses[n] = 0;
        if (r->hits)
            r->hits[n] = 0;
        for (size_t c = 0; r->dx && c < r->cols; c++)
            r->dx[n * r->cols + c] = 0;
        if (r->targets[n] >= 0)
            classifier_row(r, n, logits);
    }
    free(logits);
}

void reference_adamw(const struct reference_adamw *r)
{
    double bias1 = 1 - pow(r->beta1, (double)r->step);
    double bias2 = 1 - pow(r->beta2, (double)r->step);

    for (size_t i = 0; i < r->numbers; i++) {
        double g = r->grad_scale * r->grad[i];

        r->w[i] -= r->lr * r->decay * r->w[i];
        r->m[i] = r->beta1 * r->m[i] + (1 - r->beta1) * g;
        r->v[i] = r->beta2 * r->v[i] + (1 - r->beta2) * g * g;
        r->w[i] -= r->lr / bias1 * r->m[i] / (sqrt(r->v[i]) / sqrt(bias2) + r->eps);
    }
}

double reference_slope_error(reference_function *f, void *context, double *x,
                             size_t numbers, const double *grad)
{
    double worst = 0, largest = 0;

    for (size_t i = 0; i < numbers; i++) {
        double was = x[i], step = 1e-4 * fmax(1, fabs(was)), slope;

        /* fourth order: 1e-16 of the step's fourth power, 1e-12 of rounding */
        x[i] = was + step;
        slope = 8 * f(context);
        x[i] = was - step;
        slope -= 8 * f(context);
        x[i] = was + 2 * step;
        slope -= f(context);
        x[i] = was - 2 * step;
        slope += f(context);
        x[i] = was;
        slope /= 12 * step;
        worst = fmax(worst, fabs(slope - grad[i]));
        largest = fmax(largest, fabs(grad[i]));
    }
    return worst / largest;
}
