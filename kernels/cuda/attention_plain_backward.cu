/*
 * kernels/cuda/attention_plain_backward.cu - gradients of attention in fp32 arithmetic,
 * without tensor cores and without atomics.
 *
 *   delta = sum over the head's columns of dout * out
 *   p = exp(scale q k^T - lse),  ds = p (dout v^T - delta)
 *   dv = p^T dout,  dk = scale ds^T q,  dq = scale ds k
 * with dropout, m being 0 or the factor of a kept weight,
 *   dv = (m p)^T dout,  ds = p (m dout v^T - delta)
 * and with a cap c on scores (s is the capped score), ds is multiplied by 1 - (s / c)^2,
 * where s = log p + lse. There is one kernel for dk and dv and one for dq: a block with
 * 64 keys iterates over the queries that see them, for each head of the group; a block
 * with 64 queries iterates over the keys that they see. The order of every sum is that of
 * the loops.
 *
 * Floor: 14 D operations for each pair of a query and a key that it sees (scores and dout
 * v^T are computed twice), 7 T^2 D for a head of a causal sequence of T (14 T^2 D if all
 * rows see each other), at the GPU's fp32 rate; from memory q, k, v, out, dout, dq, dk, dv
 * once. Dropout adds about 17 instructions per pair to each kernel.
 */
#include "kernels/cuda/attention_plain.cuh"

/* One warp per head and row. */
static __global__ void attention_plain_delta(struct op_attention_backward op)
{
    size_t heads = op.forward.heads;
    size_t at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    size_t row = at / heads, head = at % heads;
    int lane = threadIdx.x % WARP, size = (int)op.forward.head_size;
    float sum = 0;

    if (row >= op.dout.rows)
        return;
    struct plain_head out = plain_head_of(op.forward.out, (int)head, size);
    struct plain_head dout = plain_head_of(op.dout, (int)head, size);

    for (int column = lane; column < size; column += WARP)
        sum = fmaf(plain_number(out, row * out.stride + column),
                   plain_number(dout, row * dout.stride + column), sum);
    sum = warp_sum(sum);
    if (lane == 0)
        ((float *)op.delta.data)[head * op.delta.stride + row] = sum;
}

template <int R, int D>
__device__ inline void plain_store(const struct plain_head &to,
                                   const struct plain_tile &at,
                                   float sums[R][D / PLAIN_ACROSS], float factor)
{
    enum { N = D / PLAIN_ACROSS };
    int y = threadIdx.x / PLAIN_ACROSS * R, x = threadIdx.x % PLAIN_ACROSS;

#pragma unroll
    for (int i = 0; i < R; i++) {
        if (at.first + y + i >= at.length)
            continue;
#pragma unroll
        for (int j = 0; j < N; j++)
            sums[i][j] *= factor;
#pragma unroll
        for (int j = 0; j < N; j += 4)
            plain_write(to, at.start + at.first + y + i,
                        plain_part<D>() + j * PLAIN_ACROSS + x * 4, &sums[i][j]);
    }
}

/* sums += weights of the tile times b */
template <int R, int D>
__device__ inline void plain_add(float sums[R][D / PLAIN_ACROSS],
                                 const float weights[R][4], const struct plain_rows &b,
                                 int first, int other,
                                 const struct plain_visibility &sight, const int slack[R],
                                 bool masked, float *shared)
{
    plain_share<R>(shared, weights);
    plain_along<R, D>(sums, shared, b, first, other, sight, slack, masked,
                      shared + PLAIN_TILE * PLAIN_TILE);
}

template <int R, int D, enum plain_kind kind>
__global__ void __launch_bounds__(PLAIN_ACROSS *PLAIN_TILE / R, 1)
    attention_plain_keys(struct op_attention_backward op, unsigned window,
                         struct drops drops)
{
    enum { N = D / PLAIN_ACROSS };
    const struct op_attention *forward = &op.forward;
    float *shared = (float *)shared_memory(), *staged = shared + PLAIN_TILE * PLAIN_TILE;
    int shared_heads = (int)forward->kv_heads,
        shared_head = (int)(blockIdx.x % shared_heads);
    int group = (int)forward->heads / shared_heads, size = (int)forward->head_size;
    struct plain_tile at =
        plain_find<kind>(*forward, true, (int)(blockIdx.x / shared_heads));
    int y = threadIdx.x / PLAIN_ACROSS * R, x = threadIdx.x % PLAIN_ACROSS * 4;
    struct plain_rows k = plain_rows_of(at, forward->k, shared_head, size);
    struct plain_rows v = plain_rows_of(at, forward->v, shared_head, size);
    struct plain_visibility sight = plain_sight(at, *forward, true, window);
    uint32_t site = dropout_bits_site(drops);
    float dk[R][N] = { 0 }, dv[R][N] = { 0 };
    int slack[R], start, near; /* queries that see any of the keys, and all */

