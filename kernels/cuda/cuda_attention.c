/*
 * kernels/cuda/cuda_attention.c - chooses between cuDNN and our kernels, by the operands
 * alone, so that the same job gives the same bits; and prepares the operands for cuDNN.
 *
 * The lengths and offsets of the sequences, the statistics by rows and the workspace of
 * the forward pass (at most 17 KB observed) are in the scratch. The gradients require far
 * more: sums in fp32 and cuDNN's own workspace are in the backend's room for them.
 */
#include "config.h"

#include "kernels/cuda/cuda_attention.h"

#include "base/size.h"
#include "kernels/cuda/cuda_sdpa.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OURS   "trainspool"
#define HOPPER "trainspool for 9.0" /* other kernels, with other bits */

/*
 * A plan is for a number of sequences and a longest one, of which a job has a few; plans
 * are kept because recordings contain their kernels. 9.10.2 is the first version without
 * the faults for which NVIDIA's front end refuses 9.10, and 9.18.1 the first that
 * supports packed sequences before Hopper (sdpa_support_surface.h of cudnn-frontend).
 */
enum { PLANS = 256, PIECE = 256, HOLES = 8, SHORTEST = 64, DEFAULT_FROM = 90 };
/* of cuDNN's backward pass */
enum { LONGEST_HEAD = 256 };
enum { OLDEST = 91002, OLDEST_BEFORE_HOPPER = 91801 };

struct kept {
    struct cuda_sdpa_key key;
    struct cudnn_plan *plan; /* NULL: cuDNN has none */
};

/* A plan that is made in a thread: cuDNN takes more than a second to start and to compile
 * its first kernel, in which a run reads its weights. */
struct expected {
    bool running;
    pthread_t thread;
    struct cuda_sdpa_key key;
    struct cudnn_plan *plan;
    bool none;
    struct error why;
};

struct cuda_attention {
    struct cuda_cudnn cudnn;
    char name[64];
    cudnn_handle handle; /* NULL until it is used */
    struct kept kept[PLANS];
    size_t count;
    struct expected expected;
    bool all;     /* also what our kernels for 9.0 cover */
    bool insists; /* a failure is an error, not a reason to use our kernels */
    bool off;
    bool told; /* logged that some shape does not use cuDNN */
};

/* ---- Opening and closing ---- */

/* Return whether the library can be used; why_not is an error if it is insisted on. */
static bool open_library(struct cuda_attention *attention, struct error *why_not)
{
    if (!cuda_cudnn_open(&attention->cudnn, why_not))
        return false;
    return attention->cudnn.version() >= OLDEST ||
           error_set(why_not, ERROR_DEVICE,
                     "%s is too old for attention; install 9.10.2 or newer, or set "
                     "TRAINSPOOL_CUDNN=0",
                     attention->cudnn.name);
}

/* Return whether our kernels for 9.0 are there, for heads that they cover. */
static bool has_warpgroups(const struct cuda_backend *cuda)
{
    const struct op_attention op = { .q = tensor_of(NULL, FORMAT_BF16, 64, 64),
                                     .sequences = 1,
                                     .heads = 1,
                                     .kv_heads = 1,
                                     .head_size = 64,
                                     .scale = 1 };

    return launch_attention_on_warpgroups(&cuda->launch, &op);
}

bool cuda_attention_new(struct cuda_backend *cuda, struct cuda_attention **out,
                        struct error *err)
{
    const char *asked = getenv("TRAINSPOOL_CUDNN");
    bool insists = cuda_is_set("TRAINSPOOL_CUDNN"), is_default = !asked || !*asked;
    struct cuda_attention *attention;
    struct error why_not = { 0 };

