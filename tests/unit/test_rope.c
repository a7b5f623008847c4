/* tests/unit/test_rope.c - compares frequencies with values computed by hand; what
 * config.json may say about them. */
#include "config.h"

#include "train/model/rope.h"

#include <math.h>

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"

static void near(double is, double expected)
{
    if (!(fabs(is - expected) <= 1e-12 * fabs(expected)))
        fail_msg("%.17g, expected %.17g", is, expected);
}

static void test_rope_frequencies(void **state)
{
    const struct rope plain = { .theta = 10000 };
    const struct rope linear = { .kind = ROPE_LINEAR, .theta = 10000, .factor = 4 };

    (void)state;
    near(rope_frequency(&plain, 8, 1, 0), 1);
    near(rope_frequency(&plain, 8, 1, 1), 0.1);
    near(rope_frequency(&plain, 8, 1, 3), 0.001);
    near(rope_frequency(&linear, 8, 1, 1), 0.025);
}

/* Original context of 1000 positions: f fits 1000 f / 2 pi times into it.  Fewer than 1
 * time: divided; more than 4 times: unchanged; 2 times: a third of the way, 2/3 f / 8 +
 * 1/3 f. */
static void test_rope_llama3_bands(void **state)
{
    struct rope rope = { .kind = ROPE_LLAMA3,
                         .factor = 8,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4,
                         .original_max_positions = 1000 };
    double two_times = 2 * 2 * M_PI / 1000;

    (void)state;
    rope.theta = 1 / (two_times * two_times); /* its square root, at 1 of head size 4 */
    near(rope_frequency(&rope, 4, 1, 0), 1);
    near(rope_frequency(&rope, 4, 1, 1), two_times * (2.0 / 3 / 8 + 1.0 / 3));
    rope.theta = 1e10;
    near(rope_frequency(&rope, 4, 1, 1), 1e-5 / 8);
}

/* Columns have the frequencies of the whole head, of which only the first turn. */
static void test_rope_proportional_stops(void **state)
{
    const struct rope rope = {
        .kind = ROPE_PROPORTIONAL, .theta = 1e8, .factor = 2, .turning = 2
    };

    (void)state;
    near(rope_frequency(&rope, 8, 1, 0), 0.5);
    near(rope_frequency(&rope, 8, 1, 1), 1e-2 / 2);
    assert_true(rope_frequency(&rope, 8, 1, 2) == 0);
    assert_true(rope_frequency(&rope, 8, 1, 3) == 0);
}

/* Base e^4 of 16 columns: column i turns 1000 e^(-i / 2) / 2 pi times in the original
 * positions; 159 e^-1 times is column 2, 159 e^-3 times is column 6. */
static void test_rope_yarn_ramp(void **state)
{
    const double whole = 1000 / (2 * M_PI);
    struct rope rope = { .kind = ROPE_YARN,
                         .theta = exp(4),
                         .factor = 8,
                         .original_max_positions = 1000,
                         .beta_fast = whole * exp(-1),
                         .beta_slow = whole * exp(-3) };

    (void)state;
    near(rope_frequency(&rope, 16, 1, 1), exp(-0.5));
    near(rope_frequency(&rope, 16, 1, 2), exp(-1));
    near(rope_frequency(&rope, 16, 1, 3), exp(-1.5) * (0.75 + 0.25 / 8));
    near(rope_frequency(&rope, 16, 1, 7), exp(-3.5) / 8);
    rope.beta_fast = whole * exp(-1.25); /* 2.5, rounded down */
    rope.beta_slow = whole * exp(-2.75); /* 5.5, rounded up */
    near(rope_frequency(&rope, 16, 1, 3), exp(-1.5) * (5.0 / 6 + 1.0 / 6 / 8));
    rope.truncate = true;
    near(rope_frequency(&rope, 16, 1, 3), exp(-1.5) * (0.75 + 0.25 / 8));
}

