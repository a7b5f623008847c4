/*
 * kernels/cuda/cuda_attention.c - chooses between cuDNN and our kernels, by the operands
 * alone, so that the same job gives the same bits; and prepares the operands for cuDNN.
 *
 * All of that is in the scratch: lengths and offsets of the sequences, the statistics by
 * rows, cuDNN's workspace (at most 17 KB observed).
 */
#include "config.h"

#include "kernels/cuda/cuda_attention.h"

#include "base/size.h"
#include "kernels/cuda/cuda_sdpa.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * A plan is for a number of sequences and a longest one, of which a job has a few; plans
 * are kept because recordings contain their kernels. 9.10.2 is the first version without
 * the faults for which NVIDIA's front end refuses 9.10, and 9.18.1 the first that
 * supports packed sequences before Hopper (sdpa_support_surface.h of cudnn-frontend).
 */
enum { PLANS = 256, PIECE = 256, HOLES = 8, SHORTEST = 64 };
enum { OLDEST = 91002, OLDEST_BEFORE_HOPPER = 91801 };

struct kept {
    struct cuda_sdpa_key key;
    struct cuda_sdpa_plan *plan; /* NULL: cuDNN has none */
};

struct cuda_attention {
    struct cuda_cudnn cudnn;
    cudnn_handle handle;
    struct kept kept[PLANS];
    size_t count;
    bool told; /* logged that some shape does not use cuDNN */
};

/* ---- Opening and closing ---- */

bool cuda_attention_new(struct cuda_backend *cuda, struct cuda_attention **out,
                        struct error *err)
{
    struct cuda_attention *attention;
    int status;

    *out = NULL;
    if (!cuda_is_set("TRAINSPOOL_CUDNN"))
        return true;
    attention = calloc(1, sizeof(*attention));
    if (!attention)
        return error_errno(err, "cannot allocate memory");
    *out = attention;
    if (!cuda_cudnn_open(&attention->cudnn, err))
        return false;
    if (attention->cudnn.version() < OLDEST)
        return error_set(err, ERROR_DEVICE,
                         "%s is too old for attention; install 9.10.2 or newer, or "
                         "unset TRAINSPOOL_CUDNN",
                         attention->cudnn.name);
    status = attention->cudnn.create(&attention->handle);
    if (status == CUDNN_SUCCESS)
        status = attention->cudnn.set_stream(attention->handle, cuda->launch.stream);
    return status == CUDNN_SUCCESS ||
           error_set(
               err, ERROR_DEVICE, "%s does not start on %s: %s; unset TRAINSPOOL_CUDNN",
               attention->cudnn.name, cuda->device.name, attention->cudnn.text(status));
}

void cuda_attention_free(struct cuda_attention *attention, bool dead)
{
    if (!attention)
        return;
    for (size_t i = 0; i < attention->count && !dead; i++)
        cuda_sdpa_plan_free(attention->kept[i].plan);
    if (attention->handle && !dead)
        attention->cudnn.destroy(attention->handle);
    cuda_cudnn_close(&attention->cudnn);
    free(attention);
}

const char *cuda_attention_name(const struct cuda_attention *attention)
{
    return attention->cudnn.name;
}

size_t cuda_attention_plans(const struct cuda_attention *attention)
{
    size_t count = 0;

    for (size_t i = 0; i < attention->count; i++)
        count += attention->kept[i].plan != NULL;
    return count;
}

/* ---- Which operations use cuDNN ---- */

/* A power of two, because prompts have all lengths. */
static size_t longest_of(const struct op_attention *op)
{
    size_t wanted =
        op->longest > 0 && op->longest < op->q.rows ? op->longest : op->q.rows;
    size_t rows = SHORTEST;

    while (rows < wanted)
        rows *= 2;
    return rows;
}

static bool in_pieces(struct tensor x)
{
    return (uintptr_t)x.data % 16 == 0 && x.stride % 8 == 0 &&
           x.rows * x.stride <= INT32_MAX;
}

/* cuDNN launches blocks for all rows that each sequence might have: if most of these rows
 * do not exist, launching them takes longer than the work. */
static bool is_dense(const struct op_attention *op)
{
    return op->sequences * longest_of(op) <= HOLES * op->q.rows;
}

/* Return whether to ask cuDNN; cuDNN itself decides whether it supports this GPU. */
static bool fits(const struct cuda_backend *cuda, const struct op_attention *op)
{
    enum format format = op->q.format;
    bool packs = cuda->launch.capability >= 90 ||
                 cuda->attention->cudnn.version() >= OLDEST_BEFORE_HOPPER;

    return packs && (format == FORMAT_FP16 || format == FORMAT_BF16) &&
           op->dropout.p <= 0 && op->softcap <= 0 && op->head_size % 8 == 0 &&
           op->sequences > 0 && is_dense(op) && in_pieces(op->q) && in_pieces(op->k) &&
           in_pieces(op->v) && in_pieces(op->out);
}

static struct cuda_sdpa_key key_of(const struct op_attention *op)
{
    size_t longest = longest_of(op);

    return (struct cuda_sdpa_key) {
        .sequences = (int64_t)op->sequences,
        .longest = (int64_t)longest,
        .heads = (int64_t)op->heads,
        .kv_heads = (int64_t)op->kv_heads,
        .head_size = (int64_t)op->head_size,
        .window = op->window < longest ? (int64_t)op->window : 0,
        .q_stride = (int64_t)op->q.stride,
        .k_stride = (int64_t)op->k.stride,
        .v_stride = (int64_t)op->v.stride,
        .out_stride = (int64_t)op->out.stride,
        .data_type = op->q.format == FORMAT_FP16 ? CUDNN_HALF : CUDNN_BFLOAT16,
    };
}

