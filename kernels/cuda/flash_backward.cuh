/*
 * kernels/cuda/flash_backward.cuh - building blocks of the two kernels of
 * flash_backward.cu: the operands, a block's own rows, the steps through the other side's
 * rows, and the computation of weights and gradients from scores.
 */
#ifndef KERNELS_CUDA_FLASH_BACKWARD_CUH
#define KERNELS_CUDA_FLASH_BACKWARD_CUH

#include <limits.h>

#include "kernels/cuda/flash.cuh"
#include "kernels/cuda/flash_dropout.cuh"

template <typename T> struct flash_backward_job {
    flash_rows<const T> q, k, v, out, dout;
    flash_rows<T> dq, dk, dv;
    const int32_t *reach, *since, *offsets, *key_offsets;
    const float *lse;
    float *delta;
    int64_t lse_stride, delta_stride; /* from head to head */
    int rows, heads, kv_heads, group, window;
    struct flash_order order;
    float scale;
    float scale_log2; /* from a score or its tanh to an exponent of 2 */
    float cap;        /* of flash_cap, or 0 */
    float shrink;     /* 1 / scale_log2 */
    struct drops drops;
};

template <typename T>
static flash_backward_job<T>
flash_backward_describe(const struct op_attention_backward *op)
{
    const struct op_attention *forward = &op->forward;
    flash_backward_job<T> job;

    job.q = flash_rows_of<const T>(forward->q, forward->head_size);
    job.k = flash_rows_of<const T>(forward->k, forward->head_size);
    job.v = flash_rows_of<const T>(forward->v, forward->head_size);
    job.out = flash_rows_of<const T>(forward->out, forward->head_size);
    job.dout = flash_rows_of<const T>(op->dout, forward->head_size);
    job.dq = flash_rows_of<T>(op->dq, forward->head_size);
    job.dk = flash_rows_of<T>(op->dk, forward->head_size);
    job.dv = flash_rows_of<T>(op->dv, forward->head_size);
    job.reach = forward->reach;
    job.since = forward->since;
    job.offsets = forward->offsets;
    job.key_offsets = forward->key_offsets;
    job.lse = (const float *)forward->lse.data;
    job.delta = (float *)op->delta.data;
    job.lse_stride = (int64_t)forward->lse.stride;
    job.delta_stride = (int64_t)op->delta.stride;
    job.rows = (int)forward->q.rows;
    job.heads = (int)forward->heads;
    job.kv_heads = (int)forward->kv_heads;
    job.group = (int)(forward->heads / forward->kv_heads);
    job.window = forward->window == 0 || forward->window > INT_MAX ? INT_MAX
                                                                   : (int)forward->window;
    job.order = {};
    job.scale = forward->scale;
    job.scale_log2 = flash_exponent(forward->scale, forward->softcap);
    job.cap = flash_cap_factor(forward->scale, forward->softcap);
    job.shrink = 1 / job.scale_log2;
    job.drops = dropout_bits_of(&forward->dropout);
    return job;
}

/* Set scores of pairs that do not see each other to -inf. row: the lane's first row of the
 * block, other: its first one of the other side; edges: reach where the rows are queries,
 * since where they are keys. */
template <bool keys, int M, int N>
__device__ inline void flash_backward_mask(float (&s)[M][N][4], const int32_t *edges,
                                           const struct flash_place &place, int row,
                                           int other, int window)
{
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int own = row + 8 * i;
        int edge = keys ? flash_since(edges, place, own) : flash_reach(edges, place, own);

#pragma unroll
        for (int n = 0; n < 2 * N; n++) {
            int here = other + 8 * (n / 2) + n % 2;

            if (keys ? here < edge || here - own >= window
                     : here >= edge || own - here >= window)
                s[i / 2][n / 2][i % 2 * 2 + n % 2] = -INFINITY;
        }
    }
}

/* Start copying the two tiles of STEP rows that a step uses. There are two stages: one is
 * filled while the other is in use. */
template <typename T, int D, int STEP, int THREADS>
__device__ inline void flash_backward_fetch(T *stage, flash_rows<const T> a,
                                            flash_rows<const T> b, int first, int end)
{
    flash_load<D, STEP, THREADS>(stage, a, first, end);
    flash_load<D, STEP, THREADS>(stage + STEP * flash_tile<D>::pitch, b, first, end);
    copies_close();
}

/* The block's own rows of two matrices, which stay in shared memory; rows held in
 * registers pass through the stages. */
template <typename T, int D, int M, int WARPS, bool held> struct flash_backward_own {
    flash_left<T, D, M, held> a, b;

    __device__ static T *load(T *tile, flash_rows<const T> from, int first, int end)
    {
        if (held)
            __syncthreads();
        flash_load<D, 16 * M * WARPS, WARPS * WARP>(tile, from, first, end);
        copies_close();
        copies_wait<0>();
        __syncthreads();
        return tile + 16 * M * (threadIdx.x / WARP) * flash_tile<D>::pitch;
    }
    __device__ flash_backward_own(T *tile, flash_rows<const T> from_a,
                                  flash_rows<const T> from_b, int first, int end)
        : a(load(tile, from_a, first, end)),
          b(load(held ? tile : tile + 16 * M * WARPS * flash_tile<D>::pitch, from_b,
                 first, end))
    {
        if (held)
            __syncthreads();
    }
};

