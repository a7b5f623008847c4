/* tests/unit/test_worker_group.c - a child that starts in the control group of its job, in
 * a tree of files. */
#include "config.h"

#include "runner/spool/worker_group.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/output/report.h"
#include "tests/unit/unit.h"

#define GROUP "sys/fs/cgroup/watch.service"

struct fixture {
    char *root, *program;
    struct worker worker;
    struct job_groups *groups;
    int lock;
};

static void put(const char *root, const char *name, const char *text)
{
    char *path = path_join(root, name), *dir = path_dir(path);
    struct error err = { 0 };

    assert_true(file_make_dirs(dir, 0700, &err));
    assert_true(file_replace(path, text, strlen(text), 0700, &err));
    free(dir);
    free(path);
}

static bool has_text(const char *root, const char *name, const char *expected)
{
    char *path = path_join(root, name);
    struct error err = { 0 };
    struct text text;
    bool same;

    text_init(&text, 0);
    same = file_read(path, 1000, &text, NULL, &err) && strcmp(text.data, expected) == 0;
    text_clear(&text);
    free(path);
    return same;
}

static int set_up(void **state)
{
    struct fixture *fixture = memory_alloc(sizeof(*fixture));
    struct error err = { 0 };
    char *path;

    *fixture = (struct fixture) { .root = unit_dir_new() };
    put(fixture->root, "proc/self/cgroup", "0::/watch.service\n");
    put(fixture->root, GROUP "/cgroup.controllers", "memory\n");
    put(fixture->root, GROUP "/cgroup.subtree_control", "");
    put(fixture->root, GROUP "/cgroup.procs", "");
    put(fixture->root, "train", "#!/bin/sh\nkill -KILL $$\n");
    fixture->program = path_join(fixture->root, "train");
    path = path_join(fixture->root, "a.yaml");
    job_init(&fixture->worker.job, path);
    free(path);
    assert_true(job_make_dir(&fixture->worker.job, &err));
    fixture->worker.log = log_new(STDERR_FILENO, LOG_ERROR);
    fixture->groups = job_groups_open(fixture->root, true, true, &err);
    assert_non_null(fixture->groups);
    fixture->worker.groups = fixture->groups;
    fixture->lock = job_lock(&fixture->worker.job, &(bool) { false }, &err);
    assert_true(fixture->lock >= 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    close(fixture->lock);
    job_groups_close(fixture->groups);
    log_free(fixture->worker.log);
    job_clear(&fixture->worker.job);
    unit_dir_free(fixture->root);
    free(fixture->program);
    free(fixture);
    return 0;
}

/* Start the program and return how it ended. */
static int run(struct fixture *fixture)
{
    struct child_start how = { .program = fixture->program,
                               .job = &fixture->worker.job,
                               .lock = fixture->lock,
                               .spooled = true };
    struct error err = { 0 };
    int status = 0;

    assert_true(worker_group_start(&fixture->worker, &how, &err));
    assert_true(child_reap(&fixture->worker.child, true, &status));
    return status;
}

static void test_child_enters_the_group(void **state)
{
    struct fixture *fixture = *state;
    struct worker *worker = &fixture->worker;
    const struct job_record record = { .memory_max = 1 << 30 };
    int status;

    worker_group_make(worker, &record);
    assert_int_equal(worker->job_group.number, 1);
    assert_true(has_text(fixture->root, GROUP "/job-1/memory.max", "1073741824"));
    status = run(fixture);
    assert_true(has_text(fixture->root, GROUP "/job-1/cgroup.procs", "0"));
    assert_string_equal(worker->job_group.trouble, "");
    assert_int_equal(status, SIGKILL);
    /* someone killed it, or the kernel did */
    assert_int_equal(worker_group_status(worker, status), SIGKILL);
    put(fixture->root, GROUP "/job-1/memory.events", "oom 0\noom_kill 1\n");
    assert_int_equal(worker_group_status(worker, status), EXIT_NO_MEMORY << 8);
    assert_int_equal(worker_group_status(worker, -1), EXIT_NO_MEMORY << 8);
    put(fixture->root, GROUP "/job-1/memory.events", "oom 1\noom_kill 1\n");
    assert_int_equal(worker_group_status(worker, status), EXIT_OVER_LIMIT << 8);
    assert_int_equal(worker_group_status(worker, 0), 0);
    assert_int_equal(worker_group_status(worker, SIGTERM), SIGTERM);
}

static void test_jobs_without_containment_have_no_limit(void **state)
{
    struct fixture *fixture = *state;
    const struct job_record record = { .memory_max = 1 << 30 };

    fixture->worker.no_sandbox = true;
    worker_group_make(&fixture->worker, &record);
    assert_int_equal(fixture->worker.job_group.number, 1);
    assert_false(has_text(fixture->root, GROUP "/job-1/memory.max", "1073741824"));
    job_group_close(&fixture->worker.job_group);
}

static void test_job_runs_without_a_group_it_cannot_enter(void **state)
{
    struct fixture *fixture = *state;
    struct worker *worker = &fixture->worker;

    worker_group_make(worker, &(struct job_record) { .memory_max = 0 });
    job_group_close(&worker->job_group);
    worker->job_group.door = open("/", O_RDONLY | O_CLOEXEC);
    assert_int_equal(run(fixture), SIGKILL);
    assert_string_equal(worker->job_group.trouble, strerror(EBADF));
    /* or where no group is delegated */
    worker->groups = NULL;
    worker_group_make(worker, &(struct job_record) { .memory_max = 0 });
    assert_int_equal(worker->job_group.number, 0);
    assert_int_equal(run(fixture), SIGKILL);
}

static void test_program_that_is_missing(void **state)
{
    struct fixture *fixture = *state;
    struct child_start how = { .program = "missing/train",
                               .job = &fixture->worker.job,
                               .lock = fixture->lock,
                               .spooled = true };
    struct error err = { 0 };

    worker_group_make(&fixture->worker, &(struct job_record) { .memory_max = 0 });
    assert_false(worker_group_start(&fixture->worker, &how, &err));
    assert_int_equal(err.code, ERROR_FAULT);
    assert_string_equal(err.text,
                        "cannot start missing/train: No such file or directory");
}

#define WITH_GROUPS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_GROUPS(test_child_enters_the_group),
        WITH_GROUPS(test_jobs_without_containment_have_no_limit),
        WITH_GROUPS(test_job_runs_without_a_group_it_cannot_enter),
        WITH_GROUPS(test_program_that_is_missing),
    };

    return cmocka_run_group_tests_name("worker_group", tests, NULL, NULL);
}
