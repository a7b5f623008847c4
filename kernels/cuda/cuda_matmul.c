/*
 * kernels/cuda/cuda_matmul.c - op_matmul: looks up the plan and calls the library.
 *
 * For fp8, both operands are first rounded into our own memory, in the one layout that
 * every GPU with fp8 supports: the summed dimension is contiguous in both.
 */
#include "config.h"

#include "kernels/cuda/cuda_matmul.h"

#include "base/size.h"
#include "kernels/cuda/cuda_tuning.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* NVIDIA's recommendation for cuBLAS: 32 MiB on Hopper and newer, 4 on earlier GPUs
 * (cublasSetWorkspace); a larger workspace allows split sums. */
enum { WORKSPACE_OLD = 8 << 20, WORKSPACE_NEW = 32 << 20 };

/* fp8 matmuls: each dimension in memory is a multiple of 16 bytes, as are
 * the addresses. */
enum { FP8_UNIT = 16, SCALES_BYTES = 256, AREAS = 16 };

/* The factors of a and of b are 16 bytes apart: cuBLAS 12.9 to 13.1 requires this (CUDA
 * Toolkit release notes, cuBLAS, [5728938]). */
enum { SCALE_OF_A = 0, SCALE_OF_B = 16 / sizeof(float) };

/* Rows of a part, when rows are done in parts: whole tiles. */
enum { ROWS_UNIT = 64 };

struct area {
    char *data;
    size_t bytes;
};

struct cuda_matmul {
    struct cuda_library library;
    cublasLtHandle_t handle;
    struct cuda_plans *plans;
    void *workspace;
    size_t workspace_bytes;
    float *scales; /* SCALE_OF_A, SCALE_OF_B, on the card */
    /* Buffers for rounded operands. The first is part of the backend's own memory; one
     * that was too small is kept, because a recording may refer to it. */
    struct area areas[AREAS];
    size_t area_count;
    size_t in_fp8; /* matmuls */
    bool told;     /* logged that some are not done in fp8 */
};

static size_t workspace_for(const struct cuda_backend *cuda)
{
    return cuda->launch.capability >= 90 ? WORKSPACE_NEW : WORKSPACE_OLD;
}

/* For two operands, each begins at a multiple of 256. */
static size_t padded(size_t rounded_bytes)
{
    return size_round(rounded_bytes, 256) + 256;
}

size_t cuda_matmul_room(const struct cuda_backend *cuda, size_t rounded_bytes)
{
    return workspace_for(cuda) + SCALES_BYTES +
           (rounded_bytes ? padded(rounded_bytes) : 0);
}

struct cuda_matmul *cuda_matmul_new(const struct cuda_backend *cuda, void *room,
                                    size_t rounded_bytes, struct error *err)
{
    struct cuda_matmul *matmul = calloc(1, sizeof(*matmul));
    cublasStatus_t status;

    if (!matmul) {
        error_errno(err, "cannot allocate memory for matmuls");
        return NULL;
    }
    if (!cuda_library_open(&matmul->library, err)) {
        cuda_matmul_free(matmul, false);
        return NULL;
    }
    matmul->workspace = room;
    matmul->workspace_bytes = workspace_for(cuda);
    matmul->scales = (float *)(void *)((char *)room + matmul->workspace_bytes);
    if (rounded_bytes > 0)
        matmul->areas[matmul->area_count++] =
            (struct area) { (char *)matmul->scales + SCALES_BYTES,
                            padded(rounded_bytes) };
    status = matmul->library.create(&matmul->handle);
    if (status == CUBLAS_STATUS_SUCCESS)
        matmul->plans =
            cuda_plans_new(&matmul->library, matmul->handle, matmul->workspace_bytes);
    if (!matmul->plans) {
        error_set(err, ERROR_DEVICE, "%s does not start on %s: %s; set device: cpu",
                  matmul->library.name, cuda->device.name,
                  matmul->library.status_text(status));
        cuda_matmul_free(matmul, false);
        return NULL;
    }
    return matmul;
}

void cuda_matmul_free(struct cuda_matmul *matmul, bool dead)
{
    if (!matmul)
        return;
    cuda_plans_free(matmul->plans);
    if (matmul->handle && !dead)
        matmul->library.destroy(matmul->handle);
    for (size_t i = 0; i < matmul->area_count && !dead; i++)
        if (matmul->areas[i].data != (char *)matmul->scales + SCALES_BYTES)
            cudaFree(matmul->areas[i].data);
    cuda_library_close(&matmul->library);
    free(matmul);
}

