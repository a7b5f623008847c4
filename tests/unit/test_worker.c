/* tests/unit/test_worker.c - the state that a crashed attempt leaves. */
#include "config.h"

#include "runner/spool/worker.h"

#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/unit/unit.h"

enum {
    KILLED = 9,
    LEFT_3 = 3 << 8,
    LEFT_75 = 75 << 8,
    LEFT_77 = 77 << 8,
    LEFT_127 = 127 << 8,
    LEFT_143 = 143 << 8
}; /* as waitpid says */

struct job_files {
    char *dir;
    struct job job;
    struct job_record record;
};

static int set_up(void **state)
{
    struct job_files *job_files = memory_alloc(sizeof(*job_files));
    struct error err = { 0 };
    char *path;

    job_files->dir = unit_dir_new();
    path = path_join(job_files->dir, "a.yaml");
    job_init(&job_files->job, path);
    free(path);
    assert_true(job_make_dir(&job_files->job, &err));
    job_files->record = (struct job_record) { .state = JOB_RUNNING,
                                              .max_retries = 2,
                                              .step = 7,
                                              .loss = NAN,
                                              .arrived = NAN,
                                              .seconds_left = NAN };
    *state = job_files;
    return 0;
}

static int tear_down(void **state)
{
    struct job_files *job_files = *state;

    job_clear(&job_files->job);
    unit_dir_free(job_files->dir);
    free(job_files);
    return 0;
}

static struct job_record record_end(struct job_files *job_files, int status, bool forgive)
{
    struct job_record record;
    struct error err = { 0 };

    assert_true(job_write(&job_files->job, &job_files->record, false, &err));
    assert_true(worker_record_end(
        &job_files->job, &(struct worker_end) { .status = status, .forgive = forgive },
        &record, &err));
    return record;
}

static void test_worker_allows_max_retries_crashes(void **state)
{
    struct job_files *job_files = *state;

    job_files->record = record_end(job_files, KILLED, true);
    assert_int_equal(job_files->record.state, JOB_READY);
    assert_true(job_files->record.resume);
    assert_int_equal(job_files->record.step, 7);
    assert_non_null(strstr(job_files->record.reason, "signal 9"));
    job_files->record.state = JOB_RUNNING;
    job_files->record = record_end(job_files, -1, true);
    assert_int_equal(job_files->record.state, JOB_READY);
    assert_non_null(strstr(job_files->record.reason, "vanished"));
    job_files->record.state = JOB_RUNNING;
    job_files->record = record_end(job_files, KILLED, true);
    assert_int_equal(job_files->record.state, JOB_FAILED);
    assert_int_equal(job_files->record.crashes, 3);
}

static void test_worker_has_lack_of_memory_healed(void **state)
{
    struct job_files *job_files = *state;

    job_files->record.max_heals = 1;
    strcpy(job_files->record.frozen, "f");
    job_files->record = record_end(job_files, LEFT_77, true);
    assert_int_equal(job_files->record.state, JOB_NEW);
    assert_string_equal(job_files->record.ailment, "memory");
    assert_string_equal(job_files->record.origin, "f");
    assert_int_equal(job_files->record.heals, 1);
    assert_int_equal(job_files->record.crashes, 0);
    assert_true(job_files->record.resume);
    job_files->record.state = JOB_RUNNING;
    job_files->record = record_end(job_files, LEFT_77, true);
    assert_int_equal(job_files->record.state, JOB_READY);
    assert_int_equal(job_files->record.crashes, 1);
    assert_int_equal(job_files->record.heals, 1);
}

