/* kernels/cuda/cuda_distill.c - op_distill and op_topk, chunk by chunk, with the matmuls
 * of the classifier for student and teacher. */
#include "config.h"

#include "base/size.h"
#include "kernels/cuda/cuda_backend.h"

#include <assert.h>

/* The teacher's side in the form that gathering and its matmul read. */
static struct op_classifier teacher_of(const struct op_distill *op)
{
    return (struct op_classifier) { .x = op->x,
                                    .w = op->w,
                                    .bias = op->bias,
                                    .logits = op->logits,
                                    .gathered = op->gathered,
                                    .targets = op->student.targets,
                                    .rows = op->student.rows };
}

static cudaError_t put_chunk(struct cuda_backend *cuda, const struct op_distill *op,
                             size_t first, size_t count)
{
    const struct op_classifier teacher = teacher_of(op);
    cudaError_t status = cuda_classifier_logits(cuda, &op->student, first, count);

    if (status == cudaSuccess && cuda_ok(cuda) && !op->values.data)
        status = cuda_classifier_logits(cuda, &teacher, first, count);
    if (status == cudaSuccess && cuda_ok(cuda))
        status = launch_distill_loss(&cuda->launch, op, first, count);
    if (status == cudaSuccess && cuda_ok(cuda))
        status = cuda_classifier_gradients(cuda, &op->student, first, count);
    return status;
}

cudaError_t cuda_distill_put(struct cuda_backend *cuda, const void *operands)
{
    const struct op_distill *op = operands;
    const struct op_classifier *student = &op->student;
    size_t rows = student->labeled ? student->labeled : student->x.rows;
    size_t most = op->values.data ? student->logits.rows
                                  : size_min(student->logits.rows, op->logits.rows);
    cudaError_t status = launch_classifier_order(&cuda->launch, student);

    assert(student->rows && most > 0);
    if (status == cudaSuccess && cuda_ok(cuda))
        status = launch_distill_clear(&cuda->launch, op);
    for (size_t first = 0; first < rows && status == cudaSuccess && cuda_ok(cuda);) {
        size_t count = size_min(rows - first, most);

        status = put_chunk(cuda, op, first, count);
        first += count;
    }
    return status;
}

cudaError_t cuda_topk_put(struct cuda_backend *cuda, const void *operands)
{
    const struct op_topk *op = operands;
    const struct op_classifier classifier = { .x = op->x,
                                              .w = op->w,
                                              .bias = op->bias,
                                              .logits = op->logits,
                                              .gathered = op->gathered,
                                              .targets = op->targets,
                                              .rows = op->rows };
    size_t rows = op->labeled ? op->labeled : op->x.rows;
    cudaError_t status = launch_classifier_order(&cuda->launch, &classifier);

    assert(op->rows && op->logits.rows > 0);
    for (size_t first = 0; first < rows && status == cudaSuccess && cuda_ok(cuda);) {
        size_t count = size_min(rows - first, op->logits.rows);

        status = cuda_classifier_logits(cuda, &classifier, first, count);
        if (status == cudaSuccess && cuda_ok(cuda))
            status = launch_topk_rows(&cuda->launch, op, first, count);
        first += count;
    }
    return status;
}