    if (at.first >= at.length)
        return;
    start = near = at.first;
    if (kind != PLAIN_CAUSAL) {
        start = (at.first - plain_slack<kind>(sight, at.first)) & ~(PLAIN_TILE - 1);
        near = plain_last(at) - plain_slack<kind>(sight, plain_last(at)) - 1;
    }
    plain_slacks<R, kind>(slack, sight, at.first);
    for (int head = shared_head * group; head < (shared_head + 1) * group; head++) {
        struct plain_rows q = plain_others_of(at, forward->q, head, size);
        struct plain_rows dout = plain_others_of(at, op.dout, head, size);
        const float *lse = (const float *)forward->lse.data + head * forward->lse.stride +
                           at.others_start;
        const float *delta =
            (const float *)op.delta.data + head * op.delta.stride + at.others_start;

        for (int query = start;
             query < at.others &&
             (query < at.first || (unsigned)(query - at.first) < window + PLAIN_TILE - 1);
             query += PLAIN_TILE) {
            int lag = query + x - at.first - y;
            bool masked = query <= near || plain_leaves(sight, query - at.first);
            uint32_t kept = 0;
            float p[R][4], ds[R][4];

            float slope = alibi_slope(forward->slopes, forward->heads, (size_t)head);

            if (drops.threshold > 0)
                kept =
                    plain_kept<R, true>(shared, dropout_bits_head_of(drops, site, head),
                                        (int)at.others_start + query, at.first);
            plain_across<R>(p, k, at.first, q, query, staged);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                bool there = query + x + j < at.others;
                float of_query = there ? lse[query + x + j] : 0;

#pragma unroll
                for (int i = 0; i < R; i++)
                    p[i][j] =
                        there && plain_sees(sight, lag + j - i, slack[i])
                            ? plain_weight(p[i][j], forward->scale, forward->softcap,
                                           -slope * (float)(lag + j - i), of_query)
                            : 0;
            }
            plain_share<R>(shared, p);
            if (drops.threshold > 0)
                plain_drop<R>(shared, kept);
            plain_along<R, D>(dv, shared, dout, at.first, query, sight, slack, masked,
                              staged);
            plain_across<R>(ds, v, at.first, dout, query, staged);
            if (drops.threshold > 0)
                plain_drop_gradients<R>(ds, kept, drops.factor);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                bool there = query + x + j < at.others;
                float of_query = there ? delta[query + x + j] : 0;
                float shift = there ? lse[query + x + j] : 0;

#pragma unroll
                for (int i = 0; i < R; i++) {
                    ds[i][j] = there && plain_sees(sight, lag + j - i, slack[i])
                                   ? p[i][j] * (ds[i][j] - of_query)
                                   : 0;
                    if (forward->softcap > 0)
                        ds[i][j] *= plain_slope(p[i][j], forward->softcap, shift);
                }
            }
            plain_add<R, D>(dk, ds, q, at.first, query, sight, slack, masked, shared);
        }
    }
    plain_store<R, D>(plain_head_of(op.dk, shared_head, size), at, dk, forward->scale);
    plain_store<R, D>(plain_head_of(op.dv, shared_head, size), at, dv, drops.factor);
}

template <int R, int D, enum plain_kind kind>
__global__ void __launch_bounds__(PLAIN_ACROSS *PLAIN_TILE / R, 1)
    attention_plain_queries(struct op_attention_backward op, unsigned window,
                            struct drops drops)
{
    enum { N = D / PLAIN_ACROSS };
    const struct op_attention *forward = &op.forward;
    float *shared = (float *)shared_memory(), *staged = shared + PLAIN_TILE * PLAIN_TILE;
    int heads = (int)forward->heads, head = (int)(blockIdx.x % heads);
    int shared_head = head / (heads / (int)forward->kv_heads),
        size = (int)forward->head_size;
    struct plain_tile at =
        plain_find<kind>(*forward, false, (int)((gridDim.x - 1 - blockIdx.x) / heads));
    int y = threadIdx.x / PLAIN_ACROSS * R, x = threadIdx.x % PLAIN_ACROSS * 4;
    struct plain_rows q = plain_rows_of(at, forward->q, head, size);
    struct plain_rows k = plain_others_of(at, forward->k, shared_head, size);
    struct plain_rows v = plain_others_of(at, forward->v, shared_head, size);
    struct plain_rows dout = plain_rows_of(at, op.dout, head, size);
    const float *lse =
        (const float *)forward->lse.data + head * forward->lse.stride + at.start;
    const float *delta = (const float *)op.delta.data + head * op.delta.stride + at.start;
    struct plain_visibility sight = plain_sight(at, *forward, false, window);
    float dq[R][N] = { 0 };
    uint32_t site = dropout_bits_site(drops);
    int key = 0, slack[R];
    struct plain_ends ends;

