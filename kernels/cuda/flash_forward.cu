/*
 * kernels/cuda/flash_forward.cu - attention on tensor cores for fp16 and bf16, as in Dao,
 * "FlashAttention-2", 2023: scores never leave the registers.
 *
 * A block has ROWS = 16 M WARPS queries of a head and iterates over the keys they see.
 * The next tile of keys is copied while the weights are multiplied by the values, the
 * next tile of values while the queries are multiplied by the keys. Weights are 2^(scale
 * log2(e) score - base), base being the largest so far of the row, and are rounded to the
 * operands' format before they are multiplied by v. Dropped weights count in the row's
 * sum and are 0 in that matmul.
 *
 * For T rows, causal, a head takes 2 T^2 D flops (not causal: 4 T^2 D) and T^2 / 2
 * exponentials. Memory: 8 T D bytes if k and v are read once, T / 4 flops per byte, so
 * tensor cores are the floor above T = 620 on an A100 and 830 on an H200. L2: 2 T^2 D /
 * ROWS bytes, ROWS flops per byte. Shared memory: 512 bytes for 2 M matmuls of 16 x 8 x
 * 16, and 512 M for as many as KEYS / 8 M where q is not held in registers. Dropout: 12
 * instructions per weight, most of them for its random bits.
 */
#include "kernels/cuda/flash_launch.h"

#include <limits.h>

#include "kernels/cuda/flash.cuh"
#include "kernels/cuda/flash_dropout.cuh"

template <typename T> struct flash_forward_job {
    flash_rows<const T> q, k, v;
    flash_rows<T> out;
    const int32_t *reach, *key_offsets;
    float *lse;
    int rows, heads, group, window;
    struct flash_order order;
    float scale; /* times log2(e) */
    float cap;   /* of flash_cap, or 0 */
    struct drops drops;
};

/* Set scores of keys that a query does not see to -inf. row: the lane's first query; key:
 * its first key. */
template <int M, int N>
__device__ inline void flash_forward_mask(float (&s)[M][N][4], const int32_t *reach,
                                          const struct flash_place &place, int row,
                                          int key, int window)
{
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int query = row + 8 * i, end = flash_reach(reach, place, query);

#pragma unroll
        for (int n = 0; n < 2 * N; n++) {
            int here = key + 8 * (n / 2) + n % 2;

            if (here >= end || query - here >= window)
                s[i / 2][n / 2][i % 2 * 2 + n % 2] = -INFINITY;
        }
    }
}

/* A lane's share of the softmax of rows g and g + 8 of each fragment. */
template <int M> struct flash_softmax {
    float largest[M][2]; /* largest score so far */
    float sum[M][2];     /* of this lane's weights */
};

/* The largest score of a row that has seen no key is -inf: use 0, so that its weights are
 * 0. */
__device__ inline float flash_forward_base(float largest, float scale)
{
    return largest == -INFINITY ? 0 : largest * scale;
}

/* Turn scores into weights, and rescale the sums and the output so far to the new
 * base. */
template <typename T, int M, int N, int C>
__device__ inline void
flash_forward_weigh(uint32_t (&weights)[M][N][2], float (&out)[M][C][4],
                    flash_softmax<M> &softmax, const float (&s)[M][N][4], float scale)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float largest = softmax.largest[m][h], sum = 0, base, shrink;

#pragma unroll
            for (int n = 0; n < N; n++)
                largest = fmaxf(largest, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
            largest = lanes_largest<4>(largest);
            base = flash_forward_base(largest, scale);
            /* Computed from the rounded product, so that it is exactly 1 while the
             * largest is unchanged. */
            shrink = exp2_fast(__fsub_rn(__fmul_rn(softmax.largest[m][h], scale), base));
#pragma unroll
            for (int n = 0; n < N; n++) {
                float low = exp2_fast(fmaf(s[m][n][2 * h], scale, -base));
                float high = exp2_fast(fmaf(s[m][n][2 * h + 1], scale, -base));

                sum += low + high;
                weights[m][n][h] = flash_pack<T>(low, high);
            }
            softmax.sum[m][h] = fmaf(softmax.sum[m][h], shrink, sum);
            softmax.largest[m][h] = largest;
#pragma unroll
            for (int c = 0; c < C; c++) {
                out[m][c][2 * h] *= shrink;
                out[m][c][2 * h + 1] *= shrink;
            }
        }
}

/* Set the factors of rows that see no key to 0. */
template <int M>
__device__ inline void flash_forward_blind(float (&factor)[M][2], const int32_t *reach,
                                           const struct flash_place &place, int row)
{
#pragma unroll
    for (int i = 0; i < 2 * M; i++)
        if (flash_reach(reach, place, row + 8 * i) <= 0)
            factor[i / 2][i % 2] = 0;
}

