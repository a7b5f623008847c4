/* precision/memory.h - the bytes a plan needs, and the bytes available. */
#ifndef PRECISION_MEMORY_H
#define PRECISION_MEMORY_H

#include "precision/device.h"

struct memory_use {
    uint64_t weights; /* trainable and frozen, with 16-bit working copies */
    uint64_t gradients;
    uint64_t optimizer;   /* both moments */
    uint64_t activations; /* saved for the backward pass, and its own gradients */
    uint64_t workspace;   /* classifier chunks, packed panels, tokens */
    uint64_t host;        /* moments that are in host memory instead; not in total */
    uint64_t total;
    uint64_t low, high; /* bounds of total; both equal total if it is exact */
    uint64_t limit;     /* bytes the job may use; 0: unknown */
    bool fits;          /* total <= limit, or limit unknown */
};

/* `wanted` is the job's memory_limit: NULL (95 % of the available memory), "80%" (of the
 * available memory), or bytes ("12GiB").  ERROR_JOB for any other text. */
bool memory_limit(const char *wanted, const struct device *device, uint64_t *out,
                  struct error *err);
/*
 * Memory that a backend uses in addition to the block of a plan.  On a GPU
 *     MEMORY_CUDA_CONTEXT    the driver's context, 300 to 500 MiB on cards from 7.5 on,
 *                            as nvidia-smi shows for an idle process; not counted for a
 *                            device of this machine: a process that queries its free
 *                            memory already has a context
 *     MEMORY_CUDA_CODE       kernels as they are loaded, recorded steps; 8 MiB of cuDNN
 *                            (9.19 on an H100)
 *     MEMORY_CUDA_MATMULS   cuBLASLt workspace, as NVIDIA advises for 9.0 (cuBLAS
 *                            documentation, cublasSetWorkspace), and 4 MiB before 9.0
 *     MEMORY_CUDA_SCRATCH    scratch of our kernels, and small allocations
 * The uncertainty is _SPREAD either way: 100 MiB of the context, half of the code.  On a
 * CPU only touched memory is used for certain, and at most
 *     MEMORY_CPU_SUMS        partial sums of matmuls (kernels/cpu/cpu_matmul_grid.h)
 *     MEMORY_CPU_THREAD      a thread's panels and scratch, 2 MiB each
 */
#define MEMORY_CUDA_CONTEXT        ((uint64_t)400 << 20)
#define MEMORY_CUDA_CONTEXT_SPREAD ((uint64_t)100 << 20)
#define MEMORY_CUDA_CODE           ((uint64_t)256 << 20)
#define MEMORY_CUDA_CODE_SPREAD    ((uint64_t)128 << 20)
#define MEMORY_CUDA_MATMULS        ((uint64_t)32 << 20)
#define MEMORY_CUDA_SCRATCH        ((uint64_t)65 << 20)
#define MEMORY_CPU_SUMS            ((uint64_t)16 << 20)
#define MEMORY_CPU_THREAD          ((uint64_t)4 << 20)

/*
 * Memory that NCCL uses in addition on each of several GPUs, for the sums
 * of kernels/cuda/cuda_group.c: computed from the source of NCCL 2.30.7, whose buffers
 * are those of 2.14, and not measured.  With R ranks, of which L are in one machine,
 *
 *     CODE + TABLES + channels * neighbors * NEIGHBOR + shared * (L + 1) * SHARED
 *
 *     CODE        kernels, all loaded by ncclInitKernelsForDevice (enqueue.cc): in
 *                 libnccl 2.28.9 for CUDA 13, 101 MiB for 9.0, 128 for 10.0
 *     TABLES      initChannel (channel.cc): three per channel, for 32 channels (24
 *                 rounded up by ncclTopoComputeP2pChannels, graph/paths.cc), allocated in
 *                 pieces of 2 MiB by ncclCuMemAlloc (include/alloc.h); and small ones of
 *                 devCommSetup
 *     NEIGHBOR   p2pRecvSetup (transport/p2p.cc): 0.5 MiB for LL, 4.7 for LL128 and 4
 *                 for Simple (DEFAULT_LL_BUFFSIZE and below, init.cc), rounded up to
 *                 2 MiB; p2pSendSetup: 2 MiB.  On 8.0 the sender holds the Simple buffer,
 *                 6 MiB each
 *     channels    24 with the NVLink of 8.0 or 9.0, 32 on 10.0: ncclTopoCompute
 *                 (graph/search.cc), doubled by ncclTopoPostset (graph/connect.cc); 2 to
 *                 4 over PCIe
 *     neighbors   a ring, used by reduce and all_gather, receives from one and sends to
 *                 another; a tree, used by all_reduce, does both with two: one more if it
 *                 follows the ring's order, two more if not (ncclTransportRingConnect and
 *                 the function after it, transport/generic.cc).  At most R - 1
 *     SHARED      sums in the switch (NVLS, from 9.0 on), 16 channels, 24 from 10.0 on:
 *                 initNvlsChannel 2 MiB each, ncclNvlsBufferSetup (transport/nvls.cc) 8
 *                 steps of 128 KiB in each direction for each rank of the machine; none
 *                 if L is 1
 *
 * Which of these apply depends on links that are unknown before the run, so the expected
 * value is more than most machines need: 9.0 with NVLink and a switch.  The upper bound
 * is 10.0 and a tree in another order; the lower bound is half of the code, with all
 * buffers in host memory (transport/shm.cc), as between cards without peer access.
 */
#define MEMORY_NCCL_CODE     ((uint64_t)128 << 20)
#define MEMORY_NCCL_TABLES   ((uint64_t)(32 * 6 + 8) << 20)
#define MEMORY_NCCL_NEIGHBOR ((uint64_t)12 << 20)
#define MEMORY_NCCL_SHARED   ((uint64_t)2 << 20)

/*
 * Windows of the values that ranks on CPUs sum: kernels/cpu/cpu_rendezvous.c maps two of
 * 256 KiB of each rank, and kernels/cpu/cpu_mesh.c has MEMORY_MESH_SLICE values of each, in
 * float32 and in bf16, but at most MEMORY_MESH_VALUES in all.
 */
#define MEMORY_MESH_SLICE  ((size_t)64 << 10)
#define MEMORY_MESH_VALUES ((size_t)4 << 20)
#define MEMORY_CPU_RANK    ((uint64_t)512 << 10)

/* Room for gradients that a rank sends in bf16, a piece at a time. */
#define MEMORY_ROUNDED_GRADIENTS ((uint64_t)16 << 20)

/* A byte count known only within bounds. */
struct memory_range {
    uint64_t low, expected, high;
};
struct memory_range memory_range_sum(struct memory_range a, struct memory_range b);
struct memory_range memory_range_exact(uint64_t bytes);

/* Memory used with this many threads on a CPU; 0 threads: the device's count. */
struct memory_range memory_overhead(const struct device *device, int threads);
/* Memory used on each device by a run of this many ranks, so many of them on one machine; 0
 * on a CPU or for one rank. */
struct memory_range memory_group_overhead(const struct device *device, size_t ranks,
                                          size_t local);
/* The most memory that each process of so many ranks on CPUs uses to send values. */
uint64_t memory_cpu_group(size_t ranks);
/* Sum and compare with the limit; low and high are widened to enclose the total. */
void memory_finish(struct memory_use *use, uint64_t limit);
/* Return whether memory may run out although the total fits: limit is below high. */
bool memory_is_close(const struct memory_use *use);
/* "1.9 GiB" */
void memory_text(uint64_t bytes, char out[16]);

#endif
