/*
 * tests/emulation/emulation_samples.h - small kernels, correct and incorrect, that test
 * the emulator.
 */
#ifndef TESTS_EMULATION_EMULATION_SAMPLES_H
#define TESTS_EMULATION_EMULATION_SAMPLES_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each is described at its kernel; those at the end, and every RACE, are incorrect. */
enum sample {
    SAMPLE_SHUFFLES,
    SAMPLE_VOTES,
    SAMPLE_MMA_FP16,
    SAMPLE_MMA_BF16,
    SAMPLE_LOAD,
    SAMPLE_LOAD_TRANSPOSED,
    SAMPLE_COPIES,
    SAMPLE_COPIES_UNWAITED,
    SAMPLE_SUM,
    SAMPLE_ATOMIC,
    SAMPLE_BYTES,
    SAMPLE_NEIGHBOR,
    SAMPLE_NEIGHBOR_RACE,
    SAMPLE_WARP_NEIGHBOR,
    SAMPLE_WARP_NEIGHBOR_RACE,
    SAMPLE_SHUFFLE_IS_NO_BARRIER,
    SAMPLE_READ_THEN_WRITE_RACE,
    SAMPLE_BLOCKS_RACE,
    SAMPLE_BLOCKS_READ_RACE,
    SAMPLE_ATOMIC_RACE,
    SAMPLE_LEAVES_BEFORE_BARRIER,
    SAMPLE_TWO_BARRIERS,
    SAMPLE_LANE_HAS_LEFT,
    SAMPLE_TWO_COLLECTIVES,
    SAMPLE_SOURCE_NOT_IN_MASK,
    SAMPLE_SHARED_OVERRUN,
    SAMPLE_SHARED_OVERREAD,
    SAMPLE_MISALIGNED,
    SAMPLE_READS_SHARED_UNWRITTEN,
    SAMPLE_READS_UNWRITTEN_AND_LOST,
    SAMPLE_READS_UNWRITTEN_INDEX,
    SAMPLE_READS_UNWRITTEN_HALF,
    SAMPLE_READS_UNWRITTEN_BYTE,
    SAMPLE_READS_UNWRITTEN_COUNT,
    SAMPLE_READS_UNWRITTEN_ROW,
    SAMPLE_READS_VARIABLE_UNWRITTEN,
    SAMPLE_ORDER,
    SAMPLE_ADD_ONE,
    SAMPLES
};

struct sample_size {
    unsigned blocks, blocks_y, threads;
    size_t shared;
};

/* Launch it in the stream. */
cudaError_t sample_launch(enum sample sample, struct sample_size size,
                          cudaStream_t stream, void *a, void *b);
/* Return whether the kernels are compiled to find races. */
bool samples_checked(void);
/* Return whether a thread's variables start as a pattern. */
bool samples_filled(void);

/* Conversions of the twin headers. */
float sample_from_fp16(uint16_t bits);
float sample_from_bf16(uint16_t bits);
uint16_t sample_to_fp16(float x);
uint16_t sample_to_bf16(float x);

#ifdef __cplusplus
}
#endif

#endif
