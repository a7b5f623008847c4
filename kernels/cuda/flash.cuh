/*
 * kernels/cuda/flash.cuh - code shared by the kernels of flash attention: tiles of 16-bit
 * elements in shared memory, their matmuls on tensor cores, and the assignment of rows to
 * blocks.
 *
 * A block owns some rows of one sequence and one head and streams the rows of the other
 * side past them, tile by tile. A warp has 16 M of the block's rows (M fragments, one
 * below the other) and processes all rows of a tile, so warps exchange no elements: the
 * accumulator of one matmul, rounded and packed, is the left operand of the next.
 *
 * For fragments see hardware.cuh; in an accumulator, lane 4 g + t holds columns 8 n + 2 t
 * and 8 n + 2 t + 1 of rows 16 m + g (elements 0, 1) and 16 m + g + 8 (elements 2, 3).
 */
#ifndef KERNELS_CUDA_FLASH_CUH
#define KERNELS_CUDA_FLASH_CUH

#include <limits.h>
#include <math.h>

#include "kernels/cuda/block.cuh"
#include "kernels/tensor.h"

#define FLASH_LOG2E 1.4426950408889634f
#define FLASH_LN2   0.6931471805599453f

/* Return the factor of scores in flash_cap, 0 without a cap; and the factor that turns a
 * score, or its tanh if there is a cap, into an exponent of 2. */
static inline float flash_cap_factor(float scale, float softcap)
{
    return softcap > 0 ? 2 * FLASH_LOG2E * scale / softcap : 0;
}

static inline float flash_exponent(float scale, float softcap)
{
    return (softcap > 0 ? softcap : scale) * FLASH_LOG2E;
}

/* Dropout, a cap, rows that see rows after them and rows that see keys of other rows have
 * kernels of their own, because others have no registers to spare. FLASH_CAPPED: dk and dv
 * only; the other kernels of FLASH_BARE cap scores, too. */
enum flash_kind { FLASH_BARE, FLASH_CAPPED, FLASH_DROPS, FLASH_REACHES, FLASH_CROSSES };

template <typename T>
__device__ inline void flash_mma(float d[4], const uint32_t a[4], const uint32_t b[2]);
template <>
__device__ inline void flash_mma<fp16>(float d[4], const uint32_t a[4],
                                       const uint32_t b[2])
{
    mma_fp16(d, a, b);
}
template <>
__device__ inline void flash_mma<bf16>(float d[4], const uint32_t a[4],
                                       const uint32_t b[2])
{
    mma_bf16(d, a, b);
}

template <typename T> __device__ inline uint32_t flash_pack(float low, float high);
template <> __device__ inline uint32_t flash_pack<fp16>(float low, float high)
{
    return pack_fp16(low, high);
}
template <> __device__ inline uint32_t flash_pack<bf16>(float low, float high)
{
    return pack_bf16(low, high);
}

/*
 * A tile: rows of D elements followed by 16 bytes of padding, so that the same 16 bytes
 * of 8 consecutive rows are in different banks, and a lane reaches all of its elements
 * from one address.
 */
template <int D> struct flash_tile {
    static constexpr int pitch = D + 8; /* from row to row, in elements */
};

/*
 * Addresses from which a lane loads its part of a fragment of 16 rows and 16 columns, 16
 * n rows and 16 k columns into the tile. `rows_first`: the four matrices go down the rows
 * first, as for a left operand and for a transposed right one; else along the columns
 * first, as for a right operand whose columns are the tile's rows.
 */
template <typename T, int D> struct flash_view {
    const T *row;

    __device__ flash_view(const T *tile, bool rows_first)
    {
        int lane = threadIdx.x % WARP, matrix = lane / 8;
        int down = rows_first ? matrix % 2 : matrix / 2;
        int along = rows_first ? matrix / 2 : matrix % 2;

        row = tile + (8 * down + lane % 8) * flash_tile<D>::pitch + 8 * along;
    }

    __device__ const T *at(int n, int k) const
    {
        return row + 16 * n * flash_tile<D>::pitch + 16 * k;
    }
};

/* One operand: its elements in the matrix, with rows counted from the first row of the
 * sequence. */
template <typename T> struct flash_rows {
    T *data;
    int64_t stride;
    /* elements of a head, a multiple of 8; the rest of a tile is 0 */
    int size;
};

template <typename T>
static inline flash_rows<T> flash_rows_of(struct tensor x, size_t head_size)
{
    return flash_rows<T> { (T *)x.data, (int64_t)x.stride, (int)head_size };
}

