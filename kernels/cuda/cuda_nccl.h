/*
 * kernels/cuda/cuda_nccl.h - NCCL, NVIDIA's library for sums over several GPUs, loaded
 * when a run has more than one and never linked against. The functions are those of
 * nccl.h, 2.14 and newer.
 */
#ifndef KERNELS_CUDA_CUDA_NCCL_H
#define KERNELS_CUDA_CUDA_NCCL_H

#include <nccl.h>

#include "base/error.h"

struct cuda_nccl {
    void *handle;  /* dlopen's */
    char name[32]; /* "NCCL 2.28.9" */

    ncclResult_t (*version)(int *version);
    ncclResult_t (*unique_id)(ncclUniqueId *id);
    ncclResult_t (*init)(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                         ncclConfig_t *config);
    ncclResult_t (*abort)(ncclComm_t comm);
    ncclResult_t (*state)(ncclComm_t comm, ncclResult_t *state);
    const char *(*text)(ncclResult_t result);
    const char *(*last_error)(ncclComm_t comm);
    ncclResult_t (*reduce)(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, int root, ncclComm_t comm,
                           cudaStream_t stream);
    ncclResult_t (*all_reduce)(const void *from, void *to, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
    ncclResult_t (*all_gather)(const void *from, void *to, size_t count,
                               ncclDataType_t type, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*broadcast)(const void *from, void *to, size_t count,
                              ncclDataType_t type, int root, ncclComm_t comm,
                              cudaStream_t stream);
};

/* Load the library from the loader's search path, or else from the toolkit that this
 * build was configured with. Fails with ERROR_DEVICE and says what to install. */
bool cuda_nccl_open(struct cuda_nccl *out, struct error *err);
void cuda_nccl_close(struct cuda_nccl *nccl); /* does nothing if it was never opened */

#endif
