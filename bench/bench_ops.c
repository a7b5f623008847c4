/*
 * bench/bench_ops.c - measures the operations other than matmuls: GB/s of the data they
 * must read and write, relative to the rate of reading memory, or GFLOP/s.
 *
 *     bench/bench_ops [THREADS]
 *
 * 1 thread is timed by processor time, which other processes hardly affect.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/size.h"
#include "kernels/backend.h"

/* Rows, and the widths of SmolLM2-135M. */
enum {
    ROWS = 2048,
    WIDTH = 576,
    INNER = 1536,
    HEADS = 9,
    KV_HEADS = 3,
    HEAD = 64,
    WORDS = 32000
};
enum { WEIGHTS = 32 << 20, REPEATS = 7 };

/* Memory for any operation below, and the parameters of its run. */
struct bench {
    struct backend *be;
    bool processor; /* processor time instead of wall clock */
    enum format format;
    char *blocks[8];
    int32_t *positions, *offsets;
    size_t sequences;
    double sum;
};

static struct tensor block(struct bench *b, size_t index, enum format format, size_t rows,
                           size_t cols)
{
    return tensor_of(b->blocks[index], format, rows, cols);
}

static void bench_rmsnorm(struct bench *b)
{
    b->be->ops->rmsnorm(
        b->be, &(struct op_rmsnorm) { .out = block(b, 0, b->format, ROWS, WIDTH),
                                      .sum = block(b, 1, FORMAT_FP32, ROWS, WIDTH),
                                      .x = block(b, 1, FORMAT_FP32, ROWS, WIDTH),
                                      .delta = block(b, 2, b->format, ROWS, WIDTH),
                                      .rstd = block(b, 3, FORMAT_FP32, 1, ROWS),
                                      .weight = block(b, 4, FORMAT_FP32, 1, WIDTH),
                                      .eps = 1e-5f });
}

static void bench_rmsnorm_backward(struct bench *b)
{
    b->be->ops->rmsnorm_backward(
        b->be,
        &(struct op_rmsnorm_backward) { .dx = block(b, 0, FORMAT_FP32, ROWS, WIDTH),
                                        .dcopy = block(b, 1, b->format, ROWS, WIDTH),
                                        .dweight = block(b, 5, FORMAT_FP32, 1, WIDTH),
                                        .dout = block(b, 2, b->format, ROWS, WIDTH),
                                        .x = block(b, 6, FORMAT_FP32, ROWS, WIDTH),
                                        .rstd = block(b, 3, FORMAT_FP32, 1, ROWS),
                                        .weight = block(b, 4, FORMAT_FP32, 1, WIDTH) });
}

static void bench_layernorm(struct bench *b)
{
    b->be->ops->layernorm(
        b->be, &(struct op_layernorm) { .out = block(b, 0, b->format, ROWS, WIDTH),
                                        .sum = block(b, 1, FORMAT_FP32, ROWS, WIDTH),
                                        .x = block(b, 1, FORMAT_FP32, ROWS, WIDTH),
                                        .delta = block(b, 2, b->format, ROWS, WIDTH),
                                        .stats = block(b, 3, FORMAT_FP32, 2, ROWS),
                                        .weight = block(b, 4, FORMAT_FP32, 1, WIDTH),
                                        .bias = block(b, 5, FORMAT_FP32, 1, WIDTH),
                                        .eps = 1e-5f });
}

static void bench_layernorm_backward(struct bench *b)
{
    struct tensor sums = block(b, 5, FORMAT_FP32, 2, WIDTH);

    b->be->ops->layernorm_backward(
        b->be,
        &(struct op_layernorm_backward) { .dx = block(b, 0, FORMAT_FP32, ROWS, WIDTH),
                                          .dcopy = block(b, 1, b->format, ROWS, WIDTH),
                                          .dweight = tensor_rows(sums, 0, 1),
                                          .dbias = tensor_rows(sums, 1, 1),
                                          .dout = block(b, 2, b->format, ROWS, WIDTH),
                                          .x = block(b, 6, FORMAT_FP32, ROWS, WIDTH),
                                          .stats = block(b, 3, FORMAT_FP32, 2, ROWS),
                                          .weight = block(b, 4, FORMAT_FP32, 1, WIDTH) });
}

