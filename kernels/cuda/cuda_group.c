/*
 * kernels/cuda/cuda_group.c - several GPUs: NCCL on a separate stream.
 *
 * An event makes that stream wait for the work issued so far, another makes the main
 * stream wait for it (`meet`), and in between they run concurrently: the sums of one
 * layer's gradients pass over NVLink, PCIe or the network while the next layer's are computed.  A third
 * event (`mark`) lets the main stream continue before the end of that stream.  Gradients
 * that are sent in bf16 are rounded and widened on that stream, a piece at a time: a copy
 * at the rate of the card's memory takes little time next to a link.
 *
 * NCCL waits forever for a process that has ended. So its calls are nonblocking, and code
 * that waits also checks the links.
 */
#include "config.h"

#include "kernels/cuda/cuda_group.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/link.h"
#include "base/size.h"
#include "kernels/cuda/cuda_nccl.h"
#include "precision/memory.h"

#define INIT_SECONDS 300 /* 8 GPUs take about 5 s */
#define POLLS        200 /* before sleeping: a sum is enqueued within about 50 us */

struct cuda_group {
    struct cuda_nccl nccl;
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t issued, done, marked;
    bool pending;    /* the stream has work since the last meet */
    double patience; /* seconds that NCCL may take to shut down */
    int rank, link_count, links[RANKS_MAX];
    void *rounded; /* a piece in bf16, of MEMORY_ROUNDED_GRADIENTS; NULL: sent in fp32 */
};

int cuda_group_rank(const struct cuda_group *group)
{
    return group ? group->rank : 0;
}

static bool all_alive(const struct cuda_group *group)
{
    for (int i = 0; i < group->link_count; i++)
        if (!link_is_alive(group->links[i]))
            return false;
    return true;
}

static bool set_nccl_error(const struct cuda_group *group, ncclResult_t result,
                           const char *doing, struct error *err)
{
    return error_set(err, ERROR_DEVICE,
                     "%s: %s: %s (%s); NCCL_DEBUG=WARN in the environment gives details",
                     group->nccl.name, doing, group->nccl.text(result),
                     group->nccl.last_error(group->comm));
}

/* Calls return before they complete; no other NCCL call is allowed until they do. */
static bool complete_call(struct cuda_group *group, ncclResult_t result,
                          const char *doing, struct error *err)
{
    static const struct timespec moment = { .tv_nsec = 20000 };
    double until = clock_seconds() + INIT_SECONDS;
    int polls = 0;

    while (result == ncclInProgress && group->comm) {
        if (group->nccl.state(group->comm, &result) != ncclSuccess)
            break;
        if (result != ncclInProgress)
            break;
        if (!all_alive(group))
            return error_set(err, ERROR_SYSTEM, LINK_OTHER_ENDED);
        if (polls++ < POLLS) {
            sched_yield();
            continue;
        }
        if (clock_seconds() > until)
            return error_set(err, ERROR_DEVICE, "%s: %s: no answer for %d s",
                             group->nccl.name, doing, INIT_SECONDS);
        nanosleep(&moment, NULL);
    }
    return result == ncclSuccess || set_nccl_error(group, result, doing, err);
}

/*
 * Rank 0 distributes the id of the group once all ranks have loaded NCCL and opened their
 * GPU: a rank that cannot do so ends before the others wait for it inside NCCL. A rank
 * may still prepare its data, for hours; so the others wait as long as it lives, and a
 * rank that is stuck in its driver does not live long (cuda_guard).
 */
static bool agree(struct cuda_group *group, ncclUniqueId *id, struct error *err)
{
    char ready = 1;
    int i;

    if (group->rank > 0)
        return link_send(group->links[0], &ready, 1, 0, err) &&
               link_receive(group->links[0], id, sizeof(*id), 0, err);
    for (i = 0; i < group->link_count; i++)
        if (!link_receive(group->links[i], &ready, 1, 0, err))
            return false;
    if (!complete_call(group, group->nccl.unique_id(id),
                       "cannot create the id of the group", err))
        return false;
    for (i = 0; i < group->link_count; i++)
        if (!link_send(group->links[i], id, sizeof(*id), 0, err))
            return false;
    return true;
}

static bool make_stream(struct cuda_group *group, struct error *err)
{
    /* before kernels that wait for free multiprocessors: it has few blocks, and others
     * wait for it */
    cudaError_t status =
        cudaStreamCreateWithPriority(&group->stream, cudaStreamNonBlocking, -1);

    if (status == cudaSuccess)
        status = cudaEventCreateWithFlags(&group->issued, cudaEventDisableTiming);
    if (status == cudaSuccess)
        status = cudaEventCreateWithFlags(&group->done, cudaEventDisableTiming);
    if (status == cudaSuccess)
        status = cudaEventCreateWithFlags(&group->marked, cudaEventDisableTiming);
    return status == cudaSuccess ||
           error_set(err, ERROR_DEVICE, "cannot create a second stream: %s",
                     cudaGetErrorString(status));
}

