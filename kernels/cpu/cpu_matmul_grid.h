/*
 * kernels/cpu/cpu_matmul_grid.h - how a product is cut into tasks: by its shape alone, so
 * that any number of threads gives the same bits.
 */
#ifndef KERNELS_CPU_CPU_MATMUL_GRID_H
#define KERNELS_CPU_CPU_MATMUL_GRID_H

#include <stddef.h>

enum { GRID_PARTS_BYTES = 16 << 20 }; /* what the sums of all parts take at most */

/* The product, and what its kernel likes. */
struct grid_wish {
    size_t rows, cols, depth;
    size_t tile_rows, tile_cols; /* at most */
    size_t row_unit, col_unit;   /* tiles are multiples of them */
};

struct grid {
    size_t tile_rows, tile_cols; /* the last ones may be smaller */
    size_t rows, cols, parts;    /* how many tiles and parts of k there are */
    size_t part_depth;           /* of k; the last part may be smaller */
};

/* First and count of rows, of columns and of k. */
struct grid_place {
    size_t row, rows, col, cols, k, depth;
    size_t part;
};

/* Nothing of the wish is 0. */
struct grid grid_of(const struct grid_wish *wish);
size_t grid_tasks(const struct grid *grid);
/* Tasks with the same columns and k follow each other. */
struct grid_place grid_place(const struct grid *grid, const struct grid_wish *wish,
                             size_t task);

/* `whole` in equal pieces of at most `most` (a multiple of unit), rounded up to
 * `unit`. */
size_t grid_piece(size_t whole, size_t most, size_t unit);

#endif
