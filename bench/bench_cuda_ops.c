/*
 * bench/bench_cuda_ops.c - how near to the memory's rate the operations other than
 * products are on a GPU, for the widths of SmolLM2-135M and Llama 3.2 1B: a table, then a
 * line of JSON for each row.
 *
 *     bench/bench_cuda_ops [ORDINAL [ROWS]]     rows of a batch; else 8192 and 16384
 *
 * Each operation takes new operands every time, out of more memory than a cache holds,
 * and is played from a recording, so that the host is not what is measured.  Bytes are
 * those that must be moved: every operand once, however often a kernel does.  The rate to
 * reach is that of a copy, measured here too.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/size.h"
#include "bench/target.h"
#include "kernels/cuda/cuda_backend.h"

enum { ROUNDS = 7, BATCH_MAX = 256, PATTERN = 1 << 16, POSITIONS = 2048 };
static const double batch_seconds = 2e-3, round_seconds = 20e-3;

struct shape {
    const char *name;
    size_t width, inner, heads, kv_heads, head_size, words;
};

static const struct shape shapes[] = {
    { "SmolLM2-135M", 576, 1536, 9, 3, 64, 49152 },
    { "Llama-3.2-1B", 2048, 8192, 32, 8, 64, 128256 },
};

struct bench {
    struct backend *be;
    const struct device *device;
    const struct shape *shape;
    enum format format;
    size_t rows, words;
    size_t weights, copied; /* numbers; bytes of the copy that sets the rate */
    char *ring;             /* operands come from here, one after another */
    size_t ring_bytes, at;
    int32_t *tokens, *positions;
    double bytes; /* that the last operation had to move */
    double rate;  /* bytes a second of a copy */
};

/* The next operand, which is read or written `times` times. */
static struct tensor operand(struct bench *b, enum format format, size_t rows,
                             size_t cols, double times)
{
    struct tensor tensor = tensor_of(NULL, format, rows, cols);
    size_t bytes = (tensor_bytes(tensor) + 255) / 256 * 256;

    if (bytes > b->ring_bytes)
        target_stop("an operand is larger than the memory for all");
    if (bytes > b->ring_bytes - b->at)
        b->at = 0;
    tensor.data = b->ring + b->at;
    b->at += bytes;
    b->bytes += times * (double)tensor_bytes(tensor);
    return tensor;
}

/* One of (rows, width): fp32, or as activations are. */
static struct tensor wide(struct bench *b, double times)
{
    return operand(b, FORMAT_FP32, b->rows, b->shape->width, times);
}

static struct tensor narrow(struct bench *b, double times)
{
    return operand(b, b->format, b->rows, b->shape->width, times);
}

/* Half the columns of a matrix twice as wide, as gate and up are. */
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
    size_t numbers = b->copied / sizeof(float);
    struct op_convert op = { operand(b, FORMAT_FP32, 1, numbers, 1),
                             operand(b, FORMAT_FP32, 1, numbers, 1) };

    b->be->ops->convert(b->be, &op);
}

/* With gaps between rows, so that it is a kernel's. */
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
                                        .stats =
                                            operand(b, FORMAT_FP32, 2, b->rows, 1) };

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
    struct op_headnorm_backward op = {
        .dx = dx,
        .dweight = operand(b, FORMAT_FP32, 1, size, 2),
        .dout = dx,
        .x = operand(b, b->format, b->rows, heads * size, 1),
        .weight = operand(b, FORMAT_FP32, 1, size, 1),
        .rstd = operand(b, FORMAT_FP32, b->rows, heads, 1),
        .heads = heads
    };

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
                            inner(b, 1), inner(b, 1), ACTIVATION_SILU };

    b->be->ops->swiglu(b->be, &op);
}

