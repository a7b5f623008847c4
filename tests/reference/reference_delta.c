/* tests/reference/reference_delta.c - linear attention by the gated delta rule, row by row,
 * and its gradients, in double. */
#include "config.h"

#include "tests/reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The convolution ---- */

/* The input of a row, before the filter. */
static double product_of(const struct reference_conv *r, size_t at)
{
    return r->before ? r->before[at] * r->x[at] : r->x[at];
}

/* The input `back` rows before row n of sequence s. */
static double input_of(const struct reference_conv *r, size_t s, size_t n, size_t back,
                       size_t c)
{
    size_t first = (size_t)r->offsets[s];

    if (n >= first + back)
        return product_of(r, (n - back) * r->cols + c);
    if (!r->resumes)
        return 0;
    return r->state[((s + 1) * (r->taps - 1) + (n - first) - back) * r->cols + c];
}

static double sum_of(const struct reference_conv *r, size_t s, size_t n, size_t c)
{
    double sum = r->bias ? r->bias[c] : 0;

    for (size_t j = 0; j < r->taps; j++)
        sum += r->weight[c * r->taps + j] * input_of(r, s, n, r->taps - 1 - j, c);
    return sum;
}

/* The output of a row, and its slope by the sum. */
static double output_of(const struct reference_conv *r, size_t at, double sum,
                        double *slope)
{
    double value;

    reference_activation(ACTIVATION_SILU, sum, &value, slope);
    if (!r->after)
        return value;
    *slope = r->after[at];
    return r->after[at] * sum;
}

void reference_conv(const struct reference_conv *r)
{
    double slope;

    for (size_t s = 0; s < r->sequences; s++)
        for (size_t c = 0; c < r->cols; c++) {
            size_t last = (size_t)r->offsets[s + 1];

            for (size_t n = (size_t)r->offsets[s]; n < last; n++)
                r->out[n * r->cols + c] =
                    output_of(r, n * r->cols + c, sum_of(r, s, n, c), &slope);
            for (size_t i = 0; r->state && i + 1 < r->taps; i++)
                r->state[(s * (r->taps - 1) + i) * r->cols + c] =
                    input_of(r, s, last, r->taps - 1 - i, c);
        }
}

static void row_backward(const struct reference_conv *r, size_t s, size_t n, size_t c)
{
    size_t at = n * r->cols + c;
    double sum = sum_of(r, s, n, c), slope;

    output_of(r, at, sum, &slope);
    slope *= r->dout[at];
    if (r->after)
        r->dafter[at] = r->dout[at] * sum;
    if (r->bias)
        r->dbias[c] += slope;
    for (size_t j = 0; j < r->taps; j++) {
        size_t back = r->taps - 1 - j, from = at - back * r->cols;
        double du = slope * r->weight[c * r->taps + j];

        r->dweight[c * r->taps + j] += slope * input_of(r, s, n, back, c);
        if (n < (size_t)r->offsets[s] + back)
            continue;
        r->dx[from] += r->before ? du * r->before[from] : du;
        if (r->before)
            r->dbefore[from] += du * r->x[from];
    }
}

void reference_conv_backward(const struct reference_conv *r)
{
    memset(r->dx, 0, r->rows * r->cols * sizeof(*r->dx));
    if (r->before)
        memset(r->dbefore, 0, r->rows * r->cols * sizeof(*r->dbefore));
    for (size_t s = 0; s < r->sequences; s++)
        for (size_t n = (size_t)r->offsets[s]; n < (size_t)r->offsets[s + 1]; n++)
            for (size_t c = 0; c < r->cols; c++)
                row_backward(r, s, n, c);
}

/* ---- The gates ---- */

void reference_decay(const struct reference_decay *r)
{
    for (size_t i = 0; i < r->rows * r->heads; i++) {
        size_t h = i % r->heads;
        double x = r->a[i] + r->bias[h];

        r->decay[i] = -exp(r->a_log[h]) * (x > 20 ? x : log1p(exp(x)));
        r->beta[i] = 1 / (1 + exp(-r->b[i]));
    }
}

