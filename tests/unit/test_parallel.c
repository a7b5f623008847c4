/* tests/unit/test_parallel.c - messages between the ranks of a run, and how rank 0 learns
 * why another rank ended. */
#include "config.h"

#include "train/model/parallel.h"

#include <time.h>

#include "tests/unit/unit_ranks.h"

enum { RANKS = 3 };

static void finish(struct unit_ranks *ranks)
{
    for (int r = 1; r < RANKS; r++) {
        int status = unit_ranks_wait(ranks, r);

        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        close(ranks->links[r - 1]);
    }
}

static void test_parallel_alone_does_nothing(void **state)
{
    struct error err = { 0 };
    double numbers[2] = { 3, 4 };
    char text[] = "mine", *shared = text;

    (void)state;
    assert_int_equal(parallel_rank(NULL), 0);
    assert_int_equal(parallel_ranks(NULL), 1);
    assert_int_equal(parallel_share_count(NULL, 7), 7);
    assert_true(parallel_ready(NULL, &err));
    assert_true(parallel_send_order(NULL, PARALLEL_STEP, &err));
    assert_true(parallel_sum(NULL, numbers, 2, &err));
    assert_true(numbers[0] == 3 && numbers[1] == 4);
    assert_true(parallel_share_text(NULL, &shared, &err));
    assert_ptr_equal(shared, text);
}

static void test_parallel_shares_add_up(void **state)
{
    (void)state;
    for (size_t count = 0; count < 9; count++) {
        size_t all = 0, dealt[4] = { 0 };

        for (size_t i = 0; i < count; i++)
            dealt[i % 4]++;
        for (int r = 0; r < 4; r++) {
            struct backend_group group = { .rank = r, .ranks = 4 };

            assert_int_equal(parallel_share_count(&group, count), dealt[r]);
            all += parallel_share_count(&group, count);
        }
        assert_int_equal(all, count);
    }
}

static void test_parallel_orders_sums_and_texts(void **state)
{
    struct unit_ranks ranks;
    struct backend_group *group = &ranks.group;
    struct error err = { 0 };
    struct parallel_order order;
    double numbers[2];
    char word[] = "run/checkpoint-7", *text = word, *none = NULL;

    (void)state;
    unit_ranks_fork(&ranks, RANKS);
    numbers[0] = group->rank == 0 ? 1e16 : 1; /* added in the order of ranks */
    numbers[1] = group->rank;
    if (group->rank > 0) {
        bool ok = parallel_receive_order(group, &order, &err) &&
                  order.work == PARALLEL_EVALUATE &&
                  parallel_sum(group, numbers, 2, &err) &&
                  parallel_share_text(group, &text, &err) && strcmp(text, word) == 0 &&
                  parallel_share_text(group, &text, &err) && text == NULL;

        _exit(!ok);
    }
    assert_true(parallel_send_order(group, PARALLEL_EVALUATE, &err));
    assert_true(parallel_sum(group, numbers, 2, &err));
    assert_true(numbers[0] == 1e16 && numbers[1] == 3);
    assert_true(parallel_share_text(group, &text, &err));
    assert_true(parallel_share_text(group, &none, &err));
    finish(&ranks);
}

/* The last rank writes to the pipe before it reports that it is ready. */
static void test_parallel_rank_0_waits_for_all(void **state)
{
    struct unit_ranks ranks;
    struct backend_group *group = &ranks.group;
    struct error err = { 0 };
    int loaded[2];
    char word;

    (void)state;
    assert_int_equal(pipe2(loaded, O_NONBLOCK), 0);
    unit_ranks_fork(&ranks, RANKS);
    if (group->rank == RANKS - 1) {
        nanosleep(&(struct timespec) { .tv_nsec = 200000000 }, NULL);
        if (write(loaded[1], "l", 1) != 1)
            _exit(1);
    }
    if (group->rank > 0)
        _exit(!parallel_ready(group, &err));
    assert_true(parallel_ready(group, &err));
    assert_int_equal(read(loaded[0], &word, 1), 1);
    finish(&ranks);
    close(loaded[0]);
    close(loaded[1]);
}

/* While rank 0 waits for numbers, and if it only sees that a rank has ended. */
static void test_parallel_rank_0_learns_why(void **state)
{
    (void)state;
    for (int later = 0; later < 2; later++) {
        struct unit_ranks ranks;
        struct backend_group *group = &ranks.group;
        struct error err = { 0 };
        double number = 0;

        unit_ranks_fork(&ranks, RANKS);
        if (group->rank == 2) {
            error_set(&err, ERROR_DEVICE, "out of memory");
            if (later)
                parallel_sum(group, &number, 1, NULL);
            parallel_report(group, &err);
            _exit(0);
        }
        if (group->rank == 1) {
            parallel_sum(group, &number, 1, NULL);
            while (link_is_alive(ranks.links[0]))
                ;
            _exit(0);
        }
        if (later) {
            assert_int_equal(WEXITSTATUS(unit_ranks_wait(&ranks, 2)), 0);
            error_set(&err, ERROR_SYSTEM, "another process of this run has ended");
            parallel_explain(group, &err);
        } else {
            assert_false(parallel_sum(group, &number, 1, &err));
        }
        assert_int_equal(err.code, ERROR_DEVICE);
        assert_string_equal(err.text, "rank 2: out of memory");
        close(ranks.links[0]);
        close(ranks.links[1]);
        unit_ranks_wait(&ranks, 1);
        if (!later)
            unit_ranks_wait(&ranks, 2);
    }
}

static void test_parallel_rank_0_names_one_that_was_killed(void **state)
{
    struct unit_ranks ranks;
    struct error err = { 0 };

    (void)state;
    unit_ranks_fork(&ranks, 2);
    if (ranks.group.rank == 1)
        kill(getpid(), SIGKILL);
    unit_ranks_wait(&ranks, 1);
    error_set(&err, ERROR_SYSTEM, "another process of this run has ended");
    parallel_explain(&ranks.group, &err);
    assert_string_equal(err.text, "rank 1 exited without reporting an error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parallel_alone_does_nothing),
        cmocka_unit_test(test_parallel_shares_add_up),
        cmocka_unit_test(test_parallel_orders_sums_and_texts),
        cmocka_unit_test(test_parallel_rank_0_waits_for_all),
        cmocka_unit_test(test_parallel_rank_0_learns_why),
        cmocka_unit_test(test_parallel_rank_0_names_one_that_was_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