static void bench_headnorm(struct bench *b)
{
    struct tensor x = block(b, 7, b->format, ROWS, WIDTH);

    b->be->ops->headnorm(
        b->be, &(struct op_headnorm) { .out = block(b, 1, b->format, ROWS, WIDTH),
                                       .rstd = block(b, 3, FORMAT_FP32, ROWS, HEADS),
                                       .x = x,
                                       .weight = block(b, 4, FORMAT_FP32, 1, HEAD),
                                       .eps = 1e-6f,
                                       .heads = HEADS });
}

static void bench_headnorm_backward(struct bench *b)
{
    struct tensor dx = block(b, 6, b->format, ROWS, WIDTH);

    b->be->ops->headnorm_backward(
        b->be,
        &(struct op_headnorm_backward) { .dx = dx,
                                         .dweight = block(b, 5, FORMAT_FP32, 1, HEAD),
                                         .dout = dx,
                                         .x = block(b, 7, b->format, ROWS, WIDTH),
                                         .rstd = block(b, 3, FORMAT_FP32, ROWS, HEADS),
                                         .weight = block(b, 4, FORMAT_FP32, 1, HEAD),
                                         .heads = HEADS });
}

static void bench_rope(struct bench *b)
{
    b->be->ops->rope(b->be,
                     &(struct op_rope) { .x = block(b, 0, b->format, ROWS, WIDTH),
                                         .table = block(b, 1, FORMAT_FP32, ROWS, HEAD),
                                         .positions = b->positions,
                                         .heads = HEADS });
}

static void bench_swiglu(struct bench *b)
{
    struct tensor both = block(b, 1, b->format, ROWS, 2 * INNER);

    b->be->ops->swiglu(b->be, &(struct op_swiglu) { block(b, 0, b->format, ROWS, INNER),
                                                    tensor_columns(both, 0, INNER),
                                                    tensor_columns(both, INNER, INNER),
                                                    ACTIVATION_SILU, NULL });
}

static void bench_swiglu_backward(struct bench *b)
{
    struct tensor both = block(b, 1, b->format, ROWS, 2 * INNER);
    struct tensor dboth = block(b, 2, b->format, ROWS, 2 * INNER);

    b->be->ops->swiglu_backward(
        b->be, &(struct op_swiglu_backward) { .dgate = tensor_columns(dboth, 0, INNER),
                                              .dup = tensor_columns(dboth, INNER, INNER),
                                              .dout = block(b, 0, b->format, ROWS, INNER),
                                              .gate = tensor_columns(both, 0, INNER),
                                              .up = tensor_columns(both, INNER, INNER) });
}

/* Reads a block that no operation writes to in another format. */
static void bench_activation(struct bench *b, enum activation kind)
{
    b->be->ops->activation(
        b->be, &(struct op_activation) { block(b, 0, b->format, ROWS, INNER),
                                         block(b, 7, b->format, ROWS, INNER), kind });
}

static void bench_gelu(struct bench *b)
{
    bench_activation(b, ACTIVATION_GELU);
}

static void bench_gelu_tanh(struct bench *b)
{
    bench_activation(b, ACTIVATION_GELU_TANH);
}

static void bench_activation_backward(struct bench *b, enum activation kind)
{
    b->be->ops->activation_backward(
        b->be,
        &(struct op_activation_backward) { .dx = block(b, 0, b->format, ROWS, INNER),
                                           .dout = block(b, 2, b->format, ROWS, INNER),
                                           .x = block(b, 7, b->format, ROWS, INNER),
                                           .kind = kind });
}

static void bench_gelu_backward(struct bench *b)
{
    bench_activation_backward(b, ACTIVATION_GELU);
}

static void bench_gelu_tanh_backward(struct bench *b)
{
    bench_activation_backward(b, ACTIVATION_GELU_TANH);
}

static struct op_attention attention_of(struct bench *b)
{
    size_t wide = HEADS * HEAD, narrow = KV_HEADS * HEAD;
    struct tensor qkv = block(b, 1, b->format, ROWS, wide + 2 * narrow);

