/* tests/unit/test_instant.c - points in time as people write them. */
#include "config.h"

#include "tests/unit/unit.h"

#include "base/instant.h"
#include "base/size.h"

static void assert_instant(const char *text, double seconds, bool relative)
{
    struct error err = { 0 };
    struct instant instant;

    if (!instant_read(text, &instant, &err))
        fail_msg("%s: %s", text, err.text);
    assert_true(instant.seconds == seconds);
    assert_int_equal(instant.relative, relative);
}

static void test_instant_reads_dates_with_their_zone(void **state)
{
    (void)state;
    assert_instant("1970-01-01T00:00:00Z", 0, false);
    assert_instant("1970-01-01T01:00+01:00", 0, false);
    assert_instant("1969-12-31 18:30:00-0530", 0, false);
    assert_instant("1970-01-01T02:00:05 +02", 5, false);
    assert_instant("2026-12-01T06:00:00z", 1796104800, false);
    assert_instant("2028-02-29T00:00Z", 1835395200, false);
}

static void test_instant_reads_delays(void **state)
{
    (void)state;
    assert_instant("+90", 90, true);
    assert_instant("+90s", 90, true);
    assert_instant("+1.5m", 90, true);
    assert_instant("+2h", 7200, true);
    assert_instant("+7d", 604800, true);
    assert_instant("+0", 0, true);
}

static void test_instant_refuses_everything_else(void **state)
{
    static const char *const texts[] = { "",
                                         "now",
                                         "2h",
                                         "+",
                                         "+h",
                                         "+ 2h",
                                         "+2w",
                                         "+2hh",
                                         "+-2h",
                                         "+nan",
                                         "+1e300d",
                                         "2026-12-01",
                                         "2026-12-01T06:00",
                                         "2026-12-01T06:00:00",
                                         "2026-02-30T06:00Z",
                                         "2026-13-01T06:00Z",
                                         "2026-12-01T24:00Z",
                                         "2026-12-01T06:60Z",
                                         "2026-12-01T06:00:61Z",
                                         "2026-12-01T06:00:00Zx",
                                         "2026-12-01T06:00:00+1",
                                         "2026-12-01T06:00:00+15:00",
                                         "2026-12-01T06:00:00+01:60",
                                         "26-12-01T06:00Z" };
    struct instant instant;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        struct error err = { 0 };

        if (instant_read(texts[i], &instant, &err))
            fail_msg("'%s' is read as %g", texts[i], instant.seconds);
        assert_int_equal(err.code, ERROR_USAGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instant_reads_dates_with_their_zone),
        cmocka_unit_test(test_instant_reads_delays),
        cmocka_unit_test(test_instant_refuses_everything_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
