/* tests/unit/test_features.c - feature rows by medium; files that are not like the
 * description are refused with the tensor's name. */
#include "config.h"

#include "train/media/features.h"

#include "base/file.h"
#include "base/size.h"
#include "tests/unit/unit.h"
#include "train/files/safetensors.h"

static const float rows[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
static const int32_t grid[] = { 1, 4, 6 };

static bool read_tensor(const void *context, size_t index, void *to, struct error *err)
{
    (void)err;
    memcpy(to, context, index);
    return true;
}

/* A tensor of rows in fp32. */
static struct tensor_source rows_of(const char *name, size_t count, size_t width)
{
    return (struct tensor_source) { .name = name,
                                    .format = FORMAT_FP32,
                                    .rank = 2,
                                    .shape = { count, width },
                                    .read = read_tensor,
                                    .context = rows,
                                    .index = count * width * sizeof(float) };
}

static struct tensor_source grid_of(const char *name, const int32_t *sizes)
{
    return (struct tensor_source) { .name = name,
                                    .dtype = "I32",
                                    .rank = 1,
                                    .shape = { 3 },
                                    .read = read_tensor,
                                    .context = sizes,
                                    .index = 3 * sizeof(int32_t) };
}

static struct features *open_with(const struct tensor_source *sources, size_t count,
                                  struct error *err)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "features.safetensors");
    struct features *set;

    *err = (struct error) { 0 };
    if (!safetensors_write(name, sources, count, err))
        fail_msg("%s", err->text);
    set = features_open(name, err);
    free(name);
    unit_dir_free(dir);
    return set;
}

static void test_features_finds_rows_by_medium(void **state)
{
    const struct tensor_source sources[] = {
        rows_of("demo/1.jpg", 2, 2),       rows_of("demo/1.jpg#deep0", 2, 3),
        rows_of("demo/1.jpg#deep1", 2, 3), grid_of("demo/1.jpg#grid", grid),
        rows_of("a#b.wav", 4, 2),          rows_of("a#b.wav#deep0", 4, 3),
        rows_of("a#b.wav#deep1", 4, 3),
    };
    struct feature found;
    struct error err;
    struct features *set = open_with(sources, TS_COUNT(sources), &err);

    (void)state;
    if (!set)
        fail_msg("%s", err.text);
    assert_int_equal(features_count(set), 2);
    assert_int_equal(features_width(set), 2);
    assert_int_equal(features_deep(set), 2);
    assert_int_equal(features_deep_width(set), 3);
    assert_true(features_find(set, "demo/1.jpg", &found));
    assert_int_equal(found.count, 2);
    assert_int_equal(found.width, 2);
    assert_int_equal(found.format, FORMAT_FP32);
    assert_memory_equal(found.rows, rows, 4 * sizeof(float));
    assert_memory_equal(found.grid, grid, sizeof(grid));
    assert_memory_equal(found.deep[1], rows, 4 * sizeof(float));
    assert_null(found.deep[2]);
    assert_true(features_find(set, "a#b.wav", &found));
    assert_int_equal(found.count, 4);
    assert_int_equal(found.grid[0], 0);
    assert_false(features_find(set, "demo/2.jpg", &found));
    assert_false(features_find(set, "demo/1.jpg#grid", &found));
    assert_false(features_find(set, "demo/1.jpg#deep0", &found));
    features_close(set);
}

static void test_features_refuses_what_is_not_described(void **state)
{
    static const int32_t none[] = { 1, 0, 6 };
    struct tensor_source flat = rows_of("a", 8, 1), wide = rows_of("a", 2, 2),
                         codes = grid_of("a", grid);
    const struct {
        struct tensor_source sources[3];
        size_t count;
        const char *says;
    } cases[] = {
        { { (flat.rank = 1, flat) }, 1, "a must have the shape (rows, width)" },
        { { codes }, 1, "a must be F32, F16 or BF16" },
        { { wide, rows_of("b", 2, 4) },
          2,
          "rows of b have 4 elements, those of others 2" },
        { { wide, grid_of("a#grid", none) }, 2, "must have three sizes of 1 or more" },
        { { wide, rows_of("a#grid", 1, 3) }, 2, "a#grid must be I32 of shape (3)" },
        { { wide, grid_of("b#grid", grid) }, 2, "b#grid belongs to a medium that" },
        { { wide, rows_of("a#deep0", 1, 2) },
          2,
          "a#deep0 must have as many rows as the medium" },
        { { wide, rows_of("a#deep0", 2, 2), rows_of("a#deep1", 2, 3) },
          3,
          "rows of a#deep1 have 3 elements, those of other deep rows 2" },
        { { wide, rows_of("a#deep1", 2, 2) },
          2,
          "a#deep1 must have a number that follows" },
        { { wide, rows_of("a#deep0", 2, 2), rows_of("b", 2, 2) },
          3,
          "b has 0 tensors of deep rows, others have 1" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err;
        struct features *set = open_with(cases[i].sources, cases[i].count, &err);

        assert_null(set);
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i].says))
            fail_msg("case %zu: %s", i, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features_finds_rows_by_medium),
        cmocka_unit_test(test_features_refuses_what_is_not_described),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
