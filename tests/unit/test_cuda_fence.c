/* tests/unit/test_cuda_fence.c - waiting for a point of an emulated GPU's stream while
 * later work stays in it, and how long a wait sleeps between polls. */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include "base/size.h"
#include "tests/unit/unit_cuda.h"

static const size_t mib = (size_t)1 << 20, gib = (size_t)1 << 30;

static void reach(struct backend *be)
{
    struct error err = { 0 };

    if (!be->ops->reach(be, &err))
        fail_msg("%s", err.text);
}

/* x += x, then download x */
static void issue(struct backend *be, struct tensor x, float *to)
{
    be->ops->add(be, &(struct op_add) { .out = x, .a = x, .b = x });
    be->ops->download(be, to, x.data, sizeof(*to));
}

/* What was downloaded before a fence arrives, what comes later does not yet run. */
static void test_cuda_fence_leaves_later_work(void **state)
{
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    struct tensor x = unit_cuda_matrix(be, FORMAT_FP32, 3, 7, 7, 1);
    float first = 0, values[3] = { 0 };

    (void)state;
    be->ops->download(be, &first, x.data, sizeof(first));
    unit_cuda_sync(be);
    issue(be, x, &values[0]);
    be->ops->fence(be);
    for (int i = 1; i < 3; i++) {
        size_t before = emulation_kernels_run();

        issue(be, x, &values[i]);
        be->ops->fence(be);
        reach(be);
        assert_int_equal(emulation_kernels_run(), before + 1);
        assert_true(values[i - 1] == first * (float)(1 << i));
        assert_true(values[i] == 0);
        assert_true(emulation_work_left() > 0);
    }
    reach(be);
    assert_true(values[2] == first * 8);
    reach(be); /* there is none: nothing to wait for */
    backend_close(be);
}

/* More than the rings hold, so that pieces are used again while a fence is ahead. */
static void test_cuda_fence_delivers_many_pieces(void **state)
{
    enum { ROUNDS = 5 };
    size_t count = 5 * mib;
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    uint32_t *block = unit_cuda_block(be, count * 4), *from = malloc(count * 4), *to[2];

    (void)state;
    to[0] = malloc(count * 4);
    to[1] = malloc(count * 4);
    for (uint32_t round = 0; round <= ROUNDS; round++) {
        if (round < ROUNDS) {
            for (uint32_t i = 0; i < count; i++)
                from[i] = i * 2654435761u + round;
            be->ops->upload(be, block, from, count * 4);
            be->ops->download(be, to[round % 2], block, count * 4);
            be->ops->fence(be);
        }
        if (round == 0)
            continue;
        reach(be);
        for (uint32_t i = 0; i < count; i++)
            if (to[(round - 1) % 2][i] != i * 2654435761u + round - 1)
                fail_msg("round %u, element %u is wrong", round, i);
    }
    free(from);
    free(to[0]);
    free(to[1]);
    backend_close(be);
}

/* sync passes all fences. */
static void test_cuda_fence_ends_with_sync(void **state)
{
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    struct tensor x = unit_cuda_matrix(be, FORMAT_FP32, 3, 7, 7, 1);
    float values[3] = { 0 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        issue(be, x, &values[i]);
        be->ops->fence(be);
    }
    unit_cuda_sync(be);
    assert_true(values[0] != 0 && values[1] == 2 * values[0]);
    issue(be, x, &values[2]);
    reach(be);
    assert_true(values[2] == 0);
    be->ops->fence(be);
    reach(be);
    assert_true(values[2] == 4 * values[0]);
    backend_close(be);
}

/* A failure is reported where its fence is reached, not at the one before. */
static void test_cuda_fence_separates_failures(void **state)
{
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    struct tensor x = unit_cuda_matrix(be, FORMAT_FP32, 3, 7, 7, 1);
    float values[3] = { 0 };
    struct error err = { 0 };

    (void)state;
    issue(be, x, &values[0]);
    be->ops->fence(be);
    emulation_break_launch(0, cudaErrorLaunchOutOfResources);
    issue(be, x, &values[1]);
    be->ops->fence(be);
    reach(be);
    assert_true(values[0] != 0);
    assert_false(be->ops->reach(be, &err));
    if (!strstr(err.text, "add of (3, 7) fp32"))
        fail_msg("%s", err.text);
    assert_true(values[1] == 0);
    issue(be, x, &values[2]);
    be->ops->fence(be);
    reach(be);
    assert_true(values[2] == 2 * values[0]);
    backend_close(be);
}

/* A card that fails is noticed at the next fence, and closing still works. */
static void test_cuda_fence_finds_a_lost_card(void **state)
{
    struct backend *be = unit_cuda_doomed(80, 2 * gib);
    struct tensor x = unit_cuda_matrix(be, FORMAT_FP32, 3, 7, 7, 1);
    float value = 0;

    (void)state;
    unit_cuda_sync(be);
    emulation_break_launch(0, cudaErrorIllegalAddress);
    issue(be, x, &value);
    be->ops->fence(be);
    for (int i = 0; i < 2; i++) {
        struct error err = { 0 };

        assert_false(be->ops->reach(be, &err));
        assert_non_null(strstr(err.text, "illegal memory access"));
        be->ops->fence(be);
    }
    backend_close(be);
}

/* ---- Naps ---- */

enum { POLL_NS = 8000 }; /* of the host's processor: a query, and a sleep */

/* Wait for `end` with naps; return how late it is noticed, and count polls. */
static int64_t lateness(int64_t end, int64_t usual, int64_t *polls)
{
    int64_t at = 0;

    for (*polls = 1; at < end; ++*polls)
        at += cuda_nap(at, usual) + POLL_NS;
    return at - end;
}

/* Steps of 10 to 500 ms that take as long as the last one, within 1.5 %: at most 50 us late,
 * with less than 3 % of a core. */
static void test_cuda_nap_is_short_at_the_usual_end(void **state)
{
    static const int64_t usual[] = { 10000000, 25000000, 140000000, 500000000 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(usual); i++)
        for (int64_t share = 985; share <= 1015; share += 3) {
            int64_t end = usual[i] * share / 1000, polls;
            int64_t late = lateness(end, usual[i], &polls);

            if (late > 50000 || polls * POLL_NS * 100 > 3 * end)
                fail_msg("%lld ns: %lld late, %lld polls", (long long)end,
                         (long long)late, (long long)polls);
        }
}

static void test_cuda_nap_is_bounded_at_any_other_end(void **state)
{
    int64_t polls;

    (void)state;
    for (int64_t end = 100000; end < 2000000000; end = end * 5 / 4) {
        assert_true(lateness(end, 0, &polls) < 20000 + end / 100 + POLL_NS);
        for (int64_t usual = 0; usual < 2000000000; usual = usual * 3 + 70000)
            assert_true(lateness(end, usual, &polls) <= 500000 + POLL_NS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_fence_leaves_later_work),
        cmocka_unit_test(test_cuda_fence_delivers_many_pieces),
        cmocka_unit_test(test_cuda_fence_ends_with_sync),
        cmocka_unit_test(test_cuda_fence_separates_failures),
        cmocka_unit_test(test_cuda_fence_finds_a_lost_card),
        cmocka_unit_test(test_cuda_nap_is_short_at_the_usual_end),
        cmocka_unit_test(test_cuda_nap_is_bounded_at_any_other_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
