/* tests/unit/test_job_group.c - control groups of jobs in trees of files as the kernel has
 * them. Only rmdir differs: it leaves a folder with files. */
#include "config.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "runner/job/job_group.h"

#define GROUP "sys/fs/cgroup/system.slice/watch.service"

static int set_up(void **state)
{
    *state = unit_dir_new();
    return 0;
}

static int tear_down(void **state)
{
    unit_dir_free(*state);
    return 0;
}

static void put(const char *root, const char *name, const char *text)
{
    char *path = path_join(root, name), *dir = path_dir(path);
    struct error err = { 0 };

    assert_true(file_make_dirs(dir, 0700, &err));
    assert_true(file_replace(path, text, strlen(text), 0600, &err));
    free(dir);
    free(path);
}

static void assert_text(const char *root, const char *name, const char *expected)
{
    char *path = path_join(root, name);
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    assert_true(file_read(path, 1000, &text, NULL, &err));
    assert_string_equal(text.data, expected);
    text_clear(&text);
    free(path);
}

static bool is_there(const char *root, const char *name)
{
    char *path = path_join(root, name);
    bool there = file_exists(path);

    free(path);
    return there;
}

static void make_dir(const char *root, const char *name)
{
    char *path = path_join(root, name);
    struct error err = { 0 };

    assert_true(file_make_dirs(path, 0700, &err));
    free(path);
}

/* Mark the group as systemd does; skip the test on a file system without attributes. */
static void delegate(const char *root)
{
    char *path = path_join(root, GROUP);

    if (setxattr(path, "user.delegate", "1", 1, 0) != 0) {
        free(path);
        skip();
    }
    free(path);
}

static void put_group(const char *root)
{
    put(root, "proc/self/cgroup", "0::/system.slice/watch.service\n");
    put(root, GROUP "/cgroup.controllers", "cpu memory pids\n");
    put(root, GROUP "/cgroup.subtree_control", "");
    put(root, GROUP "/cgroup.procs", "");
    make_dir(root, GROUP "/watch");
}

static struct job_groups *open_groups(const char *root)
{
    struct error err = { 0 };
    struct job_groups *groups = job_groups_open(root, true, false, &err);

    assert_string_equal(err.text, "");
    assert_non_null(groups);
    return groups;
}

static void test_no_group_without_delegation(void **state)
{
    struct error err = { 0 };
    struct job_group group;

    assert_null(job_groups_open(*state, true, false, &err)); /* no files at all */
    put(*state, "proc/self/cgroup", "4:memory:/a\n1:name=systemd:/a\n");
    assert_null(job_groups_open(*state, true, false, &err)); /* version 1 */
    put_group(*state);
    assert_null(job_groups_open(*state, true, false, &err));
    assert_int_equal(err.code, ERROR_NONE);
    assert_text(*state, GROUP "/cgroup.subtree_control", "");
    assert_false(job_group_make(NULL, 1, &group, &err));
    assert_int_equal(group.number, 0);
    assert_int_equal(err.code, ERROR_NONE);
}

static void test_groups_need_memory(void **state)
{
    struct error err = { 0 };

    put_group(*state);
    delegate(*state);
    put(*state, GROUP "/cgroup.controllers", "cpu pids\n");
    assert_null(job_groups_open(*state, true, false, &err));
    assert_non_null(strstr(err.text, "has no controller of memory"));
}

/* As in a unit of a user, whose manager does not mark it. */
static void test_unit_says_that_it_is_delegated(void **state)
{
    struct error err = { 0 };
    struct job_groups *groups;

    put_group(*state);
    groups = job_groups_open(*state, true, true, &err);
    assert_non_null(groups);
    assert_text(*state, GROUP "/cgroup.subtree_control", "+memory +pids");
    job_groups_close(groups);
}

static void test_watch_leaves_the_delegated_group(void **state)
{
    struct job_groups *groups;

    put_group(*state);
    delegate(*state);
    groups = open_groups(*state);
    assert_text(*state, GROUP "/watch/cgroup.procs", "0");
    assert_text(*state, GROUP "/cgroup.subtree_control", "+memory +pids");
    job_groups_close(groups);
    /* where it already is */
    put(*state, "proc/self/cgroup", "0::/system.slice/watch.service/watch\n");
    groups = open_groups(*state);
    assert_non_null(strstr(job_groups_path(groups), "/system.slice/watch.service"));
    assert_null(strstr(job_groups_path(groups), "/watch.service/watch"));
    job_groups_close(groups);
}

