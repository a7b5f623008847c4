/*
 * tests/emulation/include/nccl.h - the twin of NCCL's header: what
 * kernels/cuda/cuda_nccl.h and cuda_group.c use of it. Names and values are NVIDIA's
 * ("NCCL", 2.28); the functions are reached only through cuda_nccl.h.
 */
#ifndef TESTS_EMULATION_NCCL_H
#define TESTS_EMULATION_NCCL_H

#include <cuda_runtime_api.h>

#define NCCL_VERSION_CODE 22800
enum { NCCL_UNIQUE_ID_BYTES = 128 };

typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;
typedef struct ncclComm *ncclComm_t;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
} ncclResult_t;

typedef enum { ncclSum = 0 } ncclRedOp_t;
typedef enum {
    ncclInt8 = 0,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9
} ncclDataType_t;

typedef struct {
    size_t size;
    int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                     \
    {                                               \
        .size = sizeof(ncclConfig_t), .blocking = 1 \
    }

#endif