void reference_decay_backward(const struct reference_decay *r)
{
    for (size_t i = 0; i < r->rows * r->heads; i++) {
        size_t h = i % r->heads;
        double x = r->a[i] + r->bias[h], rate = -exp(r->a_log[h]);
        double share = 1 / (1 + exp(-r->b[i]));

        r->da[i] = r->ddecay[i] * rate * (x > 20 ? 1 : 1 / (1 + exp(-x)));
        r->db[i] = r->dbeta[i] * share * (1 - share);
        r->da_log[h] += r->ddecay[i] * rate * (x > 20 ? x : log1p(exp(x)));
        r->dbias[h] += r->da[i];
    }
}

/* ---- The delta rule ---- */

/* A head of values in one sequence. */
struct head {
    const struct reference_delta *r;
    size_t head, first, rows;
    double *q, *k;  /* (rows, key), normalized */
    double *states; /* (rows + 1, key, value) */
    double *u;      /* (rows, value): beta (v - S^T k) */
};

static void normalize(const struct head *h, double *to, const double *from, double scale)
{
    size_t key = h->r->key, stride = h->r->key_heads * key;
    size_t at = h->head / (h->r->heads / h->r->key_heads) * key;

    for (size_t t = 0; t < h->rows; t++) {
        const double *x = from + (h->first + t) * stride + at;
        double squares = 1e-6;

        for (size_t i = 0; i < key; i++)
            squares += x[i] * x[i];
        for (size_t i = 0; i < key; i++)
            to[t * key + i] = x[i] * scale / sqrt(squares);
    }
}

static struct head head_open(const struct reference_delta *r, size_t s, size_t head)
{
    struct head h = { .r = r,
                      .head = head,
                      .first = (size_t)r->offsets[s],
                      .rows = (size_t)(r->offsets[s + 1] - r->offsets[s]) };

    h.q = calloc((h.rows + 1) * r->key, sizeof(double));
    h.k = calloc((h.rows + 1) * r->key, sizeof(double));
    h.u = calloc((h.rows + 1) * r->value, sizeof(double));
    h.states = calloc((h.rows + 1) * r->key * r->value, sizeof(double));
    normalize(&h, h.q, r->q, 1 / sqrt((double)r->key));
    normalize(&h, h.k, r->k, 1);
    return h;
}

static void head_close(struct head *h)
{
    free(h->q);
    free(h->k);
    free(h->u);
    free(h->states);
}

/* S of row t from that before it, and u. */
static void head_step(const struct head *h, size_t t)
{
    const struct reference_delta *r = h->r;
    size_t gate = (h->first + t) * r->heads + h->head;
    const double *before = h->states + t * r->key * r->value, *k = h->k + t * r->key;
    double *after = h->states + (t + 1) * r->key * r->value;
    double *u = h->u + t * r->value, fade = exp(r->decay[gate]);

    for (size_t d = 0; d < r->value; d++) {
        double known = 0;

        for (size_t i = 0; i < r->key; i++)
            known += fade * before[i * r->value + d] * k[i];
        u[d] = r->beta[gate] * (r->v[gate * r->value + d] - known);
        for (size_t i = 0; i < r->key; i++)
            after[i * r->value + d] = fade * before[i * r->value + d] + k[i] * u[d];
    }
}

