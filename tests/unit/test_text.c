/* tests/unit/test_text.c - growth up to the ceiling, strict UTF-8, and escaped control
 * characters. */
#include "config.h"

#include "base/text.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_text_grows_and_ends_in_nul(void **state)
{
    struct text text;

    (void)state;
    text_init(&text, 0);
    assert_string_equal(text.data, "");
    for (int i = 0; i < 10000; i++)
        assert_true(text_addf(&text, "%d,", i % 10));
    assert_int_equal(text.len, 20000);
    assert_int_equal(text.data[text.len], 0);
    assert_memory_equal(text.data, "0,1,2,3,4,5,6,7,8,9,0,", 22);
    text_reset(&text);
    assert_string_equal(text.data, "");
    assert_true(text_addc(&text, 'x'));
    assert_true(text_adds(&text, "yz"));
    assert_string_equal(text.data, "xyz");
    text_clear(&text);
    assert_string_equal(text.data, "");
    assert_true(text_adds(&text, "again"));
    text_clear(&text);
}

static void test_text_may_contain_nul(void **state)
{
    struct text text;

    (void)state;
    text_init(&text, 0);
    assert_true(text_add(&text, "a\0b", 3));
    assert_int_equal(text.len, 3);
    assert_memory_equal(text.data, "a\0b", 4);
    text_clear(&text);
}

static void test_text_ceiling_drops_whole_additions_and_all_later_ones(void **state)
{
    struct text text;

    (void)state;
    text_init(&text, 10);
    assert_true(text_adds(&text, "12345678"));
    assert_false(text_adds(&text, "9ab"));
    assert_true(text.overflow);
    assert_false(text_adds(&text, "9"));
    assert_false(text_addf(&text, "%d", 9));
    assert_false(text_add_visible(&text, "9", 1));
    assert_string_equal(text.data, "12345678");
    text_reset(&text);
    assert_true(text_adds(&text, "1234567890"));
    assert_false(text_addc(&text, 'x'));
    assert_string_equal(text.data, "1234567890");
    text_clear(&text);
}

static void test_text_detach_hands_over_the_bytes(void **state)
{
    struct text text;
    size_t len;
    char *data;

    (void)state;
    text_init(&text, 0);
    data = text_detach(&text, &len);
    assert_string_equal(data, "");
    assert_int_equal(len, 0);
    free(data);
    text_adds(&text, "taken");
    data = text_detach(&text, NULL);
    assert_string_equal(data, "taken");
    assert_string_equal(text.data, "");
    assert_int_equal(text.len, 0);
    free(data);
}

static void test_text_utf8_accepts_well_formed_sequences(void **state)
{
    static const char *const good[] = {
        "",
        "plain",
        "\x7f",
        "\xc2\x80",
        "\xdf\xbf",
        "\xe0\xa0\x80",
        "\xed\x9f\xbf",
        "\xee\x80\x80",
        "\xef\xbf\xbf",
        "\xf0\x90\x80\x80",
        "\xf4\x8f\xbf\xbf",
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(good); i++)
        assert_true(text_is_utf8(good[i], strlen(good[i]), NULL));
    assert_true(text_is_utf8("a\0b", 3, NULL));
}

static void test_text_utf8_refuses_malformed_sequences(void **state)
{
    static const struct {
        const char *data;
        size_t bad;
    } cases[] = {
        { "ab\x80", 2 },           /* a continuation alone */
        { "\xc0\xaf", 0 },         /* overlong slash */
        { "\xc1\xbf", 0 },         /* overlong */
        { "a\xe0\x9f\xbf", 1 },    /* overlong */
        { "\xed\xa0\x80", 0 },     /* surrogate D800 */
        { "\xed\xbf\xbf", 0 },     /* surrogate DFFF */
        { "\xf0\x8f\xbf\xbf", 0 }, /* overlong */
        { "\xf4\x90\x80\x80", 0 }, /* past 10FFFF */
        { "\xf5\x80\x80\x80", 0 }, /* past 10FFFF */
        { "\xff", 0 },
        { "ok\xe2\x82", 2 },   /* truncated */
        { "\xe2\x82z", 0 },    /* third byte */
        { "\xf1\x80\x80", 0 }, /* truncated */
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        size_t bad = 99;

        assert_false(text_is_utf8(cases[i].data, strlen(cases[i].data), &bad));
        assert_int_equal(bad, cases[i].bad);
    }
    /* bytes past the end are ignored */
    assert_false(text_is_utf8("\xe2\x82\xac", 2, NULL));
}

static void test_text_visible_escapes_control_characters(void **state)
{
    static const char bytes[] = "a\x1b[31m\n\t\x7f \xc3\xa4 \xc2\x9b \xff\xe2\x82 end\0";
    struct text text;

    (void)state;
    text_init(&text, 0);
    assert_true(text_add_visible(&text, bytes, sizeof(bytes) - 1));
    assert_string_equal(text.data, "a\\x1b[31m\\x0a\\x09\\x7f \xc3\xa4 \\xc2\\x9b "
                                   "\\xff\\xe2\\x82 end\\x00");
    text_clear(&text);
}

static void test_text_finds_prefix_and_suffix(void **state)
{
    (void)state;
    assert_true(text_starts("checkpoint-500", "checkpoint-"));
    assert_false(text_starts("check", "checkpoint-"));
    assert_true(text_starts("x", ""));
    assert_true(text_ends("qwen.yaml", ".yaml"));
    assert_false(text_ends("yaml", ".yaml"));
    assert_false(text_ends("qwen.yml", ".yaml"));
}

static void test_text_equal_treats_null_as_a_value(void **state)
{
    char a[] = "sgd", b[] = "sgd";

    (void)state;
    assert_true(text_equal(a, b));
    assert_false(text_equal(a, "adamw"));
    assert_false(text_equal(a, NULL));
    assert_false(text_equal(NULL, ""));
    assert_true(text_equal(NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_grows_and_ends_in_nul),
        cmocka_unit_test(test_text_may_contain_nul),
        cmocka_unit_test(test_text_ceiling_drops_whole_additions_and_all_later_ones),
        cmocka_unit_test(test_text_detach_hands_over_the_bytes),
        cmocka_unit_test(test_text_utf8_accepts_well_formed_sequences),
        cmocka_unit_test(test_text_utf8_refuses_malformed_sequences),
        cmocka_unit_test(test_text_visible_escapes_control_characters),
        cmocka_unit_test(test_text_finds_prefix_and_suffix),
        cmocka_unit_test(test_text_equal_treats_null_as_a_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
