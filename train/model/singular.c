/*
 * train/model/singular.c - the largest singular values of a matrix, and their vectors.
 *
 * "Inner" is the shorter side of the matrix, "outer" the longer: then a full basis of the
 * inner side is exact.  With inner vectors v and outer vectors u:
 *     a v[j] = beta[j-1] u[j-1] + alpha[j] u[j],  a^T u[j] = alpha[j] v[j] + beta[j] v[j+1]
 */
#include "config.h"

#include "train/model/singular.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/random.h"
#include "base/size.h"
#include "base/spread.h"

enum { SWEEPS_MAX = 60, SEED = 1 };
/* multiplications that are worth starting a thread */
#define GRAIN ((size_t)1 << 19)

struct work {
    const float *a;
    size_t rows, cols, inner, outer;
    size_t steps, room;    /* vectors made; vectors that u and v hold */
    double *u, *v;         /* one vector after the other */
    double *alpha, *beta;  /* of each step */
    double *small, *turns; /* (steps, steps): B, then its left vectors; right ones */
    double *values;        /* of B */
    size_t *order;         /* of values, descending */
};

static double dot(const double *a, const double *b, size_t count)
{
    double sums[4] = { 0 };
    size_t i = 0;

    for (; i + 4 <= count; i += 4)
        for (size_t j = 0; j < 4; j++)
            sums[j] += a[i + j] * b[i + j];
    for (; i < count; i++)
        sums[0] += a[i] * b[i];
    return sums[0] + sums[1] + (sums[2] + sums[3]);
}

static void add(double *to, double factor, const double *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += factor * from[i];
}

/* A product of the matrix and a vector, which threads divide by its elements: each is summed
 * in the order of one thread. */
struct product {
    const struct work *work;
    const double *x;
    double *out;
};

/* Return how many elements of a product are worth a thread. */
static size_t grain_of(size_t length)
{
    return size_round(size_divide_up(GRAIN, length), 64);
}

static void multiply_rows(void *context, size_t from, size_t to)
{
    const struct product *p = context;
    const struct work *w = p->work;
    const double *x = p->x;

    for (size_t row = from; row < to; row++) {
        const float *a = w->a + row * w->cols;
        double sums[8] = { 0 };
        size_t i = 0;

        for (; i + 8 <= w->cols; i += 8)
            for (size_t j = 0; j < 8; j++)
                sums[j] += (double)a[i + j] * x[i + j];
        for (; i < w->cols; i++)
            sums[0] += (double)a[i] * x[i];
        p->out[row] = sums[0] + sums[1] + (sums[2] + sums[3]) +
                      (sums[4] + sums[5] + (sums[6] + sums[7]));
    }
}

/* out (rows) = a x */
static void multiply(const struct work *w, const double *x, double *out)
{
    spread_each(w->rows, grain_of(w->cols), multiply_rows,
                &(struct product) { w, x, out });
}

static void multiply_columns(void *context, size_t from, size_t to)
{
    const struct product *p = context;
    const struct work *w = p->work;
    double *out = p->out;

    for (size_t row = 0; row < w->rows; row++) {
        const float *a = w->a + row * w->cols;
        double x = p->x[row];

        for (size_t i = from; i < to; i++)
            out[i] += x * (double)a[i];
    }
}

/* out (cols) = a^T x */
static void multiply_transposed(const struct work *w, const double *x, double *out)
{
    memset(out, 0, w->cols * sizeof(*out));
    spread_each(w->cols, grain_of(w->rows), multiply_columns,
                &(struct product) { w, x, out });
}

/* From the inner side to the outer one, and back. */
static void to_outer(const struct work *w, const double *x, double *out)
{
    if (w->inner == w->cols)
        multiply(w, x, out);
    else
        multiply_transposed(w, x, out);
}

static void to_inner(const struct work *w, const double *x, double *out)
{
    if (w->inner == w->cols)
        multiply_transposed(w, x, out);
    else
        multiply(w, x, out);
}

/* Remove what a vector has of `count` unit vectors; twice is enough (Kahan). */
static double orthogonalize(const double *basis, size_t count, double *x, size_t size)
{
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < count; i++)
            add(x, -dot(basis + i * size, x, size), basis + i * size, size);
    return sqrt(dot(x, x, size));
}

/* Make x a unit vector that is orthogonal to `count` others, and return the norm that it
 * had; 0: nothing was left of it, and it is a random direction. */
static double next_vector(const double *basis, size_t count, double *x, size_t size,
                          double least)
{
    double norm = orthogonalize(basis, count, x, size), length = norm;

    if (!(norm > least)) {
        norm = 0;
        for (size_t i = 0; i < size; i++)
            x[i] = random_normal(SEED, RANDOM_INIT, (uint32_t)count, i);
        length = orthogonalize(basis, count, x, size);
    }
    for (size_t i = 0; length > 0 && i < size; i++)
        x[i] /= length;
    return norm;
}

static void hold(struct work *w, size_t room)
{
    if (room <= w->room)
        return;
    w->u = memory_resize(w->u, room * w->outer, sizeof(double));
    w->v = memory_resize(w->v, (room + 1) * w->inner, sizeof(double));
    w->alpha = memory_resize(w->alpha, room, sizeof(double));
    w->beta = memory_resize(w->beta, room, sizeof(double));
    w->room = room;
}

