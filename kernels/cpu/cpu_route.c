/* kernels/cpu/cpu_route.c - the router of a mixture of experts: scores, choice, the order
 * of the pairs, and the gradient of the logits. */
#include "config.h"

#include "base/random.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

#include <assert.h>

#include "kernels/route_math.h"

/* Room for a row of E experts in whole vectors. */
static float *row_scratch(struct pool_worker *worker, size_t experts)
{
    return pool_scratch(worker, size_round(experts, LANES) * sizeof(float));
}

static size_t rows_of_task(const struct op_route *op)
{
    return cpu_task_rows(8 * op->logits.cols);
}

static size_t counted_rows(const struct op_route *op)
{
    return op->rows ? size_min((size_t)*op->rows, op->logits.rows) : op->logits.rows;
}

/* The logits in fp32; in the lanes after the last, -inf. */
static void read_logits(float *out, struct tensor logits, size_t row)
{
    for (size_t i = 0; i < logits.cols; i += LANES) {
        size_t count = vec_count(i, logits.cols);
        vec x = vec_load(cpu_row(logits, row), logits.format, i, count);

        for (size_t lane = count; lane < LANES; lane++)
            x[lane] = -INFINITY;
        vec_put(out + i, x);
    }
}

static void softmax(float *out, const float *logits, size_t experts)
{
    vec most = vec_all(-INFINITY), sum = {};
    float largest, all;

    for (size_t i = 0; i < experts; i += LANES)
        most = vec_max(most, vec_get(logits + i));
    largest = vec_max_of(most);
    for (size_t i = 0; i < experts; i += LANES) {
        vec x = vec_exp(vec_get(logits + i) - largest);

        sum += x;
        vec_put(out + i, x);
    }
    all = vec_sum(sum);
    for (size_t i = 0; i < experts; i += LANES)
        vec_put(out + i, vec_get(out + i) / all);
}

static void sigmoid(float *out, const float *logits, size_t experts)
{
    for (size_t i = 0; i < experts; i += LANES)
        vec_put(out + i, 1.0f / (1.0f + vec_exp(-vec_get(logits + i))));
}

/* ---- The choice ---- */

/* What the row's choice is made from. */
struct route_row {
    const struct op_route *op;
    size_t row;
    float *logits, *scores;
    uint32_t *keys; /* of what the choice compares; 0: not eligible */
    int32_t *experts;
    float *weights;
};

static size_t largest_key(const uint32_t *keys, size_t count)
{
    size_t best = 0;

    for (size_t i = 1; i < count; i++)
        best = keys[i] > keys[best] ? i : best;
    return best;
}

/* Exclude the experts of all groups but the best. */
static void keep_groups(const struct route_row *r)
{
    size_t groups = r->op->groups, size = r->op->logits.cols / groups;
    uint32_t keys[EXPERTS_MAX];

    for (size_t g = 0; g < groups; g++)
        keys[g] = route_group_key(r->keys + g * size, size, r->op->group_pairs);
    for (size_t i = 0; i < r->op->groups_kept; i++)
        keys[largest_key(keys, groups)] = 0;
    for (size_t g = 0; g < groups; g++)
        if (keys[g] != 0)
            memset(r->keys + g * size, 0, size * sizeof(*r->keys));
}

static void choose(const struct route_row *r)
{
    size_t experts = r->op->logits.cols, chosen = r->op->weights.cols;
    const float *bias = r->op->bias.data;
    bool by_logit = r->op->kind == ROUTE_SOFTMAX && !bias && r->op->groups == 0;
    float sum = 0, factor = r->op->scale != 0 ? r->op->scale : 1;

    for (size_t e = 0; e < experts; e++)
        r->keys[e] =
            route_key(by_logit ? r->logits[e] : r->scores[e] + (bias ? bias[e] : 0));
    if (r->op->groups > 0)
        keep_groups(r);
    for (size_t j = 0; j < chosen; j++) {
        size_t e = largest_key(r->keys, experts);

        r->keys[e] = 0;
        r->experts[j] = (int32_t)e;
        r->weights[j] = r->scores[e];
        sum += r->scores[e];
    }
    for (size_t j = 0; j < chosen; j++)
        r->weights[j] = r->op->normalize
                            ? factor * (r->weights[j] / (sum + route_least_sum(r->op)))
                            : factor * r->weights[j];
}

/* The softmax over S in place of the logits, 0 elsewhere; returns the index of the
 * highest. */
