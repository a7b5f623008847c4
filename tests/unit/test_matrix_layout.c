/* tests/unit/test_matrix_layout.c - copies rows of a matrix from a file and back, for
 * every layout. */
#include "config.h"

#include "train/model/matrix_layout.h"

#include "base/size.h"
#include "tests/unit/unit.h"

enum { ROWS = 12, COLS = 5, HEADS = 2 }; /* head size 2 */

/* Fill a file with 100 i + j for row i, column j of the model, where the layout has
 * it. */
static void fill_file(enum storage storage, uint32_t *file)
{
    /* rows of the model by their position in the file: q, k, v of the first head, then of
     * the second */
    static const size_t by_head[ROWS] = { 0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11 };
    /* q and gate of the first head, then of the second */
    static const size_t by_pair[ROWS] = { 0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11 };
    /* q and k of the first key head, two values and their gates, then of the second */
    static const size_t by_key[ROWS] = { 0, 2, 4, 5, 8, 9, 1, 3, 6, 7, 10, 11 };

    for (uint32_t i = 0; i < ROWS; i++)
        for (uint32_t j = 0; j < COLS; j++)
            if (storage == STORED_COLUMNS)
                file[j * ROWS + i] = 100 * i + j;
            else
                file[i * COLS + j] =
                    100 * (uint32_t)(storage == STORED_HEADS       ? by_head[i]
                                     : storage == STORED_PAIRS     ? by_pair[i]
                                     : storage == STORED_KEY_HEADS ? by_key[i]
                                                                   : i) +
                    j;
}

static struct matrix_layout layout_of(enum storage storage, size_t item)
{
    const struct model_config config = {
        .heads = HEADS,
        .kv_heads = HEADS,
        .delta = { .heads = 4, .key_heads = 2, .key_size = 1, .value_size = 1 }
    };

    return (struct matrix_layout) { .storage = storage,
                                    .rows = ROWS,
                                    .cols = COLS,
                                    .order = matrix_layout_order(&config, storage, ROWS),
                                    .item = item };
}

/* A stack of three matrices with four rows and two columns: column j of matrix e is column
 * 3 j + e of a file, whose rows may be in pairs. */
static void test_stacks_are_columns_of_files(void **state)
{
    enum { MATRICES = 3, EACH = 4, RANK = 2 };
    static const size_t in_pairs[EACH] = { 0, 2, 1, 3 };
    const struct model_config config = { .experts = MATRICES };

    (void)state;
    for (enum storage s = STORED_EXPERTS; s <= STORED_EXPERT_PAIRS; s++) {
        const struct matrix_layout layout = { .storage = s,
                                              .rows = MATRICES * EACH,
                                              .cols = RANK,
                                              .matrices = MATRICES,
                                              .order = matrix_layout_order(
                                                  &config, s, MATRICES * EACH),
                                              .item = sizeof(uint32_t) };
        uint32_t rows[MATRICES * EACH * RANK], again[TS_COUNT(rows)] = { 0 };
        uint32_t file[TS_COUNT(rows)] = { 0 };
        size_t shape[2];

        matrix_layout_shape(&layout, shape);
        assert_true(shape[0] == EACH && shape[1] == MATRICES * RANK);
        for (uint32_t i = 0; i < TS_COUNT(rows); i++)
            rows[i] = 1 + i;
        matrix_layout_scatter(&layout, rows, 0, 5, file);
        matrix_layout_scatter(&layout, rows + 5 * RANK, 5, layout.rows - 5, file);
        for (size_t e = 0; e < MATRICES; e++)
            for (size_t i = 0; i < EACH; i++)
                for (size_t j = 0; j < RANK; j++)
                    assert_int_equal(
                        file[(s == STORED_EXPERTS ? i : in_pairs[i]) * MATRICES * RANK +
                             j * MATRICES + e],
                        1 + (e * EACH + i) * RANK + j);
        matrix_layout_gather(&layout, file, 0, 7, again);
        matrix_layout_gather(&layout, file, 7, layout.rows - 7, again + 7 * RANK);
        assert_memory_equal(again, rows, sizeof(rows));
    }
}

