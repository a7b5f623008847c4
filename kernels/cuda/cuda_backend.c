/* kernels/cuda/cuda_backend.c - the CUDA backend: its table, its stream and
 * its memory. */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include "base/size.h"
#include "kernels/cuda/cuda_attention.h"
#include "kernels/cuda/cuda_group.h"
#include "kernels/cuda/cuda_matmul.h"
#include "kernels/cuda/cuda_tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory ---- */

static bool no_memory(const struct cuda_backend *cuda, size_t bytes, struct error *err)
{
    size_t available = 0, all = 0;

    cudaGetLastError();
    cudaMemGetInfo(&available, &all);
    return error_set(
        err, ERROR_MEMORY,
        "%s (cuda:%d) has %zu MiB of its %zu free, and the job needs %zu MiB, and %zu "
        "for code and the driver: lower per_device_train_batch_size or cutoff_len, turn "
        "gradient_checkpointing on, or end the other program that holds memory of the "
        "card (see nvidia-smi)",
        cuda->device.name, cuda->device.ordinal, available >> 20, all >> 20, bytes >> 20,
        CUDA_RESERVE_BYTES >> 20);
}

static void release_memory(void *data, bool on_host)
{
    if (on_host)
        cudaFreeHost(data);
    else
        cudaFree(data);
}

/* cudaFree waits for the GPU: the memory of a dead one is freed when the process ends. */
static void cuda_free(struct backend *be, void *data)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    bool on_host;

    for (struct cuda_block **at = &cuda->blocks; *at; at = &(*at)->next) {
        struct cuda_block *block = *at;

        if (block->data != data)
            continue;
        on_host = block->on_host;
        *at = block->next;
        free(block);
        if (cuda_wait_all(cuda))
            release_memory(data, on_host);
        return;
    }
}

/* Some memory must stay free for later allocations of the driver, or the first step
 * fails. */
static void *get_block(struct cuda_backend *cuda, size_t bytes, struct error *err)
{
    size_t available = 0, all = 0;
    void *block = NULL;
    cudaError_t status = cudaMalloc(&block, bytes ? bytes : 1);

    if (status == cudaErrorMemoryAllocation) {
        no_memory(cuda, bytes, err);
        return NULL;
    }
    if (status == cudaSuccess)
        status = cudaMemGetInfo(&available, &all);
    if (status == cudaSuccess && available >= CUDA_RESERVE_BYTES)
        return block;
    cudaFree(block); /* NULL if the allocation failed */
    if (cuda_status(status, err, "cannot allocate %zu MiB on %s", bytes >> 20,
                    cuda->device.name))
        no_memory(cuda, bytes, err);
    return NULL;
}

/* Page-locked memory has the same address on the device, and kernels read it over the bus
 * (CUDA C++ Programming Guide, Mapped Memory; Unified Virtual Address Space). */
static void *get_host_block(struct cuda_backend *cuda, size_t bytes, struct error *err)
{
    void *block = NULL;
    cudaError_t status = cudaHostAlloc(&block, bytes ? bytes : 1,
                                       cudaHostAllocPortable | cudaHostAllocMapped);

    (void)cuda;
    if (status == cudaSuccess)
        return block;
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        error_set(err, ERROR_SYSTEM,
                  "cannot lock %zu MiB of host memory for the optimizer: free memory of "
                  "the host, or set offload_optimizer: false",
                  bytes >> 20);
    } else {
        cuda_status(status, err, "cannot lock %zu MiB of host memory", bytes >> 20);
    }
    return NULL;
}

/* Add a block of either kind to the list. */
static void *add_block(struct cuda_backend *cuda, size_t bytes, bool on_host,
                       struct error *err)
{
    struct cuda_block *block = calloc(1, sizeof(*block));

    if (!block) {
        error_errno(err, "cannot allocate memory");
        return NULL;
    }
    cuda_guard(cuda->patience);
    cudaSetDevice(cuda->device.ordinal);
    block->data = (on_host ? get_host_block : get_block)(cuda, bytes, err);
    cuda_guard(0);
    if (!block->data) {
        free(block);
        return NULL;
    }
    block->on_host = on_host;
    block->next = cuda->blocks;
    cuda->blocks = block;
    return block->data;
}

static void *cuda_alloc(struct backend *be, size_t bytes, struct error *err)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    void *data = add_block(cuda, bytes, false, err);
    cudaError_t status;

    if (!data)
        return NULL;
    status = cudaMemsetAsync(data, 0, bytes, cuda->launch.stream);
    if (cuda_status(status, err, "cannot clear %zu MiB on %s", bytes >> 20,
                    cuda->device.name))
        return data;
    cuda_free(be, data);
    return NULL;
}

