/*
 * kernels/cpu/cpu_matmul_vec.h - loads and stores elements of any format, a vector at a
 * time, as fp32.
 *
 * A part of cpu_matmul_template.h, which documents vec, LANES, load_half, store_half,
 * round_row and round_pairs.
 */
#include <string.h>

#include "kernels/cpu/cpu_unchecked.h"

typedef float vec_loose __attribute__((vector_size(4 * LANES), aligned(2), may_alias));
typedef uint32_t unit_loose __attribute__((aligned(2), may_alias));
typedef uint32_t words __attribute__((vector_size(4 * LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
typedef uint16_t halves_loose
    __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

UNCHECKED_INLINE vec load(const float *from)
{
    return *(const vec_loose *)from;
}

UNCHECKED_INLINE void store(float *to, vec value)
{
    *(vec_loose *)to = value;
}

UNCHECKED_INLINE float as_float(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline vec load_bf16_lanes(const uint16_t *from)
{
    return (vec)(__builtin_convertvector((halves) * (const halves_loose *)from, words)
                 << 16);
}

/* Round to nearest even with integer arithmetic: the instruction for it flushes subnormal
 * values. */
static inline void store_bf16_lanes(uint16_t *to, vec value)
{
    words bits = (words)value;
    words nan = (words)(value != value);
    words rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    words kept = bits >> 16 | 0x40;

    *(halves_loose *)to =
        __builtin_convertvector((rounded & ~nan) | (kept & nan), halves);
}

#if !HAS_BF16
static inline void round_row(uint16_t *to, const float *low, const float *high)
{
    store_bf16_lanes(to, load(low));
    store_bf16_lanes(to + LANES, load(high));
}

static inline void round_pairs(uint32_t *to, const float *low, const float *high)
{
    uint16_t both[2 * LANES];

    round_row(both, low, high);
    for (size_t i = 0; i < LANES; i++)
        to[i] = both[i] | (uint32_t)both[LANES + i] << 16;
}
#endif

static inline float number(const void *data, enum format format, size_t at)
{
    if (format == FORMAT_FP32)
        return ((const float *)data)[at];
    if (format == FORMAT_BF16)
        return format_from_bf16(((const uint16_t *)data)[at]);
    return format_from_fp16(((const uint16_t *)data)[at]);
}

/* Load `count` elements of any format as fp32. */
static inline void widen(float *to, const void *data, enum format format, size_t at,
                         size_t count)
{
    const uint16_t *from = (const uint16_t *)data + at;
    size_t rest = count % LANES;

    if (format == FORMAT_FP32) {
        memcpy(to, (const float *)data + at, count * sizeof(*to));
        return;
    }
    for (size_t i = 0; i < count - rest; i += LANES)
        store(to + i,
              format == FORMAT_BF16 ? load_bf16_lanes(from + i) : load_half(from + i));
    for (size_t i = count - rest; i < count; i++)
        to[i] = number(from, format, i);
}

static inline void put(uint16_t *to, enum format format, vec value)
{
    if (format == FORMAT_BF16)
        store_bf16_lanes(to, value);
    else
        store_half(to, value);
}

/* Store fp32 as `count` elements of any format. */
static inline void narrow(void *data, enum format format, size_t at, const float *from,
                          size_t count)
{
    uint16_t *to = (uint16_t *)data + at;
    uint16_t rest[LANES];
    size_t whole = count - count % LANES;
    vec last = { 0 };

    if (format == FORMAT_FP32) {
        memcpy((float *)data + at, from, count * sizeof(*from));
        return;
    }
    for (size_t i = 0; i < whole; i += LANES)
        put(to + i, format, load(from + i));
    if (whole < count) {
        memcpy(&last, from + whole, (count - whole) * sizeof(*from));
        put(rest, format, last);
        memcpy(to + whole, rest, (count - whole) * sizeof(*to));
    }
}

/* LANES elements of any format. */
static inline vec take(const void *data, enum format format, size_t at)
{
    const uint16_t *from = (const uint16_t *)data + at;

    if (format == FORMAT_FP32)
        return load((const float *)data + at);
    return format == FORMAT_BF16 ? load_bf16_lanes(from) : load_half(from);
}

static inline void give(void *data, enum format format, size_t at, vec value)
{
    uint16_t *to = (uint16_t *)data + at;

    if (format == FORMAT_FP32)
        store((float *)data + at, value);
    else
        put(to, format, value);
}
