/* kernels/cpu/cpu_conv.c - a causal convolution of each column alone, with SiLU or between
 * two gates, and its gradients. */
#include "config.h"

#include "kernels/cpu/cpu_activation.h"
#include "kernels/cpu/cpu_ops.h"

#include <assert.h>

/* A task has all rows of this many columns: four cache lines of fp32. */
enum { CONV_VECS = 64 / LANES, CONV_ROWS = 16 };

/* The taps of a vector of columns, the oldest first, and their bias. */
struct conv_taps {
    vec at[CONV_TAPS_MAX], bias;
    size_t count;
};

static struct conv_taps conv_taps_of(struct tensor weight, struct tensor bias,
                                     size_t column, size_t columns)
{
    struct conv_taps taps = { .count = weight.cols };

    if (bias.data)
        taps.bias = vec_load(bias.data, bias.format, column, columns);

    for (size_t i = 0; i < columns; i++) {
        vec row = vec_load(cpu_row(weight, column + i), weight.format, 0,
                           vec_count(0, weight.cols));

        for (size_t j = 0; j < weight.cols; j++) {
            if (j > 0 && j % LANES == 0)
                row = vec_load(cpu_row(weight, column + i), weight.format, j,
                               vec_count(j, weight.cols));
            taps.at[j][i] = row[j % LANES];
        }
    }
    return taps;
}

/* One sequence, for a vector of columns. */
struct conv_part {
    struct tensor x, before, after, state; /* before, after: absent without gates */
    size_t first, last, sequence, column, columns;
    bool resumes;
};

CPU_INLINE vec conv_load(const struct conv_part *p, struct tensor from, size_t n,
                         enum format format)
{
    return vec_load(cpu_row(from, n), format, p->column, p->columns);
}

/* The input `back` rows before row n, which may be before the sequence. */
CPU_INLINE vec conv_input(const struct conv_part *p, size_t n, size_t back, size_t taps,
                          enum format format)
{
    size_t state = p->sequence * (taps - 1) + taps - 1 + (n - p->first);

    if (n >= p->first + back && p->before.data)
        return conv_load(p, p->before, n - back, format) *
               conv_load(p, p->x, n - back, format);
    if (n >= p->first + back)
        return conv_load(p, p->x, n - back, format);
    return p->resumes ? conv_load(p, p->state, state - back, FORMAT_FP32) : (vec) {};
}

CPU_INLINE vec conv_sum(const struct conv_part *p, const struct conv_taps *taps, size_t n,
                        enum format format)
{
    vec sum = taps->bias;

    for (size_t j = 0; j < taps->count; j++)
        sum += taps->at[j] * conv_input(p, n, taps->count - 1 - j, taps->count, format);
    return sum;
}

/* The rows of the new state, the last of which is that of the last row.  In this order no
 * row is overwritten that a later one needs. */
CPU_INLINE void conv_keep(const struct conv_part *p, size_t taps, enum format format)
{
    for (size_t i = 0; i < taps - 1; i++) {
        size_t back = taps - 1 - i; /* from the row after the last */

        vec_store(cpu_row(p->state, p->sequence * (taps - 1) + i), FORMAT_FP32, p->column,
                  p->columns, conv_input(p, p->last, back, taps, format));
    }
}

/* The output of row n. */
CPU_INLINE vec conv_output(const struct conv_part *p, size_t n, vec sum,
                           enum format format)
{
    if (p->after.data)
        return conv_load(p, p->after, n, format) * sum;
    return activation_silu(sum).value;
}

CPU_INLINE void conv_columns(const struct op_conv *op, size_t column, size_t columns,
                             enum format format)
{
    struct conv_taps taps = conv_taps_of(op->weight, op->bias, column, columns);

    for (size_t s = 0; s < op->sequences; s++) {
        struct conv_part p = { .x = op->x,
                               .before = op->before,
                               .after = op->after,
                               .state = op->state,
                               .first = (size_t)op->offsets[s],
                               .last = (size_t)op->offsets[s + 1],
                               .sequence = s,
                               .column = column,
                               .columns = columns,
                               .resumes = op->resumes };

        for (size_t n = p.first; n < p.last; n++)
            vec_store(cpu_row(op->out, n), format, column, columns,
                      conv_output(&p, n, conv_sum(&p, &taps, n, format), format));
        if (op->state.data)
            conv_keep(&p, taps.count, format);
    }
}

static void conv_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_conv *op = context;

    (void)worker;
    for (size_t i = 0; i < CONV_VECS; i++) {
        size_t column = (task * CONV_VECS + i) * LANES;

        if (column < op->x.cols)
            VEC_BY_FORMAT(op->x.format, conv_columns, op, column,
                          vec_count(column, op->x.cols));
    }
}

