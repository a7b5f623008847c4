/* kernels/cpu/cpu_matmul_grid.c - chooses tiles that are large enough to justify packing,
 * and enough of them. */
#include "config.h"

#include "kernels/cpu/cpu_matmul_grid.h"

#include "base/size.h"

enum {
    FEWEST_TASKS = 16, /* with fewer tasks, k is split into parts and tiles get smaller */
    LEAST_DEPTH = 512, /* of a part: each part costs a sum to write and to read */
    LEAST_ROWS = 64,
    DEPTH_UNIT = 32,
};

size_t grid_piece(size_t whole, size_t most, size_t unit)
{
    size_t even = size_divide_up(whole, size_divide_up(whole, most));

    return size_divide_up(even, unit) * unit;
}

size_t grid_tasks(const struct grid *grid)
{
    return grid->rows * grid->cols * grid->parts;
}

static void set_tile(struct grid *grid, const struct grid_request *wish, size_t rows,
                     size_t cols)
{
    grid->tile_rows = grid_piece(wish->rows, rows, wish->row_unit);
    grid->tile_cols = grid_piece(wish->cols, cols, wish->col_unit);
    grid->rows = size_divide_up(wish->rows, grid->tile_rows);
    grid->cols = size_divide_up(wish->cols, grid->tile_cols);
}

static void cut_depth(struct grid *grid, const struct grid_request *wish)
{
    size_t sums = wish->rows * wish->cols * sizeof(float);
    size_t parts = size_divide_up(FEWEST_TASKS, grid->rows * grid->cols);

    parts = size_min(parts, wish->depth / LEAST_DEPTH);
    parts = size_min(parts, GRID_PARTS_BYTES / sums);
    if (parts < 2)
        return;
    grid->part_depth =
        grid_piece(wish->depth, size_divide_up(wish->depth, parts), DEPTH_UNIT);
    grid->parts = size_divide_up(wish->depth, grid->part_depth);
}

static void narrow_tiles(struct grid *grid, const struct grid_request *wish, size_t units)
{
    while (grid_tasks(grid) < FEWEST_TASKS &&
           grid->tile_cols >= 2 * units * wish->col_unit)
        set_tile(grid, wish, grid->tile_rows, size_divide_up(grid->tile_cols, 2));
}

/* Narrow the tiles first: packed columns of b are used for all rows of a tile, while a,
 * which is read again for each tile, is mostly read in place. */
static void cut_tiles(struct grid *grid, const struct grid_request *wish)
{
    narrow_tiles(grid, wish, 2);
    while (grid_tasks(grid) < FEWEST_TASKS && grid->tile_rows >= 2 * LEAST_ROWS)
        set_tile(grid, wish, size_divide_up(grid->tile_rows, 2), grid->tile_cols);
    narrow_tiles(grid, wish, 1);
}

struct grid grid_of(const struct grid_request *wish)
{
    struct grid grid = { .parts = 1, .part_depth = wish->depth };

    set_tile(&grid, wish, wish->tile_rows, wish->tile_cols);
    if (grid_tasks(&grid) < FEWEST_TASKS)
        cut_depth(&grid, wish);
    cut_tiles(&grid, wish);
    return grid;
}

struct grid grid_of_group(const struct grid_request *wish, bool others)
{
    struct grid grid = { .parts = 1, .part_depth = wish->depth };

    set_tile(&grid, wish, wish->tile_rows, wish->tile_cols);
    if (!others)
        cut_tiles(&grid, wish);
    return grid;
}

struct grid_range grid_range(const struct grid *grid, const struct grid_request *wish,
                             size_t task)
{
    struct grid_range place = {
        .row = task % grid->rows * grid->tile_rows,
        .col = task / grid->rows % grid->cols * grid->tile_cols,
        .part = task / grid->rows / grid->cols,
    };

    place.k = place.part * grid->part_depth;
    place.rows = size_min(grid->tile_rows, wish->rows - place.row);
    place.cols = size_min(grid->tile_cols, wish->cols - place.col);
    place.depth = size_min(grid->part_depth, wish->depth - place.k);
    return place;
}
