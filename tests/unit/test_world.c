/* tests/unit/test_world.c - the variables of each launcher, and which of several decides. */
#include "config.h"

#include "runner/cluster/world.h"

#include "base/size.h"
#include "tests/unit/unit.h"

enum { VARIABLES = 12 };

/* Replace the environment, except for the format of cmocka's output: pairs of a name and a
 * value. */
static void set_environment(const char *const pairs[])
{
    static const char output[] = "CMOCKA_MESSAGE_OUTPUT";
    char *format = getenv(output) ? memory_strdup(getenv(output)) : NULL;

    clearenv();
    if (format)
        setenv(output, format, 1);
    free(format);
    for (size_t i = 0; pairs[i]; i += 2)
        setenv(pairs[i], pairs[i + 1], 1);
}

struct world_case {
    const char *title;
    const char *pairs[2 * VARIABLES + 1];
    struct world world; /* launcher NULL: none */
};

static const struct world_case cases[] = {
    { "nothing", { NULL }, { .size = 1, .local_size = 1, .nodes = 1 } },
    { "torchrun",
      { "RANK", "5", "WORLD_SIZE", "8", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "4",
        "GROUP_RANK", "1", "GROUP_WORLD_SIZE", "2", "TORCHELASTIC_RUN_ID", "run",
        "TORCHELASTIC_RESTART_COUNT", "3" },
      { "torchrun", 5, 8, 1, 4, 2, "run.3" } },
    { "torchrun on one machine",
      { "RANK", "1", "WORLD_SIZE", "2", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "2",
        "GROUP_WORLD_SIZE", "1" },
      { "torchrun", 1, 2, 1, 2, 1, "" } },
    { "torchrun on one machine, without its number of machines",
      { "RANK", "1", "WORLD_SIZE", "2", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "2" },
      { "torchrun", 1, 2, 1, 2, 1, "" } },
    { "a pod of Kubernetes for each rank",
      { "RANK", "2", "WORLD_SIZE", "3", "MASTER_ADDR", "a", "MASTER_PORT", "1" },
      { "torchrun", 2, 3, 0, 1, 3, "" } },
    { "torchrun without its number of local ranks",
      { "RANK", "4", "WORLD_SIZE", "5", "LOCAL_RANK", "1", "GROUP_WORLD_SIZE", "2" },
      { "torchrun", 4, 5, 1, 3, 2, "" } },
    { "DeepSpeed",
      { "RANK", "3", "WORLD_SIZE", "4", "LOCAL_RANK", "1", "LOCAL_SIZE", "2",
        "CROSS_RANK", "1", "CROSS_SIZE", "2" },
      { "deepspeed", 3, 4, 1, 2, 2, "" } },
    { "a launcher that sets the local rank only",
      { "RANK", "3", "WORLD_SIZE", "4", "LOCAL_RANK", "1" },
      { "torchrun", 3, 4, 1, 2, 2, "" } },
    { "torchrun with one rank",
      { "RANK", "0", "WORLD_SIZE", "1", "LOCAL_RANK", "0", "LOCAL_WORLD_SIZE", "1" },
      { "torchrun", 0, 1, 0, 1, 1, "" } },
    { "Open MPI",
      { "OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "6",
        "OMPI_COMM_WORLD_LOCAL_RANK", "0", "OMPI_COMM_WORLD_LOCAL_SIZE", "3",
        "PMIX_NAMESPACE", "prterun-a-7@1" },
      { "mpirun", 3, 6, 0, 3, 2, "prterun-a-7@1" } },
    { "Open MPI on one machine",
      { "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2",
        "OMPI_COMM_WORLD_LOCAL_RANK", "1", "OMPI_COMM_WORLD_LOCAL_SIZE", "2" },
      { "mpirun", 1, 2, 1, 2, 1, "" } },
    { "Open MPI with unequal machines",
      { "OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "5",
        "OMPI_COMM_WORLD_LOCAL_RANK", "0", "OMPI_COMM_WORLD_LOCAL_SIZE", "3" },
      { "mpirun", 0, 5, 0, 3, 2, "" } },
    { "Hydra",
      { "PMI_RANK", "2", "PMI_SIZE", "4", "MPI_LOCALRANKID", "0", "MPI_LOCALNRANKS",
        "2" },
      { "mpiexec", 2, 4, 0, 2, 2, "" } },
    { "srun, first nodes of a list",
      { "SLURM_PROCID", "5", "SLURM_STEP_NUM_TASKS", "7", "SLURM_STEP_ID", "0",
        "SLURM_LOCALID", "1", "SLURM_STEP_TASKS_PER_NODE", "2(x3),1", "SLURM_NODEID", "2",
        "SLURM_STEP_NUM_NODES", "4", "SLURM_JOB_ID", "77" },
      { "srun", 5, 7, 1, 2, 4, "77.0" } },
    { "srun, last node of a list",
      { "SLURM_PROCID", "6", "SLURM_STEP_NUM_TASKS", "7", "SLURM_STEP_ID", "0",
        "SLURM_LOCALID", "0", "SLURM_STEP_TASKS_PER_NODE", "2(x3),1", "SLURM_NODEID", "3",
        "SLURM_STEP_NUM_NODES", "4", "SLURM_JOB_ID", "77", "SLURM_RESTART_COUNT", "2" },
      { "srun", 6, 7, 0, 1, 4, "77.0.2" } },
    { "srun, larger list",
      { "SLURM_PROCID", "8", "SLURM_STEP_NUM_TASKS", "9", "SLURM_STEP_ID", "1",
        "SLURM_LOCALID", "3", "SLURM_STEP_TASKS_PER_NODE", "1,2(x2),4", "SLURM_NODEID",
        "3", "SLURM_STEP_NUM_NODES", "4" },
      { "srun", 8, 9, 3, 4, 4, "1" } },
    { "srun, list shorter than the nodes",
      { "SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS", "4", "SLURM_STEP_ID", "1",
        "SLURM_LOCALID", "1", "SLURM_STEP_TASKS_PER_NODE", "2", "SLURM_NODEID", "1",
        "SLURM_STEP_NUM_NODES", "2" },
      { "srun", 3, 4, 1, 2, 2, "1" } },
    { "srun, unreadable list",
      { "SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS", "4", "SLURM_STEP_ID", "1",
        "SLURM_LOCALID", "1", "SLURM_STEP_TASKS_PER_NODE", "2(y2)", "SLURM_NODEID", "1",
        "SLURM_STEP_NUM_NODES", "2" },
      { "srun", 3, 4, 1, 2, 2, "1" } },
    { "srun, list with an endless repeat",
      { "SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS", "4", "SLURM_STEP_ID", "1",
        "SLURM_LOCALID", "1", "SLURM_STEP_TASKS_PER_NODE", "2(x99999999999999999999)",
        "SLURM_NODEID", "1", "SLURM_STEP_NUM_NODES", "2" },
      { "srun", 3, 4, 1, 2, 2, "1" } },
    { "srun, list with more tasks than there are",
      { "SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "4", "SLURM_STEP_ID", "1",
        "SLURM_LOCALID", "0", "SLURM_STEP_TASKS_PER_NODE", "900", "SLURM_NODEID", "0",
        "SLURM_STEP_NUM_NODES", "2" },
      { "srun", 0, 4, 0, 2, 2, "1" } },
    { "PMI alone",
      { "PMI_RANK", "3", "PMI_SIZE", "4" },
      { "mpiexec", 3, 4, 0, 1, 4, "" } },

    { "mpirun inside srun",
      { "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "4",
        "OMPI_COMM_WORLD_LOCAL_RANK", "1", "OMPI_COMM_WORLD_LOCAL_SIZE", "2",
        "SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "2", "SLURM_STEP_ID", "0",
        "SLURM_LOCALID", "0", "SLURM_JOB_ID", "9" },
      { "mpirun", 1, 4, 1, 2, 2, "" } },
    { "torchrun inside srun",
      { "RANK",
        "3",
        "WORLD_SIZE",
        "4",
        "LOCAL_RANK",
        "1",
        "LOCAL_WORLD_SIZE",
        "2",
        "GROUP_WORLD_SIZE",
        "2",
        "SLURM_PROCID",
        "1",
        "SLURM_STEP_NUM_TASKS",
        "2",
        "SLURM_STEP_ID",
        "0",
        "SLURM_LOCALID",
        "0",
        "SLURM_JOB_ID",
        "9" },
      { "torchrun", 3, 4, 1, 2, 2, "" } },
    { "Hydra inside srun",
      { "PMI_RANK", "3", "PMI_SIZE", "4", "MPI_LOCALRANKID", "1", "MPI_LOCALNRANKS", "2",
        "SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "2", "SLURM_STEP_ID", "0" },
      { "mpiexec", 3, 4, 1, 2, 2, "" } },
    { "srun, whose plugin sets PMI",
      { "PMI_RANK", "1", "PMI_SIZE", "2", "SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS",
        "2", "SLURM_STEP_ID", "0", "SLURM_LOCALID", "1", "SLURM_STEP_TASKS_PER_NODE", "2",
        "SLURM_NODEID", "0", "SLURM_STEP_NUM_NODES", "1" },
      { "srun", 1, 2, 1, 2, 1, "0" } },
    { "a script of sbatch",
      { "SLURM_PROCID", "0", "SLURM_NTASKS", "8", "SLURM_NPROCS", "8",
        "SLURM_STEP_NUM_TASKS", "8", "SLURM_JOB_ID", "9", "SLURM_LOCALID", "0",
        "SLURM_NODEID", "0", "SLURM_TASKS_PER_NODE", "4(x2)" },
      { .size = 1, .local_size = 1, .nodes = 1 } },
    { "a rank without a size",
      { "RANK", "3" },
      { .size = 1, .local_size = 1, .nodes = 1 } },
    { "a size without a rank",
      { "WORLD_SIZE", "3" },
      { .size = 1, .local_size = 1, .nodes = 1 } },
    { "empty variables count as unset",
      { "RANK", "", "WORLD_SIZE", "4", "PMI_RANK", "1", "PMI_SIZE", "2",
        "MPI_LOCALRANKID", "" },
      { "mpiexec", 1, 2, 0, 1, 2, "" } },
};

static void test_world_reads_each_launcher(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const struct world *want = &cases[i].world;
        struct error err = { 0 };
        struct world got;

        set_environment(cases[i].pairs);
        if (!world_read(&got, &err))
            fail_msg("%s: %s", cases[i].title, err.text);
        if (strcmp(got.launcher ? got.launcher : "",
                   want->launcher ? want->launcher : "") != 0 ||
            got.rank != want->rank || got.size != want->size ||
            got.local_rank != want->local_rank || got.local_size != want->local_size ||
            got.nodes != want->nodes || strcmp(got.start, want->start) != 0)
            fail_msg("%s: %s, rank %d of %d, local %d of %d, %d machines, start %s",
                     cases[i].title, got.launcher ? got.launcher : "none", got.rank,
                     got.size, got.local_rank, got.local_size, got.nodes, got.start);
    }
}

