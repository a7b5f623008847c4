/* bench/gpu_ops.c - one function per operation: its operands, and how often each is read
 * or written. */
#include "config.h"

#include "bench/gpu_ops.h"

#include "base/size.h"
#include "bench/target.h"
#include "kernels/cuda/cuda_backend.h"

/* Allocate the next operand, which is read or written `times` times. */
static struct tensor operand(struct bench *b, enum format format, size_t rows,
                             size_t cols, double times)
{
    struct tensor tensor = tensor_of(NULL, format, rows, cols);
    size_t bytes = (tensor_bytes(tensor) + 255) / 256 * 256;

    if (bytes > b->ring_bytes)
        target_stop("an operand is larger than the memory for all operands");
    if (bytes > b->ring_bytes - b->at)
        b->at = 0;
    tensor.data = b->ring + b->at;
    b->at += bytes;
    b->bytes += times * (double)tensor_bytes(tensor);
    return tensor;
}

/* An operand of (rows, width): fp32, or in the format of activations. */
static struct tensor wide(struct bench *b, double times)
{
    return operand(b, FORMAT_FP32, b->rows, b->shape->width, times);
}

static struct tensor narrow(struct bench *b, double times)
{
    return operand(b, b->format, b->rows, b->shape->width, times);
}

/* Half the columns of a matrix twice as wide, like gate and up. */
static struct tensor inner(struct bench *b, double times)
{
    struct tensor both = operand(b, b->format, b->rows, 2 * b->shape->inner, times / 2);

    return tensor_columns(both, 0, b->shape->inner);
}

static struct tensor flat(struct bench *b, enum format format, double times)
{
    return operand(b, format, 1, b->weights, times);
}

static void put_copy(struct bench *b)
{
    size_t elements = b->copied / sizeof(float);
    struct op_convert op = { operand(b, FORMAT_FP32, 1, elements, 1),
                             operand(b, FORMAT_FP32, 1, elements, 1) };

    b->be->ops->convert(b->be, &op);
}

/* With gaps between rows, so that a kernel copies it instead of the driver. */
static void put_copy_rows(struct bench *b)
{
    enum { COLS = 1 << 12, GAP = 8 };
    size_t rows = b->copied / sizeof(float) / COLS;
    struct tensor out = operand(b, FORMAT_FP32, rows, COLS + GAP, 0);
    struct tensor x = operand(b, FORMAT_FP32, rows, COLS + GAP, 0);

    b->bytes += 2.0 * (double)rows * COLS * sizeof(float);
    b->be->ops->convert(b->be, &(struct op_convert) { tensor_columns(out, 0, COLS),
                                                      tensor_columns(x, 0, COLS) });
}

static void put_rmsnorm(struct bench *b)
{
    struct op_rmsnorm op = { .out = narrow(b, 1),
                             .sum = wide(b, 1),
                             .rstd = operand(b, FORMAT_FP32, 1, b->rows, 1),
                             .x = wide(b, 1),
                             .delta = narrow(b, 1),
                             .weight = operand(b, FORMAT_FP32, 1, b->shape->width, 1),
                             .eps = 1e-5f };

    b->be->ops->rmsnorm(b->be, &op);
}

static void put_rmsnorm_alone(struct bench *b)
{
    struct op_rmsnorm op = { .out = narrow(b, 1),
                             .rstd = operand(b, FORMAT_FP32, 1, b->rows, 1),
                             .x = wide(b, 1),
                             .weight = operand(b, FORMAT_FP32, 1, b->shape->width, 1),
                             .eps = 1e-5f };

    b->be->ops->rmsnorm(b->be, &op);
}

static void put_rmsnorm_backward(struct bench *b)
{
    struct op_rmsnorm_backward op = { .dx = wide(b, 2),
                                      .dcopy = narrow(b, 1),
                                      .dweight =
                                          operand(b, FORMAT_FP32, 1, b->shape->width, 2),
                                      .dout = narrow(b, 1),
                                      .x = wide(b, 1),
                                      .weight =
                                          operand(b, FORMAT_FP32, 1, b->shape->width, 1),
                                      .rstd = operand(b, FORMAT_FP32, 1, b->rows, 1) };

    b->be->ops->rmsnorm_backward(b->be, &op);
}