/* Return the view of one head, with rows from `row` on. */
template <typename T>
__device__ inline flash_rows<T> flash_head(flash_rows<T> whole, int row, int head)
{
    whole.data += row * whole.stride + head * whole.size;
    return whole;
}

/* Start copying rows first .. first + rows - 1 to a tile, with zeros from row `end` on;
 * all threads of the block take part. A few lanes share a row, so that a lane needs one
 * address for all of its chunks of a row. */
template <int D, int rows, int threads, typename T>
__device__ inline void flash_load(T *tile, flash_rows<const T> from, int first, int end)
{
    constexpr int lanes = D % 64 == 0 ? 8 : 4, step = threads / lanes;
    constexpr int pitch = flash_tile<D>::pitch;
    int row = threadIdx.x / lanes, chunk = threadIdx.x % lanes;
    const T *data = from.data + (first + row) * from.stride + 8 * chunk;

    static_assert(rows % step == 0 || step % rows == 0, "every thread has whole rows");
    if (step > rows && row >= rows)
        return;
    tile += row * pitch + 8 * chunk;
#pragma unroll
    for (int i = 0; i < rows; i += step) {
#pragma unroll
        for (int j = 0; j < D; j += 8 * lanes)
            copy_16_bytes(tile + i * pitch + j, data + j,
                          first + row + i < end && 8 * chunk + j < from.size);
        data += step * from.stride;
    }
}

/* A left operand of 16 M rows that is kept in shared memory, or in registers (held). */
template <typename T, int D, int M, bool held> struct flash_left;

template <typename T, int D, int M> struct flash_left<T, D, M, false> {
    flash_view<T, D> view;

    __device__ flash_left(const T *tile) : view(tile, true)
    {
    }
    __device__ void get(uint32_t out[4], int m, int k) const
    {
        load_matrices(out, view.at(m, k));
    }
};

template <typename T, int D, int M> struct flash_left<T, D, M, true> {
    uint32_t held[M][D / 16][4];

    __device__ flash_left(const T *tile)
    {
        flash_view<T, D> view(tile, true);

#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int k = 0; k < D / 16; k++)
                load_matrices(held[m][k], view.at(m, k));
    }
    __device__ void get(uint32_t out[4], int m, int k) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[i] = held[m][k][i];
    }
};

template <int M, int N> __device__ inline void flash_zero(float (&x)[M][N][4])
{
#pragma unroll
    for (int i = 0; i < M * N * 4; i++)
        x[i / (4 * N)][i / 4 % N][i % 4] = 0;
}

/* s (16 M, 8 N) += a (16 M, D) b^T, b the first 8 N rows of a tile (view: columns
 * first). */
template <typename T, int D, int M, int N, bool held>
__device__ inline void flash_scores(float (&s)[M][N][4],
                                    const flash_left<T, D, M, held> &a,
                                    const flash_view<T, D> &b)
{
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t left[M][4], right[4];

#pragma unroll
        for (int m = 0; m < M; m++)
            a.get(left[m], m, k);
#pragma unroll
        for (int n = 0; n < N / 2; n++) {
            load_matrices(right, b.at(n, k));
#pragma unroll
            for (int m = 0; m < M; m++) {
                flash_mma<T>(s[m][2 * n], left[m], right);
                flash_mma<T>(s[m][2 * n + 1], left[m], right + 2);
            }
        }
    }
}

/*
 * Turn scores with a cap c (c tanh(s / c), s being scaled) into tanh(s / c); `factor` is
 * 2 log2(e) scale / c. The error is 2^-23, because e^x - 1 loses its leading bits where
 * it is small: times c, this is still below the effect on a score of rounding q and k to
 * 16 bits.
 */
template <int M, int N>
__device__ inline void flash_cap(float (&s)[M][N][4], float factor)
{
#pragma unroll
    for (int i = 0; i < M * N * 4; i++) {
        float *x = &s[i / (4 * N)][i / 4 % N][i % 4];

        *x = 1 - __fdividef(2.0f, exp2_fast(*x * factor) + 1);
    }
}

/* Round an accumulator: [0] holds two columns of row g, [1] of row g + 8. */
template <typename T, int M, int N>
__device__ inline void flash_round(uint32_t (&p)[M][N][2], const float (&s)[M][N][4])
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++) {
            p[m][n][0] = flash_pack<T>(s[m][n][0], s[m][n][1]);
            p[m][n][1] = flash_pack<T>(s[m][n][2], s[m][n][3]);
        }
}

/* sum (16 M, 8 C) += p (16 M, 8 N) b, b the first 8 N rows of a tile (view: rows
 * first). */
