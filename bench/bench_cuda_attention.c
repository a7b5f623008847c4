/*
 * bench/bench_cuda_attention.c - measures attention and its gradients on a GPU, for head
 * sizes 64 and 128, 32 query and 8 key heads: a table, then a line of JSON per row.
 *
 *     bench/bench_cuda_attention [cpu|ORDINAL [POSITIONS [SEQUENCES]]]
 *
 * TRAINSPOOL_CUDNN=1 in the environment uses cuDNN for the forward pass, and with
 * GRADIENTS_MIB, the memory for it, for the gradients; TRAINSPOOL_CUDNN=0 our kernels.
 *
 * FLOPs are those of the causal formula: two matmuls of T (T + 1) / 2 scores forward and
 * five backward (2 D FLOPs per score each), however many the kernel executes.
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

enum { HEADS = 32, KV_HEADS = 8, ROUNDS = 5 };
static const double round_seconds = 0.2;

struct bench {
    struct backend *be;
    const struct device *device;
    enum format format;
    size_t positions, sequences;
};

/* Rows of normally distributed values; every 64th row repeats, which makes no difference
 * to the time. */
static struct tensor filled(struct bench *b, size_t cols, uint32_t stream)
{
    size_t rows = b->positions * b->sequences;
    struct tensor tensor = tensor_of(NULL, b->format, rows, cols);
    size_t bytes = tensor_bytes(tensor) / rows;
    char *host = malloc(bytes * rows);
    float *row = malloc(cols * sizeof(*row));

    if (!host || !row)
        target_stop("out of memory");
    for (size_t i = 0; i < rows; i++) {
        if (i >= 64) {
            memcpy(host + i * bytes, host + i % 64 * bytes, bytes);
            continue;
        }
        for (size_t j = 0; j < cols; j++)
            row[j] = (float)random_normal(1, RANDOM_INIT, stream, i * cols + j);
        format_convert(host + i * bytes, b->format, row, FORMAT_FP32, cols);
    }
    tensor.data = target_memory(b->be, bytes * rows);
    b->be->ops->upload(b->be, tensor.data, host, bytes * rows);
    target_wait(b->be);
    free(row);
    free(host);
    return tensor;
}

static struct tensor empty(struct bench *b, enum format format, size_t rows, size_t cols)
{
    struct tensor tensor = tensor_of(NULL, format, rows, cols);

    tensor.data = target_memory(b->be, tensor_bytes(tensor));
    return tensor;
}

static int32_t *offsets_of(struct bench *b)
{
    size_t bytes = (b->sequences + 1) * sizeof(int32_t);
    int32_t *host = malloc(bytes), *offsets = target_memory(b->be, bytes);

    if (!host)
        target_stop("out of memory");
    for (size_t s = 0; s <= b->sequences; s++)
        host[s] = (int32_t)(s * b->positions);
    b->be->ops->upload(b->be, offsets, host, bytes);
    target_wait(b->be);
    free(host);
    return offsets;
}

static struct op_attention_backward operands(struct bench *b, size_t head_size)
{
    size_t wide = HEADS * head_size, narrow = KV_HEADS * head_size;
    size_t rows = b->positions * b->sequences;
    struct tensor qkv = filled(b, wide + 2 * narrow, 1);
    struct tensor dqkv = empty(b, b->format, rows, wide + 2 * narrow);

