/*
 * kernels/cuda/schedule_free.cu - schedule-free AdamW, and the exchange of weights with
 * their average.
 *
 * Bytes moved per weight with a 16-bit copy: 20 read and 18 written; exchange 8 and 8.
 */
#include "kernels/cuda/optimizer_step.cuh"

struct schedule_free {
    weights<float> target;
    const float *grad;
    float *z, *x, *v;
    const struct step_scalars *numbers;
    double share;

    template <int n> __device__ void update(size_t i, const rates &s) const
    {
        double part = numbers ? numbers->average_share : share;
        float take = (float)part, rest = (float)(1 - part);
        float y[n], g[n], z1[n], x1[n], v1[n];

        load<n>(y, target.w + i);
        load<n>(g, grad + i);
        load<n>(z1, z + i);
        load<n>(x1, x + i);
        load<n>(v1, v + i);
#pragma unroll
        for (int j = 0; j < n; j++) {
            float scaled = g[j] * s.grad_scale;

            v1[j] = v1[j] * s.beta2 + scaled * scaled * s.rest2;
            z1[j] -= (scaled / (sqrtf(v1[j]) * s.root + s.eps) + y[j] * s.decay) * s.lr;
            x1[j] = x1[j] * rest + z1[j] * take;
            y[j] = x1[j] * s.beta1 + z1[j] * s.rest1;
        }
        store<n>(v + i, v1);
        store<n>(z + i, z1);
        store<n>(x + i, x1);
        target.put<n>(i, y, s.step);
    }
};

extern "C" cudaError_t launch_schedule_free(const struct cuda_launch *to,
                                            const struct op_schedule_free *op)
{
    const struct tensor tensors[] = { op->w, op->grad, op->z, op->x, op->v, op->copy };
    const settings s = { op->lr,    op->beta1,      op->beta2, op->eps,
                         op->decay, op->grad_scale, op->step,  op->numbers };
    const schedule_free step = { weights_of<float>(op->w, op->copy, { false, 0, 0 }),
                                 (const float *)op->grad.data,
                                 (float *)op->z.data,
                                 (float *)op->x.data,
                                 (float *)op->v.data,
                                 op->numbers,
                                 op->share };

    if (op->w.format != FORMAT_FP32 || op->grad.format != FORMAT_FP32)
        return cudaErrorNotSupported;
    return launch_step(to, step, s, op->w.rows * op->w.cols, packs_are_even(tensors, 6));
}

static __global__ void swap_elements(float *a, float *b, size_t count)
{
    for (size_t i = (size_t)blockIdx.x * STEP_THREADS + threadIdx.x; i < count;
         i += (size_t)gridDim.x * STEP_THREADS) {
        float kept = a[i];

        a[i] = b[i];
        b[i] = kept;
    }
}

extern "C" cudaError_t launch_exchange(const struct cuda_launch *to,
                                       const struct op_exchange *op)
{
    size_t count = op->a.rows * op->a.cols;

    if (op->a.format != FORMAT_FP32 || op->b.format != FORMAT_FP32)
        return cudaErrorNotSupported;
    if (count == 0)
        return cudaSuccess;
    return launch(to->stream, swap_elements,
                  blocks_for(to, (count + STEP_THREADS - 1) / STEP_THREADS, STEP_BLOCKS),
                  dim3(STEP_THREADS), 0, (float *)op->a.data, (float *)op->b.data, count);
}
