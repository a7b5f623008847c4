/*
 * tests/emulation/emulation_nccl.cc - NCCL's interface, in place of
 * kernels/cuda/cuda_nccl.c: sums over processes in shared memory
 * (kernels/cpu/cpu_rendezvous.h), executed when the stream reaches them.
 *
 * As in the real library, a communicator refuses calls while an earlier call is in
 * progress. A call reports that once and is complete when the state is queried.
 */
#include "tests/emulation/emulation_runtime.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern "C" {
#include "kernels/cpu/cpu_rendezvous.h"
#include "kernels/cuda/cuda_nccl.h"
#include "precision/format.h"
}

struct ncclComm {
    struct rendezvous *rendezvous;
    int rank, ranks;
    bool blocking, busy;
};

enum call_kind {
    CALL_REDUCE,
    CALL_ALL_REDUCE,
    CALL_ALL_GATHER,
    CALL_BROADCAST,
    CALL_REDUCE_BF16
};

struct call {
    enum call_kind kind;
    struct ncclComm *comm;
    void *data;
    size_t count;
    int root;
};

static char together[256];

const char *emulation_collectives(void)
{
    return together;
}

static void note(const struct call *call)
{
    static const size_t element_bytes[] = { sizeof(float), sizeof(double), 1, 1,
                                            sizeof(uint16_t) };
    bool is_long = call->count * element_bytes[call->kind] >= (size_t)1 << 20;
    size_t len = strlen(together);

    if (len + 1 < sizeof(together))
        together[len] = (is_long ? "RAGBH" : "ragbh")[call->kind];
}

/* The sum travels from rank to rank and ends at the root, rounded on each way. */
static bool reduce_bf16(const struct call *call)
{
    const size_t ranks = (size_t)call->comm->ranks, count = call->count;
    uint16_t *all = (uint16_t *)malloc(ranks * count * sizeof(*all));
    uint16_t *data = (uint16_t *)call->data;
    bool ok;

    memcpy(all + (size_t)call->comm->rank * count, data, count * sizeof(*all));
    ok = rendezvous_all_gather(call->comm->rendezvous, all, count * sizeof(*all));
    for (size_t i = 0; ok && call->comm->rank == call->root && i < count; i++) {
        size_t rank = ((size_t)call->root + 1) % ranks;
        uint16_t sum = all[rank * count + i];

        for (size_t r = 1; r < ranks; r++) {
            rank = (rank + 1) % ranks;
            sum = format_to_bf16(format_from_bf16(sum) +
                                 format_from_bf16(all[rank * count + i]));
        }
        data[i] = sum;
    }
    free(all);
    return ok;
}

static void run(const void *argument)
{
    const struct call *call = (const struct call *)argument;
    struct rendezvous *rendezvous = call->comm->rendezvous;
    bool ok = false;

    note(call);
    switch (call->kind) {
    case CALL_REDUCE:
        ok = rendezvous_reduce(rendezvous, (float *)call->data, call->count, call->root);
        break;
    case CALL_ALL_REDUCE:
        ok = rendezvous_all_reduce(rendezvous, (double *)call->data, call->count);
        break;
    case CALL_ALL_GATHER:
        ok = rendezvous_all_gather(rendezvous, call->data, call->count);
        break;
    case CALL_BROADCAST:
        ok = rendezvous_broadcast(rendezvous, call->data, call->count, call->root);
        break;
    case CALL_REDUCE_BF16:
        ok = reduce_bf16(call);
        break;
    }
    if (!ok)
        runtime_fail(cudaErrorUnknown);
}

static ncclResult_t put(ncclComm_t comm, const struct call *call, size_t bytes,
                        cudaStream_t stream)
{
    if (comm->busy || !runtime_is_device(call->data, bytes))
        return ncclInvalidUsage;
    if (streams_add_call(run, call, sizeof(*call), stream) != cudaSuccess)
        return ncclUnhandledCudaError;
    comm->busy = !comm->blocking;
    return comm->busy ? ncclInProgress : ncclSuccess;
}

static ncclResult_t version(int *out)
{
    *out = NCCL_VERSION_CODE;
    return ncclSuccess;
}

