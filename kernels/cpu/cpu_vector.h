/*
 * kernels/cpu/cpu_vector.h - a vector of floats as wide as the instruction set allows,
 * loads and stores by format, and the few functions kernels need.
 *
 * A kernel's file is built once for each instruction set (kernels/cpu/cpu_ops.h); the
 * flags of that build choose one of the three blocks below. +, -, * and / are the
 * compiler's; a * b + c becomes one fused operation where the CPU has one. NaN and inf
 * propagate through all of it.
 */
#ifndef KERNELS_CPU_CPU_VECTOR_H
#define KERNELS_CPU_CPU_VECTOR_H

#include "kernels/cpu/cpu_unchecked.h"
#include "precision/format.h"

#include <math.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* For __builtin_shufflevector(a, b, ...): the even and the odd lanes of a and b; and back,
 * the lower and the upper lanes of both in turn. */
#if defined(__AVX512F__)
enum { LANES = 16 };
#define LANES_EVEN  0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define LANES_ODD   1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LANES_LOWER 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define LANES_UPPER 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX2__)
enum { LANES = 8 };
#define LANES_EVEN  0, 2, 4, 6, 8, 10, 12, 14
#define LANES_ODD   1, 3, 5, 7, 9, 11, 13, 15
#define LANES_LOWER 0, 8, 1, 9, 2, 10, 3, 11
#define LANES_UPPER 4, 12, 5, 13, 6, 14, 7, 15
#else
enum { LANES = 4 };
#define LANES_EVEN  0, 2, 4, 6
#define LANES_ODD   1, 3, 5, 7
#define LANES_LOWER 0, 4, 1, 5
#define LANES_UPPER 2, 6, 3, 7
#endif

#define CPU_INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES))); /* a comparison: 0 or -1 */
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));
/* half as many, twice as wide */
typedef uint64_t wvec __attribute__((vector_size(4 * LANES)));

UNCHECKED_INLINE vec vec_all(float x)
{
    return x - (vec) {}; /* not +: -0 stays */
}

CPU_INLINE vec vec_select(ivec mask, vec yes, vec no)
{
    return (vec)((mask & (ivec)yes) | (~mask & (ivec)no));
}

#if defined(__AVX512F__)

/* Return the second if they are unordered. */
CPU_INLINE vec vec_max(vec a, vec b)
{
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
}

CPU_INLINE vec vec_min(vec a, vec b)
{
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
}

CPU_INLINE vec vec_sqrt(vec x)
{
    return (vec)_mm512_sqrt_ps((__m512)x);
}

/* x * 2^n, where n is an integer within the range of vec_exp */
CPU_INLINE vec vec_scale(vec x, vec n)
{
    return (vec)_mm512_scalef_ps((__m512)x, (__m512)n);
}

CPU_INLINE vec vec_of_fp16(const uint16_t *in)
{
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)in));
}

CPU_INLINE void vec_to_fp16(uint16_t *out, vec x)
{
    _mm256_storeu_si256(
        (__m256i *)out,
        _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

CPU_INLINE vec vec_of_bf16(const uint16_t *in)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)in));

    return (vec)_mm512_slli_epi32(wide, 16);
}

/* Not VCVTNEPS2BF16: that instruction treats subnormals as 0. */
CPU_INLINE void vec_to_bf16(uint16_t *out, vec x)
{
    __m512i bits = (__m512i)x;
    __m512i upper = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);

    rounded = _mm512_srli_epi32(rounded, 16);
    rounded = _mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256((__m256i *)out, _mm512_cvtepi32_epi16(rounded));
}

/* Multiply the lower halves. */
CPU_INLINE wvec wvec_product(wvec a, wvec b)
{
    return (wvec)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}

#elif defined(__AVX2__)

CPU_INLINE vec vec_max(vec a, vec b)
{
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
}

CPU_INLINE vec vec_min(vec a, vec b)
{
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
}

CPU_INLINE vec vec_sqrt(vec x)
{
    return (vec)_mm256_sqrt_ps((__m256)x);
}

