/* kernels/cpu/cpu_topk.c - the largest logits of a row, in one pass over it. */
#include "config.h"

#include "kernels/cpu/cpu_loss.h"

/* The kept logits of a row: a heap whose element 0 is the next to be replaced; later
 * sorted by id. */
struct topk_row {
    float *values;
    int32_t *ids;
    size_t count;
};

/* Map floats to integers of the same order; NaN is above all. */
static uint32_t topk_key(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if (x != x)
        return UINT32_MAX;
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

/* Return whether element a ranks below b: it is smaller, or equal and has the
 * higher id. */
static bool topk_ranks_before(const struct topk_row *row, size_t a, size_t b)
{
    uint32_t left = topk_key(row->values[a]), right = topk_key(row->values[b]);

    return left < right || (left == right && row->ids[a] > row->ids[b]);
}

static bool topk_ranks_after(const struct topk_row *row, size_t a, size_t b)
{
    return row->ids[a] > row->ids[b];
}

static void topk_swap(struct topk_row *row, size_t a, size_t b)
{
    float value = row->values[a];
    int32_t id = row->ids[a];

    row->values[a] = row->values[b];
    row->ids[a] = row->ids[b];
    row->values[b] = value;
    row->ids[b] = id;
}

/* Sift element `at` down the heap. */
static void topk_sift_down(struct topk_row *row, size_t at,
                           bool (*first)(const struct topk_row *row, size_t a, size_t b))
{
    for (;;) {
        size_t left = 2 * at + 1, best = at;

        if (left < row->count && first(row, left, best))
            best = left;
        if (left + 1 < row->count && first(row, left + 1, best))
            best = left + 1;
        if (best == at)
            return;
        topk_swap(row, at, best);
        at = best;
    }
}

static void topk_heap(struct topk_row *row,
                      bool (*first)(const struct topk_row *row, size_t a, size_t b))
{
    for (size_t i = row->count / 2; i-- > 0;)
        topk_sift_down(row, i, first);
}

static void topk_find(struct topk_row *row, const float *logits, size_t cols)
{
    for (size_t i = 0; i < row->count; i++) {
        row->values[i] = logits[i];
        row->ids[i] = (int32_t)i;
    }
    topk_heap(row, topk_ranks_before);
    for (size_t i = row->count; i < cols; i++) {
        if (logits[i] <= row->values[0] ||
            topk_key(logits[i]) <= topk_key(row->values[0]))
            continue;
        row->values[0] = logits[i];
        row->ids[0] = (int32_t)i;
        topk_sift_down(row, 0, topk_ranks_before);
    }
}

/* Sort by ids: move the largest to the end first. */
static void topk_order(struct topk_row *row)
{
    size_t count = row->count;

    topk_heap(row, topk_ranks_after);
    while (row->count > 1) {
        topk_swap(row, 0, --row->count);
        topk_sift_down(row, 0, topk_ranks_after);
    }
    row->count = count;
}

struct topk {
    struct loss loss;
    const struct op_topk *op;
};

static void topk_row_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct topk *topk = context;
    size_t place = (size_t)topk->loss.rows[task], k = topk->op->values.cols;
    struct topk_row row = { .values = cpu_row(topk->op->values, place),
                            .ids = topk->op->ids + place * k,
                            .count = k };

    (void)worker;
    topk_find(&row, cpu_row(topk->loss.logits, task), topk->op->w.rows);
    topk_order(&row);
    if (topk->op->softcap > 0)
        loss_cap(row.values, k, topk->op->softcap);
}

void CPU_OP(topk)(struct backend *be, const struct op_topk *op)
{
    const struct op_classifier classifier = {
        .x = op->x,
        .w = op->w,
        .bias = op->bias,
        .logits = op->logits,
        .gathered = op->gathered,
        .targets = op->targets,
    };
    struct topk topk = { .loss.op = &classifier, .op = op };
    size_t row = 0, most = size_min(op->logits.rows, LOSS_ROWS);

    assert(most > 0 && op->values.cols > 0 && op->values.cols <= op->w.rows);
    while (row < op->x.rows) {
        row = loss_next(&topk.loss, row, most);
        if (topk.loss.count == 0)
            continue;
        loss_logits(be, &topk.loss);
        cpu_backend_run(be, topk.loss.count, topk_row_task, &topk);
    }
}
