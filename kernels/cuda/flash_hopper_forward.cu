/*
 * kernels/cuda/flash_hopper_forward.cu - attention for compute capability 9.0, head sizes
 * 64 and 128, as in Shah et al., "FlashAttention-3", 2024, without its tensor maps.
 *
 * A warpgroup computes the scores of a tile of keys while it multiplies the weights of the
 * previous one by its values, and turns them into weights while that continues. Keys come
 * last to first: the first tiles are those with a mask. Blocks are as many as
 * multiprocessors; each processes one tile of queries after another.
 *
 * For T rows, causal, a head takes 2 T^2 D flops and T^2 / 2 exponentials: with head size
 * 64 these take as long as the matmuls. Sums have a fixed order, which does not depend on
 * the block: a job gives the same bits each time.
 */
#include "kernels/cuda/flash_launch.h"

#include <limits.h>

#include "kernels/cuda/flash_hopper.cuh"

template <typename T> struct hopper_forward_job {
    hopper_stream<T> stream;
    flash_rows<T> out;
    float *lse;
    int rows;
    float scale; /* times log2(e) */
};

/* What a warpgroup has in registers. h: rows g and g + 8 of its fragments. */
template <int D, int KEYS> struct hopper_forward_state {
    float s[KEYS / 2], out[D / 2];
    uint32_t p[KEYS / 16][4];
    float largest[2], sum[2], shrink[2];
};

/* Turn scores into weights; shrink: the factor of sums and output so far. */
template <int D, int KEYS>
__device__ inline void hopper_forward_weigh(hopper_forward_state<D, KEYS> &x, float scale)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float largest = x.largest[h], sum = 0, base;

#pragma unroll
        for (int i = 2 * h; i < KEYS / 2; i += 4)
            largest = fmaxf(largest, fmaxf(x.s[i], x.s[i + 1]));
        largest = lanes_largest<4>(largest);
        base = largest == -INFINITY ? 0 : largest * scale;
        /* exactly 1 while the largest is unchanged */
        x.shrink[h] = exp2_fast(__fsub_rn(__fmul_rn(x.largest[h], scale), base));
#pragma unroll
        for (int i = 2 * h; i < KEYS / 2; i += 4) {
            x.s[i] = exp2_fast(fmaf(x.s[i], scale, -base));
            x.s[i + 1] = exp2_fast(fmaf(x.s[i + 1], scale, -base));
            sum += x.s[i] + x.s[i + 1];
        }
        x.sum[h] = fmaf(x.sum[h], x.shrink[h], sum);
        x.largest[h] = largest;
    }
}

template <int D, int KEYS>
__device__ inline void hopper_forward_rescale(hopper_forward_state<D, KEYS> &x)
{
    if (!__any_sync(FULL_WARP_MASK, x.shrink[0] != 1 || x.shrink[1] != 1))
        return;
#pragma unroll
    for (int i = 0; i < D / 2; i++)
        x.out[i] *= x.shrink[i % 4 / 2];
}

/* Start the scores of the count-th tile of the block. */
template <typename T, int D, int GROUPS, int KEYS>
__device__ inline void hopper_forward_scores(hopper_forward_state<D, KEYS> &x,
                                             hopper_room<T, D, GROUPS, KEYS, 1> *room,
                                             const T *q, int count)
{
    const T *keys = hopper_await<0>(room, count);

    hopper_begin();
    hopper_scores<T, D, 64 * GROUPS, KEYS>(x.s, q, keys);
    hopper_close();
}

/* Start multiplying its weights by its values. */
template <typename T, int D, int GROUPS, int KEYS>
__device__ inline void hopper_forward_values(hopper_forward_state<D, KEYS> &x,
                                             hopper_room<T, D, GROUPS, KEYS, 1> *room,
                                             int count)
{
    const T *values = hopper_await<1>(room, count);

    hopper_begin();
    hopper_add<T, D, KEYS>(x.out, x.p, values);
    hopper_close();
}

template <typename T, int D, int GROUPS, int KEYS>
__device__ inline void hopper_forward_attend(hopper_forward_state<D, KEYS> &x,
                                             hopper_room<T, D, GROUPS, KEYS, 1> *room,
                                             const T *q, struct hopper_span span,
                                             float scale)
{
    int count = span.count, tile = span.tile;

    hopper_forward_scores(x, room, q, count);
    hopper_wait<0>();
    hopper_settle(x.s);
    hopper_release<0>(room, count);
    hopper_mask(x.s, span.back - tile * KEYS);
    hopper_forward_weigh(x, scale);
    hopper_round<T, KEYS>(x.p, x.s);
    for (tile--; tile >= 0; tile--, count++) {
        hopper_forward_scores(x, room, q, count + 1);
        hopper_forward_values(x, room, count);
        hopper_wait<1>();
        hopper_settle(x.s);
        hopper_release<0>(room, count + 1);
        if (tile >= span.clear)
            hopper_mask(x.s, span.back - tile * KEYS);
        hopper_forward_weigh(x, scale);
        hopper_after(x.sum[0] + x.sum[1], &room->never);
        hopper_wait<0>();
        hopper_settle(x.out);
        hopper_release<1>(room, count);
        hopper_forward_rescale(x);
        hopper_round<T, KEYS>(x.p, x.s);
    }
    hopper_forward_values(x, room, count);
    hopper_wait<0>();
    hopper_settle(x.out);
    hopper_release<1>(room, count);
}