/* In two steps, so that the result may be subnormal or inf. */
CPU_INLINE vec vec_scale(vec x, vec n)
{
    __m256i whole = _mm256_cvtps_epi32((__m256)n);
    __m256i half = _mm256_srai_epi32(whole, 1);
    __m256i rest = _mm256_sub_epi32(whole, half);
    __m256i one = _mm256_set1_epi32(127);
    vec first = (vec)_mm256_slli_epi32(_mm256_add_epi32(half, one), 23);
    vec second = (vec)_mm256_slli_epi32(_mm256_add_epi32(rest, one), 23);

    return x * first * second;
}

CPU_INLINE vec vec_of_fp16(const uint16_t *in)
{
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)in));
}

CPU_INLINE void vec_to_fp16(uint16_t *out, vec x)
{
    _mm_storeu_si128((__m128i *)out,
                     _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
}

CPU_INLINE vec vec_of_bf16(const uint16_t *in)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)in));

    return (vec)_mm256_slli_epi32(wide, 16);
}

CPU_INLINE void vec_to_bf16(uint16_t *out, vec x)
{
    __m256i bits = (__m256i)x;
    __m256i upper = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    __m256i rounded =
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i nan = (__m256i)_mm256_cmp_ps((__m256)x, (__m256)x, _CMP_UNORD_Q);
    __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));

    rounded = _mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), quiet, nan);
    rounded = _mm256_packus_epi32(rounded, rounded);
    rounded = _mm256_permute4x64_epi64(rounded, 0x08);
    _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(rounded));
}

CPU_INLINE wvec wvec_product(wvec a, wvec b)
{
    return (wvec)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}

#else

CPU_INLINE vec vec_max(vec a, vec b)
{
    return vec_select(a > b, a, b);
}

CPU_INLINE vec vec_min(vec a, vec b)
{
    return vec_select(a < b, a, b);
}

CPU_INLINE vec vec_sqrt(vec x)
{
    for (int i = 0; i < LANES; i++)
        x[i] = sqrtf(x[i]);
    return x;
}

CPU_INLINE vec vec_scale(vec x, vec n)
{
    ivec whole = __builtin_convertvector(vec_select(n == n, n, (vec) {}), ivec);
    ivec half = whole >> 1;
    vec first = (vec)((half + 127) << 23);
    vec second = (vec)((whole - half + 127) << 23);

    return x * first * second;
}

CPU_INLINE vec vec_of_fp16(const uint16_t *in)
{
    vec x;

    for (int i = 0; i < LANES; i++)
        x[i] = format_from_fp16(in[i]);
    return x;
}

CPU_INLINE void vec_to_fp16(uint16_t *out, vec x)
{
    for (int i = 0; i < LANES; i++)
        out[i] = format_to_fp16(x[i]);
}

CPU_INLINE vec vec_of_bf16(const uint16_t *in)
{
    uvec bits = { 0 }; /* all are set below, but -O2 does not see it */

    for (int i = 0; i < LANES; i++)
        bits[i] = in[i];
    return (vec)(bits << 16);
}

CPU_INLINE void vec_to_bf16(uint16_t *out, vec x)
{
    uvec bits = (uvec)x;
    uvec rounded = bits + 0x7fff + (bits >> 16 & 1);
    uvec all = (uvec)vec_select(x == x, (vec)rounded, (vec)(bits | 0x400000));

    for (int i = 0; i < LANES; i++)
        out[i] = (uint16_t)(all[i] >> 16);
}

CPU_INLINE wvec wvec_product(wvec a, wvec b)
{
    return (a & 0xffffffff) * (b & 0xffffffff);
}

#endif

/* Round x to a 16-bit format, up or down with the odds of its position between the
 * two neighbors: up if the sum of the truncated 16 bits and the upper half of
 * `draw` carries. */
