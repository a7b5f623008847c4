/* tests/unit/test_report_similar.c - which findings are the same except for their key. */
#include "config.h"

#include "runner/output/report_similar.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static const struct finding base = {
    .rule = "TS014",
    .severity = SEVERITY_INFO,
    .apply = APPLY_UNSAFE,
    .key = "seed",
    .old_text = "'7'",
    .new_text = "7",
    .message = "seed is quoted: 7 is a string for seed",
};

static void check(const struct finding *other, bool similar)
{
    if (report_is_similar(&base, other) != similar)
        fail_msg("%s is %ssimilar", other->message, similar ? "not " : "");
    assert_int_equal(report_is_similar(other, &base), similar);
}

static void test_report_similar_ignores_key_and_value(void **state)
{
    struct finding other = base;

    (void)state;
    other.key = "max_steps";
    other.old_text = "\"30\"";
    other.new_text = "30";
    other.at.line = 9;
    other.message = "max_steps is quoted: 30 is a string for max_steps";
    check(&other, true);
    other.old_text = "";
    other.message = "max_steps is quoted: 30 is a string for max_steps";
    check(&other, false);
}

static void test_report_similar_compares_the_rest(void **state)
{
    struct finding others[12];

    (void)state;
    for (size_t i = 0; i < TS_COUNT(others); i++) {
        others[i] = base;
        others[i].key = "max_steps";
        others[i].message = "max_steps is quoted: 7 is a string for max_steps";
    }
    check(&others[0], true);
    others[1].rule = "TS012";
    others[2].severity = SEVERITY_WARNING;
    others[3].apply = APPLY_SAFE;
    others[4].fixed = true;
    others[5].resolved = true;
    others[6].group = 1;
    others[7].key = "seed";
    others[7].message = base.message;
    others[8].note = "a note";
    others[9].new_text = others[9].old_text = NULL;
    others[10].message = "max_steps is quoted: 7 is a string for max_steps!";
    others[11].message = "max_steps is quoted: 7 is a number for max_steps";
    for (size_t i = 1; i < TS_COUNT(others); i++)
        check(&others[i], false);
    others[0].severity = others[1].severity = SEVERITY_ERROR;
    others[1].rule = others[0].rule;
    others[1].key = "dropout";
    others[1].message = "dropout is quoted: 7 is a string for dropout";
    assert_false(report_is_similar(&others[0], &others[1]));
    others[0].severity = base.severity;
    others[0].key = NULL;
    check(&others[0], false);
}

/* lr is a key, but not in alr or lr_scheduler. */
static void test_report_similar_compares_whole_words(void **state)
{
    struct finding a = { .rule = "TS703", .key = "lr", .message = "alr lr lr_b" };
    struct finding b = { .rule = "TS703", .key = "x", .message = "alr x lr_b" };
    struct finding c = { .rule = "TS703", .key = "x", .message = "ax x x_b" };

    (void)state;
    assert_true(report_is_similar(&a, &b));
    assert_false(report_is_similar(&a, &c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_similar_ignores_key_and_value),
        cmocka_unit_test(test_report_similar_compares_the_rest),
        cmocka_unit_test(test_report_similar_compares_whole_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