    return (struct op_attention_backward) {
        .dq = tensor_columns(dqkv, 0, wide),
        .dk = tensor_columns(dqkv, wide, narrow),
        .dv = tensor_columns(dqkv, wide + narrow, narrow),
        .delta = empty(b, FORMAT_FP32, HEADS, rows),
        .dout = filled(b, wide, 2),
        .forward = { .out = empty(b, b->format, rows, wide),
                     .lse = empty(b, FORMAT_FP32, HEADS, rows),
                     .q = tensor_columns(qkv, 0, wide),
                     .k = tensor_columns(qkv, wide, narrow),
                     .v = tensor_columns(qkv, wide + narrow, narrow),
                     .offsets = offsets_of(b),
                     .sequences = b->sequences,
                     .longest = b->positions,
                     .heads = HEADS,
                     .kv_heads = KV_HEADS,
                     .head_size = head_size,
                     .scale = 1 / sqrtf((float)head_size) },
    };
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

static void run(struct bench *b, const struct op_attention_backward *op, bool backward,
                size_t times)
{
    for (size_t i = 0; i < times; i++)
        if (backward)
            b->be->ops->attention_backward(b->be, op);
        else
            b->be->ops->attention(b->be, &op->forward);
    target_wait(b->be);
}

/* Return the seconds of one call: the best of ROUNDS rounds of about round_seconds. */
static double measure(struct bench *b, const struct op_attention_backward *op,
                      bool backward)
{
    double start, seconds, best = INFINITY;
    size_t times = 1;

    run(b, op, backward, 1);
    start = clock_seconds();
    run(b, op, backward, 1);
    seconds = clock_seconds() - start;
    if (seconds < round_seconds)
        times += (size_t)(round_seconds / seconds);
    for (int i = 0; i < ROUNDS; i++) {
        start = clock_seconds();
        run(b, op, backward, times);
        best = fmin(best, (clock_seconds() - start) / (double)times);
    }
    return best;
}

struct row {
    size_t head_size;
    bool backward;
    double seconds, rate; /* FLOP/s */
};

static struct row row_of(struct bench *b, const struct op_attention_backward *op,
                         bool backward)
{
    double scores = 0.5 * (double)b->positions * (double)(b->positions + 1) *
                    (double)b->sequences * HEADS;
    double flops = (backward ? 5 : 2) * 2 * (double)op->forward.head_size * scores;
    double seconds = measure(b, op, backward);

    return (struct row) { op->forward.head_size, backward, seconds, flops / seconds };
}

static void print_row(const struct bench *b, const struct row *row, bool json)
{
    const char *pass = row->backward ? "backward" : "forward";

    if (json)
        printf(
            "{\"bench\": \"attention\", \"device\": \"%s\", \"format\": \"%s\", "
            "\"head_size\": %zu, \"positions\": %zu, \"sequences\": %zu, \"heads\": %d, "
            "\"kv_heads\": %d, \"pass\": \"%s\", \"ms\": %.4f, \"tflops\": %.2f}\n",
            b->device->name, format_info(b->format)->name, row->head_size, b->positions,
            b->sequences, HEADS, KV_HEADS, pass, row->seconds * 1e3, row->rate * 1e-12);
    else
        printf("%-6s %5zu  %-9s %10.3f ms %8.1f TFLOP/s\n", format_info(b->format)->name,
               row->head_size, pass, row->seconds * 1e3, row->rate * 1e-12);
}

int main(int argc, char **argv)
{
    static const size_t head_sizes[] = { 64, 128 };
    struct bench b = { .device = target_find(argc > 1 ? argv[1] : NULL) };
    struct row rows[2 * TS_COUNT(head_sizes)];
    long positions = argc > 2 ? atol(argv[2]) : 4096;
    long sequences = argc > 3 ? atol(argv[3]) : 4;

    if (positions < 1 || sequences < 1)
        target_stop("POSITIONS and SEQUENCES must be at least 1");
    b.positions = (size_t)positions;
    b.sequences = (size_t)sequences;
    b.format =
        b.device->kind == DEVICE_CUDA && b.device->major < 8 ? FORMAT_FP16 : FORMAT_BF16;
    b.be = target_open(b.device, 0);
    printf("attention, %s, %zu x %zu positions, %d heads, %d key heads\n", b.device->name,
           b.sequences, b.positions, HEADS, KV_HEADS);
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct op_attention_backward op = operands(&b, head_sizes[i / 2]);

        run(&b, &op, false, 1);
        rows[i] = row_of(&b, &op, i % 2);
        print_row(&b, &rows[i], false);
        operands_free(&b, &op);
    }
    for (size_t i = 0; i < TS_COUNT(rows); i++)
        print_row(&b, &rows[i], true);
    backend_close(b.be);
    return 0;
}
