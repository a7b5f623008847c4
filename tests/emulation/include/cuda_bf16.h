/*
 * tests/emulation/include/cuda_bf16.h - the twin of CUDA's header: bfloat16 as bits, and
 * its conversions. Conversion to fp32 moves the bits, also those of a NaN; conversion
 * from fp32 turns a NaN into the one that the hardware produces (CUDA 13.0's
 * cuda_bf16.hpp, __internal_float2bfloat16).
 */
#ifndef TESTS_EMULATION_CUDA_BF16_H
#define TESTS_EMULATION_CUDA_BF16_H

#include <cuda_runtime.h>

struct __nv_bfloat16 {
    unsigned short bits;
};
struct __attribute__((aligned(4))) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 b)
{
    return __uint_as_float((uint32_t)b.bits << 16);
}

static inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    uint32_t bits = __float_as_uint(x);

    if (isnan(x))
        return { 0x7fffu };
    return { (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16) };
}

static inline __nv_bfloat16 __float2bfloat16(float x)
{
    return __float2bfloat16_rn(x);
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 b)
{
    return b.bits;
}
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits)
{
    return { bits };
}
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y)
{
    return { x, y };
}
static inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 b)
{
    return b.x;
}
static inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 b)
{
    return b.y;
}
static inline float __low2float(__nv_bfloat162 b)
{
    return __bfloat162float(b.x);
}
static inline float __high2float(__nv_bfloat162 b)
{
    return __bfloat162float(b.y);
}
static inline float2 __bfloat1622float2(__nv_bfloat162 b)
{
    return { __bfloat162float(b.x), __bfloat162float(b.y) };
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return { __float2bfloat16_rn(x), __float2bfloat16_rn(y) };
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 f)
{
    return __floats2bfloat162_rn(f.x, f.y);
}

#endif
