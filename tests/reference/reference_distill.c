/* tests/reference/reference_distill.c - a student and its teacher, by the formula in
 * kernels/ops.h. */
#include "config.h"

#include "tests/reference/reference.h"

#include <math.h>
#include <stdlib.h>

/* The logits of one row, and their probabilities. */
struct row {
    double *z, *t;    /* of the student and the teacher; t -inf: not kept */
    double *p, *q;    /* softmax over T, of the tokens both have */
    double *gradient; /* of the loss, with respect to z */
};

static void put_logits(const double *x, const double *w, const double *bias, size_t words,
                       size_t cols, double softcap, double *out)
{
    for (size_t v = 0; v < words; v++) {
        out[v] = bias ? bias[v] : 0;
        for (size_t c = 0; c < cols; c++)
            out[v] += x[c] * w[v * cols + c];
        if (softcap > 0)
            out[v] = softcap * tanh(out[v] / softcap);
    }
}

static void put_softmax(const double *x, size_t count, double temperature, double *out)
{
    double top = -INFINITY, sum = 0;

    for (size_t v = 0; v < count; v++)
        top = fmax(top, x[v]);
    for (size_t v = 0; v < count; v++)
        sum += out[v] = exp((x[v] - top) / temperature);
    for (size_t v = 0; v < count; v++)
        out[v] /= sum;
}

static double times_log(double a, double b, double c) /* a log(b / c) */
{
    return a == 0 ? 0 : a * log(b / c);
}

/* D with respect to each p */
static double distance(const struct reference_distill *r, const struct row *row,
                       double *by_p)
{
    double beta = r->beta, sum = 0;

    for (size_t v = 0; v < r->shared; v++) {
        double p = row->p[v], q = row->q[v], m = beta * q + (1 - beta) * p;

        if (beta == 0) {
            sum += times_log(q, q, p);
            by_p[v] = -q / p;
        } else if (beta == 1) {
            sum += times_log(p, p, q);
            by_p[v] = log(p / q) + 1;
        } else {
            sum += beta * times_log(q, q, m) + (1 - beta) * times_log(p, p, m);
            by_p[v] = (1 - beta) * log(p / m); /* the rest is 1 - beta for all */
        }
    }
    return sum;
}

/* Loss and its gradient with respect to z: through the softmax, dz_i = p_i (g_i - sum p
 * g) / T */
static void refer_loss(const struct reference_distill *r, size_t n, struct row *row)
{
    double warm = r->temperature, ratio = r->ratio, mean = 0;
    double weight = r->student.weights ? r->student.weights[n] : 1;
    double *by_p = calloc(r->student.words, sizeof(*by_p));
    double d, factor;

    put_softmax(row->z, r->shared, warm, row->p);
    put_softmax(row->t, r->shared, warm, row->q);
    d = distance(r, row, by_p);
    for (size_t v = 0; v < r->shared; v++)
        mean += row->p[v] * by_p[v];
    for (size_t v = 0; v < r->shared; v++)
        row->gradient[v] = weight * ratio * warm * row->p[v] * (by_p[v] - mean);
    r->kd_losses[n] = weight * warm * warm * d;
    put_softmax(row->z, r->student.words, 1, row->p);
    factor = r->student.kind == TOKEN_LOSS_DFT ? row->p[r->student.targets[n]] : 1;
    for (size_t v = 0; v < r->student.words; v++) {
        double even = r->student.smoothing / (double)r->student.words;
        double wanted =
            (v == (size_t)r->student.targets[n] ? 1 - r->student.smoothing : 0) + even;

        row->gradient[v] += weight * factor * (1 - ratio) * (row->p[v] - wanted);
        r->student.losses[n] -= weight * factor * wanted * log(row->p[v]);
    }
    free(by_p);
}

static void put_gradients(const struct reference_classifier *s, size_t n,
                          const double *gradient)
{
    for (size_t v = 0; s->dbias && v < s->words; v++)
        s->dbias[v] += s->grad_scale * gradient[v];
    for (size_t v = 0; s->dx && v < s->words; v++)
        for (size_t c = 0; c < s->cols; c++) {
            double g = s->grad_scale * gradient[v];

            s->dx[n * s->cols + c] += g * s->w[v * s->cols + c];
            s->dw[v * s->cols + c] += g * s->x[n * s->cols + c];
        }
}

static void refer_row(const struct reference_distill *r, size_t n, struct row *row)
{
    const struct reference_classifier *s = &r->student;

    put_logits(s->x + n * s->cols, s->w, s->bias, s->words, s->cols, s->softcap, row->z);
    if (r->ids) {
        for (size_t v = 0; v < r->shared; v++)
            row->t[v] = -INFINITY;
        for (size_t k = 0; k < r->kept; k++)
            row->t[r->ids[n * r->kept + k]] = r->values[n * r->kept + k];
    } else {
        put_logits(r->x + n * r->cols, r->w, r->bias, r->shared, r->cols, r->softcap,
                   row->t);
    }
    for (size_t v = 0; v < s->words; v++)
        row->gradient[v] = 0;
    refer_loss(r, n, row);
    for (size_t v = 0; s->softcap > 0 && v < s->words; v++)
        row->gradient[v] *= 1 - row->z[v] / s->softcap * row->z[v] / s->softcap;
    put_gradients(s, n, row->gradient);
}

void reference_distill(const struct reference_distill *r)
{
    const struct reference_classifier *s = &r->student;
    double *room = calloc(5 * s->words, sizeof(*room));
    struct row row = { room, room + s->words, room + 2 * s->words, room + 3 * s->words,
                       room + 4 * s->words };

    for (size_t n = 0; n < s->rows; n++) {
        s->losses[n] = r->kd_losses[n] = 0;
        for (size_t c = 0; s->dx && c < s->cols; c++)
            s->dx[n * s->cols + c] = 0;
        if (s->targets[n] >= 0)
            refer_row(r, n, &row);
    }
    free(room);
}