void reference_delta(const struct reference_delta *r)
{
    size_t size = r->key * r->value;

    for (size_t i = 0; i < r->sequences * r->heads; i++) {
        struct head h = head_open(r, i / r->heads, i % r->heads);

        if (r->state && r->resumes)
            memcpy(h.states, r->state + i * size, size * sizeof(double));
        for (size_t t = 0; t < h.rows; t++) {
            double *out = r->out + ((h.first + t) * r->heads + h.head) * r->value;

            head_step(&h, t);
            for (size_t d = 0; d < r->value; d++) {
                out[d] = 0;
                for (size_t j = 0; j < r->key; j++)
                    out[d] +=
                        h.states[(t + 1) * size + j * r->value + d] * h.q[t * r->key + j];
            }
        }
        if (r->state)
            memcpy(r->state + i * size, h.states + h.rows * size, size * sizeof(double));
        head_close(&h);
    }
}

/* Back through a row: dstate is the gradient of S after it, then of S before it; dq and dk
 * (key) are those of the normalized rows. */
static void head_step_backward(const struct head *h, size_t t, double *dstate, double *dq,
                               double *dk)
{
    const struct reference_delta *r = h->r;
    size_t gate = (h->first + t) * r->heads + h->head, size = r->key * r->value;
    const double *before = h->states + t * size, *after = before + size;
    const double *q = h->q + t * r->key, *k = h->k + t * r->key, *u = h->u + t * r->value;
    const double *dout = r->dout + gate * r->value;
    double fade = exp(r->decay[gate]), dfade = 0, dbeta = 0;

    for (size_t d = 0; d < r->value; d++) {
        double du = 0, dknown;

        for (size_t i = 0; i < r->key; i++) {
            dq[i] += after[i * r->value + d] * dout[d];
            dstate[i * r->value + d] += q[i] * dout[d];
            du += dstate[i * r->value + d] * k[i];
            dk[i] += dstate[i * r->value + d] * u[d];
        }
        dbeta += du * u[d] / r->beta[gate];
        dknown = -du * r->beta[gate];
        r->dv[gate * r->value + d] = -dknown;
        for (size_t i = 0; i < r->key; i++) {
            double *slope = &dstate[i * r->value + d];

            dk[i] += dknown * fade * before[i * r->value + d];
            *slope += dknown * k[i];
            dfade += *slope * before[i * r->value + d];
            *slope *= fade;
        }
    }
    r->dbeta[gate] = dbeta;
    r->ddecay[gate] = dfade * fade;
}

/* Add the gradient of x, given that of its normalized row. */
static void normalize_backward(const struct head *h, const double *x, const double *dy,
                               double *dx, double scale)
{
    double squares = 1e-6, along = 0;

    for (size_t i = 0; i < h->r->key; i++) {
        squares += x[i] * x[i];
        along += x[i] * dy[i];
    }
    for (size_t i = 0; i < h->r->key; i++)
        dx[i] += scale * (dy[i] - x[i] * along / squares) / sqrt(squares);
}

void reference_delta_backward(const struct reference_delta *r)
{
    size_t size = r->key * r->value, stride = r->key_heads * r->key;
    double *dstate = calloc(size, sizeof(double)), *dq = calloc(r->key, sizeof(double)),
           *dk = calloc(r->key, sizeof(double));

    memset(r->dq, 0, r->rows * stride * sizeof(double));
    memset(r->dk, 0, r->rows * stride * sizeof(double));
    for (size_t i = 0; i < r->sequences * r->heads; i++) {
        struct head h = head_open(r, i / r->heads, i % r->heads);

        for (size_t t = 0; t < h.rows; t++)
            head_step(&h, t);
        memset(dstate, 0, size * sizeof(double));
        for (size_t t = h.rows; t-- > 0;) {
            size_t at =
                (h.first + t) * stride + h.head / (r->heads / r->key_heads) * r->key;

            memset(dq, 0, r->key * sizeof(double));
            memset(dk, 0, r->key * sizeof(double));
            head_step_backward(&h, t, dstate, dq, dk);
            normalize_backward(&h, r->q + at, dq, r->dq + at, 1 / sqrt((double)r->key));
            normalize_backward(&h, r->k + at, dk, r->dk + at, 1);
        }
        head_close(&h);
    }
    free(dstate);
    free(dq);
    free(dk);
}
