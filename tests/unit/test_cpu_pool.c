/* tests/unit/test_cpu_pool.c - each task runs once, whatever the threads do. */
#include "config.h"

#include "kernels/cpu/cpu_pool.h"

#include "base/size.h"
#include "tests/unit/unit.h"

#include <stdatomic.h>

static const size_t team_sizes[] = { 1, 2, 3, 7, 64 };

static struct pool *new_pool(size_t threads)
{
    struct error err = { 0 };
    struct pool *pool = pool_new(threads, &err);

    if (!pool)
        fail_msg("%s", err.text);
    return pool;
}

static void count_task(void *context, size_t task, struct pool_worker *worker)
{
    _Atomic int *counts = context;

    (void)worker;
    atomic_fetch_add(&counts[task], 1);
}

static void test_pool_runs_each_task_once(void **state)
{
    static const size_t tasks[] = { 0, 1, 2, 3, 17, 1000 };
    static _Atomic int counts[1001];

    (void)state;
    for (size_t t = 0; t < TS_COUNT(team_sizes); t++) {
        struct pool *pool = new_pool(team_sizes[t]);

        assert_int_equal(pool_threads(pool), team_sizes[t]);
        for (size_t n = 0; n < TS_COUNT(tasks); n++) {
            memset(counts, 0, sizeof(counts));
            pool_run(pool, tasks[n], count_task, counts);
            for (size_t i = 0; i <= 1000; i++)
                assert_int_equal(counts[i], i < tasks[n]);
        }
        pool_free(pool);
    }
}

struct sum {
    const int *in;
    int *out;
};

static void shift_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct sum *sum = context;

    (void)worker;
    sum->out[task] = sum->in[task] + 1;
}

/* Loops too short for all threads to wake up in time: each must see the writes of the one
 * before. */
static void test_pool_loops_see_earlier_writes(void **state)
{
    (void)state;
    for (size_t t = 0; t < TS_COUNT(team_sizes); t++) {
        struct pool *pool = new_pool(team_sizes[t]);
        int a[5] = { 0 }, b[5] = { 0 };
        int loops = team_sizes[t] > 3 ? 200 : 3000;

        for (int i = 0; i < loops; i++) {
            size_t count = 2 + (size_t)i % 4;

            pool_run(pool, count, shift_task, &(struct sum) { a, b });
            memcpy(a, b, count * sizeof(*a));
        }
        assert_int_equal(a[0], loops);
        assert_int_equal(a[1], loops);
        assert_int_equal(a[4], loops / 4);
        pool_free(pool);
    }
}

static void scratch_task(void *context, size_t task, struct pool_worker *worker)
{
    _Atomic int *bad = context;
    unsigned char *first = pool_scratch(worker, 1000);
    unsigned char *second = pool_scratch(worker, 100000);

    if ((uintptr_t)first % 64 || (uintptr_t)second % 64)
        atomic_fetch_add(bad, 1);
    memset(first, (int)task, 1000);
    memset(second, (int)task + 1, 100000);
    for (size_t i = 0; i < 1000; i++)
        if (first[i] != (unsigned char)task)
            atomic_fetch_add(bad, 1);
}

static void test_pool_scratch_is_private_to_a_task(void **state)
{
    struct pool *pool = new_pool(3);
    _Atomic int bad = 0;

    (void)state;
    pool_run(pool, 100, scratch_task, &bad);
    assert_int_equal(bad, 0);
    pool_free(pool);
}

static void test_pool_supports_the_maximum_of_threads(void **state)
{
    struct pool *pool = new_pool(0);

    (void)state;
    assert_in_range(pool_threads(pool), 1, POOL_MOST_THREADS);
    pool_free(pool);
    pool = new_pool(1000);
    assert_int_equal(pool_threads(pool), POOL_MOST_THREADS);
    pool_free(pool);
    pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool_runs_each_task_once),
        cmocka_unit_test(test_pool_loops_see_earlier_writes),
        cmocka_unit_test(test_pool_scratch_is_private_to_a_task),
        cmocka_unit_test(test_pool_supports_the_maximum_of_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
