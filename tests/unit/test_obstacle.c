/* tests/unit/test_obstacle.c - what is in the way of a job's files is named. */
#include "config.h"

#include "runner/job/obstacle.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static int set_up(void **state)
{
    char *dir = unit_dir_new();

    *state = dir;
    return chdir(dir);
}

static int tear_down(void **state)
{
    unit_dir_free(*state);
    return chdir("/");
}

static void assert_blocked(const char *reason)
{
    struct job job;
    struct job_record record;
    struct error err = { 0 };

    job_init(&job, "a.yaml");
    if (reason) {
        assert_false(obstacle_none(&job, &err));
        assert_int_equal(err.code, ERROR_SYSTEM);
        if (!strstr(err.text, reason))
            fail_msg("%s", err.text);
        assert_true(job_read(&job, &record, NULL));
        assert_int_equal(record.state, JOB_BLOCKED);
        if (!strstr(record.reason, reason))
            fail_msg("%s", record.reason);
    } else {
        assert_true(obstacle_none(&job, &err));
        assert_true(job_read(&job, &record, NULL));
        assert_int_equal(record.state, JOB_NEW);
    }
    job_clear(&job);
}

static void test_obstacle_is_named(void **state)
{
    (void)state;
    assert_int_equal(symlink("nowhere", "a.run"), 0);
    assert_blocked("a.run is in the way: it is a symbolic link, not a folder");
    assert_int_equal(unlink("a.run"), 0);
    assert_int_equal(mkfifo("a.run", 0600), 0);
    assert_blocked("a.run is in the way: it is a special file, not a folder");
    assert_int_equal(unlink("a.run"), 0);
    assert_int_equal(mkdir("a.run", 0700), 0);
    assert_blocked(NULL);
    assert_true(file_create("a.run/backups", "", 0, 0600, NULL));
    assert_blocked("a.run/backups is in the way: it is a file, not a folder; move it");
    assert_int_equal(unlink("a.run/backups"), 0);
    assert_int_equal(mkdir("a.run/metrics.jsonl", 0700), 0);
    assert_blocked("a.run/metrics.jsonl is in the way: it is a folder, not a file");
}

static void test_obstacle_usual_files_are_none(void **state)
{
    static const char *const files[] = { "a.run/lock", "a.run/job.yaml",
                                         "a.run/train.log", "a.run/patch.lock" };

    (void)state;
    assert_int_equal(mkdir("a.run", 0700), 0);
    assert_int_equal(mkdir("a.run/backups", 0700), 0);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        assert_true(file_create(files[i], "", 0, 0600, NULL));
    assert_blocked(NULL);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_obstacle_is_named),
        IN_FOLDER(test_obstacle_usual_files_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
