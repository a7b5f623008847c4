/*
 * tests/emulation/emulation.h - CUDA without a GPU, for tests.
 *
 * The .cu files of kernels/cuda are compiled by the host's compiler against the headers
 * in include/ and emulation_hardware.h.  A launch is put into its stream and runs when
 * somebody waits for it, block after block; the threads of a block are fibres that take
 * turns at barriers and warp collectives, in an order drawn from a seed.
 *
 * What is found: a barrier or collective that not all reach, a collective whose mask
 * names a lane that is not there, sizes that the device does not have, shared memory
 * written out of bounds, instructions that the device's capability lacks; under ASan and
 * UBSan every access out of bounds or alignment; with the kernels instrumented
 * (emulation_races.cc) every race, and every read of memory that nobody has written.
 * Memory from cudaMalloc and shared memory start out as NaN, a thread's own variables as
 * wild numbers.  A finding is printed, is the status of the next wait, and stays until
 * emulation_reset, as a failure of a GPU would.
 *
 * A new kernel takes nothing but to lie in kernels/cuda: every .cu there is compiled
 * twice, as it is (with the sanitizers of the build) and with each access reported to
 * emulation_races.cc.  Its operation's test in tests/unit is linked with both by two
 * names in emulation.mk, test_emulated_NAME and test_races_NAME, which ../local.mk lists.
 * A word of CUDA C that is not known yet goes into include/cuda_runtime.h, an instruction
 * into emulation_hardware.h.  What a kernel works on comes from machines_memory() or
 * cudaMalloc. A shuffle orders no memory, here as in CUDA: __syncwarp() stands where one
 * lane reads what another wrote.
 *
 * Variables of the environment, for whole programs: EMULATION_CONTEXTS, a file that gets
 * the ordinal of each device on which a context is made; EMULATION_LOSES, a number: the
 * launch after so many finds the card lost, and the driver's exit handler, which waits
 * for it, does not come back.
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

/* A machine with these devices (copied; at most 8), nothing allocated, nothing failed.
 * NULL, or no call: 8.0, 8.0, 7.5, 9.0, 6.1 of 4 GiB each; where races are looked for
 * 8.0, 7.5, 6.1. */
void emulation_reset(const struct emulation_device *devices, size_t count);
/* The order of blocks and threads from here on. */
void emulation_seed(uint64_t seed);
/* The first finding since the reset, or "". */
const char *emulation_failure(void);
/* Do not print findings: for tests that plant one. */
void emulation_quiet(bool quiet);

/* The launch after `launches` more gives this status. */
void emulation_break_launch(size_t launches, cudaError_t status);
/* From here on cudaGetDeviceCount gives this status ... */
void emulation_break_driver(cudaError_t status);
/* ... and cudaMemGetInfo this one ... */
void emulation_break_memory_info(cudaError_t status);
/* ... and looking at a kernel this one: cudaErrorNoKernelImageForDevice, or what opening
 * a card may give. */
void emulation_break_code(cudaError_t status);
/* The next kernel is launched well and gives this status when it runs. */
void emulation_break_run(cudaError_t status);
/* From here on cuDNN is of this version (91002: 9.10.2; 0: not there), and its plans end
 * with this status when they are finalized (0: as it should be). */
void emulation_cudnn(size_t version, int plan_status);
/* From here on the end of a capture gives this status. */
void emulation_break_capture(cudaError_t status);
/* From here on a graph gets no memory on the device: its upload, or else its first
 * launch, gives this status. */
void emulation_break_graph(cudaError_t status);
/* Nothing put into a stream gets done any more; a call that waits for it ends the
 * test. */
void emulation_hang(bool hangs);
/* From here on cudaMalloc does not come back. */
void emulation_stick(void);
/* cuda_library_open fails. */
void emulation_break_library(bool missing);
/* Where sums may be split, the library knows only algorithms that split them in three. */
void emulation_only_split(bool only);
/* It finds no algorithm for want of memory. */
void emulation_busy_library(bool is_busy);
/* Kernels run (not just launched) since the reset, those of graphs as well. */
size_t emulation_kernels_run(void);
/* Bytes and blocks that are allocated on all devices. */
size_t emulation_bytes_held(void);
/* What GPUs have done together in this process, a letter each: r reduce, a all_reduce, g
 * all_gather; a capital is one of a MiB or more. */
const char *emulation_together(void);
/* Devices on which there has been a context since the reset. */
size_t emulation_contexts(void);

#ifdef __cplusplus
}
#endif

#endif
