/*
 * kernels/cuda/cuda_launch.h - the launchers: the functions of the .cu files that C code
 * calls.
 *
 * A launcher reads the operands, chooses the kernel and its grid, enqueues it on the
 * stream and returns.  It allocates nothing, waits for nothing, and works while the
 * stream is being captured into a graph.  It returns the status of its launches, or
 * cudaErrorNotSupported if the device's architecture cannot run the kernel.  Shapes obey
 * the contract of kernels/ops.h; launchers do not check them again.
 */
#ifndef KERNELS_CUDA_CUDA_LAUNCH_H
#define KERNELS_CUDA_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#include "kernels/operations.h"
#include "kernels/ops.h"

/* Where to launch. */
struct cuda_launch {
    cudaStream_t stream;
    int capability; /* 75, 80, 90, ... */
    int multiprocessors;
    size_t shared_max; /* bytes of shared memory that a block may request */
    /* Device memory for data passed between two kernels of one launcher.  The next
     * launcher in the stream reuses it. */
    void *scratch;
    size_t scratch_bytes; /* CUDA_SCRATCH_BYTES */
};

#define CUDA_SCRATCH_BYTES ((size_t)64 << 20)

#ifdef __cplusplus
extern "C" {
#endif

/* The launcher of each operation that has exactly one (LAUNCH in kernels/operations.h).
 * launch_decode supports head sizes up to 256. */
#define CUDA_LAUNCHER_STEPS(name)
#define CUDA_LAUNCHER_LAUNCH(name) \
    cudaError_t launch_##name(const struct cuda_launch *to, const struct op_##name *op);
#define CUDA_LAUNCHER(name, tensors, cpu, cuda, ...) CUDA_LAUNCHER_##cuda(name)
OPERATIONS(CUDA_LAUNCHER)
#undef CUDA_LAUNCHER
#undef CUDA_LAUNCHER_LAUNCH
#undef CUDA_LAUNCHER_STEPS

/* kernel_image.cu: cudaSuccess if this program has code for the current device */
cudaError_t launch_kernel_image(void);

/*
 * sum_rows.cu: out (N, C) any format = x (N, C) + bias (1, C) fp32, for matmuls whose
 * library has no such epilogue.  x is fp32 or has the format of out; it may be out.
 */
cudaError_t launch_add_bias(const struct cuda_launch *to, struct tensor out,
                            struct tensor x, struct tensor bias);

/* thin.cu: a sum of many rows with a result of at most 64 columns, in fp32.
 * suits: return whether it can run this matmul. */
bool launch_thin_suits(const struct cuda_launch *to, const struct op_matmul *op);
cudaError_t launch_thin(const struct cuda_launch *to, const struct op_matmul *op);

/* attention.cu: tensor cores for 16-bit formats from capability 7.5, else the plain
 * kernels */
cudaError_t launch_attention(const struct cuda_launch *to, const struct op_attention *op);
cudaError_t launch_attention_backward(const struct cuda_launch *to,
                                      const struct op_attention_backward *op);
/* Return whether it is computed by the kernels for capability 9.0, which are as fast as
 * cuDNN's. */
bool launch_attention_on_warpgroups(const struct cuda_launch *to,
                                    const struct op_attention *op);
/* attention_plain.cu, attention_plain_backward.cu: any format, head size and stride */
cudaError_t launch_attention_plain(const struct cuda_launch *to,
                                   const struct op_attention *op);
cudaError_t launch_attention_backward_plain(const struct cuda_launch *to,
                                            const struct op_attention_backward *op);

/*
 * cudnn_sequences.cu: sequences of rows for cuDNN.  lengths (sequences): the rows of
 * each; starts[i] (sequences + 1) = offsets * strides[i]: the index of the first element
 * of each in a matrix whose rows are strides[i] apart; each index is below 2^31.  NULL:
 * no such matrix.
 */
enum { CUDA_SEQUENCES_STARTS = 9 };
struct cuda_sequences {
    const int32_t *offsets;
    int sequences;
    int32_t *lengths, *starts[CUDA_SEQUENCES_STARTS], strides[CUDA_SEQUENCES_STARTS];
};
cudaError_t launch_sequences(const struct cuda_launch *to,
                             const struct cuda_sequences *runs);
/* out (C, N) = x (N, C) transposed, fp32 */
cudaError_t launch_transpose(const struct cuda_launch *to, struct tensor out,
                             struct tensor x);

/*
 * loss.cu: the parts of op_classifier that are not matmuls.
 * order: write the positions of the rows with a target, in order, into op->rows, followed
 * by -1.  The losses (if any) and dx of the other rows become 0.
 */
cudaError_t launch_classifier_order(const struct cuda_launch *to,
                                    const struct op_classifier *op);
/* gathered (count, C) = rows first .. of op->rows of x; a row -1 becomes zeros */
cudaError_t launch_classifier_gather(const struct cuda_launch *to,
                                     const struct op_classifier *op, size_t first,
                                     size_t count);
/* The losses of `count` rows of op->logits, and dlogits if op->dx or op->dw is
 * present. */
cudaError_t launch_classifier_loss(const struct cuda_launch *to,
                                   const struct op_classifier *op, size_t first,
                                   size_t count);
/* eaft.cu: losses = the factors of TOKEN_LOSS_EAFT of the same rows */
cudaError_t launch_eaft_factors(const struct cuda_launch *to,
                                const struct op_classifier *op, size_t first,
                                size_t count);
/* dx = dgathered, each row at its position */
cudaError_t launch_classifier_scatter(const struct cuda_launch *to,
                                      const struct op_classifier *op, size_t first,
                                      size_t count);

/* distill.cu: clear sets kd_losses of rows without a target to 0; loss computes both
 * losses of `count` rows of both logits, and dlogits if there is a dx or dw. */
cudaError_t launch_distill_clear(const struct cuda_launch *to,
                                 const struct op_distill *op);
cudaError_t launch_distill_loss(const struct cuda_launch *to, const struct op_distill *op,
                                size_t first, size_t count);

/* topk.cu: `count` rows of op->logits, which belong to rows first .. of op->rows */
cudaError_t launch_topk_rows(const struct cuda_launch *to, const struct op_topk *op,
                             size_t first, size_t count);

/*
 * fp8.cu: out (rows, cols) and turned (cols, rows), one of them or both, contiguous bytes
 * = factor * x in an 8-bit format; factor = largest value of the format / largest of |x|
 * (1 if that is inf), *scale = 1 / factor.  Values that are not finite become NaN.
 */
struct cuda_quantize {
    struct tensor x;
    void *out, *turned;   /* NULL: not this one */
    const float *largest; /* of |x|, NaN apart; NULL: not known */
    float *scale;
    enum format format; /* FORMAT_FP8_E4M3, FORMAT_FP8_E5M2 */
};
cudaError_t launch_quantize(const struct cuda_launch *to, const struct cuda_quantize *op);

#ifdef __cplusplus
}
#endif

#endif
