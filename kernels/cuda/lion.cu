/*
 * kernels/cuda/lion.cu - Lion: the sign of a mean of gradients.
 *
 * Bytes moved per weight, all in fp32 with a 16-bit copy: 12 read and 10 written.
 */
#include "kernels/cuda/optimizer_step.cuh"

template <typename W, typename M> struct lion {
    weights<W> target;
    const float *grad;
    M *m;

    template <int n> __device__ void update(size_t i, const rates &s) const
    {
        float w[n], g[n], m1[n];

        load<n>(w, target.w + i);
        load<n>(g, grad + i);
        load<n>(m1, m + i);
#pragma unroll
        for (int j = 0; j < n; j++) {
            g[j] *= s.grad_scale;
            w[j] = w[j] * s.keep - s.lr * sign_of(m1[j] * s.beta1 + g[j] * s.rest1);
            m1[j] = m1[j] * s.beta2 + g[j] * s.rest2;
        }
        store<n>(m + i, m1);
        target.template put<n>(i, w, s.step);
    }
};

template <typename W, typename M>
static cudaError_t launch_lion_of(const struct cuda_launch *to, const struct op_lion *op)
{
    const struct tensor tensors[] = { op->w, op->grad, op->m, op->copy };
    const settings s = { op->lr,    op->beta1,      op->beta2, 0,
                         op->decay, op->grad_scale, op->step,  op->numbers };
    const lion<W, M> lion = { weights_of<W>(op->w, op->copy,
                                            { op->stochastic, op->seed, op->first }),
                              (const float *)op->grad.data, (M *)op->m.data };

    return launch_step(to, lion, s, op->w.rows * op->w.cols, packs_are_even(tensors, 4));
}

/* The gradient is fp32, the moment is fp32 or has the format of w. */
extern "C" cudaError_t launch_lion(const struct cuda_launch *to, const struct op_lion *op)
{
    if (op->grad.format != FORMAT_FP32)
        return cudaErrorNotSupported;
    if (op->m.format == FORMAT_FP32)
        return BY_FORMAT(op->w.format, W, launch_lion_of<W, float>(to, op));
    if (op->m.format != op->w.format)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->w.format, W, launch_lion_of<W, W>(to, op));
}
