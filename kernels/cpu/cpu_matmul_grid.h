/* kernels/cpu/cpu_matmul_grid.h - how a matmul is divided into tasks: by its shape alone,
 * so that any number of threads gives the same bits. */
#ifndef KERNELS_CPU_CPU_MATMUL_GRID_H
#define KERNELS_CPU_CPU_MATMUL_GRID_H

#include <stdbool.h>
#include <stddef.h>

enum { GRID_PARTS_BYTES = 16 << 20 }; /* maximum size of the sums of all parts */

/* The shape of the matmul, and the sizes its kernel prefers. */
struct grid_request {
    size_t rows, cols, depth;
    size_t tile_rows, tile_cols; /* maximum */
    size_t row_unit, col_unit;   /* tiles are multiples of these */
};

struct grid {
    size_t tile_rows, tile_cols; /* the last ones may be smaller */
    size_t rows, cols, parts;    /* number of tiles and parts of k */
    size_t part_depth;           /* of k; the last part may be smaller */
};

/* First and count of rows, columns and k. */
struct grid_range {
    size_t row, rows, col, cols, k, depth;
    size_t part;
};

/* All members of the wish must be positive. */
struct grid grid_of(const struct grid_request *wish);
/* The same without parts of k; with the largest tiles if there are tasks of other matmuls,
 * too. */
struct grid grid_of_group(const struct grid_request *wish, bool others);
size_t grid_tasks(const struct grid *grid);
/* Tasks with the same columns and k are consecutive. */
struct grid_range grid_range(const struct grid *grid, const struct grid_request *wish,
                             size_t task);

/* Divide `whole` into equal pieces of at most `most` (a multiple of unit), rounded up to
 * `unit`. */
size_t grid_piece(size_t whole, size_t most, size_t unit);

#endif
