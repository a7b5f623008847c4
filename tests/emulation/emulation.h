/*
 * tests/emulation/emulation.h - CUDA without a GPU, for tests.
 *
 * The host's compiler compiles the .cu files of kernels/cuda against the headers in
 * include/ and emulation_hardware.h. A launch is put into its stream and runs when a call
 * waits for it, block after block. The threads of a block are fibers that take turns at
 * barriers and warp collectives, in an order drawn from a seed.
 *
 * It finds: a barrier or collective that not all threads reach, a collective whose mask
 * names a missing lane, sizes that the device does not support, shared memory written out
 * of bounds, instructions that the capability of the device lacks; under ASan and UBSan
 * every out-of-bounds or misaligned access; with instrumented kernels
 * (emulation_races.cc) every race and every read of uninitialized memory. Memory from
 * cudaMalloc and shared memory start as NaN, a thread's own variables as a pattern. A
 * finding is printed, becomes the status of the next wait, and stays until
 * emulation_reset, like a failure of a GPU.
 *
 * A new kernel only has to be in kernels/cuda: every .cu file there is compiled twice,
 * once with the sanitizers of the build and once with each access reported to
 * emulation_races.cc. The test of its operation in tests/unit is linked with both under
 * two names in emulation.mk, test_emulated_NAME and test_races_NAME, which ../local.mk
 * lists. A part of CUDA C that is missing goes into include/cuda_runtime.h, an
 * instruction into emulation_hardware.h. The operands of a kernel come from
 * machines_memory() or cudaMalloc. A shuffle does not order memory, here as in CUDA:
 * __syncwarp() is required where one lane reads what another wrote.
 *
 * Environment variables, for whole programs: EMULATION_CONTEXTS names a file that
 * receives the ordinal of each device on which a context is created. EMULATION_LOSES is a
 * number: the launch after that many finds the device lost, and the driver's exit
 * handler, which waits for it, does not return. EMULATION_VARIANTS=9,4 are the times of
 * emulation_offer_variants.
 */
#ifndef TESTS_EMULATION_EMULATION_H
#define TESTS_EMULATION_EMULATION_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct emulation_device {
    const char *name;
    int capability; /* 75, 80, ... */
    int multiprocessors;
    size_t memory; /* bytes */
};

/* Reset to a machine with these devices (copied; at most 8), nothing allocated, nothing
 * failed. NULL, or no call: 8.0, 8.0, 7.5, 9.0, 6.1 with 4 GiB each; in programs that
 * look for races 8.0, 7.5, 6.1. */
void emulation_reset(const struct emulation_device *devices, size_t count);
/* Set the seed of the order of blocks and threads. */
void emulation_seed(uint64_t seed);
/* Return the first finding since the reset, or "". */
const char *emulation_failure(void);
/* Do not print findings, for tests that expect one. */
void emulation_quiet(bool quiet);

/* Make the launch after `launches` more return this status. */
void emulation_break_launch(size_t launches, cudaError_t status);
/* Make cudaGetDeviceCount return this status from now on. */
void emulation_break_driver(cudaError_t status);
/* Make cudaMemGetInfo return this status from now on. */
void emulation_break_memory_info(cudaError_t status);
/* Make cudaFuncGetAttributes return this status from now on:
 * cudaErrorNoKernelImageForDevice, or a status of opening a device. */
void emulation_break_code(cudaError_t status);
/* Make the next kernel launch successfully and return this status when it runs. */
void emulation_break_run(cudaError_t status);
/* Set the version of cuDNN (91002: 9.10.2; 0, the default: EMULATION_CUDNN in the
 * environment, or missing), and the status with which finalizing its plans fails (0:
 * success). */
void emulation_cudnn(size_t version, int plan_status);
/* Make the end of a capture return this status from now on. */
void emulation_break_capture(cudaError_t status);
/* Deny graphs memory on the device from now on: the upload, or else the first launch,
 * returns this status. */
void emulation_break_graph(cudaError_t status);
/* What NVML says of a card. find and query: statuses of finding it and of the rest; recovery:
 * the action it needs; missing, old: there is no NVML, or one with few functions. total and
 * free: the memory of all cards. */
struct emulation_health {
    long card;
    int find, query;
    unsigned long long errors, total, free;
    unsigned recovery;
    bool bad_rows, missing, old;
    bool silent; /* about `recovery`: a driver before 570 */
};
/* Zeroed: all are well. */
void emulation_set_health(const struct emulation_health *of_card);
/* Stop executing work in streams; a call that waits for it ends the test. */
void emulation_hang(bool hangs);
/* Make cudaMalloc block forever from now on. */
void emulation_block_malloc(void);
/* Make cuda_library_open fail. */
void emulation_break_library(bool missing);
/* Where sums may be split, offer only algorithms that split them in three. */
void emulation_offer_only_split(bool only);
/* After those of the others, offer algorithms that take this long, on the clock of events,
 * and give other bits; the first is the one that is always there. 0: no others, no time. */
enum { EMULATION_VARIANTS = 12 };
void emulation_offer_variants(const double *microseconds, size_t count);
/* Return how many matmuls have been put into a stream, and how often the time between two
 * events was asked for, in this process. */
size_t emulation_matmuls_enqueued(void);
size_t emulation_timings(void);
/* Find no algorithm because the library is out of memory. */
void emulation_exhaust_library(bool is_busy);
/* Return the number of kernels run (not only launched) since the reset, including
 * graphs. */
size_t emulation_kernels_run(void);
/* Return the number of pieces of work that wait in streams; a graph is one. */
size_t emulation_work_left(void);
/* Return the number of bytes allocated on all devices. */
size_t emulation_bytes_held(void);
/* Return the collectives of this process, one letter each: r reduce, a all_reduce, g
 * all_gather; a capital letter if the data is a MiB or more. */
const char *emulation_collectives(void);
/* Return the number of devices with a context since the reset. */
size_t emulation_contexts(void);

#ifdef __cplusplus
}
#endif

#endif
