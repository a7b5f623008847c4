/* tests/unit/test_cpu_matmul_grid.c - every element of a matmul belongs to exactly one
 * task of each part. */
#include "config.h"

#include "kernels/cpu/cpu_matmul_grid.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static const struct grid_request kernel = {
    .tile_rows = 512, .tile_cols = 144, .row_unit = 8, .col_unit = 48
};

static struct grid_request wish_of(size_t rows, size_t cols, size_t depth)
{
    struct grid_request wish = kernel;

    wish.rows = rows;
    wish.cols = cols;
    wish.depth = depth;
    return wish;
}

/* Count how often each row, column and k occurs in the tasks. */
static void check_covers(const struct grid_request *wish)
{
    struct grid grid = grid_of(wish);
    size_t tasks = grid_tasks(&grid), area = 0;
    unsigned *times = calloc(wish->depth, sizeof(*times));

    for (size_t i = 0; i < tasks; i++) {
        struct grid_range place = grid_range(&grid, wish, i);

        assert_true(place.rows > 0 && place.rows <= grid.tile_rows);
        assert_true(place.cols > 0 && place.cols <= grid.tile_cols);
        assert_true(place.depth > 0 && place.depth <= grid.part_depth);
        assert_true(place.row + place.rows <= wish->rows);
        assert_true(place.col + place.cols <= wish->cols);
        assert_true(place.k + place.depth <= wish->depth);
        assert_int_equal(place.row % grid.tile_rows, 0);
        assert_int_equal(place.col % grid.tile_cols, 0);
        area += place.rows * place.cols * (place.part == 0);
        if (place.row == 0 && place.col == 0)
            for (size_t k = place.k; k < place.k + place.depth; k++)
                times[k]++;
    }
    assert_int_equal(area, wish->rows * wish->cols);
    for (size_t k = 0; k < wish->depth; k++)
        assert_int_equal(times[k], 1);
    assert_true(grid.parts == 1 ||
                grid.parts * wish->rows * wish->cols * sizeof(float) <= GRID_PARTS_BYTES);
    free(times);
}

static void test_grid_covers_the_matmul_once(void **state)
{
    static const size_t sizes[] = { 1, 7, 8, 47, 48, 255, 256, 257, 1000, 2304 };
    static const size_t depths[] = { 1, 31, 512, 1023, 5000 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(sizes); i++)
        for (size_t j = 0; j < TS_COUNT(sizes); j++)
            for (size_t k = 0; k < TS_COUNT(depths); k++) {
                struct grid_request wish = wish_of(sizes[i], sizes[j], depths[k]);

                check_covers(&wish);
            }
}

/* Large tiles: even a few need much memory for every part. */
static void test_grid_of_large_tiles_limits_memory_for_parts(void **state)
{
    static const size_t rows[] = { 1000, 2000, 3000 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct grid_request wish = wish_of(rows[i], 2000, 8000);

        wish.tile_rows = 1024;
        wish.tile_cols = 1008;
        check_covers(&wish);
    }
}

/* The gradient of an adapter: one tile, with a large depth. */
static void test_grid_splits_k_if_there_are_few_tiles(void **state)
{
    struct grid_request adapter = wish_of(16, 768, 2048),
                        layer = wish_of(2048, 2304, 2048);
    struct grid grid = grid_of(&adapter);

    (void)state;
    assert_true(grid.parts > 1);
    assert_true(grid_tasks(&grid) >= 16);
    grid = grid_of(&layer);
    assert_int_equal(grid.parts, 1);
    assert_int_equal(grid.tile_rows, 512);
}

static void test_grid_consecutive_tasks_share_columns(void **state)
{
    struct grid_request wish = wish_of(2048, 2304, 768);
    struct grid grid = grid_of(&wish);
    struct grid_range first = grid_range(&grid, &wish, 0),
                      second = grid_range(&grid, &wish, 1);

    (void)state;
    assert_int_equal(first.col, second.col);
    assert_int_equal(first.row + first.rows, second.row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid_covers_the_matmul_once),
        cmocka_unit_test(test_grid_of_large_tiles_limits_memory_for_parts),
        cmocka_unit_test(test_grid_splits_k_if_there_are_few_tiles),
        cmocka_unit_test(test_grid_consecutive_tasks_share_columns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
