/* bench/rate.h - how fast this machine multiplies matrices. */
#ifndef BENCH_RATE_H
#define BENCH_RATE_H

#include "kernels/backend.h"

/* The CPU with so many threads, or the first GPU; ends the program with a message if that
 * cannot be had. */
struct backend *rate_open(int threads, bool onednn);
struct backend *rate_open_gpu(void);

/* A product as a step of training has it: pass 0 forward (rows, in) -> (rows, out), 1
 * gradient of x, 2 gradient of the weight, added to fp32. */
struct rate_shape {
    const char *name;
    size_t rows, in, out;
    int pass;
};
extern const char *const rate_passes[3];

/* GFLOP/s, the best of `rounds` of about `seconds` each; by processor time if `processor`
 * (one thread), else by the clock. */
double rate_measure(struct backend *be, const struct rate_shape *shape,
                    enum format format, int rounds, double seconds, bool processor);

/* The rate of a product that suits the machine, from about so many seconds: what others
 * are shares of. */
double rate_machine(struct backend *be, enum format format, double seconds);

#endif