    return (struct op_attention) { .out = block(b, 0, b->format, ROWS, wide),
                                   .lse = block(b, 3, FORMAT_FP32, HEADS, ROWS),
                                   .q = tensor_columns(qkv, 0, wide),
                                   .k = tensor_columns(qkv, wide, narrow),
                                   .v = tensor_columns(qkv, wide + narrow, narrow),
                                   .offsets = b->offsets,
                                   .sequences = b->sequences,
                                   .heads = HEADS,
                                   .kv_heads = KV_HEADS,
                                   .head_size = HEAD,
                                   .scale = 0.125f };
}

static void bench_attention(struct bench *b)
{
    struct op_attention op = attention_of(b);

    b->be->ops->attention(b->be, &op);
}

static void bench_attention_backward(struct bench *b)
{
    size_t wide = HEADS * HEAD, narrow = KV_HEADS * HEAD;
    struct tensor dqkv = block(b, 2, b->format, ROWS, wide + 2 * narrow);

    b->be->ops->attention_backward(b->be,
                                   &(struct op_attention_backward) {
                                       .dq = tensor_columns(dqkv, 0, wide),
                                       .dk = tensor_columns(dqkv, wide, narrow),
                                       .dv = tensor_columns(dqkv, wide + narrow, narrow),
                                       .delta = block(b, 5, FORMAT_FP32, HEADS, ROWS),
                                       .dout = block(b, 6, b->format, ROWS, wide),
                                       .forward = attention_of(b) });
}

static void bench_embedding(struct bench *b)
{
    b->be->ops->embedding(b->be,
                          &(struct op_embedding) { block(b, 0, FORMAT_FP32, ROWS, WIDTH),
                                                   block(b, 1, b->format, WORDS, WIDTH),
                                                   b->positions, 1 });
}

static void bench_embedding_backward(struct bench *b)
{
    b->be->ops->embedding_backward(
        b->be, &(struct op_embedding_backward) { block(b, 0, FORMAT_FP32, WORDS, WIDTH),
                                                 block(b, 1, FORMAT_FP32, ROWS, WIDTH),
                                                 b->positions, 1, 0, false });
}

static void bench_add(struct bench *b)
{
    struct tensor x = block(b, 0, FORMAT_FP32, ROWS, WIDTH);

    b->be->ops->add(b->be,
                    &(struct op_add) { x, x, block(b, 1, b->format, ROWS, WIDTH) });
}

static void bench_convert(struct bench *b)
{
    b->be->ops->convert(b->be,
                        &(struct op_convert) { block(b, 0, b->format, 1, WEIGHTS),
                                               block(b, 1, FORMAT_FP32, 1, WEIGHTS) });
}

static void bench_zero(struct bench *b)
{
    b->be->ops->zero(b->be, &(struct op_zero) { block(b, 0, b->format, 1, WEIGHTS) });
}

static void bench_dropout(struct bench *b)
{
    struct tensor x = block(b, 0, b->format, ROWS, WIDTH);

    b->be->ops->dropout(b->be,
                        &(struct op_dropout) { .out = x, .x = x, .p = 0.1f, .seed = 1 });
}

static void bench_sum_rows(struct bench *b)
{
    b->be->ops->sum_rows(b->be,
                         &(struct op_sum_rows) { block(b, 0, FORMAT_FP32, 1, WIDTH),
                                                 block(b, 1, b->format, ROWS, WIDTH) });
}

static void bench_square_sum(struct bench *b)
{
    b->be->ops->square_sum(
        b->be, &(struct op_square_sum) { block(b, 0, b->format, 1, WEIGHTS), &b->sum });
}

static void bench_adamw(struct bench *b)
{
    struct tensor copy = block(b, 4, FORMAT_BF16, 1, WEIGHTS);

    b->be->ops->adamw(b->be,
                      &(struct op_adamw) {
                          .w = block(b, 0, FORMAT_FP32, 1, WEIGHTS),
                          .grad = block(b, 1, FORMAT_FP32, 1, WEIGHTS),
                          .m = block(b, 2, FORMAT_FP32, 1, WEIGHTS),
                          .v = block(b, 3, FORMAT_FP32, 1, WEIGHTS),
                          .copy = b->format == FORMAT_FP32 ? (struct tensor) { 0 } : copy,
                          .lr = 1e-4,
                          .beta1 = 0.9,
                          .beta2 = 0.999,
                          .eps = 1e-8,
                          .grad_scale = 1,
                          .step = 10 });
}