    *out = NULL;
    if (!insists && !(is_default && cuda->launch.capability >= DEFAULT_FROM))
        return true;
    attention = calloc(1, sizeof(*attention));
    if (!attention)
        return error_errno(err, "cannot allocate memory");
    attention->all = attention->insists = insists;
    if (open_library(attention, &why_not)) {
        snprintf(attention->name, sizeof(attention->name), "%s%s",
                 !insists && has_warpgroups(cuda) ? HOPPER ", else " : "",
                 attention->cudnn.name);
        *out = attention;
        return true;
    }
    cuda_attention_free(attention, false);
    return !insists || error_set(err, why_not.code, "%s", why_not.text);
}

/* Take over what the thread has made. After a failure the plan is made again, which
 * reports it. */
static void join_expected(struct cuda_attention *attention)
{
    struct expected *expected = &attention->expected;

    if (!expected->running)
        return;
    pthread_join(expected->thread, NULL);
    expected->running = false;
    if (expected->plan)
        attention->kept[attention->count++] =
            (struct kept) { expected->key, expected->plan };
}

void cuda_attention_free(struct cuda_attention *attention, bool dead)
{
    if (!attention)
        return;
    join_expected(attention);
    for (size_t i = 0; i < attention->count && !dead; i++)
        cudnn_plan_free(attention->kept[i].plan);
    if (attention->handle && !dead)
        attention->cudnn.destroy(attention->handle);
    cuda_cudnn_close(&attention->cudnn);
    free(attention);
}

static bool is_used(const struct cuda_backend *cuda)
{
    return cuda->attention && !cuda->attention->off;
}

const char *cuda_attention_name(struct backend *be)
{
    const struct cuda_backend *cuda = cuda_backend_of(be);

    return is_used(cuda) ? cuda->attention->name : has_warpgroups(cuda) ? HOPPER : OURS;
}

bool cuda_attention_use(struct backend *be, const char *name)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    bool ours = strcmp(name, OURS) == 0 || strcmp(name, HOPPER) == 0;

    if (is_used(cuda) && ours && !cuda->attention->insists)
        cuda->attention->off = true;
    if (strcmp(name, cuda_attention_name(be)) != 0)
        return false;
    if (is_used(cuda))
        cuda->attention->insists = true;
    return true;
}

size_t cuda_attention_plans(const struct cuda_attention *attention)
{
    size_t count = 0;

    for (size_t i = 0; i < attention->count; i++)
        count += attention->kept[i].plan != NULL;
    return count;
}

static bool start(struct cuda_backend *cuda, struct error *err)
{
    struct cuda_attention *attention = cuda->attention;
    cudnn_handle handle = NULL;
    int status;

    if (attention->handle)
        return true;
    status = attention->cudnn.create(&handle);
    if (status == CUDNN_SUCCESS)
        status = attention->cudnn.set_stream(handle, cuda->launch.stream);
    if (status == CUDNN_SUCCESS) {
        attention->handle = handle;
        return true;
    }
    if (handle)
        attention->cudnn.destroy(handle);
    return error_set(
        err, ERROR_DEVICE, "%s does not start on %s: %s; set TRAINSPOOL_CUDNN=0",
        attention->cudnn.name, cuda->device.name, attention->cudnn.text(status));
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
    bool packs =
        is_used(cuda) && (cuda->launch.capability >= 90 ||
                          cuda->attention->cudnn.version() >= OLDEST_BEFORE_HOPPER);

    return packs && (format == FORMAT_FP16 || format == FORMAT_BF16) && !op->reach &&
           !op->key_offsets && op->dropout.p <= 0 && op->softcap <= 0 &&
           op->slopes.factor <= 0 && !op->distances.values && op->head_size % 8 == 0 &&
           op->head_size <= LONGEST_HEAD && op->sequences > 0 && is_dense(op) &&
           in_pieces(op->q) && in_pieces(op->k) && in_pieces(op->v) && in_pieces(op->out);
}

/* Our kernels for 9.0 are as fast where they exist, and have nothing to start. */
static bool forward_fits(const struct cuda_backend *cuda, const struct op_attention *op)
{
    return fits(cuda, op) &&
           (cuda->attention->all || !launch_attention_on_warpgroups(&cuda->launch, op));
}