static void put_layernorm(struct bench *b)
{
    size_t width = b->shape->width;
    struct op_layernorm op = { .out = narrow(b, 1),
                               .sum = wide(b, 1),
                               .stats = operand(b, FORMAT_FP32, 2, b->rows, 1),
                               .x = wide(b, 1),
                               .delta = narrow(b, 1),
                               .weight = operand(b, FORMAT_FP32, 1, width, 1),
                               .bias = operand(b, FORMAT_FP32, 1, width, 1),
                               .eps = 1e-5f };

    b->be->ops->layernorm(b->be, &op);
}

static void put_layernorm_backward(struct bench *b)
{
    size_t width = b->shape->width;
    struct op_layernorm_backward op = { .dx = wide(b, 2),
                                        .dcopy = narrow(b, 1),
                                        .dweight = operand(b, FORMAT_FP32, 1, width, 2),
                                        .dbias = operand(b, FORMAT_FP32, 1, width, 2),
                                        .dout = narrow(b, 1),
                                        .x = wide(b, 1),
                                        .weight = operand(b, FORMAT_FP32, 1, width, 1),
                                        .stats = operand(b, FORMAT_FP32, 2, b->rows, 1) };

    b->be->ops->layernorm_backward(b->be, &op);
}

static void put_headnorm(struct bench *b)
{
    size_t size = b->shape->head_size, heads = b->shape->heads;
    struct op_headnorm op = { .out = operand(b, b->format, b->rows, heads * size, 1),
                              .rstd = operand(b, FORMAT_FP32, b->rows, heads, 1),
                              .x = operand(b, b->format, b->rows, heads * size, 1),
                              .weight = operand(b, FORMAT_FP32, 1, size, 1),
                              .eps = 1e-6f,
                              .heads = heads };

    b->be->ops->headnorm(b->be, &op);
}

static void put_headnorm_backward(struct bench *b)
{
    size_t size = b->shape->head_size, heads = b->shape->heads;
    struct tensor dx = operand(b, b->format, b->rows, heads * size, 2);
    struct op_headnorm_backward op = { .dx = dx,
                                       .dweight = operand(b, FORMAT_FP32, 1, size, 2),
                                       .dout = dx,
                                       .x = operand(b, b->format, b->rows, heads * size,
                                                    1),
                                       .weight = operand(b, FORMAT_FP32, 1, size, 1),
                                       .rstd = operand(b, FORMAT_FP32, b->rows, heads, 1),
                                       .heads = heads };

    b->be->ops->headnorm_backward(b->be, &op);
}

static void put_rope(struct bench *b)
{
    size_t size = b->shape->head_size, heads = b->shape->heads;
    struct op_rope op = { .x = operand(b, b->format, b->rows, heads * size, 2),
                          .table = operand(b, FORMAT_FP32, POSITIONS, size, 1),
                          .positions = b->positions,
                          .heads = heads };

    b->be->ops->rope(b->be, &op);
}

static void put_swiglu(struct bench *b)
{
    struct op_swiglu op = { operand(b, b->format, b->rows, b->shape->inner, 1),
                            inner(b, 1), inner(b, 1), ACTIVATION_SILU, NULL };

    b->be->ops->swiglu(b->be, &op);
}

static struct op_swiglu_backward swiglu_backward_op(struct bench *b)
{
    return (struct op_swiglu_backward) {
        .dgate = inner(b, 1),
        .dup = inner(b, 1),
        .dout = operand(b, b->format, b->rows, b->shape->inner, 1),
        .gate = inner(b, 1),
        .up = inner(b, 1),
    };
}

static void put_swiglu_backward(struct bench *b)
{
    struct op_swiglu_backward op = swiglu_backward_op(b);

    b->be->ops->swiglu_backward(b->be, &op);
}