template <typename T, int D, int M, int N, int C>
__device__ inline void flash_add(float (&sum)[M][C][4], const uint32_t (&p)[M][N][2],
                                 const flash_view<T, D> &b)
{
#pragma unroll
    for (int n = 0; n < N / 2; n++)
#pragma unroll
        for (int c = 0; c < C / 2; c++) {
            uint32_t right[4];

            load_matrices_transposed(right, b.at(n, c));
#pragma unroll
            for (int m = 0; m < M; m++) {
                const uint32_t left[4] = { p[m][2 * n][0], p[m][2 * n][1],
                                           p[m][2 * n + 1][0], p[m][2 * n + 1][1] };

                flash_mma<T>(sum[m][2 * c], left, right);
                flash_mma<T>(sum[m][2 * c + 1], left, right + 2);
            }
        }
}

/* Return the factor of a fragment's row: one per row, or one for all. */
template <int M>
__device__ inline float flash_factor(const float (&factor)[M][2], int m, int h)
{
    return factor[m][h];
}
__device__ inline float flash_factor(float factor, int, int)
{
    return factor;
}

/*
 * Write the warp's 16 M rows from `first` on, up to `end`, multiplied by `factor`, by way
 * of `room`: 16 M rows of a tile that only this warp reads.
 */
template <int D, int M, int C, typename T, typename F>
__device__ inline void flash_store(flash_rows<T> to, int first, int end, T *room,
                                   const float (&x)[M][C][4], const F &factor)
{
    constexpr int pitch = flash_tile<D>::pitch;
    int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;

    __syncwarp();
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int c = 0; c < C; c++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *(uint32_t *)(room + (16 * m + 8 * h + g) * pitch + 8 * c + 2 * t) =
                    flash_pack<T>(x[m][c][2 * h] * flash_factor(factor, m, h),
                                  x[m][c][2 * h + 1] * flash_factor(factor, m, h));
    __syncwarp();
#pragma unroll
    for (int i = lane; i < 16 * M * C; i += WARP) {
        int row = i / C, chunk = i % C;

        if (first + row < end && 8 * chunk < to.size)
            *(uint4 *)(to.data + (first + row) * to.stride + 8 * chunk) =
                *(const uint4 *)(room + row * pitch + 8 * chunk);
    }
    __syncwarp();
}

/* The rows of a block: `row` is the first one in the matrix; `before` rows of the
 * sequence precede it, `left` rows start with it. Kernels count rows from that first
 * one. */
struct flash_position {
    int row, before, left;
};

/* Rows of the other side are counted from row `origin` of their matrix: the same row, or,
 * where keys are of other rows, the first of the sequence, which has `others` of them
 * (else -1). */
struct flash_place : flash_position {
    int origin, others;
};

/* Set origin and others. own, other: the offsets of the rows of both sides where keys are of
 * other rows, else NULL. */
__device__ inline void flash_face(struct flash_place *place, const int32_t *own,
                                  const int32_t *other, int sequences)
{
    int low = 0;

    place->origin = place->row;
    place->others = -1;
    if (!own)
        return;
    while (sequences - low > 1) {
        int middle = low + (sequences - low) / 2;

        if (own[middle] <= place->row)
            low = middle;
        else
            sequences = middle;
    }
    place->origin = other[low];
    place->others = other[low + 1] - place->origin;
}

/* Return the end of the rows that query `row` sees, and the first row that sees key `row`,
 * without the window. Rows after the sequence are those of causal attention: no row of the
 * sequence reaches them. Among other keys they see all, and no query sees them. */
__device__ inline int flash_reach(const int32_t *reach, const struct flash_place &place,
                                  int row)
{
    if (reach && row < place.left)
        return reach[place.row + row] - place.origin;
    return place.others < 0 ? row + 1 : place.others;
}

__device__ inline int flash_since(const int32_t *since, const struct flash_place &place,
                                  int row)
{
    if (since && row < place.left)
        return since[place.row + row] - place.origin;
    return place.others < 0 ? row : since ? place.others : 0;
}

/*
 * Assignment of the tiles of sequences to slots; a slot stands for several blocks, one
 * per head.
 *
 * Multiprocessors take blocks in the order of their indices, and the work of a tile
 * depends on its position in its sequence: a tile of queries has as much as there are
 * rows before it, a tile of keys as much as there are rows after it. The kernel ends
 * soonest if the tiles with the most work come first. So, if `tiles` is not 0, slots are
 * ordered by work: tile by tile of the longest sequence together with all others, from
 * the last tile backward (keys: from the first one forward, so that the ends are
 * aligned). Sections of sequences follow each other. If the longest sequence is unknown,
 * or this would leave many slots without rows (flash_order_of), tiles is 0 and slots are
 * ordered by sequence.
 */
