/*
 * bench/gpu_ops.h - every operation except matmuls, as training calls it: with
 * consecutive operands from more memory than a cache holds.
 */
#ifndef BENCH_GPU_OPS_H
#define BENCH_GPU_OPS_H

#include "kernels/backend.h"

struct shape {
    const char *name;
    size_t width, inner, heads, kv_heads, head_size, words;
};

enum { POSITIONS = 2048 }; /* of the longest sequence */

struct bench {
    struct backend *be;
    const struct device *device;
    const struct shape *shape;
    enum format format;
    size_t rows, words, used; /* used: number of different tokens in the rows' text */
    size_t weights, copied;   /* elements; bytes of the reference copy */
    char *ring;               /* operands come from here, one after another */
    size_t ring_bytes, at;
    int32_t *tokens, *positions;
    double bytes; /* moved by the last operation */
    double rate;  /* bytes per second of a copy */
};

/* A measured operation. `once`: the widths of the model do not matter. `bare`: not an
 * operation of the backend, so no graph records it. `copy`: its rate is the reference for
 * the others. */
struct row {
    const char *name;
    void (*put)(struct bench *b); /* launch it once without waiting; adds to b->bytes */
    bool once, bare, copy;
};

extern const struct row gpu_ops[];
extern const size_t gpu_ops_count;

#endif
