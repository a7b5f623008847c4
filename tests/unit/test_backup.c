/* tests/unit/test_backup.c - backups hold the text byte for byte, and are neither lost
 * nor written twice. */
#include "config.h"

#include "patcher/history/backup.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

struct fixture {
    char *dir, *job;
};

static int set_up(void **state)
{
    struct fixture *fixture = memory_alloc(sizeof(*fixture));

    fixture->dir = unit_dir_new();
    fixture->job = path_join(fixture->dir, "job.yaml");
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    unit_dir_free(fixture->dir);
    free(fixture->job);
    free(fixture);
    return 0;
}

static char *write_backup(const struct fixture *fixture, const char *text, size_t len)
{
    struct error err = { 0 };
    char *path;

    if (!backup_write(fixture->job, text, len, &path, &err))
        fail_msg("%s", err.text);
    return path;
}

static void test_backup_holds_every_byte_and_only_its_owner_reads_it(void **state)
{
    static const char bytes[] = "a: \"\xff\0\r\n# secret";
    const struct fixture *fixture = *state;
    char *path = write_backup(fixture, bytes, sizeof(bytes));
    struct text text;
    struct stat st;

    text_init(&text, 0);
    assert_true(file_read(path, 100, &text, &st, NULL));
    assert_int_equal(text.len, sizeof(bytes));
    assert_memory_equal(text.data, bytes, sizeof(bytes));
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(text_starts(path, fixture->dir));
    assert_non_null(strstr(path, "/job.run/backups/2"));
    text_clear(&text);
    free(path);
}

static void test_backup_is_not_written_twice(void **state)
{
    const struct fixture *fixture = *state;
    char *first = write_backup(fixture, "a\n", 2);
    char *second = write_backup(fixture, "b\n", 2);
    char *third = write_backup(fixture, "a\n", 2);
    struct backup *list;
    size_t count;

    assert_string_equal(first, third);
    assert_string_not_equal(first, second);
    assert_true(backup_list(fixture->job, &list, &count, NULL));
    assert_int_equal(count, 2);
    assert_string_equal(list[0].path, second); /* newest first */
    assert_string_equal(list[1].path, first);
    assert_int_equal(list[1].bytes, 2);
    assert_int_equal(strlen(list[0].digest), 64);
    backup_free(list, count);
    free(first);
    free(second);
    free(third);
}

static void test_backup_list_skips_other_files(void **state)
{
    static const char *const names[] = { "notes.txt",
                                         ".20200101T000000.000000Z.12345678.yaml",
                                         "20200101T000000.000000Z.12345678.yaml",
                                         "x.yaml",
                                         "20200101T000000.000000Z.1234567g.yaml",
                                         ".yaml" };
    const struct fixture *fixture = *state;
    struct backup *list;
    size_t count;
    char *path;

    assert_true(backup_list(fixture->job, &list, &count, NULL));
    assert_int_equal(count, 0);
    path = write_backup(fixture, "a\n", 2);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *dir = path_dir(path), *other = path_join(dir, names[i]);

        assert_true(file_create(other, "cut", 3, 0600, NULL));
        free(other);
        free(dir);
    }
    assert_true(backup_list(fixture->job, &list, &count, NULL));
    assert_int_equal(count, 1);
    assert_string_equal(list[0].path, path);
    backup_free(list, count);
    free(path);
}

static void test_backup_is_found_by_the_start_of_its_id(void **state)
{
    const struct fixture *fixture = *state;
    char *first = write_backup(fixture, "a\n", 2),
         *second = write_backup(fixture, "b\n", 2);
    struct error err = { 0 };
    struct backup *list;
    size_t count;

    assert_true(backup_list(fixture->job, &list, &count, NULL));
    assert_ptr_equal(backup_find(list, count, list[1].id, &err), &list[1]);
    assert_ptr_equal(backup_find(list, count, list[1].path, &err), &list[1]);
    assert_null(backup_find(list, count, "2", &err));
    assert_int_equal(err.code, ERROR_USAGE);
    error_clear(&err);
    assert_null(backup_find(list, count, "none", &err));
    assert_non_null(strstr(err.text, "there is no backup none"));
    list[0].id[27] = 0;
    assert_ptr_equal(backup_find(list, 1, "20", &err), &list[0]);
    backup_free(list, count);
    free(first);
    free(second);
}

static void test_backup_is_not_written_through_a_link(void **state)
{
    const struct fixture *fixture = *state;
    char *run = path_run_dir(fixture->job),
         *elsewhere = path_join(fixture->dir, "elsewhere");
    char *backups = path_join(run, "backups"), *path;
    struct error err = { 0 };

    assert_int_equal(mkdir(elsewhere, 0700), 0);
    assert_int_equal(symlink(elsewhere, run), 0);
    assert_false(backup_write(fixture->job, "a\n", 2, &path, &err));
    assert_null(path);
    assert_int_equal(unlink(run), 0);
    assert_int_equal(mkdir(run, 0700), 0);
    assert_int_equal(symlink(elsewhere, backups), 0);
    assert_false(backup_write(fixture->job, "a\n", 2, &path, &err));
    assert_int_equal(rmdir(elsewhere), 0); /* nothing was written there */
    free(backups);
    free(elsewhere);
    free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_backup_holds_every_byte_and_only_its_owner_reads_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_backup_is_not_written_twice, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_backup_list_skips_other_files, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_backup_is_found_by_the_start_of_its_id,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_backup_is_not_written_through_a_link, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