void CPU_OP(conv)(struct backend *be, const struct op_conv *op)
{
    assert(op->weight.cols >= 2 && op->weight.cols <= CONV_TAPS_MAX);
    cpu_backend_run(be, size_divide_up(op->x.cols, CONV_VECS * LANES), conv_task,
                    (void *)op);
}

/* ---- Gradients ---- */

/* The gradients of the taps and of the bias: of CONV_ROWS rows, then of all. */
struct conv_slopes {
    vec part[CONV_TAPS_MAX + 1], total[CONV_TAPS_MAX + 1];
};

static void conv_close_part(struct conv_slopes *slopes, size_t taps)
{
    for (size_t j = 0; j <= taps; j++) {
        slopes->total[j] += slopes->part[j];
        slopes->part[j] = (vec) {};
    }
}

/* Return the gradient of the sum of row n, and store that of the gate after it. */
CPU_INLINE vec conv_slope(const struct op_conv_backward *op, const struct conv_part *p,
                          const struct conv_taps *taps, size_t n, enum format format)
{
    vec sum = conv_sum(p, taps, n, format), dout = conv_load(p, op->dout, n, format);
    struct activated by;

    if (p->after.data) {
        vec_store(cpu_row(op->dafter, n), format, p->column, p->columns, dout * sum);
        return dout * conv_load(p, p->after, n, format);
    }
    by = activation_silu(sum);
    return dout * (by.slope * by.bend);
}

/* Store the gradients of what is multiplied to the input of row n, whose gradient is du. */
CPU_INLINE void conv_input_backward(const struct op_conv_backward *op,
                                    const struct conv_part *p, size_t n, vec du,
                                    enum format format)
{
    vec dx = du;

    if (p->before.data) {
        dx = du * conv_load(p, p->before, n, format);
        vec_store(cpu_row(op->dbefore, n), format, p->column, p->columns,
                  du * conv_load(p, p->x, n, format));
    }
    vec_store(cpu_row(op->dx, n), format, p->column, p->columns, dx);
}

/* From the last row to the first: the gradient of the input of a row needs those of the
 * sums of this and of the next taps - 1 rows, which `next` keeps. */
CPU_INLINE void conv_part_backward(const struct op_conv_backward *op,
                                   const struct conv_part *p,
                                   const struct conv_taps *taps,
                                   struct conv_slopes *slopes, enum format format)
{
    vec next[CONV_TAPS_MAX] = {};

    for (size_t n = p->last; n-- > p->first;) {
        vec du = {};

        for (size_t j = taps->count - 1; j > 0; j--)
            next[j] = next[j - 1];
        next[0] = conv_slope(op, p, taps, n, format);
        for (size_t j = 0; j < taps->count; j++) {
            du += taps->at[taps->count - 1 - j] * next[j];
            slopes->part[j] +=
                next[0] * conv_input(p, n, taps->count - 1 - j, taps->count, format);
        }
        slopes->part[taps->count] += next[0];
        conv_input_backward(op, p, n, du, format);
        if (n % CONV_ROWS == 0)
            conv_close_part(slopes, taps->count);
    }
    conv_close_part(slopes, taps->count);
}

CPU_INLINE void conv_columns_backward(const struct op_conv_backward *op, size_t column,
                                      size_t columns, enum format format)
{
    struct conv_taps taps = conv_taps_of(op->weight, op->bias, column, columns);
    struct conv_slopes slopes = {};

    for (size_t s = 0; s < op->sequences; s++) {
        struct conv_part p = { .x = op->x,
                               .before = op->before,
                               .after = op->after,
                               .first = (size_t)op->offsets[s],
                               .last = (size_t)op->offsets[s + 1],
                               .sequence = s,
                               .column = column,
                               .columns = columns };

        conv_part_backward(op, &p, &taps, &slopes, format);
    }
    for (size_t i = 0; op->dweight.data && i < columns; i++)
        for (size_t j = 0; j < taps.count; j++)
            ((float *)cpu_row(op->dweight, column + i))[j] += slopes.total[j][i];
    for (size_t i = 0; op->dbias.data && i < columns; i++)
        ((float *)op->dbias.data)[column + i] += slopes.total[taps.count][i];
}

static void conv_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_conv_backward *op = context;

    (void)worker;
    for (size_t i = 0; i < CONV_VECS; i++) {
        size_t column = (task * CONV_VECS + i) * LANES;

        if (column < op->x.cols)
            VEC_BY_FORMAT(op->x.format, conv_columns_backward, op, column,
                          vec_count(column, op->x.cols));
    }
}

void CPU_OP(conv_backward)(struct backend *be, const struct op_conv_backward *op)
{
    assert(op->weight.cols >= 2 && op->weight.cols <= CONV_TAPS_MAX);
    cpu_backend_run(be, size_divide_up(op->x.cols, CONV_VECS * LANES), conv_backward_task,
                    (void *)op);
}