const char *cuda_matmul_name(const struct cuda_matmul *matmul)
{
    return matmul->library.name;
}

size_t cuda_matmul_plans(const struct cuda_matmul *matmul)
{
    return cuda_plans_count(matmul->plans);
}

void cuda_matmul_forget_plans(struct cuda_matmul *matmul)
{
    cuda_plans_forget(matmul->plans);
}

size_t cuda_matmul_in_fp8(const struct cuda_matmul *matmul)
{
    return matmul->in_fp8;
}

size_t cuda_matmul_bytes(const struct cuda_matmul *matmul)
{
    size_t bytes = 0;

    for (size_t i = 0; i < matmul->area_count; i++)
        if (matmul->areas[i].data != (char *)matmul->scales + SCALES_BYTES)
            bytes += matmul->areas[i].bytes;
    return bytes;
}

/* ---- One matmul ---- */

static size_t depth_of(const struct op_matmul *op)
{
    return op->trans_a ? op->a.rows : op->a.cols;
}

static bool operands_are_valid(const struct op_matmul *op)
{
    return op->out.rows == (op->trans_a ? op->a.cols : op->a.rows) &&
           op->out.cols == (op->trans_b ? op->b.rows : op->b.cols) &&
           depth_of(op) == (op->trans_b ? op->b.cols : op->b.rows) &&
           op->a.format == op->b.format &&
           (op->out.format == FORMAT_FP32 || op->out.format == op->a.format) &&
           (op->beta == 0 || op->beta == 1) &&
           (!op->bias.data ||
            (op->bias.format == FORMAT_FP32 && op->bias.cols == op->out.cols));
}

static struct matmul_key key_of(const struct cuda_backend *cuda,
                                const struct op_matmul *op)
{
    struct matmul_key key = { 0 };

    key.rows = op->out.rows;
    key.cols = op->out.cols;
    key.depth = depth_of(op);
    key.a_stride = op->a.stride;
    key.b_stride = op->b.stride;
    key.out_stride = op->out.stride;
    key.trans_a = op->trans_a;
    key.trans_b = op->trans_b;
    key.a_format = (unsigned char)op->a.format;
    key.b_format = (unsigned char)op->b.format;
    key.out_format = (unsigned char)op->out.format;
    key.bias = op->bias.data != NULL;
    key.adds = op->beta != 0;
    key.tf32 = cuda->tf32 && op->a.format == FORMAT_FP32;
    key.a_aligned = cuda_plan_aligned(op->a.data);
    key.b_aligned = cuda_plan_aligned(op->b.data);
    key.out_aligned = cuda_plan_aligned(op->out.data);
    key.bias_aligned = cuda_plan_aligned(op->bias.data);
    return key;
}

#define MATMUL_TEXT "(%zu, %zu) %s = (%zu, %zu) (%zu, %zu) %s"
#define MATMUL_SHAPE(op)                                                                 \
    (op)->out.rows, (op)->out.cols, format_info((op)->out.format)->name, (op)->out.rows, \
        depth_of(op), depth_of(op), (op)->out.cols, format_info((op)->a.format)->name

static void refuse(struct cuda_backend *cuda, const struct op_matmul *op,
                   cublasStatus_t status)
{
    error_set(&cuda->failed, ERROR_DEVICE,
              "matmul " MATMUL_TEXT
              ": %s does not support this matmul on %s (%s); choose another precision, "
              "or device: cpu",
              MATMUL_SHAPE(op), cuda->matmul->library.name, cuda->device.name,
              cuda->matmul->library.status_text(status));
}

/* Return the plan, or NULL; with `must` that is a failure, which is recorded. */
static struct cuda_plan *plan_for(struct cuda_backend *cuda, const struct op_matmul *op,
                                  bool must)
{
    struct matmul_key key = key_of(cuda, op);
    struct cuda_plan *plan = cuda_plan_find(cuda->matmul->plans, &key);

    if (!plan)
        error_errno(&cuda->failed, "cannot allocate memory for the plan of a matmul");
    else if (plan->status != CUBLAS_STATUS_SUCCESS && must)
        refuse(cuda, op, plan->status);
    return plan && plan->status == CUBLAS_STATUS_SUCCESS ? plan : NULL;
}

size_t cuda_matmul_choices(struct cuda_backend *cuda, const struct op_matmul *op)
{
    struct cuda_plan *plan = plan_for(cuda, op, false);

    return plan ? plan->count : 0;
}

