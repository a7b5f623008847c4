/*
 * bench/bench_cuda_ops.c - measures how close the operations other than matmuls come to
 * the memory bandwidth of a GPU, for the widths of SmolLM2-135M and Llama 3.2 1B: a
 * table, then a line of JSON per row.
 *
 *     bench/bench_cuda_ops [ORDINAL [ROWS]]     rows of a batch; default 8192 and 16384
 *
 * Each operation takes new operands every time, from more memory than a cache holds, and
 * is replayed from a graph, so that the host is not what is measured. Bytes are those
 * that must be moved: every operand once, however often a kernel moves it. The reference
 * is the rate of a copy, measured here too.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/size.h"
#include "bench/gpu_ops.h"
#include "bench/target.h"

enum { ROUNDS = 7, BATCH_MAX = 256, PATTERN = 1 << 16 };
static const double batch_seconds = 2e-3, round_seconds = 20e-3;

static const struct shape shapes[] = {
    { "SmolLM2-135M", 576, 1536, 9, 3, 64, 49152 },
    { "Llama-3.2-1B", 2048, 8192, 32, 8, 64, 128256 },
};

/* Key of a graph. */
struct key {
    const struct row *row;
    const struct shape *shape;
    size_t rows, count;
};

/* Launch `count` operations of one kind, from a graph if there is one; does not wait. */
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

/* Return the seconds of one operation: the median of some rounds. */
static double measure(struct bench *b, const struct row *row)
{
    double seconds[ROUNDS], one = 1;
    size_t count, times;

    for (int i = 0; i < 3; i++) /* the second call is recorded, the third replayed */
        one = batch_time(b, row, 1, 1);
    count = (size_t)fmin(BATCH_MAX, fmax(1, batch_seconds / one));
    for (int i = 0; i < 3; i++)
        one = batch_time(b, row, count, 1);
    times = (size_t)fmax(1, round_seconds / one);
    for (int i = 0; i < ROUNDS; i++)
        seconds[i] = batch_time(b, row, count, times) / (double)(count * times);
    qsort(seconds, ROUNDS, sizeof(*seconds), compare);
    return seconds[ROUNDS / 2];
}

/* A row of the table. */
struct result {
    const struct row *row;
    const struct shape *shape; /* NULL if it does not matter */
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

/* Normally distributed values in bf16; two of them form an ordinary fp32 value. */
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

/* Tokens distributed as in a text: the n-th is about 1/n as frequent as the first;
 * positions 0, 1, ... */
static void fill_tokens(struct bench *b)
{
    int32_t *tokens = calloc(b->rows, sizeof(*tokens));
    int32_t *positions = calloc(b->rows, sizeof(*positions));
    bool *seen = calloc(b->words, sizeof(*seen));

    if (!tokens || !positions || !seen)
        target_stop("out of memory");
    b->used = 0;
    for (size_t i = 0; i < b->rows; i++) {
        double position = random_uniform(1, RANDOM_ORDER, 0, i);

        tokens[i] = (int32_t)(pow((double)b->words, position) - 1);
        b->used += !seen[tokens[i]];
        seen[tokens[i]] = true;
        positions[i] = (int32_t)(i % POSITIONS);
    }
    upload(b, b->tokens, tokens, b->rows * sizeof(*tokens));
    upload(b, b->positions, positions, b->rows * sizeof(*positions));
    free(tokens);
    free(positions);
    free(seen);
}

/* Scale everything with the rows, so that a small machine can run it with few. */
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
        for (size_t i = 0; i < gpu_ops_count; i++) {
            const struct row *row = &gpu_ops[i];
            struct result *result = &results[count];

            if (row->once && s > 0)
                continue;
            *result = (struct result) { row, row->once ? NULL : b->shape, b->rows, 0,
                                        measure(b, row) };
            result->bytes = b->bytes;
            if (row->copy)
                b->rate = fmax(b->rate, result->bytes / result->seconds);
            count++;
            print_result(b, result, false);
        }
    }
    return count;
}

int main(int argc, char **argv)
{
    size_t sizes[] = { 8192, 16384 }, size_count = TS_COUNT(sizes), count = 0;
    struct bench b = { .device = target_find(argc > 1 ? argv[1] : NULL) };
    struct result *results;

    if (argc > 2) {
        sizes[0] = (size_t)atol(argv[2]);
        size_count = 1;
    }
    if (sizes[0] < 1 || b.device->kind != DEVICE_CUDA)
        target_stop("expected the ordinal of a GPU and at least 1 row");
    b.format = b.device->major < 8 ? FORMAT_FP16 : FORMAT_BF16;
    results = calloc(size_count * TS_COUNT(shapes) * gpu_ops_count, sizeof(*results));
    if (!results)
        target_stop("out of memory");
    b.be = target_open(b.device, 0);
    printf("%s, %s\n", b.be->ops->describe(b.be), format_info(b.format)->name);
    for (size_t i = 0; i < size_count; i++) {
        bench_size(&b, sizes[i]);
        count += bench_rows(&b, results + count);
        bench_clear(&b);
    }
    for (size_t i = 0; i < count; i++)
        print_result(&b, &results[i], true);
    free(results);
    backend_close(b.be);
    return 0;
}
