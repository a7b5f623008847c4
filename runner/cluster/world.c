/* runner/cluster/world.c - a row for each kind of launcher: the variables it sets. */
#include "config.h"

#include "runner/cluster/world.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

/* Names of variables; NULL: the launcher sets none. */
struct launcher {
    const char *name;
    const char *rank, *size; /* without `size`, the row is that of another launcher */
    const char *needs;       /* what else is set only by this launcher */
    const char *local_rank, *local_size;
    const char *tasks; /* Slurm's list of tasks of each node, such as 2(x3),1 */
    const char *node, *nodes;
    const char *start[3]; /* together they name a start */
};

/*
 * Inner launchers come first: mpirun and torchrun start their processes on other nodes by
 * srun, so those see its variables, too.  A script of sbatch has SLURM_PROCID, but is not a
 * step of srun, which has SLURM_STEP_ID.
 *
 * Sources: "torchrun (Elastic Launch)", PyTorch; deepspeed/launcher/launch.py, DeepSpeed; "Environment variables" of mpirun(1), Open
 * MPI 4.1; MPICH's and Intel MPI's Hydra, "Environment Settings"; srun(1), "OUTPUT
 * ENVIRONMENT VARIABLES".
 */
static const struct launcher launchers[] = {
    { .name = "deepspeed",
      .rank = "RANK",
      .size = "WORLD_SIZE",
      .needs = "CROSS_SIZE",
      .local_rank = "LOCAL_RANK",
      .local_size = "LOCAL_SIZE",
      .nodes = "CROSS_SIZE" },
    { .name = "torchrun",
      .rank = "RANK",
      .size = "WORLD_SIZE",
      .local_rank = "LOCAL_RANK",
      .local_size = "LOCAL_WORLD_SIZE",
      .nodes = "GROUP_WORLD_SIZE",
      .start = { "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT" } },
    { .name = "mpirun",
      .rank = "OMPI_COMM_WORLD_RANK",
      .size = "OMPI_COMM_WORLD_SIZE",
      .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
      .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
      .start = { "PMIX_NAMESPACE" } },
    { .name = "mpiexec",
      .rank = "PMI_RANK",
      .size = "PMI_SIZE",
      .needs = "MPI_LOCALRANKID",
      .local_rank = "MPI_LOCALRANKID",
      .local_size = "MPI_LOCALNRANKS" },
    { .name = "srun",
      .rank = "SLURM_PROCID",
      .size = "SLURM_STEP_NUM_TASKS",
      .needs = "SLURM_STEP_ID",
      .local_rank = "SLURM_LOCALID",
      .tasks = "SLURM_STEP_TASKS_PER_NODE",
      .node = "SLURM_NODEID",
      .nodes = "SLURM_STEP_NUM_NODES",
      .start = { "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT" } },
    { .name = "mpiexec", .rank = "PMI_RANK", .size = "PMI_SIZE" },
};

static bool is_set(const char *name)
{
    const char *value = name ? getenv(name) : NULL;

    return value && *value;
}

static const struct launcher *find_launcher(void)
{
    for (size_t i = 0; i < TS_COUNT(launchers); i++)
        if (is_set(launchers[i].rank) && is_set(launchers[i].size) &&
            (!launchers[i].needs || is_set(launchers[i].needs)))
            return &launchers[i];
    return NULL;
}

/* Read a number from `least` to `most`; leave *out unchanged if the variable is not set. */
static bool read_number(const struct launcher *launcher, const char *name, int least,
                        int most, int *out, struct error *err)
{
    char *end;
    long value;

    if (!is_set(name))
        return true;
    errno = 0;
    value = strtol(getenv(name), &end, 10);
    if (errno != 0 || *end != '\0' || value < least || value > most)
        return error_set(err, ERROR_USAGE,
                         "%s=%.60s in the environment, which %s sets, is not a number "
                         "from %d to %d; unset %s to run one process",
                         name, getenv(name), launcher->name, least, most, launcher->rank);
    *out = (int)value;
    return true;
}

/* Return the tasks of a node, up to `most`, in a list such as 2(x3),1; 0: the list does not
 * say. */
static int tasks_of_node(const char *list, int node, int most)
{
    const char *at = list;

    while (at && *at) {
        char *end;
        long tasks = strtol(at, &end, 10), times = 1;

        if (end == at || tasks < 1 || tasks > most)
            return 0;
        if (end[0] == '(' && end[1] == 'x') {
            times = strtol(end + 2, &end, 10);
            if (*end != ')' || times < 1)
                return 0;
            end++;
        }
        if (node < times)
            return (int)tasks;
        node -= (int)(times < INT_MAX ? times : INT_MAX);
        at = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

/* Without a size, the ranks of a machine are the equal share of all; without a number of
 * machines, each rank has its own. */
static bool read_machine(const struct launcher *launcher, struct world *out,
                         struct error *err)
{
    int node = 0, nodes = 0, local_size = 0;

    if (!read_number(launcher, launcher->local_size, 1, out->size, &local_size, err) ||
        !read_number(launcher, launcher->nodes, 1, out->size, &nodes, err) ||
        !read_number(launcher, launcher->node, 0, out->size - 1, &node, err))
        return false;
    if (is_set(launcher->tasks))
        local_size = tasks_of_node(getenv(launcher->tasks), node, out->size);
    if (!read_number(launcher, launcher->local_rank, 0,
                     (local_size ? local_size : out->size) - 1, &out->local_rank, err))
        return false;
    if (local_size == 0)
        local_size = nodes ? (int)size_divide_up((size_t)out->size, (size_t)nodes) : 1;
    /* a rank that is not the first of its machine shows that there are more */
    out->local_size = local_size > out->local_rank ? local_size : out->local_rank + 1;
    out->nodes =
        nodes ? nodes : (int)size_divide_up((size_t)out->size, (size_t)out->local_size);
    return true;
}

static void name_start(const struct launcher *launcher, struct world *out)
{
    size_t len = 0;

    for (size_t i = 0; i < TS_COUNT(launcher->start); i++)
        if (is_set(launcher->start[i]) && len < sizeof(out->start))
            len += (size_t)snprintf(out->start + len, sizeof(out->start) - len, "%s%s",
                                    len ? "." : "", getenv(launcher->start[i]));
}

bool world_is_variable(const char *name)
{
    static const char *const beginnings[] = { "SLURM_", "OMPI_",        "PMIX_",
                                              "PMI_",   "MPI_",         "LOCAL_",
                                              "GROUP_", "TORCHELASTIC_" };
    static const char *const names[] = { "RANK", "WORLD_SIZE", "MASTER_ADDR",
                                         "MASTER_PORT" };

    for (size_t i = 0; i < TS_COUNT(beginnings); i++)
        if (text_starts(name, beginnings[i]))
            return true;
    for (size_t i = 0; i < TS_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

bool world_read(struct world *out, struct error *err)
{
    const struct launcher *launcher = find_launcher();

    *out = (struct world) { .size = 1, .local_size = 1, .nodes = 1 };
    if (!launcher)
        return true;
    out->launcher = launcher->name;
    name_start(launcher, out);
    return read_number(launcher, launcher->size, 1, RANKS_MAX, &out->size, err) &&
           read_number(launcher, launcher->rank, 0, out->size - 1, &out->rank, err) &&
           read_machine(launcher, out, err);
}