static bool make_room(struct cuda_group *group, enum format sent, struct error *err)
{
    cudaError_t status = cudaSuccess;

    if (sent == FORMAT_BF16)
        status = cudaMalloc(&group->rounded, MEMORY_ROUNDED_GRADIENTS);
    return status == cudaSuccess ||
           error_set(err, ERROR_DEVICE, "cannot allocate %zu MiB to send gradients: %s",
                     (size_t)MEMORY_ROUNDED_GRADIENTS >> 20, cudaGetErrorString(status));
}

static bool prepare(struct cuda_group *group, enum format sent, struct error *err)
{
    bool ok;

    cuda_guard(group->patience);
    ok = cuda_nccl_open(&group->nccl, err) && make_stream(group, err) &&
         make_room(group, sent, err);
    cuda_guard(0);
    return ok;
}

static bool join(struct cuda_group *group, const struct backend_group *wanted,
                 struct error *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    bool ok;

    config.blocking = 0;
    if (!prepare(group, wanted->sent, err) || !agree(group, &id, err))
        return false;
    cuda_guard(group->patience);
    ok = complete_call(
        group, group->nccl.init(&group->comm, wanted->ranks, id, group->rank, &config),
        "cannot join the GPUs", err);
    cuda_guard(0);
    return ok;
}

/* Wait for NCCL's work on the GPU. */
static void part(struct cuda_group *group)
{
    if (!group->comm)
        return;
    cuda_guard(group->patience);
    group->nccl.abort(group->comm);
    cuda_guard(0);
    group->comm = NULL;
}

void cuda_group_free(struct cuda_group *group)
{
    if (!group)
        return;
    part(group);
    if (group->issued)
        cudaEventDestroy(group->issued);
    if (group->done)
        cudaEventDestroy(group->done);
    if (group->marked)
        cudaEventDestroy(group->marked);
    if (group->stream)
        cudaStreamDestroy(group->stream);
    if (group->rounded)
        cudaFree(group->rounded);
    cuda_nccl_close(&group->nccl);
    free(group);
}

bool cuda_group_well(struct cuda_backend *cuda)
{
    struct cuda_group *group = cuda->group;
    ncclResult_t state = ncclSuccess;
    bool alive = all_alive(group);

    if (group->comm && alive)
        group->nccl.state(group->comm, &state);
    if (group->comm && alive && (state == ncclSuccess || state == ncclInProgress))
        return true;
    if (!alive)
        error_set(&cuda->failed, ERROR_SYSTEM, LINK_OTHER_ENDED);
    else if (group->comm)
        set_nccl_error(group, state, "cannot communicate", &cuda->failed);
    else
        error_set(&cuda->failed, ERROR_DEVICE, "the GPUs of this run left their group");
    part(group);
    return false;
}

/* Make the second stream continue after all work issued so far. False: return. */
static bool begin(struct cuda_backend *cuda)
{
    struct cuda_group *group = cuda->group;
    cudaError_t status;

    if (!cuda_ok(cuda) || !cuda_group_well(cuda))
        return false;
    status = cudaEventRecord(group->issued, cuda->launch.stream);
    if (status == cudaSuccess)
        status = cudaStreamWaitEvent(group->stream, group->issued, 0);
    cuda_check(cuda, status, "cannot synchronize with the other GPUs");
    group->pending = true;
    return status == cudaSuccess;
}

/* Convert on the second stream. */
static bool convert(struct cuda_backend *cuda, struct tensor out, struct tensor x)
{
    struct cuda_launch to = cuda->launch;

    to.stream = cuda->group->stream;
    cuda_check(cuda, launch_convert(&to, &(struct op_convert) { .out = out, .x = x }),
               "cannot convert gradients");
    return cuda_ok(cuda);
}

static bool sum(struct cuda_backend *cuda, struct tensor x, int root)
{
    struct cuda_group *group = cuda->group;
    ncclDataType_t type = x.format == FORMAT_BF16 ? ncclBfloat16 : ncclFloat32;

    return complete_call(group,
                         group->nccl.reduce(x.data, x.data, x.cols, type, ncclSum, root,
                                            group->comm, group->stream),
                         "cannot sum gradients", &cuda->failed);
}

/* NCCL rounds its partial sums to bf16, too. */
static void reduce_rounded(struct cuda_backend *cuda, float *data, size_t count, int root)
{
    struct cuda_group *group = cuda->group;
    const size_t most = MEMORY_ROUNDED_GRADIENTS / sizeof(uint16_t);

    for (size_t at = 0, part; at < count; at += part) {
        struct tensor x, rounded;

        part = count - at < most ? count - at : most;
        x = tensor_of(data + at, FORMAT_FP32, 1, part);
        rounded = tensor_of(group->rounded, FORMAT_BF16, 1, part);
        if (!convert(cuda, rounded, x) || !sum(cuda, rounded, root) ||
            (group->rank == root && !convert(cuda, x, rounded)))
            return;
    }
}

