/* kernels/cpu/cpu_matmul_avx512.c - matmul kernels for 512-bit vectors, and bf16 by its
 * dot-product instruction. */
#include "config.h"

#include <immintrin.h>
#include <stdint.h>

#include "kernels/cpu/cpu_unchecked.h"

#define LANES    16
#define ROWS     8
#define HAS_BF16 1
#define KERNELS  matmul_kernels_avx512
#define HEIGHTS(X, ...) \
    X(1, __VA_ARGS__)   \
    X(2, __VA_ARGS__)   \
    X(3, __VA_ARGS__)   \
    X(4, __VA_ARGS__)   \
    X(5, __VA_ARGS__) X(6, __VA_ARGS__) X(7, __VA_ARGS__) X(8, __VA_ARGS__)

typedef float vec __attribute__((vector_size(64)));

static inline vec load_half(const uint16_t *from)
{
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

static inline void store_half(uint16_t *to, vec value)
{
    _mm256_storeu_si256((__m256i *)to,
                        _mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT));
}

/* The instruction treats subnormal values as 0. */
UNCHECKED_INLINE vec step_bf16(vec sum, uint32_t left, vec right)
{
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)left),
                                 (__m512bh)right);
}

/* Uses the instruction, which treats subnormal values as 0, as step_bf16 does.
 * Results differ only for values that would be rounded up to the smallest normal
 * value, 2^-126. */
static inline __m512i round_both(const float *low, const float *high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(high), _mm512_loadu_ps(low));
}

static inline void round_row(uint16_t *to, const float *low, const float *high)
{
    _mm512_storeu_si512(to, round_both(low, high));
}

static inline void round_pairs(uint32_t *to, const float *low, const float *high)
{
    static const uint16_t turns[32] __attribute__((aligned(64))) = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31,
    };

    _mm512_storeu_si512(
        to, _mm512_permutexvar_epi16(_mm512_load_si512(turns), round_both(low, high)));
}

/* Transpose rows of four words within each quarter of a vector, then the quarters. */
static inline void transpose(float *to, size_t width, const void *from, size_t bytes)
{
    const char *row = from;
    __m512 in[16], quad[16];

#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i += 2) {
        __m512 a = _mm512_loadu_ps(row + i * bytes);
        __m512 b = _mm512_loadu_ps(row + (i + 1) * bytes);

        in[i] = _mm512_unpacklo_ps(a, b);
        in[i + 1] = _mm512_unpackhi_ps(a, b);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 16; i += 4)
#pragma GCC unroll 2
        for (size_t j = 0; j < 2; j++) {
            __m512d a = _mm512_castps_pd(in[i + j]), b = _mm512_castps_pd(in[i + j + 2]);

            quad[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            quad[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        __m512 even = _mm512_shuffle_f32x4(quad[i], quad[i + 4], 0x88);
        __m512 odd = _mm512_shuffle_f32x4(quad[i], quad[i + 4], 0xdd);
        __m512 even2 = _mm512_shuffle_f32x4(quad[i + 8], quad[i + 12], 0x88);
        __m512 odd2 = _mm512_shuffle_f32x4(quad[i + 8], quad[i + 12], 0xdd);

        _mm512_storeu_ps(to + i * width, _mm512_shuffle_f32x4(even, even2, 0x88));
        _mm512_storeu_ps(to + (i + 4) * width, _mm512_shuffle_f32x4(odd, odd2, 0x88));
        _mm512_storeu_ps(to + (i + 8) * width, _mm512_shuffle_f32x4(even, even2, 0xdd));
        _mm512_storeu_ps(to + (i + 12) * width, _mm512_shuffle_f32x4(odd, odd2, 0xdd));
    }
}

#include "kernels/cpu/cpu_matmul_template.h"
