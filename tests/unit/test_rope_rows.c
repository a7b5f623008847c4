/* tests/unit/test_rope_rows.c - pairs of columns turn by the position on their axis, as in
 * transformers (tests/golden/mrope.py); rows of text are those of the table of positions. */
#include "config.h"

#include "train/model/rope_rows.h"

#include <math.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"

enum { POSITIONS = 41, COLUMNS_MAX = 128, ROWS_MAX = 8 };

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

static double number_at(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

static void check_rotation(const char *model_type, const json_t *rotation)
{
    const size_t columns =
        (size_t)json_integer_value(json_object_get(rotation, "columns"));
    const json_t *from = json_object_get(rotation, "rope");
    const json_t *at = json_object_get(rotation, "positions");
    const json_t *wanted = json_object_get(rotation, "angles");
    const size_t rows = json_array_size(at) / ROPE_AXES;
    struct rope rope = { .theta =
                             json_number_value(json_object_get(from, "rope_theta")) };
    float cells[POSITIONS * COLUMNS_MAX], out[ROWS_MAX * COLUMNS_MAX];
    const struct rope_table table = { cells, POSITIONS, columns };
    int32_t positions[ROWS_MAX][ROPE_AXES];
    struct error err = { ERROR_NONE };
    struct rope_axes axes;

    assert_true(rows > 0 && rows <= ROWS_MAX && columns <= COLUMNS_MAX);
    for (size_t i = 0; i < rows * ROPE_AXES; i++)
        positions[i / ROPE_AXES][i % ROPE_AXES] = (int32_t)number_at(at, i);
    rope_axes_read(model_type, from, columns, "config.json", &axes, &err);
    assert_int_equal(err.code, ERROR_NONE);
    rope_fill(&rope, 1, &table);
    rope_fill_rows(&axes, &table, positions, &(struct rope_table) { out, rows, columns });
    assert_int_equal(json_array_size(wanted), rows * columns);
    for (size_t i = 0; i < rows * columns; i++)
        if (!(fabs((double)out[i] - number_at(wanted, i)) < 1e-5))
            fail_msg("%s, %zu columns: row %zu, column %zu is %g, not %g", model_type,
                     columns, i / columns, i % columns, (double)out[i],
                     number_at(wanted, i));
}

static void test_angles_are_those_of_transformers(void **state)
{
    json_t *golden = read_golden();
    const json_t *family, *rotation;
    size_t i, j;

    (void)state;
    assert_true(json_array_size(golden) >= 6);
    json_array_foreach(golden, i, family)
    {
        const json_t *rotations = json_object_get(family, "rotations");

        assert_true(json_array_size(rotations) > 0);
        json_array_foreach((json_t *)rotations, j, rotation) check_rotation(
            json_string_value(json_object_get(family, "model_type")), rotation);
    }
    json_decref(golden);
}

/* Whatever the axes: three equal numbers are a row of the table, to the bit. */
static void test_text_has_the_rows_of_the_table(void **state)
{
    static const struct rope_axes all[] = { { { 3, 3, 2 }, false },
                                            { { 4, 2, 2 }, true },
                                            { { 0, 0, 0 }, false } };
    const struct rope rope = { .kind = ROPE_LINEAR, .theta = 77, .factor = 3 };
    float cells[9 * 16], out[9 * 16];
    const struct rope_table table = { cells, 9, 16 };
    int32_t positions[9][ROPE_AXES];

    (void)state;
    rope_fill(&rope, 9, &table);
    for (size_t i = 0; i < 9 * ROPE_AXES; i++)
        positions[i / ROPE_AXES][i % ROPE_AXES] = (int32_t)(8 - i / ROPE_AXES);
    for (size_t a = 0; a < TS_COUNT(all); a++) {
        rope_fill_rows(&all[a], &table, positions, &(struct rope_table) { out, 9, 16 });
        for (size_t n = 0; n < 9; n++)
            assert_memory_equal(out + n * 16, cells + (8 - n) * 16, 16 * sizeof(*out));
    }
}

/* A model without such positions has no sections, whatever its file says. */
static void test_sections_that_do_not_fit(void **state)
{
    static const struct {
        const char *model_type, *text, *word; /* word NULL: accepted */
    } rows[] = {
        { "qwen2_vl", "{\"mrope_section\": [4, 2, 2]}", NULL },
        { "qwen2_vl", "{\"mrope_section\": [4, 2, 3]}", "must be 8, the rotated pairs" },
        { "qwen2_vl", "{}", "must be 8, the rotated pairs of columns, not 64" },
        { "qwen2_vl", "{\"mrope_section\": [4, 4]}", "a list of 3 numbers" },
        { "qwen2_vl", "{\"mrope_section\": 8}", "a list of 3 numbers" },
        { "qwen3_vl", "{\"mrope_section\": [4, 2, -2]}", "numbers from 0 to 512" },
        { "qwen3_vl", "{\"mrope_section\": [4, 2, 1.5]}", "numbers from 0 to 512" },
        { "qwen3_vl", "{\"mrope_section\": [4, 2, 513]}", "numbers from 0 to 512" },
        { "qwen3_vl", "{\"mrope_section\": [9, 512, 512]}", NULL },
        { "qwen3_vl", "{\"mrope_section\": null}", NULL },
        { "qwen3", "{\"mrope_section\": [4, 2]}", NULL },
        { NULL, "{\"mrope_section\": [4, 2]}", NULL },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct error err = { ERROR_NONE };
        json_t *rope =
            json_read_text(rows[i].text, strlen(rows[i].text), "config.json", 1, &err);
        struct rope_axes axes;

        assert_non_null(rope);
        rope_axes_read(rows[i].model_type, rope, 16, "config.json", &axes, &err);
        assert_int_equal(err.code, rows[i].word ? ERROR_DATA : ERROR_NONE);
        if (rows[i].word && !strstr(err.text, rows[i].word))
            fail_msg("%s: %s", rows[i].text, err.text);
        for (size_t pair = 0; pair < 8; pair++)
            assert_true(rope_axis(&axes, pair) < ROPE_AXES);
        json_decref(rope);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_angles_are_those_of_transformers),
        cmocka_unit_test(test_text_has_the_rows_of_the_table),
        cmocka_unit_test(test_sections_that_do_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
