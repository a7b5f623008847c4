/* kernels/cpu/cpu_matmul_avx2.c - matmul kernels for 256-bit vectors with FMA and F16C;
 * bf16 is multiplied as fp32. */
#include "config.h"

#include <immintrin.h>
#include <stdint.h>

#include "kernels/cpu/cpu_unchecked.h"

#define LANES    8
#define ROWS     4
#define HAS_BF16 0
#define KERNELS  matmul_kernels_avx2
#define HEIGHTS(X, ...) \
    X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__) X(4, __VA_ARGS__)

typedef float vec __attribute__((vector_size(32)));

static inline vec load_half(const uint16_t *from)
{
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

static inline void store_half(uint16_t *to, vec value)
{
    _mm_storeu_si128((__m128i *)to,
                     _mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT));
}

UNCHECKED_INLINE vec step_bf16(vec sum, uint32_t left, vec right)
{
    (void)left;
    (void)right;
    return sum;
}

static inline void transpose(float *to, size_t width, const void *from, size_t bytes)
{
    const char *row = from;
    __m256 in[8], quad[8];

#pragma GCC unroll 4
    for (size_t i = 0; i < 8; i += 2) {
        __m256 a = _mm256_loadu_ps((const float *)(row + i * bytes));
        __m256 b = _mm256_loadu_ps((const float *)(row + (i + 1) * bytes));

        in[i] = _mm256_unpacklo_ps(a, b);
        in[i + 1] = _mm256_unpackhi_ps(a, b);
    }
#pragma GCC unroll 2
    for (size_t i = 0; i < 8; i += 4)
#pragma GCC unroll 2
        for (size_t j = 0; j < 2; j++) {
            __m256d a = _mm256_castps_pd(in[i + j]), b = _mm256_castps_pd(in[i + j + 2]);

            quad[i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
            quad[i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
        }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * width,
                         _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * width,
                         _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31));
    }
}

#include "kernels/cpu/cpu_matmul_template.h"
