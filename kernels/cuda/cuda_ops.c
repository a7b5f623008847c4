/* kernels/cuda/cuda_ops.c - every operation goes through the same few lines. */
#include "config.h"

#include "kernels/cuda/cuda_ops.h"

#include "kernels/cuda/cuda_backend.h"

#include <stdio.h>

/* " of (2048, 576) bf16, (576, 576) bf16": the tensors that are there. */
static void shapes_text(char *out, size_t room, const struct cuda_kind *kind,
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

/* A matrix without numbers asks for nothing, and a grid without blocks is an error. */
static bool is_empty(const struct cuda_kind *kind, const void *op)
{
    const struct tensor *tensors = op;

    for (size_t i = 0; i < kind->tensors; i++)
        if (tensors[i].data && (tensors[i].rows == 0 || tensors[i].cols == 0))
            return true;
    return false;
}

void cuda_put(struct cuda_backend *cuda, const struct cuda_kind *kind, const void *op)
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
    if (status == cudaSuccess && cuda->named && cuda_well(cuda))
        cuda_wait_all(cuda);
    if (status == cudaSuccess)
        return;
    shapes_text(shapes, sizeof(shapes), kind, op);
    cuda_check(cuda, status, "%s%s", kind->name, shapes);
}

void cuda_do(struct cuda_backend *cuda, const struct cuda_kind *kind, const void *op)
{
    if (!cuda_well(cuda) || is_empty(kind, op) || cuda_note(cuda, kind, op))
        return;
    cuda_put(cuda, kind, op);
    cuda_beat(cuda, 1);
}

/* The operation `name`, whose struct begins with so many tensors, by `call(cuda, op)`. */
#define OPERATION(name, tensors, call)                                             \
    static cudaError_t put_##name(struct cuda_backend *cuda, const void *op)       \
    {                                                                              \
        return call;                                                               \
    }                                                                              \
                                                                                   \
    static const struct cuda_kind kind_##name = { #name, sizeof(struct op_##name), \
                                                  tensors, put_##name };           \
                                                                                   \
    void cuda_##name(struct backend *be, const struct op_##name *op)               \
    {                                                                              \
        cuda_do(cuda_backend_of(be), &kind_##name, op);                            \
    }

#define LAUNCHED(name, tensors) OPERATION(name, tensors, launch_##name(&cuda->launch, op))

OPERATION(matmul, 4, cuda_matmul_put(cuda, op))
OPERATION(classifier, 5, cuda_classifier_put(cuda, op))
OPERATION(topk, 3, cuda_topk_put(cuda, op))
OPERATION(distill, 5, cuda_distill_put(cuda, op))
LAUNCHED(preference, 3)
LAUNCHED(sum_rows, 2)
LAUNCHED(embedding, 2)
LAUNCHED(embedding_backward, 2)
LAUNCHED(rmsnorm, 6)
LAUNCHED(rmsnorm_backward, 7)
LAUNCHED(layernorm, 7)
LAUNCHED(layernorm_backward, 8)
LAUNCHED(headnorm, 4)
LAUNCHED(headnorm_backward, 6)
LAUNCHED(rope, 1)
OPERATION(attention, 5, cuda_attention_put(cuda, op))
LAUNCHED(attention_backward, 5)
LAUNCHED(activation, 2)
LAUNCHED(activation_backward, 3)
LAUNCHED(decode, 6)
LAUNCHED(swiglu, 3)
LAUNCHED(swiglu_backward, 5)
LAUNCHED(add, 3)
LAUNCHED(convert, 2)
LAUNCHED(dequantize, 1)
LAUNCHED(zero, 1)
LAUNCHED(dropout, 2)
LAUNCHED(square_sum, 1)
LAUNCHED(decide, 0)
LAUNCHED(adamw, 5)
LAUNCHED(sgd, 3)