static void test_rope_dynamic_grows_with_the_length(void **state)
{
    const struct rope rope = {
        .kind = ROPE_DYNAMIC, .theta = 100, .factor = 2, .max_positions = 10
    };
    /* of 4 columns, at twice the positions: 3^2 */
    const double theta = 100 * pow(2 * 20.0 / 10 - 1, 2);

    (void)state;
    near(rope_frequency(&rope, 4, 5, 1), 0.1);
    near(rope_frequency(&rope, 4, 10, 1), 0.1);
    near(rope_frequency(&rope, 4, 20, 1), 1 / sqrt(theta));
    assert_true(rope_reach(&rope, 3) == rope_reach(&rope, 10));
    assert_true(rope_reach(&rope, 11) != rope_reach(&rope, 10));
}

static void test_rope_longrope_switches_once(void **state)
{
    const double some[] = { 1, 2 }, more[] = { 4, 10 };
    const struct rope rope = { .kind = ROPE_LONGROPE,
                               .theta = 100,
                               .original_max_positions = 10,
                               .short_factors = some,
                               .long_factors = more };

    (void)state;
    near(rope_frequency(&rope, 4, 10, 1), 0.05);
    near(rope_frequency(&rope, 4, 11, 1), 0.01);
    near(rope_frequency(&rope, 4, 11, 0), 0.25);
    assert_true(rope_reach(&rope, 1) == rope_reach(&rope, 10));
    assert_true(rope_reach(&rope, 11) != rope_reach(&rope, 10));
    assert_true(rope_reach(&rope, 11) == rope_reach(&rope, 99));
}

static void test_rope_table_rows(void **state)
{
    struct rope rope = { .theta = 100 };
    float cells[3 * 4];
    const struct rope_table table = { cells, 3, 4 };

    (void)state;
    rope_fill(&rope, 1, &table);
    near(cells[0], 1);
    near(cells[2], 0);
    assert_float_equal(cells[8], cos(2), 1e-7);
    assert_float_equal(cells[9], cos(0.2), 1e-7);
    assert_float_equal(cells[10], sin(2), 1e-7);
    assert_float_equal(cells[11], sin(0.2), 1e-7);
    rope.attention_factor = 3;
    rope_fill(&rope, 1, &table);
    assert_float_equal(cells[9], 3 * cos(0.2), 1e-6);
    assert_float_equal(cells[10], 3 * sin(2), 1e-6);
}

/* The scales switch with the frequencies, in place of the attention factor. */
static void test_rope_table_has_the_scale_of_its_length(void **state)
{
    static const double few[] = { 1, 2 }, many[] = { 4, 10 };
    const struct rope rope = { .kind = ROPE_LONGROPE,
                               .theta = 100,
                               .attention_factor = 7,
                               .original_max_positions = 2,
                               .short_factors = few,
                               .long_factors = many,
                               .short_scale = 3,
                               .long_scale = 5 };
    float cells[3 * 4];
    const struct rope_table table = { cells, 3, 4 };

    (void)state;
    rope_fill(&rope, 1, &table);
    assert_float_equal(cells[1 * 4 + 1], 3 * cos(0.1 / 2), 1e-6);
    assert_float_equal(cells[1 * 4 + 2], 3 * sin(1), 1e-6);
    assert_float_equal(cells[2 * 4 + 1], 5 * cos(2 * 0.1 / 10), 1e-6);
    assert_float_equal(cells[2 * 4 + 2], 5 * sin(2 * 1. / 4), 1e-6);
    rope_fill(&rope, 3, &table);
    assert_float_equal(cells[1 * 4 + 2], 5 * sin(1. / 4), 1e-6);
}

/* Rows up to the length share its angles; each later row has its own. */
static void test_rope_table_of_a_growing_sequence(void **state)
{
    const struct rope rope = {
        .kind = ROPE_DYNAMIC, .theta = 100, .factor = 2, .max_positions = 2
    };
    float cells[6 * 4];
    const struct rope_table table = { cells, 6, 4 };

    (void)state;
    rope_fill(&rope, 4, &table);
    assert_float_equal(cells[1 * 4 + 1], cos(rope_frequency(&rope, 4, 4, 1)), 1e-7);
    assert_float_equal(cells[3 * 4 + 1], cos(3 * rope_frequency(&rope, 4, 4, 1)), 1e-7);
    assert_float_equal(cells[4 * 4 + 3], sin(4 * rope_frequency(&rope, 4, 5, 1)), 1e-7);
    assert_float_equal(cells[5 * 4 + 3], sin(5 * rope_frequency(&rope, 4, 6, 1)), 1e-7);
}

