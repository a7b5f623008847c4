/* tests/unit/test_checkpoint_find.c - a folder that cannot be read is not an empty one. */
#include "config.h"

#include "train/checkpoint/checkpoint_find.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "train/checkpoint/checkpoint.h"

static void test_checkpoint_list_reports_a_folder_that_cannot_be_read(void **state)
{
    char dir[] = "/tmp/trainspool-unit-XXXXXX";
    struct checkpoint_found *found;
    struct error err = { 0 }, begin = { 0 }, prune = { 0 };
    const uid_t user = geteuid();

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(checkpoint_list(dir, NULL, &found, &err), 0);
    assert_int_equal(err.code, ERROR_NONE);
    assert_int_equal(chmod(dir, 0111), 0);
    if (user == 0)
        assert_int_equal(seteuid(65534), 0);
    assert_int_equal(checkpoint_list(dir, NULL, &found, &err), 0);
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_non_null(strstr(err.text, dir));
    assert_false(checkpoint_begin(dir, NULL, 0, &begin));
    assert_int_equal(begin.code, ERROR_SYSTEM);
    assert_false(checkpoint_prune(dir, NULL, 1, NULL, &prune));
    assert_int_equal(prune.code, ERROR_SYSTEM);
    assert_int_equal(seteuid(user), 0);
    assert_int_equal(rmdir(dir), 0);
    error_clear(&err);
    assert_int_equal(checkpoint_list(dir, NULL, &found, &err), 0);
    assert_int_equal(err.code, ERROR_NONE); /* it does not exist */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_list_reports_a_folder_that_cannot_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
