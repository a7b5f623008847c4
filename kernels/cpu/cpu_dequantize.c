/* kernels/cpu/cpu_dequantize.c - converts matrices in 4 or 8 bits to the values they
 * encode. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"
#include "precision/nf4.h"

static float dequantize_absmax(const struct quantized *x, size_t block)
{
    volatile float product; /* volatile forces rounding: no fused operation combines it
                             * with the sum */

    if (!x->bytes)
        return x->absmax[block];
    product = x->map[x->bytes[block]] * x->absmax[block / NF4_GROUP];
    return product + x->map[NF4_MAP];
}

/* Unpack codes first .. first + count into bytes; there is room for one more. */
static void dequantize_unpack(const uint8_t *codes, size_t first, size_t count,
                              uint8_t *out)
{
    size_t skip = first % 2, i;

    codes += first / 2;
    if (skip)
        *out++ = codes[0] & 15;
    codes += skip;
    count -= skip;
    for (i = 0; i < count / 2; i++) {
        out[2 * i] = codes[i] >> 4;
        out[2 * i + 1] = codes[i] & 15;
    }
    if (count % 2)
        out[count - 1] = codes[i] >> 4;
}

/* Look up the values of LANES codes. */
CPU_INLINE vec dequantize_lookup(const uint8_t *codes)
{
#if defined(__AVX512F__)
    __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)codes));

    return (vec)_mm512_permutexvar_ps(wide, _mm512_loadu_ps(nf4_numbers));
#elif defined(__AVX2__)
    __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)codes));
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(nf4_numbers), wide);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(nf4_numbers + 8), wide);

    return (vec)_mm256_blendv_ps(low, high, (__m256)_mm256_slli_epi32(wide, 28));
#else
    vec x;

    for (int i = 0; i < LANES; i++)
        x[i] = nf4_numbers[codes[i]];
    return x;
#endif
}

/* Store values i .. of a piece of `count` as columns at + i .. of a row of out. */
CPU_INLINE void dequantize_store(const struct op_dequantize *op, void *out, size_t at,
                                 size_t i, size_t count, vec value)
{
    float narrow[LANES]; /* elements of 16 bits, or all */

    if (op->through != FORMAT_FP32 && op->through != op->out.format) {
        vec_store(narrow, op->through, 0, LANES, value);
        value = vec_load(narrow, op->through, 0, LANES);
    }
    vec_store(out, op->out.format, at + i, vec_count(i, count), value);
}

/* Convert elements of one block, the first of them element `first` of x, into columns
 * `at` .. */
static void dequantize_block(const struct op_dequantize *op, size_t first, size_t count,
                             void *out, size_t at)
{
    float absmax = dequantize_absmax(&op->x, first / NF4_BLOCK);
    uint8_t codes[NF4_BLOCK + 16] = { 0 };

    dequantize_unpack(op->x.codes, first, count, codes);
    for (size_t i = 0; i < count; i += LANES)
        dequantize_store(op, out, at, i, count, dequantize_lookup(codes + i) * absmax);
}

static void dequantize_blocks(const struct op_dequantize *op, size_t row, void *out)
{
    size_t cols = op->out.cols;

    for (size_t i = row * cols, end = i + cols; i < end;) {
        size_t stop = size_min((i / NF4_BLOCK + 1) * NF4_BLOCK, end);

        dequantize_block(op, i, stop - i, out, i - row * cols);
        i = stop;
    }
}

/* ---- Integer codes ---- */

enum { PIECE = 64 }; /* columns at a time */

CPU_INLINE vec dequantize_widen(const uint8_t *codes)
{
#if defined(__AVX512F__)
    __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)codes));

    return (vec)_mm512_cvtepi32_ps(wide);
#elif defined(__AVX2__)
    __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)codes));

    return (vec)_mm256_cvtepi32_ps(wide);
#else
    vec x;

    for (int i = 0; i < LANES; i++)
        x[i] = codes[i];
    return x;
#endif
}

/* Copy codes first .. first + count into bytes; there is room for one more. */
static void dequantize_codes(const struct quantized *x, size_t first, size_t count,
                             uint8_t *out)
{
    if (x->bits == 8)
        memcpy(out, x->codes + first, count);
    else
        dequantize_unpack(x->codes, first, count, out);
}

/* Convert columns at .. at + count of a row, each of a group of its own. */
static void dequantize_columns(const struct op_dequantize *op, size_t row, size_t at,
                               size_t count, void *out)
{
    const struct quantized *x = &op->x;
    uint8_t codes[PIECE + 16] = { 0 };
    float zeros[PIECE] = { 0 }, scales[PIECE] = { 0 };

    dequantize_codes(x, row * op->out.cols + at, count, codes);
    for (size_t i = 0; i < count; i++) {
        size_t factor = row * x->groups + x->columns[at + i];

        zeros[i] = x->zeros[factor];
        scales[i] = x->scales[factor];
    }
    for (size_t i = 0; i < count; i += LANES)
        dequantize_store(
            op, out, at, i, count,
            (dequantize_widen(codes + i) - vec_load(zeros, FORMAT_FP32, i, LANES)) *
                vec_load(scales, FORMAT_FP32, i, LANES));
}

/* Convert columns at .. at + count of a row, all of one group. */
static void dequantize_group(const struct op_dequantize *op, size_t row, size_t at,
                             size_t count, void *out)
{
    const struct quantized *x = &op->x;
    size_t factor = row * x->groups + at / x->group;
    vec zero = vec_all(x->zeros[factor]), scale = vec_all(x->scales[factor]);
    uint8_t codes[PIECE + 16] = { 0 };

    dequantize_codes(x, row * op->out.cols + at, count, codes);
    for (size_t i = 0; i < count; i += LANES)
        dequantize_store(op, out, at, i, count,
                         (dequantize_widen(codes + i) - zero) * scale);
}

static void dequantize_integers(const struct op_dequantize *op, size_t row, void *out)
{
    const struct quantized *x = &op->x;
    size_t cols = op->out.cols;

    for (size_t at = 0; at < cols;) {
        size_t stop = size_min(at + PIECE, cols);

        if (!x->columns)
            stop = size_min(stop, (at / x->group + 1) * x->group);
        (x->columns ? dequantize_columns : dequantize_group)(op, row, at, stop - at, out);
        at = stop;
    }
}

static void dequantize_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_dequantize *op = context;
    size_t step = cpu_task_rows(op->out.cols), row = task * step;
    size_t last = size_min(row + step, op->out.rows);

    (void)worker;
    for (; row < last; row++) {
        void *out = cpu_row(op->out, row_order_in_model(&op->order, row));

        if (op->x.bits != 0)
            dequantize_integers(op, row, out);
        else
            dequantize_blocks(op, row, out);
    }
}

void CPU_OP(dequantize)(struct backend *be, const struct op_dequantize *op)
{
    size_t step = cpu_task_rows(op->out.cols);

    cpu_backend_run(be, size_divide_up(op->out.rows, step), dequantize_task, (void *)op);
}
