/* runner/cluster/host.c - a row for each kind of cluster: the variables it sets. */
#include "config.h"

#include "runner/cluster/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/size.h"
#include "precision/device.h"

/*
 * Sources: LLaMA-Factory, src/llamafactory/launcher.py; SkyPilot's documentation, "Distributed
 * Multi-Node Jobs", by which a machine without GPUs has SKYPILOT_NUM_GPUS_PER_NODE=0.
 */
static const struct cluster {
    const char *name;
    const char *index, *nodes, *ranks; /* variables */
} clusters[] = {
    { "NNODES", "NODE_RANK", "NNODES", "NPROC_PER_NODE" },
    { "SkyPilot", "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES",
      "SKYPILOT_NUM_GPUS_PER_NODE" },
};

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && *value;
}

/* Read a number from `least` to `most`; leave *out unchanged if the variable is not set. */
static bool read_number(const char *name, long least, long most, int *out,
                        struct error *err)
{
    char *end;
    long value;

    if (!is_set(name))
        return true;
    errno = 0;
    value = strtol(getenv(name), &end, 10);
    if (errno != 0 || *end != '\0' || value < least || value > most)
        return error_set(err, ERROR_USAGE,
                         "%s=%.60s in the environment is not a number from %ld to %ld",
                         name, getenv(name), least, most);
    *out = (int)value;
    return true;
}

bool host_read(struct host *out, struct error *err)
{
    *out = (struct host) { .nodes = 1 };
    for (size_t i = 0; i < TS_COUNT(clusters); i++) {
        const struct cluster *cluster = &clusters[i];

        if (!is_set(cluster->index) || !is_set(cluster->nodes))
            continue;
        if (!read_number(cluster->nodes, 1, RANKS_MAX, &out->nodes, err))
            return false;
        if (out->nodes == 1)
            continue;
        out->launcher = cluster->name;
        return read_number(cluster->index, 0, out->nodes - 1, &out->index, err) &&
               read_number(cluster->ranks, 0, RANKS_MAX / out->nodes, &out->ranks, err);
    }
    return true;
}

static void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

void host_set_rank(const struct host *host, int ranks, int rank)
{
    set_number("RANK", host->index * ranks + rank);
    set_number("WORLD_SIZE", host->nodes * ranks);
    set_number("LOCAL_RANK", rank);
    set_number("LOCAL_WORLD_SIZE", ranks);
    set_number("GROUP_RANK", host->index);
    set_number("GROUP_WORLD_SIZE", host->nodes);
}
