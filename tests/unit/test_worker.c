/* tests/unit/test_worker.c - what an attempt that fell leaves behind. */
#include "config.h"

#include "runner/spool/worker.h"

#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/unit/unit.h"

enum { KILLED = 9, LEFT_3 = 3 << 8, LEFT_143 = 143 << 8 }; /* as waitpid says */

struct beside {
    char *dir;
    struct job job;
    struct job_record record;
};

static int set_up(void **state)
{
    struct beside *beside = memory_alloc(sizeof(*beside));
    struct error err = { 0 };
    char *path;

    beside->dir = unit_dir_new();
    path = path_join(beside->dir, "a.yaml");
    job_init(&beside->job, path);
    free(path);
    assert_true(job_make_dir(&beside->job, &err));
    beside->record = (struct job_record) { .state = JOB_RUNNING,
                                           .max_retries = 2,
                                           .step = 7,
                                           .loss = NAN,
                                           .arrived = NAN,
                                           .seconds_left = NAN };
    *state = beside;
    return 0;
}

static int tear_down(void **state)
{
    struct beside *beside = *state;

    job_clear(&beside->job);
    unit_dir_free(beside->dir);
    free(beside);
    return 0;
}

static struct job_record settle(struct beside *beside, int status, bool forgive)
{
    struct job_record record;
    struct error err = { 0 };

    assert_true(job_write(&beside->job, &beside->record, false, &err));
    assert_true(worker_record_end(&beside->job, status, forgive, &record, &err));
    return record;
}

static void test_worker_forgives_as_many_crashes_as_the_job_says(void **state)
{
    struct beside *beside = *state;

    beside->record = settle(beside, KILLED, true);
    assert_int_equal(beside->record.state, JOB_READY);
    assert_true(beside->record.resume);
    assert_int_equal(beside->record.step, 7);
    assert_non_null(strstr(beside->record.reason, "signal 9"));
    beside->record.state = JOB_RUNNING;
    beside->record = settle(beside, -1, true);
    assert_int_equal(beside->record.state, JOB_READY);
    assert_non_null(strstr(beside->record.reason, "vanished"));
    beside->record.state = JOB_RUNNING;
    beside->record = settle(beside, KILLED, true);
    assert_int_equal(beside->record.state, JOB_FAILED);
    assert_int_equal(beside->record.crashes, 3);
}

static void test_worker_forgives_nothing_where_nobody_starts_again(void **state)
{
    assert_int_equal(settle(*state, KILLED, false).state, JOB_FAILED);
}

static void test_worker_leaves_alone_what_somebody_holds(void **state)
{
    struct beside *beside = *state;
    struct error err = { 0 };
    bool busy;
    int lock = job_lock(&beside->job, &busy, &err);

    assert_int_equal(settle(beside, -1, true).state, JOB_RUNNING);
    close(lock);
}

static void test_worker_leaves_an_end_as_it_is(void **state)
{
    static const enum job_state ends[] = { JOB_DONE, JOB_FAILED, JOB_STOPPED,
                                           JOB_REJECTED };
    struct beside *beside = *state;

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        beside->record.state = ends[i];
        assert_int_equal(settle(beside, KILLED, true).state, ends[i]);
        assert_int_equal(settle(beside, LEFT_3, true).crashes, 0);
    }
}

static void test_worker_tells_a_pause_from_a_start_that_failed(void **state)
{
    struct beside *beside = *state;

    beside->record.state = JOB_READY;
    assert_int_equal(settle(beside, LEFT_143, true).state, JOB_READY);
    assert_int_equal(settle(beside, -1, true).state, JOB_READY);
    beside->record = settle(beside, LEFT_3, true);
    assert_int_equal(beside->record.state, JOB_FAILED);
    assert_non_null(strstr(beside->record.reason, "before it began"));
}

static void test_worker_waits_longer_after_each_crash(void **state)
{
    struct job_record record = { 0 };
    double before = -1;

    (void)state;
    assert_true(worker_retry_delay(&record) == 0);
    for (record.crashes = 1; record.crashes < 6; record.crashes++) {
        assert_true(worker_retry_delay(&record) > before);
        before = worker_retry_delay(&record);
    }
    record.crashes = 1000000;
    assert_true(worker_retry_delay(&record) == 60);
}

#define BESIDE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static void test_worker_tells_what_a_signal_may_mean(void **state)
{
    static const struct {
        int status;
        const char *hint;
    } cases[] = {
        { KILLED, "ran out of memory" },
        { SIGALRM, "driver did not respond" },
        { SIGSEGV, "bug" },
        { LEFT_3, "status 3" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct text how;

        text_init(&how, 0);
        child_describe_exit(cases[i].status, &how);
        if (!strstr(how.data, cases[i].hint))
            fail_msg("%s", how.data);
        text_clear(&how);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worker_tells_what_a_signal_may_mean),
        BESIDE(test_worker_forgives_as_many_crashes_as_the_job_says),
        BESIDE(test_worker_forgives_nothing_where_nobody_starts_again),
        BESIDE(test_worker_leaves_alone_what_somebody_holds),
        BESIDE(test_worker_leaves_an_end_as_it_is),
        BESIDE(test_worker_tells_a_pause_from_a_start_that_failed),
        cmocka_unit_test(test_worker_waits_longer_after_each_crash),
    };

    return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
