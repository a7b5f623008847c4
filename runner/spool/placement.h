/*
 * runner/spool/placement.h - decides which queued job starts now, and on which devices,
 * from the devices, the running jobs and the queue. It only computes: the caller measures
 * free memory and starts jobs.
 *
 * A job fits on a device if its planned memory fits into what is free there (as TS301
 * checks it), and if the plans of all its jobs together fit into the device. A job without
 * a known plan, or one that its memory_limit lets use more than 95 %, gets a device alone.
 * Of the devices that fit, an idle one is preferred, then the one with the least memory
 * left.
 *
 * A job that waits at the front reserves the devices that will be free for it first. A
 * later job may use them if both fit together. Otherwise it passes the waiting job, which
 * at most PLACEMENT_PASSES jobs may do, within PLACEMENT_PASS_SECONDS: how long a job will
 * take is unknown. After that the reserved devices stay empty until the job starts, so
 * that no job waits forever.
 *
 * A job that Slurm runs starts at once, without a device and without a slot: it waits there.
 */
#ifndef RUNNER_SPOOL_PLACEMENT_H
#define RUNNER_SPOOL_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "precision/probe.h"
#include "runner/job/submitted.h"

enum {
    PLACEMENT_PASSES = 64,
    PLACEMENT_PASS_SECONDS = 1800,
    PLACEMENT_LOOK = 256 /* jobs of the queue that are considered at once */
};

#define PLACEMENT_SUBMITTED SUBMITTED_WANTED

/* A set of devices: bit 0 is the CPU, the others are GPUs in the order of the probe. */
typedef uint32_t device_set;

/* What a job needs. */
struct placement_need {
    /* trainspool.device: auto, cuda or cuda:N,M; cpu; PLACEMENT_SUBMITTED: Slurm runs it,
     * and it takes nothing of this machine; "": nothing is known of the job: it
     * starts when it is the first and nothing runs, and chooses its devices itself */
    char wanted[64];
    int capability;  /* of the GPU that it was checked for, 80 for 8.0; 0: any */
    int64_t ranks;   /* that many GPUs; on a CPU, processes */
    int64_t threads; /* of a job on a CPU; 0: its share of the cores */
    uint64_t memory; /* planned bytes of each rank; 0: unknown */
};

struct placement_device {
    struct device device; /* `available` is what the last probe measured */
    bool usable;          /* the watch may use it, and it is not ill */
};

struct placement_running {
    struct placement_need need;
    device_set devices; /* 0: unknown, it may use any */
    double started;
    /* the probe was made after it allocated its memory */
    bool measured;
};

struct placement_waiting {
    struct placement_need need;
    double since; /* when it first could not start; 0: it has not waited */
    int passes;   /* jobs that took memory that it waits for */
};

struct placement {
    const struct placement_device *devices; /* the CPU first */
    size_t device_count;
    const struct placement_running *running;
    size_t running_count;
    size_t slots; /* jobs at once; 0: any number */
};

enum placement_verdict {
    PLACEMENT_STARTS,
    PLACEMENT_MEMORY,   /* `bytes` more must be free on `device` */
    PLACEMENT_DEVICES,  /* enough devices exist, but they are in use */
    PLACEMENT_CORES,    /* jobs use the cores of the CPU */
    PLACEMENT_RESERVED, /* its devices are reserved for a job before it */
    PLACEMENT_SLOTS,    /* as many jobs run as may */
    PLACEMENT_ILL,      /* its devices are not usable now */
    PLACEMENT_ABSENT,   /* there are not as many such devices */
    PLACEMENT_NEVER,    /* it is too large for any device of this machine */
    /* not by placement_choose, but by people_judge: as many jobs of its owner run as may;
     * the owner has used the GPUs for as long as they may */
    PLACEMENT_RUNNING,
    PLACEMENT_HOURS
};

struct placement_answer {
    enum placement_verdict verdict;
    device_set devices; /* STARTS: these; otherwise: reserved for it */
    size_t device;      /* MEMORY, NEVER: index of the device */
    uint64_t bytes;     /* MEMORY: missing; NEVER: the device's total */
};

/* Return the index of the first job of the queue, which is in order, that starts now, or
 * `count` for none. answers[i] says for each job up to it (at most PLACEMENT_LOOK) what it
 * waits for. `since` and `passes` of the jobs that wait are updated. */
size_t placement_choose(const struct placement *placement,
                        struct placement_waiting *const queue[], size_t count, double now,
                        struct placement_answer answers[]);

/* Return whether the job could run there once nothing else does. */
bool placement_is_possible(const struct placement *placement,
                           const struct placement_need *need);

/* Return whether Slurm runs the job. */
bool placement_is_submitted(const struct placement_need *need);
/* Return how many jobs run on this machine. */
size_t placement_local_count(const struct placement *placement);
/* Return how many GPUs a job takes, or processes on the CPU. */
size_t placement_ranks(const struct placement_need *need);
/* Return the cores that a job on the CPU takes. */
int placement_cores(const struct placement *placement, const struct placement_need *need);

/* What the running jobs take of a device. */
struct placement_load {
    uint64_t planned; /* bytes */
    size_t jobs;
    int cores;
};
struct placement_load placement_load(const struct placement *placement, size_t device);

/* Write "waits for 3.1 GiB on cuda:0", or "" for a job that starts. */
void placement_describe(const struct placement *placement,
                        const struct placement_need *need,
                        const struct placement_answer *answer, char out[160]);

/* Write the set as --device reads it: "cpu", "cuda:0,1"; and read it. */
void placement_name(const struct placement *placement, device_set devices, char out[64]);
device_set placement_read(const struct placement *placement, const char *name);

#endif
