/*
 * kernels/cuda/flash_hopper_backward.cu - gradients of attention for compute capability
 * 9.0, head sizes 64 and 128: the formulas and the two kernels of flash_backward.cu, one
 * for dk and dv, whose blocks own keys, and one for dq, whose blocks own queries. Every
 * sum has one owner and a fixed order: a job gives the same bits each time.
 *
 * In both, a warpgroup computes the scores of its 64 rows and a tile of the other side,
 * and the gradients of their weights; these stay in registers and are the left operand of
 * the next matmuls. While one warpgroup turns scores into weights, the other one
 * multiplies.
 */
#include "kernels/cuda/flash_launch.h"

#include <limits.h>

#include "kernels/cuda/flash_backward.cuh"
#include "kernels/cuda/flash_hopper.cuh"

/* ---- dq ---- */

/* What a warpgroup has in registers. */
template <int D, int KEYS> struct hopper_queries_state {
    float s[KEYS / 2], dp[KEYS / 2], dq[D / 2];
    uint32_t ds[KEYS / 16][4];
    float lse[2], delta[2];
};

/* Start a group of matmuls: s = a b^T, as hopper_scores. */
template <typename T, int D, int GROUPS, int N>
__device__ inline void hopper_backward_scores(float (&s)[N / 2], const T *a, const T *b)
{
    hopper_begin();
    hopper_scores<T, D, 64 * GROUPS, N>(s, a, b);
    hopper_close();
}

/* Turn scores into weights and their gradients into gradients of the scores: all columns
 * of a row have one lse and delta. */
template <typename X> __device__ inline void hopper_queries_weigh(X &x, float scale)
{
#pragma unroll
    for (int i = 0; i < (int)(sizeof(x.s) / sizeof(x.s[0])); i++)
        x.s[i] = exp2_fast(fmaf(x.s[i], scale, -x.lse[i % 4 / 2]));
}

template <typename X> __device__ inline void hopper_queries_gradients(X &x)
{
#pragma unroll
    for (int i = 0; i < (int)(sizeof(x.s) / sizeof(x.s[0])); i++)
        x.s[i] *= x.dp[i] - x.delta[i % 4 / 2];
}

/* All tiles of keys that the warpgroup sees; `own` has its rows of q and dout. */
template <typename T, int D, int GROUPS, int KEYS>
__device__ inline void hopper_queries_tiles(hopper_queries_state<D, KEYS> &x,
                                            hopper_room<T, D, GROUPS, KEYS, 2> *room,
                                            const T *(&own)[2], struct hopper_span span,
                                            float scale)
{
    int count = span.count;

    for (int tile = span.tile; tile >= 0; tile--, count++) {
        const T *keys = hopper_await<0>(room, count), *values;

        hopper_backward_scores<T, D, GROUPS, KEYS>(x.s, own[0], keys);
        values = hopper_await<1>(room, count);
        hopper_backward_scores<T, D, GROUPS, KEYS>(x.dp, own[1], values);
        hopper_wait<1>();
        hopper_settle(x.s);
        if (tile < span.tile)
            hopper_release<0>(room, count - 1);
        if (tile >= span.clear)
            hopper_mask(x.s, span.back - tile * KEYS);
        hopper_queries_weigh(x, scale);
        hopper_wait<0>();
        hopper_settle(x.dp);
        hopper_release<1>(room, count);
        hopper_queries_gradients(x);
        hopper_round<T, KEYS>(x.ds, x.s);
        hopper_begin();
        hopper_add<T, D, KEYS>(x.dq, x.ds, keys);
        hopper_close();
    }
    hopper_wait<0>();
    hopper_settle(x.dq);
    hopper_release<0>(room, count - 1);
}

/* Load what belongs to the lane's two rows. */
template <typename T, typename X>
__device__ inline void hopper_queries_open(X &x, const flash_backward_job<T> &job,
                                           const struct flash_position &place, int head)
{
    int row = threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4;

#pragma unroll
    for (int i = 0; i < (int)(sizeof(x.dq) / sizeof(x.dq[0])); i++)
        x.dq[i] = 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int at = row + 8 * h;
        bool there = at < place.left;

        /* infinity makes the weights of missing rows 0 */
        x.lse[h] = there ? job.lse[head * job.lse_stride + place.row + at] * FLASH_LOG2E
                         : INFINITY;
        x.delta[h] = there ? job.delta[head * job.delta_stride + place.row + at] : 0;
    }
}

