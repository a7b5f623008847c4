/*
 * kernels/row_order.h - matrices whose rows are in another order in files than in the model.
 *
 * A file stores unit after unit, each with all its parts.  The model stores part after part,
 * each for all units.  The units and their parts are:
 *   fused q, k and v            a key head: the query heads that share it, the key head and
 *                               the value head
 *   queries with a gate         a query head: the head and its gate
 *   inputs of linear attention  a key head: its q, its k, and the values and the gates that
 *                               share it
 */
#ifndef KERNELS_ROW_ORDER_H
#define KERNELS_ROW_ORDER_H

#include <stddef.h>

#ifdef __CUDACC__
#define ROW_ORDER_CALL static __host__ __device__ inline
#else
#define ROW_ORDER_CALL static inline
#endif

enum { ROW_ORDER_PARTS = 4 };

struct row_order {
    size_t units;                  /* 0: both have the same order */
    size_t parts[ROW_ORDER_PARTS]; /* rows of each part in a unit; 0 after the last */
};

/* Return the row of the model that is row `row` of the file. */
ROW_ORDER_CALL size_t row_order_in_model(const struct row_order *order, size_t row)
{
    const size_t *parts = order->parts;
    size_t unit, before = 0;
    int i = 0;

    if (order->units == 0)
        return row;
    unit = parts[0] + parts[1] + parts[2] + parts[3];
    for (; i < ROW_ORDER_PARTS - 1 && row % unit >= before + parts[i]; i++)
        before += parts[i];
    return order->units * before + row / unit * parts[i] + row % unit - before;
}

/* Return the row of the file that is row `row` of the model. */
ROW_ORDER_CALL size_t row_order_in_file(const struct row_order *order, size_t row)
{
    const size_t *parts = order->parts;
    size_t unit, before = 0;
    int i = 0;

    if (order->units == 0)
        return row;
    unit = parts[0] + parts[1] + parts[2] + parts[3];
    for (; i < ROW_ORDER_PARTS - 1 && row >= order->units * (before + parts[i]); i++)
        before += parts[i];
    row -= order->units * before;
    return row / parts[i] * unit + before + row % parts[i];
}

#endif