static size_t mixer_softmax(const struct op_route *op, const float *logits,
                            int32_t before, float *out)
{
    size_t experts = op->logits.cols, best = SIZE_MAX;
    float sum = 0;

    for (size_t e = 0; e < experts; e++)
        if ((int32_t)e != before &&
            (best == SIZE_MAX || route_key(logits[e]) > route_key(logits[best])))
            best = e;
    for (size_t e = 0; e < size_round(experts, LANES); e++) {
        bool is_in = e < experts && (int32_t)e != before &&
                     route_mixer_has(logits[e], logits[best], op->jitter);

        out[e] = is_in ? logits[e] - logits[best] : -INFINITY;
    }
    for (size_t e = 0; e < experts; e += LANES) {
        vec x = vec_exp(vec_get(out + e));

        sum += vec_sum(x);
        vec_put(out + e, x);
    }
    for (size_t e = 0; e < experts; e++)
        out[e] /= sum;
    return best;
}

static float uniform(const struct route_row *r, size_t choice, size_t expert)
{
    uint64_t index = route_index(r->op, counted_rows(r->op), r->row, choice, expert);

    return route_uniform(random_bits(r->op->seed, RANDOM_ROUTING, r->op->stream, index));
}

static size_t mixer_sample(const struct route_row *r, size_t choice, const float *shares)
{
    size_t best = SIZE_MAX;
    float most = 0;

    for (size_t e = 0; e < r->op->logits.cols; e++) {
        float z;

        if (shares[e] == 0)
            continue;
        z = r->logits[e] - logf(-logf(uniform(r, choice, e)));
        if (best == SIZE_MAX || route_key(z) > route_key(most)) {
            best = e;
            most = z;
        }
    }
    return best;
}

static void mixer_choose(const struct route_row *r)
{
    const struct op_route *op = r->op;
    int32_t before = -1;

    for (size_t i = 0; i < 2; i++) {
        size_t best = mixer_softmax(op, r->logits, before, r->scores), e = best;
        float factor = 1;

        if (op->sampled)
            e = mixer_sample(r, i, r->scores);
        if (e != best && uniform(r, i, op->logits.cols) <= 0.75f)
            factor = ROUTE_MIXER_FACTOR;
        r->experts[i] = before = (int32_t)e;
        r->weights[i] = factor * r->scores[e];
    }
}

static void route_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_route *op = context;
    size_t experts = op->logits.cols, chosen = op->weights.cols;
    size_t rows = rows_of_task(op), counted = counted_rows(op);
    struct route_row r = { .op = op,
                           .logits = row_scratch(worker, experts),
                           .scores = row_scratch(worker, experts),
                           .keys = (uint32_t *)row_scratch(worker, experts) };

    for (r.row = task * rows; r.row < size_min((task + 1) * rows, op->logits.rows);
         r.row++) {
        float *probabilities = cpu_row(op->probabilities, r.row);

        r.experts = op->experts + r.row * chosen;
        r.weights = cpu_row(op->weights, r.row);
        read_logits(r.logits, op->logits, r.row);
        if (op->kind == ROUTE_SPARSEMIXER)
            mixer_choose(&r);
        if (op->kind == ROUTE_SIGMOID)
            sigmoid(r.scores, r.logits, experts);
        else
            softmax(r.scores, r.logits, experts);
        if (op->kind != ROUTE_SPARSEMIXER)
            choose(&r);
        if (r.row < counted)
            memcpy(probabilities, r.scores, experts * sizeof(*probabilities));
        else
            memset(probabilities, 0, experts * sizeof(*probabilities));
    }
}

/* SPARSEMIXER: count the experts that would be chosen without sampling. */
static void count_best(const struct op_route *op)
{
    for (size_t row = 0; row < counted_rows(op); row++) {
        size_t best[2];

        route_two_best(cpu_row(op->probabilities, row), op->logits.cols, best);
        op->counts[best[0]]++;
        op->counts[best[1]]++;
    }
}

/* Sort the pairs by counting.  One task: a few increments for each pair. */
static void sort_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_route *op = context;
    size_t experts = op->logits.cols, chosen = op->weights.cols;
    size_t pairs = op->logits.rows * chosen, counted = counted_rows(op) * chosen;
    bool counts = op->counts && op->kind != ROUTE_SPARSEMIXER;
    int32_t next[EXPERTS_MAX] = { 0 }, sum = 0;

    (void)task;
    (void)worker;
    for (size_t p = 0; p < pairs; p++) {
        next[op->experts[p]]++;
        if (p < counted && counts)
            op->counts[op->experts[p]]++;
    }
    for (size_t e = 0; e < experts; e++) {
        int32_t count = next[e];

        op->starts[e] = next[e] = sum;
        sum += count;
    }
    op->starts[experts] = sum;
    if (op->counts && !counts)
        count_best(op);
    for (size_t p = 0; p < pairs; p++) {
        int32_t slot = next[op->experts[p]]++;

        op->order[slot] = (int32_t)p;
        op->slots[p] = slot;
    }
}

