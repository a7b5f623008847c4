/*
 * kernels/cuda/cuda_classifier.c - op_classifier, chunk by chunk: gathered rows, logits,
 * loss, and two matmuls back.
 *
 * A chunk reads W (V, C) twice and reads and writes dW once: 12 V C bytes in bf16,
 * against 6 V C R operations; from R of a few hundred on, the matmuls dominate the time.
 */
#include "config.h"

#include "base/size.h"
#include "kernels/cuda/cuda_backend.h"

#include <assert.h>

/*
 * The tokens of a matmul. Its fast kernels require rows, and not only the row stride, in
 * whole units of 16 bytes ("cuBLAS", 13.0, Tensor Core Usage): if the tokens are not a
 * multiple of 8, whole tiles are done after the rest.
 */
enum { WORDS_UNIT = 8, WORDS_TILE = 64, PARTS = 2 };

struct part {
    size_t first, count;
};

static size_t parts_of(size_t words, struct part parts[PARTS])
{
    size_t whole = words / WORDS_TILE * WORDS_TILE;

    if (words % WORDS_UNIT == 0 || whole == 0) {
        parts[0] = (struct part) { 0, words };
        return 1;
    }
    parts[0] = (struct part) { whole, words - whole };
    parts[1] = (struct part) { 0, whole };
    return PARTS;
}

/* The rest is rounded to the format of dx once more than the sum. */
static cudaError_t put_dx(struct cuda_backend *cuda, const struct op_classifier *op,
                          struct tensor dlogits)
{
    struct tensor dx = tensor_rows(op->dgathered, 0, dlogits.rows);
    struct part parts[PARTS];
    size_t count = parts_of(op->w.rows, parts);
    cudaError_t status = cudaSuccess;

    for (size_t i = 0; i < count && status == cudaSuccess && cuda_ok(cuda); i++) {
        struct part p = parts[i];

        status = cuda_matmul_put(
            cuda, &(struct op_matmul) { .out = dx,
                                        .a = tensor_columns(dlogits, p.first, p.count),
                                        .b = tensor_rows(op->w, p.first, p.count),
                                        .alpha = 1,
                                        .beta = i > 0 ? 1 : 0 });
    }
    return status;
}

static cudaError_t put_dw(struct cuda_backend *cuda, const struct op_classifier *op,
                          struct tensor dlogits)
{
    struct tensor x = tensor_rows(op->gathered, 0, dlogits.rows);
    struct part parts[PARTS];
    size_t count = parts_of(op->w.rows, parts);
    cudaError_t status = cudaSuccess;

    for (size_t i = 0; i < count && status == cudaSuccess && cuda_ok(cuda); i++) {
        struct part p = parts[i];

        status = cuda_matmul_put(
            cuda, &(struct op_matmul) { .out = tensor_rows(op->dw, p.first, p.count),
                                        .a = tensor_columns(dlogits, p.first, p.count),
                                        .trans_a = true,
                                        .b = x,
                                        .alpha = 1,
                                        .beta = 1 });
    }
    return status;
}

static cudaError_t put_dbias(struct cuda_backend *cuda, const struct op_classifier *op,
                             struct tensor dlogits)
{
    return launch_sum_rows(&cuda->launch,
                           &(struct op_sum_rows) { .out = op->dbias, .x = dlogits });
}

/* Return the bias of some tokens, or none. */
static struct tensor part_of_bias(const struct op_classifier *op, struct part p)
{
    return op->bias.data ? tensor_columns(op->bias, p.first, p.count) : op->bias;
}

cudaError_t cuda_classifier_gradients(struct cuda_backend *cuda,
                                      const struct op_classifier *op, size_t first,
                                      size_t count)
{
    struct tensor dlogits = tensor_rows(op->dlogits, 0, count);
    cudaError_t status = cudaSuccess;

    if (op->dx.data) {
        status = put_dx(cuda, op, dlogits);
        if (status == cudaSuccess && cuda_ok(cuda))
            status = launch_classifier_scatter(&cuda->launch, op, first, count);
    }
    if (op->dw.data && status == cudaSuccess && cuda_ok(cuda))
        status = put_dw(cuda, op, dlogits);
    if (op->dbias.data && status == cudaSuccess && cuda_ok(cuda))
        status = put_dbias(cuda, op, dlogits);
    return status;
}

cudaError_t cuda_classifier_logits(struct cuda_backend *cuda,
                                   const struct op_classifier *op, size_t first,
                                   size_t count)
{
    struct tensor logits = tensor_rows(op->logits, 0, count);
    struct tensor x = tensor_rows(op->gathered, 0, count);
    struct part parts[PARTS];
    size_t n = parts_of(op->w.rows, parts);
    cudaError_t status = launch_classifier_gather(&cuda->launch, op, first, count);

    for (size_t i = 0; i < n && status == cudaSuccess && cuda_ok(cuda); i++) {
        struct part p = parts[i];

        status = cuda_matmul_put(
            cuda, &(struct op_matmul) { .out = tensor_columns(logits, p.first, p.count),
                                        .a = x,
                                        .b = tensor_rows(op->w, p.first, p.count),
                                        .bias = part_of_bias(op, p),
                                        .trans_b = true,
                                        .alpha = 1 });
    }
    return status;
}

static cudaError_t put_chunk(struct cuda_backend *cuda, const struct op_classifier *op,
                             size_t first, size_t count)
{
    cudaError_t status = cuda_classifier_logits(cuda, op, first, count);

    if (status == cudaSuccess && cuda_ok(cuda))
        status = launch_classifier_loss(&cuda->launch, op, first, count);
    if (status == cudaSuccess && cuda_ok(cuda))
        status = cuda_classifier_gradients(cuda, op, first, count);
    return status;
}

cudaError_t cuda_classifier_put(struct cuda_backend *cuda, const void *operands)
{
    const struct op_classifier *op = operands;
    size_t rows = op->labeled ? op->labeled : op->x.rows;
    cudaError_t status = launch_classifier_order(&cuda->launch, op);

    assert(op->rows && op->logits.rows > 0);
    for (size_t first = 0; first < rows && status == cudaSuccess && cuda_ok(cuda);) {
        size_t count = size_min(rows - first, op->logits.rows);

        status = put_chunk(cuda, op, first, count);
        first += count;
    }
    return status;
}
