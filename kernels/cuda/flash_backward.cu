/*
 * kernels/cuda/flash_backward.cu - gradients of attention on tensor cores, as in Dao,
 * "FlashAttention-2", 2023, but with one kernel for dk and dv, whose blocks own keys, and
 * one for dq, whose blocks own queries: every sum has one owner and a fixed order, so a
 * job gives the same bits each time, and no sums are accumulated in memory. The price is
 * that scores and their gradients are computed twice: 7 matmuls instead of 5.
 *
 * With p = 2^(scale log2(e) score - log2(e) lse) and delta = rowsum(dout out):
 *   dv = p^T dout,  ds = p (dout v^T - delta),  dq = scale ds k,  dk = scale ds^T q,
 * and with dropout, m being 0 or the factor of a kept weight:
 *   dv = (m p)^T dout,  ds = p (m dout v^T - delta).
 * p and ds are rounded to the operands' format before those matmuls. The rows of one side
 * stay in registers (`held`) or shared memory, those of the other side pass in steps
 * through two buffers: one is filled while the other is used.
 *
 * For T rows, causal, a head takes 7 T^2 D flops (comparisons count 5 T^2 D) and T^2
 * exponentials. Memory: 26 T D bytes if each kernel reads everything once and every head
 * has its own keys, T / 3.7 flops per byte. L2: 2 T^2 D / ROWS bytes for each kernel.
 * Shared memory: 512 bytes for 2 M matmuls of 16 x 8 x 16; with M = 1 this takes as long
 * as the matmuls on an A100. Dropout: 19 instructions per weight for dk and dv and 12 for
 * dq, most of them for its random bits.
 */
#include "kernels/cuda/flash_launch.h"

#include <limits.h>

#include "kernels/cuda/flash_backward.cuh"

/* delta: `lanes` adjacent lanes, a power of two, process the chunks of one row of one
 * head. */
enum { FLASH_DELTA_THREADS = 256 };

template <typename T>
__global__ void __launch_bounds__(FLASH_DELTA_THREADS)
    flash_backward_delta(const flash_backward_job<T> job, int lanes)
{
    int64_t at = ((int64_t)blockIdx.x * FLASH_DELTA_THREADS + threadIdx.x) / lanes;
    int64_t row = at / job.heads;
    int chunk = threadIdx.x % lanes, head = (int)(at % job.heads);
    bool there = row < job.rows;
    float sum = 0;

    if (there && 8 * chunk < job.out.size) {
        float x[8], y[8];

        load<8>(x, job.out.data + row * job.out.stride + head * job.out.size + 8 * chunk);
        load<8>(y,
                job.dout.data + row * job.dout.stride + head * job.dout.size + 8 * chunk);
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum = fmaf(x[i], y[i], sum);
    }
    for (int i = lanes / 2; i > 0; i /= 2)
        sum += __shfl_xor_sync(FULL_WARP_MASK, sum, i);
    if (there && chunk == 0)
        job.delta[head * job.delta_stride + row] = sum;
}

/*
 * Compute dk and dv of ROWS keys of one kv head, PART columns of them, for each query
 * head of its group in turn. Rows of the fragments are keys, columns queries.
 */
template <typename T, enum flash_kind kind, int D, int PART, int M, int WARPS, int STEP,
          bool held, int blocks>