/* Layout of a block's shared memory, in elements of T. */
template <int D, int M, int WARPS, int STEP, bool held> struct flash_backward_room {
    static constexpr int pitch = flash_tile<D>::pitch;
    static constexpr int rows = 16 * M * WARPS;
    static constexpr int stage = 2 * STEP * pitch;
    static constexpr int own = held ? 0 : 2 * stage; /* offset of the block's own rows */
    static constexpr int all = 2 * stage + (held ? 0 : 2 * rows * pitch);

    static_assert(rows % STEP == 0, "steps begin with the first row of a sequence");
    static_assert(!held || rows * pitch <= all, "own rows pass through the stages");
};

/*
 * lse and delta of a step of queries are in the padding after the rows of their tile:
 * both lse of two adjacent queries after the first row, both delta after the second, as a
 * lane needs them.
 */
template <int D, typename T>
__device__ inline float2 *flash_backward_behind(T *tile, int row)
{
    return (float2 *)(tile + row * flash_tile<D>::pitch + D);
}

/* The weights of a row that sees no key are 0: instead of -inf its lse is inf, as that of
 * rows past the end. */
__device__ inline float flash_backward_lse(float lse)
{
    return lse == -INFINITY ? INFINITY : lse;
}

/* Start copying a step of queries of one head. The caller passes the result to
 * flash_backward_keep later: each of two adjacent threads has one value of the same
 * query. */
template <int D, int STEP, int THREADS, bool crosses, typename T>
__device__ inline float
flash_backward_fetch_queries(T *stage, const flash_backward_job<T> &job, int begin,
                             int head, int first, int end)
{
    int row = first + (int)threadIdx.x / 2;
    bool delta = threadIdx.x % 2;
    const float *from =
        delta ? job.delta + head * job.delta_stride : job.lse + head * job.lse_stride;

    static_assert(2 * STEP <= THREADS, "each thread loads at most one");
    flash_backward_fetch<T, D, STEP, THREADS>(stage, flash_head(job.q, begin, head),
                                              flash_head(job.dout, begin, head), first,
                                              end);
    if (threadIdx.x < 2 * STEP && row < end)
        return crosses && !delta ? flash_backward_lse(from[begin + row])
                                 : from[begin + row];
    return delta ? 0 : INFINITY; /* makes its weights 0 */
}

template <int D, int STEP, typename T>
__device__ inline void flash_backward_keep(T *tile, float ahead)
{
    int row = threadIdx.x / 2, delta = threadIdx.x % 2;

    if (row < STEP)
        ((float *)flash_backward_behind<D>(tile, (row & ~1) | delta))[row & 1] =
            delta ? ahead : ahead * FLASH_LOG2E;
}

/* Turn scores of a step of queries into weights. */
template <int D, int M, int N, typename T>
__device__ inline void flash_backward_weights(float (&p)[M][N][4], T *q_tile,
                                              float scale_log2)
{
    int own = threadIdx.x % 4 * 2;

#pragma unroll
    for (int n = 0; n < N; n++) {
        const float2 lse = *flash_backward_behind<D>(q_tile, 8 * n + own);

#pragma unroll
        for (int i = 0; i < 4 * M; i++) {
            float *x = &p[i / 4][n][i % 4];

            *x = exp2_fast(fmaf(*x, scale_log2, i % 2 ? -lse.y : -lse.x));
        }
    }
}

/* Return the slope of a cap where its tanh is t; 0 for scores that are not seen
 * (-inf). */
__device__ inline float flash_backward_slope(float t)
{
    t = fmaxf(t, -1.0f);
    return fmaf(-t, t, 1.0f);
}

/* Turn gradients of the weights p into gradients of the scores, without the scale. With a
 * cap, the tanh is recomputed from p: an exponent of 2 times `shrink`. */
template <bool capped, int D, int M, int N, typename T>
__device__ inline void flash_backward_gradients(float (&ds)[M][N][4],
                                                const float (&p)[M][N][4], T *q_tile,
                                                float shrink)
{
    int own = threadIdx.x % 4 * 2;

#pragma unroll
    for (int n = 0; n < N; n++) {
        const float2 delta = *flash_backward_behind<D>(q_tile, 8 * n + own + 1);

#pragma unroll
        for (int i = 0; i < 4 * M; i++) {
            float *x = &ds[i / 4][n][i % 4];

            *x = p[i / 4][n][i % 4] * (*x - (i % 2 ? delta.y : delta.x));
        }
        if (capped) {
            const float2 lse = *flash_backward_behind<D>(q_tile, 8 * n + own);

#pragma unroll
            for (int i = 0; i < 4 * M; i++)
                ds[i / 4][n][i % 4] *= flash_backward_slope(
                    (log2_fast(p[i / 4][n][i % 4]) + (i % 2 ? lse.y : lse.x)) * shrink);
        }
    }
}

#endif
