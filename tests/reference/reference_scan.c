/* tests/reference/reference_scan.c - the selective scan of Mamba-2, row by row, and its
 * gradients, in double. */
#include "config.h"

#include "tests/reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A head in one sequence. */
struct head {
    const struct reference_scan *r;
    size_t head, group, first, rows;
    double *states; /* (rows + 1, size, depth) */
};

struct step {
    double step, slope, fade;
};

static struct step step_of(const struct head *h, size_t t)
{
    const struct reference_scan *r = h->r;
    double dt = r->dt[(h->first + t) * r->heads + h->head] + r->bias[h->head];
    struct step s = { dt > 20 ? dt : log1p(exp(dt)), dt > 20 ? 1 : 1 / (1 + exp(-dt)),
                      0 };

    if (s.step < r->low || s.step > r->high)
        s = (struct step) { s.step < r->low ? r->low : r->high, 0, 0 };
    s.fade = exp(-exp(r->a_log[h->head]) * s.step);
    return s;
}

static const double *row_of(const struct head *h, const double *x, size_t t)
{
    return x + ((h->first + t) * h->r->groups + h->group) * h->r->depth;
}

static struct head head_open(const struct reference_scan *r, size_t s, size_t head)
{
    struct head h = { .r = r,
                      .head = head,
                      .group = head / (r->heads / r->groups),
                      .first = (size_t)r->offsets[s],
                      .rows = (size_t)(r->offsets[s + 1] - r->offsets[s]) };

    h.states = calloc((h.rows + 1) * r->size * r->depth, sizeof(double));
    return h;
}

/* The state after row t. */
static void head_step(const struct head *h, size_t t)
{
    const struct reference_scan *r = h->r;
    const double *x = r->x + ((h->first + t) * r->heads + h->head) * r->size;
    const double *b = row_of(h, r->b, t), *before = h->states + t * r->size * r->depth;
    double *after = h->states + (t + 1) * r->size * r->depth;
    struct step s = step_of(h, t);

    for (size_t i = 0; i < r->size * r->depth; i++)
        after[i] = s.fade * before[i] + s.step * x[i / r->depth] * b[i % r->depth];
}

void reference_scan(const struct reference_scan *r)
{
    size_t size = r->size * r->depth;

    for (size_t i = 0; i < r->sequences * r->heads; i++) {
        struct head h = head_open(r, i / r->heads, i % r->heads);

        if (r->state && r->resumes)
            memcpy(h.states, r->state + i * size, size * sizeof(double));
        for (size_t t = 0; t < h.rows; t++) {
            size_t at = ((h.first + t) * r->heads + h.head) * r->size;
            const double *c = row_of(&h, r->c, t);

            head_step(&h, t);
            for (size_t p = 0; p < r->size; p++) {
                double sum = r->skip[h.head] * r->x[at + p];

                for (size_t d = 0; d < r->depth; d++)
                    sum += h.states[(t + 1) * size + p * r->depth + d] * c[d];
                r->out[at + p] = sum;
            }
        }
        if (r->state)
            memcpy(r->state + i * size, h.states + h.rows * size, size * sizeof(double));
        free(h.states);
    }
}

/* Back through a row: dstate is the gradient of S after it, then of S before it. */
static void head_step_backward(const struct head *h, size_t t, double *dstate)
{
    const struct reference_scan *r = h->r;
    size_t row = h->first + t, at = (row * r->heads + h->head) * r->size;
    size_t group = (row * r->groups + h->group) * r->depth;
    const double *before = h->states + t * r->size * r->depth;
    const double *after = before + r->size * r->depth;
    double rate = -exp(r->a_log[h->head]), dstep = 0, ddecay = 0, ddt;
    struct step s = step_of(h, t);

    for (size_t p = 0; p < r->size; p++) {
        double dout = r->dout[at + p], x = r->x[at + p];

        r->dx[at + p] = r->skip[h->head] * dout;
        r->dskip[h->head] += dout * x;
        for (size_t d = 0; d < r->depth; d++) {
            double *slope = &dstate[p * r->depth + d], b = r->b[group + d];

            r->dc[group + d] += dout * after[p * r->depth + d];
            *slope += dout * r->c[group + d];
            r->dx[at + p] += *slope * s.step * b;
            r->db[group + d] += *slope * s.step * x;
            dstep += *slope * x * b;
            *slope *= s.fade;
            ddecay += *slope * before[p * r->depth + d];
        }
    }
    ddt = (dstep + ddecay * rate) * s.slope;
    r->ddt[row * r->heads + h->head] = ddt;
    r->dbias[h->head] += ddt;
    r->da_log[h->head] += ddecay * rate * s.step;
}

void reference_scan_backward(const struct reference_scan *r)
{
    double *dstate = calloc(r->size * r->depth, sizeof(double));

    memset(r->db, 0, r->rows * r->groups * r->depth * sizeof(double));
    memset(r->dc, 0, r->rows * r->groups * r->depth * sizeof(double));
    for (size_t i = 0; i < r->sequences * r->heads; i++) {
        struct head h = head_open(r, i / r->heads, i % r->heads);

        for (size_t t = 0; t < h.rows; t++)
            head_step(&h, t);
        memset(dstate, 0, r->size * r->depth * sizeof(double));
        for (size_t t = h.rows; t-- > 0;)
            head_step_backward(&h, t, dstate);
        free(h.states);
    }
    free(dstate);
}
