/* kernels/cpu/cpu_loss.h - the rows that have a target, a chunk at a time: code that
 * op_classifier shares with op_topk and op_distill. */
#ifndef KERNELS_CPU_CPU_LOSS_H
#define KERNELS_CPU_CPU_LOSS_H

#include <assert.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

/* Maximum rows of a chunk, and elements of a row whose exponentials are summed
 * in fp32. */
enum { LOSS_ROWS = 2048, LOSS_RUN = 2048 };

struct loss {
    const struct op_classifier *op;
    float grad_scale;
    size_t count;            /* rows of this chunk */
    bool together;           /* they are contiguous: nothing to gather */
    int32_t rows[LOSS_ROWS]; /* indices of the rows in x */
    struct tensor x, dx;     /* of this chunk: views, or the gathered rows */
    struct tensor logits, dlogits;
};

/* Rows without a target have no loss and no gradient. */
static inline void loss_clear_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_classifier *op = context;
    size_t rows = cpu_task_rows(op->x.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->x.rows); row++) {
        if (op->targets[row] >= 0)
            continue;
        ((float *)op->losses.data)[row] = 0;
        if (op->hits)
            op->hits[row] = 0;
        if (op->dx.data)
            memset(cpu_row(op->dx, row), 0,
                   op->dx.cols * format_info(op->dx.format)->bytes);
    }
}

static inline void loss_clear(struct backend *be, const struct op_classifier *op)
{
    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)),
                    loss_clear_task, (void *)op);
}

/* Copy the rows of a chunk from their positions into contiguous rows, or back. */
struct loss_copy {
    const struct loss *loss;
    struct tensor all, chunk;
    bool back;
};

static inline void loss_copy_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct loss_copy *copy = context;
    size_t rows = cpu_task_rows(copy->chunk.cols);
    size_t bytes = copy->chunk.cols * format_info(copy->chunk.format)->bytes;

    (void)worker;
    for (size_t i = task * rows; i < size_min((task + 1) * rows, copy->loss->count);
         i++) {
        void *place = cpu_row(copy->all, (size_t)copy->loss->rows[i]);
        void *row = cpu_row(copy->chunk, i);

        memcpy(copy->back ? place : row, copy->back ? row : place, bytes);
    }
}

static inline void loss_copy(struct backend *be, const struct loss *loss,
                             struct tensor all, struct tensor chunk, bool back)
{
    struct loss_copy copy = { loss, all, chunk, back };

    cpu_backend_run(be, size_divide_up(loss->count, cpu_task_rows(chunk.cols)),
                    loss_copy_task, &copy);
}

/* The chunk's rows of a matrix: a view, or `gathered`. */
static inline struct tensor loss_view(const struct loss *loss, struct tensor all,
                                      struct tensor gathered)
{
    return loss->together ? tensor_rows(all, (size_t)loss->rows[0], loss->count)
                          : tensor_rows(gathered, 0, loss->count);
}

/* Build the next chunk from row `from` on, with at most `most` rows; return the row after
 * it. */
static inline size_t loss_next(struct loss *loss, size_t from, size_t most)
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
    loss->x = loss_view(loss, op->x, op->gathered);
    loss->logits = tensor_rows(op->logits, 0, loss->count);
    if (!op->dx.data)
        return row;
    loss->dlogits = tensor_rows(op->dlogits, 0, loss->count);
    loss->dx = loss_view(loss, op->dx, op->dgathered);
    return row;
}

/* logits = x W^T + b of the chunk, gathered if necessary */
static inline void loss_logits(struct backend *be, const struct loss *loss)
{
    const struct op_classifier *op = loss->op;

    if (!loss->together)
        loss_copy(be, loss, op->x, loss->x, false);
    be->ops->matmul(be, &(struct op_matmul) { .out = loss->logits,
                                              .a = loss->x,
                                              .b = op->w,
                                              .bias = op->bias,
                                              .trans_b = true,
                                              .alpha = 1 });
}

/* dx = dlogits W, each row at its position;  dw += dlogits^T x;  dbias += its sums */
static inline void loss_back(struct backend *be, const struct loss *loss)
{
    const struct op_classifier *op = loss->op;

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
    if (op->dbias.data)
        be->ops->sum_rows(be,
                          &(struct op_sum_rows) { .out = op->dbias, .x = loss->dlogits });
    if (!loss->together)
        loss_copy(be, loss, op->dx, loss->dx, true);
}

/* The largest logit of a row; NaN is not compared. */
static inline float loss_max(const float *logits, size_t cols)
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

static inline double loss_mean(const float *logits, size_t cols)
{
    double sum = 0;

    for (size_t begin = 0; begin < cols; begin += LOSS_RUN) {
        size_t end = size_min(begin + LOSS_RUN, cols);
        vec part = {};

        for (size_t i = begin; i < end; i += LANES)
            part += vec_load(logits, FORMAT_FP32, i, vec_count(i, end));
        sum += vec_sum_wide(part);
    }
    return sum / (double)cols;
}

static inline float loss_weight(const struct op_classifier *op, size_t row)
{
    return op->weights ? op->weights[row] : 1;
}

/* logits = c tanh(logits / c) */
static inline void loss_cap(float *logits, size_t cols, float cap)
{
    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);

        vec_store(logits, FORMAT_FP32, i, count,
                  cap * vec_tanh(vec_load(logits, FORMAT_FP32, i, count) * (1 / cap)));
    }
}

#endif