/* Continue to `steps` steps. */
static void bidiagonalize(struct work *w, size_t steps)
{
    double least = w->steps > 0 ? 1e-14 * w->alpha[0] : 0;

    hold(w, steps);
    if (w->steps == 0) {
        memset(w->v, 0, w->inner * sizeof(*w->v));
        next_vector(w->v, 0, w->v, w->inner, 0);
    }
    for (size_t j = w->steps; j < steps; j++) {
        double *u = w->u + j * w->outer, *v = w->v + (j + 1) * w->inner;

        to_outer(w, w->v + j * w->inner, u);
        w->alpha[j] = next_vector(w->u, j, u, w->outer, least);
        least = j == 0 ? 1e-14 * w->alpha[0] : least;
        to_inner(w, u, v);
        if (j + 1 < w->inner)
            w->beta[j] = next_vector(w->v, j + 1, v, w->inner, least);
        else
            w->beta[j] = 0; /* the basis is complete */
    }
    w->steps = steps;
}

/* Rotate columns i and j of B, and of the right vectors, until they are orthogonal; return
 * whether they were not. */
static bool rotate(struct work *w, size_t i, size_t j)
{
    size_t n = w->steps;
    double *a = w->small + i * n, *b = w->small + j * n;
    double aa = dot(a, a, n), bb = dot(b, b, n), ab = dot(a, b, n), t, c, s;
    double *columns[2][2] = { { a, b }, { w->turns + i * n, w->turns + j * n } };

    if (!(fabs(ab) > 1e-15 * sqrt(aa * bb)))
        return false;
    t = (bb - aa) / (2 * ab);
    t = (t < 0 ? -1 : 1) / (fabs(t) + sqrt(1 + t * t));
    c = 1 / sqrt(1 + t * t);
    s = c * t;
    for (size_t k = 0; k < 2; k++)
        for (size_t r = 0; r < n; r++) {
            double x = columns[k][0][r], y = columns[k][1][r];

            columns[k][0][r] = c * x - s * y;
            columns[k][1][r] = s * x + c * y;
        }
    return true;
}

/* Jacobi's method on the columns of B (Hestenes, 1958). */
static void decompose_small(struct work *w)
{
    size_t n = w->steps;
    bool rotated = true;

    w->small = memory_resize(w->small, n * n, sizeof(double));
    w->turns = memory_resize(w->turns, n * n, sizeof(double));
    w->values = memory_resize(w->values, n, sizeof(double));
    w->order = memory_resize(w->order, n, sizeof(size_t));
    memset(w->small, 0, n * n * sizeof(double));
    memset(w->turns, 0, n * n * sizeof(double));
    for (size_t j = 0; j < n; j++) {
        w->small[j * n + j] = w->alpha[j];
        if (j > 0)
            w->small[j * n + j - 1] = w->beta[j - 1];
        w->turns[j * n + j] = 1;
    }
    for (int sweep = 0; rotated && sweep < SWEEPS_MAX; sweep++) {
        rotated = false;
        for (size_t i = 0; i < n; i++)
            for (size_t j = i + 1; j < n; j++)
                rotated = rotate(w, i, j) || rotated;
    }
    for (size_t j = 0; j < n; j++) {
        size_t at = j;

        w->values[j] = sqrt(dot(w->small + j * n, w->small + j * n, n));
        for (; at > 0 && w->values[w->order[at - 1]] < w->values[j]; at--)
            w->order[at] = w->order[at - 1];
        w->order[at] = j;
    }
}

/* The residual of a triplet is beta times the last element of the left vector of B. */
static bool has_converged(const struct work *w, size_t count, double tolerance)
{
    size_t n = w->steps;
    double least = tolerance * w->values[w->order[0]];

    for (size_t i = 0; i < count && n < w->inner; i++) {
        size_t column = w->order[i];
        double last = w->small[column * n + n - 1], value = w->values[column];

        if (!(w->beta[n - 1] * fabs(last) <= least * value))
            return false;
    }
    return true;
}

/* out (size) = sum over j of basis[j] factors[j] / by */
static void combine(const double *basis, const double *factors, const struct work *w,
                    size_t size, double by, double *out)
{
    for (size_t j = 0; j < w->steps; j++)
        add(out, by > 0 ? factors[j] / by : 0, basis + j * size, size);
}

struct singular singular_compute(const float *a, size_t rows, size_t cols, size_t count,
                                 double tolerance)
{
    struct work w = { .a = a,
                      .rows = rows,
                      .cols = cols,
                      .inner = rows < cols ? rows : cols,
                      .outer = rows < cols ? cols : rows };
    struct singular out = { .values = memory_alloc(count * sizeof(double)),
                            .left = memory_alloc(count * rows * sizeof(double)),
                            .right = memory_alloc(count * cols * sizeof(double)) };
    bool tall = w.inner == cols;
    size_t steps = 2 * count + 8;

    do {
        bidiagonalize(&w, steps < w.inner ? steps : w.inner);
        decompose_small(&w);
        steps += steps / 3;
    } while (!has_converged(&w, count, tolerance));
    for (size_t i = 0; i < count; i++) {
        size_t column = w.order[i], n = w.steps;

        out.values[i] = w.values[column];
        combine(w.u, w.small + column * n, &w, w.outer, w.values[column],
                tall ? out.left + i * rows : out.right + i * cols);
        combine(w.v, w.turns + column * n, &w, w.inner, 1,
                tall ? out.right + i * cols : out.left + i * rows);
    }
    free(w.u);
    free(w.v);
    free(w.alpha);
    free(w.beta);
    free(w.small);
    free(w.turns);
    free(w.values);
    free(w.order);
    return out;
}

void singular_clear(struct singular *singular)
{
    free(singular->values);
    free(singular->left);
    free(singular->right);
    *singular = (struct singular) { 0 };
}
