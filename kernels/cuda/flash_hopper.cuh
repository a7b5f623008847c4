/*
 * kernels/cuda/flash_hopper.cuh - code shared by the attention kernels for compute
 * capability 9.0: tiles in the layout that matmuls of a warpgroup read (hopper.cuh), and
 * those matmuls.
 *
 * A tile has rows of 64 elements (128 bytes); with head size 128, two tiles of that kind
 * follow each other, one for each half of the columns.
 */
#ifndef KERNELS_CUDA_FLASH_HOPPER_CUH
#define KERNELS_CUDA_FLASH_HOPPER_CUH

#include "kernels/cuda/flash.cuh"
#include "kernels/cuda/hopper.cuh"

#ifndef FLASH_HOPPER
#define FLASH_HOPPER 0 /* 1: the file is compiled for sm_90a */
#endif

enum { HOPPER_ROW = 64 /* elements of a row of a tile */ };

/* Return the first address of a tile in shared memory: 1024 bytes aligned. */
__device__ inline char *hopper_shared()
{
    char *at = (char *)shared_memory();

    return at + (HOPPER_ATOM - hopper_address(at) % HOPPER_ATOM) % HOPPER_ATOM;
}

/* Start copying rows first .. of a matrix, with zeros from row `end` on, to rows `begin`
 * .. begin + count - 1 of a tile of `rows` rows. A warp does it. */
template <int D, int rows, int count, typename T>
__device__ inline void hopper_load(T *tile, flash_rows<const T> from, int begin,
                                   int first, int end)
{
    constexpr int lanes = 8, step = WARP / lanes;
    int lane = threadIdx.x % WARP, row = begin + lane / lanes, chunk = lane % lanes;
    const T *data = from.data + (int64_t)(first + row - begin) * from.stride + 8 * chunk;

    static_assert(count % 8 == 0, "rows in whole atoms");
#pragma unroll 2
    for (int i = 0; i < count; i += step) {
        T *to = tile + (row + i) * HOPPER_ROW + 8 * (chunk ^ (row + i) % 8);
        bool there = first + row - begin + i < end;

#pragma unroll
        for (int j = 0; j < D; j += HOPPER_ROW)
            copy_16_bytes(to + j * rows, data + j, there);
        data += step * from.stride;
    }
}

/* Let one lane of the warp arrive for it. */
__device__ inline void hopper_arrive(uint64_t *gate)
{
    if (threadIdx.x % WARP == 0)
        gate_arrive(gate);
}

/* The warp's copies have ended: publish them at a gate for one arrival. */
__device__ inline void hopper_deliver(uint64_t *gate)
{
    hopper_publish();
    __syncwarp();
    hopper_arrive(gate);
}

/*
 * A block that owns tiles of queries: GROUPS warpgroups with 64 rows each, and one whose
 * four warps copy. Each of these owns one of four buffers, so that it can wait for its
 * copies: buffer 2 i has tile i of the keys, buffer 2 i + 1 that of the values, of stages
 * i = 0, 1. The block's rows of OWN matrices have two buffers: those of its next tile are
 * copied ahead.
 */
enum { HOPPER_STAGES = 2, HOPPER_BUFFERS = 2 * HOPPER_STAGES };

template <typename T, int D, int GROUPS, int STEP, int OWN> struct hopper_room {
    static constexpr int rows = 64 * GROUPS;

    T own[2][OWN][rows * D];
    T buffer[HOPPER_BUFFERS][STEP * D];
    uint64_t own_full[2], own_empty[2], full[HOPPER_BUFFERS], empty[HOPPER_BUFFERS];
    struct flash_position place[2];
    float never; /* not written */
};

template <typename T> struct hopper_stream {
    flash_rows<const T> own[2], k, v;
    int heads, group, works; /* works: tiles of queries of all heads */
    struct flash_order order;
};

template <typename T>
static inline hopper_stream<T> hopper_stream_of(const struct op_attention *op,
                                                struct flash_order order)
{
    hopper_stream<T> stream;

    stream.own[0] = stream.own[1] = flash_rows_of<const T>(op->q, op->head_size);
    stream.k = flash_rows_of<const T>(op->k, op->head_size);
    stream.v = flash_rows_of<const T>(op->v, op->head_size);
    stream.heads = (int)op->heads;
    stream.group = (int)(op->heads / op->kv_heads);
    stream.works = order.slots * (int)op->heads;
    stream.order = order;
    return stream;
}

/* Return the number of blocks for these works: at most one per multiprocessor. */
static inline unsigned hopper_blocks(const struct cuda_launch *to, int works)
{
    return (unsigned)(works < to->multiprocessors ? works : to->multiprocessors);
}

