/* tests/unit/test_mrope.c - positions of text and images are those of transformers
 * (tests/golden/mrope.py), in a batch of one sequence or several. */
#include "config.h"

#include "train/model/mrope.h"

#include <limits.h>

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"

enum { ROWS_MAX = 1000, IMAGES_MAX = 30, SEQUENCES_MAX = 8 };

struct expected_batch {
    size_t rows, images, sequences;
    int32_t offsets[SEQUENCES_MAX + 1], next[SEQUENCES_MAX];
    struct mrope_image image[IMAGES_MAX];
    int32_t positions[ROWS_MAX][ROPE_AXES];
};

static json_t *read_golden(void)
{
    char *name = unit_source("tests/golden/mrope.json");
    struct error err = { ERROR_NONE };
    json_t *golden = json_read_file(name, (size_t)1 << 20, &err);

    if (!golden)
        fail_msg("%s", err.text);
    free(name);
    return golden;
}

/* Append a sequence of the golden file. */
static void append(struct expected_batch *b, const json_t *sequence, int32_t merge)
{
    const json_t *groups = json_object_get(sequence, "groups"), *group;
    const json_t *wanted = json_object_get(sequence, "positions");
    size_t i, first = b->rows;

    json_array_foreach((json_t *)groups, i, group)
    {
        int32_t grid[ROPE_AXES];

        if (json_is_integer(group)) {
            b->rows += (size_t)json_integer_value(group);
            continue;
        }
        for (size_t axis = 0; axis < ROPE_AXES; axis++)
            grid[axis] = (int32_t)json_integer_value(json_array_get(group, axis));
        assert_true(b->images < IMAGES_MAX);
        b->image[b->images].at = b->rows;
        b->rows += mrope_image_of(grid, merge, &b->image[b->images++]);
    }
    assert_true(b->rows <= ROWS_MAX && b->sequences < SEQUENCES_MAX);
    assert_int_equal(json_array_size(wanted), (b->rows - first) * ROPE_AXES);
    for (i = 0; i < json_array_size(wanted); i++)
        b->positions[first + i / ROPE_AXES][i % ROPE_AXES] =
            (int32_t)json_integer_value(json_array_get(wanted, i));
    b->next[b->sequences++] =
        (int32_t)json_integer_value(json_object_get(sequence, "next"));
    b->offsets[b->sequences] = (int32_t)b->rows;
}

static void check(const struct expected_batch *b)
{
    int32_t out[ROWS_MAX][ROPE_AXES];

    memset(out, 0xff, sizeof(out));
    mrope_positions(b->offsets, b->sequences, b->image, b->images, out);
    assert_memory_equal(out, b->positions, b->rows * sizeof(out[0]));
    assert_int_equal(out[b->rows][0], -1);
    for (size_t s = 0; s < b->sequences; s++) {
        size_t first = (size_t)b->offsets[s], rows = (size_t)b->offsets[s + 1] - first;

        assert_int_equal(mrope_next(out + first, rows), b->next[s]);
        for (size_t n = 0; n < rows; n++)
            for (size_t axis = 0; axis < ROPE_AXES; axis++)
                assert_true((size_t)out[first + n][axis] <= n);
    }
}

/* Each sequence alone, and all of a batch in one, with an empty one after them. */
static void check_batch(const json_t *batch)
{
    const json_t *sequence;
    const int32_t merge = (int32_t)json_integer_value(json_object_get(batch, "merge"));
    struct expected_batch all = { 0 };
    size_t i;

    json_array_foreach(json_object_get(batch, "sequences"), i, sequence)
    {
        struct expected_batch one = { 0 };

        append(&one, sequence, merge);
        check(&one);
        append(&all, sequence, merge);
    }
    all.offsets[++all.sequences] = (int32_t)all.rows;
    check(&all);
}

static void test_positions_are_those_of_transformers(void **state)
{
    json_t *golden = read_golden();
    const json_t *family, *batch;
    size_t i, j;

    (void)state;
    assert_true(json_array_size(golden) >= 6);
    json_array_foreach(golden, i, family)
    {
        const json_t *batches = json_object_get(family, "batches");

        assert_true(json_array_size(batches) > 0);
        json_array_foreach((json_t *)batches, j, batch) check_batch(batch);
    }
    json_decref(golden);
}

static void test_grids_that_are_none(void **state)
{
    static const struct {
        int32_t grid[ROPE_AXES], merge;
        size_t tokens;
    } rows[] = {
        { { 1, 4, 6 }, 2, 6 },         { { 3, 4, 6 }, 1, 72 },
        { { 0, 4, 6 }, 2, 0 },         { { 1, 0, 6 }, 2, 0 },
        { { 1, 4, -6 }, 2, 0 },        { { 1, 5, 6 }, 2, 0 },
        { { 1, 4, 7 }, 2, 0 },         { { 1, 4, 6 }, 0, 0 },
        { { 1, 4, 6 }, -2, 0 },        { { 1, INT_MAX, 1 }, 1, INT_MAX },
        { { 2, INT_MAX, 1 }, 1, 0 },   { { INT_MAX, INT_MAX, INT_MAX }, 1, 0 },
        { { 1, 65536, 32768 }, 1, 0 }, { { INT_MIN, 1, 1 }, 1, 0 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct mrope_image image;

        assert_int_equal(mrope_image_of(rows[i].grid, rows[i].merge, &image),
                         rows[i].tokens);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions_are_those_of_transformers),
        cmocka_unit_test(test_grids_that_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
