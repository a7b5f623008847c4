/*
 * kernels/cuda/cuda_classifier.c - op_classifier, chunk by chunk: rows gathered, logits,
 * loss, and two products back.
 *
 * A chunk reads W (V, C) twice and reads and writes dW once: 12 V C bytes in bf16,
 * against 6 V C R operations; from R of a few hundred on the products are what takes
 * time.
 */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include <assert.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

cudaError_t cuda_classifier_gradients(struct cuda_backend *cuda,
                                      const struct op_classifier *op, size_t first,
                                      size_t count)
{
    struct tensor dlogits = tensor_rows(op->dlogits, 0, count);
    cudaError_t status = cudaSuccess;

    if (op->dx.data) {
        status = cuda_matmul_put(
            cuda, &(struct op_matmul) { .out = tensor_rows(op->dgathered, 0, count),
                                        .a = dlogits,
                                        .b = op->w,
                                        .alpha = 1 });
        if (status == cudaSuccess && cuda_well(cuda))
            status = launch_classifier_scatter(&cuda->launch, op, first, count);
    }
    if (op->dw.data && status == cudaSuccess && cuda_well(cuda))
        status = cuda_matmul_put(
            cuda, &(struct op_matmul) { .out = op->dw,
                                        .a = dlogits,
                                        .trans_a = true,
                                        .b = tensor_rows(op->gathered, 0, count),
                                        .alpha = 1,
                                        .beta = 1 });
    return status;
}

cudaError_t cuda_classifier_logits(struct cuda_backend *cuda,
                                   const struct op_classifier *op, size_t first,
                                   size_t count)
{
    cudaError_t status = launch_classifier_gather(&cuda->launch, op, first, count);

    if (status != cudaSuccess)
        return status;
    return cuda_matmul_put(
        cuda, &(struct op_matmul) { .out = tensor_rows(op->logits, 0, count),
                                    .a = tensor_rows(op->gathered, 0, count),
                                    .b = op->w,
                                    .trans_b = true,
                                    .alpha = 1 });
}

static cudaError_t put_chunk(struct cuda_backend *cuda, const struct op_classifier *op,
                             size_t first, size_t count)
{
    cudaError_t status = cuda_classifier_logits(cuda, op, first, count);

    if (status == cudaSuccess && cuda_well(cuda))
        status = launch_classifier_loss(&cuda->launch, op, first, count);
    if (status == cudaSuccess && cuda_well(cuda))
        status = cuda_classifier_gradients(cuda, op, first, count);
    return status;
}

cudaError_t cuda_classifier_put(struct cuda_backend *cuda, const void *operands)
{
    const struct op_classifier *op = operands;
    size_t rows = op->labelled ? op->labelled : op->x.rows;
    cudaError_t status = launch_classifier_order(&cuda->launch, op);

    assert(op->rows && op->logits.rows > 0);
    for (size_t first = 0; first < rows && status == cudaSuccess && cuda_well(cuda);) {
        size_t count = least(rows - first, op->logits.rows);

        status = put_chunk(cuda, op, first, count);
        first += count;
    }
    return status;
}
