/*
 * train/media/image_pass.c - one axis of a resize of bytes.  Going down, neighbors in a
 * row have the same weights, so sums are vectors.  Going across, strips of rows are
 * transposed first, for the same reason.
 */
#include "config.h"

#include "train/media/image_pass.h"

#ifdef HAVE_X86_KERNELS
#include <immintrin.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "kernels/cpu/cpu_isa.h"

enum {
    SIDE = 16,
    BLOCK = 2 * SIDE
}; /* of a square that is transposed; columns of a sum */

typedef uint8_t square __attribute__((vector_size(SIDE)));

/* out[i] = sum over j of in[j * stride + i] * weight[j], for BLOCK columns i */
typedef void add_up(const int32_t *weight, uint32_t taps, unsigned bits,
                    const uint8_t *in, size_t stride, uint8_t *out);

static void add_plain(const int32_t *weight, uint32_t taps, unsigned bits,
                      const uint8_t *in, size_t stride, uint8_t *out)
{
    int32_t sums[BLOCK];

    for (int i = 0; i < BLOCK; i++)
        sums[i] = 1 << (bits - 1);
    for (uint32_t j = 0; j < taps; j++) {
        for (int i = 0; i < BLOCK; i++)
            sums[i] += in[j * stride + i] * weight[j];
    }
    for (int i = 0; i < BLOCK; i++) {
        int32_t sum = sums[i] >> bits;

        out[i] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
}

#ifdef HAVE_X86_KERNELS
__attribute__((target("avx2"))) static void add_avx2(const int32_t *weight, uint32_t taps,
                                                     unsigned bits, const uint8_t *in,
                                                     size_t stride, uint8_t *out)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m128i shift = _mm_cvtsi32_si128((int)bits);
    __m256i sums[BLOCK / 8], low, high;

    for (int i = 0; i < BLOCK / 8; i++)
        sums[i] = _mm256_set1_epi32(1 << (bits - 1));
    for (uint32_t j = 0; j < taps; j++) {
        const __m256i w = _mm256_set1_epi32(weight[j]);

        for (int i = 0; i < BLOCK / 8; i++) {
            __m128i bytes = _mm_loadl_epi64((const __m128i *)(in + j * stride + 8 * i));

            sums[i] = _mm256_add_epi32(
                sums[i], _mm256_mullo_epi32(_mm256_cvtepu8_epi32(bytes), w));
        }
    }
    for (int i = 0; i < BLOCK / 8; i++)
        sums[i] = _mm256_sra_epi32(sums[i], shift);
    low = _mm256_packs_epi32(sums[0], sums[1]);
    high = _mm256_packs_epi32(sums[2], sums[3]);
    low = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
    _mm256_storeu_si256((__m256i *)out, low);
}

static add_up *choose(void)
{
    return cpu_isa_detect() == CPU_ISA_GENERIC ? add_plain : add_avx2;
}
#else
static add_up *choose(void)
{
    return add_plain;
}
#endif

/* A row shorter than a block. */
static void add_short(const int32_t *weight, uint32_t taps, unsigned bits,
                      const uint8_t *in, size_t stride, uint8_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int32_t sum = 1 << (bits - 1);

        for (uint32_t j = 0; j < taps; j++)
            sum += in[j * stride + i] * weight[j];
        sum >>= bits;
        out[i] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
}

void image_pass_down(const struct image_weights *w, const uint8_t *in, size_t bytes,
                     uint8_t *out)
{
    add_up *add = choose();

    for (uint32_t i = 0; i < w->count; i++) {
        const int32_t *weight = w->fixed + w->start[i];
        const uint8_t *from = in + w->first[i] * bytes;
        uint8_t *to = out + i * bytes;

        if (bytes < BLOCK)
            add_short(weight, w->taps[i], w->bits, from, bytes, to, bytes);
        /* the last block overlaps the one before it */
        for (size_t at = 0; bytes >= BLOCK && at < bytes; at += BLOCK) {
            size_t column = size_min(at, bytes - BLOCK);

            add(weight, w->taps[i], w->bits, from + column, bytes, to + column);
        }
    }
}

/* Interleaving the first half with the second, four times, transposes 16 x 16 bytes. */
static void transpose(square rows[SIDE])
{
    for (int step = 0; step < 4; step++) {
        square next[SIDE];

        for (int i = 0; i < SIDE / 2; i++) {
            square a = rows[i], b = rows[i + SIDE / 2];

            next[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20,
                                                  5, 21, 6, 22, 7, 23);
            next[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27,
                                                      12, 28, 13, 29, 14, 30, 15, 31);
        }
        memcpy(rows, next, sizeof(next));
    }
}

/* strip[column * BLOCK + row] = in[row][column]; rows past the last one repeat it. */
static void load_strip(const uint8_t *in, size_t rows, size_t bytes, uint8_t *strip)
{
    for (size_t side = 0; side < BLOCK; side += SIDE) {
        for (size_t at = 0; at < bytes; at += SIDE) {
            size_t count = size_min(SIDE, bytes - at);
            square part[SIDE] = { { 0 } };

            for (size_t r = 0; r < SIDE; r++)
                memcpy(&part[r], in + size_min(side + r, rows - 1) * bytes + at, count);
            transpose(part);
            for (size_t c = 0; c < count; c++)
                memcpy(strip + (at + c) * BLOCK + side, &part[c], SIDE);
        }
    }
}

static void store_strip(const uint8_t *strip, size_t rows, size_t bytes, uint8_t *out)
{
    for (size_t side = 0; side < BLOCK && side < rows; side += SIDE) {
        for (size_t at = 0; at < bytes; at += SIDE) {
            size_t count = size_min(SIDE, bytes - at);
            square part[SIDE] = { { 0 } };

            for (size_t c = 0; c < count; c++)
                memcpy(&part[c], strip + (at + c) * BLOCK + side, SIDE);
            transpose(part);
            for (size_t r = 0; r < SIDE && side + r < rows; r++)
                memcpy(out + (side + r) * bytes + at, &part[r], count);
        }
    }
}

bool image_pass_across(const struct image_weights *w, const uint8_t *in, size_t rows,
                       size_t width, size_t channels, uint8_t *out, struct error *err)
{
    size_t from = width * channels, to = w->count * channels;
    uint8_t *strip = malloc((from + to) * BLOCK), *sums_of = strip + from * BLOCK;
    add_up *add = choose();

    if (!strip)
        return error_set(err, ERROR_MEMORY, "not enough memory for resizing an image");
    for (size_t row = 0; row < rows; row += BLOCK) {
        size_t count = size_min(BLOCK, rows - row);

        load_strip(in + row * from, count, from, strip);
        for (size_t i = 0; i < to; i++) {
            size_t pixel = i / channels;

            add(w->fixed + w->start[pixel], w->taps[pixel], w->bits,
                strip + (w->first[pixel] * channels + i % channels) * BLOCK,
                channels * BLOCK, sums_of + i * BLOCK);
        }
        store_strip(sums_of, count, to, out + row * to);
    }
    free(strip);
    return true;
}