CPU_INLINE vec vec_round_by(vec x, enum format format, uvec draw)
{
    uvec sign = (uvec)x & 0x80000000, size = (uvec)x & 0x7fffffff;
    vec least = vec_all(0x1p-14f), above, below;
    ivec steps;

    if (format == FORMAT_BF16) {
        above = (vec)((size + (draw >> 16)) & 0xffff0000);
    } else { /* 10 mantissa bits, or below 2^-14 steps of 2^-24 */
        steps = __builtin_convertvector(vec_min((vec)size, least) * 0x1p40f, ivec);
        steps = (steps + (ivec)(draw >> 16)) >> 16;
        below = __builtin_convertvector(steps, vec) * 0x1p-24f;
        above = (vec)((size + (draw >> 19)) & 0xffffe000);
        above = vec_select((vec)size < least, below, above);
    }
    return vec_select(x == x, (vec)((uvec)above | sign), x);
}

/* The end of a row: separate, so that loops stay short. */
static __attribute__((noinline, unused)) vec
vec_load_part(const void *data, enum format format, size_t at, size_t count)
{
    uint16_t half[LANES] = { 0 };
    vec x = {};

    if (format != FORMAT_FP16 && format != FORMAT_BF16) {
        memcpy(&x, (const float *)data + at, count * sizeof(float));
        return x;
    }
    memcpy(half, (const uint16_t *)data + at, count * sizeof(*half));
    return format == FORMAT_FP16 ? vec_of_fp16(half) : vec_of_bf16(half);
}

static __attribute__((noinline, unused)) void
vec_store_part(void *data, enum format format, size_t at, size_t count, vec x)
{
    uint16_t half[LANES];

    if (format != FORMAT_FP16 && format != FORMAT_BF16) {
        memcpy((float *)data + at, &x, count * sizeof(float));
        return;
    }
    if (format == FORMAT_FP16)
        vec_to_fp16(half, x);
    else
        vec_to_bf16(half, x);
    memcpy((uint16_t *)data + at, half, count * sizeof(*half));
}

/* Load elements at .. at + count of an array; count is 1 to LANES, lanes past it
 * are 0. */
CPU_INLINE vec vec_load(const void *data, enum format format, size_t at, size_t count)
{
    const uint16_t *half = (const uint16_t *)data + at;
    vec x;

    if (__builtin_expect(count != LANES, 0))
        return vec_load_part(data, format, at, count);
    if (format == FORMAT_FP16)
        return vec_of_fp16(half);
    if (format == FORMAT_BF16)
        return vec_of_bf16(half);
    memcpy(&x, (const float *)data + at, sizeof(x));
    return x;
}

CPU_INLINE void vec_store(void *data, enum format format, size_t at, size_t count, vec x)
{
    uint16_t *half = (uint16_t *)data + at;

    if (__builtin_expect(count != LANES, 0))
        vec_store_part(data, format, at, count, x);
    else if (format == FORMAT_FP16)
        vec_to_fp16(half, x);
    else if (format == FORMAT_BF16)
        vec_to_bf16(half, x);
    else
        memcpy((float *)data + at, &x, sizeof(x));
}

/* Call an always-inlined function with its last argument as a constant, so that each
 * format has its own loop without branches. */
#define VEC_BY_FORMAT(format, function, ...)    \
    do {                                        \
        if ((format) == FORMAT_FP16)            \
            function(__VA_ARGS__, FORMAT_FP16); \
        else if ((format) == FORMAT_BF16)       \
            function(__VA_ARGS__, FORMAT_BF16); \
        else                                    \
            function(__VA_ARGS__, FORMAT_FP32); \
    } while (0)

/* fp32, contiguous */
UNCHECKED_INLINE vec vec_get(const float *data)
{
    vec x;

    memcpy(&x, data, sizeof(x));
    return x;
}

UNCHECKED_INLINE void vec_put(float *data, vec x)
{
    memcpy(data, &x, sizeof(x));
}

/* Return how many lanes are valid at position `at` of `size`. */
CPU_INLINE size_t vec_count(size_t at, size_t size)
{
    return size - at < LANES ? size - at : LANES;
}

/* x with 0 in the lanes from `count` on: for the end of a row. */
static __attribute__((noinline, unused)) vec vec_first(vec x, size_t count)
{
    for (size_t i = count; i < LANES; i++)
        x[i] = 0;
    return x;
}

