/*
 * kernels/cuda/cuda_health.c - which GPUs should get no job, and what is free on them
 * without a context.
 *
 * The causes are those for which NVIDIA's DCGM fails its health checks (User Guide, "Error
 * codes": DCGM_FR_VOLATILE_DBE_DETECTED, DCGM_FR_ROW_REMAP_FAILURE, and lost GPUs), and the
 * recovery action of nvml.h, which covers Xid errors. A remapping that is pending, or that
 * worked, is none: the GPU continues to work. Where the driver says which recovery it needs,
 * the count of memory errors is none either: "None" after one means that the GPU contained
 * it, and the count stays until the driver is loaded again.
 */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include <stdio.h>

#include "base/size.h"
#include "kernels/cuda/cuda_nvml.h"

static const char *describe_status(int status)
{
    return status == NVML_GPU_IS_LOST      ? "the driver has lost it: restart the machine"
           : status == NVML_RESET_REQUIRED ? "the driver requires a reset of it"
                                           : NULL;
}

/* NVIDIA GPU Memory Error Management, "Error recovery and response flags", and nvml.h. */
static const char *const recoveries[] = {
    [NVML_RECOVERY_RESET] = "a reset of it",
    [NVML_RECOVERY_REBOOT] = "a restart of the machine",
    [NVML_RECOVERY_DRAIN_P2P] = "the end of all programs that exchange data between GPUs",
    [NVML_RECOVERY_DRAIN_AND_RESET] = "the end of its work and then a reset of it",
    [NVML_RECOVERY_IMEX_DOMAIN] = "a recovery of its IMEX domain",
    [NVML_RECOVERY_BUS_RESET] = "a reset of its PCIe bus",
    [NVML_RECOVERY_SYSTEM_REBOOT] = "a restart of the whole system",
};

/* Return whether the driver says what the GPU needs; *status is that of NVML. */
static bool ask_recovery(const struct cuda_nvml *nvml, void *gpu, int *status,
                         unsigned *action)
{
    struct nvml_field field = { .field = NVML_RECOVERY };

    if (!nvml->fields)
        return false;
    *status = nvml->fields(gpu, 1, &field);
    *action = field.value.number;
    return *status == NVML_SUCCESS && field.result == NVML_SUCCESS;
}

static void describe_recovery(unsigned action, char *out, size_t room)
{
    if (action < TS_COUNT(recoveries))
        snprintf(out, room, "after an error, the driver requires %s (see Xid in dmesg)",
                 recoveries[action]);
    else
        snprintf(
            out, room,
            "after an error, the driver requires action %u of nvml.h (see Xid in dmesg)",
            action);
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

/* Return the GPU, or NULL. */
static void *judge(const struct cuda_nvml *nvml, struct device *device)
{
    const size_t room = sizeof(device->ill);
    void *gpu = NULL;
    unsigned long long errors = 0;
    unsigned action = NVML_RECOVERY_NONE;
    bool answered = false, bad_rows = false;
    int status = nvml->find(device->bus, &gpu);

    if (status == NVML_SUCCESS)
        answered = ask_recovery(nvml, gpu, &status, &action);
    if (gpu && !describe_status(status))
        bad_rows = has_bad_rows(nvml, gpu, &status);
    if (gpu && !describe_status(status) && !answered)
        errors = count_errors(nvml, gpu, &status);
    if (answered && action != NVML_RECOVERY_NONE)
        describe_recovery(action, device->ill, room);
    else if (bad_rows)
        snprintf(device->ill, room,
                 "bad rows of its memory cannot be remapped: replace it");
    else if (describe_status(status))
        snprintf(device->ill, room, "%s", describe_status(status));
    else if (errors > 0)
        snprintf(
            device->ill, room,
            "%llu uncorrectable memory error%s since the driver was loaded: reset it",
            errors, errors == 1 ? "" : "s");
    return gpu;
}

/*
 * What a context takes, by what is free with and without one; another program that starts or
 * ends in between may make it wrong, so a number that no context has is none. NVML knows the
 * whole GPU, also where CUDA sees a part of it (MIG): then the sizes differ by more than what
 * the driver reserves.
 */
static void find_context(const struct cuda_nvml *nvml, void *gpu, struct device *device)
{
    const uint64_t most = (uint64_t)2 << 30;
    struct nvml_memory memory;

    if (!gpu || !nvml->memory || device->available == 0 ||
        nvml->memory(gpu, &memory) != NVML_SUCCESS || memory.total < device->memory ||
        memory.total - device->memory > memory.total / 16 ||
        memory.free <= device->available || memory.free - device->available > most)
        return;
    device->context = memory.free - device->available;
}

void cuda_examine(struct device *list, size_t count)
{
    struct cuda_nvml nvml;

    if (count == 0)
        return;
    cuda_guard(CUDA_PATIENCE_SECONDS);
    if (!cuda_nvml_open(&nvml)) {
        cuda_guard(0);
        return;
    }
    cudaDeviceReset(); /* cuda_devices leaves the context of a single GPU */
    for (size_t i = 0; i < count; i++)
        if (cudaDeviceGetPCIBusId(list[i].bus, sizeof(list[i].bus), list[i].ordinal) ==
            cudaSuccess)
            find_context(&nvml, judge(&nvml, &list[i]), &list[i]);
        else
            list[i].bus[0] = 0;
    cuda_guard(0);
    cuda_nvml_close(&nvml);
}

bool cuda_measure(struct device *list, size_t count)
{
    struct cuda_nvml nvml;
    struct nvml_memory memory;
    bool ok = true;

    cuda_guard(CUDA_PATIENCE_SECONDS);
    if (!cuda_nvml_open(&nvml)) {
        cuda_guard(0);
        return false;
    }
    for (size_t i = 0; i < count && ok; i++) {
        void *gpu = judge(&nvml, &list[i]);

        ok = gpu && nvml.memory && nvml.memory(gpu, &memory) == NVML_SUCCESS;
        list[i].available = ok ? memory.free : 0;
        ok = ok || list[i].ill[0];
    }
    cuda_guard(0);
    cuda_nvml_close(&nvml);
    return ok;
}
