/*
 * tests/emulation/emulation_hardware.h - the twin of kernels/cuda/hardware.cuh, read before it so
 * that its guard keeps the original out.  The contract is that of the original; fragments are
 * put together in emulation_warp.cc.
 *
 * A copy of 16 bytes is made as late as allowed: at the wait that names its group, or never.
 * Until then the place is as if nobody had written it.
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

static inline void emulation_mma(emulation_meeting kind, float *d, const uint32_t *a,
                                 const uint32_t *b)
{
    emulation_offer offer = {};

    offer.kind = kind;
    offer.mask = 0xffffffffu;
    offer.d = d;
    offer.a = a;
    offer.b = b;
    emulation_meet(&offer);
}

static inline void mma_fp16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    emulation_mma(MEET_MMA_FP16, d, a, b);
}

static inline void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    emulation_mma(MEET_MMA_BF16, d, a, b);
}

static inline void emulation_load(emulation_meeting kind, uint32_t *out, const void *row)
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

template <int n>
static inline void copies_wait()
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
    return exp2f(x);
}

static inline float log2_fast(float x)
{
    return log2f(x);
}

#endif
