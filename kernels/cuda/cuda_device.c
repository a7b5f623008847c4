/* kernels/cuda/cuda_device.c - lists the GPUs of this machine, and checks whether this
 * build has code for them. */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "precision/probe.h"

/* Return whether this process does not use the GPU. Only the driver knows. */
static bool is_idle(int ordinal)
{
    int (*state)(int device, unsigned *flags, int *active);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *function = driver ? dlsym(driver, "cuDevicePrimaryCtxGetState") : NULL;
    unsigned flags;
    int active = 1;

    memcpy(&state, &function, sizeof(state));
    if (!function || state(ordinal, &flags, &active) != 0)
        active = 1;
    if (driver)
        dlclose(driver);
    return !active;
}

/* The query creates a context of about 400 MB on the GPU: if several are queried, only
 * that of the GPU in use is kept. */
static cudaError_t ask(int ordinal, bool alone, size_t *available, bool *runnable)
{
    bool leave = !alone && is_idle(ordinal);
    size_t memory;
    cudaError_t status = cudaSetDevice(ordinal);

    if (status == cudaSuccess)
        status = cudaMemGetInfo(available, &memory);
    if (status != cudaSuccess)
        return status;
    status = launch_kernel_image();
    *runnable = status == cudaSuccess;
    if (cuda_lacks_code(status))
        status = cudaSuccess;
    cudaGetLastError();
    if (leave)
        cudaDeviceReset();
    return status;
}

/* A device that cannot be queried is omitted, with the reason in the note. */
static bool device_read(int ordinal, bool asked, bool alone, struct device *out,
                        char *note, size_t note_room)
{
    struct cudaDeviceProp properties;
    size_t available = 0;
    bool runnable = !asked;
    char text[240];
    cudaError_t status = cudaGetDeviceProperties(&properties, ordinal);

    if (status == cudaSuccess && asked)
        status = ask(ordinal, alone, &available, &runnable);
    if (status != cudaSuccess) {
        cuda_card_text(status, text, sizeof(text));
        snprintf(note, note_room, "GPU %d: %s", ordinal, text);
        cudaGetLastError();
        return false;
    }
    *out = (struct device) {
        .kind = DEVICE_CUDA,
        .major = properties.major,
        .minor = properties.minor,
        .memory = properties.totalGlobalMem,
        .available = available,
        .ordinal = ordinal,
        .here = true,
        .runnable = runnable,
    };
    snprintf(out->name, sizeof(out->name), "%.*s", (int)sizeof(out->name) - 1,
             properties.name);
    device_recognize(out);
    if (!runnable)
        snprintf(note, note_room,
                 "this build has code for compute capabilities %s (in tenths); "
                 "configure --with-cuda-archs=%d for %.60s",
                 CUDA_ARCHS, 10 * out->major + out->minor, out->name);
    return true;
}

static size_t enumerate_devices(const char *wanted, struct device *out, size_t room,
                                char *note, size_t note_room)
{
    int count = 0;
    size_t found = 0, asked = 0;
    cudaError_t status = cudaGetDeviceCount(&count);

    if (status == cudaErrorInsufficientDriver) {
        snprintf(note, note_room, "no NVIDIA driver, or one too old for CUDA %d.%d",
                 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
        return 0;
    }
    if (status != cudaSuccess) {
        snprintf(note, note_room, "CUDA: %s", cudaGetErrorString(status));
        return 0;
    }
    for (int i = 0; i < count; i++)
        asked += probe_name_matches(wanted, i);
    for (int i = 0; i < count && found < room; i++)
        if (device_read(i, probe_name_matches(wanted, i), asked == 1, &out[found], note,
                        note_room))
            found++;
    return found;
}

size_t cuda_devices(const char *wanted, struct device *out, size_t room, char *note,
                    size_t note_room)
{
    size_t found;

    cuda_guard(CUDA_PATIENCE_SECONDS);
    found = enumerate_devices(wanted, out, room, note, note_room);
    cuda_guard(0);
    return found;
}
