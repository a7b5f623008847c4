/* tests/reference/reference_experts.c - a mixture of experts in double. */
#include "config.h"

#include "tests/reference/reference_experts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "tests/reference/reference.h"

static double least_sum(const struct op_route *op)
{
    return op->least_sum > 0 ? op->least_sum : 1e-20;
}

static size_t counted_rows(const struct op_route *op)
{
    return op->rows && *op->rows < op->logits.rows ? (size_t)*op->rows : op->logits.rows;
}

/* Softmax over the elements that are included. */
static void softmax(const double *z, const bool *included, size_t count, double *out)
{
    double most = -INFINITY, sum = 0;

    for (size_t i = 0; i < count; i++)
        if (!included || included[i])
            most = fmax(most, z[i]);
    for (size_t i = 0; i < count; i++) {
        out[i] = !included || included[i] ? exp(z[i] - most) : 0;
        sum += out[i];
    }
    for (size_t i = 0; i < count; i++)
        out[i] /= sum;
}

/* Return the first of the largest that are not excluded. */
static size_t largest(const double *x, const bool *excluded, size_t count)
{
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < count; i++)
        if (!excluded[i] && (best == SIZE_MAX || x[i] > x[best]))
            best = i;
    return best;
}

/* ---- Routing ---- */

static void exclude_groups(const struct op_route *op, const double *choice,
                           bool *excluded)
{
    size_t size = op->logits.cols / op->groups;
    double *scores = calloc(op->groups, sizeof(*scores));
    bool *kept = calloc(op->groups, sizeof(*kept));

    for (size_t g = 0; g < op->groups; g++) {
        bool *taken = calloc(size, sizeof(*taken));

        for (size_t i = 0; i < (op->group_pairs && size > 1 ? 2u : 1u); i++) {
            size_t best = largest(choice + g * size, taken, size);

            scores[g] += choice[g * size + best];
            taken[best] = true;
        }
        free(taken);
    }
    for (size_t i = 0; i < op->groups_kept; i++)
        kept[largest(scores, kept, op->groups)] = true;
    for (size_t e = 0; e < op->logits.cols; e++)
        excluded[e] = !kept[e / size];
    free(scores);
    free(kept);
}

static void route_row(const struct reference_route *r, size_t row)
{
    const struct op_route *op = r->op;
    size_t experts = op->logits.cols, chosen = op->weights.cols;
    const double *z = r->logits + row * experts;
    double *scores = r->probabilities + row * experts;
    double *choice = calloc(experts, sizeof(*choice)), sum = 0;
    bool *excluded = calloc(experts, sizeof(*excluded));

    softmax(z, NULL, experts, scores);
    for (size_t e = 0; e < experts; e++) {
        if (op->kind == ROUTE_SIGMOID)
            scores[e] = 1 / (1 + exp(-z[e]));
        choice[e] = scores[e] + (r->bias ? r->bias[e] : 0);
    }
    if (op->groups > 0)
        exclude_groups(op, choice, excluded);
    for (size_t j = 0; j < chosen; j++) {
        size_t best = largest(choice, excluded, experts);

        excluded[best] = true;
        r->experts[row * chosen + j] = (int32_t)best;
        sum += scores[best];
    }
    for (size_t j = 0; j < chosen; j++)
        r->weights[row * chosen + j] = scores[r->experts[row * chosen + j]] *
                                       (op->scale != 0 ? (double)op->scale : 1) /
                                       (op->normalize ? sum + least_sum(op) : 1);
    free(choice);
    free(excluded);
}

/* Write the softmax over S; return the highest. */
static size_t mixer_set(const struct op_route *op, const double *z, int32_t before,
                        double *shares)
{
    size_t experts = op->logits.cols, best;
    bool *excluded = calloc(experts, sizeof(*excluded));
    bool *included = calloc(experts, sizeof(*included));

    if (before >= 0)
        excluded[before] = true;
    best = largest(z, excluded, experts);
    for (size_t e = 0; e < experts; e++)
        included[e] = !excluded[e] && (z[best] - z[e]) / fmax(fabs(z[e]), z[best]) <=
                                          2 * (double)op->jitter;
    softmax(z, included, experts, shares);
    free(excluded);
    free(included);
    return best;
}