static void put_swiglu_backward(struct bench *b)
{
    struct op_swiglu_backward op = { .dgate = inner(b, 1),
                                     .dup = inner(b, 1),
                                     .dout = operand(b, b->format, b->rows,
                                                     b->shape->inner, 1),
                                     .gate = inner(b, 1),
                                     .up = inner(b, 1) };

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
    struct op_activation_backward op = { operand(b, b->format, b->rows, inner, 1),
                                         operand(b, b->format, b->rows, inner, 1),
                                         operand(b, b->format, b->rows, inner, 1), kind };

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

/* The table's rows, most of which are not in a cache. */
static void put_embedding(struct bench *b)
{
    size_t width = b->shape->width;
    struct op_embedding op = { wide(b, 1), operand(b, b->format, b->words, width, 0),
                               b->tokens, 1 };

    b->bytes += (double)b->rows * (double)(width * format_info(b->format)->bytes);
    b->be->ops->embedding(b->be, &op);
}

static void put_embedding_backward(struct bench *b)
{
    size_t width = b->shape->width;
    struct op_embedding_backward op = { operand(b, FORMAT_FP32, b->words, width, 0),
                                        wide(b, 3), b->tokens, 1 };

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

/* The loss and its gradient between two products: 1024 rows of logits, read once. */
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
                                .rows =
                                    b->positions, /* below `rows` each is its own place */
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

/* What is measured.  `once`: the model's widths do not matter.  `bare`: no operation of
 * the backend, so that no recording takes it. */
static const struct row {
    const char *name;
    void (*put)(struct bench *b);
    bool once, bare;
} rows[] = {
    { "copy, the driver's", put_copy, true, false },
    { "copy of rows", put_copy_rows, true, false },
    { "rmsnorm, residual", put_rmsnorm, false, false },
    { "rmsnorm", put_rmsnorm_alone, false, false },
    { "rmsnorm_backward", put_rmsnorm_backward, false, false },
    { "layernorm, residual", put_layernorm, false, false },
    { "layernorm_backward", put_layernorm_backward, false, false },
    { "headnorm", put_headnorm, false, false },
    { "headnorm_backward", put_headnorm_backward, false, false },
    { "rope", put_rope, false, false },
    { "swiglu", put_swiglu, false, false },
    { "swiglu_backward", put_swiglu_backward, false, false },
    { "gelu", put_gelu, false, false },
    { "gelu_backward", put_gelu_backward, false, false },
    { "gelu by tanh", put_gelu_tanh, false, false },
    { "gelu_backward, tanh", put_gelu_tanh_backward, false, false },
    { "embedding", put_embedding, false, false },
    { "embedding_backward", put_embedding_backward, false, false },
    { "add", put_add, false, false },
    { "dropout", put_dropout, false, false },
    { "sum_rows", put_sum_rows, false, false },
    { "cross entropy", put_cross_entropy, false, true },
    { "convert", put_convert, true, false },
    { "zero", put_zero, true, false },
    { "square_sum", put_square_sum, true, false },
    { "adamw, fp32", put_adamw, true, false },
    { "adamw, 16 bits", put_adamw_pure, true, false },
    { "sgd, fp32", put_sgd, true, false },
};

/* What a recording is known by. */
struct key {
    const struct row *row;
    const struct shape *shape;
    size_t rows, count;
};

/* `count` of one kind, by a recording where there is one; without waiting. */
static void put_batch(struct bench *b, const struct row *row, size_t count)
{
    const struct backend_ops *ops = b->be->ops;
    struct key key = { row, b->shape, b->rows, count };
    bool record = ops->begin && !row->bare;

    if (record && !ops->begin(b->be, &key, sizeof(key)))
        return;
    b->at = 0;
    for (size_t i = 0; i < count; i++) {
        b->bytes = 0;
        row->put(b);
    }
    if (record)
        ops->end(b->be);
}

static double batch_time(struct bench *b, const struct row *row, size_t count,
                         size_t times)
{
    double start = clock_seconds();

    for (size_t i = 0; i < times; i++)
        put_batch(b, row, count);
    target_wait(b->be);
    return clock_seconds() - start;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Seconds of one: the median of some rounds. */
static double measure(struct bench *b, const struct row *row)
{
    double seconds[ROUNDS], one;
    size_t count, times;

    batch_time(b, row, 1, 1);
    one = batch_time(b, row, 1, 1);
    count = (size_t)fmin(BATCH_MAX, fmax(1, batch_seconds / one));
    for (int i = 0; i < 2; i++) /* the second of a kind is what is recorded */
        one = batch_time(b, row, count, 1);
    times = (size_t)fmax(1, round_seconds / one);
    for (int i = 0; i < ROUNDS; i++)
        seconds[i] = batch_time(b, row, count, times) / (double)(count * times);
    qsort(seconds, ROUNDS, sizeof(*seconds), compare);
    return seconds[ROUNDS / 2];
}

/* What one row of the table says. */
struct result {
    const struct row *row;
    const struct shape *shape; /* NULL where it does not matter */
    size_t rows;
    double bytes, seconds;
};

static void print_result(const struct bench *b, const struct result *r, bool json)
{
    const char *shape = r->shape ? r->shape->name : "";
    double rate = r->bytes / r->seconds;

    if (json)
        printf("{\"bench\": \"operations\", \"device\": \"%s\", \"format\": \"%s\", "
               "\"operation\": \"%s\", \"model\": \"%s\", \"rows\": %zu, \"mb\": %.3f, "
               "\"us\": %.2f, \"gb_s\": %.1f, \"share\": %.3f}\n",
               b->device->name, format_info(b->format)->name, r->row->name, shape,
               r->rows, r->bytes * 1e-6, r->seconds * 1e6, rate * 1e-9, rate / b->rate);
    else
        printf("%-20s %-13s %6zu %10.1f MB %10.1f us %8.1f GB/s %5.0f %%\n", r->row->name,
               shape, r->rows, r->bytes * 1e-6, r->seconds * 1e6, rate * 1e-9,
               100 * rate / b->rate);
}

static void upload(struct bench *b, void *to, const void *from, size_t bytes)
{
    b->be->ops->upload(b->be, to, from, bytes);
    target_wait(b->be);
}

/* Normal numbers in bf16; two of them make an fp32 as usual. */
static void fill_ring(struct bench *b)
{
    static uint16_t pattern[PATTERN];

    for (size_t i = 0; i < PATTERN; i++)
        pattern[i] = format_to_bf16((float)random_normal(1, RANDOM_INIT, 0, i));
    for (size_t at = 0; at < b->ring_bytes; at += sizeof(pattern))
        upload(b, b->ring + at, pattern,
               b->ring_bytes - at < sizeof(pattern) ? b->ring_bytes - at
                                                    : sizeof(pattern));
}

/* Words as in a text: the n-th about n times as seldom as the first; positions 0, 1, ...
 */
static void fill_tokens(struct bench *b)
{
    int32_t *tokens = calloc(b->rows, sizeof(*tokens));
    int32_t *positions = calloc(b->rows, sizeof(*positions));

    if (!tokens || !positions)
        target_stop("out of memory");
    for (size_t i = 0; i < b->rows; i++) {
        double place = random_uniform(1, RANDOM_ORDER, 0, i);

        tokens[i] = (int32_t)(pow((double)b->words, place) - 1);
        positions[i] = (int32_t)(i % POSITIONS);
    }
    upload(b, b->tokens, tokens, b->rows * sizeof(*tokens));
    upload(b, b->positions, positions, b->rows * sizeof(*positions));
    free(tokens);
    free(positions);
}

/* Everything goes by the rows, so that a small machine can try it with few. */
static void bench_size(struct bench *b, size_t count)
{
    b->rows = count;
    b->weights = count * 16384;
    b->copied = count << 17;
    b->ring_bytes = 20 * b->weights + ((size_t)256 << 20);
    b->ring = target_memory(b->be, b->ring_bytes);
    b->tokens = target_memory(b->be, count * sizeof(*b->tokens));
    b->positions = target_memory(b->be, count * sizeof(*b->positions));
    fill_ring(b);
}

static void bench_clear(struct bench *b)
{
    b->be->ops->free(b->be, b->ring);
    b->be->ops->free(b->be, b->tokens);
    b->be->ops->free(b->be, b->positions);
}

static size_t bench_rows(struct bench *b, struct result *results)
{
    size_t count = 0;

    for (size_t s = 0; s < TS_COUNT(shapes); s++) {
        b->shape = &shapes[s];
        b->words = shapes[s].words < 16 * b->rows ? shapes[s].words : 16 * b->rows;
        fill_tokens(b);
        for (size_t i = 0; i < TS_COUNT(rows); i++) {
            struct result *result = &results[count];

            if (rows[i].once && s > 0)
                continue;
            *result = (struct result) { &rows[i], rows[i].once ? NULL : b->shape, b->rows,
                                        0, measure(b, &rows[i]) };
            result->bytes = b->bytes;
            if (rows[i].put == put_copy || rows[i].put == put_copy_rows)
                b->rate = fmax(b->rate, result->bytes / result->seconds);
            count++;
            print_result(b, result, false);
        }
    }
    return count;
}

int main(int argc, char **argv)
{
    static struct result results[2 * TS_COUNT(shapes) * TS_COUNT(rows)];
    size_t sizes[] = { 8192, 16384 }, size_count = TS_COUNT(sizes), count = 0;
    struct bench b = { .device = target_find(argc > 1 ? argv[1] : NULL) };

    if (argc > 2) {
        sizes[0] = (size_t)atol(argv[2]);
        size_count = 1;
    }
    if (sizes[0] < 1 || b.device->kind != DEVICE_CUDA)
        target_stop("a GPU's ordinal, and 1 row or more");
    b.format = b.device->major < 8 ? FORMAT_FP16 : FORMAT_BF16;
    b.be = target_open(b.device, 0);
    printf("%s, %s\n", b.be->ops->describe(b.be), format_info(b.format)->name);
    for (size_t i = 0; i < size_count; i++) {
        bench_size(&b, sizes[i]);
        count += bench_rows(&b, results + count);
        bench_clear(&b);
    }
    for (size_t i = 0; i < count; i++)
        print_result(&b, &results[i], true);
    backend_close(b.be);
    return 0;
}