/* Log it once: it may apply to every shape. */
static void log_reason(struct cuda_backend *cuda, const struct error *why)
{
    if (!cuda->attention->told)
        log_line(cuda->log, LOG_WARN,
                 "device: attention runs without cuDNN for shapes that it does not "
                 "support (%s)",
                 why->text);
    cuda->attention->told = true;
}

/* Return the plan, creating it if necessary. NULL: cuDNN does not run it, or a failure is
 * recorded: a failure that may not repeat must not choose the implementation. */
static const struct cuda_sdpa_plan *plan_for(struct cuda_backend *cuda,
                                             const struct op_attention *op)
{
    struct cuda_attention *attention = cuda->attention;
    struct cuda_sdpa_key key = key_of(op);
    struct error why = { 0 };
    struct kept *kept;
    bool none;

    for (size_t i = 0; i < attention->count; i++)
        if (memcmp(&attention->kept[i].key, &key, sizeof(key)) == 0)
            return attention->kept[i].plan;
    if (attention->count == PLANS) {
        error_set(&cuda->failed, ERROR_DEVICE,
                  "cannot run attention of more than %d shapes; unset TRAINSPOOL_CUDNN",
                  PLANS);
        return NULL;
    }
    kept = &attention->kept[attention->count];
    kept->key = key;
    kept->plan =
        cuda_sdpa_plan_new(&attention->cudnn, attention->handle, NULL, &key, &none, &why);
    if (!kept->plan && !none) {
        error_set(&cuda->failed, why.code, "%s", why.text);
        return NULL;
    }
    attention->count++;
    if (!kept->plan)
        log_reason(cuda, &why);
    return kept->plan;
}

/* ---- Running it ---- */

/* Return a part of the scratch; NULL if there is no room. */
static void *take(struct cuda_launch *left, size_t bytes)
{
    void *part = left->scratch;

    bytes = size_round(bytes ? bytes : 1, PIECE);
    if (!part || bytes > left->scratch_bytes) {
        left->scratch = NULL;
        return NULL;
    }
    left->scratch = (char *)part + bytes;
    left->scratch_bytes -= bytes;
    return part;
}

/* False: not enough scratch. */
static bool lay_out(struct cuda_launch left, const struct op_attention *op,
                    const struct cuda_sdpa_plan *plan, struct cuda_sequences *runs,
                    float **stats, void **workspace)
{
    const size_t strides[CUDA_SEQUENCES_STARTS] = { op->q.stride, op->k.stride,
                                                    op->v.stride, op->out.stride,
                                                    op->heads };

    *runs = (struct cuda_sequences) { .offsets = op->offsets,
                                      .sequences = (int)op->sequences };
    runs->lengths = take(&left, op->sequences * sizeof(int32_t));
    for (size_t i = 0; i < CUDA_SEQUENCES_STARTS; i++) {
        runs->strides[i] = (int32_t)strides[i];
        runs->starts[i] = take(&left, (op->sequences + 1) * sizeof(int32_t));
    }
    *stats = take(&left, op->q.rows * op->heads * sizeof(float));
    *workspace = take(&left, cuda_sdpa_workspace(plan));
    return left.scratch != NULL;
}

static cudaError_t attend(struct cuda_backend *cuda, const struct op_attention *op,
                          const struct cuda_sdpa_plan *plan,
                          const struct cuda_sequences *runs, float *stats,
                          void *workspace)
{
    float scale = op->scale, hidden = -INFINITY, window = (float)op->window;
    void *tensors[SDPA_IDS] = {
        [SDPA_Q] = op->q.data,
        [SDPA_K] = op->k.data,
        [SDPA_V] = op->v.data,
        [SDPA_OUT] = op->out.data,
        [SDPA_STATS] = stats,
        [SDPA_LENGTHS] = runs->lengths,
        [SDPA_Q_ROWS] = runs->starts[0],
        [SDPA_K_ROWS] = runs->starts[1],
        [SDPA_V_ROWS] = runs->starts[2],
        [SDPA_OUT_ROWS] = runs->starts[3],
        [SDPA_STATS_ROWS] = runs->starts[4],
        [SDPA_SCALE] = &scale,
        [SDPA_HIDDEN] = &hidden,
        [SDPA_WINDOW] = &window,
    };
    cudaError_t status = launch_sequences(&cuda->launch, runs);
    struct error err = { 0 };

    if (status == cudaSuccess && !cuda_sdpa_run(plan, tensors, workspace, &err)) {
        /* an earlier kernel that failed makes cuDNN fail: then the driver has the better
         * message */
        status = cudaGetLastError();
        if (status == cudaSuccess)
            error_set(&cuda->failed, err.code, "%s", err.text);
        return status;
    }
    if (status != cudaSuccess)
        return status;
    return launch_transpose(&cuda->launch, op->lse,
                            tensor_of(stats, FORMAT_FP32, op->q.rows, op->heads));
}

cudaError_t cuda_attention_put(struct cuda_backend *cuda, const void *operands)
{
    const struct op_attention *op = operands;
    const struct cuda_sdpa_plan *plan = NULL;
    struct cuda_sequences runs;
    void *workspace;
    float *stats;

    if (cuda->attention && fits(cuda, op))
        plan = plan_for(cuda, op);
    if (!cuda_ok(cuda))
        return cudaSuccess;
    if (!plan || !lay_out(cuda->launch, op, plan, &runs, &stats, &workspace))
        return launch_attention(&cuda->launch, op);
    return attend(cuda, op, plan, &runs, stats, workspace);
}