struct refused {
    const char *pairs[2 * VARIABLES + 1];
    const char *names; /* the variable */
};

static const struct refused refusals[] = {
    { { "RANK", "0", "WORLD_SIZE", "0" }, "WORLD_SIZE=0" },
    { { "RANK", "0", "WORLD_SIZE", "-4" }, "WORLD_SIZE=-4" },
    { { "RANK", "0", "WORLD_SIZE", "four" }, "WORLD_SIZE=four" },
    { { "RANK", "0", "WORLD_SIZE", "4x" }, "WORLD_SIZE=4x" },
    { { "RANK", "0", "WORLD_SIZE", " " }, "WORLD_SIZE= " },
    { { "RANK", "0", "WORLD_SIZE", "4.0" }, "WORLD_SIZE=4.0" },
    { { "RANK", "0", "WORLD_SIZE", "0x4" }, "WORLD_SIZE=0x4" },
    { { "RANK", "0", "WORLD_SIZE", "1025" }, "WORLD_SIZE=1025" },
    { { "RANK", "0", "WORLD_SIZE", "4294967300" }, "WORLD_SIZE=4294967300" },
    { { "RANK", "0", "WORLD_SIZE", "99999999999999999999" }, "WORLD_SIZE=999" },
    { { "RANK", "-1", "WORLD_SIZE", "4" }, "RANK=-1" },
    { { "RANK", "4", "WORLD_SIZE", "4" }, "RANK=4" },
    { { "RANK", "4294967296", "WORLD_SIZE", "4" }, "RANK=4294967296" },
    { { "RANK", "-99999999999999999999", "WORLD_SIZE", "4" }, "RANK=-999" },
    { { "RANK", "", "WORLD_SIZE", "4", "PMI_RANK", "9", "PMI_SIZE", "4" }, "PMI_RANK=9" },
    { { "RANK", "1", "WORLD_SIZE", "4", "LOCAL_WORLD_SIZE", "5" }, "LOCAL_WORLD_SIZE=5" },
    { { "RANK", "1", "WORLD_SIZE", "4", "LOCAL_WORLD_SIZE", "0" }, "LOCAL_WORLD_SIZE=0" },
    { { "RANK", "1", "WORLD_SIZE", "4", "LOCAL_WORLD_SIZE", "2", "LOCAL_RANK", "2" },
      "LOCAL_RANK=2" },
    { { "RANK", "1", "WORLD_SIZE", "4", "LOCAL_RANK", "4" }, "LOCAL_RANK=4" },
    { { "RANK", "1", "WORLD_SIZE", "4", "LOCAL_RANK", "-1" }, "LOCAL_RANK=-1" },
    { { "RANK", "1", "WORLD_SIZE", "4", "GROUP_WORLD_SIZE", "5" }, "GROUP_WORLD_SIZE=5" },
    { { "OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "2" },
      "OMPI_COMM_WORLD_RANK=2" },
    { { "PMI_RANK", "0", "PMI_SIZE", "2", "MPI_LOCALRANKID", "2", "MPI_LOCALNRANKS",
        "2" },
      "MPI_LOCALRANKID=2" },
    { { "SLURM_PROCID", "2", "SLURM_STEP_NUM_TASKS", "2", "SLURM_STEP_ID", "0" },
      "SLURM_PROCID=2" },
    { { "SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "2", "SLURM_STEP_ID", "0",
        "SLURM_NODEID", "x" },
      "SLURM_NODEID=x" },
};

static void test_world_refuses_invalid_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(refusals); i++) {
        struct error err = { 0 };
        struct world got;

        set_environment(refusals[i].pairs);
        if (world_read(&got, &err))
            fail_msg("accepted: %s", refusals[i].names);
        assert_int_equal(err.code, ERROR_USAGE);
        if (strncmp(err.text, refusals[i].names, strlen(refusals[i].names)) != 0)
            fail_msg("%s: %s", refusals[i].names, err.text);
    }
}

