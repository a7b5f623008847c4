/* tests/unit/test_fault.c - a fault of the machine is not taken for an answer. */
#include "config.h"

#include "base/fault.h"

#include <unistd.h>

#include "patcher/patcher.h"
#include "tests/unit/unit.h"

static void test_fault_classifies_errors(void **state)
{
    static const struct {
        int number;
        enum error_code code, data;
    } rows[] = {
        { ENOSPC, ERROR_FAULT, ERROR_FAULT },  { EIO, ERROR_FAULT, ERROR_FAULT },
        { EUCLEAN, ERROR_FAULT, ERROR_FAULT }, { EROFS, ERROR_FAULT, ERROR_FAULT },
        { EDQUOT, ERROR_FAULT, ERROR_FAULT },  { EMFILE, ERROR_FAULT, ERROR_FAULT },
        { ENFILE, ERROR_FAULT, ERROR_FAULT },  { EINTR, ERROR_FAULT, ERROR_FAULT },
        { ENOMEM, ERROR_FAULT, ERROR_FAULT },  { EAGAIN, ERROR_FAULT, ERROR_FAULT },
        { ENOENT, ERROR_SYSTEM, ERROR_DATA },  { EACCES, ERROR_SYSTEM, ERROR_DATA },
        { ENOTDIR, ERROR_SYSTEM, ERROR_DATA }, { EISDIR, ERROR_SYSTEM, ERROR_DATA },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = { 0 }, data = { 0 };

        errno = rows[i].number;
        error_errno(&err, "cannot open a");
        error_errno_data(&data, "cannot open a");
        assert_int_equal(err.code, rows[i].code);
        assert_int_equal(data.code, rows[i].data);
        assert_int_equal(errno, rows[i].number);
    }
}

static void test_fault_is_kept_until_it_is_cleared(void **state)
{
    struct error err = { 0 };

    (void)state;
    fault_clear();
    errno = ENOENT;
    error_errno(NULL, "cannot open a");
    fault_note("cannot examine", "a");
    assert_true(fault_none(&err));
    errno = EMFILE;
    error_errno(NULL, "cannot open %s", "b"); /* an error that the caller ignores */
    errno = EIO;
    fault_note("cannot examine", "c");
    assert_false(fault_none(&err));
    assert_int_equal(err.code, ERROR_FAULT);
    assert_string_equal(err.text, "cannot open b: Too many open files");
    fault_clear();
    assert_true(fault_none(NULL));
}

static void test_fault_puts_later_errors_in_doubt(void **state)
{
    struct error err = { 0 };

    (void)state;
    fault_clear();
    error_set(&err, ERROR_DATA, "a does not exist");
    assert_false(fault_doubt(&err));
    assert_int_equal(err.code, ERROR_DATA);

    errno = EROFS;
    error_errno(NULL, "cannot create b");
    assert_true(fault_answered(NULL)); /* no question was left open */
    errno = EIO;
    fault_note("cannot examine", "a");
    assert_true(fault_doubt(&err));
    assert_int_equal(err.code, ERROR_FAULT);
    assert_string_equal(err.text, "cannot create b: Read-only file system; it may be the "
                                  "reason why a does not exist");
    error_clear(&err);
    assert_false(fault_answered(&err));
    assert_string_equal(err.text, "cannot examine a: Input/output error");

    error_clear(&err);
    error_set(&err, ERROR_STOPPED, "stopped at step 1");
    assert_false(fault_doubt(&err));
    fault_clear();
    assert_true(fault_answered(NULL));
}

/* With no descriptor left, a folder and a file look missing. */
static void test_fault_of_a_check_is_no_finding(void **state)
{
    struct rlimit limit, none;
    struct error err = { 0 };
    struct patch patch;
    struct patch_options options = { .job = "a.yaml", .will_run = true };
    static const char job[] = "model_name_or_path: .\nstage: pt\ndataset: a.txt\n";
    char *dir = unit_dir_new();

    (void)state;
    assert_int_equal(chdir(dir), 0);
    assert_true(file_create("config.json", "{}", 2, 0600, NULL));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_false(patcher_check(job, strlen(job), &options, &patch, &err));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(err.code, ERROR_FAULT);
    assert_non_null(strstr(err.text, "Too many open files"));
    patch_clear(&patch);
    error_clear(&err);
    assert_true(patcher_check(job, strlen(job), &options, &patch, &err));
    patch_clear(&patch);
    assert_int_equal(chdir("/"), 0);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fault_classifies_errors),
        cmocka_unit_test(test_fault_is_kept_until_it_is_cleared),
        cmocka_unit_test(test_fault_puts_later_errors_in_doubt),
        cmocka_unit_test(test_fault_of_a_check_is_no_finding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
