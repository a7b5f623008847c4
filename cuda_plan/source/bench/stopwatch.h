/*
 * bench/stopwatch.h - the seconds that a backend spends in products (op_matmul), those
 * inside the classifier counted.  Of a backend that has computed when an operation
 * returns, which is the CPU.
 */
#ifndef BENCH_STOPWATCH_H
#define BENCH_STOPWATCH_H

#include "kernels/backend.h"

struct stopwatch {
    struct backend_ops ops; /* the first member: what the backend has for the time */
    const struct backend_ops *real;
    double seconds; /* between start and stop, in all */
};

void stopwatch_start(struct stopwatch *watch, struct backend *be);
void stopwatch_stop(struct stopwatch *watch, struct backend *be);

#endif