template <typename T, int D, int GROUPS, int KEYS>
__device__ inline void hopper_queries_consume(hopper_room<T, D, GROUPS, KEYS, 2> *room,
                                              const hopper_stream<T> &stream,
                                              const flash_backward_job<T> &job)
{
    constexpr int rows = 64 * GROUPS;
    int count = 0, work;

    for (int turn = 0; (work = hopper_work(turn)) < stream.works; turn++) {
        int buffer = turn % 2, head = work % stream.heads;

        gate_wait(&room->own_full[buffer], hopper_parity(turn / 2));
        struct flash_position place = room->place[buffer];
        struct hopper_span span = hopper_span_of<rows, KEYS>(place, count);

        hopper_skip(room, count, span.skipped);
        count = span.count + span.tile + 1;
        if (span.tile >= 0) {
            hopper_queries_state<D, KEYS> x;
            int mine = 64 * warpgroup_index() * HOPPER_ROW;
            const T *own[2] = { room->own[buffer][0] + mine,
                                room->own[buffer][1] + mine };
            const float factor[2] = { job.scale, job.scale };

            hopper_queries_open(x, job, place, head);
            hopper_queries_tiles<T, D, GROUPS, KEYS>(x, room, own, span, job.scale_log2);
            hopper_store<D>(flash_head(job.dq, place.row, head),
                            threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4, place.left,
                            x.dq, factor);
        }
        __syncwarp();
        hopper_arrive(&room->own_empty[buffer]);
    }
}

template <typename T, int D, int GROUPS, int KEYS>
__global__ void __launch_bounds__((GROUPS + 1) * WARPGROUP, 1)
    flash_hopper_queries(const hopper_stream<T> stream, const flash_backward_job<T> job)
{
    typedef hopper_room<T, D, GROUPS, KEYS, 2> room_type;
    room_type *room = (room_type *)hopper_shared();

    hopper_open(room);
    if (warpgroup_index() == GROUPS) {
        registers_give<GROUPS == 2 ? 40 : 32>();
        hopper_produce(room, stream);
    } else {
        registers_take<GROUPS == 2 ? 232 : 160>();
        hopper_queries_consume<T, D, GROUPS, KEYS>(room, stream, job);
    }
}

template <typename T, int D, int GROUPS, int KEYS>
static cudaError_t hopper_queries_put(const struct cuda_launch *to,
                                      const struct op_attention_backward *op)
{
    flash_backward_job<T> job = flash_backward_describe<T>(op);
    hopper_stream<T> stream = hopper_stream_of<T>(
        &op->forward, flash_order_of_queries(to, &op->forward, 64 * GROUPS, 1));

    stream.own[1] = job.dout;
    return launch(to->stream, flash_hopper_queries<T, D, GROUPS, KEYS>,
                  dim3(hopper_blocks(to, stream.works)), dim3((GROUPS + 1) * WARPGROUP),
                  sizeof(hopper_room<T, D, GROUPS, KEYS, 2>) + HOPPER_ATOM, stream, job);
}

/* ---- dk and dv ---- */

/*
 * Shared memory of a block that owns 64 GROUPS keys of a head: k and v of these, and tiles
 * of STEP queries, buffer 2 i with q and lse, buffer 2 i + 1 with dout and delta.
 */
template <typename T, int D, int GROUPS, int STEP> struct hopper_keys_room {
    static constexpr int rows = 64 * GROUPS;

    T own[2][rows * D];
    T buffer[HOPPER_BUFFERS][STEP * D];
    float2 values[HOPPER_BUFFERS][STEP / 2]; /* of the rows of a buffer */
    uint64_t own_full[2], own_empty[2], full[HOPPER_BUFFERS], empty[HOPPER_BUFFERS];
};

/* The queries that a block passes: those of each head of a group from the block's first
 * key on, in `steps` tiles each. */
struct hopper_keys_span {
    struct flash_position place;
    int kv_head, steps;
};