/* With the forward's output, as in the backward pass of a block. */
static void put_swiglu_backward_both(struct bench *b)
{
    struct op_swiglu_backward op = swiglu_backward_op(b);

    op.out = operand(b, b->format, b->rows, b->shape->inner, 1);
    b->be->ops->swiglu_backward(b->be, &op);
}

static void put_activation(struct bench *b, enum activation kind)
{
    size_t inner = b->shape->inner;
    struct op_activation op = { operand(b, b->format, b->rows, inner, 1),
                                operand(b, b->format, b->rows, inner, 1), kind };

    b->be->ops->activation(b->be, &op);
}

static void put_gelu(struct bench *b)
{
    put_activation(b, ACTIVATION_GELU);
}

static void put_gelu_tanh(struct bench *b)
{
    put_activation(b, ACTIVATION_GELU_TANH);
}

static void put_activation_backward(struct bench *b, enum activation kind)
{
    size_t inner = b->shape->inner;
    struct op_activation_backward op = {
        .dx = operand(b, b->format, b->rows, inner, 1),
        .dout = operand(b, b->format, b->rows, inner, 1),
        .x = operand(b, b->format, b->rows, inner, 1),
        .kind = kind,
    };

    b->be->ops->activation_backward(b->be, &op);
}

static void put_gelu_backward(struct bench *b)
{
    put_activation_backward(b, ACTIVATION_GELU);
}

static void put_gelu_tanh_backward(struct bench *b)
{
    put_activation_backward(b, ACTIVATION_GELU_TANH);
}

/* Count the rows of the table that the text uses once each: repeats come from a cache. */
static void count_embedding(struct bench *b, enum format format, int times)
{
    b->bytes +=
        (double)times * (double)(b->used * b->shape->width * format_info(format)->bytes);
}

static void put_embedding(struct bench *b)
{
    size_t width = b->shape->width;
    struct op_embedding op = { wide(b, 1), operand(b, b->format, b->words, width, 0),
                               b->tokens, 1 };

    count_embedding(b, b->format, 1);
    b->be->ops->embedding(b->be, &op);
}

static void put_embedding_backward(struct bench *b)
{
    size_t width = b->shape->width;
    struct op_embedding_backward op = {
        operand(b, FORMAT_FP32, b->words, width, 0), wide(b, 1), b->tokens, 1, 0, false
    };

    count_embedding(b, FORMAT_FP32, 2);
    b->be->ops->embedding_backward(b->be, &op);
}

static void put_add(struct bench *b)
{
    struct tensor x = wide(b, 2);

    b->be->ops->add(b->be, &(struct op_add) { x, x, narrow(b, 1) });
}

static void put_dropout(struct bench *b)
{
    struct tensor x = narrow(b, 2);
    struct op_dropout op = { .out = x, .x = x, .p = 0.1f, .seed = 1 };

    b->be->ops->dropout(b->be, &op);
}

static void put_sum_rows(struct bench *b)
{
    struct op_sum_rows op = { operand(b, FORMAT_FP32, 1, b->shape->width, 2),
                              narrow(b, 1) };

    b->be->ops->sum_rows(b->be, &op);
}

/* The loss and its gradient between two matmuls: 1024 rows of logits, read once. */
static void put_cross_entropy(struct bench *b)
{
    size_t rows = b->rows < 1024 ? b->rows : 1024, words = b->words;
    struct cuda_backend *cuda = cuda_backend_of(b->be);
    struct op_classifier op = { .losses = operand(b, FORMAT_FP32, 1, rows, 1),
                                .dx = operand(b, b->format, rows, 1, 0),
                                .w = tensor_of(NULL, b->format, words, 1),
                                .logits = operand(b, FORMAT_FP32, rows, words, 1),
                                .dlogits = operand(b, b->format, rows, words, 1),
                                .targets = b->tokens,
                                .rows = b->positions, /* each below `rows` is itself */
                                .grad_scale = 1 };

    cuda_check(cuda, launch_classifier_loss(&cuda->launch, &op, 0, rows),
               "cross entropy");
}

