/*
 * bench/bench_cuda_matmul.c - measures the matmuls of a training step on a GPU by each
 * algorithm that cuBLASLt proposes, to compare its first choice with the fastest.
 *
 *     bench_cuda_matmul [ORDINAL]
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/size.h"
#include "bench/target.h"
#include "kernels/cuda/cuda_matmul.h"
#include "precision/format.h"

/* y = x W^T, dx = dy W, dW = dy^T x; W is (out, in). */
enum pass { FORWARD, DX, DW, PASSES };
static const char *const passes[PASSES] = { "forward", "dx", "dW" };

static const struct layer {
    const char *name;
    size_t rows, in, out;
    bool lora; /* dW is that of an adapter: only forward and dx are measured */
} layers[] = {
    { "Llama 1B qkv", 8192, 2048, 3072, false },
    { "Llama 1B o", 8192, 2048, 2048, false },
    { "Llama 1B gate, up", 8192, 2048, 16384, false },
    { "Llama 1B down", 8192, 8192, 2048, false },
    { "Llama 1B head", 2048, 2048, 128256, false },
    { "Llama 1B head", 4096, 2048, 128256, false },
    { "Llama 1B qkv, LoRA", 8192, 2048, 3120, true },
    { "Llama 1B gate, up, LoRA", 8192, 2048, 16416, true },
    { "Llama 1B qkv, LoRA padded", 8192, 2048, 3136, true },
    { "Llama 1B gate, up, padded", 8192, 2048, 16448, true },
    { "adapter A", 8192, 2048, 16, false },
    { "adapter A", 8192, 8192, 16, false },
    { "adapter B", 8192, 16, 2048, false },
    { "adapter B", 8192, 16, 8192, false },
    { "SmolLM2 qkv", 16384, 576, 960, false },
    { "SmolLM2 gate, up", 16384, 576, 3072, false },
    { "SmolLM2 down", 16384, 1536, 576, false },
    { "SmolLM2 head", 4096, 576, 49152, false },
};

enum { OPERANDS = 3, PATTERN = 32 << 20 };
static const size_t operand_bytes = (size_t)1100 << 20;

struct bench {
    struct backend *be;
    char *operands[OPERANDS];
};

/* Fill the memory with random bf16 values of about 1. */
static void fill(struct bench *b)
{
    uint16_t *pattern = malloc(PATTERN);

    if (!pattern)
        target_stop("out of memory");
    for (size_t i = 0; i < PATTERN / sizeof(*pattern); i++)
        pattern[i] = format_to_bf16((float)random_normal(1, RANDOM_INIT, 0, i));
    for (size_t o = 0; o < OPERANDS; o++) {
        b->operands[o] = target_memory(b->be, operand_bytes);
        for (size_t at = 0; at + PATTERN <= operand_bytes; at += PATTERN)
            b->be->ops->upload(b->be, b->operands[o] + at, pattern, PATTERN);
    }
    target_wait(b->be);
    free(pattern);
}

static struct tensor operand(const struct bench *b, size_t o, enum format format,
                             size_t rows, size_t cols)
{
    struct tensor tensor = tensor_of(b->operands[o], format, rows, cols);

    if (tensor_bytes(tensor) > operand_bytes)
        target_stop("an operand is larger than its memory");
    return tensor;
}

static struct op_matmul op_of(const struct bench *b, const struct layer *l,
                              enum pass pass)
{
    size_t rows = pass == DW ? l->out : l->rows;
    size_t cols = pass == FORWARD ? l->out : l->in;
    size_t depth = pass == FORWARD ? l->in : pass == DX ? l->out : l->rows;
    bool trans_a = pass == DW, trans_b = pass == FORWARD;

    return (struct op_matmul) {
        .out = operand(b, 0, pass == DW ? FORMAT_FP32 : FORMAT_BF16, rows, cols),
        .a = operand(b, 1, FORMAT_BF16, trans_a ? depth : rows, trans_a ? rows : depth),
        .b = operand(b, 2, FORMAT_BF16, trans_b ? cols : depth, trans_b ? depth : cols),
        .trans_a = trans_a,
        .trans_b = trans_b,
        .alpha = 1,
        .beta = pass == DW ? 1 : 0,
    };
}

static double seconds_of(struct bench *b, const struct op_matmul *op, size_t times)
{
    double start;

    target_wait(b->be);
    start = clock_seconds();
    for (size_t i = 0; i < times; i++)
        b->be->ops->matmul(b->be, op);
    target_wait(b->be);
    return (clock_seconds() - start) / (double)times;
}

/* The best of three rounds of about 10 ms. */
static double measure(struct bench *b, const struct op_matmul *op)
{
    double once, best = INFINITY;

    seconds_of(b, op, 1);
    once = seconds_of(b, op, 2);
    for (int i = 0; i < 3; i++)
        best = fmin(best, seconds_of(b, op, 1 + (size_t)(0.01 / once)));
    return best;
}

static void print_pass(struct bench *b, const struct layer *l, enum pass pass)
{
    struct op_matmul op = op_of(b, l, pass);
    struct cuda_backend *cuda = cuda_backend_of(b->be);
    size_t choices = cuda_matmul_choices(cuda, &op), fastest = 0;
    double seconds, first = 0, best = INFINITY;
    double flops = 2.0 * (double)l->rows * (double)l->in * (double)l->out;

    for (size_t i = 0; i < choices; i++) {
        cuda_matmul_choose(cuda, &op, i);
        seconds = measure(b, &op);
        if (i == 0)
            first = seconds;
        if (seconds < best) {
            best = seconds;
            fastest = i;
        }
    }
    printf("| %s, %zu x %zu x %zu | %s | %.1f | %.1f | %.1f | %zu of %zu | %.2f |\n",
           l->name, l->rows, l->in, l->out, passes[pass], 1e6 * first,
           1e-12 * flops / first, 1e-12 * flops / best, fastest + 1, choices,
           first / best);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const struct device *device = target_find(argc > 1 ? argv[1] : NULL);
    struct bench b = { 0 };

    if (device->kind != DEVICE_CUDA)
        target_stop("no GPU");
    b.be = target_open(device, 0);
    fill(&b);
    printf("%s\n\n| matmul (rows x in x out) | pass | us | TFLOP/s | fastest, TFLOP/s | "
           "its place | gain |\n|---|---|---|---|---|---|---|\n",
           b.be->ops->describe(b.be));
    for (size_t i = 0; i < TS_COUNT(layers); i++)
        for (enum pass pass = 0; pass < (layers[i].lora ? DW : PASSES); pass++)
            print_pass(&b, &layers[i], pass);
    for (size_t o = 0; o < OPERANDS; o++)
        b.be->ops->free(b.be, b.operands[o]);
    backend_close(b.be);
    return 0;
}