void cuda_reduce(struct backend *be, float *data, size_t count, int root)
{
    struct cuda_backend *cuda = cuda_backend_of(be);

    if (count == 0 || !begin(cuda))
        return;
    if (cuda->group->rounded)
        reduce_rounded(cuda, data, count, root);
    else
        sum(cuda, tensor_of(data, FORMAT_FP32, 1, count), root);
}

void cuda_all_reduce(struct backend *be, double *data, size_t count)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    struct cuda_group *group = cuda->group;

    if (count > 0 && begin(cuda))
        complete_call(group,
                      group->nccl.all_reduce(data, data, count, ncclFloat64, ncclSum,
                                             group->comm, group->stream),
                      "cannot sum values", &cuda->failed);
}

void cuda_all_gather(struct backend *be, void *data, size_t bytes)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    struct cuda_group *group = cuda->group;
    char *pieces = data;

    if (bytes > 0 && begin(cuda))
        complete_call(group,
                      group->nccl.all_gather(pieces + (size_t)group->rank * bytes, pieces,
                                             bytes, ncclInt8, group->comm, group->stream),
                      "cannot distribute weights", &cuda->failed);
}

void cuda_broadcast(struct backend *be, void *data, size_t bytes, int root)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    struct cuda_group *group = cuda->group;

    if (bytes > 0 && begin(cuda))
        complete_call(group,
                      group->nccl.broadcast(data, data, bytes, ncclInt8, root,
                                            group->comm, group->stream),
                      "cannot distribute weights", &cuda->failed);
}

/* By a broadcast: NCCL's sends would take device memory for each pair of ranks. */
void cuda_send(struct backend *be, void *data, size_t bytes, int from, int to)
{
    (void)to;
    cuda_broadcast(be, data, bytes, from);
}

void cuda_meet(struct backend *be)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    struct cuda_group *group = cuda->group;
    cudaError_t status;

    if (!group->pending || !cuda_ok(cuda))
        return;
    group->pending = false;
    status = cudaEventRecord(group->done, group->stream);
    if (status == cudaSuccess)
        status = cudaStreamWaitEvent(cuda->launch.stream, group->done, 0);
    cuda_check(cuda, status, "cannot synchronize with the other GPUs");
}

void cuda_mark(struct backend *be)
{
    struct cuda_backend *cuda = cuda_backend_of(be);

    if (cuda_ok(cuda))
        cuda_check(cuda, cudaEventRecord(cuda->group->marked, cuda->group->stream),
                   "cannot synchronize with the other GPUs");
}

void cuda_meet_mark(struct backend *be)
{
    struct cuda_backend *cuda = cuda_backend_of(be);

    if (cuda_ok(cuda))
        cuda_check(cuda, cudaStreamWaitEvent(cuda->launch.stream, cuda->group->marked, 0),
                   "cannot synchronize with the other GPUs");
}

/*
 * From 2.22 on NCCL connects, and allocates device memory, on the first call of each
 * kind; and long calls may use other channels than short ones. So each kind that will be
 * used runs once, in both lengths, before the model takes the free memory.
 */
static bool warm_up(struct cuda_backend *cuda, int ranks, struct error *err)
{
    const size_t bytes = cuda->launch.scratch_bytes;
    const size_t lengths[] = { sizeof(double), bytes / (size_t)ranks / 256 * 256 };
    struct backend *be = &cuda->base;
    void *data = cuda->launch.scratch;

    cuda_check(cuda, cudaMemsetAsync(data, 0, bytes, cuda->launch.stream),
               "cannot clear %zu MiB", bytes >> 20);
    for (size_t i = 0; i < TS_COUNT(lengths); i++) {
        for (int root = 0; root < ranks; root++) {
            cuda_reduce(be, data, lengths[i] / sizeof(float), root);
            cuda_broadcast(be, data, lengths[i], root);
        }
        cuda_all_gather(be, data, lengths[i]);
    }
    cuda_all_reduce(be, data, 1);
    cuda_meet(be);
    return be->ops->sync(be, err);
}

bool cuda_join(struct backend *be, const struct backend_group *wanted, struct error *err)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    struct cuda_group *group = calloc(1, sizeof(*group));
    size_t len;

    if (!group)
        return error_errno(err, "cannot allocate memory");
    group->patience = cuda->patience;
    group->rank = wanted->rank;
    group->link_count = wanted->rank == 0 ? wanted->ranks - 1 : 1;
    for (int i = 0; i < group->link_count; i++)
        group->links[i] = wanted->links[i];
    if (!join(group, wanted, err)) {
        cuda_group_free(group);
        return false;
    }
    len = strlen(cuda->about);
    snprintf(cuda->about + len, sizeof(cuda->about) - len, ", rank %d of %d by %s",
             wanted->rank, wanted->ranks, group->nccl.name);
    cuda->group = group;
    return warm_up(cuda, wanted->ranks, err);
}
