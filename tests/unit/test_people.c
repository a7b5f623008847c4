/* tests/unit/test_people.c - what users have used and may use, and their turns. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>
#include <unistd.h>

#include "base/clock.h"
#include "runner/spool/people.h"
#include "runner/spool/queue.h"

enum { ADA = 1001, BOB = 1002, EVE = 1003 };

static int set_up(void **state)
{
    char *dir = unit_dir_new();

    *state = dir;
    return chdir(dir) || mkdir(".trainspool", 0700);
}

static int tear_down(void **state)
{
    unit_dir_free(*state);
    return chdir("/");
}

static struct people some_people(void)
{
    return (struct people) {
        .limits = { .running = -1, .queued = -1, .gpu_seconds = -1, .window = 168 }
    };
}

static bool limits_of(const char *gpu_hours, struct people_limits *out)
{
    const struct options options = { .max_running = -1,
                                     .max_queued = -1,
                                     .gpu_hours = gpu_hours };
    struct error err = { 0 };

    return people_limits_read(&options, out, &err);
}

static void test_people_reads_gpu_hours(void **state)
{
    static const char *const wrong[] = { "",      "x",     "-1",    "40/",
                                         "40/7",  "40/0d", "4/7w",  "40/32d",
                                         "1/2d3", "inf",   "40 /7d" };
    struct people_limits limits;

    (void)state;
    assert_true(limits_of("40", &limits));
    assert_true(limits.gpu_seconds == 40 * 3600 && limits.window == 7 * 24);
    assert_true(limits_of("0.5/8h", &limits));
    assert_true(limits.gpu_seconds == 1800 && limits.window == 8);
    assert_true(limits_of("100/31d", &limits));
    assert_int_equal(limits.window, 31 * 24);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(limits_of(wrong[i], &limits));
    assert_true(limits_of(NULL, &limits));
    assert_true(limits.gpu_seconds < 0);
}

static void test_people_outlast_the_watch(void **state)
{
    struct people people = some_people();
    struct error err = { 0 };
    struct person *ada;

    (void)state;
    people_open(&people, true, "");
    people_charge(&people, ADA, 600, 700);
    people_charge(&people, ADA, 0, 20);
    assert_true(people_save(&people, &err));
    people_close(&people);
    people_open(&people, true, "");
    people_refresh(&people);
    assert_int_equal(people.count, 1);
    ada = people_find(&people, ADA);
    assert_true(fabs(ada->gpu_seconds - 600) < 0.01);
    assert_true(fabs(ada->use - 720) < 35); /* an hour may have ended since */
    assert_true(fabs(people.saved - clock_wall()) < 600);
    people_close(&people);
}

static void test_people_do_not_count_the_future(void **state)
{
    const long hour = (long)(clock_wall() / 3600);
    struct people people = some_people();
    struct error err = { 0 };
    struct person *ada;
    char text[256];

    (void)state;
    snprintf(text, sizeof(text), "saved 5\n1001 %ld 9000 9000\n1001 %ld 1 8\n",
             hour + 1000, hour - 24);
    assert_true(file_replace(".trainspool/usage", text, strlen(text), 0600, &err));
    people_open(&people, true, "");
    people_charge(&people, ADA, 60, 60);
    people_refresh(&people);
    ada = people_find(&people, ADA);
    assert_int_equal(ada->hour_count, 3);
    assert_true(ada->gpu_seconds == 61);
    assert_true(ada->use > 60 && ada->use < 69);
    people_close(&people);
}

static void test_people_forget_what_is_long_ago(void **state)
{
    const long hour = (long)(clock_wall() / 3600);
    struct people people = some_people();
    struct error err = { 0 };
    char text[256];

    (void)state;
    snprintf(text, sizeof(text),
             "saved 5\n1001 %ld 100 100\nbroken\n1001 %ld 10 1000\n1001 %ld 1 8\n",
             hour - 1000, hour - 200, hour - 24);
    assert_true(file_replace(".trainspool/usage", text, strlen(text), 0600, &err));
    people_open(&people, true, "");
    people_refresh(&people);
    /* of 200 hours ago: outside the week, and about 1000 / 2^8.3 */
    assert_true(people_find(&people, ADA)->gpu_seconds == 1);
    assert_true(people_find(&people, ADA)->use > 6 && people_find(&people, ADA)->use < 9);
    people_charge(&people, ADA, 1, 1);
    assert_true(people_save(&people, &err));
    people_close(&people);
    people_open(&people, true, "");
    assert_int_equal(people_find(&people, ADA)->hour_count, 3);
    people_close(&people);
}

