/* tests/unit/test_guard.c - when a job is ended from outside. */
#include "config.h"

#include "runner/spool/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static const struct guard_limits limits = { .grace = 10, .hang = 100 };
static const struct guard_view quiet = { .asked = false };

struct guarded {
    char *dir, *name;
    struct guard guard;
    pid_t holder;
};

/* The job is held by a process that sleeps. */
static int set_up(void **state)
{
    struct guarded *guarded = memory_alloc(sizeof(*guarded));
    struct job_record record = { .seconds = 5, .timeout = 1000 };
    int fd;

    guarded->dir = unit_dir_new();
    guarded->name = path_join(guarded->dir, "lock");
    fd = open(guarded->name, O_RDWR | O_CREAT, 0600);
    assert_return_code(flock(fd, LOCK_EX), 0);
    guarded->holder = fork();
    if (guarded->holder == 0)
        for (;;)
            pause();
    close(fd);
    guard_begin(&guarded->guard, open(guarded->name, O_RDONLY), &record, 0);
    *state = guarded;
    return 0;
}

static int tear_down(void **state)
{
    struct guarded *guarded = *state;

    kill(guarded->holder, SIGKILL);
    waitpid(guarded->holder, NULL, 0);
    close(guarded->guard.lock);
    unit_dir_free(guarded->dir);
    free(guarded->name);
    free(guarded);
    return 0;
}

static void beat(const struct guarded *guarded, time_t at)
{
    const struct timespec times[2] = { { .tv_sec = at }, { .tv_sec = at } };

    assert_return_code(utimensat(AT_FDCWD, guarded->name, times, 0), 0);
}

static void expect(struct guarded *guarded, const struct guard_view *view, double now,
                   enum guard_action action)
{
    assert_int_equal(guard_look(&guarded->guard, &limits, view, now), action);
}

static void test_guard_leaves_a_process_that_beats(void **state)
{
    struct guarded *guarded = *state;

    /* the clock that the beats use may be set */
    for (int i = 0; i < 20; i++) {
        beat(guarded, i % 2 ? 1000000 + i : 5000000 - i);
        expect(guarded, &quiet, i * 45, GUARD_WAIT);
    }
    assert_int_equal(guarded->guard.cause, GUARD_NONE);
}

static void test_guard_kills_a_process_that_does_nothing(void **state)
{
    struct guarded *guarded = *state;

    beat(guarded, 1);
    expect(guarded, &quiet, 0, GUARD_WAIT);
    expect(guarded, &quiet, 49, GUARD_WAIT);
    expect(guarded, &quiet, 51, GUARD_WARN);
    expect(guarded, &quiet, 99, GUARD_WAIT);
    expect(guarded, &quiet, 102, GUARD_KILL);
    assert_int_equal(guarded->guard.cause, GUARD_HANG);
    assert_string_equal(guarded->guard.why, "no sign of life for 102 s: it does nothing");
    expect(guarded, &quiet, 103, GUARD_WAIT);
}

static void test_guard_forgives_a_late_beat(void **state)
{
    struct guarded *guarded = *state;

    beat(guarded, 1);
    expect(guarded, &quiet, 0, GUARD_WAIT);
    expect(guarded, &quiet, 60, GUARD_WARN);
    beat(guarded, 2);
    expect(guarded, &quiet, 120, GUARD_WAIT);
    expect(guarded, &quiet, 165, GUARD_WAIT);
    expect(guarded, &quiet, 175, GUARD_WARN);
}

static void test_guard_names_a_stopped_process(void **state)
{
    struct guarded *guarded = *state;

    kill(guarded->holder, SIGSTOP);
    assert_int_equal(waitpid(guarded->holder, NULL, WUNTRACED), guarded->holder);
    expect(guarded, &quiet, 0, GUARD_WAIT);
    expect(guarded, &quiet, 50, GUARD_WARN);
    expect(guarded, &quiet, 100, GUARD_KILL);
    assert_string_equal(guarded->guard.why,
                        "no sign of life for 100 s: a signal has stopped it");
}

/* The processor time of the holder appears to be less than before: it used much. */
static void test_guard_gives_a_busy_process_ten_times_as_long(void **state)
{
    struct guarded *guarded = *state;

    guarded->guard.timeout = 0;
    expect(guarded, &quiet, 0, GUARD_WAIT);
    expect(guarded, &quiet, 50, GUARD_WARN);
    for (int now = 100; now < 1000; now += 50) {
        guarded->guard.used = -50;
        expect(guarded, &quiet, now, GUARD_WAIT);
    }
    guarded->guard.used = -50;
    expect(guarded, &quiet, 1001, GUARD_KILL);
    assert_string_equal(guarded->guard.why,
                        "no sign of life for 1001 s: it uses the processor");
}

static void test_guard_kills_after_the_grace_period(void **state)
{
    static const struct {
        struct guard_view view;
        enum guard_cause cause;
    } asked[] = { { { .asked = true }, GUARD_STOP },
                  { { .request = REQUEST_CANCEL }, GUARD_REQUEST } };
    struct guarded *guarded = *state;

    for (int i = 0; i < 2; i++) {
        guarded->guard.cause = GUARD_NONE;
        guarded->guard.killed = false;
        expect(guarded, &asked[i].view, 1, GUARD_ASK);
        expect(guarded, &asked[i].view, 2, GUARD_WAIT);
        expect(guarded, &asked[i].view, 10.5, GUARD_WAIT);
        expect(guarded, &asked[i].view, 11, GUARD_KILL);
        assert_int_equal(guarded->guard.cause, asked[i].cause);
        assert_string_equal(guarded->guard.why, "it did not end within 10 s");
    }
}

/* The attempts before took 5 seconds. */
static void test_guard_enforces_the_timeout_of_all_attempts(void **state)
{
    struct guarded *guarded = *state;

    guarded->guard.lock = -1;
    expect(guarded, &quiet, 996, GUARD_WAIT);
    expect(guarded, &quiet, 997, GUARD_WAKE);
    expect(guarded, &quiet, 1006, GUARD_WAIT);
    expect(guarded, &quiet, 1007, GUARD_KILL);
    assert_int_equal(guarded->guard.cause, GUARD_TIMEOUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_guard_leaves_a_process_that_beats, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_guard_kills_a_process_that_does_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_guard_forgives_a_late_beat, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_guard_names_a_stopped_process, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_guard_gives_a_busy_process_ten_times_as_long,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_guard_kills_after_the_grace_period, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_guard_enforces_the_timeout_of_all_attempts,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
