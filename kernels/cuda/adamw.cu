/*
 * kernels/cuda/adamw.cu - the optimizers: one pass over each weight with its gradient and
 * moments.
 *
 * Bytes moved per weight, all in fp32 with a 16-bit copy: adamw 16 read and 14 written;
 * sgd 8 and 6. All in 16 bits except the gradient: adamw 10 and 6, sgd 6 and 2. Memory is
 * the limit: a billion weights in fp32 take 7.5 ms at 4.0 TB/s. adamw is about 30
 * instructions per weight, 25 more with stochastic rounding.
 */
#include "kernels/cuda/optimizer_step.cuh"

template <typename W, typename G, typename M> struct adamw {
    weights<W> target;
    const G *grad;
    M *m, *v;

    template <int n> __device__ void update(size_t i, const rates &s) const
    {
        float w[n], g[n], m1[n], m2[n];

        load<n>(w, target.w + i);
        load<n>(g, grad + i);
        load<n>(m1, m + i);
        load<n>(m2, v + i);
#pragma unroll
        for (int j = 0; j < n; j++) {
            g[j] *= s.grad_scale;
            m1[j] = m1[j] * s.beta1 + g[j] * s.rest1;
            m2[j] = m2[j] * s.beta2 + g[j] * g[j] * s.rest2;
            w[j] = w[j] * s.keep - s.rate * m1[j] / (sqrtf(m2[j]) * s.root + s.eps);
        }
        store<n>(m + i, m1);
        store<n>(v + i, m2);
        target.template put<n>(i, w, s.step);
    }
};

template <typename W, typename G> struct sgd {
    weights<W> target;
    const G *grad;

    template <int n> __device__ void update(size_t i, const rates &s) const
    {
        float w[n], g[n];

        load<n>(w, target.w + i);
        load<n>(g, grad + i);
#pragma unroll
        for (int j = 0; j < n; j++)
            w[j] -= s.lr * (g[j] * s.grad_scale + s.decay * w[j]);
        target.template put<n>(i, w, s.step);
    }
};

template <typename W, typename G, typename M>
static cudaError_t launch_adamw_of(const struct cuda_launch *to,
                                   const struct op_adamw *op)
{
    const struct tensor tensors[] = { op->w, op->grad, op->m, op->v, op->copy };
    const settings s = { op->lr,          op->beta1,      op->beta2, op->eps,
                         op->decay,       op->grad_scale, op->step,  op->numbers,
                         op->correct_eps, op->decay_last };
    const adamw<W, G, M> adamw = {
        weights_of<W>(op->w, op->copy, { op->stochastic, op->seed, op->first }),
        (const G *)op->grad.data, (M *)op->m.data, (M *)op->v.data
    };

    return launch_step(to, adamw, s, op->w.rows * op->w.cols, packs_are_even(tensors, 5));
}

template <typename W, typename G>
static cudaError_t launch_sgd_of(const struct cuda_launch *to, const struct op_sgd *op)
{
    const struct tensor tensors[] = { op->w, op->grad, op->copy };
    const settings s = {
        op->lr, 0, 0, 0, op->decay, op->grad_scale, op->step, op->numbers
    };
    const sgd<W, G> sgd = { weights_of<W>(op->w, op->copy,
                                          { op->stochastic, op->seed, op->first }),
                            (const G *)op->grad.data };

    return launch_step(to, sgd, s, op->w.rows * op->w.cols, packs_are_even(tensors, 3));
}

/* The gradient is fp32 or has the format of w, the moments are fp32 or have the format of
 * w. */
extern "C" cudaError_t launch_adamw(const struct cuda_launch *to,
                                    const struct op_adamw *op)
{
    if (op->v.format != op->m.format)
        return cudaErrorNotSupported;
    if (op->m.format == FORMAT_FP32 && op->grad.format == FORMAT_FP32)
        return BY_FORMAT(op->w.format, W, launch_adamw_of<W, float, float>(to, op));
    if (op->m.format != op->w.format)
        return cudaErrorNotSupported;
    if (op->grad.format == FORMAT_FP32)
        return BY_FORMAT(op->w.format, W, launch_adamw_of<W, float, W>(to, op));
    if (op->grad.format != op->w.format)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->w.format, W, launch_adamw_of<W, W, W>(to, op));
}

extern "C" cudaError_t launch_sgd(const struct cuda_launch *to, const struct op_sgd *op)
{
    if (op->grad.format == FORMAT_FP32)
        return BY_FORMAT(op->w.format, W, launch_sgd_of<W, float>(to, op));
    if (op->grad.format != op->w.format)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->w.format, W, launch_sgd_of<W, W>(to, op));
}
