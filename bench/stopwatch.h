/*
 * bench/stopwatch.h - the seconds that a backend spends in matmuls (op_matmul), including
 * those of the classifier. For backends whose operations are complete when they return:
 * the CPU.
 */
#ifndef BENCH_STOPWATCH_H
#define BENCH_STOPWATCH_H

#include "kernels/backend.h"

struct stopwatch {
    struct backend_ops ops; /* first member: the table while it runs */
    const struct backend_ops *real;
    double seconds; /* total between start and stop */
};

void stopwatch_start(struct stopwatch *watch, struct backend *be);
void stopwatch_stop(struct stopwatch *watch, struct backend *be);

#endif
