/*
 * kernels/cuda/pair_scale.cu - learned factors of the weights of experts.
 *
 * Forward, a thread has a pair and moves 12 bytes; backward, a block has an expert, so that
 * its sum has one order.  65536 pairs of 128 experts: 0.8 MB and 1.3 MB, less than the
 * time of a launch.
 */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/elementwise_kernel.cuh"

enum { PAIR_SCALE_THREADS = 256 };

static __global__ void __launch_bounds__(PAIR_SCALE_THREADS)
    pair_scale_kernel(const view<float> out, const view<const float> weights,
                      const float *scales, const int32_t *experts, size_t pairs,
                      unsigned chosen)
{
    size_t i = (size_t)blockIdx.x * PAIR_SCALE_THREADS + threadIdx.x;

    if (i < pairs)
        *out.at(i / chosen, i % chosen) =
            *weights.at(i / chosen, i % chosen) * scales[experts[i]];
}

cudaError_t launch_pair_scale(const struct cuda_launch *to,
                              const struct op_pair_scale *op)
{
    size_t pairs = op->out.rows * op->out.cols;

    return launch(to->stream, pair_scale_kernel,
                  dim3((unsigned)((pairs + PAIR_SCALE_THREADS - 1) / PAIR_SCALE_THREADS)),
                  dim3(PAIR_SCALE_THREADS), 0, view_of<float>(op->out),
                  view_of<const float>(op->weights), (const float *)op->scales.data,
                  op->experts, pairs, (unsigned)op->out.cols);
}

static __global__ void __launch_bounds__(PAIR_SCALE_THREADS)
    pair_scale_backward_kernel(const view<float> dweights, float *dscales,
                               const view<const float> weights, const float *scales,
                               const int32_t *order, const int32_t *starts,
                               unsigned chosen)
{
    double *room = (double *)shared_memory(); /* [32] */
    unsigned expert = blockIdx.x;
    float scale = scales[expert];
    int32_t end = starts[expert + 1];
    double sum = 0;

    for (int32_t slot = starts[expert] + (int32_t)threadIdx.x; slot < end;
         slot += PAIR_SCALE_THREADS) {
        unsigned row = (unsigned)order[slot] / chosen;
        unsigned choice = (unsigned)order[slot] % chosen;
        float d = *dweights.at(row, choice);

        sum += (double)d * (double)*weights.at(row, choice);
        *dweights.at(row, choice) = d * scale;
    }
    if (!dscales)
        return;
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        dscales[expert] += (float)sum;
}

cudaError_t launch_pair_scale_backward(const struct cuda_launch *to,
                                       const struct op_pair_scale_backward *op)
{
    return launch(to->stream, pair_scale_backward_kernel, dim3((unsigned)op->scales.cols),
                  dim3(PAIR_SCALE_THREADS), 32 * sizeof(double),
                  view_of<float>(op->dweights), (float *)op->dscales.data,
                  view_of<const float>(op->weights), (const float *)op->scales.data,
                  op->order, op->starts, (unsigned)op->dweights.cols);
}