static void bench_sgd(struct bench *b)
{
    b->be->ops->sgd(b->be,
                    &(struct op_sgd) { .w = block(b, 0, FORMAT_FP32, 1, WEIGHTS),
                                       .grad = block(b, 1, FORMAT_FP32, 1, WEIGHTS),
                                       .lr = 1e-4,
                                       .grad_scale = 1 });
}

#define ELEMENTS(rows, cols) ((double)(rows) * (double)(cols))

/* Bytes of fp32 operands and of those in the format of the activations; or operations. */
static const struct row {
    const char *name;
    void (*run)(struct bench *b);
    double wide, narrow; /* elements read or written */
    bool attention;      /* report GFLOP/s; causal: half of the matmuls */
    double matmuls;
} rows[] = {
    { "rmsnorm", bench_rmsnorm, 2 * ELEMENTS(ROWS, WIDTH), 2 * ELEMENTS(ROWS, WIDTH), 0,
      0 },
    { "rmsnorm_backward", bench_rmsnorm_backward, 3 * ELEMENTS(ROWS, WIDTH),
      2 * ELEMENTS(ROWS, WIDTH), 0, 0 },
    { "layernorm", bench_layernorm, 2 * ELEMENTS(ROWS, WIDTH), 2 * ELEMENTS(ROWS, WIDTH),
      0, 0 },
    { "layernorm_backward", bench_layernorm_backward, 3 * ELEMENTS(ROWS, WIDTH),
      2 * ELEMENTS(ROWS, WIDTH), 0, 0 },
    { "headnorm", bench_headnorm, 0, 2 * ELEMENTS(ROWS, WIDTH), 0, 0 },
    { "headnorm_backward", bench_headnorm_backward, 0, 3 * ELEMENTS(ROWS, WIDTH), 0, 0 },
    { "rope", bench_rope, 0, 2 * ELEMENTS(ROWS, WIDTH), 0, 0 },
    { "swiglu", bench_swiglu, 0, 3 * ELEMENTS(ROWS, INNER), 0, 0 },
    { "swiglu_backward", bench_swiglu_backward, 0, 5 * ELEMENTS(ROWS, INNER), 0, 0 },
    { "gelu", bench_gelu, 0, 2 * ELEMENTS(ROWS, INNER), 0, 0 },
    { "gelu_backward", bench_gelu_backward, 0, 3 * ELEMENTS(ROWS, INNER), 0, 0 },
    { "gelu by tanh", bench_gelu_tanh, 0, 2 * ELEMENTS(ROWS, INNER), 0, 0 },
    { "gelu_backward, tanh", bench_gelu_tanh_backward, 0, 3 * ELEMENTS(ROWS, INNER), 0,
      0 },
    { "attention", bench_attention, 0, 0, true, 2 },
    { "attention_backward", bench_attention_backward, 0, 0, true, 5 },
    { "embedding", bench_embedding, ELEMENTS(ROWS, WIDTH), ELEMENTS(ROWS, WIDTH), 0, 0 },
    { "embedding_backward", bench_embedding_backward, 3 * ELEMENTS(ROWS, WIDTH), 0, 0,
      0 },
    { "add", bench_add, 2 * ELEMENTS(ROWS, WIDTH), ELEMENTS(ROWS, WIDTH), 0, 0 },
    { "dropout", bench_dropout, 0, 2 * ELEMENTS(ROWS, WIDTH), 0, 0 },
    { "sum_rows", bench_sum_rows, 0, ELEMENTS(ROWS, WIDTH), 0, 0 },
    { "convert, weights", bench_convert, WEIGHTS, WEIGHTS, 0, 0 },
    { "zero, weights", bench_zero, 0, WEIGHTS, 0, 0 },
    { "square_sum, weights", bench_square_sum, 0, WEIGHTS, 0, 0 },
    { "adamw, weights", bench_adamw, 7.0 * WEIGHTS, 0, 0, 0 },
    { "sgd, weights", bench_sgd, 3.0 * WEIGHTS, 0, 0, 0 },
};

