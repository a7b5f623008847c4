/* kernels/cuda/cuda_nvml.c - NVML by dlopen. */
#include "config.h"

#include "kernels/cuda/cuda_nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/size.h"

static const struct function {
    const char *name;
    size_t into;
} functions[] = {
    { "nvmlInit_v2", offsetof(struct cuda_nvml, init) },
    { "nvmlShutdown", offsetof(struct cuda_nvml, shutdown) },
    { "nvmlDeviceGetHandleByPciBusId_v2", offsetof(struct cuda_nvml, find) },
    { "nvmlDeviceGetMemoryInfo", offsetof(struct cuda_nvml, memory) },
    { "nvmlDeviceGetTotalEccErrors", offsetof(struct cuda_nvml, errors) },
    { "nvmlDeviceGetRemappedRows", offsetof(struct cuda_nvml, remapped) },
    { "nvmlDeviceGetFieldValues", offsetof(struct cuda_nvml, fields) },
};

bool cuda_nvml_open(struct cuda_nvml *out)
{
    *out = (struct cuda_nvml) { .handle =
                                    dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL) };
    if (!out->handle)
        return false;
    for (size_t i = 0; i < TS_COUNT(functions); i++) {
        void *function = dlsym(out->handle, functions[i].name);

        memcpy((char *)out + functions[i].into, &function, sizeof(function));
    }
    if (out->init && out->shutdown && out->find && out->init() == NVML_SUCCESS)
        return true;
    out->shutdown = NULL;
    cuda_nvml_close(out);
    return false;
}

void cuda_nvml_close(struct cuda_nvml *nvml)
{
    if (nvml->shutdown)
        nvml->shutdown();
    if (nvml->handle)
        dlclose(nvml->handle);
    *nvml = (struct cuda_nvml) { 0 };
}
