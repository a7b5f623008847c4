/* kernels/cpu/cpu_norm.c - RMSNorm after the residual sum, its gradients, and the sum of
 * squares for gradient clipping. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_row_norm.h"

/* The sum of squares of a row of x + delta. */
static float norm_squares(const float *x, const void *delta, enum format format,
                          float *sum, size_t cols)
{
    vec even = {}, odd = {}, s;

    for (size_t i = 0; i < cols; i += ROWS_STEP) {
        s = rows_summed(x, delta, format, sum, i, cols);
        even += s * s;
        if (i + LANES >= cols)
            break;
        s = rows_summed(x, delta, format, sum, i + LANES, cols);
        odd += s * s;
    }
    return vec_sum(even + odd);
}

static void norm_row(const struct op_rmsnorm *op, size_t row)
{
    const float *x = cpu_row(op->x, row);
    const void *delta = cpu_row(op->delta, row);
    float *sum = delta ? cpu_row(op->sum, row) : NULL;
    const float *summed = sum ? sum : x;
    void *out = cpu_row(op->out, row);
    struct tensor weight = op->weight;
    float offset = op->offset;
    size_t cols = op->x.cols;
    float squares = norm_squares(x, delta, op->delta.format, sum, cols);
    float rstd = 1 / sqrtf(squares / (float)cols + op->eps);

    if (!out)
        return;
    ((float *)op->rstd.data)[row] = rstd;
    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec factor = offset + vec_load(weight.data, weight.format, i, count);

        vec_store(out, op->out.format, i, count,
                  vec_load(summed, FORMAT_FP32, i, count) * rstd * factor);
    }
}

static void norm_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_rmsnorm *op = context;
    size_t rows = cpu_task_rows(op->x.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->x.rows); row++)
        norm_row(op, row);
}

void CPU_OP(rmsnorm)(struct backend *be, const struct op_rmsnorm *op)
{
    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)), norm_task,
                    (void *)op);
}

/* With g = dout * (offset + weight) and h = x * rstd: dx += rstd * (g - h * mean(g *
 * h)). */
static void norm_row_backward(const struct op_rmsnorm_backward *op, size_t row)
{
    const float *x = cpu_row(op->x, row);
    const void *dout = cpu_row(op->dout, row);
    float *dx = cpu_row(op->dx, row);
    void *copy = cpu_row(op->dcopy, row);
    float rstd = ((const float *)op->rstd.data)[row];
    struct tensor weight = op->weight;
    float offset = op->offset;
    size_t cols = op->x.cols;
    vec products[2] = { 0 };
    float slope;

    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);

        products[i / LANES % 2] +=
            vec_load(dout, op->dout.format, i, count) *
            (offset + vec_load(weight.data, weight.format, i, count)) *
            vec_load(x, FORMAT_FP32, i, count);
    }
    slope = vec_sum(products[0] + products[1]) * rstd * rstd / (float)cols;
    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec g = vec_load(dout, op->dout.format, i, count) *
                (offset + vec_load(weight.data, weight.format, i, count));
        vec step = (g - vec_load(x, FORMAT_FP32, i, count) * slope) * rstd;
        vec sum = vec_load(dx, FORMAT_FP32, i, count) + step;

        vec_store(dx, FORMAT_FP32, i, count, sum);
        if (copy)
            vec_store(copy, op->dcopy.format, i, count, sum);
    }
}

static void norm_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_rmsnorm_backward *op = context;
    size_t rows = cpu_task_rows(op->x.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->x.rows); row++)
        norm_row_backward(op, row);
}

/* dweight += sum over rows of dout * x * rstd, for ROWS_COLUMNS columns. */
static void norm_weight_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_rmsnorm_backward *op = context;
    size_t first = task * ROWS_COLUMNS, cols = size_min(first + ROWS_COLUMNS, op->x.cols);
    const float *rstd = op->rstd.data;
    vec total[ROWS_COLUMNS / LANES] = { 0 };

    (void)worker;
    for (size_t begin = 0; begin < op->x.rows; begin += ROWS_PART) {
        vec part[ROWS_COLUMNS / LANES] = { 0 };

        for (size_t row = begin; row < size_min(begin + ROWS_PART, op->x.rows); row++) {
            const float *x = cpu_row(op->x, row);
            const void *dout = cpu_row(op->dout, row);

            for (size_t i = first; i < cols; i += LANES) {
                size_t count = vec_count(i, cols);

                part[(i - first) / LANES] += vec_load(x, FORMAT_FP32, i, count) *
                                             rstd[row] *
                                             vec_load(dout, op->dout.format, i, count);
            }
        }
        for (int j = 0; j < ROWS_COLUMNS / LANES; j++)
            total[j] += part[j];
    }
    rows_total(op->dweight, total, first, cols);
}

void CPU_OP(rmsnorm_backward)(struct backend *be, const struct op_rmsnorm_backward *op)
{
    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)),
                    norm_backward_task, (void *)op);
    if (op->dweight.data)
        cpu_backend_run(be, size_divide_up(op->x.cols, ROWS_COLUMNS), norm_weight_task,
                        (void *)op);
}

/*
 * Squares are added in fp32 within SQUARE_RUN elements, in double above that. A tensor is
 * divided into pieces of SQUARE_PIECE elements of a row; task t of at most SQUARE_TASKS
 * sums every SQUARE_TASKS-th piece from t on.
 */
enum { SQUARE_RUN = 1024, SQUARE_PIECE = 1 << 14, SQUARE_TASKS = 1024 };

struct squares {
    struct tensor x;
    size_t pieces_a_row, tasks;
    double sums[SQUARE_TASKS];
};

static double square_range(struct tensor x, const void *row, size_t first, size_t last)
{
    double sum = 0;

    for (size_t begin = first; begin < last; begin += SQUARE_RUN) {
        size_t end = size_min(begin + SQUARE_RUN, last);
        vec squares[4] = { 0 };

        for (size_t i = begin; i < end; i += LANES) {
            vec value = vec_load(row, x.format, i, vec_count(i, end));

            squares[i / LANES % 4] += value * value;
        }
        sum += vec_sum_wide((squares[0] + squares[1]) + (squares[2] + squares[3]));
    }
    return sum;
}

static void square_task(void *context, size_t task, struct pool_worker *worker)
{
    struct squares *squares = context;
    size_t all = squares->x.rows * squares->pieces_a_row;
    double sum = 0;

    (void)worker;
    for (size_t i = task; i < all; i += squares->tasks) {
        size_t first = i % squares->pieces_a_row * SQUARE_PIECE;
        const void *row = cpu_row(squares->x, i / squares->pieces_a_row);

        sum += square_range(squares->x, row, first,
                            size_min(first + SQUARE_PIECE, squares->x.cols));
    }
    squares->sums[task] = sum;
}

void CPU_OP(square_sum)(struct backend *be, const struct op_square_sum *op)
{
    struct squares squares = { .x = cpu_flat(op->x) };
    double sum = 0;

    squares.pieces_a_row = size_divide_up(squares.x.cols, SQUARE_PIECE);
    squares.tasks = size_min(squares.x.rows * squares.pieces_a_row, SQUARE_TASKS);
    cpu_backend_run(be, squares.tasks, square_task, &squares);
    for (size_t i = 0; i < squares.tasks; i++)
        sum += squares.sums[i];
    *op->sum = sum;
}