void cuda_matmul_choose(struct cuda_backend *cuda, const struct op_matmul *op,
                        size_t choice)
{
    struct cuda_plan *plan = plan_for(cuda, op, false);

    if (plan && choice < plan->count)
        plan->chosen = (unsigned)choice;
}

static cublasStatus_t point(struct cuda_matmul *matmul, struct cuda_plan *plan,
                            cublasLtMatmulDescAttributes_t attribute, const void *at)
{
    return matmul->library.desc_set(plan->desc, attribute, &at, sizeof(at));
}

/* An earlier kernel that failed makes the library fail: then the driver has the better
 * message. */
static cudaError_t fail(struct cuda_backend *cuda, const struct op_matmul *op,
                        cublasStatus_t status)
{
    cudaError_t driver = cudaGetLastError();

    if (driver == cudaSuccess)
        error_set(&cuda->failed, ERROR_DEVICE, "matmul " MATMUL_TEXT ": %s: %s",
                  MATMUL_SHAPE(op), cuda->matmul->library.name,
                  cuda->matmul->library.status_text(status));
    return driver;
}

cublasStatus_t cuda_matmul_enqueue(struct cuda_backend *cuda,
                                   const struct cuda_plan *plan,
                                   const struct op_matmul *op, void *into)
{
    struct cuda_matmul *matmul = cuda->matmul;

    return matmul->library.matmul(
        matmul->handle, plan->desc, &op->alpha, op->b.data, plan->b, op->a.data, plan->a,
        &op->beta, op->out.data, plan->out, into, plan->out, &plan->algos[plan->chosen],
        matmul->workspace, matmul->workspace_bytes, cuda->launch.stream);
}

/* Use the first of the plan's algorithms that the library accepts: heuristics of cuBLAS
 * 13.3 return some for matmuls with one row that it then refuses. */
static cublasStatus_t multiply_by(struct cuda_backend *cuda, struct cuda_plan *plan,
                                  const struct op_matmul *op)
{
    cublasStatus_t status;

    if (!plan->settled)
        cuda_tuning_settle(cuda, plan, op);
    for (;;) {
        status = cuda_matmul_enqueue(cuda, plan, op, op->out.data);
        if (status != CUBLAS_STATUS_NOT_SUPPORTED || plan->chosen + 1 == plan->count)
            return status;
        plan->chosen++;
    }
}

/* scales: those of a and b, or NULL */
static cudaError_t multiply(struct cuda_backend *cuda, struct cuda_plan *plan,
                            const struct op_matmul *op, const float *const *scales)
{
    struct cuda_matmul *matmul = cuda->matmul;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

    if (plan->adds_bias)
        status = point(matmul, plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, op->bias.data);
    if (status == CUBLAS_STATUS_SUCCESS && scales)
        status = point(matmul, plan, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales[1]);
    if (status == CUBLAS_STATUS_SUCCESS && scales)
        status = point(matmul, plan, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales[0]);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = multiply_by(cuda, plan, op);
    if (status != CUBLAS_STATUS_SUCCESS)
        return fail(cuda, op, status);
    if (op->bias.data && !plan->adds_bias)
        return launch_add_bias(&cuda->launch, op->out, op->out, op->bias);
    return cudaSuccess;
}

/* ---- fp8 ---- */

static bool fits_fp8(const struct op_matmul *op)
{
    size_t bytes = format_info(op->out.format)->bytes;

    return depth_of(op) % FP8_UNIT == 0 && op->out.cols % FP8_UNIT == 0 &&
           op->out.stride * bytes % FP8_UNIT == 0 &&
           (uintptr_t)op->out.data % FP8_UNIT == 0;
}

/* Log it once: a job has many matmuls, each with a few other shapes. */
static void log_reason(struct cuda_backend *cuda, const struct op_matmul *op)
{
    if (!cuda->matmul->told)
        log_line(cuda->log, LOG_WARN,
                 "device: matmul " MATMUL_TEXT
                 " cannot run in fp8: it and similar ones run without fp8",
                 MATMUL_SHAPE(op));
    cuda->matmul->told = true;
}

/* Return a buffer of this many bytes; NULL, with the failure recorded, if there
 * is none. */
