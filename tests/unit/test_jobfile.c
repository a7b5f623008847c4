/* tests/unit/test_jobfile.c - a job file is replaced completely, with its attributes, or
 * not at all. */
#include "config.h"

#include "patcher/history/jobfile.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "patcher/document/document.h"
#include "base/clock.h"
#include "tests/unit/unit.h"

struct fixture {
    char *dir, *job, *other;
};

static void put(const char *path, const char *text)
{
    struct error err = { 0 };

    if (!file_replace(path, text, strlen(text), 0644, &err))
        fail_msg("%s", err.text);
}

static int set_up(void **state)
{
    struct fixture *fixture = memory_alloc(sizeof(*fixture));

    fixture->dir = unit_dir_new();
    fixture->job = path_join(fixture->dir, "job.yaml");
    fixture->other = path_join(fixture->dir, "other.yaml");
    put(fixture->job, "a: 1\n");
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    unit_dir_free(fixture->dir);
    free(fixture->job);
    free(fixture->other);
    free(fixture);
    return 0;
}

static struct jobfile read_job(const char *name)
{
    struct jobfile file;
    struct error err = { 0 };

    if (!jobfile_read(&file, name, &err))
        fail_msg("%s", err.text);
    return file;
}

static void assert_holds(const char *path, const char *expected)
{
    struct text text;

    text_init(&text, 0);
    assert_true(file_read(path, 1 << 20, &text, NULL, NULL));
    assert_string_equal(text.data, expected);
    text_clear(&text);
}

static size_t count_names(const char *dir)
{
    char *command = memory_alloc(strlen(dir) + 32);
    size_t count = 0;
    FILE *pipe;

    sprintf(command, "ls -A '%s'", dir);
    pipe = popen(command, "r");
    for (int c; (c = getc(pipe)) != EOF;)
        count += c == '\n';
    pclose(pipe);
    free(command);
    return count;
}

static void test_jobfile_is_replaced_with_mode_and_attributes(void **state)
{
    const struct fixture *fixture = *state;
    struct jobfile file;
    struct error err = { 0 };
    bool stale, attributes;
    char value[8] = "";

    assert_int_equal(chmod(fixture->job, 02640), 0);
    attributes = setxattr(fixture->job, "user.note", "kept", 4, 0) == 0;
    file = read_job(fixture->job);
    assert_null(jobfile_barrier(&file));
    assert_true(jobfile_replace(&file, "a: 2\n", 5, &stale, &err));
    assert_false(stale);
    jobfile_clear(&file);
    assert_holds(fixture->job, "a: 2\n");
    file = read_job(fixture->job);
    assert_int_equal(file.st.st_mode & 07777, 02640);
    jobfile_clear(&file);
    if (attributes) {
        assert_int_equal(getxattr(fixture->job, "user.note", value, sizeof(value)), 4);
        assert_string_equal(value, "kept");
    }
    assert_int_equal(count_names(fixture->dir), 1); /* no temporary file remains */
}

static void test_jobfile_does_not_replace_a_changed_file(void **state)
{
    const struct fixture *fixture = *state;
    struct jobfile file = read_job(fixture->job);
    bool stale;

    assert_true(jobfile_is_same(&file));
    assert_int_equal(
        utimensat(AT_FDCWD, fixture->job, (struct timespec[2]) { { 1, 0 }, { 1, 0 } }, 0),
        0);
    assert_false(jobfile_is_same(&file)); /* written again with the same contents */
    put(fixture->job, "b: 1\n");
    assert_false(jobfile_is_same(&file));
    assert_true(jobfile_replace(&file, "a: 2\n", 5, &stale, NULL));
    assert_true(stale);
    assert_holds(fixture->job, "b: 1\n");
    assert_int_equal(unlink(fixture->job), 0);
    assert_true(jobfile_replace(&file, "a: 2\n", 5, &stale, NULL));
    assert_true(stale);
    assert_int_equal(count_names(fixture->dir), 0);
    jobfile_clear(&file);
}

