/* tests/unit/test_items.c - which names the watch remembers. */
#include "config.h"

#include "tests/unit/unit.h"

#include "runner/spool/items.h"

static void check_gone(struct items *items, const char *name)
{
    struct item *item = items_find(items, name);

    item->gone = true;
    items_note_check(items, item);
}

static void test_items_are_as_many_as_files_after_a_scan(void **state)
{
    struct items items = { 0 };
    char name[16];

    (void)state;
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "%d", i);
        items_find(&items, name);
    }
    items_begin_scan(&items);
    items_see(&items, items_find(&items, "7"));
    items_see(&items, items_find(&items, "new"));
    items_end_scan(&items);
    assert_int_equal(items_forget(&items, true), 19999);
    assert_int_equal(items.names.count, 2);
    assert_true(items.names.room <= 64);
    items_clear(&items);
}

/* Between two scans, as many again as there are files, and 64. */
static void test_items_that_come_and_go_stay_few(void **state)
{
    struct items items = { 0 };
    char name[20];

    (void)state;
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "there%d", i);
        items_find(&items, name);
    }
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "%d", i);
        check_gone(&items, name);
        items_forget(&items, false);
        assert_true(items.names.count <= 2 * 100 + 2 * 64 + 1);
    }
    assert_true(names_find(&items.names, "there99"));
    items_clear(&items);
}

static void test_items_stay_while_they_are_needed(void **state)
{
    struct items items = { 0 };
    struct item *item = items_find(&items, "a");
    bool *const needs[] = { &item->pending, &item->current, &item->flush,
                            &item->examined };

    (void)state;
    item->gone = true;
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        *needs[i] = true;
        assert_int_equal(items_forget(&items, true), 0);
        *needs[i] = false;
    }
    assert_int_equal(items_forget(&items, true), 1);
    assert_null(names_find(&items.names, "a"));
    items_clear(&items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items_are_as_many_as_files_after_a_scan),
        cmocka_unit_test(test_items_that_come_and_go_stay_few),
        cmocka_unit_test(test_items_stay_while_they_are_needed),
    };

    return cmocka_run_group_tests_name("items", tests, NULL, NULL);
}