/* Compute the factors that turn the sums into out, given the sums' own factor `of_sums`,
 * and write the rows' lse (one lane of four writes). */
template <int M>
__device__ inline void flash_forward_close(float (&factor)[M][2], float *lse, int row,
                                           int end, const flash_softmax<M> &softmax,
                                           float scale, float of_sums)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float sum = softmax.sum[m][h];
            int at = row + 16 * m + 8 * h;

            sum = lanes_sum<4>(sum);
            factor[m][h] = of_sums / sum;
            if (threadIdx.x % 4 == 0 && at < end)
                lse[at] = fmaf(flash_forward_base(softmax.largest[m][h], scale),
                               FLASH_LN2, logf(sum));
        }
}

template <typename T, enum flash_kind kind, int D, int M, int WARPS, int KEYS, bool held,
          int blocks>
__global__ void __launch_bounds__(WARPS *WARP, blocks)
    flash_forward(const flash_forward_job<T> job)
{
    constexpr int ROWS = 16 * M * WARPS, THREADS = WARPS * WARP;
    constexpr int pitch = flash_tile<D>::pitch;
    constexpr bool drops = kind == FLASH_DROPS, crosses = kind == FLASH_CROSSES;
    const int32_t *reach = crosses || kind == FLASH_REACHES ? job.reach : NULL;
    int head = blockIdx.x % job.heads, kv_head = head / job.group;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    T *q_tile = (T *)shared_memory(), *k_tile = q_tile + ROWS * pitch,
      *v_tile = k_tile + KEYS * pitch;
    struct flash_place place;
    uint32_t site = drops ? dropout_bits_site(job.drops) : 0;

    if (!flash_find<ROWS, false>(&place, job.order, (int)(blockIdx.x / job.heads)))
        return;
    flash_face(&place, crosses ? job.order.offsets : NULL, job.key_offsets,
               job.order.sequences);

    flash_rows<const T> k = flash_head(job.k, place.origin, kv_head);
    flash_rows<const T> v = flash_head(job.v, place.origin, kv_head);

    /* Keys that any of the rows sees, and the warp's own rows. */
    int back = crosses ? 0 : place.before < job.window ? place.before : job.window - 1;
    int rows = place.left < ROWS ? place.left : ROWS;
    int key = -((back + KEYS - 1) / KEYS * KEYS),
        end = flash_reach(reach, place, rows - 1);
    int mine = 16 * M * warp, last = mine + 16 * M - 1;
    /* of the keys that all of the warp's rows reach, and that any of them does */
    int near = flash_reach(reach, place, mine), far = flash_reach(reach, place, last);

    static_assert(ROWS % KEYS == 0, "tiles of keys begin with the first of a sequence");
    static_assert(!drops || KEYS % 32 == 0, "tiles have all keys of a block of bits");
    flash_load<D, ROWS, THREADS>(q_tile, flash_head(job.q, place.row, head), 0, rows);
    copies_close();
    flash_load<D, KEYS, THREADS>(k_tile, k, key, end);
    copies_close();
    if (held) {
        copies_wait<1>();
        __syncthreads();
    }

    flash_left<T, D, M, held> left(q_tile + 16 * M * warp * pitch);
    flash_view<T, D> keys(k_tile, false), values(v_tile, true);
    flash_softmax<M> softmax;
    float sum[M][D / 8][4];

    flash_zero(sum);
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        softmax.largest[i / 2][i % 2] = -INFINITY;
        softmax.sum[i / 2][i % 2] = 0;
    }
    for (; key < end; key += KEYS) {
        bool seen = key < far && mine - (key + KEYS - 1) < job.window;
        uint32_t weights[M][KEYS / 8][2];

        copies_wait<0>();
        __syncthreads();
        flash_load<D, KEYS, THREADS>(v_tile, v, key, end);
        copies_close();
        if (seen) {
            float s[M][KEYS / 8][4];

            flash_zero(s);
            flash_scores(s, left, keys);
            if (kind == FLASH_BARE && job.cap > 0)
                flash_cap(s, job.cap);
            if (key + KEYS > near || last - key >= job.window)
                flash_forward_mask(s, reach, place, mine + lane / 4, key + lane % 4 * 2,
                                   job.window);
            flash_forward_weigh<T>(weights, sum, softmax, s, job.scale);
            if (drops)
                flash_drops_weights(weights, dropout_bits_head_of(job.drops, site, head),
                                    place.row + mine + lane / 4, place.before + key);
        }
        copies_wait<0>();
        __syncthreads();
        if (key + KEYS < end)
            flash_load<D, KEYS, THREADS>(k_tile, k, key + KEYS, end);
        copies_close();
        if (seen)
            flash_add(sum, weights, values);
    }

    float factor[M][2];

    if (crosses) { /* without keys, the copies have not been waited for */
        copies_wait<0>();
        __syncthreads();
    }
    flash_forward_close(factor, job.lse + (int64_t)head * job.rows + place.row,
                        mine + lane / 4, rows, softmax, job.scale,
                        drops ? job.drops.factor : 1);
    if (crosses)
        flash_forward_blind(factor, reach, place, mine + lane / 4);
    flash_store<D>(flash_head(job.out, place.row, head), mine, rows,
                   q_tile + 16 * M * warp * pitch, sum, factor);
}