/* Create memory for the maximum number of ranks, under a name that other processes can
 * open. */
static ncclResult_t unique_id(ncclUniqueId *id)
{
    int file = rendezvous_file(DEVICE_RANKS_MAX, NULL);

    if (file < 0)
        return ncclSystemError;
    snprintf(id->internal, sizeof(id->internal), "/proc/%d/fd/%d", (int)getpid(), file);
    return ncclSuccess;
}

static ncclResult_t init(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                         ncclConfig_t *config)
{
    int file = open(id.internal, O_RDWR | O_CLOEXEC);
    struct rendezvous *rendezvous =
        file < 0 ? NULL : rendezvous_open(file, rank, ranks, NULL, NULL);

    if (file >= 0)
        close(file);
    if (!rendezvous)
        return ncclSystemError;
    *comm = (ncclComm_t)calloc(1, sizeof(**comm));
    (*comm)->rendezvous = rendezvous;
    (*comm)->rank = rank;
    (*comm)->ranks = ranks;
    (*comm)->blocking = config->blocking != 0;
    (*comm)->busy = !(*comm)->blocking;
    return (*comm)->busy ? ncclInProgress : ncclSuccess;
}

static ncclResult_t comm_abort(ncclComm_t comm)
{
    rendezvous_close(comm->rendezvous);
    free(comm);
    return ncclSuccess;
}

static ncclResult_t state_of(ncclComm_t comm, ncclResult_t *state)
{
    *state = comm->busy ? ncclInProgress : ncclSuccess;
    comm->busy = false;
    return ncclSuccess;
}

static const char *text(ncclResult_t result)
{
    return result == ncclInvalidUsage ? "invalid usage" : "unhandled error";
}

static const char *last_error(ncclComm_t comm)
{
    (void)comm;
    return "";
}

static ncclResult_t reduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    bool narrow = type == ncclBfloat16;
    const struct call call = { narrow ? CALL_REDUCE_BF16 : CALL_REDUCE, comm, to, count,
                               root };

    if (from != to || (type != ncclFloat32 && !narrow) || op != ncclSum || root < 0 ||
        root >= comm->ranks)
        return ncclInvalidArgument;
    return put(comm, &call, count * (narrow ? sizeof(uint16_t) : sizeof(float)), stream);
}

static ncclResult_t all_reduce(const void *from, void *to, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    const struct call call = { CALL_ALL_REDUCE, comm, to, count, 0 };

    if (from != to || type != ncclFloat64 || op != ncclSum)
        return ncclInvalidArgument;
    return put(comm, &call, count * sizeof(double), stream);
}

static ncclResult_t all_gather(const void *from, void *to, size_t count,
                               ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
    const struct call call = { CALL_ALL_GATHER, comm, to, count, 0 };

    if (type != ncclInt8 || from != (char *)to + (size_t)comm->rank * count)
        return ncclInvalidArgument;
    return put(comm, &call, count * (size_t)comm->ranks, stream);
}

static ncclResult_t broadcast(const void *from, void *to, size_t count,
                              ncclDataType_t type, int root, ncclComm_t comm,
                              cudaStream_t stream)
{
    const struct call call = { CALL_BROADCAST, comm, to, count, root };

    if (type != ncclInt8 || from != to || root < 0 || root >= comm->ranks)
        return ncclInvalidArgument;
    return put(comm, &call, count, stream);
}

extern "C" bool cuda_nccl_open(struct cuda_nccl *out, struct error *err)
{
    (void)err;
    *out = {};
    snprintf(out->name, sizeof(out->name), "NCCL (emulated)");
    out->version = version;
    out->unique_id = unique_id;
    out->init = init;
    out->abort = comm_abort;
    out->state = state_of;
    out->text = text;
    out->last_error = last_error;
    out->reduce = reduce;
    out->all_reduce = all_reduce;
    out->all_gather = all_gather;
    out->broadcast = broadcast;
    return true;
}

extern "C" void cuda_nccl_close(struct cuda_nccl *nccl)
{
    *nccl = {};
}
