/* bench/rate.c - times matmuls of any shape. */
#include "config.h"

#include "bench/rate.h"

#include "base/clock.h"
#include "bench/target.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

const char *const rate_passes[3] = { "forward", "dx", "dw" };

struct backend *rate_open(int threads, bool onednn)
{
    struct backend *be;

    setenv("TRAINSPOOL_NO_ONEDNN", onednn ? "0" : "1", 1);
    be = target_open(target_find("cpu"), threads);
    unsetenv("TRAINSPOOL_NO_ONEDNN");
    return be;
}

/* Pseudorandom values between -1 and 1. */
static struct tensor filled(struct backend *be, enum format format, size_t rows,
                            size_t cols)
{
    struct error err = { 0 };
    struct tensor tensor = tensor_of(NULL, format, rows, cols);
    size_t bytes = tensor_bytes(tensor) / rows;
    char *host = malloc(bytes * rows);
    float *row = malloc(cols * sizeof(*row));
    uint32_t state = 12345;

    tensor.data = be->ops->alloc(be, bytes * rows, &err);
    if (!tensor.data || !row || !host)
        target_stop(err.code ? err.text : "out of memory");
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < cols; j++) {
            state = state * 1664525 + 1013904223;
            row[j] = (float)(int32_t)state * 0x1p-31f;
        }
        format_convert(host + i * bytes, format, row, FORMAT_FP32, cols);
    }
    be->ops->upload(be, tensor.data, host, bytes * rows);
    target_wait(be);
    free(host);
    free(row);
    return tensor;
}

static double seconds_now(bool processor)
{
    struct timespec now;

    if (!processor)
        return clock_seconds();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct op_matmul matmul_of(struct backend *be, const struct rate_shape *shape,
                                  enum format format)
{
    struct tensor x = filled(be, format, shape->rows, shape->in);
    struct tensor w = filled(be, format, shape->out, shape->in);
    struct tensor y = filled(be, format, shape->rows, shape->out);
    struct op_matmul forward = { .out = y, .a = x, .b = w, .trans_b = true, .alpha = 1 };
    struct op_matmul dx = { .out = x, .a = y, .b = w, .alpha = 1 };
    struct op_matmul dw = { .a = y, .b = x, .trans_a = true, .alpha = 1, .beta = 1 };

    if (shape->pass == 0)
        return forward;
    if (shape->pass == 1)
        return dx;
    be->ops->free(be, w.data);
    dw.out = filled(be, FORMAT_FP32, shape->out, shape->in);
    return dw;
}

/* Waiting for a GPU has a latency, so wait once per this many matmuls at most. */
enum { BATCH_MAX = 1000 };

double rate_measure(struct backend *be, const struct rate_shape *shape,
                    enum format format, int rounds, double seconds, bool processor)
{
    struct op_matmul op = matmul_of(be, shape, format);
    double flops = 2.0 * (double)shape->rows * (double)shape->in * (double)shape->out;
    double best = 0, one;
    int together;

    be->ops->matmul(be, &op);
    target_wait(be);
    one = seconds_now(processor);
    be->ops->matmul(be, &op);
    target_wait(be);
    one = seconds_now(processor) - one;
    together = one < seconds ? (int)fmin(seconds / one, BATCH_MAX) : 1;
    for (int round = 0; round < rounds; round++) {
        double start = seconds_now(processor), taken;
        int count = 0;

        do {
            for (int i = 0; i < together; i++)
                be->ops->matmul(be, &op);
            target_wait(be);
            count += together;
            taken = seconds_now(processor) - start;
        } while (taken < seconds);
        if (count * flops / taken > best)
            best = count * flops / taken;
    }
    be->ops->free(be, op.out.data);
    be->ops->free(be, op.a.data);
    be->ops->free(be, op.b.data);
    return best / 1e9;
}

double rate_reference(struct backend *be, enum format format, double seconds)
{
    static const struct rate_shape cpu = { "", 1536, 1024, 1152, 0 };
    static const struct rate_shape gpu = { "", 8192, 8192, 8192, 0 };

    return rate_measure(be, be->ops->kind == DEVICE_CUDA ? &gpu : &cpu, format, 10,
                        seconds / 10, false);
}
