/* tests/unit/test_group.c - guarantees between several processes, on one CPU or one GPU
 * each: sums in rank order, the same in every run, and no waiting for a process that has
 * ended. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/random.h"
#include "base/size.h"
#include "precision/format.h"
#include "tests/unit/unit_ranks.h"

/* more than one window, and not a multiple of it */
enum { RANKS = UNIT_RANKS, MANY = 200001 };

/* How elements are sent in this process. */
static enum format way;

/* NULL: it could not be opened. */
static struct backend *join(struct unit_ranks *ranks)
{
    struct device device;
    struct backend_options options = { .device = &device,
                                       .threads = 1,
                                       .no_onednn = true };
    struct backend *be;

    unit_ranks_device(ranks->group.rank, &device);
    ranks->group.sent = way;
    be = unit_ranks_ops->open(&options, NULL);
    if (be && !be->ops->join(be, &ranks->group, NULL)) {
        backend_close(be);
        be = NULL;
    }
    return be;
}

static float number_of(int rank, size_t i)
{
    return (float)(random_uniform(7, RANDOM_DROPOUT, (uint32_t)rank, i) - 0.5);
}

static float sum_of(size_t i)
{
    float sum = number_of(0, i);

    for (int r = 1; r < RANKS; r++)
        sum += number_of(r, i);
    return sum;
}

/* 0: the span of each root is the sum in rank order, bit for bit, and the others' spans
 * are unchanged. */
static int reduce_to_each(struct unit_ranks *ranks, struct backend *be)
{
    float *data = malloc(MANY * sizeof(*data)), *there;
    int bad = 0, rank = ranks->group.rank;

    for (int root = 0; root < RANKS; root++) {
        for (size_t i = 0; i < MANY; i++)
            data[i] = number_of(rank, i);
        there = unit_ranks_put(be, data, MANY * sizeof(*data));
        be->ops->reduce(be, there, MANY, root);
        be->ops->meet(be);
        bad |= !unit_ranks_get(be, data, there, MANY * sizeof(*data));
        for (size_t i = 0; i < MANY; i++)
            bad |= data[i] != (rank == root ? sum_of(i) : number_of(rank, i));
        be->ops->free(be, there);
    }
    free(data);
    return bad;
}

/* A value whose sum in bf16 is special, or one with more digits than bf16 has. */
static float special_of(int rank, size_t i)
{
    const float none = NAN, large = 3.4e38f, tiny = 1e-40f, half = 2e38f;
    const float cases[][3] = {
        { INFINITY, 1, 2 }, { 1, -INFINITY, 2 },  { INFINITY, -INFINITY, 1 },
        { 1, 2, none },     { large, 1, 1 }, /* rounds to inf */
        { half, half, 1 },  { tiny, tiny, tiny }, { 1, 0.00390625f, 0.001f } /* a tie */
    };

    return i < TS_COUNT(cases) ? cases[i][rank] : number_of(rank, i);
}

static float rounded(float x)
{
    return format_from_bf16(format_to_bf16(x));
}

/* On a CPU fp32 sums in rank order, on GPUs from the rank after the root to the root, each
 * rounded to bf16. */
static float rounded_sum_of(size_t i, int root)
{
    int rank = unit_ranks_gpus ? (root + 1) % RANKS : 0;
    float sum = rounded(special_of(rank, i));

    for (int r = 1; r < RANKS; r++) {
        rank = (rank + 1) % RANKS;
        sum += rounded(special_of(rank, i));
        if (unit_ranks_gpus)
            sum = rounded(sum);
    }
    return sum;
}

static bool is_same(float x, float y)
{
    return memcmp(&x, &y, sizeof(x)) == 0 || (isnan(x) && isnan(y));
}

/* Several pieces, also on GPUs. */
static int reduce_rounded(struct unit_ranks *ranks, struct backend *be)
{
    const size_t many = unit_ranks_gpus ? (size_t)(9 << 20) : MANY;
    const int rank = ranks->group.rank, root = 1;
    float *data = malloc(many * sizeof(*data)), *there;
    int bad = 0;

    for (size_t i = 0; i < many; i++)
        data[i] = special_of(rank, i % MANY);
    there = unit_ranks_put(be, data, many * sizeof(*data));
    be->ops->reduce(be, there, many, root);
    be->ops->meet(be);
    bad |= !unit_ranks_get(be, data, there, many * sizeof(*data));
    for (size_t i = 0; i < many; i++)
        bad |= !is_same(data[i], rank == root ? rounded_sum_of(i % MANY, root)
                                              : special_of(rank, i % MANY));
    be->ops->free(be, there);
    free(data);
    return bad;
}

