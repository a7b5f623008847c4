/*
 * kernels/cuda/preference.cu - computes the loss of each preference pair, and its
 * gradient with respect to the loss of each token.
 *
 * A block processes a pair, and its threads iterate over the rows. 12 bytes per row, 16
 * with a reference: less time than a launch takes. One thread does the work that occurs
 * once per pair.
 */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_launch.h"
#include "kernels/preference_math.h"

enum { PAIR_THREADS = 256 };

/* All threads of the block get the result. */
__device__ static pair_answer answer_of(const op_preference &op, size_t run, double *room)
{
    const float *losses = (const float *)op.losses.data;
    const float *reference = (const float *)op.reference.data;
    pair_answer answer = { 0, 0, 0 };

    for (int n = op.offsets[run] + (int)threadIdx.x; n < op.offsets[run + 1];
         n += PAIR_THREADS) {
        if (op.targets[n] < 0)
            continue;
        answer.losses += (double)losses[n];
        answer.reference += reference ? (double)reference[n] : 0;
        answer.rows++;
    }
    answer.losses = block_sum(answer.losses, room);
    answer.reference = block_sum(answer.reference, room);
    answer.rows = block_sum(answer.rows, room);
    return answer;
}

__device__ static void set_weights(const op_preference &op, size_t run, float weight)
{
    for (int n = op.offsets[run] + (int)threadIdx.x; n < op.offsets[run + 1];
         n += PAIR_THREADS)
        op.weights[n] = op.targets[n] < 0 ? 0 : weight;
}

/* Every block sums over all pairs, which are few, in the same order. */
__device__ static feedback sum_feedback(const op_preference &op, double *room)
{
    feedback all = { 0, 0, (double)gridDim.x };

    for (unsigned p = 0; p < gridDim.x; p++) {
        pair_answer other = answer_of(op, 2 * (size_t)p + 1, room);

        all.divergence += other.reference - other.losses;
        all.good += feedback_is_good(&op, p);
    }
    return all;
}

__device__ static void store(const op_preference &op, const pair &found, float *weights)
{
    float *out = (float *)op.pairs.data + blockIdx.x * op.pairs.stride;
    double scale = op.scale ? (double)*op.scale : 1;

#pragma unroll
    for (int i = 0; i < PREFERENCE_VALUES; i++)
        out[i] = (float)found.numbers[i];
    weights[0] = (float)(found.chosen * scale);
    weights[1] = (float)(found.rejected * scale);
}

static __global__ void __launch_bounds__(PAIR_THREADS)
    preference_pair(const op_preference op)
{
    double *room = (double *)shared_memory();
    float *weights = (float *)(room + WARP);
    size_t run = 2 * (size_t)blockIdx.x, behind = op.offsets[2 * gridDim.x];
    pair_answer chosen = answer_of(op, run, room);
    pair_answer rejected = answer_of(op, run + 1, room);
    feedback all = { 0, 0, 0 };

    if (op.kind == PREFERENCE_KTO)
        all = sum_feedback(op, room);
    if (threadIdx.x == 0) {
        if (op.kind == PREFERENCE_KTO)
            store(op, feedback_of(&op, chosen, feedback_is_good(&op, blockIdx.x), &all),
                  weights);
        else if (op.kind == PREFERENCE_REWARD)
            store(op, pair_of_scores(&op, chosen, rejected), weights);
        else
            store(op, pair_of(&op, chosen, rejected), weights);
    }
    __syncthreads();
    set_weights(op, run, weights[0]);
    set_weights(op, run + 1, weights[1]);
    /* all blocks share the rest */
    for (size_t n = behind + blockIdx.x * (size_t)PAIR_THREADS + threadIdx.x;
         n < op.losses.cols; n += gridDim.x * (size_t)PAIR_THREADS)
        op.weights[n] = 0;
}

extern "C" cudaError_t launch_preference(const struct cuda_launch *to,
                                         const struct op_preference *op)
{
    return launch(to->stream, preference_pair, dim3((unsigned)op->pairs.rows),
                  dim3(PAIR_THREADS), (WARP + 1) * sizeof(double), *op);
}
