/* kernels/cuda/cuda_ops.c - the path that every operation takes into the stream. */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include <stdio.h>

/* " of (2048, 576) bf16, (576, 576) bf16": the tensors that are present. */
static void shapes_text(char *out, size_t room, const struct cuda_operation *kind,
                        const void *op)
{
    const struct tensor *tensors = op;
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < kind->tensors && len + 1 < room; i++)
        if (tensors[i].data)
            len += (size_t)snprintf(out + len, room - len, "%s" TENSOR_TEXT,
                                    len ? ", " : " of ", TENSOR_SHAPE(tensors[i]));
}

/* An empty matrix needs no work, and a grid without blocks is an error. */
static bool is_empty(const struct cuda_operation *kind, const void *op)
{
    const struct tensor *tensors = op;

    for (size_t i = 0; i < kind->tensors; i++)
        if (tensors[i].data && (tensors[i].rows == 0 || tensors[i].cols == 0))
            return true;
    return false;
}

void cuda_enqueue(struct cuda_backend *cuda, const struct cuda_operation *kind,
                  const void *op)
{
    char shapes[160];
    cudaError_t status;

    cuda->doing = kind->name;
    if (cuda->named) {
        shapes_text(shapes, sizeof(shapes), kind, op);
        snprintf(cuda->precisely, sizeof(cuda->precisely), "%s%s", kind->name, shapes);
        cuda->doing = cuda->precisely;
    }
    cudaSetDevice(cuda->device.ordinal);
    status = kind->put(cuda, op);
    if (status == cudaSuccess && cuda->named && cuda_ok(cuda))
        cuda_wait_all(cuda);
    if (status == cudaSuccess)
        return;
    shapes_text(shapes, sizeof(shapes), kind, op);
    cuda_check(cuda, status, "%s%s", kind->name, shapes);
}

void cuda_issue(struct cuda_backend *cuda, const struct cuda_operation *kind,
                const void *op)
{
    if (!cuda_ok(cuda) || is_empty(kind, op) || cuda_record(cuda, kind, op))
        return;
    cuda_enqueue(cuda, kind, op);
    cuda_beat(cuda, 1);
}

#define CUDA_PUT_LAUNCH(name) launch_##name(&cuda->launch, op)
#define CUDA_PUT_STEPS(name)  cuda_##name##_put(cuda, op)

#define CUDA_OPERATION(name, tensors, cpu, call, ...)                                   \
    static cudaError_t put_##name(struct cuda_backend *cuda, const void *op)            \
    {                                                                                   \
        return CUDA_PUT_##call(name);                                                   \
    }                                                                                   \
                                                                                        \
    static const struct cuda_operation kind_##name = { #name, sizeof(struct op_##name), \
                                                       tensors, put_##name };           \
                                                                                        \
    void cuda_##name(struct backend *be, const struct op_##name *op)                    \
    {                                                                                   \
        cuda_issue(cuda_backend_of(be), &kind_##name, op);                              \
    }

OPERATIONS(CUDA_OPERATION)
