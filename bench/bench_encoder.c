/*
 * bench/bench_encoder.c - measures attention in which all rows of a sequence see each other,
 * in the shapes of encoders of sound and images, and causal attention of the same shapes.
 *
 *     bench/bench_encoder [cpu|ORDINAL [THREADS]]
 *
 * FLOPs are those of the formula for the pairs of rows that see each other: two matmuls
 * forward and five backward (2 D FLOPs per pair each), however many the kernel executes.
 * 1 thread is timed by processor time, which other processes hardly affect.
 * bench/peer_encoder.py measures PyTorch.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/size.h"
#include "bench/target.h"
#include "kernels/reach.h"

enum { ROUNDS = 5 };

static const struct shape {
    const char *name;
    size_t positions, sequences, heads, head_size;
} shapes[] = {
    { "Whisper large, 30 s", 1500, 1, 20, 64 },
    { "SigLIP So400m, 896 x 896", 4096, 1, 16, 72 },
    { "Qwen2.5-VL, windows of 8 x 8", 64, 64, 16, 80 },
};

struct bench {
    struct backend *be;
    bool processor; /* processor time instead of wall clock */
    enum format format;
    struct shape shape;
    bool joined; /* rows see each other, not only those before them */
};

static void *uploaded(struct bench *b, const void *host, size_t bytes)
{
    void *there = target_memory(b->be, bytes);

    b->be->ops->upload(b->be, there, host, bytes);
    target_wait(b->be);
    return there;
}

static struct tensor filled(struct bench *b, size_t cols, uint32_t stream)
{
    size_t rows = b->shape.positions * b->shape.sequences;
    struct tensor tensor = tensor_of(NULL, b->format, rows, cols);
    float *values = malloc(rows * cols * sizeof(*values));
    void *host = malloc(tensor_bytes(tensor));

    if (!values || !host)
        target_stop("out of memory");
    for (size_t i = 0; i < rows * cols; i++)
        values[i] = (float)random_normal(1, RANDOM_INIT, stream, i);
    format_convert(host, b->format, values, FORMAT_FP32, rows * cols);
    tensor.data = uploaded(b, host, tensor_bytes(tensor));
    free(values);
    free(host);
    return tensor;
}

static struct tensor empty(struct bench *b, enum format format, size_t rows, size_t cols)
{
    struct tensor tensor = tensor_of(NULL, format, rows, cols);

    tensor.data = target_memory(b->be, tensor_bytes(tensor));
    return tensor;
}

/* Set the sequences and, if they are joined, what their rows reach. */
static void set_sequences(struct bench *b, struct op_attention *op)
{
    size_t rows = op->q.rows, length = b->shape.positions;
    int32_t *host = calloc(op->sequences + 1 + 2 * rows, sizeof(*host)), *reach;

    if (!host)
        target_stop("out of memory");
    reach = host + op->sequences + 1;
    for (size_t s = 0; s <= op->sequences; s++)
        host[s] = (int32_t)(s * length);
    for (size_t s = 0; s < op->sequences; s++)
        reach_join(reach, s * length, (s + 1) * length);
    reach_since(reach + rows, reach, rows);
    op->offsets = uploaded(b, host, (op->sequences + 1 + 2 * rows) * sizeof(*host));
    if (b->joined) {
        op->reach = op->offsets + op->sequences + 1;
        op->since = op->reach + rows;
    }
    free(host);
}

static struct op_attention_backward operands(struct bench *b)
{
    size_t rows = b->shape.positions * b->shape.sequences;
    size_t wide = b->shape.heads * b->shape.head_size;
    struct tensor qkv = filled(b, 3 * wide, 1),
                  dqkv = empty(b, b->format, rows, 3 * wide);
    struct op_attention_backward op = {
        .dq = tensor_columns(dqkv, 0, wide),
        .dk = tensor_columns(dqkv, wide, wide),
        .dv = tensor_columns(dqkv, 2 * wide, wide),
        .delta = empty(b, FORMAT_FP32, b->shape.heads, rows),
        .dout = filled(b, wide, 2),
        .forward = { .out = empty(b, b->format, rows, wide),
                     .lse = empty(b, FORMAT_FP32, b->shape.heads, rows),
                     .q = tensor_columns(qkv, 0, wide),
                     .k = tensor_columns(qkv, wide, wide),
                     .v = tensor_columns(qkv, 2 * wide, wide),
                     .sequences = b->shape.sequences,
                     .longest = b->shape.positions,
                     .heads = b->shape.heads,
                     .kv_heads = b->shape.heads,
                     .head_size = b->shape.head_size,
                     .scale = 1 / sqrtf((float)b->shape.head_size) },
    };

    set_sequences(b, &op.forward);
    return op;
}

static void operands_free(struct bench *b, const struct op_attention_backward *op)
{
    void *blocks[] = { op->dq.data,
                       op->delta.data,
                       op->dout.data,
                       op->forward.out.data,
                       op->forward.lse.data,
                       op->forward.q.data,
                       (void *)op->forward.offsets };

    for (size_t i = 0; i < TS_COUNT(blocks); i++)
        b->be->ops->free(b->be, blocks[i]);
}

static double seconds_now(const struct bench *b)
{
    struct timespec now;

    if (!b->processor)
        return clock_seconds();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Return the seconds of one call: the best of ROUNDS after the first. */
static double measure(struct bench *b, const struct op_attention_backward *op,
                      bool backward)
{
    double best = INFINITY;

    for (int i = 0; i <= ROUNDS; i++) {
        double start = seconds_now(b);

        if (backward)
            b->be->ops->attention_backward(b->be, op);
        else
            b->be->ops->attention(b->be, &op->forward);
        target_wait(b->be);
        if (i > 0)
            best = fmin(best, seconds_now(b) - start);
    }
    return best;
}

static void run_shape(struct bench *b)
{
    struct op_attention_backward op = operands(b);
    double length = (double)b->shape.positions;
    double pairs = (double)(b->shape.sequences * b->shape.heads) * length *
                   (b->joined ? length : (length + 1) / 2);

    for (int backward = 0; backward < 2; backward++) {
        double seconds = measure(b, &op, backward);
        double flops = (backward ? 5 : 2) * 2 * (double)b->shape.head_size * pairs;

        printf("| %s | %s | %s | %s | %.2f | %.1f |\n", b->shape.name,
               format_info(b->format)->name, b->joined ? "all" : "causal",
               backward ? "backward" : "forward", seconds * 1e3, flops / seconds * 1e-9);
    }
    operands_free(b, &op);
}

int main(int argc, char **argv)
{
    const struct device *device = target_find(argc > 1 ? argv[1] : "cpu");
    int threads = argc > 2 ? atoi(argv[2]) : 0;
    bool cpu = device->kind == DEVICE_CPU;
    enum format narrow = cpu || device->major >= 8 ? FORMAT_BF16 : FORMAT_FP16;
    struct bench b = { .processor = cpu && threads == 1 };

    b.be = target_open(device, threads);
    printf("%s\n\n| shape | format | rows see | pass | ms | GFLOP/s |\n"
           "|---|---|---|---|---|---|\n",
           b.be->ops->describe(b.be));
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < TS_COUNT(shapes); i++)
            for (int joined = 0; joined < 2; joined++) {
                b.format = f ? narrow : FORMAT_FP32;
                b.shape = shapes[i];
                b.joined = joined;
                run_shape(&b);
            }
    backend_close(b.be);
    return 0;
}