    if (at.first >= at.length)
        return;
    if ((unsigned)at.first >= window)
        key = (at.first - (int)window + 1) & ~(PLAIN_TILE - 1);
    ends = plain_ends_of<kind>(sight, at);
    plain_slacks<R, kind>(slack, sight, at.first);
    for (; key < ends.far; key += PLAIN_TILE) {
        int lag = at.first + y - key - x;
        bool masked = key + PLAIN_TILE > ends.near || plain_leaves(sight, at.first - key);
        uint32_t kept = 0;
        float p[R][4], ds[R][4];
        float slope = alibi_slope(forward->slopes, forward->heads, (size_t)head);

        if (drops.threshold > 0)
            kept = plain_kept<R, false>(shared, dropout_bits_head_of(drops, site, head),
                                        (int)at.start + at.first, key);
        plain_across<R>(p, q, at.first, k, key, staged);
        plain_across<R>(ds, dout, at.first, v, key, staged);
        if (drops.threshold > 0)
            plain_drop_gradients<R>(ds, kept, drops.factor);
#pragma unroll
        for (int i = 0; i < R; i++) {
            bool there = at.first + y + i < at.length;
            float of_row = there ? lse[at.first + y + i] : 0;
            float change = there ? delta[at.first + y + i] : 0;

#pragma unroll
            for (int j = 0; j < 4; j++) {
                float weight = plain_weight(p[i][j], forward->scale, forward->softcap,
                                            -slope * (float)(lag + i - j), of_row);

                ds[i][j] = there && plain_sees(sight, lag + i - j, slack[i])
                               ? weight * (ds[i][j] - change)
                               : 0;
                if (forward->softcap > 0)
                    ds[i][j] *= plain_slope(weight, forward->softcap, of_row);
            }
        }
        plain_add<R, D>(dq, ds, k, at.first, key, sight, slack, masked, shared);
    }
    plain_store<R, D>(plain_head_of(op.dq, head, size), at, dq, forward->scale);
}

static cudaError_t launch_delta(const struct cuda_launch *to,
                                const struct op_attention_backward *op)
{
    enum { THREADS = 128 };
    size_t threads = op->dout.rows * op->forward.heads * WARP;

    return launch(to->stream, attention_plain_delta,
                  dim3((unsigned)((threads + THREADS - 1) / THREADS)), dim3(THREADS), 0,
                  *op);
}

/* A thread has R rows in the kernel of keys, S in the kernel of queries. */
template <int R, int S, int D, enum plain_kind kind>
static cudaError_t launch_kind(const struct cuda_launch *to,
                               const struct op_attention_backward *op)
{
    const struct op_attention *forward = &op->forward;
    unsigned keys = plain_slots(forward, forward->k.rows) * (unsigned)forward->kv_heads;
    unsigned queries = plain_slots(forward, forward->q.rows) * (unsigned)forward->heads;
    unsigned window = plain_window(forward);
    struct drops drops = dropout_bits_of(&forward->dropout);
    cudaError_t status = launch_delta(to, op);

    if (status == cudaSuccess)
        status =
            launch(to->stream, attention_plain_keys<R, D, kind>,
                   dim3(keys, plain_parts<D>(forward)),
                   dim3(PLAIN_ACROSS * PLAIN_TILE / R), PLAIN_SHARED, *op, window, drops);
    if (status == cudaSuccess)
        status =
            launch(to->stream, attention_plain_queries<S, D, kind>,
                   dim3(queries, plain_parts<D>(forward)),
                   dim3(PLAIN_ACROSS * PLAIN_TILE / S), PLAIN_SHARED, *op, window, drops);
    return status;
}

template <int R, int S, int D>
static cudaError_t launch_size(const struct cuda_launch *to,
                               const struct op_attention_backward *op)
{
    return plain_is_causal(&op->forward) ? launch_kind<R, S, D, PLAIN_CAUSAL>(to, op)
                                         : launch_kind<R, S, D, PLAIN_REACHES>(to, op);
}

cudaError_t launch_attention_backward_plain(const struct cuda_launch *to,
                                            const struct op_attention_backward *op)
{
    size_t size = op->forward.head_size;

    if (op->forward.distances.values)
        return cudaErrorNotSupported;
    return size <= 64              ? launch_size<8, 8, 64>(to, op)
           : size <= 128           ? launch_size<4, 8, 128>(to, op)
           : size <= HEAD_SIZE_MAX ? launch_size<4, 4, 256>(to, op)
                                   : cudaErrorNotSupported;
}
