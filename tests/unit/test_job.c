/* tests/unit/test_job.c - states, and the files next to a job. */
#include "config.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/job/job.h"

struct beside {
    char *dir;
    struct job job;
};

static int set_up(void **state)
{
    struct beside *beside = memory_alloc(sizeof(*beside));
    struct error err = { 0 };
    char *path;

    beside->dir = unit_dir_new();
    path = path_join(beside->dir, "gsm8k.yaml");
    job_init(&beside->job, path);
    free(path);
    assert_true(job_make_dir(&beside->job, &err));
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

static void test_job_table_leads_from_new_to_an_end_and_back(void **state)
{
    (void)state;
    assert_int_equal(job_next(JOB_NEW, EVENT_ACCEPTED), JOB_READY);
    assert_int_equal(job_next(JOB_READY, EVENT_STARTED), JOB_RUNNING);
    assert_int_equal(job_next(JOB_RUNNING, EVENT_EXIT_OK), JOB_DONE);
    assert_int_equal(job_next(JOB_RUNNING, EVENT_PAUSED), JOB_READY);
    assert_int_equal(job_next(JOB_RUNNING, EVENT_CRASHED), JOB_READY);
    assert_int_equal(job_next(JOB_DONE, EVENT_RETRIED), JOB_NEW);
    assert_int_equal(job_next(JOB_DONE, EVENT_STARTED), JOB_INVALID);
    assert_int_equal(job_next(JOB_RUNNING, EVENT_STARTED), JOB_INVALID);
    assert_int_equal(job_next(JOB_RUNNING, EVENT_CHANGED), JOB_INVALID);
}

static void test_job_can_be_cancelled_until_it_ends_and_retried_after(void **state)
{
    (void)state;
    for (int from = JOB_NEW; from < JOB_STATES; from++) {
        bool fresh = from == JOB_NEW || from == JOB_BLOCKED;
        bool waits = fresh || from == JOB_READY || from == JOB_RUNNING;

        assert_int_equal(job_next((enum job_state)from, EVENT_CANCELLED),
                         waits ? JOB_STOPPED : JOB_INVALID);
        assert_int_equal(job_next((enum job_state)from, EVENT_RETRIED),
                         waits && !fresh ? JOB_INVALID : JOB_NEW);
    }
}

static void test_job_table_has_no_dead_ends(void **state)
{
    (void)state;
    for (int from = JOB_NEW; from < JOB_STATES; from++) {
        int ways = 0;

        for (int event = 0; event < JOB_EVENTS; event++)
            ways += job_next((enum job_state)from, (enum job_event)event) != JOB_INVALID;
        assert_true(ways > 0);
        assert_non_null(job_state_names[from]);
    }
    for (int event = 0; event < JOB_EVENTS; event++)
        assert_non_null(job_event_names[event]);
}

static void test_job_files_are_next_to_it(void **state)
{
    struct job job;

    (void)state;
    job_init(&job, "jobs/gsm8k.yml");
    assert_string_equal(job.name, "gsm8k");
    assert_string_equal(job.run_dir, "jobs/gsm8k.run");
    assert_string_equal(job.state, "jobs/gsm8k.run/state.json");
    assert_string_equal(job.frozen, "jobs/gsm8k.run/job.yaml");
    job_clear(&job);
}

static void test_job_record_round_trips(void **state)
{
    struct beside *beside = *state;
    struct job_record was = { .state = JOB_FAILED,
                              .reason = "a \"reason\"\n",
                              .step = 7,
                              .total = 9,
                              .loss = 2.5,
                              .attempt = 2,
                              .crashes = 1,
                              .max_retries = 3,
                              .priority = -4,
                              .resume = true,
                              .device = "cpu",
                              .digest = "d",
                              .source = "s",
                              .seconds_left = NAN };
    struct job_record is;
    struct error err = { 0 };

    for (int durable = 0; durable < 2; durable++) {
        assert_true(job_write(&beside->job, &was, durable, &err));
        assert_true(job_read(&beside->job, &is, &err));
        assert_int_equal(is.state, JOB_FAILED);
        assert_string_equal(is.reason, was.reason);
        assert_int_equal(is.step, 7);
        assert_int_equal(is.total, 9);
        assert_true(is.loss == 2.5);
        assert_true(isnan(is.seconds_left));
        assert_int_equal(is.attempt, 2);
        assert_int_equal(is.crashes, 1);
        assert_int_equal(is.max_retries, 3);
        assert_int_equal(is.priority, -4);
        assert_true(is.resume);
        assert_string_equal(is.source, "s");
    }
}

static void test_job_without_a_readable_state_is_new(void **state)
{
    static const char *const broken[] = {
        "", "{", "[]", "{\"state\":\"nowhere\"}", "{\"state\":7}", "{\"step\":3}"
    };
    struct beside *beside = *state;
    struct job_record record;
    struct error err = { 0 };

    assert_true(job_read(&beside->job, &record, &err));
    assert_int_equal(record.state, JOB_NEW);
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        assert_true(
            file_replace(beside->job.state, broken[i], strlen(broken[i]), 0600, &err));
        assert_true(job_read(&beside->job, &record, &err));
        assert_int_equal(record.state, JOB_NEW);
        assert_int_equal(record.step, 0);
    }
}

static void test_job_event_refuses_transitions_not_in_the_table(void **state)
{
    struct beside *beside = *state;
    struct job_record record = { .state = JOB_DONE, .loss = NAN, .seconds_left = NAN };
    struct error err = { 0 };

    assert_false(job_event(&beside->job, &record, EVENT_STARTED, NULL, &err));
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_int_equal(record.state, JOB_DONE);
    assert_false(file_exists(beside->job.state));
}

