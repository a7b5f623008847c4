/* tests/reference/machines_cuda.c - the GPUs of this machine; a single one is opened
 * twice. */
#include "config.h"

#include "tests/reference/operand.h"

#include "base/size.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_attention.h"
#include "tests/unit/unit.h"

void machine_enter(struct backend *be)
{
    cudaSetDevice(cuda_backend_of(be)->device.ordinal);
}

bool machine_has_fp8(struct backend *be)
{
    (void)be;
    return false;
}

size_t machine_cudnn_plans(struct backend *be)
{
    struct cuda_attention *attention = cuda_backend_of(be)->attention;

    return attention ? cuda_attention_plans(attention) : 0;
}

/* A block ends at a multiple of a backend's alignment, as the buffers of a model do: cuBLAS
 * reads, but does not use, up to 14 bytes after the last row. */
void *machines_memory(size_t bytes)
{
    void *block = NULL;
    cudaError_t status = cudaMallocManaged(
        &block, size_round(bytes + 1, backend_cuda.alignment), cudaMemAttachGlobal);

    if (status != cudaSuccess)
        fail_msg("%zu bytes: %s", bytes, cudaGetErrorString(status));
    return block;
}

void machines_memory_free(void *block)
{
    cudaFree(block);
}

bool machines_like_alignment(void)
{
    return true;
}

/* GRADIENTS_MIB in the environment lets cuDNN compute gradients, in this much memory: their
 * bits may differ each time. */
static size_t gradients_bytes(void)
{
    const char *asked = getenv("GRADIENTS_MIB");

    return asked ? strtoul(asked, NULL, 10) << 20 : 0;
}

int machines_open(void **state)
{
    struct machines *machines = calloc(1, sizeof(*machines));
    struct device devices[MACHINES_MAX];
    char note[256] = "";
    size_t found =
        backend_cuda.devices("cuda", devices, MACHINES_MAX, note, sizeof(note));

    if (found == 0) {
        print_message("1..0 # SKIP no GPU: %s\n", note);
        exit(0);
    }
    machines->count = found > 1 ? found : 2;
    for (size_t i = 0; i < machines->count; i++) {
        const struct device *device = &devices[i % found];
        struct backend_options options = { .device = device,
                                           .gradients_bytes = gradients_bytes() };
        struct error err = { 0 };

        machines->backends[i] = backend_cuda.open(&options, &err);
        if (!machines->backends[i])
            fail_msg("%s", err.text);
        if (machines->alike == i && device->major == devices[0].major &&
            device->minor == devices[0].minor)
            machines->alike++;
    }
    if (gradients_bytes() > 0)
        machines->alike = 1;
    machines->slow = strstr(devices[0].name, "Emulated") != NULL;
    *state = machines;
    return 0;
}

int machines_close(void **state)
{
    struct machines *machines = *state;

    for (size_t i = 0; i < machines->count; i++) {
        machine_enter(machines->backends[i]);
        machines->backends[i]->ops->close(machines->backends[i]);
    }
    free(machines);
    return 0;
}
