/*
 * kernels/cpu/cpu_matmul_pack.h - converts parts of an operand to the form the inner
 * loops read: panels, rows in fp32, or rounded rows.
 *
 * A part of cpu_matmul_template.h, which documents the vectors and constants it uses.
 */

enum { VECTORS = 3, COLS = LANES * VECTORS }; /* of a panel of b */

/* One element of a side, and `count` of them as fp32, rounded if the side requires it. */
static inline float side_value(const struct matmul_side *side, size_t at)
{
    float value = number(side->data, side->format, at);

    if (side->round == FORMAT_BF16)
        return format_from_bf16(format_to_bf16(value));
    if (side->round == FORMAT_FP16)
        return format_from_fp16(format_to_fp16(value));
    return value;
}

static inline void side_widen(float *to, const struct matmul_side *side, size_t at,
                              size_t count)
{
    size_t whole = count - count % LANES;
    uint16_t half[LANES];

    if (side->round == FORMAT_FP32) {
        widen(to, side->data, side->format, at, count);
        return;
    }
    for (size_t i = 0; i < whole; i += LANES) {
        put(half, side->round, load((const float *)side->data + at + i));
        store(to + i,
              side->round == FORMAT_BF16 ? load_bf16_lanes(half) : load_half(half));
    }
    for (size_t i = whole; i < count; i++)
        to[i] = side_value(side, at + i);
}

static void unfold(float *to, size_t stride, const struct matmul_side *side,
                   const struct matmul_part *part)
{
    size_t rows = side->deep ? part->count : part->depth;
    size_t cols = side->deep ? part->depth : part->count;
    size_t row = side->deep ? part->first : part->k;
    size_t col = side->deep ? part->k : part->first;

    for (size_t i = 0; i < rows; i++)
        side_widen(to + i * stride, side, (row + i) * side->stride + col, cols);
}

static void round_part(void *to, const struct matmul_side *side,
                       const struct matmul_part *part)
{
    size_t rows = side->deep ? part->count : part->depth;
    size_t cols = side->deep ? part->depth : part->count;
    const float *from = (const float *)side->data +
                        (side->deep ? part->first : part->k) * side->stride +
                        (side->deep ? part->k : part->first);

    for (size_t i = 0; i < rows; i++)
        narrow(to, side->round, i * cols, from + i * side->stride, cols);
}

/* LANES outer by LANES deep, in place in the panel. */
static void pack_square(float *to, size_t width, const struct matmul_side *side,
                        size_t at)
{
    float rows[LANES * LANES] __attribute__((aligned(64)));

    if (side->format == FORMAT_FP32 && side->round == FORMAT_FP32) {
        transpose(to, width, (const float *)side->data + at,
                  side->stride * sizeof(float));
        return;
    }
    for (size_t i = 0; i < LANES; i++)
        side_widen(rows + i * LANES, side, at + i * side->stride, LANES);
    transpose(to, width, rows, LANES * sizeof(float));
}

static void pack_deep(float *to, size_t width, const struct matmul_side *side,
                      const struct matmul_part *part)
{
    size_t squares = part->depth - part->depth % LANES;
    size_t i = 0;

    for (; i + LANES <= part->count; i += LANES)
        for (size_t k = 0; k < squares; k += LANES)
            pack_square(to + k * width + i, width, side,
                        (part->first + i) * side->stride + part->k + k);
    for (size_t j = 0; j < width; j++) {
        size_t at = (part->first + j) * side->stride + part->k;

        for (size_t k = j < i ? squares : 0; k < part->depth; k++)
            to[k * width + j] = j < part->count ? side_value(side, at + k) : 0;
    }
}

/* With count a constant if it is that of a whole panel: a row is then a few moves. */
static inline __attribute__((always_inline)) void
pack_flat_count(float *to, size_t width, const struct matmul_side *side,
                const struct matmul_part *part, size_t count)
{
    for (size_t k = 0; k < part->depth; k++, to += width) {
        side_widen(to, side, (part->k + k) * side->stride + part->first, count);
        for (size_t i = count; i < width; i++)
            to[i] = 0;
    }
}

static void pack_flat(float *to, size_t width, const struct matmul_side *side,
                      const struct matmul_part *part)
{
    if (part->count == COLS && width == COLS)
        pack_flat_count(to, COLS, side, part, COLS);
    else
        pack_flat_count(to, width, side, part, part->count);
}

/* A pair of bf16, the first in the lower 16 bits. */
static inline uint32_t pair_at(const struct matmul_side *side,
                               const struct matmul_part *part, size_t i, size_t k)
{
    const uint16_t *data = side->data;
    size_t step = side->deep ? 1 : side->stride;
    size_t at =
        (part->first + i) * (side->deep ? side->stride : 1) + (part->k + k) * step;

    return data[at] | (k + 1 < part->depth ? (uint32_t)data[at + step] << 16 : 0);
}

