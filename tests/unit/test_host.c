/* tests/unit/test_host.c - the variables of each kind of cluster, and those of its ranks. */
#include "config.h"

#include "runner/cluster/host.h"

#include "base/size.h"
#include "runner/cluster/world.h"
#include "tests/unit/unit.h"

static const char *const names[] = {
    "NODE_RANK",  "NNODES",       "NPROC_PER_NODE",     "SKYPILOT_NODE_RANK",
    "RANK",       "WORLD_SIZE",   "LOCAL_RANK",         "LOCAL_WORLD_SIZE",
    "GROUP_RANK", "SLURM_PROCID", "SKYPILOT_NUM_NODES", "SKYPILOT_NUM_GPUS_PER_NODE",
};

/* Unset all of these, then set pairs of a name and a value. */
static void set_variables(const char *const pairs[])
{
    for (size_t i = 0; i < TS_COUNT(names); i++)
        unsetenv(names[i]);
    for (size_t i = 0; pairs[i]; i += 2)
        setenv(pairs[i], pairs[i + 1], 1);
}

static const struct host_case {
    const char *title;
    const char *pairs[13];
    struct host host; /* launcher NULL: none */
} cases[] = {
    { "nothing", { NULL }, { .nodes = 1 } },
    { "LLaMA-Factory",
      { "NNODES", "3", "NODE_RANK", "2", "NPROC_PER_NODE", "4" },
      { "NNODES", 2, 3, 4 } },
    { "without a number of ranks",
      { "NNODES", "2", "NODE_RANK", "0" },
      { "NNODES", 0, 2, 0 } },
    { "one machine",
      { "NNODES", "1", "NODE_RANK", "0", "NPROC_PER_NODE", "4" },
      { .nodes = 1 } },
    { "no machine of the two", { "NNODES", "2" }, { .nodes = 1 } },
    { "an empty variable", { "NNODES", "2", "NODE_RANK", "" }, { .nodes = 1 } },
    { "SkyPilot",
      { "SKYPILOT_NUM_NODES", "2", "SKYPILOT_NODE_RANK", "1",
        "SKYPILOT_NUM_GPUS_PER_NODE", "8" },
      { "SkyPilot", 1, 2, 8 } },
    { "SkyPilot without GPUs",
      { "SKYPILOT_NUM_NODES", "2", "SKYPILOT_NODE_RANK", "1",
        "SKYPILOT_NUM_GPUS_PER_NODE", "0" },
      { "SkyPilot", 1, 2, 0 } },
    { "one machine of SkyPilot",
      { "SKYPILOT_NUM_NODES", "1", "SKYPILOT_NODE_RANK", "0",
        "SKYPILOT_NUM_GPUS_PER_NODE", "8" },
      { .nodes = 1 } },
    { "variables of one's own inside SkyPilot",
      { "SKYPILOT_NUM_NODES", "2", "SKYPILOT_NODE_RANK", "1", "NNODES", "2", "NODE_RANK",
        "1", "NPROC_PER_NODE", "3" },
      { "NNODES", 1, 2, 3 } },
    { "the most ranks",
      { "NNODES", "1024", "NODE_RANK", "1023", "NPROC_PER_NODE", "1" },
      { "NNODES", 1023, 1024, 1 } },
};

static void test_host_reads_each_cluster(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const struct host *want = &cases[i].host;
        struct error err = { 0 };
        struct host got;

        set_variables(cases[i].pairs);
        if (!host_read(&got, &err))
            fail_msg("%s: %s", cases[i].title, err.text);
        if (strcmp(got.launcher ? got.launcher : "",
                   want->launcher ? want->launcher : "") != 0 ||
            got.index != want->index || got.nodes != want->nodes ||
            got.ranks != want->ranks)
            fail_msg("%s: %s, %d of %d, %d ranks", cases[i].title,
                     got.launcher ? got.launcher : "none", got.index, got.nodes,
                     got.ranks);
    }
}

static void test_host_refuses_invalid_values(void **state)
{
    static const struct {
        const char *pairs[7], *names;
    } refusals[] = {
        { { "NNODES", "two", "NODE_RANK", "0" }, "NNODES=two" },
        { { "NNODES", "0", "NODE_RANK", "0" }, "NNODES=0" },
        { { "NNODES", "1025", "NODE_RANK", "0" }, "NNODES=1025" },
        { { "NNODES", "1:4", "NODE_RANK", "0" }, "NNODES=1:4" },
        { { "NNODES", "2", "NODE_RANK", "2" }, "NODE_RANK=2" },
        { { "NNODES", "2", "NODE_RANK", "-1" }, "NODE_RANK=-1" },
        { { "NNODES", "2", "NODE_RANK", "1", "NPROC_PER_NODE", "gpu" },
          "NPROC_PER_NODE=gpu" },
        { { "NNODES", "2", "NODE_RANK", "1", "NPROC_PER_NODE", "513" },
          "NPROC_PER_NODE=513" },
        { { "SKYPILOT_NUM_NODES", "2", "SKYPILOT_NODE_RANK", "9" },
          "SKYPILOT_NODE_RANK=9" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(refusals); i++) {
        struct error err = { 0 };
        struct host got;

        set_variables(refusals[i].pairs);
        if (host_read(&got, &err))
            fail_msg("accepted: %s", refusals[i].names);
        assert_int_equal(err.code, ERROR_USAGE);
        if (strncmp(err.text, refusals[i].names, strlen(refusals[i].names)) != 0)
            fail_msg("%s: %s", refusals[i].names, err.text);
    }
}

/* Ranks of a machine follow each other, as torchrun numbers them. */
static void test_host_sets_the_variables_of_a_rank(void **state)
{
    static const char *const none[] = { NULL };
    const struct host host = { "NNODES", 1, 3, 4 };
    struct error err = { 0 };
    struct world world;

    (void)state;
    set_variables(none);
    host_set_rank(&host, 4, 2);
    assert_true(world_read(&world, &err));
    assert_string_equal(world.launcher, "torchrun");
    assert_int_equal(world.rank, 6);
    assert_int_equal(world.size, 12);
    assert_int_equal(world.local_rank, 2);
    assert_int_equal(world.local_size, 4);
    assert_int_equal(world.nodes, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_reads_each_cluster),
        cmocka_unit_test(test_host_refuses_invalid_values),
        cmocka_unit_test(test_host_sets_the_variables_of_a_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
