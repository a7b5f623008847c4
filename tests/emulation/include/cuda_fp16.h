/*
 * tests/emulation/include/cuda_fp16.h - the twin of CUDA's header: binary16 as bits, and
 * its conversions. tests/unit/test_emulation.c compares them with precision/format.c. A
 * NaN becomes the one that the hardware produces, without sign or payload (CUDA 13.0's
 * cuda_fp16.hpp, __internal_float2half and __internal_half2float).
 */
#ifndef TESTS_EMULATION_CUDA_FP16_H
#define TESTS_EMULATION_CUDA_FP16_H

#include <cuda_runtime.h>

struct __half_raw {
    unsigned short x;
};
struct __half {
    unsigned short bits;
};
struct __attribute__((aligned(4))) __half2 {
    __half x, y;
};
typedef __half half;
typedef __half2 half2;

static inline float __half2float(__half h)
{
    uint32_t sign = (h.bits & 0x8000u) << 16, exponent = h.bits >> 10 & 31,
             rest = h.bits & 0x3ffu;

    if (exponent == 31)
        return __uint_as_float(rest ? 0x7fffffffu : sign | 0x7f800000u);
    if (exponent == 0)
        return copysignf((float)rest * 0x1p-24f, sign ? -1.0f : 1.0f);
    return __uint_as_float(sign | (exponent + 112) << 23 | rest << 13);
}

static inline __half __float2half_rn(float x)
{
    uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u;
    float size = fabsf(x);
    uint32_t out;

    if (isnan(x))
        return { 0x7fffu };
    if (size >= 65520.0f)
        out = 0x7c00u;
    else if (size < 0x1p-14f)
        /* the sum rounds to units of 2^-24 */
        out = __float_as_uint(size + 0.5f) - 0x3f000000u;
    else
        out = (__float_as_uint(size) + 0xfffu + (bits >> 13 & 1) - (112u << 23)) >> 13;
    return { (unsigned short)(sign | out) };
}

static inline __half __float2half(float x)
{
    return __float2half_rn(x);
}
static inline unsigned short __half_as_ushort(__half h)
{
    return h.bits;
}
static inline __half __ushort_as_half(unsigned short bits)
{
    return { bits };
}
static inline __half2 __halves2half2(__half x, __half y)
{
    return { x, y };
}
static inline __half __low2half(__half2 h)
{
    return h.x;
}
static inline __half __high2half(__half2 h)
{
    return h.y;
}
static inline float __low2float(__half2 h)
{
    return __half2float(h.x);
}
static inline float __high2float(__half2 h)
{
    return __half2float(h.y);
}
static inline float2 __half22float2(__half2 h)
{
    return { __half2float(h.x), __half2float(h.y) };
}
static inline __half2 __floats2half2_rn(float x, float y)
{
    return { __float2half_rn(x), __float2half_rn(y) };
}
static inline __half2 __float22half2_rn(float2 f)
{
    return __floats2half2_rn(f.x, f.y);
}

#endif