__global__ void __launch_bounds__(WARPS *WARP, blocks)
    flash_backward_keys(const flash_backward_job<T> job)
{
    typedef flash_backward_room<D, M, WARPS, STEP, held> room;
    constexpr int THREADS = WARPS * WARP, PARTS = D / PART, N = STEP / 8, C = PART / 8;
    constexpr bool capped = kind == FLASH_CAPPED, drops = kind == FLASH_DROPS;
    constexpr bool crosses = kind == FLASH_CROSSES;
    const int32_t *since = crosses || kind == FLASH_REACHES ? job.since : NULL;
    int part = blockIdx.x % PARTS * PART, kv_head = blockIdx.x / PARTS % job.kv_heads;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    T *shared = (T *)shared_memory();
    struct flash_place place;
    uint32_t site = drops ? dropout_bits_site(job.drops) : 0;

    static_assert(!drops || (M == 2 && N == 4), "a warp has 32 keys, a step 32 queries");
    if (!flash_find<room::rows, true>(&place, job.order,
                                      (int)(blockIdx.x / (PARTS * job.kv_heads))))
        return;
    flash_face(&place, crosses ? job.key_offsets : NULL, job.offsets,
               job.order.sequences);

    flash_backward_own<T, D, M, WARPS, held> own(
        shared + room::own, flash_head(job.k, place.row, kv_head),
        flash_head(job.v, place.row, kv_head), 0, place.left);
    int mine = 16 * M * warp, last = mine + 16 * M - 1;
    /* of the queries that see any of the warp's keys, and that see all */
    int far = flash_since(since, place, mine), near = flash_since(since, place, last);

    /* Queries that see any of the keys. */
    const int others = room::rows - 1, first = flash_since(since, place, 0);
    const int start = crosses ? first / STEP * STEP : -((STEP - 1 - first) / STEP * STEP);
    int query = start, end = crosses ? place.others : place.left;

    if (end - others > job.window)
        end = others + job.window;

    int head = kv_head * job.group, last_head = head + job.group - 1, stage = 0;
    float dk[M][C][4], dv[M][C][4], ahead;

    ahead = flash_backward_fetch_queries<D, STEP, THREADS, crosses>(
        shared, job, place.origin, head, query, end);
    flash_backward_keep<D, STEP>(shared, ahead);
    flash_zero(dk);
    flash_zero(dv);
    for (;;) {
        T *q_tile = shared + stage * room::stage,
          *dout_tile = q_tile + STEP * room::pitch;
        bool more = query + STEP < end || head < last_head;

        copies_wait<0>();
        __syncthreads();
        stage ^= 1;
        if (more) {
            bool turn = query + STEP >= end;

            ahead = flash_backward_fetch_queries<D, STEP, THREADS, crosses>(
                shared + stage * room::stage, job, place.origin, head + turn,
                turn ? start : query + STEP, end);
        }
        if (query + STEP > far && query - last < job.window) {
            float p[M][N][4], ds[M][N][4];
            uint32_t rounded[M][N][2], kept = 0;

            if (drops)
                kept = flash_drops_kept(dropout_bits_head_of(job.drops, site, head),
                                        place.row + query, place.before + mine);
            flash_zero(p);
            flash_scores(p, own.a, flash_view<T, D>(q_tile, false));
            if (capped)
                flash_cap(p, job.cap);
            if (near > query || query + STEP - 1 - mine >= job.window)
                flash_backward_mask<true>(p, since, place, mine + lane / 4,
                                          query + lane % 4 * 2, job.window);
            flash_backward_weights<D>(p, q_tile, job.scale_log2);
            flash_round<T>(rounded, p);
            if (drops)
                flash_drops_weights(rounded, kept);
            flash_add(dv, rounded, flash_view<T, D>(dout_tile + part, true));
            flash_zero(ds);
            flash_scores(ds, own.b, flash_view<T, D>(dout_tile, false));
            if (drops)
                flash_drops_gradients(ds, kept, job.drops.factor);
            flash_backward_gradients<capped, D>(ds, p, q_tile, job.shrink);
            flash_round<T>(rounded, ds);
            flash_add(dk, rounded, flash_view<T, D>(q_tile + part, true));
        }
        if (!more)
            break;
        flash_backward_keep<D, STEP>(shared + stage * room::stage, ahead);
        query += STEP;
        if (query >= end) {
            query = start;
            head++;
        }
    }
    if (held)
        __syncthreads();

    T *way = shared + room::own + 16 * M * warp * room::pitch;
    flash_rows<T> to_k = flash_head(job.dk, place.row, head / job.group);
    flash_rows<T> to_v = flash_head(job.dv, place.row, head / job.group);

    to_k.data += part;
    to_v.data += part;
    to_k.size -= part;
    to_v.size -= part;
    flash_store<D>(to_v, mine, place.left, way, dv, drops ? job.drops.factor : 1.0f);
    flash_store<D>(to_k, mine, place.left, way, dk, job.scale);
}

/* Compute dq of ROWS queries of one head. Rows of the fragments are queries, columns
 * keys. */
template <typename T, enum flash_kind kind, int D, int M, int WARPS, int STEP, bool held,
          int blocks>
