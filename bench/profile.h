/*
 * bench/profile.h - the time of every operation of a step, each measured alone: the
 * device is idle before it starts and after it ends. The sum is therefore larger than the
 * time of a step.
 */
#ifndef BENCH_PROFILE_H
#define BENCH_PROFILE_H

#include "kernels/backend.h"

enum { PROFILE_ROWS = 128 };

/* An operation, or the matmuls of one shape. */
struct profile_row {
    char name[96];
    size_t calls;
    double seconds, flops; /* of all calls; flops: of matmuls only */
};

struct profile {
    struct backend_ops ops; /* first member: the table while it runs */
    const struct backend_ops *real;
    struct profile_row rows[PROFILE_ROWS]; /* what does not fit is in the last row */
    size_t count;
    bool inside; /* of an operation, which may call others */
};

/* A GPU must not record: open it with TRAINSPOOL_NO_GRAPHS=1. */
void profile_start(struct profile *profile, struct backend *be);
void profile_stop(struct profile *profile, struct backend *be);
/* Print a table, the slowest row first; steps: how many ran. */
void profile_print(struct profile *profile, size_t steps);

#endif
