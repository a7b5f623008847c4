/* tests/unit/test_queue.c - the order of jobs. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "runner/spool/queue.h"

/* Each job arrives after the ones before it. */
static void add(struct queue *queue, const char *name, int64_t priority,
                double not_before)
{
    static double now;

    queue_add(queue, &(struct queued) { .name = name,
                                        .priority = priority,
                                        .arrived = ++now,
                                        .not_before = not_before });
}

static void expect_next(struct queue *queue, double now, const char *name)
{
    struct queued *first;
    char *got = queue_list(queue, NULL, now, &first, 1) ? queue_take(queue, first) : NULL;

    if (name)
        assert_string_equal(got, name);
    else
        assert_null(got);
    free(got);
}

static void test_queue_orders_by_priority_then_arrival(void **state)
{
    struct queue queue = { 0 };

    (void)state;
    add(&queue, "a", 0, 0);
    add(&queue, "b", 5, 0);
    add(&queue, "c", 0, 0);
    add(&queue, "d", 5, 0);
    add(&queue, "e", -1, 0);
    expect_next(&queue, 1, "b");
    expect_next(&queue, 1, "d");
    expect_next(&queue, 1, "a");
    expect_next(&queue, 1, "c");
    expect_next(&queue, 1, "e");
    expect_next(&queue, 1, NULL);
    queue_clear(&queue);
}

static void test_queue_orders_by_arrival_not_by_discovery(void **state)
{
    struct queue queue = { 0 };

    (void)state;
    queue_add(&queue, &(struct queued) { .name = "late", .arrived = 3 });
    queue_add(&queue, &(struct queued) { .name = "early", .arrived = 1 });
    queue_add(&queue, &(struct queued) { .name = "middle", .arrived = 2 });
    expect_next(&queue, 0, "early");
    expect_next(&queue, 0, "middle");
    expect_next(&queue, 0, "late");
    queue_clear(&queue);
}

static void test_queue_lets_no_job_wait_forever(void **state)
{
    struct queue queue = { 0 };

    (void)state;
    queue_add(&queue, &(struct queued) { .name = "plain", .arrived = 1000 });
    queue_add(&queue, &(struct queued) { .name = "soon",
                                         .priority = 2,
                                         .arrived = 999 + 2 * QUEUE_PRIORITY_SECONDS });
    queue_add(&queue, &(struct queued) { .name = "late",
                                         .priority = 2,
                                         .arrived = 1001 + 2 * QUEUE_PRIORITY_SECONDS });
    expect_next(&queue, 0, "soon");
    expect_next(&queue, 0, "plain");
    expect_next(&queue, 0, "late");
    queue_clear(&queue);
}

static void test_queue_lists_all_that_are_due(void **state)
{
    struct queue queue = { 0 };
    struct queued *list[4];

    (void)state;
    add(&queue, "a", 0, 0);
    add(&queue, "later", 0, 100);
    add(&queue, "b", 0, 0);
    list[0] = NULL;
    assert_int_equal(queue_list(&queue, NULL, 50, list, 4), 2);
    assert_string_equal(list[0]->name, "a");
    assert_string_equal(list[1]->name, "b");
    list[1]->waiting.passes = 3;
    add(&queue, "b", 0, 0); /* a scan found it again */
    assert_int_equal(queue_list(&queue, NULL, 50, list, 4), 2);
    assert_int_equal(list[1]->waiting.passes, 3);
    assert_true(queue_due_again(&queue, 50, 55) == 55);
    assert_true(queue_due_again(&queue, 50, 155) == 100);
    queue_clear(&queue);
}

static void test_queue_skips_jobs_that_are_not_due(void **state)
{
    struct queue queue = { 0 };

    (void)state;
    add(&queue, "crashed", 9, 100);
    add(&queue, "plain", 0, 0);
    assert_true(queue_due(&queue) == 0);
    expect_next(&queue, 50, "plain");
    expect_next(&queue, 50, NULL);
    assert_true(queue_due(&queue) == 100);
    expect_next(&queue, 100, "crashed");
    assert_true(isinf(queue_due(&queue)));
    queue_clear(&queue);
}

