/* kernels/cpu/cpu_headlayer.c - LayerNorm of each head separately, and its gradients. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

#include <assert.h>

/*
 * Gradients of the parameters: the heads of a set share a weight, and are divided into slices
 * by shape alone.  A task is a slice of a set; it sums PART_HEADS heads before it adds them to
 * its total, and the totals are added in order.  SUMS_ROOM elements hold those of all slices of
 * a few sets.
 */
enum { SLICES = 64, PART_HEADS = 16, SUMS_ROOM = 1 << 16 };

/* A head of a row: its elements, and its statistics. */
struct cells {
    const void *x;
    enum format format;
    size_t first, size;
    float mean, rstd;
};

/* x of a head at a position, less its mean; 0 past its end. */
CPU_INLINE vec head_far(const struct cells *c, size_t at)
{
    size_t count = vec_count(at, c->size);
    vec far = vec_load(c->x, c->format, c->first + at, count) - c->mean;

    return __builtin_expect(count != LANES, 0) ? vec_first(far, count) : far;
}

static void find_stats(struct cells *c, float eps)
{
    vec sum = {}, squares = {}, far;

    c->mean = 0;
    for (size_t i = 0; i < c->size; i += LANES)
        sum += head_far(c, i);
    c->mean = vec_sum(sum) / (float)c->size;
    for (size_t i = 0; i < c->size; i += LANES) {
        far = head_far(c, i);
        squares += far * far;
    }
    c->rstd = 1 / sqrtf(vec_sum(squares) / (float)c->size + eps);
}

static void headlayer_row(const struct op_headlayer *op, size_t row)
{
    const struct tensor weight = op->weight, bias = op->bias;
    float *stats = cpu_row(op->stats, row);
    void *out = cpu_row(op->out, row);

    for (size_t head = 0; head < op->heads; head++) {
        struct cells c = {
            cpu_row(op->x, row), op->x.format, head * weight.cols, weight.cols, 0, 0
        };
        size_t of = weight.rows > 1 ? c.first : 0; /* its parameters */

        find_stats(&c, op->eps);
        stats[2 * head] = c.mean;
        stats[2 * head + 1] = c.rstd;
        for (size_t i = 0; i < c.size; i += LANES) {
            size_t count = vec_count(i, c.size);
            vec value = head_far(&c, i) * c.rstd *
                        vec_load(weight.data, weight.format, of + i, count);

            if (bias.data)
                value += vec_load(bias.data, bias.format, of + i, count);
            vec_store(out, op->out.format, c.first + i, count, value);
        }
    }
}

static void headlayer_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_headlayer *op = context;
    size_t rows = cpu_task_rows(op->x.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->x.rows); row++)
        headlayer_row(op, row);
}

void CPU_OP(headlayer)(struct backend *be, const struct op_headlayer *op)
{
    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)),
                    headlayer_task, (void *)op);
}

/* ---- Backward ---- */

struct head_back {
    struct cells c;
    const void *dout;
    void *dx;
    struct tensor weight;
    size_t of; /* where its weights start */
};

CPU_INLINE vec head_gradient(const struct head_back *b, size_t at)
{
    size_t count = vec_count(at, b->c.size);

    return vec_load(b->dout, b->c.format, b->c.first + at, count) *
           vec_load(b->weight.data, b->weight.format, b->of + at, count);
}

CPU_INLINE void add_to(float *sums, size_t at, size_t count, vec more)
{
    vec_store(sums, FORMAT_FP32, at, count,
              vec_load(sums, FORMAT_FP32, at, count) + more);
}

/* sums: those of the weights, then those of the biases; NULL: none.  dx may be dout. */
static void head_backward(const struct head_back *b, float *sums)
{
    const struct cells *c = &b->c;
    vec all = {}, along = {};
    float mean, slope;

    for (size_t i = 0; i < c->size; i += LANES) {
        vec g = head_gradient(b, i);

        all += g;
        along += g * head_far(c, i);
    }
    mean = vec_sum(all) / (float)c->size;
    slope = vec_sum(along) * c->rstd * c->rstd / (float)c->size;
    for (size_t i = 0; i < c->size; i += LANES) {
        size_t count = vec_count(i, c->size);
        vec by = vec_load(b->dout, c->format, c->first + i, count);
        vec far = head_far(c, i), g = head_gradient(b, i);

        if (sums) {
            add_to(sums, i, count, by * far * c->rstd);
            add_to(sums + c->size, i, count, by);
        }
        vec_store(b->dx, c->format, c->first + i, count,
                  (g - mean - far * slope) * c->rstd);
    }
}