/* The trainer recorded that its device does not work, and exited with status 78. */
static void test_worker_counts_a_recorded_crash_once(void **state)
{
    static const char why[] = "cuda:0: uncorrectable memory error";
    struct job_files *job_files = *state;
    struct worker_end end = { .status = 78 << 8, .forgive = true, .counted = true };
    struct job_record *record = &job_files->record;
    struct error err = { 0 };

    record->state = JOB_READY;
    record->crashes = 1;
    strcpy(record->reason, why);
    assert_true(job_write(&job_files->job, record, false, &err));
    assert_true(worker_record_end(&job_files->job, &end, record, &err));
    assert_int_equal(record->crashes, 1);
    assert_string_equal(record->reason, why);

    end.crashes = 1; /* this attempt recorded nothing */
    assert_true(worker_record_end(&job_files->job, &end, record, &err));
    assert_int_equal(record->crashes, 2);
    assert_non_null(strstr(record->reason, "before it began"));
}

static void test_worker_fails_a_crash_without_forgive(void **state)
{
    assert_int_equal(record_end(*state, KILLED, false).state, JOB_FAILED);
}

static void test_worker_ignores_a_locked_job(void **state)
{
    struct job_files *job_files = *state;
    struct error err = { 0 };
    bool busy;
    int lock = job_lock(&job_files->job, &busy, &err);

    assert_int_equal(record_end(job_files, -1, true).state, JOB_RUNNING);
    close(lock);
}

static void test_worker_keeps_a_final_state(void **state)
{
    static const enum job_state ends[] = { JOB_DONE, JOB_FAILED, JOB_STOPPED,
                                           JOB_REJECTED };
    struct job_files *job_files = *state;

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        job_files->record.state = ends[i];
        assert_int_equal(record_end(job_files, KILLED, true).state, ends[i]);
        assert_int_equal(record_end(job_files, LEFT_3, true).crashes, 0);
    }
}

static void test_worker_distinguishes_a_pause_from_a_failed_start(void **state)
{
    struct job_files *job_files = *state;

    job_files->record.state = JOB_READY;
    assert_int_equal(record_end(job_files, LEFT_143, true).state, JOB_READY);
    assert_int_equal(record_end(job_files, -1, true).state, JOB_READY);
    assert_int_equal(record_end(job_files, LEFT_75, true).crashes, 0);
    assert_int_equal(record_end(job_files, LEFT_127, true).crashes, 0);
    job_files->record = record_end(job_files, LEFT_3, true);
    assert_int_equal(job_files->record.state, JOB_READY);
    assert_int_equal(job_files->record.crashes, 1);
    assert_false(job_files->record.resume);
    assert_non_null(strstr(job_files->record.reason, "before it began"));
    job_files->record = record_end(job_files, KILLED, true);
    job_files->record = record_end(job_files, KILLED, true);
    assert_int_equal(job_files->record.state, JOB_FAILED);
    assert_non_null(strstr(job_files->record.reason, "gave up after 3 crashes"));
}

static void test_worker_counts_no_fault_of_the_machine(void **state)
{
    struct job_files *job_files = *state;

    job_files->record = record_end(job_files, LEFT_75, true);
    assert_int_equal(job_files->record.state, JOB_READY);
    assert_int_equal(job_files->record.crashes, 0);
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

static void test_worker_explains_signals(void **state)
{
    static const struct {
        int status;
        const char *hint;
    } cases[] = {
        { KILLED, "ran out of memory" },
        { SIGALRM, "driver did not respond" },
        { SIGSEGV, "bug" },
        { LEFT_3, "status 3" },
        { LEFT_77, "ran out of memory" },
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
        cmocka_unit_test(test_worker_explains_signals),
        BESIDE(test_worker_allows_max_retries_crashes),
        BESIDE(test_worker_has_lack_of_memory_healed),
        BESIDE(test_worker_counts_a_recorded_crash_once),
        BESIDE(test_worker_fails_a_crash_without_forgive),
        BESIDE(test_worker_ignores_a_locked_job),
        BESIDE(test_worker_keeps_a_final_state),
        BESIDE(test_worker_distinguishes_a_pause_from_a_failed_start),
        BESIDE(test_worker_counts_no_fault_of_the_machine),
        cmocka_unit_test(test_worker_waits_longer_after_each_crash),
    };

    return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
