/*
 * tests/emulation/emulation_hopper_samples.h - a matmul of a warpgroup, right and wrong,
 * that tests the emulator.
 */
#ifndef TESTS_EMULATION_EMULATION_HOPPER_SAMPLES_H
#define TESTS_EMULATION_EMULATION_HOPPER_SAMPLES_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first three are right. TURNED: b is (depth, columns). */
enum hopper_sample {
    HOPPER_SAMPLE_UPRIGHT,
    HOPPER_SAMPLE_TURNED,
    HOPPER_SAMPLE_REGISTERS, /* and turned */
    HOPPER_SAMPLE_NO_WAIT,
    HOPPER_SAMPLE_NO_BEGIN,
    HOPPER_SAMPLE_UNPUBLISHED,
    HOPPER_SAMPLE_OVERWRITTEN,
    HOPPER_SAMPLE_LEFT_OVERWRITTEN,
    HOPPER_SAMPLE_GATE_STAYS_CLOSED,
    HOPPER_SAMPLE_GATE_UNINITIALIZED,
    HOPPER_SAMPLES
};

/* d (64, 64) fp32 = a (64, 64) b^T, or a b; a and b in fp16 */
cudaError_t hopper_sample_launch(enum hopper_sample sample, float *d, const void *a,
                                 const void *b);

#ifdef __cplusplus
}
#endif

#endif
