/* tests/unit/test_unicode.c - decoding in both directions, character classes at their
 * boundaries, and U+FFFD. */
#include "config.h"

#include "train/text/unicode.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_unicode_reads_from_both_ends(void **state)
{
    static const int32_t points[] = { 0x41,  0x7f,   0x80,    0x7ff,
                                      0x800, 0xffff, 0x10000, 0x10ffff };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(points); i++) {
        char bytes[16] = "xyz";
        size_t len = unicode_put(points[i], bytes + 3);
        int32_t point = 0;

        assert_int_equal(unicode_first(bytes + 3, len, &point), len);
        assert_int_equal(point, points[i]);
        assert_int_equal(unicode_last(bytes, 3 + len, &point), len);
        assert_int_equal(point, points[i]);
    }
}

static void test_unicode_classes_have_the_right_boundaries(void **state)
{
    (void)state;
    assert_true(unicode_is_space(' ') && unicode_is_space('\r') &&
                unicode_is_space(0x85));
    assert_true(unicode_is_space(0xa0) && unicode_is_space(0x3000));
    assert_false(unicode_is_space(0x200b) || unicode_is_space(0x180e) ||
                 unicode_is_space(0x1f));
    assert_true(unicode_is_numeric('7') && unicode_is_numeric(0x664) /* ARABIC 4 */);
    assert_true(unicode_is_numeric(0xbd) /* 1/2 */ &&
                unicode_is_numeric(0x2167) /* VIII */);
    assert_false(unicode_is_numeric('a') ||
                 unicode_is_numeric(0x5341) /* ten, a letter */);
    assert_true(unicode_is_word('_') && unicode_is_word(0x301) && unicode_is_word(0xe9));
    assert_false(unicode_is_word('-') || unicode_is_word(0xb2) /* superscript two */);
    assert_true(unicode_is_punctuation('$') && unicode_is_punctuation(0x2014));
    assert_false(unicode_is_punctuation('a') ||
                 unicode_is_punctuation(0x20ac) /* euro */);
}

/* Expected: Unicode 15, table 3-8, which Rust's String::from_utf8_lossy follows. */
static void test_unicode_lossy_marks_malformed_sequences(void **state)
{
    static const char *const cases[][2] = {
        { "plain", "plain" },
        { "a\xc3\xa4z", "a\xc3\xa4z" },
        { "\x80", "?" },
        { "a\xe2\x82", "a?" },
        { "a\xe2\x82z", "a?z" },
        { "\xf0\x9f\x98", "?" },
        { "\xf0\x80\x80\x41", "???A" },
        { "\xed\xa0\x80", "???" },
        { "\xc0\xaf\xf4\x91\x92\x93\xff\x41", "???????A" },
        { "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", "????A" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct text got, expected;

        text_init(&got, 0);
        text_init(&expected, 0);
        unicode_add_lossy(&got, cases[i][0], strlen(cases[i][0]));
        for (const char *at = cases[i][1]; *at; at++)
            text_addf(&expected, "%s%.1s", *at == '?' ? "\xef\xbf\xbd" : "",
                      *at == '?' ? "" : at);
        assert_string_equal(got.data, expected.data);
        text_clear(&got);
        text_clear(&expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unicode_reads_from_both_ends),
        cmocka_unit_test(test_unicode_classes_have_the_right_boundaries),
        cmocka_unit_test(test_unicode_lossy_marks_malformed_sequences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
