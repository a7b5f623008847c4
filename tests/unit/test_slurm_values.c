/* tests/unit/test_slurm_values.c - which options of Slurm are accepted, and what they mean. */
#include "config.h"

#include "patcher/schema/slurm_values.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_slurm_times_have_the_forms_of_sbatch(void **state)
{
    static const struct {
        const char *text;
        int64_t seconds; /* 0: no time */
    } cases[] = {
        { "90", 5400 },
        { "90:00", 5400 },
        { "1:30", 90 },
        { "12:00:00", 43200 },
        { "100:00:00", 360000 },
        { "00:00:30", 30 },
        { "2-12", 216000 },
        { "2-12:30", 217800 },
        { "0-00:10:05", 605 },
        { "1-23:59:59", 172799 },
        { "", 0 },
        { "0", 0 },
        { "0:00:00", 0 },
        { "12h", 0 },
        { "1:60", 0 },
        { "1:60:00", 0 },
        { "1-24", 0 },
        { "1-", 0 },
        { "-1", 0 },
        { "1:", 0 },
        { ":1", 0 },
        { "1:2:3:4", 0 },
        { "1-2:3:4:5", 0 },
        { "1-2-3", 0 },
        { "1:2-3", 0 },
        { " 1", 0 },
        { "1 ", 0 },
        { "+1", 0 },
        { "999999999", 0 },
        { "1.5", 0 },
        { "UNLIMITED", 0 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        int64_t seconds = 0;

        if (slurm_is_time(cases[i].text, &seconds) != (cases[i].seconds > 0) ||
            (cases[i].seconds > 0 && seconds != cases[i].seconds))
            fail_msg("%s: %lld s", cases[i].text, (long long)seconds);
    }
}

static void test_slurm_names_and_sizes_are_strict(void **state)
{
    static const char *const names[] = { "gpu", "gpu,big", "lab_1", "a.b-c",
                                         "x@y", "p+q",     "1" },
                             *const others[] = { "",     "-x",   "a b",     "a\tb",
                                                 "a\nb", "a;b",  "$x",      "a,,b",
                                                 "a,",   ",a",   "a'b",     "#x",
                                                 "%j",   "a,-b", "`a`",     "a\\b",
                                                 "\x7f", "=a",   "\xc3\xa4" };
    static const char
        *const sizes[] = { "64G", "64g", "512000M", "1T", "100", "0", "8K" },
               *const no_sizes[] = { "",   "G",    "64GB", "64GiB",
                                     "-1", "1.5G", "64 G", "1234567890123G" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++)
        assert_true(slurm_is_name(names[i]));
    for (size_t i = 0; i < TS_COUNT(others); i++)
        if (slurm_is_name(others[i]) || slurm_is_constraint(others[i]))
            if (strcmp(others[i], "a,-b") != 0 || slurm_is_name(others[i]))
                fail_msg("'%s' is no name", others[i]);
    for (size_t i = 0; i < TS_COUNT(sizes); i++)
        assert_true(slurm_is_size(sizes[i]));
    for (size_t i = 0; i < TS_COUNT(no_sizes); i++)
        assert_false(slurm_is_size(no_sizes[i]));
}

static void test_slurm_gres_count_gpus_and_name_their_types(void **state)
{
    static const struct {
        const char *text;
        bool ok, any, untyped;
        int64_t count;
        size_t types;
        const char *first;
    } cases[] = {
        { "gpu", true, true, true, 1, 0, NULL },
        { "gpu:2", true, true, true, 2, 0, NULL },
        { "gpu:a100", true, true, false, 1, 1, "a100" },
        { "gpu:a100:4", true, true, false, 4, 1, "a100" },
        { "gpu:a100:4,shard:1", true, true, false, 4, 1, "a100" },
        { "gpu:a100:2,gpu:v100:1", true, true, false, 3, 2, "a100" },
        { "gpu:a100_1g.5gb:1", true, true, false, 1, 1, "a100_1g.5gb" },
        { "gpu:0", true, false, false, 0, 0, NULL },
        { "shard:1k", true, false, false, 0, 0, NULL },
        { "nic", true, false, false, 0, 0, NULL },
        { "", false, false, false, 0, 0, NULL },
        { "gpu:", false, false, false, 0, 0, NULL },
        { "gpu:a100:", false, false, false, 0, 0, NULL },
        { "gpu:a100:x", false, false, false, 0, 0, NULL },
        { "gpu:a100:-1", false, false, false, 0, 0, NULL },
        { "gpu:a100:1:1", false, false, false, 0, 0, NULL },
        { "gpu:2,", false, false, false, 0, 0, NULL },
        { ",gpu:2", false, false, false, 0, 0, NULL },
        { "-gpu:2", false, false, false, 0, 0, NULL },
        { "gpu:2 shard", false, false, false, 0, 0, NULL },
        { "gpu:9999999", false, false, false, 0, 0, NULL },
        { "2", false, false, false, 0, 0, NULL },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct slurm_gpus gpus;

        if (slurm_read_gres(cases[i].text, &gpus) != cases[i].ok)
            fail_msg("%s", cases[i].text);
        if (!cases[i].ok)
            continue;
        if (gpus.any != cases[i].any || gpus.untyped != cases[i].untyped ||
            gpus.count != cases[i].count || gpus.types != cases[i].types)
            fail_msg("%s: %lld of %zu types", cases[i].text, (long long)gpus.count,
                     gpus.types);
        if (cases[i].first)
            assert_string_equal(gpus.type[0], cases[i].first);
    }
}

static void test_slurm_reads_what_sinfo_prints_of_a_node(void **state)
{
    struct slurm_gpus gpus;

    (void)state;
    slurm_read_node_gres("gpu:a100:4(S:0-1,3),shard:8(IDX:0),gpu:v100:1", &gpus);
    assert_int_equal(gpus.count, 5);
    assert_int_equal(gpus.types, 2);
    assert_string_equal(gpus.type[1], "v100");
    slurm_read_node_gres("(null)", &gpus);
    assert_false(gpus.any);
    slurm_read_node_gres("", &gpus);
    assert_false(gpus.any);
    slurm_read_node_gres("gpu:2(S:0", &gpus);
    assert_int_equal(gpus.count, 2);
    assert_true(gpus.untyped);
}

static void test_slurm_constraints_select_nodes(void **state)
{
    static const struct {
        const char *constraint, *features;
        bool matches;
    } cases[] = {
        { "a100", "cpu,a100", true },
        { "a100", "cpu,a10", false },
        { "a100", "(null)", false },
        { "a&b", "a,b", true },
        { "a&b", "a", false },
        { "a,b", "a", false },
        { "a|b", "b", true },
        { "a&b|c", "c", true },
        { "a&(b|c)", "a,c", true },
        { "a&(b|c)", "b,c", false },
        { "[a|b]", "b", true },
        { "[a*2&b*4]", "b", true }, /* some nodes have a, the others b */
        { "[a*2&b*4]", "c", false },
    };
    static const char *const wrong[] = {
        "(a", "a)", "a&", "&a", "a||b", "a*", "[a)", "()", "a b", "((((((((((a))))))))))"
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        assert_true(slurm_is_constraint(cases[i].constraint));
        if (slurm_matches(cases[i].constraint, cases[i].features) != cases[i].matches)
            fail_msg("%s of %s", cases[i].constraint, cases[i].features);
    }
    for (size_t i = 0; i < TS_COUNT(wrong); i++)
        if (slurm_is_constraint(wrong[i]))
            fail_msg("%s", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slurm_times_have_the_forms_of_sbatch),
        cmocka_unit_test(test_slurm_names_and_sizes_are_strict),
        cmocka_unit_test(test_slurm_gres_count_gpus_and_name_their_types),
        cmocka_unit_test(test_slurm_reads_what_sinfo_prints_of_a_node),
        cmocka_unit_test(test_slurm_constraints_select_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