static char *area_for(struct cuda_backend *cuda, size_t bytes)
{
    struct cuda_matmul *matmul = cuda->matmul;
    struct area *area = &matmul->areas[matmul->area_count];
    cudaError_t status;

    for (size_t i = 0; i < matmul->area_count; i++)
        if (matmul->areas[i].bytes >= bytes)
            return matmul->areas[i].data;
    bytes = size_round(bytes, (size_t)2 << 20);
    if (matmul->area_count > 0 && bytes < 2 * area[-1].bytes)
        bytes = 2 * area[-1].bytes; /* so that AREAS are enough */
    assert(matmul->area_count < AREAS);
    status = cudaMalloc((void **)&area->data, bytes);
    cuda_check(cuda, status, "cannot allocate %zu MiB for the operands of fp8 matmuls",
               bytes >> 20);
    if (status != cudaSuccess)
        return NULL;
    area->bytes = bytes;
    matmul->area_count++;
    return area->data;
}

/* An operand of an fp8 matmul. */
struct rounding {
    struct tensor x;
    enum format format;
    bool turned; /* the matmul reads the transpose */
    struct rounded_matrix kept;
    void *room; /* for what the matmul reads, unless that is kept; NULL: no matmul */
    float *scale;
};

static struct rounding rounding_of(const struct op_matmul *op, bool b, float *scales)
{
    struct rounding r = { .x = op->a,
                          .format = op->round_a,
                          .turned = op->trans_a,
                          .kept = op->rounded_a,
                          .scale = scales + SCALE_OF_A };

    if (b)
        r = (struct rounding) { .x = op->b,
                                .format = op->round_b,
                                .turned = !op->trans_b,
                                .kept = op->rounded_b,
                                .scale = scales + SCALE_OF_B };
    if (r.kept.room)
        r.scale = r.kept.room;
    assert(!r.kept.ready || r.turned || !r.kept.turned_only);
    return r;
}

/* Return where the matrix, or its transpose, goes; NULL: nowhere. */
static void *part_of(const struct rounding *r, bool turned)
{
    size_t elements = r->x.rows * r->x.cols;

    if (!r->kept.room || (r->kept.turned_only && !turned))
        return turned == r->turned ? r->room : NULL;
    return (char *)r->kept.room + SCALES_BYTES + (turned ? 0 : size_round(elements, 256));
}

/* Return the bytes of `room` that it needs. */
static size_t room_of(const struct rounding *r)
{
    bool kept = r->kept.room && (r->turned || !r->kept.turned_only);

    return kept ? 0 : r->x.rows * r->x.cols;
}

/* Return what the matmul reads: contiguous (rows, depth). */
static struct tensor rounded(const struct rounding *r)
{
    return tensor_of(part_of(r, r->turned), r->format, r->turned ? r->x.cols : r->x.rows,
                     r->turned ? r->x.rows : r->x.cols);
}

static cudaError_t fill(struct cuda_backend *cuda, const struct rounding *r)
{
    const float *largest = r->kept.measured ? rounded_matrix_largest(r->kept.room) : NULL;

    if (r->kept.ready || (!r->room && !r->kept.room))
        return cudaSuccess;
    return launch_quantize(&cuda->launch,
                           &(struct cuda_quantize) { .x = r->x,
                                                     .out = part_of(r, false),
                                                     .turned = part_of(r, true),
                                                     .largest = largest,
                                                     .scale = r->scale,
                                                     .format = r->format });
}

/* Without a room, what later matmuls read is nevertheless filled. */
static cudaError_t fill_both(struct cuda_backend *cuda, const struct rounding *a,
                             const struct rounding *b)
{
    cudaError_t status = fill(cuda, a);

    return status == cudaSuccess ? fill(cuda, b) : status;
}

static cudaError_t multiply_rounded(struct cuda_backend *cuda, const struct op_matmul *op,
                                    bool *done)
{
    struct cuda_matmul *matmul = cuda->matmul;
    struct rounding a = rounding_of(op, false, matmul->scales);
    struct rounding b = rounding_of(op, true, matmul->scales);
    const float *const scales[] = { a.scale, b.scale };
    size_t a_bytes = size_round(room_of(&a), 256), bytes = a_bytes + room_of(&b);
    struct op_matmul in_fp8 = *op;
    struct cuda_plan *plan = NULL;
    cudaError_t status;

    if (!fits_fp8(op))
        return fill_both(cuda, &a, &b);
    if (bytes > 0) {
        a.room = area_for(cuda, bytes);
        if (!a.room)
            return cudaSuccess;
        b.room = (char *)a.room + a_bytes;
    }
    in_fp8.a = rounded(&a);
    in_fp8.b = rounded(&b);
    in_fp8.trans_a = false;
    in_fp8.trans_b = true;
    plan = plan_for(cuda, &in_fp8, false);
    *done = plan != NULL;
    if (!plan)
        a.room = b.room = NULL;
    status = fill_both(cuda, &a, &b);
    if (status != cudaSuccess || !plan)
        return status;
    matmul->in_fp8++;
    return multiply(cuda, plan, &in_fp8, scales);
}