/* Write the rows' output and lse (one lane of four). */
template <typename T, int D, int KEYS>
__device__ inline void hopper_forward_close(hopper_forward_state<D, KEYS> &x,
                                            const hopper_forward_job<T> &job,
                                            const struct flash_position &place, int head)
{
    float *lse = job.lse + (int64_t)head * job.rows + place.row;
    int row = threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4;
    float factor[2];

#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = lanes_sum<4>(x.sum[h]);

        factor[h] = 1 / sum;
        if (threadIdx.x % 4 == 0 && row + 8 * h < place.left)
            lse[row + 8 * h] = fmaf(x.largest[h] * job.scale, FLASH_LN2, logf(sum));
    }
    hopper_store<D>(flash_head(job.out, place.row, head), row, place.left, x.out, factor);
}

template <typename T, int D, int GROUPS, int KEYS>
__device__ inline void hopper_forward_consume(hopper_room<T, D, GROUPS, KEYS, 1> *room,
                                              const hopper_forward_job<T> &job)
{
    int group = warpgroup_index(), count = 0, work;

    for (int turn = 0; (work = hopper_work(turn)) < job.stream.works; turn++) {
        int buffer = turn % 2;

        gate_wait(&room->own_full[buffer], hopper_parity(turn / 2));
        struct flash_position place = room->place[buffer];
        struct hopper_span span = hopper_span_of<64 * GROUPS, KEYS>(place, count);

        hopper_skip(room, count, span.skipped);
        count = span.count + span.tile + 1;
        if (span.tile >= 0) {
            hopper_forward_state<D, KEYS> x;

#pragma unroll
            for (int i = 0; i < D / 2; i++)
                x.out[i] = 0;
            x.largest[0] = x.largest[1] = -INFINITY;
            x.sum[0] = x.sum[1] = 0;
            hopper_forward_attend<T, D, GROUPS, KEYS>(
                x, room, room->own[buffer][0] + 64 * group * HOPPER_ROW, span, job.scale);
            hopper_forward_close(x, job, place, work % job.stream.heads);
        }
        __syncwarp();
        hopper_arrive(&room->own_empty[buffer]);
    }
}

template <typename T, int D, int GROUPS, int KEYS>
__global__ void __launch_bounds__((GROUPS + 1) * WARPGROUP, 1)
    flash_hopper_forward(const hopper_forward_job<T> job)
{
    typedef hopper_room<T, D, GROUPS, KEYS, 1> room_type;
    room_type *room = (room_type *)hopper_shared();

    hopper_open(room);
    if (warpgroup_index() == GROUPS) {
        registers_give<GROUPS == 2 ? 40 : 32>();
        hopper_produce(room, job.stream);
    } else {
        registers_take<GROUPS == 2 ? 232 : 160>();
        hopper_forward_consume<T, D, GROUPS, KEYS>(room, job);
    }
}

template <typename T, int D, int GROUPS, int KEYS>
static cudaError_t hopper_forward_put(const struct cuda_launch *to,
                                      const struct op_attention *op)
{
    hopper_forward_job<T> job;

    job.stream = hopper_stream_of<T>(op, flash_order_of_queries(to, op, 64 * GROUPS, 1));
    job.out = flash_rows_of<T>(op->out, op->head_size);
    job.lse = (float *)op->lse.data;
    job.rows = (int)op->lse.stride;
    job.scale = flash_exponent(op->scale, 0);
    return launch(to->stream, flash_hopper_forward<T, D, GROUPS, KEYS>,
                  dim3(hopper_blocks(to, job.stream.works)),
                  dim3((GROUPS + 1) * WARPGROUP),
                  sizeof(hopper_room<T, D, GROUPS, KEYS, 1>) + HOPPER_ATOM, job);
}

template <typename T>
static cudaError_t hopper_forward_choose(const struct cuda_launch *to,
                                         const struct op_attention *op)
{
    return op->head_size == 64 ? hopper_forward_put<T, 64, 3, 128>(to, op)
                               : hopper_forward_put<T, 128, 2, 128>(to, op);
}

bool flash_hopper_fits(const struct cuda_launch *to, const struct op_attention *op)
{
    return FLASH_HOPPER && to->capability == 90 && !op->reach && !op->key_offsets &&
           op->window == 0 && op->softcap <= 0 && op->dropout.p <= 0 &&
           (op->head_size == 64 || op->head_size == 128);
}

cudaError_t launch_flash_hopper_forward(const struct cuda_launch *to,
                                        const struct op_attention *op)
{
    if constexpr (FLASH_HOPPER)
        return op->q.format == FORMAT_FP16 ? hopper_forward_choose<fp16>(to, op)
                                           : hopper_forward_choose<bf16>(to, op);
    return cudaErrorNotSupported;
}