static void test_world_cuts_long_values(void **state)
{
    char value[4000];
    const char *pairs[] = { "RANK",
                            "0",
                            "WORLD_SIZE",
                            value,
                            "TORCHELASTIC_RUN_ID",
                            value,
                            "TORCHELASTIC_RESTART_COUNT",
                            value,
                            NULL };
    struct error err = { 0 };
    struct world got;

    (void)state;
    memset(value, 'x', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    set_environment(pairs);
    assert_false(world_read(&got, &err));
    assert_non_null(strstr(err.text, "unset RANK"));
    error_clear(&err);
    setenv("WORLD_SIZE", "2", 1);
    assert_true(world_read(&got, &err));
    assert_int_equal(strlen(got.start), sizeof(got.start) - 1);
}

/* Of RANKS_MAX ranks, also the last. */
static void test_world_reads_the_largest_size(void **state)
{
    const char *const pairs[] = { "RANK", "1023", "WORLD_SIZE", "1024", NULL };
    struct error err = { 0 };
    struct world got;

    (void)state;
    assert_int_equal(RANKS_MAX, 1024);
    set_environment(pairs);
    assert_true(world_read(&got, &err));
    assert_int_equal(got.rank, 1023);
    assert_int_equal(got.nodes, 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_world_reads_each_launcher),
        cmocka_unit_test(test_world_refuses_invalid_values),
        cmocka_unit_test(test_world_cuts_long_values),
        cmocka_unit_test(test_world_reads_the_largest_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