static void *cuda_alloc_host(struct backend *be, size_t bytes, struct error *err)
{
    void *data = add_block(cuda_backend_of(be), bytes, true, err);

    return data ? memset(data, 0, bytes) : NULL;
}

static size_t cuda_workspace(struct backend *be)
{
    struct cuda_backend *cuda = cuda_backend_of(be);

    return cuda->held_bytes + cuda_matmul_bytes(cuda->matmul) + CUDA_RESERVE_BYTES;
}

/* ---- Waiting ---- */

static bool cuda_sync(struct backend *be, struct error *err)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    bool done = cuda_wait_all(cuda);
    struct error failed = cuda->failed;

    cuda->fences_seen = cuda->fences_made;
    if (done)
        cuda_deliver(cuda, cuda_ok(cuda));
    if (!cuda->dead)
        error_clear(&cuda->failed);
    return failed.code == ERROR_NONE || error_set(err, failed.code, "%s", failed.text);
}

static void cuda_fence(struct backend *be)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    struct cuda_fence *fence = &cuda->fences[cuda->fences_made++ % BACKEND_FENCES];

    fence->pieces = cuda_end_piece(cuda);
    if (cuda_ok(cuda))
        cuda_check(cuda, cudaEventRecord(fence->event, cuda->launch.stream),
                   "cannot record an event");
    fence->failed = !cuda_ok(cuda);
}

/* What fails after the fence is reported later. If another rank ends, the work with it was
 * aborted, and this step's results are worth nothing. */
static bool cuda_reach(struct backend *be, struct error *err)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    struct cuda_fence *fence = &cuda->fences[cuda->fences_seen % BACKEND_FENCES];

    if (cuda->fences_seen == cuda->fences_made)
        return true;
    if (fence->failed || !cuda_wait(cuda, fence->event, &cuda->usual_reach) ||
        (cuda->group && !cuda_group_well(cuda)))
        return cuda_sync(be, err);
    cuda->fences_seen++;
    cuda_deliver_pieces(cuda, fence->pieces);
    return true;
}

static const char *cuda_describe(struct backend *be)
{
    return cuda_backend_of(be)->about;
}

/* ---- Opening and closing ---- */

static void cuda_close(struct backend *be)
{
    struct cuda_backend *cuda = cuda_backend_of(be);

    if (cuda->launch.stream && cuda->beats)
        cuda_wait_all(cuda);
    if (!cuda->dead)
        cuda_group_free(cuda->group);
    cuda->group = NULL;
    while (cuda->blocks)
        cuda_free(be, cuda->blocks->data);
    cuda_graphs_free(cuda->graphs, cuda->dead);
    cuda_attention_free(cuda->attention, cuda->dead);
    cuda_tuning_free(cuda->tuning, cuda->dead);
    cuda_matmul_free(cuda->matmul, cuda->dead);
    cuda_staging_free(cuda->staging, cuda->dead);
    for (size_t i = 0; i < BACKEND_FENCES && !cuda->dead; i++)
        if (cuda->fences[i].event)
            cudaEventDestroy(cuda->fences[i].event);
    cuda_beats_free(cuda->beats, cuda->dead);
    if (!cuda->dead) {
        cudaFree(cuda->held);
        if (cuda->launch.stream)
            cudaStreamDestroy(cuda->launch.stream);
    }
    free(cuda);
}

static bool open_card(struct cuda_backend *cuda, struct error *err)
{
    const struct device *device = &cuda->device;
    struct cudaDeviceProp properties;
    cudaError_t status = cudaSetDevice(device->ordinal);
    char why[300];

    if (status == cudaSuccess)
        status = cudaGetDeviceProperties(&properties, device->ordinal);
    if (status == cudaSuccess)
        status = launch_kernel_image();
    cudaGetLastError();
    if (cuda_lacks_code(status))
        return error_set(
            err, ERROR_DEVICE,
            "%s has compute capability %d.%d, and this build has code for %s (in "
            "tenths): configure --with-cuda-archs=%d, or set device: cpu",
            device->name, properties.major, properties.minor, CUDA_ARCHS,
            10 * properties.major + properties.minor);
    if (status != cudaSuccess) {
        cuda_card_text(status, why, sizeof(why));
        return error_set(err, cuda_error_code(status),
                         "%s (cuda:%d) cannot be used, but device: cpu can: %s",
                         device->name, device->ordinal, why);
    }
    cuda->launch.capability = 10 * properties.major + properties.minor;
    cuda->launch.multiprocessors = properties.multiProcessorCount;
    cuda->launch.shared_max = properties.sharedMemPerBlockOptin;
    return cuda_status(
        cudaStreamCreateWithFlags(&cuda->launch.stream, cudaStreamNonBlocking), err,
        "cannot create a stream on %s", device->name);
}