__global__ void __launch_bounds__(WARPS *WARP, blocks)
    flash_backward_queries(const flash_backward_job<T> job)
{
    typedef flash_backward_room<D, M, WARPS, STEP, held> room;
    constexpr int THREADS = WARPS * WARP, N = STEP / 8, C = D / 8;
    constexpr bool drops = kind == FLASH_DROPS, crosses = kind == FLASH_CROSSES;
    const int32_t *reach = crosses || kind == FLASH_REACHES ? job.reach : NULL;
    int head = blockIdx.x % job.heads, kv_head = head / job.group;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    T *shared = (T *)shared_memory();
    struct flash_place place;
    uint32_t site = drops ? dropout_bits_site(job.drops) : 0;

    static_assert(!drops || STEP % 32 == 0, "steps have all keys of a block of bits");
    if (!flash_find<room::rows, false>(&place, job.order, (int)(blockIdx.x / job.heads)))
        return;
    flash_face(&place, crosses ? job.offsets : NULL, job.key_offsets,
               job.order.sequences);

    flash_backward_own<T, D, M, WARPS, held> own(
        shared + room::own, flash_head(job.q, place.row, head),
        flash_head(job.dout, place.row, head), 0, place.left);
    int mine = 16 * M * warp, last = mine + 16 * M - 1, stage = 0;
    int back = crosses ? 0 : place.before < job.window ? place.before : job.window - 1;
    int key = -((back + STEP - 1) / STEP * STEP);
    int rows = place.left < room::rows ? place.left : room::rows;
    int end = flash_reach(reach, place, rows - 1);
    /* of the keys that all of the warp's rows reach, and that any of them does */
    int near = flash_reach(reach, place, mine), far = flash_reach(reach, place, last);
    flash_rows<const T> k = flash_head(job.k, place.origin, kv_head);
    flash_rows<const T> v = flash_head(job.v, place.origin, kv_head);
    float lse[M][2], delta[M][2], dq[M][C][4];

#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int row = mine + 16 * (i / 2) + 8 * (i % 2) + lane / 4;
        bool there = row < rows;

        /* infinity makes the weights of missing rows 0 */
        lse[i / 2][i % 2] =
            there ? job.lse[head * job.lse_stride + place.row + row] * FLASH_LOG2E
                  : INFINITY;
        if (crosses)
            lse[i / 2][i % 2] = flash_backward_lse(lse[i / 2][i % 2]);
        delta[i / 2][i % 2] =
            there ? job.delta[head * job.delta_stride + place.row + row] : 0;
    }
    flash_backward_fetch<T, D, STEP, THREADS>(shared, k, v, key, end);
    flash_zero(dq);
    for (; key < end; key += STEP) {
        T *k_tile = shared + stage * room::stage, *v_tile = k_tile + STEP * room::pitch;

        copies_wait<0>();
        __syncthreads();
        stage ^= 1;
        if (key + STEP < end)
            flash_backward_fetch<T, D, STEP, THREADS>(shared + stage * room::stage, k, v,
                                                      key + STEP, end);
        if (key >= far || mine - (key + STEP - 1) >= job.window)
            continue;

        float p[M][N][4], ds[M][N][4];
        uint32_t rounded[M][N][2];

#pragma unroll
        for (int i = 0; i < M * N * 4; i++) {
            p[i / (4 * N)][i / 4 % N][i % 4] = 0;
            ds[i / (4 * N)][i / 4 % N][i % 4] =
                drops ? 0 : -delta[i / (4 * N)][i / 2 % 2];
        }
        flash_scores(p, own.a, flash_view<T, D>(k_tile, false));
        if (kind == FLASH_BARE && job.cap > 0)
            flash_cap(p, job.cap);
        if (key + STEP > near || last - key >= job.window)
            flash_backward_mask<false>(p, reach, place, mine + lane / 4,
                                       key + lane % 4 * 2, job.window);
        flash_scores(ds, own.b, flash_view<T, D>(v_tile, false));
        if (drops)
            flash_drops_gradients(ds, delta, dropout_bits_head_of(job.drops, site, head),
                                  place.row + mine + lane / 4, place.before + key);
#pragma unroll
        for (int i = 0; i < M * N * 4; i++)
            ds[i / (4 * N)][i / 4 % N][i % 4] *=
                exp2_fast(fmaf(p[i / (4 * N)][i / 4 % N][i % 4], job.scale_log2,
                               -lse[i / (4 * N)][i / 2 % 2]));
        if (kind == FLASH_BARE && job.cap > 0) {
#pragma unroll
            for (int i = 0; i < M * N * 4; i++)
                ds[i / (4 * N)][i / 4 % N][i % 4] *=
                    flash_backward_slope(p[i / (4 * N)][i / 4 % N][i % 4]);
        }
        flash_round<T>(rounded, ds);
        flash_add(dq, rounded, flash_view<T, D>(k_tile, true));
    }
    if (crosses) /* without keys, the copies have not been waited for */
        copies_wait<0>();
    if (held || crosses)
        __syncthreads();
    flash_store<D>(flash_head(job.dq, place.row, head), mine, rows,
                   shared + room::own + 16 * M * warp * room::pitch, dq, job.scale);
}

