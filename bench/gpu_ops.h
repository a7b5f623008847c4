/*
 * bench/gpu_ops.h - every operation but products, as a training puts it: with operands
 * that come one after another out of more memory than a cache holds.
 */
#ifndef BENCH_GPU_OPS_H
#define BENCH_GPU_OPS_H

#include "kernels/backend.h"

struct shape {
    const char *name;
    size_t width, inner, heads, kv_heads, head_size, words;
};

enum { POSITIONS = 2048 }; /* that a sequence may have */

struct bench {
    struct backend *be;
    const struct device *device;
    const struct shape *shape;
    enum format format;
    size_t rows, words, used; /* used: how many of the words are in the rows' text */
    size_t weights, copied;   /* numbers; bytes of the copy that sets the rate */
    char *ring;               /* operands come from here, one after another */
    size_t ring_bytes, at;
    int32_t *tokens, *positions;
    double bytes; /* that the last operation had to move */
    double rate;  /* bytes a second of a copy */
};

/* What is measured.  `once`: the model's widths do not matter.  `bare`: no operation of
 * the backend, so that no recording takes it.  `copy`: its rate is what others are held
 * against. */
struct row {
    const char *name;
    void (*put)(struct bench *b); /* one of it, without waiting; adds to b->bytes */
    bool once, bare, copy;
};

extern const struct row gpu_ops[];
extern const size_t gpu_ops_count;

#endif
