/* tests/unit/test_html.c - text from outside is never markup, and values are readable. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "runner/page/html.h"

static void check_text(const char *from, size_t len, const char *to)
{
    struct text out;

    text_init(&out, 0);
    assert_true(html_text_len(&out, from, len));
    assert_string_equal(out.data, to);
    text_clear(&out);
}

static void test_html_escapes_markup(void **state)
{
    static const char hostile[] = "<a href='x' title=\"y\">&amp;</a>";

    (void)state;
    check_text(hostile, strlen(hostile),
               "&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt;&amp;amp;&lt;/a&gt;");
    check_text("a\n\tb", 4, "a\n\tb");
    check_text("gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x98\x80", 13,
               "gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x98\x80");
}

static void test_html_shows_hidden_characters(void **state)
{
    (void)state;
    check_text("a\0b\x1b\x7f", 5, "a\\u0000b\\u001b\\u007f");
    check_text("\xe2\x80\xae"
               "abc",
               6, "\\u202eabc"); /* right to left from here */
    check_text("\xff\xc3", 2, "\\xff\\xc3");
    check_text("\xc0\x80\xed\xa0\x80", 5, "\\xc0\\x80\\xed\\xa0\\x80");
}

static void check_number(double value, enum html_number how, const char *expected)
{
    char shown[32];

    html_number(value, how, shown);
    assert_string_equal(shown, expected);
}

static void test_html_number(void **state)
{
    (void)state;
    check_number(3.14159, HTML_PLAIN, "3.142");
    check_number(2e-5, HTML_PLAIN, "2e-05");
    check_number(65536, HTML_PLAIN, "65,536");
    check_number(-1234567, HTML_PLAIN, "-1,234,567");
    check_number(7473, HTML_PLAIN, "7473");
    check_number(1e300, HTML_PLAIN, "1e+300");
    check_number(NAN, HTML_PLAIN, "NaN");
    check_number(-INFINITY, HTML_SHORT, "-inf");
    check_number(8082, HTML_SHORT, "8.08 k");
    check_number(204800000, HTML_SHORT, "205 M");
    check_number(100000, HTML_WHOLE, "100,000");
    check_number(1e300, HTML_WHOLE, "1,000,000,000,000,000,000");
}

/* echo -n abc | openssl dgst -sha256 -binary | base64 */
static void test_html_hash_matches_browsers(void **state)
{
    char hash[64];

    (void)state;
    html_hash("abc", hash);
    assert_string_equal(hash, "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_html_escapes_markup),
        cmocka_unit_test(test_html_shows_hidden_characters),
        cmocka_unit_test(test_html_number),
        cmocka_unit_test(test_html_hash_matches_browsers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