struct flash_order {
    const int32_t *offsets;
    int sequences, slots, tiles, section; /* slots: number of slots */
};

/* Order tiles of `rows` rows: by work if that takes at most `most` quarters of the slots
 * that ordering by sequence takes. */
static inline struct flash_order flash_order_of(const struct op_attention *op,
                                                size_t rows, size_t section, size_t most)
{
    size_t longest = op->longest < op->q.rows ? op->longest : op->q.rows;
    size_t tiles = (longest + rows - 1) / rows, slots = tiles * op->sequences;
    size_t by_run = op->q.rows / rows + op->sequences, sections;
    struct flash_order order = { op->offsets, (int)op->sequences, (int)by_run, 0, 0 };

    /* twice: with 256 columns, two blocks share the columns of a tile of keys */
    if (slots == 0 || slots * 4 > by_run * most || slots * op->heads * 2 > INT_MAX)
        return order;
    sections = section == 0 ? op->sequences : (op->sequences + section - 1) / section;
    order.slots = (int)slots;
    order.tiles = (int)tiles;
    order.section = (int)((op->sequences + sections - 1) / sections);
    return order;
}

/* Order tiles of keys that are of other rows, by sequence: all have as much work. */
static inline struct flash_order flash_order_of_keys(const struct op_attention *op,
                                                     size_t rows)
{
    return { op->key_offsets, (int)op->sequences,
             (int)(op->k.rows / rows + op->sequences), 0, 0 };
}

/* Order tiles of queries for at least `blocks` blocks per multiprocessor. One tile of
 * each sequence and head of a section occupies half of the GPU: so some of the running
 * blocks read the same keys and values at the same time, once from memory. */
static inline struct flash_order flash_order_of_queries(const struct cuda_launch *to,
                                                        const struct op_attention *op,
                                                        size_t rows, size_t blocks)
{
    return flash_order_of(op, rows,
                          (size_t)to->multiprocessors * blocks / (2 * op->heads), 5);
}

/*
 * Sequence s has the slots from offsets[s] / rows + s on, enough for its tiles and at
 * most one too many; there are N / rows + sequences slots in total.
 */
template <int rows>
__device__ inline void flash_find_by_run(struct flash_position *place,
                                         const struct flash_order &order, int slot)
{
    int low = 0, left = order.sequences, lane = threadIdx.x % WARP;

    while (left > 1) {
        int step = (left + WARP - 1) / WARP, mine = lane * step;
        bool before =
            mine < left && order.offsets[low + mine] / rows + low + mine <= slot;

        mine = before ? mine : 0;
#pragma unroll
        for (int i = WARP / 2; i > 0; i /= 2) {
            int other = __shfl_xor_sync(FULL_WARP_MASK, mine, i);

            mine = other > mine ? other : mine;
        }
        low += mine;
        left = left - mine < step ? left - mine : step;
    }
    place->before = (slot - (order.offsets[low] / rows + low)) * rows;
    place->row = order.offsets[low] + place->before;
    place->left = order.offsets[low + 1] - place->row;
}

template <int rows, bool keys>
__device__ inline void flash_find_by_weight(struct flash_position *place,
                                            const struct flash_order &order, int slot)
{
    int first = slot / (order.tiles * order.section) * order.section;
    int runs =
        order.sequences - first < order.section ? order.sequences - first : order.section;
    int here = slot - first * order.tiles, run = first + here % runs;
    int begin = order.offsets[run], length = order.offsets[run + 1] - begin;
    int tile = order.tiles - 1 - here / runs;

    if (keys) /* this many follow it */
        tile = (length + rows - 1) / rows - 1 - tile;
    place->before = tile * rows;
    place->row = begin + place->before;
    place->left = tile < 0 ? 0 : length - place->before;
}

/* Find the rows of `slot` if each block takes `rows` rows of a sequence. Return false if
 * there are none. All lanes must take part. */
template <int rows, bool keys>
__device__ inline bool flash_find(struct flash_position *place,
                                  const struct flash_order &order, int slot)
{
    if (order.tiles > 0)
        flash_find_by_weight<rows, keys>(place, order, slot);
    else
        flash_find_by_run<rows>(place, order, keys ? slot : order.slots - 1 - slot);
    return place->left > 0;
}

#endif