/* Gradients of packed sequences require Hopper (scaled_dot_product_flash_attention.h of
 * cudnn-frontend). */
static bool gradients_fit(const struct cuda_backend *cuda,
                          const struct op_attention_backward *op)
{
    return cuda->gradients_bytes > 0 && cuda->launch.capability >= 90 &&
           fits(cuda, &op->forward) && in_pieces(op->dq) && in_pieces(op->dk) &&
           in_pieces(op->dv) && in_pieces(op->dout);
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

static struct cuda_sdpa_key gradients_key_of(const struct op_attention_backward *op)
{
    struct cuda_sdpa_key key = key_of(&op->forward);

    key.backward = 1;
    key.dout_stride = (int64_t)op->dout.stride;
    key.dq_stride = (int64_t)op->dq.stride;
    key.dk_stride = (int64_t)op->dk.stride;
    key.dv_stride = (int64_t)op->dv.stride;
    return key;
}

/* ---- Plans ---- */

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

/* cuDNN has failed. If it has computed nothing yet, our kernels compute everything;
 * later, such a failure, which may not repeat, must not choose the implementation. */
static void give_up(struct cuda_backend *cuda, const struct error *why)
{
    struct cuda_attention *attention = cuda->attention;

    if (attention->insists || cuda_attention_plans(attention) > 0) {
        error_set(&cuda->failed, why->code, "%s", why->text);
        return;
    }
    log_line(cuda->log, LOG_WARN, "device: attention runs without cuDNN (%s)", why->text);
    attention->off = true;
}

/* Bytes of the room for gradients that the plan requires. */
static size_t room_for(const struct cuda_sdpa_key *key, const struct cudnn_plan *plan)
{
    return size_round(cuda_sdpa_delta_bytes(key), PIECE) +
           size_round(cuda_sdpa_dq_bytes(key), PIECE) + (size_t)plan->workspace;
}

static struct cudnn_plan *make_plan(struct cuda_backend *cuda,
                                    const struct cuda_sdpa_key *key, bool *none,
                                    struct error *err)
{
    struct cuda_attention *attention = cuda->attention;
    struct cudnn_choice choice = { .varies = key->backward != 0 };
    struct cudnn_plan *plan;
    size_t bytes;

    *none = false;
    if (!start(cuda, err))
        return NULL;
    choice.handle = attention->handle;
    plan = cuda_sdpa_plan_new(&attention->cudnn, &choice, key, none, err);
    bytes = plan && key->backward ? room_for(key, plan) : 0;
    if (bytes <= cuda->gradients_bytes)
        return plan;
    cudnn_plan_free(plan);
    *none = true;
    error_set(err, ERROR_DEVICE, "%s: gradients require %zu MiB, not at most %zu",
              attention->cudnn.name, bytes >> 20, cuda->gradients_bytes >> 20);
    return NULL;
}

/* Return the plan, creating it if necessary. NULL: cuDNN does not run it, or a failure is
 * recorded. */
static const struct cudnn_plan *plan_for(struct cuda_backend *cuda,
                                         const struct cuda_sdpa_key *key)
{
    struct cuda_attention *attention = cuda->attention;
    struct error why = { 0 };
    struct kept *kept;
    bool none;

    join_expected(attention);
    for (size_t i = 0; i < attention->count; i++)
        if (memcmp(&attention->kept[i].key, key, sizeof(*key)) == 0)
            return attention->kept[i].plan;
    if (attention->count == PLANS) {
        error_set(&why, ERROR_DEVICE, "there are more than %d", PLANS);
        log_reason(cuda, &why);
        return NULL;
    }
    kept = &attention->kept[attention->count];
    kept->key = *key;
    kept->plan = make_plan(cuda, key, &none, &why);
    if (!kept->plan && !none) {
        give_up(cuda, &why);
        return NULL;
    }
    attention->count++;
    if (!kept->plan)
        log_reason(cuda, &why);
    return kept->plan;
}

static void *make_expected(void *context)
{
    struct cuda_backend *cuda = context;
    struct expected *expected = &cuda->attention->expected;

    cudaSetDevice(cuda->device.ordinal);
    expected->plan = make_plan(cuda, &expected->key, &expected->none, &expected->why);
    return NULL;
}

/* Signals are for the main thread. */
void cuda_attention_expect(struct backend *be, const struct op_attention *op)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    struct expected *expected;
    sigset_t all, before;

    if (!is_used(cuda) || cuda->attention->count > 0 ||
        cuda->attention->expected.running || !forward_fits(cuda, op))
        return;
    expected = &cuda->attention->expected;
    expected->key = key_of(op);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    expected->running = pthread_create(&expected->thread, NULL, make_expected, cuda) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- Running it ---- */

/* What a plan receives besides the operands. */
struct prepared {
    struct cuda_sequences runs;
    float *stats; /* (N, H) */
    void *delta, *dq_sum, *workspace;
    float scale, hidden, window, one;
};

/* A part of memory that is handed out. */
struct room {
    char *data; /* NULL: more was requested than there is */
    size_t bytes;
};

static void *take(struct room *room, size_t bytes)
{
    void *part = room->data;

    bytes = size_round(bytes ? bytes : 1, PIECE);
    if (!part || bytes > room->bytes) {
        room->data = NULL;
        return NULL;
    }
    room->data += bytes;
    room->bytes -= bytes;
    return part;
}

/* strides: of the matrices, in the order of `starts`; 0: absent. False: not enough
 * room. */
static bool prepare(struct room *room, const struct op_attention *op,
                    const size_t strides[CUDA_SEQUENCES_STARTS], struct prepared *out)
{
    *out = (struct prepared) {
        .runs = { .offsets = op->offsets, .sequences = (int)op->sequences },
        .scale = op->scale,
        .hidden = -INFINITY,
        .window = (float)op->window,
        .one = 1,
    };
    out->runs.lengths = take(room, op->sequences * sizeof(int32_t));
    for (size_t i = 0; i < CUDA_SEQUENCES_STARTS; i++) {
        out->runs.strides[i] = (int32_t)strides[i];
        if (strides[i] > 0)
            out->runs.starts[i] = take(room, (op->sequences + 1) * sizeof(int32_t));
    }
    out->stats = take(room, op->q.rows * op->heads * sizeof(float));
    return room->data != NULL;
}

/* The tensors that both passes have. */
static void fill_tensors(void *tensors[SDPA_IDS], const struct op_attention *op,
                         struct prepared *with)
{
    void *const common[SDPA_IDS] = {
        [SDPA_Q] = op->q.data,
        [SDPA_K] = op->k.data,
        [SDPA_V] = op->v.data,
        [SDPA_OUT] = op->out.data,
        [SDPA_STATS] = with->stats,
        [SDPA_LENGTHS] = with->runs.lengths,
        [SDPA_Q_ROWS] = with->runs.starts[0],
        [SDPA_K_ROWS] = with->runs.starts[1],
        [SDPA_V_ROWS] = with->runs.starts[2],
        [SDPA_OUT_ROWS] = with->runs.starts[3],
        [SDPA_STATS_ROWS] = with->runs.starts[4],
        [SDPA_SCALE] = &with->scale,
        [SDPA_HIDDEN] = &with->hidden,
        [SDPA_WINDOW] = &with->window,
    };

    memcpy(tensors, common, sizeof(common));
}

static cudaError_t run(struct cuda_backend *cuda, const struct cudnn_plan *plan,
                       void *const tensors[SDPA_IDS], void *workspace)
{
    struct error err = { 0 };
    cudaError_t status;

    if (cudnn_plan_run(plan, tensors, workspace, &err))
        return cudaSuccess;
    /* an earlier kernel that failed makes cuDNN fail: then the driver has the better
     * message */
    status = cudaGetLastError();
    if (status == cudaSuccess)
        error_set(&cuda->failed, err.code, "%s", err.text);
    return status;
}

static struct tensor by_rows(const struct op_attention *op, float *stats)
{
    return tensor_of(stats, FORMAT_FP32, op->q.rows, op->heads);
}

cudaError_t cuda_attention_put(struct cuda_backend *cuda, const void *operands)
{
    const struct op_attention *op = operands;
    const size_t strides[CUDA_SEQUENCES_STARTS] = { op->q.stride, op->k.stride,
                                                    op->v.stride, op->out.stride,
                                                    op->heads };
    struct room room = { cuda->launch.scratch, cuda->launch.scratch_bytes };
    struct cuda_sdpa_key key = key_of(op);
    const struct cudnn_plan *plan = forward_fits(cuda, op) ? plan_for(cuda, &key) : NULL;
    void *tensors[SDPA_IDS];
    struct prepared with;
    cudaError_t status;

    if (!cuda_ok(cuda))
        return cudaSuccess;
    if (!plan || !prepare(&room, op, strides, &with) ||
        !(with.workspace = take(&room, (size_t)plan->workspace)))
        return launch_attention(&cuda->launch, op);
    fill_tensors(tensors, op, &with);
    status = launch_sequences(&cuda->launch, &with.runs);
    if (status == cudaSuccess)
        status = run(cuda, plan, tensors, with.workspace);
    if (status != cudaSuccess || !cuda_ok(cuda))
        return status;
    return launch_transpose(&cuda->launch, op->lse, by_rows(op, with.stats));
}

static cudaError_t run_gradients(struct cuda_backend *cuda,
                                 const struct op_attention_backward *op,
                                 const struct cudnn_plan *plan, struct prepared *with)
{
    const struct op_attention *forward = &op->forward;
    struct room room = { cuda->gradients, cuda->gradients_bytes };
    const struct cuda_sdpa_key key = gradients_key_of(op);
    void *tensors[SDPA_IDS];
    cudaError_t status = launch_sequences(&cuda->launch, &with->runs);

    if (status == cudaSuccess)
        status =
            launch_transpose(&cuda->launch, by_rows(forward, with->stats), forward->lse);
    if (status != cudaSuccess)
        return status;
    fill_tensors(tensors, forward, with);
    tensors[SDPA_DOUT] = op->dout.data;
    tensors[SDPA_DQ] = op->dq.data;
    tensors[SDPA_DK] = op->dk.data;
    tensors[SDPA_DV] = op->dv.data;
    tensors[SDPA_DOUT_ROWS] = with->runs.starts[5];
    tensors[SDPA_DQ_ROWS] = with->runs.starts[6];
    tensors[SDPA_DK_ROWS] = with->runs.starts[7];
    tensors[SDPA_DV_ROWS] = with->runs.starts[8];
    tensors[SDPA_DELTA] = take(&room, cuda_sdpa_delta_bytes(&key));
    tensors[SDPA_DQ_SUM] = take(&room, cuda_sdpa_dq_bytes(&key));
    tensors[SDPA_ONE] = &with->one;
    return run(cuda, plan, tensors, room.data);
}

cudaError_t cuda_attention_backward_put(struct cuda_backend *cuda, const void *operands)
{
    const struct op_attention_backward *op = operands;
    const struct op_attention *forward = &op->forward;
    const size_t strides[CUDA_SEQUENCES_STARTS] = {
        forward->q.stride,   forward->k.stride, forward->v.stride,
        forward->out.stride, forward->heads,    op->dout.stride,
        op->dq.stride,       op->dk.stride,     op->dv.stride
    };
    struct room room = { cuda->launch.scratch, cuda->launch.scratch_bytes };
    struct cuda_sdpa_key key = gradients_key_of(op);
    const struct cudnn_plan *plan = gradients_fit(cuda, op) ? plan_for(cuda, &key) : NULL;
    struct prepared with;

    if (!cuda_ok(cuda))
        return cudaSuccess;
    if (!plan || !prepare(&room, forward, strides, &with))
        return launch_attention_backward(&cuda->launch, op);
    return run_gradients(cuda, op, plan, &with);
}