/* Work issued earlier comes first; and one synchronization is enough for several sums. */
static int sum_doubles(struct unit_ranks *ranks, struct backend *be)
{
    double data[3] = { ranks->group.rank + 1, 0.1, 1e300 }, sums[3] = { 0 };
    double *there = unit_ranks_put(be, data, sizeof(data));

    be->ops->all_reduce(be, there, 2);
    be->ops->all_reduce(be, there + 2, 1);
    be->ops->meet(be);
    for (int r = 0; r < RANKS; r++) {
        sums[0] += r + 1;
        sums[1] += 0.1;
        sums[2] += 1e300;
    }
    return !unit_ranks_get(be, data, there, sizeof(data)) ||
           memcmp(data, sums, sizeof(sums)) != 0;
}

static int gather(struct unit_ranks *ranks, struct backend *be)
{
    enum { PIECE = 300007 };
    unsigned char *data = calloc(RANKS, PIECE), *there;
    int bad = 0;

    for (size_t i = 0; i < PIECE; i++)
        data[(size_t)ranks->group.rank * PIECE + i] =
            (unsigned char)(i + (size_t)ranks->group.rank);
    there = unit_ranks_put(be, data, RANKS * PIECE);
    be->ops->all_gather(be, there, PIECE);
    be->ops->meet(be);
    bad |= !unit_ranks_get(be, data, there, RANKS * PIECE);
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < PIECE; i++)
            bad |= data[(size_t)r * PIECE + i] != (unsigned char)(i + (size_t)r);
    free(data);
    return bad;
}

static int broadcast_from_each(struct unit_ranks *ranks, struct backend *be)
{
    enum { BYTES = 700001 };
    unsigned char *data = calloc(1, BYTES);
    int bad = 0;

    for (int root = 0; root < RANKS; root++) {
        void *there;

        for (size_t i = 0; i < BYTES; i++)
            data[i] = (unsigned char)(i * 7 + (size_t)ranks->group.rank);
        there = unit_ranks_put(be, data, BYTES);
        be->ops->broadcast(be, there, BYTES, root);
        be->ops->meet(be);
        bad |= !unit_ranks_get(be, data, there, BYTES);
        for (size_t i = 0; i < BYTES; i++)
            bad |= data[i] != (unsigned char)(i * 7 + (size_t)root);
        be->ops->free(be, there);
    }
    free(data);
    return bad;
}

/* Only the rank that it is sent to must have it. */
static int send_to_each(struct unit_ranks *ranks, struct backend *be)
{
    enum { BYTES = 700001 };
    unsigned char *data = calloc(1, BYTES);
    const int rank = ranks->group.rank;
    int bad = 0;

    for (int from = 0; from < RANKS; from++)
        for (int to = 0; to < RANKS; to++) {
            const int seen = rank == to ? from : rank;
            void *there;

            for (size_t i = 0; i < BYTES; i++)
                data[i] = (unsigned char)(i * 7 + (size_t)rank);
            there = unit_ranks_put(be, data, BYTES);
            be->ops->send(be, there, BYTES, from, to);
            be->ops->meet(be);
            bad |= !unit_ranks_get(be, data, there, BYTES);
            for (size_t i = 0; i < BYTES && (rank == from || rank == to); i++)
                bad |= data[i] != (unsigned char)(i * 7 + (size_t)seen);
            be->ops->free(be, there);
        }
    free(data);
    return bad;
}

/* Work that waits for a mark has what was sent before it. */
static int broadcast_to_a_mark(struct unit_ranks *ranks, struct backend *be)
{
    enum { COUNT = 300000 };
    float *data = calloc(COUNT, sizeof(*data)), *sent, *more, *copy;
    int bad = 0;

    for (size_t i = 0; i < COUNT; i++)
        data[i] = (float)(i + (size_t)ranks->group.rank);
    sent = unit_ranks_put(be, data, COUNT * sizeof(*data));
    more = unit_ranks_put(be, data, COUNT * sizeof(*data));
    copy = unit_ranks_put(be, data, COUNT * sizeof(*data));
    be->ops->broadcast(be, sent, COUNT * sizeof(*data), 1);
    be->ops->mark(be);
    be->ops->broadcast(be, more, COUNT * sizeof(*data), 2);
    be->ops->meet_mark(be);
    be->ops->convert(
        be, &(struct op_convert) { .out = tensor_of(copy, FORMAT_FP32, 1, COUNT),
                                   .x = tensor_of(sent, FORMAT_FP32, 1, COUNT) });
    be->ops->meet(be);
    bad |= !unit_ranks_get(be, data, copy, COUNT * sizeof(*data));
    for (size_t i = 0; i < COUNT; i++)
        bad |= data[i] != (float)(i + 1);
    be->ops->free(be, sent);
    be->ops->free(be, more);
    be->ops->free(be, copy);
    free(data);
    return bad;
}

