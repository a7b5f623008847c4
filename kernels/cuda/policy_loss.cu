/*
 * kernels/cuda/policy_loss.cu - computes the loss of each sampled answer, and its gradient with
 * respect to the loss of each token.
 *
 * A block processes a sequence, and its threads iterate over the rows: 20 bytes per row at
 * most, less time than a launch takes.
 */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_launch.h"
#include "kernels/policy_math.h"

enum { POLICY_THREADS = 256 };

/* All threads of the block get the result. */
__device__ static policy_sequence sequence_of(const op_policy &op, double *room)
{
    policy_sequence s = { (double)((const float *)op.advantages.data)[blockIdx.x],
                          (double)((const float *)op.factors.data)[blockIdx.x], 0, 0 };
    double sum = 0, kl = 0, rows = 0;

    if (!op.by_sequence)
        return s;
    for (int n = op.offsets[blockIdx.x] + (int)threadIdx.x;
         n < op.offsets[blockIdx.x + 1]; n += POLICY_THREADS) {
        if (op.targets[n] < 0)
            continue;
        sum += policy_log_ratio(&op, n);
        kl += policy_kl(policy_closer(&op, n));
        rows++;
    }
    sum = block_sum(sum, room);
    kl = block_sum(kl, room);
    rows = fmax(block_sum(rows, room), 1.0);
    s.mean = sum / rows;
    s.kl = kl / rows;
    return s;
}

static __global__ void __launch_bounds__(POLICY_THREADS) policy_rows(const op_policy op)
{
    double *room = (double *)shared_memory();
    const policy_sequence s = sequence_of(op, room);
    double sums[POLICY_VALUES] = { 0 };
    float *out = (float *)op.values.data + blockIdx.x * op.values.stride;
    size_t behind = op.offsets[gridDim.x];

    for (int n = op.offsets[blockIdx.x] + (int)threadIdx.x;
         n < op.offsets[blockIdx.x + 1]; n += POLICY_THREADS) {
        float weight = 0;

        if (op.targets[n] >= 0) {
            policy_token token = policy_token_of(&op, n, &s);

            weight = (float)token.weight;
            sums[POLICY_LOSS] += token.loss;
            sums[POLICY_KL] += token.kl;
            sums[POLICY_CLIPPED] += token.clipped;
            sums[POLICY_ROWS]++;
        }
        op.weights[n] = weight;
    }
    sums[POLICY_LOSS] *= s.factor;
#pragma unroll
    for (int i = 0; i < POLICY_VALUES; i++) {
        double sum = block_sum(sums[i], room);

        if (threadIdx.x == 0)
            out[i] = (float)sum;
    }
    /* all blocks share the rest */
    for (size_t n = behind + blockIdx.x * (size_t)POLICY_THREADS + threadIdx.x;
         n < op.losses.cols; n += gridDim.x * (size_t)POLICY_THREADS)
        op.weights[n] = 0;
}

extern "C" cudaError_t launch_policy(const struct cuda_launch *to,
                                     const struct op_policy *op)
{
    return launch(to->stream, policy_rows, dim3((unsigned)op->values.rows),
                  dim3(POLICY_THREADS), (WARP + 1) * sizeof(double), *op);
}
