/* tests/unit/test_clock.c - the format of the texts; no test depends on the time. */
#include "config.h"

#include "base/clock.h"

#include <time.h>

#include "tests/unit/unit.h"

static void test_clock_seconds_never_go_backward(void **state)
{
    double before = clock_seconds();

    (void)state;
    for (int i = 0; i < 1000; i++) {
        double now = clock_seconds();

        assert_true(now >= before);
        before = now;
    }
}

/* A 0 stands for any digit, other characters for themselves. */
static void assert_looks_like(const char *text, const char *form)
{
    assert_int_equal(strlen(text), strlen(form));
    for (size_t i = 0; form[i]; i++)
        if (form[i] == '0')
            assert_in_range(text[i], '0', '9');
        else
            assert_int_equal(text[i], form[i]);
}

static void test_clock_texts_have_the_documented_form(void **state)
{
    char text[32];

    (void)state;
    clock_iso(text);
    assert_looks_like(text, "0000-00-00T00:00:00Z");
    clock_compact(text);
    assert_looks_like(text, "00000000T000000.000000Z");
}

static void test_clock_texts_are_utc(void **state)
{
    char text[32];
    struct tm utc = { 0 };
    double before, after;
    time_t said;

    (void)state;
    setenv("TZ", "Asia/Tokyo", 1);
    tzset();
    before = clock_wall();
    clock_iso(text);
    after = clock_wall();
    assert_non_null(strptime(text, "%Y-%m-%dT%H:%M:%SZ", &utc));
    said = timegm(&utc);
    /* time(2) may be one tick earlier than the fine clock */
    assert_true((double)said > before - 1.1 && (double)said <= after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_seconds_never_go_backward),
        cmocka_unit_test(test_clock_texts_have_the_documented_form),
        cmocka_unit_test(test_clock_texts_are_utc),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
