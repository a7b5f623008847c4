/* tests/unit/test_host.c - the variables of each kind of cluster, and those of its ranks. */
#include "config.h"

#include "runner/cluster/host.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/size.h"
#include "runner/cluster/world.h"
#include "runner/job/host_ranks.h"
#include "runner/output/report.h"
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

/* Wait until the process whose id this file gets was waited for. */
static void wait_for_end(const char *file)
{
    const struct timespec tick = { .tv_nsec = 1000000 };
    long pid = 0;

    while (pid == 0 || kill((pid_t)pid, 0) == 0) {
        FILE *in = pid == 0 ? fopen(file, "r") : NULL;

        if (in && fscanf(in, "%ld;", &pid) != 1)
            pid = 0;
        if (in)
            fclose(in);
        nanosleep(&tick, NULL);
    }
}

/* A rank, which is this program again, in a folder for the ids of the ranks: the text has
 * the exit status of each rank, and each ends after the one before it. */
static int be_rank(const char *statuses)
{
    const int rank = atoi(getenv("LOCAL_RANK"));
    int status[3] = { -1, -1, -1 };
    char name[16];
    FILE *out;

    snprintf(name, sizeof(name), "%d", rank);
    out = fopen(name, "w");
    if (!out || sscanf(statuses, "%d %d %d", &status[0], &status[1], &status[2]) != 3)
        return EXIT_SYSTEM;
    fprintf(out, "%ld;", (long)getpid());
    fclose(out);
    snprintf(name, sizeof(name), "%d", rank - 1);
    if (rank > 0)
        wait_for_end(name);
    return status[rank];
}

static const struct status_case {
    const char *statuses;
    int expected;
} status_cases[] = {
    { "0 0 0", EXIT_FINE },       { "0 3 0", EXIT_SYSTEM },
    { "77 3 3", EXIT_NO_MEMORY }, { "143 3 143", EXIT_TERMINATED },
    { "3 143 1", EXIT_FINDINGS }, { "3 2 1", EXIT_NO_JOB },
    { "1 2 3", EXIT_FINDINGS },   { "143 1 1", EXIT_TERMINATED },
};

/* Kubernetes and schedulers decide by it whether to start the job again. */
static void test_status_of_a_machine_says_whether_the_job_fails(void **state)
{
    static const char *const none[] = { NULL };
    static const struct command command = { .name = "run" };
    const struct host host = { "NNODES", 0, 2, 3 };
    const struct options options = { .command = &command, .program = "trainspool" };
    const int home = open(".", O_RDONLY | O_CLOEXEC);

    (void)state;
    assert_true(home >= 0);
    set_variables(none);
    for (size_t i = 0; i < TS_COUNT(status_cases); i++) {
        struct error err = { 0 };
        char *dir = unit_dir_new();
        int status;

        setenv("TEST_RANK_STATUSES", status_cases[i].statuses, 1);
        assert_int_equal(chdir(dir), 0);
        status = host_ranks_run(&host, 3, &options, &err);
        assert_int_equal(fchdir(home), 0);
        unit_dir_free(dir);
        assert_int_equal(status, status_cases[i].expected);
    }
    unsetenv("TEST_RANK_STATUSES");
    close(home);
}

int main(void)
{
    const char *statuses = getenv("TEST_RANK_STATUSES");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_reads_each_cluster),
        cmocka_unit_test(test_host_refuses_invalid_values),
        cmocka_unit_test(test_host_sets_the_variables_of_a_rank),
        cmocka_unit_test(test_status_of_a_machine_says_whether_the_job_fails),
    };

    if (statuses)
        return be_rank(statuses);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
