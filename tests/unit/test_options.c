/* tests/unit/test_options.c - the command line accepts what the tables of options say. */
#include "config.h"

#include "tests/unit/unit.h"

#include "base/size.h"
#include "runner/options/options.h"
#include "runner/options/options_help.h"

static const struct command command = {
    .name = "check",
    .operands = "JOB...",
    .min_operands = 1,
    .max_operands = 2,
    .options = (const enum option_id[]) { OPTION_JSON, OPTION_FAIL_ON, OPTION_SET,
                                          OPTION_LINES, OPTION_FOLLOW, OPTION_END },
    .help = "look at a job",
};

static bool read_words(const char *const words[], struct options *out, struct error *err)
{
    static char *argv[16]; /* operands point into it */
    int argc = 1;

    argv[0] = (char *)"check";
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)words[argc - 1];
    argv[argc] = NULL;
    *err = (struct error) { 0 };
    return options_read(argc, argv, "trainspool", &command, out, err);
}

#define READ(out, err, ...) \
    read_words((const char *const[]) { __VA_ARGS__, NULL }, out, err)

static void test_options_accept_switches_values_and_operands_in_any_order(void **state)
{
    struct options options;
    struct error err;

    (void)state;
    assert_true(
        READ(&options, &err, "a.yaml", "--json", "--fail-on=info", "-q", "b.yaml"));
    assert_true(options.json);
    assert_true(options.quiet);
    assert_false(options.verbose);
    assert_string_equal(options.fail_on, "info");
    assert_int_equal(options.operand_count, 2);
    assert_string_equal(options.operands[0], "a.yaml");
    assert_string_equal(options.operands[1], "b.yaml");
    options_clear(&options);
}

static void test_options_collect_lists(void **state)
{
    struct options options;
    struct error err;

    (void)state;
    assert_true(READ(&options, &err, "--set", "a=1", "--set=b=2", "job"));
    assert_string_equal(options.set[0], "a=1");
    assert_string_equal(options.set[1], "b=2");
    assert_null(options.set[2]);
    options_clear(&options);
}

static void test_options_end_at_two_dashes(void **state)
{
    struct options options;
    struct error err;

    (void)state;
    assert_true(READ(&options, &err, "--", "--json"));
    assert_false(options.json);
    assert_string_equal(options.operands[0], "--json");
    options_clear(&options);
}

static void test_options_refuse_unknown_options(void **state)
{
    static const char *const wrong[][4] = {
        { "--nonsense", "job" }, { "--unsafe", "job" },        { "-x", "job" },
        { "--fail-on" },         { "--fail-on=never", "job" }, { "--lines=-1", "job" },
        { "--lines=1x", "job" }, { "--lines=", "job" },        { "--json=yes", "job" },
    };
    struct options options;
    struct error err;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(wrong); i++) {
        assert_false(read_words(wrong[i], &options, &err));
        assert_int_equal(err.code, ERROR_USAGE);
        assert_true(err.text[0]);
        options_clear(&options);
    }
}

static void test_options_count_operands_but_not_for_help(void **state)
{
    struct options options;
    struct error err;

    (void)state;
    assert_false(READ(&options, &err, "--json"));
    assert_non_null(strstr(err.text, "JOB..."));
    assert_false(READ(&options, &err, "a", "b", "c"));
    assert_non_null(strstr(err.text, "extra operand c"));
    assert_true(READ(&options, &err, "--help"));
    assert_true(options.help);
}

static void test_options_help_lists_only_the_options_of_a_command(void **state)
{
    struct text page;

    (void)state;
    text_init(&page, 0);
    options_help("trainspool", &command, &page);
    for (int id = 0; id < OPTION_IDS; id++) {
        char name[64];

        snprintf(name, sizeof(name), "--%s", option_row((enum option_id)id)->name);
        assert_int_equal(strstr(page.data, name) != NULL,
                         option_is_accepted(&command, (enum option_id)id));
    }
    text_clear(&page);
}

static void test_options_wrap_keeps_words_and_width(void **state)
{
    struct text out;

    (void)state;
    text_init(&out, 0);
    options_wrap("one two three\nfour", 2, 9, &out);
    assert_string_equal(out.data, "  one two\n  three\n  four\n");
    text_clear(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_accept_switches_values_and_operands_in_any_order),
        cmocka_unit_test(test_options_collect_lists),
        cmocka_unit_test(test_options_end_at_two_dashes),
        cmocka_unit_test(test_options_refuse_unknown_options),
        cmocka_unit_test(test_options_count_operands_but_not_for_help),
        cmocka_unit_test(test_options_help_lists_only_the_options_of_a_command),
        cmocka_unit_test(test_options_wrap_keeps_words_and_width),
    };

    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