static double uniform(const struct op_route *op, size_t row, size_t choice, size_t expert)
{
    uint64_t draw = op->draw ? *op->draw : 0;
    uint64_t index = ((draw * counted_rows(op) + row) * 2 + choice);
    uint32_t bits = random_bits(op->seed, RANDOM_ROUTING, op->stream,
                                index * (op->logits.cols + 1) + expert);

    return ((bits >> 9) + 0.5) / (1 << 23);
}

/* transformers, load_balancing_loss_func: of the two highest, whatever was sampled. */
static void count_best(const struct reference_route *r, const double *p, size_t experts)
{
    bool *counted = calloc(experts, sizeof(*counted));

    for (size_t i = 0; i < 2; i++) {
        size_t best = largest(p, counted, experts);

        counted[best] = true;
        r->counts[best]++;
    }
    free(counted);
}

static void mixer_row(const struct reference_route *r, size_t row)
{
    const struct op_route *op = r->op;
    size_t experts = op->logits.cols;
    const double *z = r->logits + row * experts;
    double *shares = calloc(experts, sizeof(*shares));

    for (size_t i = 0; i < 2; i++) {
        size_t best = mixer_set(op, z, i == 0 ? -1 : r->experts[2 * row], shares),
               e = best;
        double most = -INFINITY;

        for (size_t k = 0; op->sampled && k < experts; k++) {
            double noisy = z[k] - log(-log(uniform(op, row, i, k)));

            if (shares[k] > 0 && noisy > most) {
                most = noisy;
                e = k;
            }
        }
        r->experts[2 * row + i] = (int32_t)e;
        r->weights[2 * row + i] = shares[e];
        if (e != best && uniform(op, row, i, experts) <= 0.75)
            r->weights[2 * row + i] *= 0.3333;
    }
    softmax(z, NULL, experts, r->probabilities + row * experts);
    if (r->counts && row < counted_rows(op))
        count_best(r, r->probabilities + row * experts, experts);
    free(shares);
}

void reference_route(const struct reference_route *r)
{
    size_t rows = r->op->logits.rows, experts = r->op->logits.cols;
    size_t chosen = r->op->weights.cols, counted = counted_rows(r->op), slot = 0;

    for (size_t row = 0; row < rows; row++) {
        if (r->op->kind == ROUTE_SPARSEMIXER)
            mixer_row(r, row);
        else
            route_row(r, row);
        for (size_t e = 0; e < experts && row >= counted; e++)
            r->probabilities[row * experts + e] = 0;
    }
    for (size_t e = 0; e < experts; e++) {
        r->starts[e] = (int32_t)slot;
        for (size_t p = 0; p < rows * chosen; p++)
            if (r->experts[p] == (int32_t)e) {
                r->order[slot] = (int32_t)p;
                r->slots[p] = (int32_t)slot++;
                if (r->counts && p < counted * chosen && r->op->kind != ROUTE_SPARSEMIXER)
                    r->counts[e]++;
            }
    }
    r->starts[experts] = (int32_t)slot;
}

/* ---- The gradient ---- */

/* dz += p (g - sum of p g) */
static void softmax_gradient(const double *p, const double *g, size_t count, double *dz)
{
    double inner = 0;

    for (size_t i = 0; i < count; i++)
        inner += p[i] * g[i];
    for (size_t i = 0; i < count; i++)
        dz[i] += p[i] * (g[i] - inner);
}

static void mixer_row_gradient(const struct reference_route_backward *r, size_t row)
{
    const struct op_route *op = &r->op->forward;
    size_t experts = op->logits.cols;
    double *shares = calloc(experts, sizeof(*shares));
    const int32_t *chosen = r->forward.experts + 2 * row;

    for (size_t i = 0; i < 2; i++) {
        double *g = calloc(experts, sizeof(*g));

        mixer_set(op, r->forward.logits + row * experts, i == 0 ? -1 : chosen[0], shares);
        g[chosen[i]] = r->dweights[2 * row + i];
        softmax_gradient(shares, g, experts, r->dlogits + row * experts);
        free(g);
    }
    free(shares);
}