static void test_group_of_a_job(void **state)
{
    struct job_groups *groups;
    struct job_group group;
    struct error err = { 0 };

    put_group(*state);
    delegate(*state);
    groups = open_groups(*state);
    assert_true(job_group_make(groups, 1 << 30, &group, &err));
    assert_int_equal(group.number, 1);
    assert_text(*state, GROUP "/job-1/memory.max", "1073741824");
    assert_text(*state, GROUP "/job-1/memory.swap.max", "0");
    assert_text(*state, GROUP "/job-1/memory.oom.group", "1");
    assert_text(*state, GROUP "/job-1/pids.max", "16384");
    assert_int_equal(job_group_enter(&group), 0);
    job_group_close(&group);
    assert_text(*state, GROUP "/job-1/cgroup.procs", "0");
    /* what does not end is ended, and the number stays in use */
    job_group_remove(groups, &group);
    assert_text(*state, GROUP "/job-1/cgroup.kill", "1");
    assert_true(job_group_make(groups, 0, &group, &err));
    assert_int_equal(group.number, 2);
    assert_false(is_there(*state, GROUP "/job-2/memory.max"));
    job_group_close(&group);
    job_groups_close(groups);
}

static void test_group_counts_kills(void **state)
{
    struct job_groups *groups;
    struct job_group group;
    struct error err = { 0 };

    put_group(*state);
    delegate(*state);
    groups = open_groups(*state);
    assert_true(job_group_make(groups, 0, &group, &err));
    job_group_close(&group);
    assert_int_equal(job_group_kills(groups, &group), JOB_GROUP_UNHARMED);
    put(*state, GROUP "/job-1/memory.events", "low 0\nmax 9\noom 0\noom_kill 0\n");
    assert_int_equal(job_group_kills(groups, &group), JOB_GROUP_UNHARMED);
    put(*state, GROUP "/job-1/memory.events", "low 0\nmax 9\noom 0\noom_kill 2\n");
    assert_int_equal(job_group_kills(groups, &group), JOB_GROUP_NO_MEMORY);
    put(*state, GROUP "/job-1/memory.events",
        "max 9\noom 3\noom_kill 2\noom_group_kill 1\n");
    assert_int_equal(job_group_kills(groups, &group), JOB_GROUP_OVER_LIMIT);
    job_groups_close(groups);
}

/* The groups of jobs that ended are removed; those with processes (here: files) stay. */
static void test_next_watch_finds_groups(void **state)
{
    struct job_groups *groups;
    struct job_group group;
    struct error err = { 0 };

    put_group(*state);
    delegate(*state);
    make_dir(*state, GROUP "/job-3");
    make_dir(*state, GROUP "/job-03");
    put(*state, GROUP "/job-7/memory.max", "max");
    groups = open_groups(*state);
    assert_false(is_there(*state, GROUP "/job-3"));
    assert_true(is_there(*state, GROUP "/job-03")); /* not a name of ours */
    job_group_adopt(groups, "/system.slice/watch.service/job-7", 1 << 20, &group);
    assert_int_equal(group.number, 7);
    assert_text(*state, GROUP "/job-7/memory.max", "1048576");
    assert_true(job_group_make(groups, 0, &group, &err));
    assert_int_equal(group.number, 8);
    job_group_close(&group);
    job_group_adopt(groups, "/system.slice/watch.service/watch", 0, &group);
    assert_int_equal(group.number, 0);
    job_group_adopt(groups, "/system.slice/other.service/job-7", 0, &group);
    assert_int_equal(group.number, 0);
    job_group_adopt(groups, "/system.slice/watch.service/job-7/../job-8", 0, &group);
    assert_int_equal(group.number, 0);
    job_groups_close(groups);
}

static void test_job_knows_its_group(void **state)
{
    uint64_t bytes;

    assert_false(job_group_own(*state, &bytes));
    put(*state, "proc/self/cgroup", "0::/system.slice/watch.service/watch\n");
    assert_false(job_group_own(*state, &bytes));
    put(*state, "proc/self/cgroup", "0::/system.slice/watch.service/job-12\n");
    put(*state, GROUP "/job-12/memory.max", "max\n");
    assert_true(job_group_own(*state, &bytes));
    assert_int_equal(bytes, 0);
    put(*state, GROUP "/job-12/memory.max", "1048576\n");
    assert_true(job_group_own(*state, &bytes));
    assert_int_equal(bytes, 1 << 20);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_no_group_without_delegation),
        IN_FOLDER(test_groups_need_memory),
        IN_FOLDER(test_unit_says_that_it_is_delegated),
        IN_FOLDER(test_watch_leaves_the_delegated_group),
        IN_FOLDER(test_group_of_a_job),
        IN_FOLDER(test_group_counts_kills),
        IN_FOLDER(test_next_watch_finds_groups),
        IN_FOLDER(test_job_knows_its_group),
    };

    return cmocka_run_group_tests_name("job_group", tests, NULL, NULL);
}