template <typename T, enum flash_kind kind, int D, int M, int WARPS, int KEYS, bool held,
          int blocks>
static cudaError_t flash_forward_put(const struct cuda_launch *to,
                                     const struct op_attention *op)
{
    const size_t rows = 16 * M * WARPS;
    flash_forward_job<T> job;

    job.q = flash_rows_of<const T>(op->q, op->head_size);
    job.k = flash_rows_of<const T>(op->k, op->head_size);
    job.v = flash_rows_of<const T>(op->v, op->head_size);
    job.out = flash_rows_of<T>(op->out, op->head_size);
    job.reach = op->reach;
    job.key_offsets = op->key_offsets;
    job.lse = (float *)op->lse.data;
    job.rows = (int)op->lse.stride;
    job.heads = (int)op->heads;
    job.group = (int)(op->heads / op->kv_heads);
    job.window = op->window == 0 || op->window > INT_MAX ? INT_MAX : (int)op->window;
    job.order = flash_order_of_queries(to, op, rows, blocks);
    job.scale = flash_exponent(op->scale, op->softcap);
    job.cap = flash_cap_factor(op->scale, op->softcap);
    job.drops = dropout_bits_of(&op->dropout);
    return launch(to->stream, flash_forward<T, kind, D, M, WARPS, KEYS, held, blocks>,
                  dim3((unsigned)job.order.slots * (unsigned)op->heads),
                  dim3(WARPS * WARP),
                  (rows + 2 * KEYS) * flash_tile<D>::pitch * sizeof(T), job);
}

/*
 * Use a smaller block where two of the larger would not fit on a multiprocessor. Where a
 * warp has 32 queries (M 2), a fragment of keys serves two matmuls, but only GPUs like
 * the A100 have tensor cores fast enough for that to matter.
 */
template <typename T, enum flash_kind kind>
static cudaError_t flash_forward_choose(const struct cuda_launch *to,
                                        const struct op_attention *op)
{
    bool large = to->shared_max >= (size_t)160 << 10;

    if (op->head_size <= 64)
        return flash_forward_put<T, kind, 64, 2, 4, 64, false, 2>(to, op);
    if (op->head_size <= 96)
        return flash_forward_put<T, kind, 96, 2, 4, 64, false, 2>(to, op);
    if (op->head_size <= 128)
        return large ? flash_forward_put<T, kind, 128, 2, 4, 64, false, 2>(to, op)
                     : flash_forward_put<T, kind, 128, 1, 8, 32, true, 1>(to, op);
    return large ? flash_forward_put<T, kind, 256, 1, 8, 64, false, 1>(to, op)
                 : flash_forward_put<T, kind, 256, 1, 4, 16, false, 1>(to, op);
}

/* Encoders and Gemma 3 have no heads of 32 or 192 columns; if others do, the next larger
 * tiles serve. */
template <typename T>
static cudaError_t flash_forward_launch(const struct cuda_launch *to,
                                        const struct op_attention *op)
{
    bool large = to->shared_max >= (size_t)160 << 10;

    if (op->key_offsets)
        return large
                   ? flash_forward_put<T, FLASH_CROSSES, 128, 2, 4, 64, false, 2>(to, op)
                   : flash_forward_put<T, FLASH_CROSSES, 128, 1, 8, 32, true, 1>(to, op);
    if (op->reach)
        return flash_forward_choose<T, FLASH_REACHES>(to, op);
    if (op->dropout.p > 0)
        return flash_forward_put<T, FLASH_DROPS, 64, 2, 4, 64, false, 2>(to, op);
    if (op->head_size <= 32)
        return flash_forward_put<T, FLASH_BARE, 32, 2, 4, 64, false, 3>(to, op);
    if (op->head_size > 128 && op->head_size <= 192)
        return large ? flash_forward_put<T, FLASH_BARE, 192, 1, 8, 64, false, 1>(to, op)
                     : flash_forward_put<T, FLASH_BARE, 192, 1, 4, 32, false, 1>(to, op);
    return flash_forward_choose<T, FLASH_BARE>(to, op);
}

cudaError_t launch_flash_forward(const struct cuda_launch *to,
                                 const struct op_attention *op)
{
    return op->q.format == FORMAT_FP16 ? flash_forward_launch<fp16>(to, op)
                                       : flash_forward_launch<bf16>(to, op);
}