/* A warp copies its part of k and v, and then all tiles of its buffer. */
template <typename T, int D, int GROUPS, int STEP>
__device__ inline void hopper_keys_produce(hopper_keys_room<T, D, GROUPS, STEP> *room,
                                           const flash_backward_job<T> &job,
                                           const struct hopper_keys_span &span)
{
    constexpr int rows = 64 * GROUPS, part = rows / HOPPER_BUFFERS, each = STEP / WARP;
    int mine = threadIdx.x / WARP % HOPPER_BUFFERS, lane = threadIdx.x % WARP, use = 0;
    int row = span.place.row, left = span.place.left;

    hopper_load<D, rows, part>(room->own[0], flash_head(job.k, row, span.kv_head),
                               part * mine, part * mine, left);
    hopper_load<D, rows, part>(room->own[1], flash_head(job.v, row, span.kv_head),
                               part * mine, part * mine, left);
    copies_close();
    copies_wait<0>();
    hopper_deliver(&room->own_full[0]);
    for (int i = mine / 2; i < job.group * span.steps; i += HOPPER_STAGES, use++) {
        int head = span.kv_head * job.group + i / span.steps;
        int first = i % span.steps * STEP;
        const float *from = mine % 2 ? job.delta + head * job.delta_stride
                                     : job.lse + head * job.lse_stride;
        float value[each];

        gate_wait(&room->empty[mine], hopper_parity(use + 1));
        hopper_load<D, STEP, STEP>(room->buffer[mine],
                                   flash_head(mine % 2 ? job.dout : job.q, row, head), 0,
                                   first, left);
        copies_close();
#pragma unroll
        for (int j = 0; j < each; j++) {
            int at = first + j * WARP + lane;

            /* infinity makes the weights of missing rows 0 */
            value[j] = at < left ? from[row + at] : mine % 2 ? 0 : INFINITY;
        }
#pragma unroll
        for (int j = 0; j < each; j++)
            ((float *)room->values[mine])[j * WARP + lane] =
                mine % 2 ? value[j] : value[j] * FLASH_LOG2E;
        copies_wait<0>();
        hopper_deliver(&room->full[mine]);
    }
}

/* What a warpgroup has in registers. */
template <int D, int STEP> struct hopper_keys_state {
    float s[STEP / 2], dp[STEP / 2], dk[D / 2], dv[D / 2];
    uint32_t p[STEP / 16][4];
};

/* Set scores of queries before the lane's key to -inf; ahead: from its first query to
 * it. */
template <int N> __device__ inline void hopper_keys_mask(float (&s)[N], int ahead)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i / 4 * 8 + i % 2 < ahead + i % 4 / 2 * 8)
            s[i] = -INFINITY;
}

/* Turn scores into weights; all rows of a column have one lse. */
template <int N>
__device__ inline void hopper_keys_weigh(float (&s)[N], const float2 *lse, float scale)
{
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        float2 of = lse[i + threadIdx.x % 4];

        s[i] = exp2_fast(fmaf(s[i], scale, -of.x));
        s[i + 1] = exp2_fast(fmaf(s[i + 1], scale, -of.y));
        s[i + 2] = exp2_fast(fmaf(s[i + 2], scale, -of.x));
        s[i + 3] = exp2_fast(fmaf(s[i + 3], scale, -of.y));
    }
}

/* Turn weights into gradients of the scores, without the scale. */
template <int N>
__device__ inline void hopper_keys_gradients(float (&s)[N], const float (&dp)[N],
                                             const float2 *delta)
{
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        float2 of = delta[i + threadIdx.x % 4];

        s[i] *= dp[i] - of.x;
        s[i + 1] *= dp[i + 1] - of.y;
        s[i + 2] *= dp[i + 2] - of.x;
        s[i + 3] *= dp[i + 3] - of.y;
    }
}

/* The tiles of queries from number `first` on, of one head; the block has passed `count`
 * tiles before its tile 0. back: the lane's first key, minus its first column. */
struct hopper_keys_tiles {
    int count, first, tiles, back;
};

template <typename T, int D, int GROUPS, int STEP>
__device__ inline void hopper_keys_head(hopper_keys_state<D, STEP> &x,
                                        hopper_keys_room<T, D, GROUPS, STEP> *room,
                                        const struct hopper_keys_tiles &all, float scale)
{
    int mine = 64 * warpgroup_index();
    const T *k = room->own[0] + mine * HOPPER_ROW, *v = room->own[1] + mine * HOPPER_ROW;

    for (int tile = all.first; tile < all.tiles; tile++) {
        int count = all.count + tile, buffer = count % HOPPER_STAGES * 2;
        const T *q = hopper_await<0>(room, count), *dout;

        hopper_backward_scores<T, D, GROUPS, STEP>(x.s, k, q);
        hopper_wait<1>(); /* for dk of the previous tile */
        hopper_settle(x.dk);
        if (tile > all.first)
            hopper_release<0>(room, count - 1);
        dout = hopper_await<1>(room, count);
        hopper_backward_scores<T, D, GROUPS, STEP>(x.dp, v, dout);
        hopper_wait<1>();
        hopper_settle(x.s);
        if (tile * STEP < mine + 63)
            hopper_keys_mask(x.s, all.back - tile * STEP);
        hopper_keys_weigh(x.s, room->values[buffer], scale);
        hopper_round<T, STEP>(x.p, x.s);
        hopper_begin();
        hopper_add<T, D, STEP>(x.dv, x.p, dout);
        hopper_close();
        hopper_wait<1>();
        hopper_settle(x.dp);
        hopper_keys_gradients(x.s, x.dp, room->values[buffer + 1]);
        hopper_wait<0>();
        hopper_settle(x.dv);
        hopper_release<1>(room, count);
        hopper_round<T, STEP>(x.p, x.s);
        hopper_begin();
        hopper_add<T, D, STEP>(x.dk, x.p, q);
        hopper_close();
    }
    hopper_wait<0>();
    hopper_settle(x.dk);
    hopper_release<0>(room, all.count + all.tiles - 1);
}