/* Column j of patch k is column 3 j + k of a file. */
static void test_patches_are_interleaved_in_files(void **state)
{
    enum { PATCHES = 3, EACH = 2, COUNT = 4 };
    const struct matrix_layout layout = { .storage = STORED_PATCHES,
                                          .rows = COUNT,
                                          .cols = PATCHES * EACH,
                                          .matrices = PATCHES,
                                          .item = sizeof(uint16_t) };
    uint16_t rows[COUNT * PATCHES * EACH], again[TS_COUNT(rows)] = { 0 };
    uint16_t file[TS_COUNT(rows)] = { 0 };
    size_t shape[2];

    (void)state;
    matrix_layout_shape(&layout, shape);
    assert_true(shape[0] == COUNT && shape[1] == PATCHES * EACH);
    for (uint16_t i = 0; i < TS_COUNT(rows); i++)
        rows[i] = 1 + i;
    matrix_layout_scatter(&layout, rows, 0, 1, file);
    matrix_layout_scatter(&layout, rows + layout.cols, 1, COUNT - 1, file);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < PATCHES; k++)
            for (size_t j = 0; j < EACH; j++)
                assert_int_equal(file[i * layout.cols + j * PATCHES + k],
                                 1 + i * layout.cols + k * EACH + j);
    matrix_layout_gather(&layout, file, 0, 3, again);
    matrix_layout_gather(&layout, file, 3, 1, again + 3 * layout.cols);
    assert_memory_equal(again, rows, sizeof(rows));
}

/* Return the layout of a column of fp32. */
static struct matrix_layout column_of(size_t rows, size_t heads, size_t kv_heads)
{
    const struct model_config config = { .heads = heads, .kv_heads = kv_heads };

    return (struct matrix_layout) { .storage = STORED_HEADS,
                                    .rows = rows,
                                    .cols = 1,
                                    .order =
                                        matrix_layout_order(&config, STORED_HEADS, rows),
                                    .item = sizeof(float) };
}

static void test_stored_rows_are_in_the_model_s_order(void **state)
{
    (void)state;
    for (enum storage s = STORED_ROWS; s <= STORED_KEY_HEADS; s++) {
        struct matrix_layout layout = layout_of(s, sizeof(uint32_t));
        uint32_t file[ROWS * COLS], rows[ROWS * COLS];

        fill_file(s, file);
        for (size_t first = 0; first < ROWS; first++)
            for (size_t count = 1; first + count <= ROWS; count++) {
                matrix_layout_gather(&layout, file, first, count, rows);
                for (size_t i = 0; i < count; i++)
                    for (size_t j = 0; j < COLS; j++)
                        assert_int_equal(rows[i * COLS + j], 100 * (first + i) + j);
            }
    }
}

static void test_stored_scatter_restores_the_file(void **state)
{
    (void)state;
    for (enum storage s = STORED_ROWS; s <= STORED_KEY_HEADS; s++) {
        struct matrix_layout layout = layout_of(s, sizeof(uint32_t));
        uint32_t file[ROWS * COLS], rows[ROWS * COLS], again[ROWS * COLS] = { 0 };

        fill_file(s, file);
        for (size_t first = 0; first < ROWS; first += 5) {
            size_t count = ROWS - first < 5 ? ROWS - first : 5;

            matrix_layout_gather(&layout, file, first, count, rows);
            matrix_layout_scatter(&layout, rows, first, count, again);
        }
        assert_memory_equal(file, again, sizeof(file));
    }
}

/* The header of a file need not be padded, and elements may have two bytes. */
static void test_stored_at_odd_addresses(void **state)
{
    (void)state;
    for (enum storage s = STORED_ROWS; s <= STORED_KEY_HEADS; s++) {
        struct matrix_layout layout = layout_of(s, sizeof(uint16_t));
        uint32_t wide[ROWS * COLS];
        uint16_t narrow[ROWS * COLS], rows[ROWS * COLS];
        char odd[sizeof(narrow) + 1];

        fill_file(s, wide);
        for (size_t i = 0; i < ROWS * COLS; i++)
            narrow[i] = (uint16_t)wide[i];
        memcpy(odd + 1, narrow, sizeof(narrow));
        matrix_layout_gather(&layout, odd + 1, 0, ROWS, rows);
        for (size_t i = 0; i < ROWS; i++)
            for (size_t j = 0; j < COLS; j++)
                assert_int_equal(rows[i * COLS + j], 100 * i + j);
        memset(odd, 0, sizeof(odd));
        matrix_layout_scatter(&layout, rows, 0, ROWS, odd + 1);
        assert_memory_equal(odd + 1, narrow, sizeof(narrow));
    }
}

/* Two whose rows alternate: the same. */
static void test_stored_columns_with_others_in_turn(void **state)
{
    uint32_t file[2 * ROWS * COLS], again[2 * ROWS * COLS] = { 0 }, rows[ROWS * COLS];
    struct matrix_layout layout = layout_of(STORED_COLUMNS, sizeof(uint32_t));

    (void)state;
    layout.pitch = 2 * ROWS;
    layout.step = 2;
    for (uint32_t j = 0; j < COLS; j++)
        for (uint32_t i = 0; i < 2 * ROWS; i++)
            file[j * 2 * ROWS + i] = 100 * i + j;
    for (size_t turn = 0; turn < 2; turn++)
        for (size_t first = 0; first < ROWS; first += 5) {
            size_t count = ROWS - first < 5 ? ROWS - first : 5;

            matrix_layout_gather(&layout, file + turn, first, count, rows);
            for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < COLS; j++)
                    assert_int_equal(rows[i * COLS + j],
                                     100 * (2 * (first + i) + turn) + j);
            matrix_layout_scatter(&layout, rows, first, count, again + turn);
        }
    assert_memory_equal(file, again, sizeof(file));
}