static void test_job_event_counts_attempts_and_crashes(void **state)
{
    struct beside *beside = *state;
    struct job_record record = { .state = JOB_NEW, .loss = NAN, .seconds_left = NAN };
    struct error err = { 0 };

    assert_true(job_event(&beside->job, &record, EVENT_ACCEPTED, NULL, &err));
    assert_true(job_event(&beside->job, &record, EVENT_STARTED, NULL, &err));
    assert_true(job_event(&beside->job, &record, EVENT_CRASHED, "killed", &err));
    assert_true(job_event(&beside->job, &record, EVENT_STARTED, NULL, &err));
    assert_true(job_read(&beside->job, &record, &err));
    assert_int_equal(record.attempt, 2);
    assert_int_equal(record.crashes, 1);
    assert_true(record.started[0]);
    assert_true(job_event(&beside->job, &record, EVENT_EXIT_OK, NULL, &err));
    assert_true(job_event(&beside->job, &record, EVENT_RETRIED, NULL, &err));
    assert_int_equal(record.attempt, 0);
    assert_int_equal(record.crashes, 0);
}

/* A reason that is too long is cut without cutting a character. */
static void test_job_reason_stays_utf8(void **state)
{
    struct beside *beside = *state;
    struct job_record record = { .state = JOB_NEW, .loss = NAN, .seconds_left = NAN };
    struct error err = { 0 };
    char reason[1200];

    for (size_t i = 0; i < sizeof(reason) - 2; i += 2)
        memcpy(reason + i, "\303\244", 3);
    assert_true(job_event(&beside->job, &record, EVENT_REJECTED, reason, &err));
    assert_int_equal(strlen(record.reason), sizeof(record.reason) - 2);
    assert_true(job_read(&beside->job, &record, &err));
    assert_int_equal(strlen(record.reason), sizeof(record.reason) - 2);
    assert_memory_equal(record.reason, reason, sizeof(record.reason) - 2);
}

static void test_job_lock_shows_which_job_is_alive(void **state)
{
    struct beside *beside = *state;
    struct error err = { 0 };
    bool busy = false;
    int lock = job_lock(&beside->job, &busy, &err);

    assert_true(lock >= 0);
    assert_true(job_is_locked(&beside->job));
    assert_int_equal(job_lock(&beside->job, &busy, &err), -1);
    assert_true(busy);
    close(lock);
    assert_false(job_is_locked(&beside->job));
}

static void test_job_requests_stay_until_forgotten(void **state)
{
    struct beside *beside = *state;
    struct error err = { 0 };

    assert_int_equal(job_requested(&beside->job), REQUEST_NONE);
    assert_true(job_request(&beside->job, REQUEST_PAUSE, &err));
    assert_int_equal(job_requested(&beside->job), REQUEST_PAUSE);
    assert_true(job_request(&beside->job, REQUEST_REQUEUE, &err));
    assert_int_equal(job_requested(&beside->job), REQUEST_REQUEUE);
    assert_true(job_request(&beside->job, REQUEST_CANCEL, &err));
    assert_int_equal(job_requested(&beside->job), REQUEST_CANCEL);
    job_forget(&beside->job);
    assert_int_equal(job_requested(&beside->job), REQUEST_NONE);
}

static void test_job_does_not_write_through_links(void **state)
{
    struct beside *beside = *state;
    char *outside = path_join(beside->dir, "outside");
    struct error err = { 0 };
    struct text line;

    text_init(&line, 0);
    text_adds(&line, "line\n");
    assert_int_equal(symlink(outside, beside->job.log), 0);
    assert_false(job_log(&beside->job, &line, &err));
    assert_false(file_exists(outside));
    text_clear(&line);
    free(outside);
}

static void test_job_folder_is_never_a_link(void **state)
{
    struct beside *beside = *state;
    char *path = path_join(beside->dir, "other.yaml");
    struct error err = { 0 };
    struct job job;

    job_init(&job, path);
    assert_int_equal(symlink(beside->dir, job.run_dir), 0);
    assert_false(job_make_dir(&job, &err));
    job_clear(&job);
    free(path);
}

static void test_job_source_changes_with_the_file(void **state)
{
    struct stat a = { .st_ino = 1, .st_size = 2 }, b = a;
    char one[64], two[64];

    (void)state;
    b.st_ctim.tv_nsec = 1;
    job_source(&a, one);
    job_source(&b, two);
    assert_string_not_equal(one, two);
    b = a;
    job_source(&b, two);
    assert_string_equal(one, two);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_table_leads_from_new_to_an_end_and_back),
        cmocka_unit_test(test_job_can_be_cancelled_until_it_ends_and_retried_after),
        cmocka_unit_test(test_job_table_has_no_dead_ends),
        cmocka_unit_test(test_job_files_are_next_to_it),
        cmocka_unit_test(test_job_source_changes_with_the_file),
        IN_FOLDER(test_job_record_round_trips),
        IN_FOLDER(test_job_without_a_readable_state_is_new),
        IN_FOLDER(test_job_event_refuses_transitions_not_in_the_table),
        IN_FOLDER(test_job_event_counts_attempts_and_crashes),
        IN_FOLDER(test_job_reason_stays_utf8),
        IN_FOLDER(test_job_lock_shows_which_job_is_alive),
        IN_FOLDER(test_job_requests_stay_until_forgotten),
        IN_FOLDER(test_job_does_not_write_through_links),
        IN_FOLDER(test_job_folder_is_never_a_link),
    };

    return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
