/* kernels/cpu/cpu_loss.c - the last product, the loss and their gradients, some rows at a
 * time, so that logits of all rows are never held. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

#include <assert.h>

/* Most rows of a chunk; and numbers of a row whose exponentials are added in fp32. */
enum { LOSS_ROWS = 2048, LOSS_RUN = 2048 };

struct loss {
    const struct op_classifier *op;
    float grad_scale;
    size_t count;            /* rows of this chunk */
    bool together;           /* they lie one after the other: nothing to gather */
    int32_t rows[LOSS_ROWS]; /* which rows of x */
    struct tensor x, dx;     /* of this chunk: views, or the gathered rows */
    struct tensor logits, dlogits;
};

/* Rows without a target: no loss, no gradient. */
static void loss_clear_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_classifier *op = context;
    size_t rows = cpu_task_rows(op->x.cols);

    (void)worker;
    for (size_t row = task * rows; row < cpu_least((task + 1) * rows, op->x.rows);
         row++) {
        if (op->targets[row] >= 0)
            continue;
        ((float *)op->losses.data)[row] = 0;
        if (op->dx.data)
            memset(cpu_row(op->dx, row), 0,
                   op->dx.cols * format_info(op->dx.format)->bytes);
    }
}

static void loss_copy_row(struct tensor to, size_t to_row, struct tensor from,
                          size_t from_row)
{
    memcpy(cpu_row(to, to_row), cpu_row(from, from_row),
           from.cols * format_info(from.format)->bytes);
}

static void loss_gather_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct loss *loss = context;
    size_t rows = cpu_task_rows(loss->x.cols);

    (void)worker;
    for (size_t i = task * rows; i < cpu_least((task + 1) * rows, loss->count); i++)
        loss_copy_row(loss->x, i, loss->op->x, (size_t)loss->rows[i]);
}

static void loss_scatter_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct loss *loss = context;
    size_t rows = cpu_task_rows(loss->dx.cols);

    (void)worker;
    for (size_t i = task * rows; i < cpu_least((task + 1) * rows, loss->count); i++)
        loss_copy_row(loss->op->dx, (size_t)loss->rows[i], loss->dx, i);
}

static float loss_max(const float *logits, size_t cols)
{
    vec max[2] = { vec_all(-INFINITY), vec_all(-INFINITY) };
    size_t i = 0;

    for (; i + 2 * LANES <= cols; i += 2 * LANES) {
        max[0] = vec_max(vec_get(logits + i), max[0]);
        max[1] = vec_max(vec_get(logits + i + LANES), max[1]);
    }
    for (; i < cols; i++)
        max[0][0] = logits[i] > max[0][0] ? logits[i] : max[0][0];
    return vec_max_of(vec_max(max[0], max[1]));
}

/* logits = e^(logits - max); their sum. */
static double loss_exponentials(float *logits, size_t cols, float max)
{
    size_t whole = cols / LANES * LANES;
    double sum = 0;
    vec last;

    for (size_t begin = 0; begin < whole; begin += LOSS_RUN) {
        vec part = {};

        for (size_t i = begin; i < cpu_least(begin + LOSS_RUN, whole); i += LANES) {
            vec e = vec_exp(vec_get(logits + i) - max);

            vec_put(logits + i, e);
            part += e;
        }
        sum += vec_sum_wide(part);
    }
    if (whole == cols)
        return sum;
    last = vec_exp(vec_load(logits, FORMAT_FP32, whole, cols - whole) - max);
    vec_store(logits, FORMAT_FP32, whole, cols - whole, last);
    for (size_t i = 0; i < cols - whole; i++)
        sum += (double)last[i];
    return sum;
}

static double loss_mean(const float *logits, size_t cols)
{
    double sum = 0;

    for (size_t begin = 0; begin < cols; begin += LOSS_RUN) {
        size_t end = cpu_least(begin + LOSS_RUN, cols);
        vec part = {};

        for (size_t i = begin; i < end; i += LANES)
            part += vec_load(logits, FORMAT_FP32, i, vec_count(i, end));
        sum += vec_sum_wide(part);
    }
    return sum / (double)cols;
}

