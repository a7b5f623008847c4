/*
 * kernels/cuda/attention_plain.cu - forward pass of flash attention in fp32 arithmetic,
 * for fp32 on any GPU and for 16-bit formats that the tensor-core kernels do not support.
 *
 * A block processes 64 queries of a head and iterates over the keys that they see, 64 at
 * a time: scores, the online softmax, and the rescaled sums of v (Dao,
 * "FlashAttention-2", 2023).
 *
 * Floor: 4 D operations for each pair of a query and a key that it sees, 2 T^2 D for a
 * head of a causal sequence of T (4 T^2 D if all rows see each other), at the GPU's fp32
 * rate; from memory q, k, v and out
 * once (k and v are read T / 64 times for each query head, from L2). A tile on the
 * diagonal wastes half of its operations. Dropout adds about 17 instructions per pair,
 * most of them for its random bits.
 */
#include "kernels/cuda/attention_plain.cuh"

/* For head size 64, shared memory has room for three blocks per multiprocessor from
 * compute capability 8.0 on; limit registers to match, except with reach, which takes
 * more of them. */
#if __CUDA_ARCH__ >= 800
#define PLAIN_BLOCKS 3
#else
#define PLAIN_BLOCKS 1
#endif

template <int R> struct plain_softmax {
    float most[R], total[R]; /* largest score so far; this thread's part of the sum */
};

/* The learned bias of a head; the kernels without one do not use it. */
struct plain_distances {
    const float *values; /* that of distance 0 */
    int most;
};

__device__ static inline struct plain_distances
plain_distances_of(const struct attention_distances &by, int head)
{
    return { by.values + (size_t)(2 * head + 1) * by.most, (int)by.most };
}

/* Turn scores into weights of the online softmax and rescale the sums so far. */
template <int R, int N, enum plain_kind kind>
__device__ inline void
plain_soften(struct plain_softmax<R> &soft, float scores[R][4], float sums[R][N],
             float scale, float cap, float slope, const struct plain_distances &learned,
             int lag, const struct plain_visibility &sight, const int slack[R])
{
#pragma unroll
    for (int i = 0; i < R; i++) {
        float most = -INFINITY, shrink;

#pragma unroll
        for (int j = 0; j < 4; j++) {
            scores[i][j] *= scale;
            if (cap > 0)
                scores[i][j] = plain_capped(scores[i][j], cap);
            if (slope > 0)
                scores[i][j] -= slope * (float)(lag + i - j);
            if (kind == PLAIN_LEARNED)
                scores[i][j] +=
                    learned
                        .values[max(-learned.most, min(learned.most - 1, j - i - lag))];
            scores[i][j] =
                plain_sees(sight, lag + i - j, slack[i]) ? scores[i][j] : -INFINITY;
            most = fmaxf(most, scores[i][j]);
        }
        most = fmaxf(soft.most[i], lanes_largest<PLAIN_ACROSS>(most));
        shrink = most == -INFINITY ? 1 : expf(soft.most[i] - most);
        soft.most[i] = most;
        soft.total[i] *= shrink;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            scores[i][j] = scores[i][j] == -INFINITY ? 0 : expf(scores[i][j] - most);
            soft.total[i] += scores[i][j];
        }
#pragma unroll
        for (int j = 0; j < N; j++)
            sums[i][j] *= shrink;
    }
}