template <typename T>
static cudaError_t flash_backward_put_delta(const struct cuda_launch *to,
                                            const struct op_attention_backward *op)
{
    flash_backward_job<T> job = flash_backward_describe<T>(op);
    size_t threads;
    int lanes = 1;

    while ((size_t)lanes * 8 < op->forward.head_size)
        lanes *= 2;
    threads = op->forward.q.rows * op->forward.heads * (size_t)lanes;
    return launch(
        to->stream, flash_backward_delta<T>,
        dim3((unsigned)((threads + FLASH_DELTA_THREADS - 1) / FLASH_DELTA_THREADS)),
        dim3(FLASH_DELTA_THREADS), 0, job, lanes);
}

template <typename T, enum flash_kind kind, int D, int PART, int M, int WARPS, int STEP,
          bool held, int blocks>
static cudaError_t flash_backward_put_keys(const struct cuda_launch *to,
                                           const struct op_attention_backward *op)
{
    typedef flash_backward_room<D, M, WARPS, STEP, held> room;
    flash_backward_job<T> job = flash_backward_describe<T>(op);

    /* a slot without rows costs little compared with the heads of a group */
    job.order = flash_order_of(&op->forward, room::rows, 0, 4 + 2 * (size_t)job.group);
    if (kind == FLASH_CROSSES)
        job.order = flash_order_of_keys(&op->forward, room::rows);
    return launch(to->stream,
                  flash_backward_keys<T, kind, D, PART, M, WARPS, STEP, held, blocks>,
                  dim3((unsigned)job.order.slots * (unsigned)job.kv_heads * (D / PART)),
                  dim3(WARPS * WARP), room::all * sizeof(T), job);
}

template <typename T, enum flash_kind kind, int D, int M, int WARPS, int STEP, bool held,
          int blocks>
static cudaError_t flash_backward_put_queries(const struct cuda_launch *to,
                                              const struct op_attention_backward *op)
{
    typedef flash_backward_room<D, M, WARPS, STEP, held> room;
    flash_backward_job<T> job = flash_backward_describe<T>(op);

    job.order = flash_order_of_queries(to, &op->forward, room::rows, blocks);
    return launch(to->stream,
                  flash_backward_queries<T, kind, D, M, WARPS, STEP, held, blocks>,
                  dim3((unsigned)job.order.slots * (unsigned)job.heads),
                  dim3(WARPS * WARP), room::all * sizeof(T), job);
}

/* This kernel keeps the sums of two matrices in registers, the other kernel those of
 * one. */
template <typename T, enum flash_kind kind>
static cudaError_t flash_backward_choose_keys(const struct cuda_launch *to,
                                              const struct op_attention_backward *op)
{
    const size_t size = op->forward.head_size;
    constexpr bool capped = kind == FLASH_CAPPED;

    if (size <= 64)
        return flash_backward_put_keys<T, kind, 64, 64, 2, 4, 32, false, 2>(to, op);
    if (size <= 96)
        return flash_backward_put_keys<T, kind, 96, 96, 1, 8, 32, true, 1>(to, op);
    if (size <= 128) /* with a cap, too few registers are left to hold keys and values */
        return flash_backward_put_keys < T, kind, 128, 128, 1, capped ? 4 : 8,
               capped ? 16 : 32, !capped, 1 > (to, op);
    return flash_backward_put_keys<T, kind, 256, 128, 1, 4, 16, false, 1>(to, op);
}