/* Read an object for a model of 64 positions; 4 columns are rotated. */
static struct rope read_rope(const char *text, struct arena *arena, struct error *err)
{
    struct rope rope = { .theta = 100 };
    const struct rope_source source = { .file = "config.json",
                                        .columns = 4,
                                        .max_positions = 64,
                                        .arena = arena,
                                        .err = err };
    json_t *from = json_read_text(text, strlen(text), "config.json", 1, err);

    rope_read(&source, from, &rope);
    json_decref(from);
    return rope;
}

static void test_rope_reads_its_defaults(void **state)
{
    struct arena *arena = arena_new();
    struct error err = { 0 };
    struct rope rope;

    (void)state;
    rope = read_rope("{\"type\": \"yarn\", \"factor\": 4}", arena, &err);
    assert_true(rope.kind == ROPE_YARN && rope.beta_fast == 32 && rope.beta_slow == 1);
    assert_true(rope.truncate && rope.original_max_positions == 64);
    near(rope.attention_factor, 0.1 * log(4) + 1);
    rope = read_rope("{\"rope_type\": \"yarn\", \"factor\": null, \"mscale\": 2, "
                     "\"mscale_all_dim\": 1, \"original_max_position_embeddings\": 16}",
                     arena, &err);
    near(rope.factor, 4);
    near(rope.attention_factor, (0.2 * log(4) + 1) / (0.1 * log(4) + 1));
    rope = read_rope("{\"type\": \"su\", \"short_factor\": [1, 2], \"long_factor\": [3, "
                     "4], \"original_max_position_embeddings\": 16}",
                     arena, &err);
    assert_true(rope.kind == ROPE_LONGROPE && rope.long_factors[1] == 4);
    near(rope.attention_factor, sqrt(1 + log(4) / log(16)));
    rope = read_rope("{\"type\": \"mrope\", \"mrope_section\": [1, 1]}", arena, &err);
    assert_true(rope.kind == ROPE_DEFAULT && err.code == ERROR_NONE);
    arena_free(arena);
}

static void test_rope_rejects(void **state)
{
    static const struct {
        const char *text, *word;
    } cases[] = {
        { "{\"type\": \"axial\"}", "\"axial\" is not supported; supported: default" },
        { "{\"type\": \"dynamic\"}", "factor" },
        { "{\"type\": \"yarn\"}", "factor" },
        { "{\"type\": \"dynamic\", \"factor\": 0.5}", "1 or more" },
        { "{\"type\": \"linear\", \"factor\": \"2\"}", "factor" },
        { "{\"type\": \"yarn\", \"factor\": 2, \"beta_fast\": -1}", "beta_fast" },
        { "{\"type\": \"longrope\", \"factor\": 2}", "short_factor must be a list of 2" },
        { "{\"type\": \"longrope\", \"short_factor\": [1, 1], \"long_factor\": [1]}",
          "long_factor must be a list of 2" },
        { "{\"type\": \"longrope\", \"short_factor\": [1, 0], \"long_factor\": [1, 1]}",
          "numbers above 0" },
        { "{\"type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 4, "
          "\"high_freq_factor\": 1}",
          "high_freq_factor must be above" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct arena *arena = arena_new();
        struct error err = { 0 };

        read_rope(cases[i].text, arena, &err);
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i].word))
            fail_msg("%s: %s", cases[i].text, err.text);
        arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope_frequencies),
        cmocka_unit_test(test_rope_llama3_bands),
        cmocka_unit_test(test_rope_proportional_stops),
        cmocka_unit_test(test_rope_yarn_ramp),
        cmocka_unit_test(test_rope_dynamic_grows_with_the_length),
        cmocka_unit_test(test_rope_longrope_switches_once),
        cmocka_unit_test(test_rope_table_rows),
        cmocka_unit_test(test_rope_table_has_the_scale_of_its_length),
        cmocka_unit_test(test_rope_table_of_a_growing_sequence),
        cmocka_unit_test(test_rope_reads_its_defaults),
        cmocka_unit_test(test_rope_rejects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