template <int R, int D, enum plain_kind kind>
__global__ void __launch_bounds__(PLAIN_ACROSS *PLAIN_TILE / R,
                                  D == 64 && kind == PLAIN_CAUSAL ? PLAIN_BLOCKS : 1)
    attention_plain(struct op_attention op, unsigned window, struct drops drops)
{
    enum { N = D / PLAIN_ACROSS };
    float *weights = (float *)shared_memory(),
          *staged = weights + PLAIN_TILE * PLAIN_TILE;
    int heads = (int)op.heads, head = (int)(blockIdx.x % heads);
    int shared_head = head / (heads / (int)op.kv_heads), size = (int)op.head_size;
    struct plain_tile at =
        plain_find<kind>(op, false, (int)((gridDim.x - 1 - blockIdx.x) / heads));
    int y = threadIdx.x / PLAIN_ACROSS * R, x = threadIdx.x % PLAIN_ACROSS;
    struct plain_rows q = plain_rows_of(at, op.q, head, size);
    struct plain_rows k = plain_others_of(at, op.k, shared_head, size);
    struct plain_rows v = plain_others_of(at, op.v, shared_head, size);
    struct plain_head out = plain_head_of(op.out, head, size);
    struct plain_visibility sight = plain_sight(at, op, false, window);
    struct plain_softmax<R> soft;
    float sums[R][N] = { 0 };
    uint32_t site = dropout_bits_site(drops);
    int key = 0, slack[R];
    struct plain_ends ends;

    if (at.first >= at.length)
        return;
    if ((unsigned)at.first >= window)
        key = (at.first - (int)window + 1) & ~(PLAIN_TILE - 1);
    ends = plain_ends_of<kind>(sight, at);
    plain_slacks<R, kind>(slack, sight, at.first);
#pragma unroll
    for (int i = 0; i < R; i++) {
        soft.most[i] = -INFINITY;
        soft.total[i] = 0;
    }
    for (; key < ends.far; key += PLAIN_TILE) {
        int lag = at.first - key;
        uint32_t kept = 0;
        float scores[R][4];

        if (drops.threshold > 0)
            kept = plain_kept<R, false>(weights, dropout_bits_head_of(drops, site, head),
                                        (int)at.start + at.first, key);
        plain_across<R>(scores, q, at.first, k, key, staged);
        plain_soften<R, N, kind>(soft, scores, sums, op.scale, op.softcap,
                                 alibi_slope(op.slopes, op.heads, (size_t)head),
                                 plain_distances_of(op.distances, head), lag + y - 4 * x,
                                 sight, slack);
        plain_share<R>(weights, scores);
        if (drops.threshold > 0)
            plain_drop<R>(weights, kept);
        plain_along<R, D>(sums, weights, v, at.first, key, sight, slack,
                          key + PLAIN_TILE > ends.near || plain_leaves(sight, lag),
                          staged);
    }
#pragma unroll
    for (int i = 0; i < R; i++) {
        float total = lanes_sum<PLAIN_ACROSS>(soft.total[i]);
        int row = at.first + y + i;
        bool sees = kind == PLAIN_CAUSAL || row + 1 + slack[i] > 0;
        float divisor = sees ? total / drops.factor : 1;

        if (row >= at.length)
            continue;
#pragma unroll
        for (int j = 0; j < N; j++)
            sums[i][j] /= divisor;
#pragma unroll
        for (int j = 0; j < N; j += 4)
            plain_write(out, at.start + row, plain_part<D>() + j * PLAIN_ACROSS + x * 4,
                        &sums[i][j]);
        if (x == 0 && blockIdx.y == 0)
            ((float *)op.lse.data)[head * op.lse.stride + at.start + row] =
                soft.most[i] + logf(total);
    }
}

template <int R, int D, enum plain_kind kind>
static cudaError_t launch_kind(const struct cuda_launch *to,
                               const struct op_attention *op)
{
    unsigned slots = plain_slots(op, op->q.rows);

    return launch(to->stream, attention_plain<R, D, kind>,
                  dim3(slots * (unsigned)op->heads, plain_parts<D>(op)),
                  dim3(PLAIN_ACROSS * PLAIN_TILE / R), PLAIN_SHARED, *op,
                  plain_window(op), dropout_bits_of(&op->dropout));
}

template <int R, int D>
static cudaError_t launch_size(const struct cuda_launch *to,
                               const struct op_attention *op)
{
    if (op->distances.values)
        return launch_kind<R, D, PLAIN_LEARNED>(to, op);
    return plain_is_causal(op) ? launch_kind<R, D, PLAIN_CAUSAL>(to, op)
                               : launch_kind<R, D, PLAIN_REACHES>(to, op);
}

cudaError_t launch_attention_plain(const struct cuda_launch *to,
                                   const struct op_attention *op)
{
    return op->head_size <= 64              ? launch_size<8, 64>(to, op)
           : op->head_size <= 128           ? launch_size<8, 128>(to, op)
           : op->head_size <= HEAD_SIZE_MAX ? launch_size<4, 256>(to, op)
                                            : cudaErrorNotSupported;
}
