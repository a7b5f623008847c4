/* kernels/cpu/cpu_dequantize.c - converts 4-bit matrices to the values they encode. */
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

/* Convert elements of one block, the first of them element `first` of x, into columns
 * `at` .. */
static void dequantize_block(const struct op_dequantize *op, size_t first, size_t count,
                             void *out, size_t at)
{
    float absmax = dequantize_absmax(&op->x, first / NF4_BLOCK);
    uint8_t codes[NF4_BLOCK + 16] = { 0 };
    float narrow[LANES]; /* elements of 16 bits, or all */

    dequantize_unpack(op->x.codes, first, count, codes);
    for (size_t i = 0; i < count; i += LANES) {
        vec value = dequantize_lookup(codes + i) * absmax;

        if (op->through != FORMAT_FP32 && op->through != op->out.format) {
            vec_store(narrow, op->through, 0, LANES, value);
            value = vec_load(narrow, op->through, 0, LANES);
        }
        vec_store(out, op->out.format, at + i, vec_count(i, count), value);
    }
}

static void dequantize_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_dequantize *op = context;
    size_t cols = op->out.cols, step = cpu_task_rows(cols), row = task * step;
    size_t last = size_min(row + step, op->out.rows);

    (void)worker;
    for (; row < last; row++) {
        void *out = cpu_row(op->out, row_order_in_model(&op->order, row));

        for (size_t i = row * cols, end = i + cols; i < end;) {
            size_t stop = size_min((i / NF4_BLOCK + 1) * NF4_BLOCK, end);

            dequantize_block(op, i, stop - i, out, i - row * cols);
            i = stop;
        }
    }
}

void CPU_OP(dequantize)(struct backend *be, const struct op_dequantize *op)
{
    size_t step = cpu_task_rows(op->out.cols);

    cpu_backend_run(be, size_divide_up(op->out.rows, step), dequantize_task, (void *)op);
}
