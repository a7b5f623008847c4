/* tests/unit/test_cuda_group.c - emulated GPUs join a group. */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include "base/text.h"

#include "tests/unit/unit_cuda.h"
#include "tests/unit/unit_ranks.h"

static struct backend *open_rank(const struct unit_ranks *ranks)
{
    struct device device;
    struct backend_options options = { .device = &device };

    unit_ranks_device(ranks->group.rank, &device);
    return backend_cuda.open(&options, NULL);
}

static const char *const first_calls[] = {
    [FORMAT_FP32] = "rbrbgRBRBGa", [FORMAT_BF16] = "hbhbgHBHBGa"
};

static void check_first_calls(enum format sent)
{
    struct unit_ranks ranks;
    struct backend *be;
    bool joined, done;

    unit_ranks_fork(&ranks, 2);
    ranks.group.sent = sent;
    be = open_rank(&ranks);
    joined = be && be->ops->join(be, &ranks.group, NULL);
    done = text_ends(emulation_collectives(), first_calls[sent]);
    backend_close(be);
    if (ranks.group.rank > 0)
        _exit(!joined || !done);
    unit_ranks_join(&ranks);
    assert_true(joined && done);
}

/* Memory that NCCL allocates with its first calls is allocated before anyone can query
 * the free memory. */
static void test_cuda_group_makes_every_first_call_while_joining(void **state)
{
    (void)state;
    check_first_calls(FORMAT_FP32);
}

static void test_cuda_group_makes_first_calls_of_rounded_gradients(void **state)
{
    (void)state;
    check_first_calls(FORMAT_BF16);
}

/* A failure at that point is reported by joining.  (A hung driver's memory is not a
 * leak.)  Rank 1 stays until rank 0 has its answer, because either could time out
 * first. */
static void test_cuda_group_reports_a_hung_card_while_joining(void **state)
{
    struct unit_ranks ranks;
    struct error err = { 0 };
    struct backend *be;
    bool joined;
    char word = 0;

    (void)state;
    unit_ranks_fork(&ranks, 2);
    if (__lsan_disable)
        __lsan_disable();
    be = open_rank(&ranks);
    if (be) {
        emulation_hang(true);
        cuda_backend_of(be)->patience = 3;
    }
    joined = be && be->ops->join(be, &ranks.group, &err);
    if (__lsan_enable)
        __lsan_enable();
    if (ranks.group.rank == 0)
        link_send(ranks.links[0], &word, 1, 0, NULL);
    else
        link_receive(ranks.links[0], &word, 1, 0, NULL);
    backend_close(be);
    if (ranks.group.rank == 1)
        _exit(!be || joined);
    unit_ranks_join(&ranks);
    assert_non_null(be);
    assert_false(joined);
    assert_non_null(strstr(err.text, "has not answered"));
    emulation_reset(NULL, 0);
}

/* The work with a rank that has ended was aborted, so what a fence delivers is worthless
 * even if its event completes. */
static void test_cuda_group_fails_to_reach_a_fence_after_a_rank_ended(void **state)
{
    struct unit_ranks ranks;
    struct error err = { 0 };
    struct backend *be;
    bool joined, reached;
    char word;

    (void)state;
    unit_ranks_fork(&ranks, 2);
    be = open_rank(&ranks);
    joined = be && be->ops->join(be, &ranks.group, NULL);
    if (ranks.group.rank > 0)
        _exit(!joined);
    assert_true(joined);
    assert_false(link_receive(ranks.links[0], &word, 1, 10, NULL)); /* until it ends */
    be->ops->fence(be);
    reached = be->ops->reach(be, &err);
    backend_close(be);
    unit_ranks_join(&ranks);
    assert_false(reached);
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_non_null(strstr(err.text, "another process of this run has ended"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        unit_ranks_test(test_cuda_group_makes_every_first_call_while_joining),
        unit_ranks_test(test_cuda_group_makes_first_calls_of_rounded_gradients),
        unit_ranks_test(test_cuda_group_reports_a_hung_card_while_joining),
        unit_ranks_test(test_cuda_group_fails_to_reach_a_fence_after_a_rank_ended),
    };

    unit_ranks_main(argc, argv, tests);
    return unit_ranks_fit() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