struct headlayer_slices {
    const struct op_headlayer_backward *op;
    size_t sets, items; /* heads of each set */
    size_t first;       /* set of this run */
    size_t count, each; /* slices, and heads of one */
    float *sums;        /* (sets of this run, slices, 2 D); NULL: none */
};

static void item_backward(const struct headlayer_slices *s, size_t set, size_t item,
                          float *sums)
{
    const struct op_headlayer_backward *op = s->op;
    size_t head = item * s->sets + set, row = head / op->heads, size = op->weight.cols;
    const float *stats = cpu_row(op->stats, row);

    head %= op->heads;
    head_backward(
        &(struct head_back) { .c = { cpu_row(op->x, row), op->x.format, head * size, size,
                                     stats[2 * head], stats[2 * head + 1] },
                              .dout = cpu_row(op->dout, row),
                              .dx = cpu_row(op->dx, row),
                              .weight = op->weight,
                              .of = set * size },
        sums);
}

static void headlayer_backward_task(void *context, size_t task,
                                    struct pool_worker *worker)
{
    const struct headlayer_slices *s = context;
    size_t set = s->first + task / s->count, first = task % s->count * s->each;
    size_t last = size_min(first + s->each, s->items), width = 2 * s->op->weight.cols;
    float *total = s->sums ? s->sums + task * width : NULL;
    float part[2 * HEAD_SIZE_MAX];

    (void)worker;
    if (total)
        memset(total, 0, width * sizeof(*total));
    for (size_t begin = first; begin < last; begin += PART_HEADS) {
        memset(part, 0, width * sizeof(*part));
        for (size_t i = begin; i < size_min(begin + PART_HEADS, last); i++)
            item_backward(s, set, i, total ? part : NULL);
        for (size_t i = 0; total && i < width; i += LANES)
            add_to(total, i, vec_count(i, width),
                   vec_load(part, FORMAT_FP32, i, vec_count(i, width)));
    }
}

/* Add the totals of the slices of so many sets: `at` 0 of weights, D of biases. */
static void add_totals(const struct headlayer_slices *s, struct tensor to, size_t sets,
                       size_t at)
{
    size_t size = s->op->weight.cols;

    for (size_t task = 0; to.data && task < sets * s->count; task++) {
        const float *from = s->sums + task * 2 * size + at;
        float *sums = (float *)to.data + (s->first + task / s->count) * size;

        for (size_t i = 0; i < size; i += LANES)
            add_to(sums, i, vec_count(i, size),
                   vec_load(from, FORMAT_FP32, i, vec_count(i, size)));
    }
}

void CPU_OP(headlayer_backward)(struct backend *be,
                                const struct op_headlayer_backward *op)
{
    const size_t size = op->weight.cols, sets = op->weight.rows;
    struct headlayer_slices s = { .op = op, .sets = sets };
    float sums[SUMS_ROOM];
    size_t at_once;

    if (op->x.rows == 0 || size == 0)
        return;
    assert(size <= HEAD_SIZE_MAX);
    at_once = size_min(sets, SUMS_ROOM / (2 * size));
    s.items = op->x.rows * op->heads / sets;
    s.count = size_min(SLICES, SUMS_ROOM / (2 * size * at_once));
    s.each = size_divide_up(s.items, s.count);
    s.count = size_divide_up(s.items, s.each);
    s.sums = op->dweight.data || op->dbias.data ? sums : NULL;
    for (; s.first < sets; s.first += at_once) {
        size_t these = size_min(at_once, sets - s.first);

        cpu_backend_run(be, these * s.count, headlayer_backward_task, &s);
        add_totals(&s, op->dweight, these, 0);
        add_totals(&s, op->dbias, these, size);
    }
}
