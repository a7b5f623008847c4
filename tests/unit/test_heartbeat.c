/* tests/unit/test_heartbeat.c - ticks: how often they report, and what ends the work. */
#include "config.h"

#include "base/heartbeat.h"

#include "base/clock.h"
#include "tests/unit/unit.h"

struct counted {
    int beats, stop_at;
    volatile sig_atomic_t stop;
};

static void count(void *context)
{
    struct counted *counted = context;

    if (++counted->beats == counted->stop_at)
        counted->stop = SIGTERM;
}

static void test_heartbeat_beats_at_intervals(void **state)
{
    struct counted counted = { 0 };
    struct heartbeat heartbeat = { .beat = count, .context = &counted };

    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_true(heartbeat_tick(&heartbeat));
    assert_in_range(counted.beats, 1, 2); /* a busy machine may take half a second */
    heartbeat.due = clock_seconds();
    heartbeat_tick(&heartbeat);
    assert_in_range(counted.beats, 2, 3);
}

static void test_heartbeat_ends_work_that_a_beat_stops(void **state)
{
    struct counted counted = { .stop_at = 2 };
    struct heartbeat heartbeat = { .stop = &counted.stop,
                                   .beat = count,
                                   .context = &counted };
    struct error err = { 0 };

    (void)state;
    assert_true(heartbeat_continue(&heartbeat, "reading", &err));
    assert_false(heartbeat_stopped(&heartbeat));
    assert_false(heartbeat_sleep(&heartbeat, 60));
    assert_int_equal(counted.beats, 2);
    assert_true(heartbeat_stopped(&heartbeat));
    assert_false(heartbeat_continue(&heartbeat, "reading", &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    assert_string_equal(err.text, "stopped while reading");
}

static void test_heartbeat_may_be_missing(void **state)
{
    struct heartbeat nothing = { 0 };

    (void)state;
    assert_true(heartbeat_tick(NULL));
    assert_true(heartbeat_tick(&nothing));
    assert_false(heartbeat_stopped(NULL));
    assert_true(heartbeat_continue(NULL, "reading", NULL));
    assert_true(heartbeat_sleep(NULL, 0.01));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heartbeat_beats_at_intervals),
        cmocka_unit_test(test_heartbeat_ends_work_that_a_beat_stops),
        cmocka_unit_test(test_heartbeat_may_be_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
