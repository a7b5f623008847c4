/*
 * kernels/cuda/cuda_missing.c - launchers that stand in for kernels that are being
 * written: a launcher of the same name in a .cu file takes the place of the one here.  As
 * long as this file is here no GPU is runnable.
 */
#include "config.h"

#include "kernels/cuda/cuda_launch.h"

#define MISSING(name, ...)                              \
    __attribute__((weak)) cudaError_t name(__VA_ARGS__) \
    {                                                   \
        return cudaErrorNotYetImplemented;              \
    }

typedef const struct cuda_launch place;

MISSING(launch_sum_rows, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_sum_rows *op)
MISSING(launch_add_bias, __attribute__((unused)) place *to,
        __attribute__((unused)) struct tensor out,
        __attribute__((unused)) struct tensor bias)
MISSING(launch_embedding, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_embedding *op)
MISSING(launch_embedding_backward, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_embedding_backward *op)
MISSING(launch_rope, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_rope *op)
MISSING(launch_swiglu, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_swiglu *op)
MISSING(launch_swiglu_backward, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_swiglu_backward *op)
