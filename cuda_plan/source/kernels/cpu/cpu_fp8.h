/* kernels/cpu/cpu_fp8.h - a matrix rounded to 8 bits, for products that ask for it. */
#ifndef KERNELS_CPU_CPU_FP8_H
#define KERNELS_CPU_CPU_FP8_H

#include "kernels/cpu/cpu_pool.h"
#include "kernels/tensor.h"

/* Memory that grows with what is put there; {0} is empty. */
struct fp8_room {
    void *data;
    float *largest; /* of each row */
    size_t bytes, rows;
};

void fp8_room_clear(struct fp8_room *room);

/*
 * *out = factor * x rounded to an 8-bit format, in the room and in x's own format, which
 * holds it exactly; factor = the largest number of the format / the largest |x| (1 where
 * that is inf), *scale = 1 / factor.  What is not finite becomes NaN.  false: out of
 * memory.
 */
bool fp8_round(struct pool *pool, struct tensor x, enum format format,
               struct fp8_room *room, struct tensor *out, float *scale);

#endif
