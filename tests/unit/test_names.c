/* tests/unit/test_names.c - a hash table that grows. */
#include "config.h"

#include "tests/unit/unit.h"

#include "runner/options/names.h"

static void test_names_find_only_added_names(void **state)
{
    struct names names = { 0 };
    char *all[1000], other[16];

    (void)state;
    assert_null(names_find(&names, "x"));
    for (size_t i = 0; i < 1000; i++) {
        all[i] = memory_alloc(16);
        snprintf(all[i], 16, "%zu", i);
        names_add(&names, all[i], all[i]);
    }
    assert_int_equal(names.count, 1000);
    for (size_t i = 0; i < 1000; i++) {
        snprintf(other, sizeof(other), "%zu", i);
        assert_ptr_equal(names_find(&names, other), all[i]);
        snprintf(other, sizeof(other), "%zux", i);
        assert_null(names_find(&names, other));
    }
    names_clear(&names, free);
    assert_null(names_find(&names, "0"));
}

static bool is_even(const void *thing)
{
    return (*(const char *)thing - '0') % 2 == 0;
}

static void test_names_keep_only_what_is_needed(void **state)
{
    struct names names = { 0 };
    char text[3] = "00";

    (void)state;
    for (char a = '0'; a <= '9'; a++)
        for (char b = '0'; b <= '9'; b++) {
            char *name = memory_strdup(text);

            name[0] = a;
            name[1] = b;
            names_add(&names, name, name);
        }
    names_keep(&names, is_even, free);
    assert_int_equal(names.count, 50);
    assert_non_null(names_find(&names, "25"));
    assert_null(names_find(&names, "35"));
    names_clear(&names, free);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_find_only_added_names),
        cmocka_unit_test(test_names_keep_only_what_is_needed),
    };

    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
