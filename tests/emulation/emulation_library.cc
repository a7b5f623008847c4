/*
 * tests/emulation/emulation_library.cc - cuBLASLt's interface, in place of
 * kernels/cuda/cuda_library.c; matmuls by plain loops.
 *
 * Matrices are column-major, as in cuBLASLt. It refuses what the real library does not
 * support: fp8 before 8.9, in any order except transposed times not transposed, with two
 * operands of E5M2, or if the depth, the rows of the result or an address is not a
 * multiple of 16 bytes ("cuBLAS", 13.0, cublasLtMatmul and Tensor Core Usage; its
 * columns, which are our rows, are free); a bias with fp8; an
 * operand that is less aligned than the preference given to the heuristic. It also
 * refuses fp8 whose scales the heuristic was not given; whether the real library does is
 * not known.
 *
 * It also has the faults that NVIDIA's release notes report for some versions: fp8 scales
 * must be aligned to 16 bytes; with one row or column a bias is added wrongly, and an
 * algorithm that the heuristic returned is refused. A split sum has only as many whole
 * tiles as all parts have: the notes report that for parts of unequal length, and a public
 * reproducer (facebookexperimental/triton issue 2767) for a last tile that is not whole.
 *
 * Variants of the algorithm begin the sum at another vector, so they give other bits, and
 * take the time that a test says.
 */
#include "tests/emulation/emulation_runtime.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

extern "C" {
#include "kernels/cuda/cuda_library.h"
#include "precision/format.h"
}

struct cublasLtContext {
    int device;
};

struct cublasLtMatrixLayoutOpaque_t {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld;
};

struct cublasLtMatmulDescOpaque_t {
    cublasComputeType_t compute;
    cublasOperation_t trans_a, trans_b;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    const float *a_scale, *b_scale;
    int8_t fast; /* no effect here: sums are in double */
};

struct cublasLtMatmulPreferenceOpaque_t {
    uint64_t workspace;
    uint32_t reductions, a, b, c, d; /* alignments */
};

/* Words of an algorithm. */
enum { IS_MAGIC, ALIGNED_A, ALIGNED_B, ALIGNED_C, ALIGNED_D, PARTS, REFUSES, VARIANT };
enum { MAGIC = 0x5eed, PARTS_OFFERED = 3, TILE_DEPTH = 128, SPLIT_US = 1000 };

static cublasStatus_t create(cublasLtHandle_t *handle)
{
    *handle = (cublasLtHandle_t)calloc(1, sizeof(**handle));
    (*handle)->device = runtime_ordinal();
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

static size_t version(void)
{
    return 130000;
}

static const char *status_text(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
        return "unknown status of cuBLAS";
    }
}