static void test_jobfile_reports_barriers(void **state)
{
    const struct fixture *fixture = *state;
    struct jobfile file;

    assert_int_equal(symlink("job.yaml", fixture->other), 0);
    file = read_job(fixture->other);
    assert_non_null(strstr(jobfile_barrier(&file), "symbolic link"));
    jobfile_clear(&file);
    assert_int_equal(unlink(fixture->other), 0);
    assert_int_equal(link(fixture->job, fixture->other), 0);
    file = read_job(fixture->other);
    assert_non_null(strstr(jobfile_barrier(&file), "hard links"));
    jobfile_clear(&file);
    assert_int_equal(unlink(fixture->other), 0);
    assert_int_equal(chmod(fixture->job, 0444), 0);
    file = read_job(fixture->job);
    assert_non_null(strstr(jobfile_barrier(&file), "read-only"));
    if (geteuid() == 0) {
        assert_int_equal(chown(fixture->job, 65534, 65534), 0);
        jobfile_clear(&file);
        file = read_job(fixture->job);
        assert_non_null(strstr(jobfile_barrier(&file), "another user"));
        assert_int_equal(chown(fixture->job, 0, 0), 0);
        jobfile_clear(&file);
        assert_int_equal(chmod(fixture->job, 0644), 0);
        file = read_job(fixture->job);
        assert_int_equal(seteuid(3123456789u), 0);
        assert_non_null(strstr(jobfile_barrier(&file), "chown 3123456789 job.yaml"));
        assert_int_equal(seteuid(0), 0);
    }
    jobfile_clear(&file);
}

static void test_jobfile_refuses_unreadable_files(void **state)
{
    const struct fixture *fixture = *state;
    struct error err = { 0 };
    struct jobfile file;

    assert_false(jobfile_read(&file, fixture->other, &err));
    assert_int_equal(err.code, ERROR_SYSTEM);
    jobfile_clear(&file);
    assert_int_equal(symlink("other.yaml", fixture->other), 0); /* a loop */
    assert_false(jobfile_read(&file, fixture->other, NULL));
    jobfile_clear(&file);
    assert_int_equal(unlink(fixture->other), 0);
    assert_int_equal(mkfifo(fixture->other, 0600), 0);
    error_clear(&err);
    assert_false(jobfile_read(&file, fixture->other, &err));
    assert_int_equal(err.code, ERROR_DATA);
    jobfile_clear(&file);
    assert_int_equal(truncate(fixture->job, (off_t)DOCUMENT_MAX_BYTES + 1), 0);
    error_clear(&err);
    assert_false(jobfile_read(&file, fixture->job, &err));
    assert_int_equal(err.code, ERROR_DATA);
    jobfile_clear(&file);
    error_clear(&err);
    assert_false(jobfile_read(&file, fixture->dir, &err));
    assert_int_equal(err.code, ERROR_DATA);
    jobfile_clear(&file);
}

static void test_jobfile_lock_creates_its_folder(void **state)
{
    const struct fixture *fixture = *state;
    char *lock = path_join(fixture->dir, "job.run/patch.lock");
    int fd = jobfile_lock(fixture->job, NULL);

    assert_true(fd >= 0);
    assert_true(file_is_locked(lock));
    jobfile_unlock(fixture->job, fd);
    assert_false(file_is_locked(lock));
    free(lock);
}

/* Another machine, which never renews it, has the lease of the lock. */
static void test_jobfile_lock_waits_for_another_machine(void **state)
{
    static const char lease[] = "trainspool-lease 1 held other boot 0000000000000007 "
                                "0000000000000001\n";
    const struct fixture *fixture = *state;
    char *run = path_join(fixture->dir, "job.run"),
         *path = path_join(run, "patch.lock.1");
    double began = clock_seconds();
    int fd;

    setenv("TRAINSPOOL_LEASE", "0.6", 1);
    assert_true(file_make_dir(run, 0755, NULL));
    assert_true(file_create(path, lease, strlen(lease), 0644, NULL));
    fd = jobfile_lock(fixture->job, NULL);
    assert_true(fd >= 0);
    assert_true(clock_seconds() - began >= 0.6);
    jobfile_unlock(fixture->job, fd);
    unsetenv("TRAINSPOOL_LEASE");
    free(path);
    free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_jobfile_is_replaced_with_mode_and_attributes,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_jobfile_does_not_replace_a_changed_file,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_jobfile_reports_barriers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_jobfile_refuses_unreadable_files, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_jobfile_lock_creates_its_folder, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_jobfile_lock_waits_for_another_machine,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
