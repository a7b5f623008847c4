/*
 * kernels/cpu/cpu_onednn.h - oneDNN, if it is installed: single-threaded matmuls.
 *
 * It is loaded when the backend opens, version 2 or 3, and never linked against.
 */
#ifndef KERNELS_CPU_CPU_ONEDNN_H
#define KERNELS_CPU_CPU_ONEDNN_H

#include <stdbool.h>

#include "kernels/cpu/cpu_pool.h"
#include "kernels/tensor.h"

struct onednn;
struct onednn_plan; /* a matmul planned for its shape; belongs to the library */

/* out (rows, cols) = or += op(a) op(b), as in struct op_matmul without alpha and bias */
struct onednn_shape {
    size_t rows, cols, depth;
    size_t a_stride, b_stride, out_stride;
    enum format in, out; /* fp32 or bf16; in for both a and b */
    bool trans_a, trans_b, add;
};

/* Load the library for this many threads; NULL if it is not installed or not usable. */
struct onednn *onednn_open(size_t threads);
void onednn_close(struct onednn *onednn);             /* NULL is allowed */
const char *onednn_name(const struct onednn *onednn); /* "oneDNN 2.6.3" */

/* Return the plan for a shape, created on first use; NULL if oneDNN has none. Not for
 * tasks. */
const struct onednn_plan *onednn_find(struct onednn *onednn,
                                      const struct onednn_shape *shape);

/* Run a plan from a task. Returns false if the library fails, which happens only if
 * memory runs out. */
bool onednn_multiply(struct onednn *onednn, const struct onednn_plan *plan, const void *a,
                     const void *b, void *out, struct pool_worker *worker);

#endif
