/* tests/unit/test_scalar.c - the meanings of one text as different types. */
#include "config.h"

#include "patcher/schema/scalar.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static struct node node_of(const char *text, enum node_style style)
{
    return (struct node) {
        .kind = NODE_SCALAR, .style = style, .text = text, .len = strlen(text)
    };
}

static void test_scalar_reads_booleans(void **state)
{
    static const struct {
        const char *text;
        enum node_style style;
        enum scalar_kind kind;
        bool value;
    } cases[] = {
        { "true", STYLE_PLAIN, SCALAR_GOOD, true },
        { "False", STYLE_PLAIN, SCALAR_GOOD, false },
        { "TRUE", STYLE_PLAIN, SCALAR_GOOD, true },
        { "yes", STYLE_PLAIN, SCALAR_YAML11, true },
        { "Off", STYLE_PLAIN, SCALAR_YAML11, false },
        { "n", STYLE_PLAIN, SCALAR_YAML11, false },
        { "true", STYLE_DOUBLE, SCALAR_QUOTED, true },
        { "no", STYLE_SINGLE, SCALAR_QUOTED, false },
        { "1", STYLE_PLAIN, SCALAR_WRONG, false },
        { "truth", STYLE_PLAIN, SCALAR_WRONG, false },
        { "", STYLE_PLAIN, SCALAR_WRONG, false },
        { "true", STYLE_LITERAL, SCALAR_WRONG, false },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct node node = node_of(cases[i].text, cases[i].style);
        bool value = false;

        assert_int_equal(scalar_bool(&node, &value), cases[i].kind);
        assert_int_equal(value, cases[i].value);
    }
}

