/*
 * kernels/cuda/cuda_nvml.h - NVML, the driver's library for its state, loaded for a probe
 * and never linked against. The functions and numbers are those of nvml.h, which not every
 * toolkit has; they are the same in all versions.
 */
#ifndef KERNELS_CUDA_CUDA_NVML_H
#define KERNELS_CUDA_CUDA_NVML_H

#include <stdbool.h>

enum { NVML_SUCCESS = 0, NVML_GPU_IS_LOST = 15, NVML_RESET_REQUIRED = 16 };
enum { NVML_UNCORRECTED = 1 }; /* errors of memory */
enum { NVML_SINCE_LOAD = 0 };  /* of the driver */
/* Field of drivers from 570 on: what the GPU needs to recover from its errors (Xid), an
 * nvmlDeviceGpuRecoveryAction_t. */
enum { NVML_RECOVERY = 230 };
enum {
    NVML_RECOVERY_NONE,
    NVML_RECOVERY_RESET,
    NVML_RECOVERY_REBOOT,
    NVML_RECOVERY_DRAIN_P2P,
    NVML_RECOVERY_DRAIN_AND_RESET,
    NVML_RECOVERY_IMEX_DOMAIN,
    NVML_RECOVERY_BUS_RESET,
    NVML_RECOVERY_SYSTEM_REBOOT
};

struct nvml_field {
    unsigned field, scope;
    long long timestamp, latency;
    int type, result;
    union {
        double real;
        unsigned number;
        unsigned long long large;
    } value;
};

struct nvml_memory {
    unsigned long long total, free, used;
};

/* A function that the driver lacks is NULL. */
struct cuda_nvml {
    void *handle; /* dlopen's */

    int (*init)(void);
    int (*shutdown)(void);
    int (*find)(const char *bus_id, void **gpu);
    int (*memory)(void *gpu, struct nvml_memory *memory);
    int (*errors)(void *gpu, int kind, int since, unsigned long long *count);
    int (*remapped)(void *gpu, unsigned *corrected, unsigned *uncorrected,
                    unsigned *pending, unsigned *failed);
    int (*fields)(void *gpu, int count, struct nvml_field *fields);
};

/* Load and initialize the library. Return false if there is none that can be used. */
bool cuda_nvml_open(struct cuda_nvml *out);
void cuda_nvml_close(struct cuda_nvml *nvml);

#endif