static void put_convert(struct bench *b)
{
    b->be->ops->convert(
        b->be, &(struct op_convert) { flat(b, b->format, 1), flat(b, FORMAT_FP32, 1) });
}

static void put_zero(struct bench *b)
{
    b->be->ops->zero(b->be, &(struct op_zero) { flat(b, FORMAT_FP32, 1) });
}

static void put_square_sum(struct bench *b)
{
    struct op_square_sum op = { flat(b, FORMAT_FP32, 1),
                                operand(b, FORMAT_FP32, 1, 2, 0).data };

    b->be->ops->square_sum(b->be, &op);
}

static struct op_adamw adamw_of(struct bench *b, enum format format)
{
    return (struct op_adamw) { .w = flat(b, format, 2),
                               .grad = flat(b, FORMAT_FP32, 1),
                               .m = flat(b, format, 2),
                               .v = flat(b, format, 2),
                               .lr = 1e-4,
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .eps = 1e-8,
                               .decay = 0.1,
                               .grad_scale = 1,
                               .step = 10 };
}

static void put_adamw(struct bench *b)
{
    struct op_adamw op = adamw_of(b, FORMAT_FP32);

    op.copy = flat(b, b->format, 1);
    b->be->ops->adamw(b->be, &op);
}

static void put_adamw_pure(struct bench *b)
{
    struct op_adamw op = adamw_of(b, b->format);

    op.stochastic = true;
    b->be->ops->adamw(b->be, &op);
}

static void put_sgd(struct bench *b)
{
    struct op_sgd op = { .w = flat(b, FORMAT_FP32, 2),
                         .grad = flat(b, FORMAT_FP32, 1),
                         .copy = flat(b, b->format, 1),
                         .lr = 1e-4,
                         .grad_scale = 1,
                         .step = 10 };

    b->be->ops->sgd(b->be, &op);
}

const struct row gpu_ops[] = {
    { .name = "copy, the driver's", .put = put_copy, .once = true, .copy = true },
    { .name = "copy of rows", .put = put_copy_rows, .once = true, .copy = true },
    { .name = "rmsnorm, residual", .put = put_rmsnorm },
    { .name = "rmsnorm", .put = put_rmsnorm_alone },
    { .name = "rmsnorm_backward", .put = put_rmsnorm_backward },
    { .name = "layernorm, residual", .put = put_layernorm },
    { .name = "layernorm_backward", .put = put_layernorm_backward },
    { .name = "headnorm", .put = put_headnorm },
    { .name = "headnorm_backward", .put = put_headnorm_backward },
    { .name = "rope", .put = put_rope },
    { .name = "swiglu", .put = put_swiglu },
    { .name = "swiglu_backward", .put = put_swiglu_backward },
    { .name = "swiglu_backward, out", .put = put_swiglu_backward_both },
    { .name = "gelu", .put = put_gelu },
    { .name = "gelu_backward", .put = put_gelu_backward },
    { .name = "gelu by tanh", .put = put_gelu_tanh },
    { .name = "gelu_backward, tanh", .put = put_gelu_tanh_backward },
    { .name = "embedding", .put = put_embedding },
    { .name = "embedding_backward", .put = put_embedding_backward },
    { .name = "add", .put = put_add },
    { .name = "dropout", .put = put_dropout },
    { .name = "sum_rows", .put = put_sum_rows },
    { .name = "cross entropy", .put = put_cross_entropy, .bare = true },
    { .name = "convert", .put = put_convert, .once = true },
    { .name = "zero", .put = put_zero, .once = true },
    { .name = "square_sum", .put = put_square_sum, .once = true },
    { .name = "adamw, fp32", .put = put_adamw, .once = true },
    { .name = "adamw, 16 bits", .put = put_adamw_pure, .once = true },
    { .name = "sgd, fp32", .put = put_sgd, .once = true },
};
const size_t gpu_ops_count = TS_COUNT(gpu_ops);