void CPU_OP(route)(struct backend *be, const struct op_route *op)
{
    assert(route_is_valid(op));
    cpu_backend_run(be, size_divide_up(op->logits.rows, rows_of_task(op)), route_task,
                    (void *)op);
    cpu_backend_run(be, 1, sort_task, (void *)op);
}

/* ---- The gradient ---- */

struct route_gradient {
    const struct op_route_backward *op;
    float balance; /* of the load balancing loss, for each count */
};

/* The gradient of the scores from that of the weights. */
static void score_gradient(const struct route_gradient *g, size_t row, float *out)
{
    const struct op_route *forward = &g->op->forward;
    size_t chosen = forward->weights.cols;
    const int32_t *experts = forward->experts + row * chosen;
    const float *dweights = cpu_row(g->op->dweights, row);
    const float *weights = cpu_row(forward->weights, row);
    const float *scores = cpu_row(forward->probabilities, row);
    float factor = forward->scale != 0 ? forward->scale : 1, sum = 0, inner = 0;

    for (size_t j = 0; j < chosen; j++) {
        sum += scores[experts[j]];
        inner += dweights[j] * weights[j];
    }
    sum += route_least_sum(forward);
    for (size_t j = 0; j < chosen; j++)
        out[experts[j]] += forward->normalize ? (factor * dweights[j] - inner) / sum
                                              : factor * dweights[j];
}

/* out = p (out - sum of p out), the gradient of the logits of a softmax. */
static void softmax_gradient(float *out, const float *p, size_t experts)
{
    vec inner = {};
    float sum;

    for (size_t i = 0; i < experts; i += LANES) {
        size_t count = vec_count(i, experts);

        inner += vec_load(p, FORMAT_FP32, i, count) * vec_get(out + i);
    }
    sum = vec_sum(inner);
    for (size_t i = 0; i < experts; i += LANES) {
        size_t count = vec_count(i, experts);

        vec_put(out + i, vec_load(p, FORMAT_FP32, i, count) * (vec_get(out + i) - sum));
    }
}

static void mixer_gradient(const struct op_route_backward *op, size_t row, float *logits,
                           float *shares, float *out)
{
    const float *dweights = cpu_row(op->dweights, row);
    const int32_t *experts = op->forward.experts + 2 * row;

    read_logits(logits, op->forward.logits, row);
    for (size_t i = 0; i < 2; i++) {
        float g;

        mixer_softmax(&op->forward, logits, i == 0 ? -1 : experts[0], shares);
        g = dweights[i] * shares[experts[i]];
        out[experts[i]] += g;
        for (size_t e = 0; e < op->dlogits.cols; e++)
            out[e] -= shares[e] * g;
    }
}

static void row_gradient(const struct route_gradient *g, size_t row, float *const room[3])
{
    const struct op_route *forward = &g->op->forward;
    size_t experts = g->op->dlogits.cols;
    const float *p = cpu_row(forward->probabilities, row);
    float *out = room[0];

    for (size_t e = 0; e < size_round(experts, LANES); e++)
        out[e] =
            g->balance != 0 && e < experts ? g->balance * (float)forward->counts[e] : 0;
    if (forward->kind != ROUTE_SPARSEMIXER)
        score_gradient(g, row, out);
    if (forward->kind == ROUTE_SIGMOID)
        for (size_t e = 0; e < experts; e++)
            out[e] *= p[e] * (1 - p[e]);
    else
        softmax_gradient(out, p, experts);
    if (forward->kind == ROUTE_SPARSEMIXER)
        mixer_gradient(g->op, row, room[1], room[2], out);
}

static void route_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct route_gradient *g = context;
    struct tensor dlogits = g->op->dlogits;
    size_t experts = dlogits.cols, rows = rows_of_task(&g->op->forward);
    float *const room[3] = { row_scratch(worker, experts), row_scratch(worker, experts),
                             row_scratch(worker, experts) };

    for (size_t row = task * rows; row < size_min((task + 1) * rows, dlogits.rows);
         row++) {
        row_gradient(g, row, room);
        for (size_t i = 0; i < experts; i += LANES)
            vec_store(cpu_row(dlogits, row), dlogits.format, i, vec_count(i, experts),
                      vec_get(room[0] + i));
    }
}

void CPU_OP(route_backward)(struct backend *be, const struct op_route_backward *op)
{
    struct route_gradient g = { .op = op,
                                .balance =
                                    route_balance(op, counted_rows(&op->forward)) };

    assert(g.balance == 0 || op->forward.kind != ROUTE_SIGMOID);
    cpu_backend_run(be, size_divide_up(op->dlogits.rows, rows_of_task(&op->forward)),
                    route_backward_task, &g);
}
