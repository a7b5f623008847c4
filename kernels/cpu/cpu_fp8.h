/* kernels/cpu/cpu_fp8.h - rounds matrices to 8 bits, for matmuls with fp8 operands. */
#ifndef KERNELS_CPU_CPU_FP8_H
#define KERNELS_CPU_CPU_FP8_H

#include "kernels/cpu/cpu_pool.h"
#include "kernels/tensor.h"

/* Storage that grows on demand; {0} is empty. */
struct fp8_buffer {
    void *data;
    float *largest; /* one for each row */
    size_t bytes, rows;
};

void fp8_room_clear(struct fp8_buffer *room);

/*
 * *out = factor * x rounded to an 8-bit format, stored in `room` in x's format, which
 * represents it exactly; factor = the largest value of the format / the largest |x| (1 if
 * that is inf), *scale = 1 / factor. Values that are not finite become NaN. Returns false
 * if memory runs out.
 */
bool fp8_round(struct pool *pool, struct tensor x, enum format format,
               struct fp8_buffer *room, struct tensor *out, float *scale);

#endif
