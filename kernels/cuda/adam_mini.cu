/*
 * kernels/cuda/adam_mini.cu - Adam-mini: the mean square of the gradient of each block,
 * then AdamW's update.
 *
 * Bytes moved per weight, all in fp32 with a 16-bit copy: 16 read and 10 written.
 */
#include "kernels/cuda/optimizer_step.cuh"

enum { SUM_THREADS = 256, SUM_BLOCKS = 8 };

static __global__ void find_means(float *v, const float *grad, size_t block,
                                  size_t blocks, const settings s)
{
    double *room = (double *)shared_memory();
    const struct step_scalars *numbers = s.numbers;
    float scale = (float)(s.grad_scale * (numbers ? numbers->factor : 1));
    bool made = !numbers || numbers->finite;

    for (size_t b = blockIdx.x; made && b < blocks; b += gridDim.x) {
        double sum = 0;

        for (size_t i = threadIdx.x; i < block; i += SUM_THREADS) {
            float g = grad[b * block + i] * scale;

            sum += (double)(g * g);
        }
        sum = block_sum(sum, room);
        if (threadIdx.x == 0)
            v[b] = v[b] * (float)s.beta2 +
                   (float)(sum / (double)block) * (float)(1 - s.beta2);
    }
}

template <typename W, typename M> struct adam_mini {
    weights<W> target;
    const float *grad, *v;
    M *m;
    size_t block;

    template <int n> __device__ void update(size_t i, const rates &s) const
    {
        float w[n], g[n], m1[n];

        load<n>(w, target.w + i);
        load<n>(g, grad + i);
        load<n>(m1, m + i);
#pragma unroll
        for (int j = 0; j < n; j++) {
            float rate = s.rate / (sqrtf(v[(i + j) / block]) * s.root + s.eps);

            m1[j] = m1[j] * s.beta1 + g[j] * s.grad_scale * s.rest1;
            w[j] = w[j] * s.keep - m1[j] * rate;
        }
        store<n>(m + i, m1);
        target.template put<n>(i, w, s.step);
    }
};

template <typename W, typename M>
static cudaError_t launch_adam_mini_of(const struct cuda_launch *to,
                                       const struct op_adam_mini *op)
{
    const struct tensor tensors[] = { op->w, op->grad, op->m, op->copy };
    const settings s = { op->lr,    op->beta1,      op->beta2, op->eps,
                         op->decay, op->grad_scale, op->step,  op->numbers };
    const adam_mini<W, M> mini = {
        weights_of<W>(op->w, op->copy, { op->stochastic, op->seed, op->first }),
        (const float *)op->grad.data, (const float *)op->v.data, (M *)op->m.data,
        op->block
    };
    size_t count = op->w.rows * op->w.cols, blocks = count / op->block;
    cudaError_t status;

    if (count == 0)
        return cudaSuccess;
    status = launch(to->stream, find_means, blocks_for(to, blocks, SUM_BLOCKS),
                    dim3(SUM_THREADS), WARP * sizeof(double), (float *)op->v.data,
                    (const float *)op->grad.data, op->block, blocks, s);
    if (status != cudaSuccess)
        return status;
    return launch_step(to, mini, s, count, packs_are_even(tensors, 4));
}

/* The gradient is fp32, m is fp32 or has the format of w. */
extern "C" cudaError_t launch_adam_mini(const struct cuda_launch *to,
                                        const struct op_adam_mini *op)
{
    if (op->grad.format != FORMAT_FP32)
        return cudaErrorNotSupported;
    if (op->m.format == FORMAT_FP32)
        return BY_FORMAT(op->w.format, W, launch_adam_mini_of<W, float>(to, op));
    if (op->m.format != op->w.format)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->w.format, W, launch_adam_mini_of<W, W>(to, op));
}