/* Two transposed matrices side by side: reading one skips the other, writing one leaves the
 * other as it is. */
static void test_stored_columns_with_others_between(void **state)
{
    uint16_t file[2 * ROWS * COLS], again[2 * ROWS * COLS], rows[ROWS * COLS];
    struct matrix_layout layout = layout_of(STORED_COLUMNS, sizeof(uint16_t));

    (void)state;
    layout.pitch = 2 * ROWS;
    for (size_t j = 0; j < COLS; j++)
        for (size_t i = 0; i < 2 * ROWS; i++)
            file[j * 2 * ROWS + i] = (uint16_t)(100 * i + j);
    for (size_t half = 0; half < 2; half++)
        for (size_t first = 0; first < ROWS; first++) {
            matrix_layout_gather(&layout, file + half * ROWS, first, ROWS - first, rows);
            for (size_t i = 0; i < ROWS - first; i++)
                for (size_t j = 0; j < COLS; j++)
                    assert_int_equal(rows[i * COLS + j],
                                     100 * (half * ROWS + first + i) + j);
        }
    memset(again, 0, sizeof(again));
    matrix_layout_gather(&layout, file + ROWS, 0, ROWS, rows);
    matrix_layout_scatter(&layout, rows, 0, ROWS, again + ROWS);
    for (size_t j = 0; j < COLS; j++)
        for (size_t i = 0; i < 2 * ROWS; i++)
            assert_int_equal(again[j * 2 * ROWS + i],
                             i < ROWS ? 0 : file[j * 2 * ROWS + i]);
}

/* A bias counts as a column: it is ordered by head like the rows of its matrix. */
static void test_stored_biases_are_ordered_by_head(void **state)
{
    const struct matrix_layout layout = column_of(6, 2, 2);
    const float file[] = { 0, 2, 4, 1, 3, 5 }; /* q, k, v of two heads of size 1 */
    float bias[6];

    (void)state;
    matrix_layout_gather(&layout, file, 0, 6, bias);
    for (size_t i = 0; i < 6; i++)
        assert_true(bias[i] == (float)i);
}

/* Two query heads for each of two key heads, and three for one. */
static void test_stored_rows_are_ordered_by_key_head(void **state)
{
    const struct matrix_layout two = column_of(8, 4, 2);
    const struct matrix_layout one = column_of(5, 3, 1);
    const float file[] = { 0, 1, 4, 6, 2, 3, 5, 7 }, plain[] = { 0, 1, 2, 3, 4 };
    float rows[8], again[8];

    (void)state;
    matrix_layout_gather(&two, file, 0, 8, rows);
    for (size_t i = 0; i < 8; i++)
        assert_true(rows[i] == (float)i);
    matrix_layout_scatter(&two, rows, 0, 8, again);
    assert_memory_equal(again, file, sizeof(file));
    matrix_layout_gather(&one, plain, 0, 5, rows);
    assert_memory_equal(rows, plain, sizeof(plain));
}

/* Strengths and decays of linear attention: two of each for each of two key heads. */
static void test_stored_strengths_are_ordered_by_key_head(void **state)
{
    const struct model_config config = {
        .delta = { .heads = 4, .key_heads = 2, .key_size = 8, .value_size = 8 }
    };
    const struct row_order order = matrix_layout_order(&config, STORED_KEY_HEADS, 8);
    const size_t in_model[] = { 0, 1, 4, 5, 2, 3, 6, 7 };

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(row_order_in_model(&order, i), in_model[i]);
        assert_int_equal(row_order_in_file(&order, in_model[i]), i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stacks_are_columns_of_files),
        cmocka_unit_test(test_patches_are_interleaved_in_files),
        cmocka_unit_test(test_stored_rows_are_in_the_model_s_order),
        cmocka_unit_test(test_stored_scatter_restores_the_file),
        cmocka_unit_test(test_stored_at_odd_addresses),
        cmocka_unit_test(test_stored_columns_with_others_between),
        cmocka_unit_test(test_stored_columns_with_others_in_turn),
        cmocka_unit_test(test_stored_biases_are_ordered_by_head),
        cmocka_unit_test(test_stored_rows_are_ordered_by_key_head),
        cmocka_unit_test(test_stored_strengths_are_ordered_by_key_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