/* With the format that is said. */
static cudaError_t put(struct cuda_backend *cuda, const struct op_matmul *op)
{
    bool done = false;
    struct cuda_plan *plan;

    if (op->round_a != FORMAT_FP32) {
        cudaError_t status;

        if (cuda->launch.capability < 89) {
            error_set(&cuda->failed, ERROR_DEVICE,
                      "fp8 matmuls require compute capability 8.9, and %s has %d.%d; set "
                      "fp8: false",
                      cuda->device.name, cuda->device.major, cuda->device.minor);
            return cudaSuccess;
        }
        status = multiply_rounded(cuda, op, &done);
        if (done || status != cudaSuccess || !cuda_ok(cuda))
            return status;
        log_reason(cuda, op);
    }
    plan = plan_for(cuda, op, true);
    return plan ? multiply(cuda, plan, op, NULL) : cudaSuccess;
}

/* ---- A bias and a 16-bit result ---- */

/* Let the library add the bias, which it takes in the format of the result: 16 bits, as
 * matmuls read weights. Return whether it can; not to an earlier result, whose sum with
 * the bias might be rounded, too. */
static bool put_with_bias(struct cuda_backend *cuda, const struct op_matmul *op,
                          cudaError_t *status)
{
    const struct cuda_launch *to = &cuda->launch;
    struct op_matmul narrow = *op;
    struct cuda_plan *plan;

    narrow.bias = tensor_of(to->scratch, op->out.format, 1, op->out.cols);
    if (op->beta != 0 || op->round_a != FORMAT_FP32 ||
        tensor_bytes(narrow.bias) > to->scratch_bytes)
        return false;
    plan = plan_for(cuda, &narrow, false);
    if (!plan || !plan->adds_bias)
        return false;
    *status =
        launch_convert(to, &(struct op_convert) { .out = narrow.bias, .x = op->bias });
    if (*status == cudaSuccess)
        *status = multiply(cuda, plan, &narrow, NULL);
    return true;
}

/* Compute rows first .. of the result in fp32, so that the sum is rounded once. (The
 * matmul comes before other uses of the scratch: rounding to fp8 uses it.) */
static cudaError_t put_wide(struct cuda_backend *cuda, const struct op_matmul *op,
                            size_t first, size_t count)
{
    const struct cuda_launch *to = &cuda->launch;
    struct tensor out = tensor_rows(op->out, first, count);
    struct tensor wide = tensor_of(to->scratch, FORMAT_FP32, count, op->out.cols);
    struct op_matmul part = *op;
    cudaError_t status;

    part.out = wide;
    part.a = op->trans_a ? tensor_columns(op->a, first, count)
                         : tensor_rows(op->a, first, count);
    part.bias.data = NULL;
    part.beta = 0;
    status = put(cuda, &part);
    if (status != cudaSuccess || !cuda_ok(cuda))
        return status;
    if (op->beta == 0)
        return launch_add_bias(to, out, wide, op->bias);
    status = launch_add_bias(to, wide, wide, op->bias);
    if (status == cudaSuccess)
        status = launch_add(to, &(struct op_add) { .out = out, .a = out, .b = wide });
    return status;
}

cudaError_t cuda_matmul_put(struct cuda_backend *cuda, const void *operands)
{
    const struct op_matmul *op = operands;
    size_t most = cuda->launch.scratch_bytes / sizeof(float);
    cudaError_t status = cudaSuccess;

    assert(operands_are_valid(op));
    if (op->out.rows == 0 || op->out.cols == 0 || depth_of(op) == 0)
        return cudaSuccess;
    if (launch_thin_suits(&cuda->launch, op))
        return launch_thin(&cuda->launch, op);
    if (!op->bias.data || op->out.format == FORMAT_FP32)
        return put(cuda, op);
    if (put_with_bias(cuda, op, &status))
        return status;
    assert(!op->rounded_a.room);
    most = most / op->out.cols;
    if (most == 0)
        return cudaErrorNotSupported;
    if (most > ROWS_UNIT)
        most -= most % ROWS_UNIT;
    for (size_t first = 0; first < op->out.rows && status == cudaSuccess; first += most) {
        size_t left = op->out.rows - first;

        status = put_wide(cuda, op, first, left < most ? left : most);
    }
    return status;
}