/* Encoders and Gemma 3 have no heads of 32 or 192 columns. */
template <typename T, enum flash_kind kind>
static cudaError_t flash_backward_choose_all_keys(const struct cuda_launch *to,
                                                  const struct op_attention_backward *op)
{
    const size_t size = op->forward.head_size;

    if (size <= 32)
        return flash_backward_put_keys<T, kind, 32, 32, 2, 4, 32, false, 2>(to, op);
    if (size > 128 && size <= 192)
        return flash_backward_put_keys<T, kind, 192, 192, 1, 4, 16, false, 1>(to, op);
    return flash_backward_choose_keys<T, kind>(to, op);
}

template <typename T>
static cudaError_t flash_backward_launch_keys(const struct cuda_launch *to,
                                              const struct op_attention_backward *op)
{
    if (op->forward.dropout.p > 0)
        return flash_backward_put_keys<T, FLASH_DROPS, 64, 64, 2, 4, 32, false, 2>(to,
                                                                                   op);
    if (op->forward.key_offsets)
        return flash_backward_put_keys<T, FLASH_CROSSES, 128, 128, 1, 8, 32, true, 1>(to,
                                                                                      op);
    if (op->forward.reach)
        return flash_backward_choose_keys<T, FLASH_REACHES>(to, op);
    if (op->forward.softcap > 0)
        return flash_backward_choose_all_keys<T, FLASH_CAPPED>(to, op);
    return flash_backward_choose_all_keys<T, FLASH_BARE>(to, op);
}

template <typename T, enum flash_kind kind>
static cudaError_t flash_backward_choose_queries(const struct cuda_launch *to,
                                                 const struct op_attention_backward *op)
{
    const size_t size = op->forward.head_size;

    if (size <= 64)
        return to->shared_max >= (size_t)99 << 10
                   ? flash_backward_put_queries<T, kind, 64, 2, 4, 64, false, 2>(to, op)
                   : flash_backward_put_queries<T, kind, 64, 2, 4, 32, false, 2>(to, op);
    if (size <= 96)
        return flash_backward_put_queries<T, kind, 96, 1, 8, 32, true, 1>(to, op);
    if (size <= 128)
        return flash_backward_put_queries<T, kind, 128, 1, 8, 32, true, 1>(to, op);
    return flash_backward_put_queries<T, kind, 256, 1, 4, 16, false, 1>(to, op);
}

template <typename T>
static cudaError_t flash_backward_launch_queries(const struct cuda_launch *to,
                                                 const struct op_attention_backward *op)
{
    const size_t size = op->forward.head_size;

    if (op->forward.key_offsets)
        return flash_backward_put_queries<T, FLASH_CROSSES, 128, 1, 8, 32, true, 1>(to,
                                                                                    op);
    if (op->forward.reach)
        return flash_backward_choose_queries<T, FLASH_REACHES>(to, op);
    if (op->forward.dropout.p > 0)
        return flash_backward_put_queries<T, FLASH_DROPS, 64, 2, 4, 32, false, 2>(to, op);
    if (size <= 32)
        return flash_backward_put_queries<T, FLASH_BARE, 32, 2, 4, 64, false, 2>(to, op);
    if (size > 128 && size <= 192)
        return flash_backward_put_queries<T, FLASH_BARE, 192, 1, 4, 16, false, 1>(to, op);
    return flash_backward_choose_queries<T, FLASH_BARE>(to, op);
}

cudaError_t launch_flash_delta(const struct cuda_launch *to,
                               const struct op_attention_backward *op)
{
    return op->forward.q.format == FORMAT_FP16 ? flash_backward_put_delta<fp16>(to, op)
                                               : flash_backward_put_delta<bf16>(to, op);
}

template <typename T>
static cudaError_t flash_backward_launch(const struct cuda_launch *to,
                                         const struct op_attention_backward *op)
{
    cudaError_t status = launch_flash_delta(to, op);

    if (status == cudaSuccess)
        status = flash_backward_launch_keys<T>(to, op);
    if (status == cudaSuccess)
        status = flash_backward_launch_queries<T>(to, op);
    return status;
}

bool flash_backward_fits(const struct cuda_launch *to, size_t head_size)
{
    return head_size <= 128 || to->shared_max >= (size_t)99 << 10;
}

cudaError_t launch_flash_backward(const struct cuda_launch *to,
                                  const struct op_attention_backward *op)
{
    return op->forward.q.format == FORMAT_FP16 ? flash_backward_launch<fp16>(to, op)
                                               : flash_backward_launch<bf16>(to, op);
}
