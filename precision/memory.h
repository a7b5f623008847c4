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
    uint64_t limit;       /* what the job may use; 0: not known */
    bool fits;            /* total <= limit, or limit not known */
};

/* `wanted` is memory_limit of the job: NULL (95 % of what is available), "80%" (of what is
 * available), or bytes ("12GiB").  ERROR_JOB if it is none of these. */
bool memory_limit(const char *wanted, const struct device *device, uint64_t *out,
                  struct error *err);
/*
 * What a device's backend holds besides the block of a plan: nothing that could be foretold
 * on a CPU; on a GPU
 *     MEMORY_CUDA_CONTEXT    the driver's context, 300 to 500 MiB on cards from 7.5 on, as
 *                            nvidia-smi shows for an idle process; not of a device of this
 *                            machine: who asks it what is free has a context while he asks
 *     MEMORY_CUDA_CODE       kernels as they are loaded, recorded steps
 *     MEMORY_CUDA_PRODUCTS   workspace of cuBLASLt, what NVIDIA advises for 9.0 (cuBLAS
 *                            documentation, cublasSetWorkspace)
 *     MEMORY_CUDA_SCRATCH    scratch of our kernels, and small things
 */
#define MEMORY_CUDA_CONTEXT  ((uint64_t)400 << 20)
#define MEMORY_CUDA_CODE     ((uint64_t)256 << 20)
#define MEMORY_CUDA_PRODUCTS ((uint64_t)32 << 20)
#define MEMORY_CUDA_SCRATCH  ((uint64_t)65 << 20)
uint64_t memory_held(const struct device *device);
/* Sum up, compare. */
void memory_finish(struct memory_use *use, uint64_t limit);
/* "1.9 GiB" */
void memory_text(uint64_t bytes, char out[16]);

#endif
