/* bench/rate.h - how fast this machine multiplies matrices. */
#ifndef BENCH_RATE_H
#define BENCH_RATE_H

#include "kernels/backend.h"

/* Open the CPU with this many threads, or end the program with a message. */
struct backend *rate_open(int threads, bool onednn);

/* A matmul of a training step: pass 0 forward (rows, in) -> (rows, out), 1 gradient of x,
 * 2 gradient of the weight, accumulated in fp32. */
struct rate_shape {
    const char *name;
    size_t rows, in, out;
    int pass;
};
extern const char *const rate_passes[3];

/* Return GFLOP/s, the best of `rounds` of about `seconds` each; by processor time if
 * `processor` (one thread), otherwise by wall clock. */
double rate_measure(struct backend *be, const struct rate_shape *shape,
                    enum format format, int rounds, double seconds, bool processor);

/* Return the rate of a matmul that suits the machine, measured for about this many
 * seconds. It is the reference for shares. */
double rate_reference(struct backend *be, enum format format, double seconds);

#endif