/* Return the i-th work of this block. They are ordered by work; turning back each time
 * gives all blocks the same. */
__device__ inline int hopper_work(int i)
{
    int blocks = gridDim.x, here = blockIdx.x;

    return i * blocks + (i % 2 ? blocks - 1 - here : here);
}

/* Return the parity of the phase of a gate that ends with its use number `use`. */
__device__ inline int hopper_parity(int use)
{
    return use & 1;
}

template <typename R> __device__ inline void hopper_open(R *room)
{
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            gate_init(&room->own_full[i], HOPPER_BUFFERS);
            gate_init(&room->own_empty[i], R::rows / 16);
        }
        for (int i = 0; i < HOPPER_BUFFERS; i++) {
            gate_init(&room->full[i], 1);
            gate_init(&room->empty[i], R::rows / 16);
        }
    }
    __syncthreads();
}

/* Return the number of tiles of keys that a tile of queries sees. */
template <int rows, int STEP>
__device__ inline int hopper_tiles(const struct flash_position &place)
{
    int mine = place.left < rows ? place.left : rows;

    return place.left <= 0 ? 0 : (place.before + mine + STEP - 1) / STEP;
}

/* A warp copies its part of the block's own rows of a work. */
template <typename T, int D, int GROUPS, int STEP, int OWN>
__device__ inline void hopper_produce_own(hopper_room<T, D, GROUPS, STEP, OWN> *room,
                                          const hopper_stream<T> &job,
                                          const struct flash_position &place, int head,
                                          int buffer)
{
    constexpr int rows = 64 * GROUPS, part = rows / HOPPER_BUFFERS;
    int mine = threadIdx.x / WARP % HOPPER_BUFFERS;

    if (mine == 0 && threadIdx.x % WARP == 0)
        room->place[buffer] = place;
    if (place.left > 0)
#pragma unroll
        for (int i = 0; i < OWN; i++)
            hopper_load<D, rows, part>(room->own[buffer][i],
                                       flash_head(job.own[i], place.row, head),
                                       part * mine, part * mine, place.left);
    copies_close();
}

/* A warp that copies: its part of the rows of each tile of queries, and all tiles of its
 * buffer, from the last one the queries see to the first. */
template <typename T, int D, int GROUPS, int STEP, int OWN>
__device__ inline void hopper_produce(hopper_room<T, D, GROUPS, STEP, OWN> *room,
                                      const hopper_stream<T> &job)
{
    constexpr int rows = 64 * GROUPS;
    int mine = threadIdx.x / WARP % HOPPER_BUFFERS, stage = mine / 2, count = 0, work;

    for (int turn = 0; (work = hopper_work(turn)) < job.works; turn++) {
        int head = work % job.heads, buffer = turn % 2;
        struct flash_position place;

        if (!flash_find<rows, false>(&place, job.order, work / job.heads))
            place.left = 0;
        int tiles = hopper_tiles<rows, STEP>(place);
        int end = place.before + (place.left < rows ? place.left : rows);
        bool pending = true;
        flash_rows<const T> from = flash_head(mine % 2 ? job.v : job.k,
                                              place.row - place.before, head / job.group);

        gate_wait(&room->own_empty[buffer], hopper_parity(turn / 2 + 1));
        hopper_produce_own(room, job, place, head, buffer);
        for (int i = (stage - count) & 1; i < tiles; i += HOPPER_STAGES) {
            gate_wait(&room->empty[mine], hopper_parity((count + i) / HOPPER_STAGES + 1));
            hopper_load<D, STEP, STEP>(room->buffer[mine], from, 0,
                                       (tiles - 1 - i) * STEP, end);
            copies_close();
            if (pending) {
                copies_wait<1>();
                hopper_deliver(&room->own_full[buffer]);
                pending = false;
            }
            copies_wait<0>();
            hopper_deliver(&room->full[mine]);
        }
        if (pending) {
            copies_wait<0>();
            hopper_deliver(&room->own_full[buffer]);
        }
        count += tiles;
    }
}

/* Wait for a tile of keys or values, the count-th one of the block; release it. */
template <int value, typename R>
__device__ inline auto hopper_await(R *room, int count) -> decltype(&room->buffer[0][0])
{
    int buffer = count % HOPPER_STAGES * 2 + value;

    gate_wait(&room->full[buffer], hopper_parity(count / HOPPER_STAGES));
    return room->buffer[buffer];
}

template <int value, typename R> __device__ inline void hopper_release(R *room, int count)
{
    hopper_arrive(&room->empty[count % HOPPER_STAGES * 2 + value]);
}