static void test_scalar_reads_numbers(void **state)
{
    static const struct {
        const char *text;
        enum scalar_kind kind;
        double value;
    } cases[] = {
        { "1e-4", SCALAR_GOOD, 1e-4 },
        { "1.0E+4", SCALAR_GOOD, 1e4 },
        { "1e4", SCALAR_GOOD, 1e4 },
        { ".5", SCALAR_GOOD, 0.5 },
        { "5.", SCALAR_GOOD, 5 },
        { "+1", SCALAR_GOOD, 1 },
        { "-0", SCALAR_GOOD, 0 },
        { "0.0001", SCALAR_GOOD, 1e-4 },
        { "00.5", SCALAR_GOOD, 0.5 },
        { ".inf", SCALAR_GOOD, INFINITY },
        { "-.Inf", SCALAR_GOOD, -INFINITY },
        { "1_000", SCALAR_YAML11, 1000 },
        { "1_0.5", SCALAR_YAML11, 10.5 },
        { "017", SCALAR_YAML11, 15 },
        { "-017", SCALAR_YAML11, -15 },
        { "08", SCALAR_YAML11, 8 },
        { "0o17", SCALAR_YAML11, 15 },
        { "0x1f", SCALAR_GOOD, 31 },
        { "0b11", SCALAR_YAML11, 3 },
        { "12:30", SCALAR_YAML11, 750 },
        { "1:00:00", SCALAR_YAML11, 3600 },
        { "+12:30", SCALAR_YAML11, 750 },
        { "-.5e1", SCALAR_GOOD, -5 },
        { "12e03", SCALAR_GOOD, 12000 },
        { "0888", SCALAR_YAML11, 888 }, /* text in PyYAML 6 */
        { "0:30", SCALAR_YAML11, 30 },  /* likewise */
        { "12:60", SCALAR_WRONG, 0 },
        { "0x_1f", SCALAR_WRONG, 0 },
        { "0b1_0", SCALAR_WRONG, 0 },
        { "1:30.5", SCALAR_WRONG, 0 }, /* 90.5 in PyYAML: not guessed */
        { "_1", SCALAR_WRONG, 0 },
        { "1,000", SCALAR_WRONG, 0 },
        { "1'000", SCALAR_WRONG, 0 },
        { "2024-01-01", SCALAR_WRONG, 0 },
        { "1e", SCALAR_WRONG, 0 },
        { ".", SCALAR_WRONG, 0 },
        { "1 2", SCALAR_WRONG, 0 },
        { "e5", SCALAR_WRONG, 0 },
        { "inf", SCALAR_WRONG, 0 },
        { "0x", SCALAR_WRONG, 0 },
        { "--1", SCALAR_WRONG, 0 },
        { "1:", SCALAR_WRONG, 0 },
        { "ten", SCALAR_WRONG, 0 },
        { "", SCALAR_WRONG, 0 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct node node = node_of(cases[i].text, STYLE_PLAIN);
        double value = 0;
        enum scalar_kind kind = scalar_number(&node, &value);

        if (kind != cases[i].kind || (kind != SCALAR_WRONG && value != cases[i].value))
            fail_msg("%s: kind %d, value %g", cases[i].text, kind, value);
    }
}

/* In quotes, int("010") is 10 to one reader and 8 to another: reported as without
 * quotes. */
static void test_scalar_reports_ambiguous_numbers_in_quotes(void **state)
{
    struct node odd = node_of("010", STYLE_DOUBLE), plain = node_of("10", STYLE_DOUBLE);
    double value = 0;

    (void)state;
    assert_int_equal(scalar_number(&odd, &value), SCALAR_YAML11);
    assert_int_equal(scalar_number(&plain, &value), SCALAR_QUOTED);
    assert_true(value == 10);
}

static void test_scalar_obeys_tags_and_aliases(void **state)
{
    struct node text = node_of("true", STYLE_PLAIN), plain = text;
    struct node alias = {
        .kind = NODE_ALIAS, .text = "true", .len = 4, .target = &plain
    };
    bool value = false;

    (void)state;
    text.tag = "tag:yaml.org,2002:str";
    assert_int_equal(scalar_bool(&text, &value), SCALAR_WRONG);
    assert_int_equal(scalar_bool(&alias, &value), SCALAR_GOOD);
    assert_true(value);
}

static void test_scalar_reads_sizes_and_times(void **state)
{
    static const char *const sizes[] = { "12GiB", "1.5GB",      "80%",
                                         "0.5%",  "1073741824", "512M" };
    static const char *const no_sizes[] = { "lots", "120%", "0%", "12", "-1GiB", "1024" };
    static const struct {
        const char *text;
        double seconds;
    } times[] = {
        { "90", 90 }, { "90s", 90 }, { "15m", 900 }, { "1.5h", 5400 }, { "2d", 172800 }
    };
    double seconds;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(sizes); i++) {
        struct node good = node_of(sizes[i], STYLE_PLAIN);
        struct node bad = node_of(no_sizes[i], STYLE_PLAIN);

        assert_int_equal(scalar_size(&good), SCALAR_GOOD);
        assert_int_equal(scalar_size(&bad), SCALAR_WRONG);
    }
    for (size_t i = 0; i < TS_COUNT(times); i++) {
        struct node node = node_of(times[i].text, STYLE_PLAIN);

        assert_int_equal(scalar_seconds(&node, &seconds), SCALAR_GOOD);
        assert_true(seconds == times[i].seconds);
    }
    assert_int_equal(scalar_seconds(&(struct node) { .text = "1w", .len = 2 }, &seconds),
                     SCALAR_WRONG);
}

static void test_scalar_prints_short(void **state)
{
    struct arena *arena = arena_new();

    (void)state;
    assert_string_equal(scalar_print(0.1, arena), "0.1");
    assert_string_equal(scalar_print(100, arena), "100");
    assert_string_equal(scalar_print(2e-5, arena), "2e-05");
    assert_string_equal(scalar_print(NAN, arena), ".nan");
    assert_string_equal(scalar_print(-INFINITY, arena), "-.inf");
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar_reads_booleans),
        cmocka_unit_test(test_scalar_reads_numbers),
        cmocka_unit_test(test_scalar_reports_ambiguous_numbers_in_quotes),
        cmocka_unit_test(test_scalar_obeys_tags_and_aliases),
        cmocka_unit_test(test_scalar_reads_sizes_and_times),
        cmocka_unit_test(test_scalar_prints_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
