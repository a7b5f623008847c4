/* tests/unit/test_cgroup.c - limits of control groups in trees of files as the kernel has
 * them. */
#include "config.h"

#include "tests/unit/unit.h"

#include "precision/cgroup.h"

#define GIB ((uint64_t)1 << 30)

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

static void put_v2(const char *root, const char *path)
{
    char *line;

    assert_true(asprintf(&line, "0::%s\n", path) > 0);
    put(root, "proc/self/cgroup", line);
    free(line);
    put(root, "proc/self/mountinfo",
        "23 1 0:20 / / rw - ext4 /dev/root rw\n"
        "31 23 0:29 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
}

static void test_cgroup_without_limits(void **state)
{
    struct cgroup_limits limits;

    cgroup_read(*state, &limits); /* no files at all */
    assert_true(limits.memory == UINT64_MAX && limits.available == UINT64_MAX);
    assert_int_equal(limits.cores, 0);
    put_v2(*state, "/");
    put(*state, "sys/fs/cgroup/memory.max", "max\n");
    put(*state, "sys/fs/cgroup/cpu.max", "max 100000\n");
    cgroup_read(*state, &limits);
    assert_true(limits.memory == UINT64_MAX && limits.available == UINT64_MAX);
    assert_int_equal(limits.cores, 0);
}

static void test_cgroup_reads_its_own_group(void **state)
{
    struct cgroup_limits limits;

    put_v2(*state, "/user.slice/job.scope");
    put(*state, "sys/fs/cgroup/memory.max", "8589934592\n");
    put(*state, "sys/fs/cgroup/user.slice/job.scope/memory.max", "2147483648\n");
    put(*state, "sys/fs/cgroup/user.slice/job.scope/memory.current", "1073741824\n");
    put(*state, "sys/fs/cgroup/user.slice/job.scope/cpu.max", "150000 100000\n");
    cgroup_read(*state, &limits);
    assert_true(limits.memory == 2 * GIB);
    assert_true(limits.available == GIB);
    assert_int_equal(limits.cores, 2);
}

static void test_cgroup_follows_a_process_that_moves(void **state)
{
    struct cgroup_limits limits;

    put_v2(*state, "/before");
    put(*state, "sys/fs/cgroup/before/memory.max", "2147483648\n");
    put(*state, "sys/fs/cgroup/after/memory.max", "1073741824\n");
    cgroup_read(*state, &limits);
    assert_true(limits.memory == 2 * GIB);
    put(*state, "sys/fs/cgroup/before/memory.max", "3221225472\n");
    cgroup_read(*state, &limits);
    assert_true(limits.memory == 3 * GIB);
    put_v2(*state, "/after");
    cgroup_read(*state, &limits);
    assert_true(limits.memory == GIB);
}

/* The lowest limit and the least that is left may be those of different groups. */
static void test_cgroup_reads_every_parent(void **state)
{
    struct cgroup_limits limits;

    put_v2(*state, "/a/b/c");
    put(*state, "sys/fs/cgroup/a/memory.max", "4294967296\n");
    put(*state, "sys/fs/cgroup/a/memory.current", "4026531840\n"); /* others use it */
    put(*state, "sys/fs/cgroup/a/cpu.max", "100000 100000\n");
    put(*state, "sys/fs/cgroup/a/b/memory.high", "3221225472\n");
    put(*state, "sys/fs/cgroup/a/b/memory.current", "1073741824\n");
    put(*state, "sys/fs/cgroup/a/b/c/memory.max", "max\n");
    put(*state, "sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
    cgroup_read(*state, &limits);
    assert_true(limits.memory == 3 * GIB);
    assert_true(limits.available == 4 * GIB - 4026531840);
    assert_int_equal(limits.cores, 1);
}

static void test_cgroup_counts_caches_as_free(void **state)
{
    struct cgroup_limits limits;

    put_v2(*state, "/job");
    put(*state, "sys/fs/cgroup/job/memory.max", "4294967296\n");
    put(*state, "sys/fs/cgroup/job/memory.current", "4294967296\n");
    put(*state, "sys/fs/cgroup/job/memory.stat",
        "anon 1073741824\nfile 3221225472\nfile_dirty 536870912\nfile_writeback 0\n"
        "inactive_file 2147483648\nactive_file 1073741824\n");
    cgroup_read(*state, &limits);
    assert_true(limits.available == 5 * GIB / 2);
}

static void test_cgroup_reads_version_1(void **state)
{
    struct cgroup_limits limits;

    put(*state, "proc/self/cgroup",
        "9:name=systemd:/\n4:memory:/box/inner\n2:cpu,cpuacct:/box\n0::/\n");
    put(*state, "proc/self/mountinfo",
        "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "36 31 0:33 / /sys/fs/cgroup/mem rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put(*state, "sys/fs/cgroup/mem/memory.limit_in_bytes", "9223372036854771712\n");
    put(*state, "sys/fs/cgroup/mem/box/memory.limit_in_bytes", "3221225472\n");
    put(*state, "sys/fs/cgroup/mem/box/memory.usage_in_bytes", "2147483648\n");
    put(*state, "sys/fs/cgroup/mem/box/memory.stat",
        "inactive_file 5\ntotal_inactive_file 536870912\ntotal_active_file 536870912\n"
        "total_dirty 0\n");
    put(*state, "sys/fs/cgroup/mem/box/inner/memory.limit_in_bytes",
        "9223372036854771712\n");
    put(*state, "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "250000\n");
    put(*state, "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
    put(*state, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put(*state, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    cgroup_read(*state, &limits);
    assert_true(limits.memory == 3 * GIB);
    assert_true(limits.available == 2 * GIB);
    assert_int_equal(limits.cores, 3);
}

/* The path may be that of the host, of which the container sees its own part. */
static void test_cgroup_in_a_container(void **state)
{
    static const char *const paths[] = { "4:memory:/docker/1f\n", "4:memory:/\n",
                                         "4:memory:/..\n", "4:memory:/docker/1fa\n" };
    struct cgroup_limits limits;

    put(*state, "proc/self/mountinfo",
        "36 31 0:33 /docker/1f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    put(*state, "sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        put(*state, "proc/self/cgroup", paths[i]);
        cgroup_read(*state, &limits);
        assert_true(limits.memory == GIB);
    }
    put(*state, "proc/self/cgroup", "4:memory:/docker/1f/job\n");
    put(*state, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
    cgroup_read(*state, &limits);
    assert_true(limits.memory == GIB / 2);
}

static void test_cgroup_reads_any_text(void **state)
{
    struct cgroup_limits limits;

    put(*state, "proc/self/cgroup", "\n:\n::\n0::\n:memory\n4:memory:relative\n0::///\n");
    put(*state, "proc/self/mountinfo", "\n - \n1 2 3 / - cgroup\n");
    put(*state, "sys/fs/cgroup/memory.max", "");
    put(*state, "sys/fs/cgroup/cpu.max", "0 0\n");
    put(*state, "sys/fs/cgroup/memory/memory.limit_in_bytes", "x");
    cgroup_read(*state, &limits);
    assert_true(limits.memory == UINT64_MAX);
    assert_int_equal(limits.cores, 0);
}

static void test_cgroup_counts_kills_of_its_own_group(void **state)
{
    assert_int_equal(cgroup_oom_kills(*state), -1);
    put(*state, "proc/vmstat", "nr_free_pages 1\noom_kill 7\n");
    assert_int_equal(cgroup_oom_kills(*state), 7);
    put_v2(*state, "/user.slice/job.scope");
    put(*state, "sys/fs/cgroup/memory.events", "oom 9\noom_kill 9\n");
    assert_int_equal(cgroup_oom_kills(*state), 7);
    put(*state, "sys/fs/cgroup/user.slice/job.scope/memory.events",
        "low 0\noom 3\noom_kill 2\noom_group_kill 1\n");
    assert_int_equal(cgroup_oom_kills(*state), 2);
    put(*state, "proc/self/cgroup", "4:memory:/job\n1:cpu:/job\n0::/\n");
    put(*state, "sys/fs/cgroup/memory.events", "");
    put(*state, "sys/fs/cgroup/memory/job/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
    assert_int_equal(cgroup_oom_kills(*state), 5);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_cgroup_without_limits),
        IN_FOLDER(test_cgroup_reads_its_own_group),
        IN_FOLDER(test_cgroup_follows_a_process_that_moves),
        IN_FOLDER(test_cgroup_reads_every_parent),
        IN_FOLDER(test_cgroup_counts_caches_as_free),
        IN_FOLDER(test_cgroup_reads_version_1),
        IN_FOLDER(test_cgroup_in_a_container),
        IN_FOLDER(test_cgroup_reads_any_text),
        IN_FOLDER(test_cgroup_counts_kills_of_its_own_group),
    };

    return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