/* Pass over tiles that none of the warpgroup's rows see. */
template <typename R> __device__ inline void hopper_skip(R *room, int count, int tiles)
{
#pragma unroll 1
    for (int i = count; i < count + tiles; i++) {
        hopper_await<0>(room, i);
        hopper_release<0>(room, i);
        hopper_await<1>(room, i);
        hopper_release<1>(room, i);
    }
}

/* The tiles of keys that a warpgroup sees: the block has passed `count` tiles before the
 * first one, which is number `tile` of the sequence, and passes `skipped` before it; those
 * from `clear` on have a mask. Number -1: none. back: from the first key of the sequence
 * to the lane's first query, minus its first column. */
struct hopper_span {
    int count, skipped, tile, clear, back;
};

template <int rows, int STEP>
__device__ inline struct hopper_span hopper_span_of(const struct flash_position &place,
                                                    int count)
{
    int first = 64 * warpgroup_index(), lane = threadIdx.x % WARP;
    int seen = first + 64 < place.left ? first + 64 : place.left;
    struct hopper_span span;

    span.tile = first < place.left ? (place.before + seen + STEP - 1) / STEP - 1 : -1;
    span.skipped = hopper_tiles<rows, STEP>(place) - 1 - span.tile;
    span.count = count + span.skipped;
    span.clear = (place.before + first + 1) / STEP;
    span.back = place.before + (int)threadIdx.x / WARP * 16 + lane / 4 - lane % 4 * 2;
    return span;
}

/* Set scores of keys after the lane's query to -inf; back: from its first key to it. */
template <int N> __device__ inline void hopper_mask(float (&s)[N], int back)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i / 4 * 8 + i % 2 > back + i % 4 / 2 * 8)
            s[i] = -INFINITY;
}

/* Start s (64, N) = a (64, D) b^T: rows of a tile of A rows, and of one of N rows. */
template <typename T, int D, int A, int N>
__device__ inline void hopper_scores(float (&s)[N / 2], const T *a, const T *b)
{
    uint64_t left = hopper_operand(a, 0), right = hopper_operand(b, 0);

#pragma unroll
    for (int k = 0; k < D / 16; k++)
        hopper_matmul<T, N>::template of_memory<false, false>(
            s, hopper_later(left, k / 4 * A * 128 + k % 4 * 32),
            hopper_later(right, k / 4 * N * 128 + k % 4 * 32), k > 0);
}

/* Start sum (64, D) += p (64, N) b, b a tile of N rows; p in registers. */
template <typename T, int D, int N>
__device__ inline void hopper_add(float (&sum)[D / 2], const uint32_t (&p)[N / 16][4],
                                  const T *b)
{
    uint64_t right = hopper_operand(b, N * 128);

#pragma unroll
    for (int k = 0; k < N / 16; k++)
        hopper_matmul<T, D>::template of_registers<true>(
            sum, p[k], hopper_later(right, k * 16 * 128), true);
}

/* Round scores to a left operand. */
template <typename T, int N>
__device__ inline void hopper_round(uint32_t (&p)[N / 16][4], const float (&s)[N / 2])
{
#pragma unroll
    for (int i = 0; i < N / 4; i++)
        p[i / 4][i % 4] = flash_pack<T>(s[2 * i], s[2 * i + 1]);
}

/* Let lane t of 4 have x[t] of each of them, in their order. */
__device__ inline void hopper_transpose(uint32_t (&x)[4])
{
    bool odd = threadIdx.x & 1, high = threadIdx.x & 2;

#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        uint32_t other = __shfl_xor_sync(FULL_WARP_MASK, odd ? x[i] : x[i + 1], 1);

        x[i] = odd ? other : x[i];
        x[i + 1] = odd ? x[i + 1] : other;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t other = __shfl_xor_sync(FULL_WARP_MASK, high ? x[i] : x[i + 2], 2);

        x[i] = high ? other : x[i];
        x[i + 2] = high ? x[i + 2] : other;
    }
}

/* Write the lane's rows `row` and row + 8, if before `end`, times a factor each. */
template <int D, typename T>
__device__ inline void hopper_store(flash_rows<T> to, int row, int end,
                                    const float (&x)[D / 2], const float (&factor)[2])
{
    int t = threadIdx.x % 4;

#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int n = 0; n < D / 8; n += 4) {
            uint32_t out[4];

#pragma unroll
            for (int i = 0; i < 4; i++)
                out[i] = flash_pack<T>(x[4 * (n + i) + 2 * h] * factor[h],
                                       x[4 * (n + i) + 2 * h + 1] * factor[h]);
            hopper_transpose(out);
            if (row + 8 * h < end)
                *(uint4 *)(to.data + (row + 8 * h) * to.stride + 8 * (n + t)) =
                    make_uint4(out[0], out[1], out[2], out[3]);
        }
}

#endif