static void pack_pairs_deep(uint32_t *to, size_t width, const struct matmul_side *side,
                            const struct matmul_part *part)
{
    size_t units = (part->depth + 1) / 2;
    size_t squares = part->depth / 2 / LANES * LANES;
    size_t i = 0;

    for (; i + LANES <= part->count; i += LANES)
        for (size_t k = 0; k < squares; k += LANES) {
            const uint16_t *from = (const uint16_t *)side->data +
                                   (part->first + i) * side->stride + part->k + 2 * k;

            transpose((float *)to + k * width + i, width, from,
                      side->stride * sizeof(*from));
        }
    for (size_t j = 0; j < width; j++)
        for (size_t k = j < i ? squares : 0; k < units; k++)
            to[k * width + j] = j < part->count ? pair_at(side, part, j, 2 * k) : 0;
}

static inline __attribute__((always_inline)) void
pack_pairs_count(uint32_t *to, size_t width, const struct matmul_side *side,
                 const struct matmul_part *part, size_t count)
{
    const uint16_t *from =
        (const uint16_t *)side->data + part->k * side->stride + part->first;

    for (size_t k = 0; k + 1 < part->depth;
         k += 2, to += width, from += 2 * side->stride) {
        for (size_t i = 0; i < count; i++)
            to[i] = from[i] | (uint32_t)from[i + side->stride] << 16;
        for (size_t i = count; i < width; i++)
            to[i] = 0;
    }
    if (part->depth % 2)
        for (size_t i = 0; i < width; i++)
            to[i] = i < count ? from[i] : 0;
}

static void pack_pairs_flat(uint32_t *to, size_t width, const struct matmul_side *side,
                            const struct matmul_part *part)
{
    if (part->count == COLS && width == COLS)
        pack_pairs_count(to, COLS, side, part, COLS);
    else
        pack_pairs_count(to, width, side, part, part->count);
}

/* The same for a side in fp32. */
static inline uint32_t rounded_pair_at(const struct matmul_side *side,
                                       const struct matmul_part *part, size_t i, size_t k)
{
    const float *data = side->data;
    size_t step = side->deep ? 1 : side->stride;
    size_t at =
        (part->first + i) * (side->deep ? side->stride : 1) + (part->k + k) * step;
    uint32_t second = k + 1 < part->depth ? format_to_bf16(data[at + step]) : 0;

    return format_to_bf16(data[at]) | second << 16;
}

static void round_pairs_deep(uint32_t *to, size_t width, const struct matmul_side *side,
                             const struct matmul_part *part)
{
    uint16_t rows[LANES][2 * LANES] __attribute__((aligned(64)));
    size_t units = (part->depth + 1) / 2;
    size_t squares = part->depth / 2 / LANES * LANES;
    size_t i = 0;

    for (; i + LANES <= part->count; i += LANES)
        for (size_t k = 0; k < squares; k += LANES) {
            const float *from = (const float *)side->data +
                                (part->first + i) * side->stride + part->k + 2 * k;

            for (size_t j = 0; j < LANES; j++, from += side->stride)
                round_row(rows[j], from, from + LANES);
            transpose((float *)to + k * width + i, width, rows, sizeof(rows[0]));
        }
    for (size_t j = 0; j < width; j++)
        for (size_t k = j < i ? squares : 0; k < units; k++)
            to[k * width + j] =
                j < part->count ? rounded_pair_at(side, part, j, 2 * k) : 0;
}

static void round_pairs_flat(uint32_t *to, size_t width, const struct matmul_side *side,
                             const struct matmul_part *part)
{
    const float *from = (const float *)side->data + part->k * side->stride + part->first;
    size_t whole = part->count - part->count % LANES;

    for (size_t k = 0; k < part->depth; k += 2, to += width, from += 2 * side->stride) {
        size_t vectors = k + 1 < part->depth ? whole : 0;

        for (size_t i = 0; i < vectors; i += LANES)
            round_pairs(to + i, from + i, from + side->stride + i);
        for (size_t i = vectors; i < width; i++)
            to[i] = i < part->count ? rounded_pair_at(side, part, i, k) : 0;
    }
}

static void pack(void *to, size_t width, const struct matmul_side *side,
                 const struct matmul_part *part, bool bf16)
{
    bool rounds = side->round != FORMAT_FP32;

    if (bf16 && rounds && side->deep)
        round_pairs_deep(to, width, side, part);
    else if (bf16 && rounds)
        round_pairs_flat(to, width, side, part);
    else if (bf16 && side->deep)
        pack_pairs_deep(to, width, side, part);
    else if (bf16)
        pack_pairs_flat(to, width, side, part);
    else if (side->deep)
        pack_deep(to, width, side, part);
    else
        pack_flat(to, width, side, part);
}