/* dlogits = grad_scale * (e / sum - (1 - s) onehot - s / V) */
static void loss_gradient(const struct loss *loss, const float *e, double sum,
                          size_t target, void *dlogits)
{
    const struct op_classifier *op = loss->op;
    size_t cols = op->w.rows;
    enum format format = op->dlogits.format;
    float factor = (float)(1 / sum), even = op->smoothing / (float)cols;
    float wanted = (e[target] * factor - (1 - op->smoothing) - even) * loss->grad_scale;
    vec one = {};

    one[0] = wanted;
    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec p = vec_load(e, FORMAT_FP32, i, count) * factor;

        vec_store(dlogits, format, i, count, (p - even) * loss->grad_scale);
    }
    vec_store(dlogits, format, target, 1, one);
}

static void loss_row_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct loss *loss = context;
    const struct op_classifier *op = loss->op;
    size_t row = (size_t)loss->rows[task], target = (size_t)op->targets[row];
    size_t cols = op->w.rows;
    float *logits = cpu_row(loss->logits, task);
    float max = loss_max(logits, cols), wanted = logits[target];
    double mean = op->smoothing != 0 ? loss_mean(logits, cols) : 0;
    double sum = loss_exponentials(logits, cols, max);
    double all = (double)max + log(sum), smoothing = (double)op->smoothing;

    (void)worker;
    ((float *)op->losses.data)[row] =
        (float)((1 - smoothing) * (all - (double)wanted) + smoothing * (all - mean));
    if (op->dx.data)
        loss_gradient(loss, logits, sum, target, cpu_row(loss->dlogits, task));
}

/* The next chunk, from row `from` on: at most `most` rows.  The row to go on from. */
static size_t loss_next(struct loss *loss, size_t from, size_t most)
{
    const struct op_classifier *op = loss->op;
    size_t row = from;

    for (loss->count = 0; row < op->x.rows && loss->count < most; row++)
        if (op->targets[row] >= 0)
            loss->rows[loss->count++] = (int32_t)row;
    if (loss->count == 0)
        return row;
    loss->together =
        loss->rows[loss->count - 1] - loss->rows[0] == (int32_t)loss->count - 1;
    loss->x = loss->together ? tensor_rows(op->x, (size_t)loss->rows[0], loss->count)
                             : tensor_rows(op->gathered, 0, loss->count);
    loss->logits = tensor_rows(op->logits, 0, loss->count);
    if (!op->dx.data)
        return row;
    loss->dlogits = tensor_rows(op->dlogits, 0, loss->count);
    loss->dx = loss->together ? tensor_rows(op->dx, (size_t)loss->rows[0], loss->count)
                              : tensor_rows(op->dgathered, 0, loss->count);
    return row;
}

static void loss_chunk(struct backend *be, struct loss *loss)
{
    const struct op_classifier *op = loss->op;
    size_t copies = cpu_pieces(loss->count, cpu_task_rows(op->x.cols));

    if (!loss->together)
        cpu_backend_run(be, copies, loss_gather_task, loss);
    be->ops->matmul(
        be,
        &(struct op_matmul) {
            .out = loss->logits, .a = loss->x, .b = op->w, .trans_b = true, .alpha = 1 });
    cpu_backend_run(be, loss->count, loss_row_task, loss);
    if (!op->dx.data)
        return;
    be->ops->matmul(be,
                    &(struct op_matmul) {
                        .out = loss->dx, .a = loss->dlogits, .b = op->w, .alpha = 1 });
    if (op->dw.data)
        be->ops->matmul(be, &(struct op_matmul) { .out = op->dw,
                                                  .a = loss->dlogits,
                                                  .trans_a = true,
                                                  .b = loss->x,
                                                  .alpha = 1,
                                                  .beta = 1 });
    if (!loss->together)
        cpu_backend_run(be, copies, loss_scatter_task, loss);
}

void CPU_OP(classifier)(struct backend *be, const struct op_classifier *op)
{
    struct loss loss = { .op = op,
                         .grad_scale = op->grad_scale * (op->scale ? *op->scale : 1) };
    size_t row = 0, most = cpu_least(op->logits.rows, LOSS_ROWS);

    assert(most > 0);
    cpu_backend_run(be, cpu_pieces(op->x.rows, cpu_task_rows(op->x.cols)),
                    loss_clear_task, (void *)op);
    while (row < op->x.rows) {
        row = loss_next(&loss, row, most);
        if (loss.count > 0)
            loss_chunk(be, &loss);
    }
}
