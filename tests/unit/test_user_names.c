/* tests/unit/test_user_names.c - a failed lookup is no answer. */
#include "config.h"

#include "base/user_names.h"

#include <pwd.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/unit/unit.h"

/* Nothing can be opened: neither a file nor a connection to a service. */
static struct rlimit take_descriptors(void)
{
    struct rlimit before, none;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    return before;
}

static void test_user_names_asks_again_after_a_fault(void **state)
{
    struct user_names *names = user_names_new();
    struct passwd entry, *found = NULL;
    struct error err = { 0 };
    struct rlimit before;
    char bytes[4096], first[USER_NAME_ROOM], second[USER_NAME_ROOM];
    int failed;
    uid_t id;
    bool known;

    (void)state;
    if (!getpwuid(0) || strcmp(getpwuid(0)->pw_name, "root") != 0)
        skip();
    before = take_descriptors();
    failed = getpwuid_r(0, &entry, bytes, sizeof(bytes), &found);
    user_names_find(names, 0, first);
    known = user_named("root", &id, &err);
    setrlimit(RLIMIT_NOFILE, &before);
    if (failed == 0) /* by a service that needs no file, or that does not report it */
        skip();
    assert_string_equal(first, "0");
    assert_false(known);
    assert_int_equal(err.code, ERROR_FAULT);
    user_names_find(names, 0, second);
    assert_string_equal(second, "root");
    user_names_free(names);
}

static void test_user_names_shows_the_number_of_a_user_without_entry(void **state)
{
    struct user_names *names = user_names_new();
    struct error err = { 0 };
    char name[USER_NAME_ROOM];
    uid_t id;

    (void)state;
    user_names_find(names, 3123456789u, name);
    assert_string_equal(name, "3123456789");
    assert_true(user_named("3123456789", &id, &err));
    assert_false(user_named("no such user", &id, &err));
    assert_int_equal(err.code, ERROR_USAGE);
    user_names_free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_user_names_asks_again_after_a_fault),
        cmocka_unit_test(test_user_names_shows_the_number_of_a_user_without_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
