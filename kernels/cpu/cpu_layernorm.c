/* kernels/cpu/cpu_layernorm.c - LayerNorm after the residual sum, and its gradients. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_row_norm.h"

static float layernorm_mean(const float *x, const void *delta, enum format format,
                            float *sum, size_t cols)
{
    vec even = {}, odd = {};

    for (size_t i = 0; i < cols; i += ROWS_STEP) {
        even += rows_summed(x, delta, format, sum, i, cols);
        if (i + LANES < cols)
            odd += rows_summed(x, delta, format, sum, i + LANES, cols);
    }
    return vec_sum(even + odd) / (float)cols;
}

/* The distance from `mean` at a position; 0 past the end of the row. */
CPU_INLINE vec layernorm_far(const float *x, float mean, size_t at, size_t cols)
{
    size_t count = vec_count(at, cols);
    vec far = vec_load(x, FORMAT_FP32, at, count) - mean;

    return __builtin_expect(count != LANES, 0) ? vec_first(far, count) : far;
}

static float layernorm_variance(const float *x, float mean, size_t cols)
{
    vec even = {}, odd = {}, far;

    for (size_t i = 0; i < cols; i += ROWS_STEP) {
        far = layernorm_far(x, mean, i, cols);
        even += far * far;
        if (i + LANES >= cols)
            break;
        far = layernorm_far(x, mean, i + LANES, cols);
        odd += far * far;
    }
    return vec_sum(even + odd) / (float)cols;
}

static void layernorm_row(const struct op_layernorm *op, size_t row)
{
    const float *x = cpu_row(op->x, row);
    const void *delta = cpu_row(op->delta, row);
    float *sum = delta ? cpu_row(op->sum, row) : NULL;
    const float *summed = sum ? sum : x;
    void *out = cpu_row(op->out, row);
    struct tensor weight = op->weight, bias = op->bias;
    enum format format = op->out.format;
    size_t cols = op->x.cols;
    float offset = op->offset;
    float mean = layernorm_mean(x, delta, op->delta.format, sum, cols), rstd;

    if (!out)
        return;
    rstd = 1 / sqrtf(layernorm_variance(summed, mean, cols) + op->eps);
    ((float *)cpu_row(op->stats, 0))[row] = mean;
    ((float *)cpu_row(op->stats, 1))[row] = rstd;
    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec h = (vec_load(summed, FORMAT_FP32, i, count) - mean) * rstd;
        vec value = h * (offset + vec_load(weight.data, weight.format, i, count));

        if (bias.data)
            value += vec_load(bias.data, bias.format, i, count);
        vec_store(out, format, i, count, value);
    }
}

static void layernorm_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_layernorm *op = context;
    size_t rows = cpu_task_rows(op->x.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->x.rows); row++)
        layernorm_row(op, row);
}

void CPU_OP(layernorm)(struct backend *be, const struct op_layernorm *op)
{
    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)),
                    layernorm_task, (void *)op);
}

/* Sums over a row of g = dout * (offset + weight), and of g * (x - mean); past the end of the
 * row g is 0. */
struct layernorm_terms {
    vec sum, product;
};

CPU_INLINE void layernorm_add(struct layernorm_terms *terms,
                              const struct op_layernorm_backward *op, const float *x,
                              const void *dout, float mean, size_t at)
{
    size_t count = vec_count(at, op->x.cols);
    vec g = vec_load(dout, op->dout.format, at, count) *
            (op->offset + vec_load(op->weight.data, op->weight.format, at, count));

    terms->sum += g;
    terms->product += g * (vec_load(x, FORMAT_FP32, at, count) - mean);
}

/* dx += rstd * (g - mean(g) - h * mean(g * h)) */
static void layernorm_row_backward(const struct op_layernorm_backward *op, size_t row)
{
    const float *x = cpu_row(op->x, row);
    const void *dout = cpu_row(op->dout, row);
    float *dx = cpu_row(op->dx, row);
    void *copy = cpu_row(op->dcopy, row);
    float mean = ((const float *)cpu_row(op->stats, 0))[row];
    float rstd = ((const float *)cpu_row(op->stats, 1))[row];
    struct layernorm_terms even = { 0 }, odd = { 0 };
    size_t cols = op->x.cols;
    float shift, slope;

    for (size_t i = 0; i < cols; i += ROWS_STEP) {
        layernorm_add(&even, op, x, dout, mean, i);
        if (i + LANES < cols)
            layernorm_add(&odd, op, x, dout, mean, i + LANES);
    }
    shift = vec_sum(even.sum + odd.sum) / (float)cols;
    slope = vec_sum(even.product + odd.product) * rstd * rstd / (float)cols;
    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec g = vec_load(dout, op->dout.format, i, count) *
                (op->offset + vec_load(op->weight.data, op->weight.format, i, count));
        vec far = vec_load(x, FORMAT_FP32, i, count) - mean;
        vec sum = vec_load(dx, FORMAT_FP32, i, count) + (g - shift - far * slope) * rstd;

        vec_store(dx, FORMAT_FP32, i, count, sum);
        if (copy)
            vec_store(copy, op->dcopy.format, i, count, sum);
    }
}

static void layernorm_backward_task(void *context, size_t task,
                                    struct pool_worker *worker)
{
    const struct op_layernorm_backward *op = context;
    size_t rows = cpu_task_rows(op->x.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->x.rows); row++)
        layernorm_row_backward(op, row);
}

/* Sums over some rows of dout * h and of dout, for ROWS_COLUMNS columns. */
struct layernorm_sums {
    vec weight[ROWS_COLUMNS / LANES], bias[ROWS_COLUMNS / LANES];
};

static void layernorm_add_row(struct layernorm_sums *sums,
                              const struct op_layernorm_backward *op, size_t row,
                              size_t first, size_t cols)
{
    const float *x = cpu_row(op->x, row);
    const void *dout = cpu_row(op->dout, row);
    float mean = ((const float *)cpu_row(op->stats, 0))[row];
    float rstd = ((const float *)cpu_row(op->stats, 1))[row];

    for (size_t i = first; i < cols; i += LANES) {
        size_t count = vec_count(i, cols), at = (i - first) / LANES;
        vec g = vec_load(dout, op->dout.format, i, count);

        sums->weight[at] += (vec_load(x, FORMAT_FP32, i, count) - mean) * rstd * g;
        sums->bias[at] += g;
    }
}

static void layernorm_weight_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_layernorm_backward *op = context;
    size_t first = task * ROWS_COLUMNS, cols = size_min(first + ROWS_COLUMNS, op->x.cols);
    struct layernorm_sums total = { 0 };

    (void)worker;
    for (size_t begin = 0; begin < op->x.rows; begin += ROWS_PART) {
        struct layernorm_sums part = { 0 };

        for (size_t row = begin; row < size_min(begin + ROWS_PART, op->x.rows); row++)
            layernorm_add_row(&part, op, row, first, cols);
        for (int j = 0; j < ROWS_COLUMNS / LANES; j++) {
            total.weight[j] += part.weight[j];
            total.bias[j] += part.bias[j];
        }
    }
    if (op->dweight.data)
        rows_total(op->dweight, total.weight, first, cols);
    if (op->dbias.data)
        rows_total(op->dbias, total.bias, first, cols);
}

void CPU_OP(layernorm_backward)(struct backend *be,
                                const struct op_layernorm_backward *op)
{
    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)),
                    layernorm_backward_task, (void *)op);
    if (op->dweight.data || op->dbias.data)
        cpu_backend_run(be, size_divide_up(op->x.cols, ROWS_COLUMNS),
                        layernorm_weight_task, (void *)op);
}
