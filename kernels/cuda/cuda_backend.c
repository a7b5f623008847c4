/*
 * kernels/cuda/cuda_backend.c - the GPUs of this machine.
 *
 * So far it finds them and says what they are; a GPU becomes runnable with the first
 * kernel.
 */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

/* A device that cannot be asked is left out, with its reason in the note. */
static bool device_read(int ordinal, struct device *out, char *note, size_t note_room)
{
    struct cudaDeviceProp properties;
    size_t available = 0, memory = 0;
    cudaError_t status = cudaGetDeviceProperties(&properties, ordinal);

    if (status == cudaSuccess)
        status = cudaSetDevice(ordinal);
    if (status == cudaSuccess)
        status = cudaMemGetInfo(&available, &memory);
    if (status != cudaSuccess) {
        snprintf(note, note_room, "GPU %d: %s", ordinal, cudaGetErrorString(status));
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
        .runnable = false,
    };
    snprintf(out->name, sizeof(out->name), "%.*s", (int)sizeof(out->name) - 1,
             properties.name);
    return true;
}

size_t cuda_devices(struct device *out, size_t room, char *note, size_t note_room)
{
    int count = 0;
    size_t found = 0;
    cudaError_t status = cudaGetDeviceCount(&count);

    if (status == cudaErrorInsufficientDriver) {
        snprintf(note, note_room, "no NVIDIA driver, or one older than CUDA %d.%d wants",
                 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
        return 0;
    }
    if (status != cudaSuccess) {
        snprintf(note, note_room, "CUDA: %s", cudaGetErrorString(status));
        return 0;
    }
    snprintf(note, note_room, "this build has no CUDA kernels yet");
    for (int i = 0; i < count && found < room; i++)
        if (device_read(i, &out[found], note, note_room))
            found++;
    return found;
}

static struct backend *cuda_open(const struct backend_options *options, struct error *err)
{
    error_set(err, ERROR_DEVICE,
              "%s: this build has no CUDA kernels yet; say device: cpu",
              options->device->name);
    return NULL;
}

const struct backend_ops backend_cuda = {
    .name = "cuda",
    .kind = DEVICE_CUDA,
    .alignment = 256,
    .devices = cuda_devices,
    .open = cuda_open,
};