static double seconds_now(const struct bench *b)
{
    struct timespec now;

    if (!b->processor)
        return clock_seconds();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Return the seconds of the fastest of some runs. */
static double best_of(struct bench *b, void (*run)(struct bench *b))
{
    double best = INFINITY;
    struct error err = { 0 };

    for (int i = 0; i < REPEATS; i++) {
        double begin = seconds_now(b), seconds;

        run(b);
        b->be->ops->sync(b->be, &err);
        seconds = seconds_now(b) - begin;
        if (i > 0 && seconds < best)
            best = seconds;
    }
    return best;
}

/* Return the number of pairs of rows in causal attention over sequences of equal
 * length. */
static double pairs_of(const struct bench *b)
{
    double longest = ROWS / (double)b->sequences;

    return (double)b->sequences * longest * (longest + 1) / 2;
}

static void bench_row(struct bench *b, const struct row *row, double memory)
{
    double seconds = best_of(b, row->run), bytes;

    if (row->attention) {
        double rate = row->matmuls * 2 * pairs_of(b) * HEAD * HEADS / seconds * 1e-9;

        printf("%-20s %5s T=%-5zu %8.3f ms %8.1f GFLOP/s\n", row->name,
               format_info(b->format)->name, ROWS / b->sequences, seconds * 1e3, rate);
        return;
    }
    bytes = row->wide * 4 + row->narrow * (double)format_info(b->format)->bytes;
    printf("%-20s %5s         %8.3f ms %8.1f GB/s %6.0f %%\n", row->name,
           format_info(b->format)->name, seconds * 1e3, bytes / seconds * 1e-9,
           100 * bytes / seconds * 1e-9 / memory);
}

static void bench_open(struct bench *b)
{
    struct error err = { 0 };

    for (size_t i = 0; i < TS_COUNT(b->blocks); i++) {
        b->blocks[i] = b->be->ops->alloc(b->be, (size_t)WEIGHTS * 4, &err);
        if (!b->blocks[i]) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
    }
    b->positions = calloc(ROWS, sizeof(*b->positions));
    b->offsets = calloc(ROWS + 1, sizeof(*b->offsets));
    for (size_t i = 0; i < ROWS; i++)
        b->positions[i] = (int32_t)(random_bits(1, RANDOM_ORDER, 0, i) % ROWS);
}

/* Fill the blocks with values of ordinary magnitude in this format. */
static void bench_fill(struct bench *b, enum format format)
{
    enum { PATTERN = 1 << 16 };
    float *values = calloc(PATTERN, sizeof(*values));
    size_t bytes = PATTERN * format_info(format)->bytes;

    b->format = format;
    for (size_t i = 0; i < PATTERN; i++)
        values[i] = (float)fabs(random_normal(1, RANDOM_INIT, 0, i));
    for (size_t i = 0; i < TS_COUNT(b->blocks); i++)
        for (size_t at = 0; at < (size_t)WEIGHTS * 4; at += bytes)
            format_convert(b->blocks[i] + at, format, values, FORMAT_FP32, PATTERN);
    free(values);
}

static void bench_sequences(struct bench *b, size_t sequences)
{
    b->sequences = sequences;
    for (size_t i = 0; i <= sequences; i++)
        b->offsets[i] = (int32_t)(i * (ROWS / sequences));
}

int main(int argc, char **argv)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16 };
    static const struct device cpu = { .kind = DEVICE_CPU };
    struct backend_options options = { .device = &cpu,
                                       .threads = argc > 1 ? atoi(argv[1]) : 0 };
    struct error err = { 0 };
    struct bench b = { .be = backend_open(&options, &err) };
    double memory;

    if (!b.be) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    b.processor = options.threads == 1;
    bench_open(&b);
    b.format = FORMAT_FP32;
    memory = WEIGHTS * 4.0 / best_of(&b, bench_square_sum) * 1e-9;
    printf("%s; memory read at %.1f GB/s\n", b.be->ops->describe(b.be), memory);
    for (size_t f = 0; f < TS_COUNT(formats); f++) {
        bench_fill(&b, formats[f]);
        for (size_t i = 0; i < TS_COUNT(rows); i++)
            for (size_t length = rows[i].attention ? 256 : ROWS; length <= ROWS;
                 length *= 8) {
                bench_sequences(&b, ROWS / length);
                bench_row(&b, &rows[i], memory);
            }
    }
    free(b.positions);
    free(b.offsets);
    backend_close(b.be);
    return 0;
}