static void test_queue_holds_a_name_once(void **state)
{
    struct queue queue = { 0 };

    (void)state;
    add(&queue, "a", 0, 0);
    add(&queue, "b", 0, 0);
    add(&queue, "a", 1, 0);
    assert_int_equal(queue_count(&queue), 2);
    queue_remove(&queue, "b");
    queue_remove(&queue, "never there");
    expect_next(&queue, 0, "a");
    assert_int_equal(queue_count(&queue), 0);
    queue_clear(&queue);
}

/* The job could not be started; it is queued again as the watch does. */
static void put_back(struct queue *queue, const char *name, double arrived)
{
    queue_add(queue, &(struct queued) {
                         .name = name, .arrived = arrived, .tried = queue_round(queue) });
}

static void test_queue_tries_another_job_after_a_fault(void **state)
{
    struct queue queue = { 0 };

    (void)state;
    queue_add(&queue, &(struct queued) { .name = "a", .arrived = 1 });
    queue_add(&queue, &(struct queued) { .name = "b", .arrived = 2 });
    expect_next(&queue, 0, "a");
    put_back(&queue, "a", 1);
    queue_pause(&queue, 5);
    expect_next(&queue, 4, NULL);
    assert_true(queue_due(&queue) == 5);
    expect_next(&queue, 5, "b");
    put_back(&queue, "b", 2);
    expect_next(&queue, 5, "a"); /* both were tried: a new round */
    put_back(&queue, "a", 1);
    queue_add(&queue, &(struct queued) { .name = "c", .arrived = 3 });
    expect_next(&queue, 5, "b");
    queue_end_round(&queue); /* b ran */
    expect_next(&queue, 5, "a");
    expect_next(&queue, 5, "c");
    expect_next(&queue, 5, NULL);
    queue_clear(&queue);
}

static void add_submitted(struct queue *queue, const char *name, double not_before,
                          bool barred)
{
    queue_add(queue, &(struct queued) { .name = name,
                                        .arrived = 1e6,
                                        .not_before = not_before,
                                        .barred = barred,
                                        .waiting.need.wanted = "slurm" });
}

static void test_queue_finds_jobs_of_slurm_after_all_others(void **state)
{
    struct queue queue = { 0 };
    char name[12];

    (void)state;
    for (int i = 0; i < 2 * PLACEMENT_LOOK; i++) {
        snprintf(name, sizeof(name), "%d", i);
        add(&queue, name, 0, 0);
    }
    assert_null(queue_find_submitted(&queue, false, false, 5));
    add_submitted(&queue, "later", 9, false);
    add_submitted(&queue, "barred", 0, true);
    assert_null(queue_find_submitted(&queue, true, false, 5));
    assert_string_equal(queue_find_submitted(&queue, false, false, 5)->name, "barred");
    assert_string_equal(queue_find_submitted(&queue, true, false, 9)->name, "later");
    queue_pause(&queue, 20);
    assert_null(queue_find_submitted(&queue, true, false, 9));
    queue_clear(&queue);
}

static void test_queue_keeps_thousands_in_order(void **state)
{
    struct queue queue = { 0 };
    char name[16];

    (void)state;
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof(name), "%d", i);
        add(&queue, name, 0, 0);
        if (i % 3 == 2) { /* the head moves while the end grows */
            snprintf(name, sizeof(name), "%d", i / 3);
            expect_next(&queue, 0, name);
        }
    }
    for (int i = 1000; i < 3000; i++) {
        snprintf(name, sizeof(name), "%d", i);
        expect_next(&queue, 0, name);
    }
    expect_next(&queue, 0, NULL);
    queue_clear(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue_orders_by_priority_then_arrival),
        cmocka_unit_test(test_queue_orders_by_arrival_not_by_discovery),
        cmocka_unit_test(test_queue_lets_no_job_wait_forever),
        cmocka_unit_test(test_queue_lists_all_that_are_due),
        cmocka_unit_test(test_queue_skips_jobs_that_are_not_due),
        cmocka_unit_test(test_queue_holds_a_name_once),
        cmocka_unit_test(test_queue_tries_another_job_after_a_fault),
        cmocka_unit_test(test_queue_finds_jobs_of_slurm_after_all_others),
        cmocka_unit_test(test_queue_keeps_thousands_in_order),
    };

    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
