/*
 * kernels/cuda/cuda_launch.h - the launchers: what the C side calls of the .cu files, one
 * for each operation of kernels/ops.h that has a kernel of ours.
 *
 * A launcher looks at the operands, chooses the kernel and its grid, puts it into the
 * stream and returns; it allocates nothing, waits for nothing, and works while the stream
 * is being captured into a graph.  What it returns is the status of its launches;
 * cudaErrorNotSupported where the card's architecture cannot do it.  Shapes are those of
 * the contract: nothing is checked again.
 */
#ifndef KERNELS_CUDA_CUDA_LAUNCH_H
#define KERNELS_CUDA_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#include "kernels/ops.h"

/* Where to launch, and on what. */
struct cuda_launch {
    cudaStream_t stream;
    int capability; /* 75, 80, 90, ... */
    int multiprocessors;
    size_t shared_max; /* bytes of shared memory that a block may ask for */
    /* Memory of the device for what lies between two kernels of one launcher: the next
     * launcher in the stream uses it again. */
    void *scratch;
    size_t scratch_bytes; /* CUDA_SCRATCH_BYTES */
};

#define CUDA_SCRATCH_BYTES ((size_t)64 << 20)

#ifdef __cplusplus
extern "C" {
#endif

/* has_code.cu: cudaSuccess if this program has code for the current device */
cudaError_t launch_has_code(void);

/* sum_rows.cu */
cudaError_t launch_sum_rows(const struct cuda_launch *to, const struct op_sum_rows *op);
/* out (N, C) any format = x (N, C) fp32 or the format of out, maybe out itself, + bias
 * (1, C) fp32: for products whose library has no such epilogue */
cudaError_t launch_add_bias(const struct cuda_launch *to, struct tensor out,
                            struct tensor x, struct tensor bias);

/* embedding.cu */
cudaError_t launch_embedding(const struct cuda_launch *to, const struct op_embedding *op);
cudaError_t launch_embedding_backward(const struct cuda_launch *to,
                                      const struct op_embedding_backward *op);

/* norm.cu */
cudaError_t launch_rmsnorm(const struct cuda_launch *to, const struct op_rmsnorm *op);
cudaError_t launch_rmsnorm_backward(const struct cuda_launch *to,
                                    const struct op_rmsnorm_backward *op);

/* layernorm.cu */
cudaError_t launch_layernorm(const struct cuda_launch *to, const struct op_layernorm *op);
cudaError_t launch_layernorm_backward(const struct cuda_launch *to,
                                      const struct op_layernorm_backward *op);

/* headnorm.cu */
cudaError_t launch_headnorm(const struct cuda_launch *to, const struct op_headnorm *op);
cudaError_t launch_headnorm_backward(const struct cuda_launch *to,
                                     const struct op_headnorm_backward *op);

/* rotary.cu */
cudaError_t launch_rope(const struct cuda_launch *to, const struct op_rope *op);

/* attention.cu chooses: tensor cores for 16-bit formats from 7.5 on, else the plain
 * kernels */
cudaError_t launch_attention(const struct cuda_launch *to, const struct op_attention *op);
cudaError_t launch_attention_backward(const struct cuda_launch *to,
                                      const struct op_attention_backward *op);
/*
 * runs.cu: runs of rows for cuDNN.  lengths (sequences): rows of each; starts[i]
 * (sequences + 1) = offsets * strides[i]: the number that each begins with in a matrix
 * whose rows lie strides[i] apart, each below 2^31.
 */
enum { CUDA_RUNS_STARTS = 5 };
struct cuda_runs {
    const int32_t *offsets;
    int sequences;
    int32_t *lengths, *starts[CUDA_RUNS_STARTS], strides[CUDA_RUNS_STARTS];
};
cudaError_t launch_runs(const struct cuda_launch *to, const struct cuda_runs *runs);
/* out (C, N) = x (N, C) transposed, fp32 */
cudaError_t launch_transpose(const struct cuda_launch *to, struct tensor out,
                             struct tensor x);
/* attention_plain.cu, attention_plain_backward.cu: any format, head size and stride */
cudaError_t launch_attention_plain(const struct cuda_launch *to,
                                   const struct op_attention *op);
cudaError_t launch_attention_backward_plain(const struct cuda_launch *to,
                                            const struct op_attention_backward *op);

/* decode.cu: heads of up to 256 */
cudaError_t launch_decode(const struct cuda_launch *to, const struct op_decode *op);

/* activation.cu */
cudaError_t launch_activation(const struct cuda_launch *to,
                              const struct op_activation *op);
cudaError_t launch_activation_backward(const struct cuda_launch *to,
                                       const struct op_activation_backward *op);

/* swiglu.cu */
cudaError_t launch_swiglu(const struct cuda_launch *to, const struct op_swiglu *op);
cudaError_t launch_swiglu_backward(const struct cuda_launch *to,
                                   const struct op_swiglu_backward *op);

/* elementwise.cu */
cudaError_t launch_add(const struct cuda_launch *to, const struct op_add *op);
cudaError_t launch_convert(const struct cuda_launch *to, const struct op_convert *op);
cudaError_t launch_zero(const struct cuda_launch *to, const struct op_zero *op);
cudaError_t launch_dropout(const struct cuda_launch *to, const struct op_dropout *op);

/* dequantize.cu */
cudaError_t launch_dequantize(const struct cuda_launch *to,
                              const struct op_dequantize *op);

/* decide.cu */
cudaError_t launch_square_sum(const struct cuda_launch *to,
                              const struct op_square_sum *op);
cudaError_t launch_decide(const struct cuda_launch *to, const struct op_decide *op);

/* adamw.cu */
cudaError_t launch_adamw(const struct cuda_launch *to, const struct op_adamw *op);
cudaError_t launch_sgd(const struct cuda_launch *to, const struct op_sgd *op);

/*
 * loss.cu: the parts of op_classifier that are no product.
 * order: places of the rows with a target, in order, into op->rows, -1 behind them; the
 * losses of the others and their dx are 0, where there are losses.
 */
cudaError_t launch_classifier_order(const struct cuda_launch *to,
                                    const struct op_classifier *op);
/* gathered (count, C) = rows first .. of op->rows of x; a row -1 becomes zeros */
cudaError_t launch_classifier_gather(const struct cuda_launch *to,
                                     const struct op_classifier *op, size_t first,
                                     size_t count);
/* Of `count` rows of op->logits: the losses, and dlogits where op->dx or op->dw is
 * there. */
cudaError_t launch_classifier_loss(const struct cuda_launch *to,
                                   const struct op_classifier *op, size_t first,
                                   size_t count);
/* dx = dgathered, each row in its place */
cudaError_t launch_classifier_scatter(const struct cuda_launch *to,
                                      const struct op_classifier *op, size_t first,
                                      size_t count);

/* distill.cu: kd_losses of rows without a target are 0; of `count` rows of both logits
 * the two losses, and dlogits where there is a dx or dw */
cudaError_t launch_distill_clear(const struct cuda_launch *to,
                                 const struct op_distill *op);
cudaError_t launch_distill_loss(const struct cuda_launch *to, const struct op_distill *op,
                                size_t first, size_t count);

/* topk.cu: of `count` rows of op->logits, those that belong to rows first .. of
 * op->rows */
cudaError_t launch_topk_rows(const struct cuda_launch *to, const struct op_topk *op,
                             size_t first, size_t count);

/* preference.cu */
cudaError_t launch_preference(const struct cuda_launch *to,
                              const struct op_preference *op);

/*
 * fp8.cu: out (rows, cols), or (cols, rows) if `transposed`, contiguous bytes = factor *
 * x in an 8-bit format; factor = largest of the format / largest of |x| (1 where that is
 * inf), *scale = 1 / factor.  What is not finite becomes NaN.
 */
struct cuda_quantize {
    struct tensor x;
    void *out;
    float *scale;
    enum format format; /* FORMAT_FP8_E4M3, FORMAT_FP8_E5M2 */
    bool transposed;
};
cudaError_t launch_quantize(const struct cuda_launch *to, const struct cuda_quantize *op);

#ifdef __cplusplus
}
#endif

#endif