static bool open_fences(struct cuda_backend *cuda, struct error *err)
{
    for (size_t i = 0; i < BACKEND_FENCES; i++)
        if (!cuda_status(
                cudaEventCreateWithFlags(&cuda->fences[i].event, cudaEventDisableTiming),
                err, "cannot create an event"))
            return false;
    return true;
}

static bool open_parts(struct cuda_backend *cuda, const struct backend_options *options,
                       struct error *err)
{
    size_t matmul_bytes = cuda_matmul_room(cuda, options->rounded_bytes);

    cuda->beats = cuda_beats_new(err);
    cuda->graphs = cuda->beats ? cuda_graphs_new(err) : NULL;
    cuda->staging = cuda->graphs ? cuda_staging_new(err) : NULL;
    if (!cuda->staging || !open_fences(cuda, err))
        return false;
    matmul_bytes = size_round(matmul_bytes, backend_cuda.alignment);
    cuda->gradients_bytes = options->gradients_bytes;
    cuda->held_bytes = CUDA_SCRATCH_BYTES + matmul_bytes + cuda->gradients_bytes;
    cuda->held = get_block(cuda, cuda->held_bytes, err);
    if (!cuda->held)
        return false;
    cuda->launch.scratch = cuda->held;
    cuda->launch.scratch_bytes = CUDA_SCRATCH_BYTES;
    cuda->gradients = (char *)cuda->held + CUDA_SCRATCH_BYTES + matmul_bytes;
    cuda->matmul = cuda_matmul_new(cuda, (char *)cuda->held + CUDA_SCRATCH_BYTES,
                                   options->rounded_bytes, err);
    cuda->tuning = cuda->matmul ? cuda_tuning_new(cuda, options->choices_dir, err) : NULL;
    return cuda->tuning && cuda_attention_new(cuda, &cuda->attention, err);
}

static struct backend *cuda_open(const struct backend_options *options, struct error *err)
{
    struct cuda_backend *cuda = calloc(1, sizeof(*cuda));
    bool opened;

    if (!cuda) {
        error_errno(err, "cannot allocate memory");
        return NULL;
    }
    cuda->base.ops = &backend_cuda;
    cuda->device = *options->device;
    cuda->log = options->log;
    cuda->tf32 = options->tf32;
    cuda->named = cuda_is_set("TRAINSPOOL_CUDA_SYNC");
    cuda->patience = CUDA_PATIENCE_SECONDS;
    cuda->doing = "nothing yet";
    cuda_guard(cuda->patience);
    opened = open_card(cuda, err) && open_parts(cuda, options, err);
    cuda_guard(0);
    if (!opened) {
        cuda_close(&cuda->base);
        return NULL;
    }
    snprintf(cuda->about, sizeof(cuda->about),
             "cuda:%d: %s, %d.%d, %d multiprocessors, %s", cuda->device.ordinal,
             cuda->device.name, cuda->launch.capability / 10,
             cuda->launch.capability % 10, cuda->launch.multiprocessors,
             cuda_matmul_name(cuda->matmul));
    return &cuda->base;
}

#define CUDA_ENTRY(name, ...) .name = cuda_##name,

const struct backend_ops backend_cuda = {
    .name = "cuda",
    .kind = DEVICE_CUDA,
    .alignment = 256,
    .devices = cuda_devices,
    .examine = cuda_examine,
    .measure = cuda_measure,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .workspace = cuda_workspace,
    .attention_name = cuda_attention_name,
    .attention_use = cuda_attention_use,
    .attention_expect = cuda_attention_expect,
    .alloc = cuda_alloc,
    .alloc_host = cuda_alloc_host,
    .free = cuda_free,
    .upload = cuda_upload,
    .download = cuda_download,
    .sync = cuda_sync,
    .fence = cuda_fence,
    .reach = cuda_reach,
    .begin = cuda_begin,
    .end = cuda_end,
    .join = cuda_join,
    .reduce = cuda_reduce,
    .all_reduce = cuda_all_reduce,
    .all_gather = cuda_all_gather,
    .broadcast = cuda_broadcast,
    .send = cuda_send,
    .meet = cuda_meet,
    .mark = cuda_mark,
    .meet_mark = cuda_meet_mark,
    .choices = cuda_choices,
    .replay_choices = cuda_replay_choices,
    OPERATIONS(CUDA_ENTRY) /* NAME = cuda_NAME, for each */
};
