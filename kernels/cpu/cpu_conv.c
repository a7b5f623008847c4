/* kernels/cpu/cpu_conv.c - a causal convolution of each column alone, with SiLU, and its
 * gradients. */
#include "config.h"

#include "kernels/cpu/cpu_activation.h"
#include "kernels/cpu/cpu_ops.h"

#include <assert.h>

/* A task has all rows of this many columns: four cache lines of fp32. */
enum { CONV_VECS = 64 / LANES, CONV_ROWS = 16 };

/* The taps of a vector of columns, the oldest first. */
struct conv_taps {
    vec at[CONV_TAPS_MAX];
    size_t count;
};

static struct conv_taps conv_taps_of(struct tensor weight, size_t column, size_t columns)
{
    struct conv_taps taps = { .count = weight.cols };

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
    struct tensor x, state;
    size_t first, last, sequence, column, columns;
    bool resumes;
};

/* The input `back` rows before row n, which may be before the sequence. */
CPU_INLINE vec conv_input(const struct conv_part *p, size_t n, size_t back, size_t taps,
                          enum format format)
{
    size_t state = p->sequence * (taps - 1) + taps - 1 + (n - p->first);

    if (n >= p->first + back)
        return vec_load(cpu_row(p->x, n - back), format, p->column, p->columns);
    if (!p->resumes)
        return (vec) {};
    return vec_load(cpu_row(p->state, state - back), format, p->column, p->columns);
}

CPU_INLINE vec conv_sum(const struct conv_part *p, const struct conv_taps *taps, size_t n,
                        enum format format)
{
    vec sum = {};

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

        vec_store(cpu_row(p->state, p->sequence * (taps - 1) + i), format, p->column,
                  p->columns, conv_input(p, p->last, back, taps, format));
    }
}

CPU_INLINE void conv_columns(const struct op_conv *op, size_t column, size_t columns,
                             enum format format)
{
    struct conv_taps taps = conv_taps_of(op->weight, column, columns);

    for (size_t s = 0; s < op->sequences; s++) {
        struct conv_part p = { .x = op->x,
                               .state = op->state,
                               .first = (size_t)op->offsets[s],
                               .last = (size_t)op->offsets[s + 1],
                               .sequence = s,
                               .column = column,
                               .columns = columns,
                               .resumes = op->resumes };

        for (size_t n = p.first; n < p.last; n++)
            vec_store(cpu_row(op->out, n), format, column, columns,
                      activation_silu(conv_sum(&p, &taps, n, format)).value);
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

/* The gradients of the taps: of CONV_ROWS rows, then of all. */
struct conv_slopes {
    vec part[CONV_TAPS_MAX], total[CONV_TAPS_MAX];
};

static void conv_close_part(struct conv_slopes *slopes, size_t taps)
{
    for (size_t j = 0; j < taps; j++) {
        slopes->total[j] += slopes->part[j];
        slopes->part[j] = (vec) {};
    }
}

/* From the last row to the first: dx of a row needs the gradients of the sums of this and
 * of the next taps - 1 rows, which `next` keeps. */
CPU_INLINE void conv_part_backward(const struct op_conv_backward *op,
                                   const struct conv_part *p,
                                   const struct conv_taps *taps,
                                   struct conv_slopes *slopes, enum format format)
{
    vec next[CONV_TAPS_MAX] = {};

    for (size_t n = p->last; n-- > p->first;) {
        struct activated by = activation_silu(conv_sum(p, taps, n, format));
        vec dx = {};

        for (size_t j = taps->count - 1; j > 0; j--)
            next[j] = next[j - 1];
        next[0] = vec_load(cpu_row(op->dout, n), format, p->column, p->columns) *
                  (by.slope * by.bend);
        for (size_t j = 0; j < taps->count; j++) {
            dx += taps->at[taps->count - 1 - j] * next[j];
            slopes->part[j] +=
                next[0] * conv_input(p, n, taps->count - 1 - j, taps->count, format);
        }
        vec_store(cpu_row(op->dx, n), format, p->column, p->columns, dx);
        if (n % CONV_ROWS == 0)
            conv_close_part(slopes, taps->count);
    }
    conv_close_part(slopes, taps->count);
}

CPU_INLINE void conv_columns_backward(const struct op_conv_backward *op, size_t column,
                                      size_t columns, enum format format)
{
    struct conv_taps taps = conv_taps_of(op->weight, column, columns);
    struct conv_slopes slopes = {};

    for (size_t s = 0; s < op->sequences; s++) {
        struct conv_part p = { .x = op->x,
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
