/* tests/unit/test_sweep.c - the texts and names of the jobs of a sweep. */
#include "config.h"

#include "tests/unit/unit.h"

#include "base/size.h"
#include "patcher/sweep.h"

static int set_up(void **state)
{
    *state = arena_new();
    return 0;
}

static int tear_down(void **state)
{
    arena_free(*state);
    return 0;
}

static void make(struct arena *arena, const char *name, const char *text,
                 struct sweep *out)
{
    struct error err = { 0 };

    if (!sweep_make(name, text, strlen(text), arena, out, &err))
        fail_msg("%s", err.text);
}

static void test_sweep_makes_every_combination_once(void **state)
{
    static const char text[] = "stage: sft # kept\n"
                               "seed: 7\n"
                               "trainspool:\n"
                               "  sweep:\n"
                               "    seed: [1, 2]\n"
                               "    learning_rate:\n"
                               "    - 1e-5\n"
                               "    - '2e-5'\n"
                               "  priority: 3\n";
    struct sweep sweep;

    make(*state, "a", text, &sweep);
    assert_int_equal(sweep.count, 4);
    assert_string_equal(sweep.jobs[0].name, "a-1-seed-1-learning_rate-1e-5");
    assert_string_equal(sweep.jobs[1].name, "a-2-seed-1-learning_rate-2e-5");
    assert_string_equal(sweep.jobs[3].name, "a-4-seed-2-learning_rate-2e-5");
    assert_string_equal(sweep.jobs[3].text,
                        "# job 4 of 4 of the sweep a.yaml: seed 2, learning_rate 2e-5\n"
                        "stage: sft # kept\n"
                        "seed: 2\n"
                        "trainspool:\n"
                        "  sweep:\n"
                        "    null\n"
                        "  priority: 3\n"
                        "learning_rate: 2e-5\n");
    for (size_t i = 0; i < sweep.count; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(sweep.jobs[i].digest, sweep.jobs[j].digest);
}

static void test_sweep_keeps_layout_and_line_ends(void **state)
{
    struct sweep sweep;

    make(*state, "b",
         "\xef\xbb\xbftrainspool: {sweep: {seed: [1]}, device: cpu}\r\nseed: 3\r\n",
         &sweep);
    assert_int_equal(sweep.count, 1);
    assert_string_equal(sweep.jobs[0].text,
                        "\xef\xbb\xbf# job 1 of 1 of the sweep b.yaml: seed 1\r\n"
                        "trainspool: {sweep: null, device: cpu}\r\nseed: 1\r\n");
}

static void test_sweep_separates_outputs(void **state)
{
    struct sweep sweep;

    make(*state, "c", "output_dir: out/\ntrainspool: {sweep: {seed: [1, 2]}}\n", &sweep);
    assert_non_null(strstr(sweep.jobs[1].text, "output_dir: out/c-2-seed-2\n"));
    make(*state, "c", "output_dir: out\ntrainspool: {sweep: {output_dir: [x, y]}}\n",
         &sweep);
    assert_non_null(strstr(sweep.jobs[1].text, "output_dir: y\n"));
}

static void test_sweep_names_are_plain_and_short(void **state)
{
    struct sweep sweep;

    make(*state, "d",
         "trainspool: {sweep: {model_name_or_path: [../models/a b, \"caf\xc3\xa9\"]}}\n",
         &sweep);
    assert_string_equal(sweep.jobs[0].name, "d-1-model_name_or_path-.._models_a_b");
    assert_string_equal(sweep.jobs[1].name, "d-2-model_name_or_path-caf__");
    make(
        *state, "d",
        "trainspool: {sweep: {dataset: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, b]"
        "}}\n",
        &sweep);
    assert_true(strlen(sweep.jobs[0].name) <= 120);
}

static void test_sweep_refuses(void **state)
{
    static const char *const texts[] = {
        "seed: 1\n",
        "trainspool: {sweep: null}\n",
        "trainspool: {sweep: {}}\n",
        "trainspool: {sweep: [1]}\n",
        "trainspool: {sweep: {seed: []}}\n",
        "trainspool: {sweep: {seed: [[1]]}}\n",
        "trainspool: {sweep: {seed: [x]}}\n",
        "trainspool: {sweep: {device: [cpu]}}\n",
    };

    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        struct error err = { 0 };
        struct sweep sweep;

        if (sweep_make("e", texts[i], strlen(texts[i]), *state, &sweep, &err))
            fail_msg("accepted: %s", texts[i]);
        assert_int_equal(err.code, ERROR_JOB);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sweep_makes_every_combination_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_sweep_keeps_layout_and_line_ends, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_sweep_separates_outputs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sweep_names_are_plain_and_short, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_sweep_refuses, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