template <typename T, int D, int GROUPS, int STEP>
__device__ inline void hopper_keys_consume(hopper_keys_room<T, D, GROUPS, STEP> *room,
                                           const flash_backward_job<T> &job,
                                           const struct hopper_keys_span &span)
{
    int mine = 64 * warpgroup_index(),
        row = threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4;
    struct hopper_keys_tiles all = { 0, mine / STEP, span.steps,
                                     row - (int)threadIdx.x % 4 * 2 };
    hopper_keys_state<D, STEP> x;
    const float one[2] = { 1, 1 }, scale[2] = { job.scale, job.scale };

    gate_wait(&room->own_full[0], 0);
#pragma unroll
    for (int i = 0; i < D / 2; i++)
        x.dk[i] = x.dv[i] = 0;
    if (mine >= span.place.left) {
        hopper_skip(room, 0, job.group * span.steps);
        return;
    }
    for (int i = 0; i < job.group; i++, all.count += all.tiles) {
        hopper_skip(room, all.count, all.first);
        hopper_keys_head<T, D, GROUPS, STEP>(x, room, all, job.scale_log2);
    }
    hopper_store<D>(flash_head(job.dv, span.place.row, span.kv_head), row,
                    span.place.left, x.dv, one);
    hopper_store<D>(flash_head(job.dk, span.place.row, span.kv_head), row,
                    span.place.left, x.dk, scale);
}

template <typename T, int D, int GROUPS, int STEP>
__global__ void __launch_bounds__((GROUPS + 1) * WARPGROUP, 1)
    flash_hopper_keys(const flash_backward_job<T> job)
{
    typedef hopper_keys_room<T, D, GROUPS, STEP> room_type;
    room_type *room = (room_type *)hopper_shared();
    struct hopper_keys_span span;

    span.kv_head = blockIdx.x % job.kv_heads;
    if (!flash_find<room_type::rows, true>(&span.place, job.order,
                                           (int)(blockIdx.x / job.kv_heads)))
        return;
    span.steps = (span.place.left + STEP - 1) / STEP;
    hopper_open(room);
    if (warpgroup_index() == GROUPS) {
        registers_give<GROUPS == 3 ? 32 : D == 64 ? 40 : 24>();
        hopper_keys_produce(room, job, span);
    } else {
        registers_take<GROUPS == 3 ? 160 : D == 64 ? 232 : 240>();
        hopper_keys_consume<T, D, GROUPS, STEP>(room, job, span);
    }
}

template <typename T, int D, int GROUPS, int STEP>
static cudaError_t hopper_keys_put(const struct cuda_launch *to,
                                   const struct op_attention_backward *op)
{
    flash_backward_job<T> job = flash_backward_describe<T>(op);

    /* a slot without rows costs little compared with the heads of a group */
    job.order = flash_order_of(&op->forward, 64 * GROUPS, 0, 4 + 2 * (size_t)job.group);
    return launch(to->stream, flash_hopper_keys<T, D, GROUPS, STEP>,
                  dim3((unsigned)job.order.slots * (unsigned)job.kv_heads),
                  dim3((GROUPS + 1) * WARPGROUP),
                  sizeof(hopper_keys_room<T, D, GROUPS, STEP>) + HOPPER_ATOM, job);
}

/* Steps are as wide as the registers allow: a matmul of 64 columns reads as many bytes of
 * its left operand as of its right one. */
template <typename T>
static cudaError_t hopper_backward_choose(const struct cuda_launch *to,
                                          const struct op_attention_backward *op)
{
    bool small = op->forward.head_size == 64;
    cudaError_t status = launch_flash_delta(to, op);

    if (status == cudaSuccess)
        status = small ? hopper_keys_put<T, 64, 2, 96>(to, op)
                       : hopper_keys_put<T, 128, 2, 64>(to, op);
    if (status == cudaSuccess)
        status = small ? hopper_queries_put<T, 64, 2, 128>(to, op)
                       : hopper_queries_put<T, 128, 2, 96>(to, op);
    return status;
}

cudaError_t launch_flash_hopper_backward(const struct cuda_launch *to,
                                         const struct op_attention_backward *op)
{
    if constexpr (FLASH_HOPPER)
        return op->forward.q.format == FORMAT_FP16 ? hopper_backward_choose<fp16>(to, op)
                                                   : hopper_backward_choose<bf16>(to, op);
    return cudaErrorNotSupported;
}
