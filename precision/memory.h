/* precision/memory.h - the bytes a plan needs, and the bytes there are. */
#ifndef PRECISION_MEMORY_H
#define PRECISION_MEMORY_H

#include "precision/device.h"

struct memory_use {
    uint64_t weights; /* trainable and frozen, with 16-bit working copies */
    uint64_t gradients;
    uint64_t optimizer;   /* both moments */
    uint64_t activations; /* what the backward pass needs, and its own gradients */
    uint64_t workspace;   /* classifier chunks, packed panels, tokens */
    uint64_t total;
    uint64_t low, high; /* total is between; both are total where it is exact */
    uint64_t limit;     /* what the job may use; 0: not known */
    bool fits;          /* total <= limit, or limit not known */
};

/* `wanted` is memory_limit of the job: NULL (95 % of what is available), "80%" (of what
 * is available), or bytes ("12GiB").  ERROR_JOB if it is none of these. */
bool memory_limit(const char *wanted, const struct device *device, uint64_t *out,
                  struct error *err);
/*
 * What a device's backend holds besides the block of a plan.  On a GPU
 *     MEMORY_CUDA_CONTEXT    the driver's context, 300 to 500 MiB on cards from 7.5 on,
 *     as
 *                            nvidia-smi shows for an idle process; not of a device of
 *                            this machine: who asks it what is free has a context while
 *                            he asks
 *     MEMORY_CUDA_CODE       kernels as they are loaded, recorded steps
 *     MEMORY_CUDA_PRODUCTS   workspace of cuBLASLt, what NVIDIA advises for 9.0 (cuBLAS
 *                            documentation, cublasSetWorkspace), and 4 MiB before
 *     MEMORY_CUDA_SCRATCH    scratch of our kernels, and small things
 * of which _SPREAD may be more or less: of the context 100 MiB, of code the half.  On a
 * CPU nothing is sure but what is touched, and that is at most
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

/*
 * What NCCL holds besides on each GPU of several in one machine, for the sums of
 * kernels/cuda/cuda_group.c: reckoned from the source of NCCL 2.30.7, whose buffers are
 * those of 2.14, and not measured.  Of R ranks
 *
 *     CODE + TABLES + channels * neighbours * NEIGHBOUR + shared * (R + 1) * SHARED
 *
 *     CODE        kernels, which ncclInitKernelsForDevice (enqueue.cc) has all loaded: of
 *                 libnccl 2.28.9 for CUDA 13 101 MiB for 9.0, 128 for 10.0
 *     TABLES      initChannel (channel.cc): three a channel, for 32 channels (24 rounded
 *     up
 *                 by ncclTopoComputeP2pChannels, graph/paths.cc) in pieces of 2 MiB, as
 *                 ncclCuMemAlloc (include/alloc.h) has them; and small ones of
 *                 devCommSetup
 *     NEIGHBOUR   p2pRecvSetup (transport/p2p.cc): 0.5 MiB of LL, 4.7 of LL128 and 4 of
 *                 Simple (DEFAULT_LL_BUFFSIZE and below, init.cc), up to the next 2 MiB;
 *                 p2pSendSetup: 2 MiB.  On 8.0 Simple is the sender's, 6 MiB each
 *     channels    24 where NVLink of 8.0 or 9.0 is, 32 of 10.0: ncclTopoCompute
 *                 (graph/search.cc), twice by ncclTopoPostset (graph/connect.cc); over
 *                 PCIe 2 to 4
 *     neighbours  a ring hears one and tells another, which reduce and all_gather take; a
 *                 tree, for all_reduce, does both with two, one more if it goes as the
 *                 ring does, two if not (ncclTransportRingConnect and the next,
 *                 transport/generic.cc).  As many as there are others at most
 *     SHARED      sums in the switch (NVLS, from 9.0 on), 16 channels, 24 from 10.0 on:
 *                 initNvlsChannel 2 MiB each, ncclNvlsBufferSetup (transport/nvls.cc) 8
 *                 steps of 128 KiB there and back for each rank
 *
 * Which of it is taken turns on links that nobody knows before the run, so more is
 * expected than most take: NVLink with a switch of 9.0.  At most it is one of 10.0 and a
 * tree with another order; at least half of the code, with all buffers in the host's
 * memory (transport/shm.cc), as between cards that cannot reach each other.
 */
#define MEMORY_NCCL_CODE      ((uint64_t)128 << 20)
#define MEMORY_NCCL_TABLES    ((uint64_t)(32 * 6 + 8) << 20)
#define MEMORY_NCCL_NEIGHBOUR ((uint64_t)12 << 20)
#define MEMORY_NCCL_SHARED    ((uint64_t)2 << 20)

/* Bytes of which nobody knows the exact number. */
struct memory_range {
    uint64_t low, expected, high;
};
struct memory_range memory_range_sum(struct memory_range a, struct memory_range b);
struct memory_range memory_range_exact(uint64_t bytes);

/* By so many threads on a CPU; 0: the device's. */
struct memory_range memory_held(const struct device *device, int threads);
/* Of each device, by so many ranks of one run; nothing on a CPU, or of one. */
struct memory_range memory_group(const struct device *device, size_t ranks);
/* Sum up, compare; low and high are put around the total where they are not. */
void memory_finish(struct memory_use *use, uint64_t limit);
/* The memory may not suffice though the total does: limit is below high. */
bool memory_is_close(const struct memory_use *use);
/* "1.9 GiB" */
void memory_text(uint64_t bytes, char out[16]);

#endif
