/*
 * kernels/cuda/cuda_health.c - which GPUs should get no job.
 *
 * The causes are those for which NVIDIA's DCGM fails its health checks (User Guide, "Error
 * codes": DCGM_FR_VOLATILE_DBE_DETECTED, DCGM_FR_ROW_REMAP_FAILURE, and lost GPUs), and the
 * recovery action of nvml.h, which covers Xid errors. A remapping that is pending, or that
 * worked, is none: the GPU continues to work.
 */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include <stdio.h>

#include "kernels/cuda/cuda_nvml.h"

static const char *describe_status(int status)
{
    return status == NVML_GPU_IS_LOST      ? "the driver has lost it: restart the machine"
           : status == NVML_RESET_REQUIRED ? "the driver requires a reset of it"
                                           : NULL;
}

/* NULL: none, or not known. *status is that of NVML. */
static const char *find_recovery(const struct cuda_nvml *nvml, void *gpu, int *status)
{
    struct nvml_field field = { .field = NVML_RECOVERY };

    if (!nvml->fields)
        return NULL;
    *status = nvml->fields(gpu, 1, &field);
    if (*status != NVML_SUCCESS || field.result != NVML_SUCCESS ||
        field.value.number == NVML_RECOVERY_NONE)
        return NULL;
    return field.value.number == NVML_RECOVERY_RESET
               ? "after an error, the driver requires a reset of it (see Xid in dmesg)"
           : field.value.number == NVML_RECOVERY_REBOOT
               ? "after an error, the driver requires a restart of the machine (see Xid in "
                 "dmesg)"
               : "after an error, the driver asks for no more work on it (see Xid in dmesg)";
}

static bool has_bad_rows(const struct cuda_nvml *nvml, void *gpu, int *status)
{
    unsigned corrected, uncorrected, pending, failed = 0;

    if (!nvml->remapped)
        return false;
    *status = nvml->remapped(gpu, &corrected, &uncorrected, &pending, &failed);
    return *status == NVML_SUCCESS && failed != 0;
}

static unsigned long long count_errors(const struct cuda_nvml *nvml, void *gpu,
                                       int *status)
{
    unsigned long long count = 0;

    if (!nvml->errors)
        return 0;
    *status = nvml->errors(gpu, NVML_UNCORRECTED, NVML_SINCE_LOAD, &count);
    return *status == NVML_SUCCESS ? count : 0;
}

static void judge(const struct cuda_nvml *nvml, struct device *device)
{
    const size_t room = sizeof(device->ill);
    char bus_id[32];
    void *gpu = NULL;
    int status = NVML_SUCCESS;
    unsigned long long errors = 0;
    const char *why = NULL;

    if (cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), device->ordinal) != cudaSuccess)
        return;
    status = nvml->find(bus_id, &gpu);
    if (status == NVML_SUCCESS)
        why = find_recovery(nvml, gpu, &status);
    if (!why && gpu && !describe_status(status) && has_bad_rows(nvml, gpu, &status))
        why = "bad rows of its memory cannot be remapped: replace it";
    if (!why && gpu && !describe_status(status))
        errors = count_errors(nvml, gpu, &status);
    if (!why)
        why = describe_status(status);
    if (why)
        snprintf(device->ill, room, "%s", why);
    else if (errors > 0)
        snprintf(
            device->ill, room,
            "%llu uncorrectable memory error%s since the driver was loaded: reset it",
            errors, errors == 1 ? "" : "s");
}

void cuda_examine(struct device *list, size_t count)
{
    struct cuda_nvml nvml;

    if (count == 0 || !cuda_nvml_open(&nvml))
        return;
    cuda_guard(CUDA_PATIENCE_SECONDS);
    for (size_t i = 0; i < count; i++)
        judge(&nvml, &list[i]);
    cuda_guard(0);
    cuda_nvml_close(&nvml);
}
