/* precision/memory.h - the bytes a plan needs, and the bytes there are. */
#ifndef PRECISION_MEMORY_H
#define PRECISION_MEMORY_H

#include "precision/device.h"

struct memory_use {
    uint64_t weights;     /* trainable and frozen, with 16-bit working copies */
    uint64_t gradients;
    uint64_t optimizer;   /* both moments */
    uint64_t activations; /* what the backward pass needs, and its own gradients */
    uint64_t workspace;   /* classifier chunks, packed panels, tokens */
    uint64_t total;
    uint64_t low, high;   /* total is between; both are total where it is exact */
    uint64_t limit;       /* what the job may use; 0: not known */
    bool fits;            /* total <= limit, or limit not known */
};

/* `wanted` is memory_limit of the job: NULL (95 % of what is available), "80%" (of what is
 * available), or bytes ("12GiB").  ERROR_JOB if it is none of these. */
bool memory_limit(const char *wanted, const struct device *device, uint64_t *out,
                  struct error *err);
/*
 * What a device's backend holds besides the block of a plan.  On a GPU
 *     MEMORY_CUDA_CONTEXT    the driver's context, 300 to 500 MiB on cards from 7.5 on, as
 *                            nvidia-smi shows for an idle process; not of a device of this
 *                            machine: who asks it what is free has a context while he asks
 *     MEMORY_CUDA_CODE       kernels as they are loaded, recorded steps
 *     MEMORY_CUDA_PRODUCTS   workspace of cuBLASLt, what NVIDIA advises for 9.0 (cuBLAS
 *                            documentation, cublasSetWorkspace), and 4 MiB before
 *     MEMORY_CUDA_SCRATCH    scratch of our kernels, and small things
 * of which _SPREAD may be more or less: of the context 100 MiB, of code the half.  On a CPU
 * nothing is sure but what is touched, and that is at most
 *     MEMORY_CPU_SUMS        partial sums of products (kernels/cpu/cpu_matmul_grid.h)
 *     MEMORY_CPU_THREAD      a thread's panels and scratch, 2 MiB each
 */
#define MEMORY_CUDA_CONTEXT        ((uint64_t)400 << 20)
#define MEMORY_CUDA_CONTEXT_SPREAD ((uint64_t)100 << 20)
#define MEMORY_CUDA_CODE           ((uint64_t)256 << 20)
#define MEMORY_CUDA_CODE_SPREAD    ((uint64_t)128 << 20)
#define MEMORY_CUDA_PRODUCTS       ((uint64_t)32 << 20)
#define MEMORY_CUDA_SCRATCH        ((uint64_t)65 << 20)
#define MEMORY_CPU_SUMS            ((uint64_t)16 << 20)
#define MEMORY_CPU_THREAD          ((uint64_t)4 << 20)

/* Bytes of which nobody knows the exact number. */
struct memory_range {
    uint64_t low, expected, high;
};
struct memory_range memory_range_sum(struct memory_range a, struct memory_range b);
struct memory_range memory_range_exact(uint64_t bytes);

/* By so many threads on a CPU; 0: the device's. */
struct memory_range memory_held(const struct device *device, int threads);
/* Sum up, compare; low and high are put around the total where they are not. */
void memory_finish(struct memory_use *use, uint64_t limit);
/* The memory may not suffice though the total does: limit is below high. */
bool memory_is_close(const struct memory_use *use);
/* "1.9 GiB" */
void memory_text(uint64_t bytes, char out[16]);

#endif
