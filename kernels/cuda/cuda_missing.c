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
MISSING(launch_rmsnorm, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_rmsnorm *op)
MISSING(launch_rmsnorm_backward, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_rmsnorm_backward *op)
MISSING(launch_rope, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_rope *op)
MISSING(launch_attention, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_attention *op)
MISSING(launch_attention_backward, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_attention_backward *op)
MISSING(launch_attention_plain, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_attention *op)
MISSING(launch_attention_backward_plain, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_attention_backward *op)
MISSING(launch_swiglu, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_swiglu *op)
MISSING(launch_swiglu_backward, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_swiglu_backward *op)
MISSING(launch_add, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_add *op)
MISSING(launch_convert, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_convert *op)
MISSING(launch_zero, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_zero *op)
MISSING(launch_dropout, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_dropout *op)
MISSING(launch_square_sum, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_square_sum *op)
MISSING(launch_decide, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_decide *op)
MISSING(launch_adamw, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_adamw *op)
MISSING(launch_sgd, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_sgd *op)
MISSING(launch_classifier_order, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_classifier *op)
MISSING(launch_classifier_gather, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_classifier *op,
        __attribute__((unused)) size_t first, __attribute__((unused)) size_t count)
MISSING(launch_classifier_loss, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_classifier *op,
        __attribute__((unused)) size_t first, __attribute__((unused)) size_t count)
MISSING(launch_classifier_scatter, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct op_classifier *op,
        __attribute__((unused)) size_t first, __attribute__((unused)) size_t count)
MISSING(launch_quantize, __attribute__((unused)) place *to,
        __attribute__((unused)) const struct cuda_quantize *op)