static cublasStatus_t desc_create(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                  cudaDataType_t scale)
{
    *desc = (cublasLtMatmulDesc_t)calloc(1, sizeof(**desc));
    (*desc)->compute = compute;
    (*desc)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t desc_destroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set_value(void *to, size_t expected, const void *value,
                                size_t bytes)
{
    if (bytes != expected)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t desc_set(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set_value(&desc->trans_a, sizeof(desc->trans_a), value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set_value(&desc->trans_b, sizeof(desc->trans_b), value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set_value(&desc->epilogue, sizeof(desc->epilogue), value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set_value(&desc->bias, sizeof(desc->bias), value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
        return set_value(&desc->a_scale, sizeof(desc->a_scale), value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
        return set_value(&desc->b_scale, sizeof(desc->b_scale), value, bytes);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
        return set_value(&desc->fast, sizeof(desc->fast), value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t layout_create(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                    uint64_t rows, uint64_t cols, int64_t ld)
{
    *layout = (cublasLtMatrixLayout_t)calloc(1, sizeof(**layout));
    **layout = { type, rows, cols, ld };
    return rows && cols && (uint64_t)ld >= rows ? CUBLAS_STATUS_SUCCESS
                                                : CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t layout_destroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t preference_create(cublasLtMatmulPreference_t *preference)
{
    *preference = (cublasLtMatmulPreference_t)calloc(1, sizeof(**preference));
    **preference = { 0, 0xff, 256, 256, 256, 256 };
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t preference_destroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t preference_set(cublasLtMatmulPreference_t p,
                                     cublasLtMatmulPreferenceAttributes_t attribute,
                                     const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set_value(&p->workspace, sizeof(p->workspace), value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set_value(&p->reductions, sizeof(p->reductions), value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return set_value(&p->a, sizeof(p->a), value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return set_value(&p->b, sizeof(p->b), value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return set_value(&p->c, sizeof(p->c), value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set_value(&p->d, sizeof(p->d), value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

static bool is_fp8(cudaDataType type)
{
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

static size_t bytes_of(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : is_fp8(type) ? 1 : 2;
}

static bool aligned(const void *at, uint64_t bytes)
{
    return (uintptr_t)at % bytes == 0;
}

static bool fp8_supported(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t d,
                          cublasLtMatmulPreference_t p)
{
    return runtime_device()->capability >= 89 && is_fp8(a->type) && is_fp8(b->type) &&
           (a->type == CUDA_R_8F_E4M3 || b->type == CUDA_R_8F_E4M3) && !is_fp8(d->type) &&
           desc->a_scale && desc->b_scale && aligned(desc->a_scale, 16) &&
           aligned(desc->b_scale, 16) && desc->compute == CUBLAS_COMPUTE_32F &&
           desc->trans_a == CUBLAS_OP_T && desc->trans_b == CUBLAS_OP_N &&
           a->rows % 16 == 0 && a->ld % 16 == 0 && b->ld % 16 == 0 &&
           d->rows * bytes_of(d->type) % 16 == 0 &&
           d->ld * (int64_t)bytes_of(d->type) % 16 == 0 && p->a % 16 == 0 &&
           p->b % 16 == 0 && p->d % 16 == 0 &&
           desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT;
}

static bool supported(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                      cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t d,
                      cublasLtMatmulPreference_t p)
{
    if (p->a < bytes_of(a->type) || p->b < bytes_of(b->type) || p->d < bytes_of(d->type))
        return false;
    if (is_fp8(a->type) || is_fp8(b->type))
        return fp8_supported(desc, a, b, d, p);
    if (a->type != b->type || (d->type != CUDA_R_32F && d->type != a->type))
        return false;
    if (desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a->type != CUDA_R_32F)
        return false;
    return true;
}

static bool is_one(const cublasLtMatrixLayoutOpaque_t *d)
{
    return d->rows == 1 || d->cols == 1;
}

static bool only_split, busy;
static double variant_us[EMULATION_VARIANTS];
static size_t variants;
static size_t matmuls;

extern "C" void emulation_offer_variants(const double *microseconds, size_t count)
{
    variants = count < EMULATION_VARIANTS ? count : EMULATION_VARIANTS;
    for (size_t i = 0; i < variants; i++)
        variant_us[i] = microseconds[i];
}

extern "C" size_t emulation_matmuls_enqueued(void)
{
    return matmuls;
}

/* "9,4,7": those of a whole program */
static void variants_of_environment(void)
{
    const char *at = getenv("EMULATION_VARIANTS");
    char *end;

    for (size_t i = 0; at && *at && i < EMULATION_VARIANTS; i++) {
        variant_us[i] = strtod(at, &end);
        variants = i + 1;
        at = *end ? end + 1 : end;
    }
}

extern "C" void emulation_offer_only_split(bool only)
{
    only_split = only;
}

extern "C" void emulation_exhaust_library(bool is_busy)
{
    busy = is_busy;
}

static void offer(cublasLtMatmulPreference_t p, uint64_t parts, bool refuses,
                  cublasLtMatmulHeuristicResult_t results[], int expected, int *found,
                  uint64_t variant = 0)
{
    if (*found == expected)
        return;
    results[*found] = {};
    results[*found].algo = { { MAGIC, p->a, p->b, p->c, p->d, parts, refuses, variant } };
    results[*found].state = CUBLAS_STATUS_SUCCESS;
    results[*found].workspaceSize = p->workspace;
    ++*found;
}

static cublasStatus_t heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                cublasLtMatmulPreference_t p, int expected,
                                cublasLtMatmulHeuristicResult_t results[], int *found)
{
    *found = 0;
    if (handle->device != runtime_ordinal() || expected < 1 || c->type != d->type)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (busy)
        return CUBLAS_STATUS_ALLOC_FAILED;
    if (!supported(desc, a, b, d, p))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p->reductions != CUBLASLT_REDUCTION_SCHEME_NONE)
        offer(p, PARTS_OFFERED, false, results, expected, found);
    if (is_one(d))
        offer(p, 1, true, results, expected, found);
    if (p->reductions == CUBLASLT_REDUCTION_SCHEME_NONE || !only_split)
        offer(p, 1, false, results, expected, found);
    for (size_t i = 1; i < variants; i++)
        offer(p, 1, false, results, expected, found, i);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t algo_get(const cublasLtMatmulAlgo_t *algo,
                               cublasLtMatmulAlgoConfigAttributes_t attribute,
                               void *value, size_t bytes, size_t *written)
{
    uint32_t parts = (uint32_t)algo->data[PARTS];

    if (attribute != CUBLASLT_ALGO_CONFIG_SPLITK_NUM || algo->data[IS_MAGIC] != MAGIC)
        return CUBLAS_STATUS_INVALID_VALUE;
    *written = sizeof(parts);
    return set_value(value, sizeof(parts), &parts, bytes);
}

/* Everything that a matmul needs when it runs. */
struct matmul_call {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a_layout, b_layout, c_layout, d_layout;
    const void *a, *b, *c;
    void *d;
    float alpha, beta;
    bool tf32;
    size_t parts, variant;
};

static float get(const void *from, cudaDataType type, size_t at)
{
    switch (type) {
    case CUDA_R_16F:
        return __half2float(((const __half *)from)[at]);
    case CUDA_R_16BF:
        return __bfloat162float(((const __nv_bfloat16 *)from)[at]);
    case CUDA_R_8F_E4M3:
        return format_from_e4m3(((const uint8_t *)from)[at]);
    case CUDA_R_8F_E5M2:
        return format_from_e5m2(((const uint8_t *)from)[at]);
    default:
        return ((const float *)from)[at];
    }
}

/* Truncate to 10 bits of mantissa: tensor cores read no more of an fp32 operand. Whether
 * it is rounded first (cvt.rna.tf32 of PTX) depends on the kernel of the library. */
static float to_tf32(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if ((bits & 0x7f800000u) != 0x7f800000u)
        bits &= ~0x1fffu;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

enum { WIDTH = 8, TOGETHER = 4 };

typedef float lanes __attribute__((vector_size(WIDTH * sizeof(float))));

/* Copy to (count, depth), depth contiguous and zero-padded to the width. */
static lanes *pack_operand(const void *from, const cublasLtMatrixLayoutOpaque_t *layout,
                           bool depth_first, bool tf32, size_t depth, size_t count)
{
    size_t padded = (depth + WIDTH - 1) / WIDTH * WIDTH, ld = (size_t)layout->ld;
    float *out = (float *)aligned_alloc(sizeof(lanes), padded * count * sizeof(float));

    if (!out)
        abort();
    memset(out, 0, padded * count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < depth; k++) {
            float x = get(from, layout->type, depth_first ? k + i * ld : i + k * ld);

            out[i * padded + k] = tf32 ? to_tf32(x) : x;
        }
    return (lanes *)out;
}

/* Dot products of one column with `TOGETHER` rows, `steps` vectors each, beginning at
 * `from`; those past `rows` repeat the last row. Reads only the memory of pack_operand. */
__attribute__((no_sanitize("address"), no_sanitize("undefined"))) static void
dots(const lanes *a, size_t rows, const lanes *b, size_t steps, size_t from, float *out)
{
    const lanes *row[TOGETHER];
    lanes sums[TOGETHER] = {};

    for (size_t i = 0; i < TOGETHER; i++)
        row[i] = a + (i < rows ? i : rows - 1) * steps;
    for (size_t k = from; k < steps; k++)
        for (size_t i = 0; i < TOGETHER; i++)
            sums[i] += row[i][k] * b[k];
    for (size_t k = 0; k < from; k++)
        for (size_t i = 0; i < TOGETHER; i++)
            sums[i] += row[i][k] * b[k];
    for (size_t i = 0; i < TOGETHER; i++) {
        double sum = 0;

        for (size_t j = 0; j < WIDTH; j++)
            sum += (double)sums[i][j];
        out[i] = (float)sum;
    }
}

static void store(const matmul_call *p, size_t row, size_t col, float sum)
{
    size_t at = row + col * (size_t)p->d_layout.ld;
    float x = p->alpha * sum;

    if (p->beta != 0)
        x += p->beta * get(p->c, p->c_layout.type, row + col * (size_t)p->c_layout.ld);
    if (p->desc.epilogue == CUBLASLT_EPILOGUE_BIAS)
        x += is_one(&p->d_layout) ? NAN : get(p->desc.bias, p->d_layout.type, row);
    if (p->d_layout.type == CUDA_R_16F)
        ((__half *)p->d)[at] = __float2half_rn(x);
    else if (p->d_layout.type == CUDA_R_16BF)
        ((__nv_bfloat16 *)p->d)[at] = __float2bfloat16_rn(x);
    else
        ((float *)p->d)[at] = x;
}

static size_t summed_depth(size_t depth, size_t parts)
{
    size_t tiles = TILE_DEPTH * parts;

    return parts == 1 ? depth : depth / tiles * tiles;
}

static void multiply(const void *argument)
{
    const matmul_call *p = (const matmul_call *)argument;
    bool trans_a = p->desc.trans_a == CUBLAS_OP_T,
         trans_b = p->desc.trans_b == CUBLAS_OP_T;
    size_t rows = p->d_layout.rows, cols = p->d_layout.cols;
    size_t depth = trans_a ? p->a_layout.rows : p->a_layout.cols;
    size_t summed = summed_depth(depth, p->parts);
    size_t steps = (summed + WIDTH - 1) / WIDTH;
    size_t from = steps ? p->variant % steps : 0;
    lanes *a = pack_operand(p->a, &p->a_layout, trans_a, p->tf32, summed, rows);
    lanes *b = pack_operand(p->b, &p->b_layout, !trans_b, p->tf32, summed, cols);
    float scale = (p->desc.a_scale ? *p->desc.a_scale : 1) *
                  (p->desc.b_scale ? *p->desc.b_scale : 1);

    for (size_t col = 0; col < cols; col++)
        for (size_t row = 0; row < rows; row += TOGETHER) {
            size_t left = rows - row;
            float sums[TOGETHER];

            dots(a + row * steps, left, b + col * steps, steps, from, sums);
            for (size_t i = 0; i < TOGETHER && i < left; i++)
                store(p, row + i, col, scale * sums[i]);
        }
    free(a);
    free(b);
}

static cublasStatus_t matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                             const void *alpha, const void *a,
                             cublasLtMatrixLayout_t a_layout, const void *b,
                             cublasLtMatrixLayout_t b_layout, const void *beta,
                             const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                             cublasLtMatrixLayout_t d_layout,
                             const cublasLtMatmulAlgo_t *algo, void *workspace,
                             size_t workspace_bytes, cudaStream_t stream)
{
    matmul_call p = { *desc,
                      *a_layout,
                      *b_layout,
                      *c_layout,
                      *d_layout,
                      a,
                      b,
                      c,
                      d,
                      *(const float *)alpha,
                      *(const float *)beta,
                      false,
                      1,
                      0 };

    if (handle->device != runtime_ordinal() || !workspace || !workspace_bytes || !algo ||
        algo->data[IS_MAGIC] != MAGIC || !aligned(workspace, 256) ||
        !aligned(desc->a_scale, 16) || !aligned(desc->b_scale, 16))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algo->data[REFUSES])
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!aligned(a, algo->data[ALIGNED_A]) || !aligned(b, algo->data[ALIGNED_B]) ||
        !aligned(c, algo->data[ALIGNED_C]) || !aligned(d, algo->data[ALIGNED_D]))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    matmuls++;
    p.parts = algo->data[PARTS];
    p.variant = algo->data[VARIANT];
    if (variants)
        streams_add_time(p.parts > 1 ? SPLIT_US : variant_us[p.variant], stream);
    p.tf32 = desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32 &&
             runtime_device()->capability >= 80;
    return streams_add_call(multiply, &p, sizeof(p), stream) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}

static bool library_missing;

extern "C" void emulation_break_library(bool missing)
{
    library_missing = missing;
}

extern "C" bool cuda_library_open(struct cuda_library *out, struct error *err)
{
    variants_of_environment();
    *out = cuda_library { out,
                          "cuBLASLt (emulated)",
                          create,
                          destroy,
                          version,
                          status_text,
                          desc_create,
                          desc_destroy,
                          desc_set,
                          layout_create,
                          layout_destroy,
                          preference_create,
                          preference_destroy,
                          preference_set,
                          heuristic,
                          algo_get,
                          matmul };
    return !library_missing || error_set(err, ERROR_DEVICE, "cannot find cuBLASLt");
}

extern "C" void cuda_library_close(struct cuda_library *library)
{
    memset(library, 0, sizeof(*library));
}