static void test_people_are_limited_but_not_root(void **state)
{
    struct people people = some_people();
    const struct placement_need gpu = { .wanted = "cuda" }, cpu = { .wanted = "cpu" },
                                submitted = { .wanted = "slurm" };
    char why[256];

    (void)state;
    people.limits.running = 2;
    people.limits.gpu_seconds = 3600;
    people.limits.queued = 1;
    people_open(&people, false, "");
    assert_true(people.on);
    people_charge(&people, ADA, 3601, 3601);
    people_charge(&people, 0, 9999, 9999);
    people_refresh(&people);
    assert_int_equal(people_judge(&people, people_find(&people, ADA), &gpu),
                     PLACEMENT_HOURS);
    assert_int_equal(people_judge(&people, people_find(&people, ADA), &cpu),
                     PLACEMENT_STARTS);
    assert_int_equal(people_judge(&people, people_find(&people, ADA), &submitted),
                     PLACEMENT_STARTS);
    assert_int_equal(people_judge(&people, people_find(&people, 0), &gpu),
                     PLACEMENT_STARTS);
    people_find(&people, ADA)->running = people_find(&people, 0)->running = 2;
    assert_int_equal(people_judge(&people, people_find(&people, ADA), &cpu),
                     PLACEMENT_RUNNING);
    assert_int_equal(people_judge(&people, people_find(&people, ADA), &submitted),
                     PLACEMENT_RUNNING);
    assert_int_equal(people_judge(&people, people_find(&people, 0), &cpu),
                     PLACEMENT_STARTS);
    assert_true(people_may_queue(&people, ADA, why));
    people_find(&people, ADA)->queued = people_find(&people, 0)->queued = 1;
    assert_false(people_may_queue(&people, ADA, why));
    assert_true(people_may_queue(&people, 0, why));
    people_close(&people);
}

static void add(struct queue *queue, const char *name, uid_t user, double arrived)
{
    queue_add(queue, &(struct queued) { .name = name, .user = user, .arrived = arrived });
}

static void expect_order(struct queue *queue, struct people *people, const char *expected)
{
    struct queued *list[8];
    size_t count = queue_list(queue, people, 0, list, 8);
    struct text names;

    text_init(&names, 0);
    for (size_t i = 0; i < count; i++)
        text_addf(&names, "%s ", list[i]->name);
    assert_string_equal(names.data, expected);
    text_clear(&names);
}

static void test_people_with_less_use_go_first(void **state)
{
    struct people people = some_people();
    struct queue queue = { 0 };

    (void)state;
    people_open(&people, true, "");
    people_charge(&people, ADA, 0, 0.5);
    people_charge(&people, EVE, 0, 1e6);
    people_refresh(&people);
    add(&queue, "ada1", ADA, 1);
    add(&queue, "ada2", ADA, 2);
    add(&queue, "bob1", BOB, 3);
    add(&queue, "bob2", BOB, 4);
    expect_order(&queue, &people, "bob1 bob2 ada1 ada2 ");
    people_charge(&people, BOB, 0, 1);
    people_refresh(&people);
    expect_order(&queue, &people, "ada1 ada2 bob1 bob2 ");
    queue_clear(&queue);
    people_close(&people);
}

/* A user who always has less use does not keep the others from running. */
static void test_people_with_much_use_do_not_starve(void **state)
{
    struct people people = some_people();
    struct queue queue = { 0 };

    (void)state;
    people_open(&people, true, "");
    people_charge(&people, ADA, 0, 1e9);
    people_refresh(&people);
    add(&queue, "ada", ADA, 1000);
    add(&queue, "soon", BOB, 999 + QUEUE_USE_SECONDS);
    add(&queue, "late", BOB, 1001 + QUEUE_USE_SECONDS);
    expect_order(&queue, &people, "soon ada late ");
    queue_clear(&queue);
    people_close(&people);
}

static void test_people_at_a_limit_leave_room_for_others(void **state)
{
    struct people people = some_people();
    struct queue queue = { 0 };
    struct queued *list[8];

    (void)state;
    people.limits.running = 1;
    people_open(&people, true, "");
    people_find(&people, ADA)->running = 1;
    add(&queue, "ada1", ADA, 1);
    add(&queue, "bob1", BOB, 3);
    expect_order(&queue, &people, "bob1 ");
    assert_false(queue_is_barred(&queue, 0)); /* bob1 may start later, at the latest */
    people_find(&people, BOB)->running = 1;
    assert_int_equal(queue_list(&queue, &people, 0, list, 8), 0);
    assert_true(queue_is_barred(&queue, 0));
    queue_pause(&queue, 10);
    assert_false(queue_is_barred(&queue, 5));
    assert_true(queue_is_barred(&queue, 10));
    people_find(&people, ADA)->running = people_find(&people, BOB)->running = 0;
    assert_int_equal(queue_list(&queue, &people, 10, list, 8), 2);
    assert_false(queue_is_barred(&queue, 10));
    assert_int_equal(list[0]->answer.verdict, PLACEMENT_STARTS);
    queue_clear(&queue);
    people_close(&people);
}

#define DIR_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_people_reads_gpu_hours),
        DIR_TEST(test_people_outlast_the_watch),
        DIR_TEST(test_people_do_not_count_the_future),
        DIR_TEST(test_people_forget_what_is_long_ago),
        DIR_TEST(test_people_are_limited_but_not_root),
        DIR_TEST(test_people_with_less_use_go_first),
        DIR_TEST(test_people_with_much_use_do_not_starve),
        DIR_TEST(test_people_at_a_limit_leave_room_for_others),
    };

    return cmocka_run_group_tests_name("people", tests, NULL, NULL);
}
