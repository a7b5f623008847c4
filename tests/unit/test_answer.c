/* tests/unit/test_answer.c - answers are found in a text, and are right within the
 * tolerance. */
#include "config.h"

#include "train/generation/answer.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_answers_are_found(void **state)
{
    static const struct {
        const char *tag, *marker, *text, *answer; /* answer NULL: none */
    } cases[] = {
        { NULL, NULL, "  42 \n", "42" },
        { NULL, NULL, " \n", NULL },
        { "answer", NULL, "3 * 2 = 6\n<answer> 6 </answer> so", "6" },
        { "answer", NULL, "<answer>1</answer><answer>2</answer>", "1" },
        { "answer", NULL, "<answer>6", NULL },
        { "answer", NULL, "<answer></answer>", NULL },
        { "answer", NULL, "<answers>6</answers>", NULL },
        { "answer", NULL, "</answer>6<answer>", NULL },
        { NULL, "####", "so 2 + 2\n#### 4\nand more", "4" },
        { NULL, "####", "####", NULL },
        { NULL, "####", "#### \n 7", NULL },
        { NULL, "####", "42", NULL },
        { "answer", "####", "#### 3 <answer>5</answer>", "5" },
        { "answer", "####", "#### 3", "3" },
        { "", "", "x", "x" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const struct answer_rule rule = { cases[i].tag, cases[i].marker, 0 };
        struct answer out;
        bool found = answer_find(&rule, cases[i].text, strlen(cases[i].text), &out);

        if (found != (cases[i].answer != NULL))
            fail_msg("case %zu: found is %d", i, found);
        if (found && (out.len != strlen(cases[i].answer) ||
                      memcmp(out.text, cases[i].answer, out.len) != 0))
            fail_msg("case %zu: %.*s", i, (int)out.len, out.text);
    }
}

static void test_numbers_are_read(void **state)
{
    static const struct {
        const char *text;
        double number; /* NAN: none */
    } cases[] = {
        { "72", 72 },
        { "-3.5", -3.5 },
        { "1,234", 1234 },
        { "1,234,567.5", 1234567.5 },
        { "$18", 18 },
        { "-$1,000", -1000 },
        { "\xe2\x82\xac 5", 5 },
        { "50%", 50 },
        { "18.", 18 },
        { "6.02e23", 6.02e23 },
        { ".5", 0.5 },
        { "12,34", NAN },
        { ",123", NAN },
        { "1,2345", NAN },
        { "1234,567", NAN },
        { "1,23.5", NAN },
        { "9 feet", NAN },
        { "", NAN },
        { "-", NAN },
        { "nan", NAN },
        { "inf", NAN },
        { "0x10", NAN },
        { "1e999", NAN },
        { "--2", NAN },
        { "1.2.3", NAN },
        { "$", NAN },
        { "%", NAN },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        double number;
        bool is = answer_number((struct answer) { cases[i].text, strlen(cases[i].text) },
                                &number);

        if (is == (isnan(cases[i].number) != 0) || (is && number != cases[i].number))
            fail_msg("%s: %d", cases[i].text, is);
    }
}

static void test_answers_are_right_within_the_tolerance(void **state)
{
    static const struct {
        const char *text, *expected;
        double tolerance;
        bool found, correct;
    } cases[] = {
        { "<answer>9.8</answer>", "9.84", 0.05, true, true },
        { "<answer>9.8</answer>", "9.84", 0, true, false },
        { "<answer>-105</answer>", "<answer>-100</answer>", 0.05, true, true },
        { "<answer>105.1</answer>", "100", 0.05, true, false },
        { "<answer>100</answer>", "-100", 0.05, true, false },
        { "<answer>0</answer>", "0.0", 0.05, true, true },
        { "<answer>1,000</answer>", "1000", 0, true, true },
        { "<answer>Paris</answer>", "so <answer>Paris</answer>", 0.05, true, true },
        { "<answer>paris</answer>", "Paris", 0.05, true, false },
        { "9.84", "9.84", 0.05, false, false },
        { "", "9.84", 0.05, false, false },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const struct answer_rule rule = { "answer", NULL, cases[i].tolerance };
        struct verdict is = answer_judge(&rule, cases[i].text, strlen(cases[i].text),
                                         cases[i].expected, strlen(cases[i].expected));

        if (is.found != cases[i].found || is.correct != cases[i].correct)
            fail_msg("case %zu: found %d, correct %d", i, is.found, is.correct);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_found),
        cmocka_unit_test(test_numbers_are_read),
        cmocka_unit_test(test_answers_are_right_within_the_tolerance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
