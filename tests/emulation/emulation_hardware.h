/*
 * tests/emulation/emulation_hardware.h - the twin of kernels/cuda/hardware.cuh, included
 * before it so that its include guard excludes the original. The contract is that of the
 * original; fragments are multiplied in emulation_warp.cc and loaded in
 * emulation_copy.cc.
 *
 * A copy of 16 bytes happens as late as allowed: at the wait that names its group, or
 * never. Until then the destination counts as uninitialized.
 */
#ifndef TESTS_EMULATION_EMULATION_HARDWARE_H
#define TESTS_EMULATION_EMULATION_HARDWARE_H

#define KERNELS_CUDA_HARDWARE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define launch(...) emulation_start(#__VA_ARGS__, EMULATION_HERE, __VA_ARGS__)

static inline void *shared_memory()
{
    return emulation_shared();
}

/* Fragments are read and written here, where the sanitizers of a kernel see it. */
static inline void emulation_mma(emulation_rendezvous kind, float *d, const uint32_t *a,
                                 const uint32_t *b)
{
    const uint32_t a_parts[4] = { a[0], a[1], a[2], a[3] }, b_parts[2] = { b[0], b[1] };
    float d_parts[4] = { d[0], d[1], d[2], d[3] };
    emulation_offer offer = {};

    offer.kind = kind;
    offer.mask = 0xffffffffu;
    offer.d = d_parts;
    offer.a = a_parts;
    offer.b = b_parts;
    emulation_meet(&offer);
    for (int i = 0; i < 4; i++)
        d[i] = d_parts[i];
}

static inline void mma_fp16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    emulation_mma(MEET_MMA_FP16, d, a, b);
}

static inline void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    emulation_mma(MEET_MMA_BF16, d, a, b);
}

static inline void emulation_load(emulation_rendezvous kind, uint32_t *out,
                                  const void *row)
{
    emulation_offer offer = {};

    offer.kind = kind;
    offer.mask = 0xffffffffu;
    offer.row = row;
    offer.out = out;
    emulation_meet(&offer);
}

static inline void load_matrices(uint32_t out[4], const void *row)
{
    emulation_load(MEET_LOAD, out, row);
}

static inline void load_matrices_transposed(uint32_t out[4], const void *row)
{
    emulation_load(MEET_LOAD_TRANSPOSED, out, row);
}

static inline void copy_16_bytes(void *to, const void *from, bool there)
{
    emulation_copy(to, from, there);
}

static inline void copies_close()
{
    emulation_copies_close();
}

template <int n> static inline void copies_wait()
{
    emulation_copies_wait(n);
}

static inline uint32_t pack_fp16(float low, float high)
{
    return __float2half_rn(low).bits | (uint32_t)__float2half_rn(high).bits << 16;
}

static inline uint32_t pack_bf16(float low, float high)
{
    return __float2bfloat16_rn(low).bits | (uint32_t)__float2bfloat16_rn(high).bits << 16;
}

static inline float exp2_fast(float x)
{
    float y = exp2f(x);

    return y < 0x1p-126f ? 0 : y;
}

static inline float log2_fast(float x)
{
    return log2f(x < 0x1p-126f && x >= 0 ? 0 : x);
}

#include "tests/emulation/emulation_hopper.h"

#endif