static void row_gradient(const struct reference_route_backward *r, size_t row, double *g)
{
    const struct op_route *op = &r->op->forward;
    size_t experts = op->logits.cols, chosen = op->weights.cols;
    const double *scores = r->forward.probabilities + row * experts;
    double sum = least_sum(op), inner = 0, scale = op->scale != 0 ? (double)op->scale : 1;

    for (size_t j = 0; j < chosen; j++) {
        size_t p = row * chosen + j;

        sum += scores[r->forward.experts[p]];
        inner += r->dweights[p] * scores[r->forward.experts[p]];
    }
    for (size_t j = 0; j < chosen; j++) {
        size_t p = row * chosen + j;

        g[r->forward.experts[p]] +=
            op->normalize ? scale * (r->dweights[p] / sum - inner / (sum * sum))
                          : scale * r->dweights[p];
    }
}

static double balance_factor(const struct reference_route_backward *r)
{
    const struct op_route *op = &r->op->forward;
    double rows = (double)(r->op->layers * counted_rows(op));

    return (double)r->op->coefficient * (double)op->logits.cols / (rows * rows) *
           (r->op->factor ? (double)*r->op->factor : 1);
}

void reference_route_backward(const struct reference_route_backward *r)
{
    const struct op_route *op = &r->op->forward;
    size_t experts = op->logits.cols;
    double *g = calloc(experts, sizeof(*g));

    for (size_t row = 0; row < op->logits.rows; row++) {
        const double *p = r->forward.probabilities + row * experts;
        double *dz = r->dlogits + row * experts;

        for (size_t e = 0; e < experts; e++) {
            dz[e] = 0;
            g[e] = r->op->coefficient != 0 ? balance_factor(r) * r->forward.counts[e] : 0;
        }
        if (op->kind == ROUTE_SPARSEMIXER)
            mixer_row_gradient(r, row);
        else
            row_gradient(r, row, g);
        if (op->kind != ROUTE_SIGMOID)
            softmax_gradient(p, g, experts, dz);
        for (size_t e = 0; e < experts && op->kind == ROUTE_SIGMOID; e++)
            dz[e] = p[e] * (1 - p[e]) * g[e];
    }
    free(g);
}

double reference_balance(const struct reference_route_backward *r)
{
    size_t experts = r->op->forward.logits.cols;
    double sum = 0;

    for (size_t row = 0; row < r->op->forward.logits.rows; row++)
        for (size_t e = 0; e < experts; e++)
            sum += r->forward.counts[e] * r->forward.probabilities[row * experts + e];
    return sum * balance_factor(r);
}

/* ---- Matmuls and rows ---- */

void reference_grouped_matmul(const struct reference_grouped_matmul *r)
{
    for (size_t g = 0; g < r->groups; g++) {
        size_t first = (size_t)r->starts[g], rows = (size_t)r->starts[g + 1] - first;
        struct reference_matmul one = {
            .rows = r->trans_a ? r->inner : rows,
            .cols = r->cols,
            .depth = r->trans_a ? rows : r->inner,
            .a = r->a + first * r->inner,
            .b = r->b + (r->trans_a ? first * r->cols : g * r->inner * r->cols),
            .trans_a = r->trans_a,
            .trans_b = r->trans_b,
            .alpha = r->alpha,
            .beta = r->beta,
            .out = r->out + (r->trans_a ? g * r->inner * r->cols : first * r->cols)
        };

        reference_matmul(&one);
    }
}

void reference_combine(const struct reference_combine *r)
{
    for (size_t i = 0; i < r->rows * r->cols; i++) {
        size_t row = i / r->cols;

        r->out[i] = r->base ? r->base[i] : 0;
        for (size_t j = 0; j < r->chosen; j++) {
            size_t pair = row * r->chosen + j;

            r->out[i] += (r->weights ? r->weights[pair] : 1) *
                         r->y[(size_t)r->slots[pair] * r->cols + i % r->cols];
        }
    }
}

void reference_combine_backward(const struct reference_combine *r)
{
    for (size_t pair = 0; pair < r->rows * r->chosen; pair++) {
        const double *dout = r->dout + pair / r->chosen * r->cols;
        size_t slot = (size_t)r->slots[pair];

        if (r->dweights)
            r->dweights[pair] = 0;
        for (size_t c = 0; c < r->cols; c++) {
            if (r->dweights)
                r->dweights[pair] += dout[c] * r->y[slot * r->cols + c];
            r->dy[slot * r->cols + c] = r->weights[pair] * dout[c];
        }
    }
}