/* Run the work on each rank; rank 0 checks that all succeeded. */
static void run_ranks(int (*work)(struct unit_ranks *ranks, struct backend *be))
{
    struct unit_ranks ranks;
    struct backend *be;
    int bad;

    unit_ranks_fork(&ranks, RANKS);
    be = join(&ranks);
    bad = be ? work(&ranks, be) : 1;
    backend_close(be);
    if (ranks.group.rank > 0)
        _exit(bad);
    unit_ranks_join(&ranks);
    assert_int_equal(bad, 0);
}

static void test_group_sums_by_rank_at_the_root(void **state)
{
    (void)state;
    run_ranks(reduce_to_each);
}

static void test_group_rounds_what_it_sends(void **state)
{
    (void)state;
    way = FORMAT_BF16;
    run_ranks(reduce_rounded);
    way = FORMAT_FP32;
}

static void test_group_sums_doubles_everywhere(void **state)
{
    (void)state;
    run_ranks(sum_doubles);
}

static void test_group_gathers_every_piece(void **state)
{
    (void)state;
    run_ranks(gather);
}

static void test_group_broadcasts_from_any_rank(void **state)
{
    (void)state;
    run_ranks(broadcast_from_each);
}

static void test_group_sends_from_any_rank_to_any(void **state)
{
    (void)state;
    run_ranks(send_to_each);
}

static void test_group_lets_work_wait_for_a_mark(void **state)
{
    (void)state;
    run_ranks(broadcast_to_a_mark);
}

/* Rank 1 ends in the middle: the others fail, report why, and fail again. */
static void test_group_does_not_wait_for_a_rank_that_ended(void **state)
{
    struct unit_ranks ranks;
    struct backend *be;
    struct error err = { 0 };
    double one = 1, *data;
    bool first = true;

    (void)state;
    unit_ranks_fork(&ranks, RANKS);
    be = join(&ranks);
    if (be && ranks.group.rank == 1)
        kill(getpid(), SIGKILL);
    while (unit_ranks_emulated && ranks.group.rank == 0 && link_is_alive(ranks.links[0]))
        ; /* an emulated GPU does not abandon work in progress */
    if (be) {
        data = unit_ranks_put(be, &one, sizeof(one));
        be->ops->all_reduce(be, data, 1);
        be->ops->meet(be);
        first = be->ops->sync(be, &err);
        be->ops->all_reduce(be, data, 1);
        be->ops->meet(be);
    }
    if (ranks.group.rank > 0)
        _exit(!be || first || be->ops->sync(be, NULL));
    assert_non_null(be);
    assert_false(first);
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_non_null(strstr(err.text, "has ended"));
    assert_false(be->ops->sync(be, NULL));
    assert_true(WIFSIGNALED(unit_ranks_wait(&ranks, 1)));
    for (int r = 2; r < RANKS; r++)
        assert_int_equal(unit_ranks_wait(&ranks, r), 0);
    backend_close(be);
}

/* One rank ends before it joins. */
static void test_group_does_not_form_without_every_rank(void **state)
{
    struct unit_ranks ranks;
    struct backend *be;
    double one = 1;

    (void)state;
    unit_ranks_fork(&ranks, 2);
    if (ranks.group.rank == 1)
        _exit(0);
    assert_int_equal(unit_ranks_wait(&ranks, 1), 0);
    be = join(&ranks); /* the socket may still hold the descriptor */
    if (!be)
        return;
    be->ops->all_reduce(be, unit_ranks_put(be, &one, sizeof(one)), 1);
    be->ops->meet(be);
    assert_false(be->ops->sync(be, NULL));
    backend_close(be);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        unit_ranks_test(test_group_sums_by_rank_at_the_root),
        unit_ranks_test(test_group_rounds_what_it_sends),
        unit_ranks_test(test_group_sums_doubles_everywhere),
        unit_ranks_test(test_group_gathers_every_piece),
        unit_ranks_test(test_group_broadcasts_from_any_rank),
        unit_ranks_test(test_group_sends_from_any_rank_to_any),
        unit_ranks_test(test_group_lets_work_wait_for_a_mark),
        unit_ranks_test(test_group_does_not_wait_for_a_rank_that_ended),
        unit_ranks_test(test_group_does_not_form_without_every_rank),
    };

    unit_ranks_main(argc, argv, tests);
    return unit_ranks_fit() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