/* Add the lanes by halves: one order for each width. */
CPU_INLINE float vec_sum(vec x)
{
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            x[i] += x[i + width];
    return x[0];
}

CPU_INLINE double vec_sum_wide(vec x)
{
    double sum = 0;

    for (int i = 0; i < LANES; i++)
        sum += (double)x[i];
    return sum;
}

CPU_INLINE float vec_max_of(vec x)
{
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            x[i] = x[i] > x[i + width] ? x[i] : x[i + width];
    return x[0];
}

/* The parts of vec_exp below: n, and 2^n e^r. */
CPU_INLINE vec vec_exp_whole(vec x)
{
    vec magic = vec_all(0x1.8p23f); /* adding it leaves an integer in the mantissa */

    return x * 1.44269504f + magic - magic;
}

CPU_INLINE vec vec_exp_rest(vec r, vec n)
{
    vec p = r * 0.00139411609f + 0.00837516785f;

    p = p * r + 0.0416663513f;
    p = p * r + 0.166664153f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return vec_scale(p, n);
}

/*
 * e^x to 2 units in the last place; 0 below -104, inf above 88.73.
 * x = n ln 2 + r in two parts of ln 2 (Cody and Waite, 1980; the first has 11 zero bits
 * at its end); e^r by interpolation at the Chebyshev points of |r| <= ln 2 / 2, degree 6,
 * error 2e-8.
 */
CPU_INLINE vec vec_exp(vec x)
{
    vec n, r;

    x = vec_max(vec_all(-105.0f), vec_min(vec_all(89.0f), x));
    n = vec_exp_whole(x);
    r = x - n * 0x1.62e4p-1f;
    r = r - n * 1.42860677e-6f;
    return vec_exp_rest(r, n);
}

/* e^(x + more), -170 to 88, to 2 units in the last place: `more` is the rounding error of
 * x, at most 2^-11 of it. */
CPU_INLINE vec vec_exp_sum(vec x, vec more)
{
    vec n = vec_exp_whole(x + more), r;

    r = x - n * 0x1.62e4p-1f;
    r = r - n * 1.42860677e-6f + more;
    return vec_exp_rest(r, n);
}

/*
 * tanh x to 4 units in the last place: x + x^3 P(x^2) below 0.625, with the coefficients
 * of Cephes' tanhf (Moshier, 1989); above it (1 - t) / (1 + t), t = e^-2|x|.
 */
CPU_INLINE vec vec_tanh(vec x)
{
    vec size = (vec)((uvec)x & 0x7fffffff), square = x * x, t = vec_exp(size * -2.0f);
    vec far = (1.0f - t) / (1.0f + t);
    vec near = square * -5.70498872745e-3f + 2.06390887954e-2f;

    near = near * square - 5.37397155531e-2f;
    near = near * square + 1.33314422036e-1f;
    near = near * square - 3.33332819422e-1f;
    near = near * square * x + x;
    far = (vec)((uvec)far | ((uvec)x & 0x80000000));
    return vec_select(size < 0.625f, near, far);
}

/*
 * log x to 2 units in the last place, of normal x > 0; NaN propagates. x = 2^n m,
 * sqrt(1/2) <= m < sqrt(2);  log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172: the
 * next term of the series is 2e-9 of it. ln 2 in two parts as above.
 */
CPU_INLINE vec vec_log(vec x)
{
    ivec bits = (ivec)x - 0x3f3504f3; /* sqrt(1/2) */
    vec n = __builtin_convertvector(bits >> 23, vec), m, s, t;

    m = (vec)((bits & 0x7fffff) + 0x3f3504f3);
    s = (m - 1.0f) / (m + 1.0f);
    t = s * s;
    t = t * (t * (t * (t * 0.222222222f + 0.285714286f) + 0.4f) + 0.666666667f);
    t = s * t + 2.0f * s;
    return n * 0x1.62e4p-1f + (n * 1.42860677e-6f + t) + (x - x);
}

#endif
