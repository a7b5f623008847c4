/*
 * kernels/cuda/attention_plain.cuh - tiles of attention in fp32 arithmetic, without
 * tensor cores: code shared by the forward and backward kernels.
 *
 * A block of 16 x 64 / R threads holds a tile of 64 rows by 64 others (queries by keys,
 * or keys by queries): thread (y, x) holds rows R y .. R y + R - 1 and others 4 x .. 4 x
 * + 3 of it, and, of the sums that belong to its rows, columns 4 x .. 4 x + 3 of each 64.
 * The elements of a row are in 16 adjacent lanes.
 *
 * Two matmuls do all the work:
 *
 *   across   scores (rows, others) = a b^T over the head's columns, 32 of them at a time,
 *            both transposed in shared memory: 32 multiply-adds read 8 + 4 elements (R 8)
 *   along    sums (rows, columns) += weights (rows, others) b over the others, as many at
 *            a time as fill 16 KiB; the weights go through shared memory
 *
 * A block uses 32 KiB of shared memory for every head size. D is the head size rounded up
 * to 64, 128 or 256: columns past the head size are zero and not stored. Of longer heads,
 * a block computes the scores over all columns, but only a part of D columns of the sums:
 * blockIdx.y says which.
 */
#ifndef KERNELS_CUDA_ATTENTION_PLAIN_CUH
#define KERNELS_CUDA_ATTENTION_PLAIN_CUH

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/dropout_bits.cuh"

enum {
    PLAIN_TILE = 64,
    PLAIN_DEPTH = 32,    /* columns of the head at a time */
    PLAIN_ACROSS = 16,   /* threads along a row */
    PLAIN_STAGED = 4096, /* elements of operands in shared memory */
    PLAIN_SHARED = (PLAIN_TILE * PLAIN_TILE + PLAIN_STAGED) * (int)sizeof(float)
};

/* Rows that reach others than those before them, or keys of other rows, have kernels of their
 * own: causal ones have no registers to spare.  So have those with a learned bias, whatever
 * they reach. */
enum plain_kind { PLAIN_CAUSAL, PLAIN_REACHES, PLAIN_LEARNED };

/* One head of a matrix. aligned: four adjacent elements are one access. */
struct plain_head {
    char *data;
    size_t stride;
    enum format format;
    int columns;
    bool aligned;
};

__device__ inline struct plain_head plain_head_of(struct tensor x, int head, int columns)
{
    size_t bytes = x.format == FORMAT_FP32 ? 4 : 2;
    struct plain_head of = { (char *)x.data + (size_t)head * columns * bytes, x.stride,
                             x.format, columns, false };

    of.aligned =
        columns % 4 == 0 && x.stride % 4 == 0 && (uintptr_t)x.data % (4 * bytes) == 0;
    return of;
}

/* Return one element of a head. */
__device__ inline float plain_number(const struct plain_head &x, size_t at)
{
    return x.format == FORMAT_FP32   ? ((const float *)x.data)[at]
           : x.format == FORMAT_FP16 ? to_float(((const fp16 *)x.data)[at])
                                     : to_float(((const bf16 *)x.data)[at]);
}

template <typename T>
__device__ inline void plain_write_as(const struct plain_head &x, size_t at,
                                      const float in[4], int there)
{
    T *to = (T *)x.data + at;

    if (x.aligned && there >= 4) {
        store<4>(to, in);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < there)
            to[i] = from_float<T>(in[i]);
}

__device__ inline void plain_write(const struct plain_head &x, size_t row, int column,
                                   const float in[4])
{
    size_t at = row * x.stride + column;
    int there = x.columns - column;

    if (x.format == FORMAT_FP32)
        plain_write_as<float>(x, at, in, there);
    else if (x.format == FORMAT_FP16)
        plain_write_as<fp16>(x, at, in, there);
    else
        plain_write_as<bf16>(x, at, in, there);
}

/* Return the index of (k, row) in a transposed tile; row is a multiple of 4. Neither
 * lanes that write different k of one row nor lanes that read different rows of one k
 * cause bank conflicts. */
__device__ inline int plain_place(int k, int row)
{
    return k * PLAIN_TILE + (row ^ (k / 4 % 8 * 4));
}

/* The `end` rows of one sequence. */
struct plain_rows {
    struct plain_head x;
    int end;
};

/* Load four adjacent elements unconverted; 0 past the last row or column. */
__device__ inline uint4 plain_fetch(const struct plain_rows &of, int row, int column)
{
    size_t at = row * of.x.stride + column;
    uint4 bits = make_uint4(0, 0, 0, 0);

    if (row >= of.end || column >= of.x.columns)
        return bits;
    if (of.x.format == FORMAT_FP32)
        return *(const uint4 *)(of.x.data + at * 4);
    uint2 half = *(const uint2 *)(of.x.data + at * 2);
    bits.x = half.x;
    bits.y = half.y;
    return bits;
}

__device__ inline void plain_open(float out[4], uint4 bits, enum format format)
{
    if (format == FORMAT_FP16) {
        pack<fp16, 4> four;

        memcpy(&four, &bits, sizeof(four));
#pragma unroll
        for (int j = 0; j < 4; j++)
            out[j] = to_float(four.at[j]);
        return;
    }
    bool wide = format == FORMAT_FP32;

    out[0] = __uint_as_float(wide ? bits.x : bits.x << 16);
    out[1] = __uint_as_float(wide ? bits.y : bits.x & 0xffff0000u);
    out[2] = __uint_as_float(wide ? bits.z : bits.y << 16);
    out[3] = __uint_as_float(wide ? bits.w : bits.y & 0xffff0000u);
}

/*
 * Copy columns column .. column + 4 packs - 1 of the rows from `first` on to shared
 * memory, 64 / R packs per thread, optionally transposed. All loads are issued before the
 * first is used.
 */
template <int R, bool transposed>
__device__ inline void plain_stage(float *to, const struct plain_rows &of, int first,
                                   int column, int packs)
{
    enum {
        THREADS = PLAIN_ACROSS * PLAIN_TILE / R,
        COUNT = PLAIN_DEPTH * R / PLAIN_TILE
    };

    if (of.x.aligned) {
        uint4 bits[COUNT];

#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            int pack = threadIdx.x + i * THREADS;

            bits[i] = plain_fetch(of, first + pack / packs, column + pack % packs * 4);
        }
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            int pack = threadIdx.x + i * THREADS, row = pack / packs,
                k = pack % packs * 4;
            float x[4];

            plain_open(x, bits[i], of.x.format);
            if (transposed) {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    to[plain_place(k, row & ~3) + (row & 3) + j * PLAIN_TILE] = x[j];
            } else {
                store<4>(to + pack * 4, x);
            }
        }
        return;
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < COUNT * THREADS * 4; i += THREADS) {
        int row = i / (4 * packs), k = i % (4 * packs);
        bool there = first + row < of.end && column + k < of.x.columns;
        size_t at = (first + row) * of.x.stride + column + k;

        to[transposed ? plain_place(k, row & ~3) + (row & 3) : i] =
            there ? plain_number(of.x, at) : 0;
    }
}

/* scores[i][j] = dot product of row R y + i of a's tile and row 4 x + j of b's, over the
 * head's columns. Has a barrier before `staged` is read and one after. */
template <int R>
__device__ inline void plain_across(float scores[R][4], const struct plain_rows &a,
                                    int a_first, const struct plain_rows &b, int b_first,
                                    float *staged)
{
    int y = threadIdx.x / PLAIN_ACROSS * R, x = threadIdx.x % PLAIN_ACROSS * 4;
    float *rows = staged, *others = staged + PLAIN_TILE * PLAIN_DEPTH;

#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            scores[i][j] = 0;
    for (int column = 0; column < a.x.columns; column += PLAIN_DEPTH) {
        plain_stage<R, true>(rows, a, a_first, column, PLAIN_DEPTH / 4);
        plain_stage<R, true>(others, b, b_first, column, PLAIN_DEPTH / 4);
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < PLAIN_DEPTH; k++) {
            float of_row[R], of_other[4];

            load<4>(of_other, others + plain_place(k, x));
#pragma unroll
            for (int i = 0; i < R; i += 4)
                load<4>(of_row + i, rows + plain_place(k, y + i));
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    scores[i][j] = fmaf(of_row[i], of_other[j], scores[i][j]);
        }
        __syncthreads();
    }
}

/* Store this thread's weights in shared memory. The caller must add a barrier. */
template <int R>
__device__ inline void plain_share(float *shared, const float weights[R][4])
{
    int y = threadIdx.x / PLAIN_ACROSS * R, x = threadIdx.x % PLAIN_ACROSS * 4;

#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int i = 0; i < R; i += 4) {
            float of_rows[4] = { weights[i][j], weights[i + 1][j], weights[i + 2][j],
                                 weights[i + 3][j] };

            store<4>(shared + plain_place(x + j, y + i), of_rows);
        }
}

/*
 * Visibility between the rows and the others of a tile, each counted from the first of its
 * sequence. A row has a slack: the number of rows after itself that it sees as a query, or
 * that see it as a key from before it; 0 in causal attention, below 0 if keys are fewer. Row
 * r and other o see each other where -slack(r) <= sign (r - o) < window.
 */
struct plain_visibility {
    int sign; /* 1: rows are queries; -1: rows are keys */
    unsigned window;
    const int32_t *edges; /* of the sequence's rows: reach or since; NULL: */
    int edge;             /* that of all rows; -1: causal */
    int start, length;    /* of the others; of the rows */
};

/* Return the slack of a row of the sequence. */
template <enum plain_kind kind>
__device__ inline int plain_slack(const struct plain_visibility &sight, int row)
{
    int edge = sight.edge;

    if (kind == PLAIN_CAUSAL || row >= sight.length)
        return 0;
    if (sight.edges)
        edge = sight.edges[row] - sight.start;
    else if (edge < 0)
        return 0;
    return sight.sign > 0 ? edge - 1 - row : row - edge;
}

/* Return whether a query sees a key `back` rows before it, given the slack of either. */
__device__ inline bool plain_sees(const struct plain_visibility &sight, int back,
                                  int slack)
{
    return (unsigned)(back + slack) < sight.window + slack;
}

/* Return whether the last of the queries of a tile is too far from the first key, `lag`
 * rows before the first query. */
__device__ inline bool plain_leaves(const struct plain_visibility &sight, int lag)
{
    return lag > -PLAIN_TILE && (unsigned)(lag + PLAIN_TILE) > sight.window;
}

template <int R, int D, bool masked>
__device__ inline void
plain_along_staged(float sums[R][D / PLAIN_ACROSS], const float *weights,
                   const float *staged, int from, int count, int lag,
                   const struct plain_visibility &sight, const int slack[R])
{
    enum { N = D / PLAIN_ACROSS };
    int y = threadIdx.x / PLAIN_ACROSS * R, x = threadIdx.x % PLAIN_ACROSS * 4;

#pragma unroll(masked ? 1 : 4)
    for (int k = 0; k < count; k++) {
        float of_row[R], of_column[N];

#pragma unroll
        for (int i = 0; i < R; i += 4)
            load<4>(of_row + i, weights + plain_place(from + k, y + i));
#pragma unroll
        for (int j = 0; j < N; j += 4)
            load<4>(of_column + j, staged + k * D + j * PLAIN_ACROSS + x);
#pragma unroll
        for (int i = 0; i < R; i++) {
            if (masked && !plain_sees(sight, sight.sign * (lag + i - from - k), slack[i]))
                continue;
#pragma unroll
            for (int j = 0; j < N; j++)
                sums[i][j] = fmaf(of_row[i], of_column[j], sums[i][j]);
        }
    }
}

/* Return the first column of the head whose sums this block computes. */
template <int D> __device__ inline int plain_part()
{
    return (int)blockIdx.y * D;
}

/*
 * sums[i][] += the weights (in shared memory) of the 64 others times the columns of b.
 * masked: others that a row does not see are skipped, even if they are inf or NaN. Has a
 * barrier before `staged` is read and one after.
 */
template <int R, int D>
__device__ inline void plain_along(float sums[R][D / PLAIN_ACROSS], const float *weights,
                                   const struct plain_rows &b, int first, int b_first,
                                   const struct plain_visibility &sight,
                                   const int slack[R], bool masked, float *staged)
{
    const int part = plain_part<D>();

    enum { AT_ONCE = PLAIN_STAGED / D, HALF = PLAIN_STAGED / 2 };
    int lag = first + (int)threadIdx.x / PLAIN_ACROSS * R - b_first;

    for (int from = 0; from < PLAIN_TILE && b_first + from < b.end; from += AT_ONCE) {
        plain_stage<R, false>(staged, b, b_first + from, part, D / 4);
        plain_stage<R, false>(staged + HALF, b, b_first + from + HALF / D, part, D / 4);
        __syncthreads();
        if (masked)
            plain_along_staged<R, D, true>(sums, weights, staged, from, AT_ONCE, lag,
                                           sight, slack);
        else
            plain_along_staged<R, D, false>(sums, weights, staged, from, AT_ONCE, lag,
                                            sight, slack);
        __syncthreads();
    }
}

/*
 * Draw which weights of a tile are kept, as bit k % 32 of word 2 q + k / 32 for query q
 * and key k of the tile: each thread draws for one query and eight keys, and four threads
 * fill a word. query: first of the tile in the batch; key: first in the sequence, a
 * multiple of the tile.
 */
template <int R>
__device__ inline void plain_draw(uint32_t *kept, const struct dropout_bits_head &drops,
                                  int query, int key)
{
    enum { THREADS = PLAIN_ACROSS * PLAIN_TILE / R, BLOCKS = PLAIN_TILE / 8 };

#pragma unroll 1
    for (int i = threadIdx.x; i < PLAIN_TILE * BLOCKS; i += THREADS) {
        uint32_t word = dropout_bits_mask(drops, query + i / BLOCKS, key / 8 + i % BLOCKS)
                        << i % 4 * 2;

        word |= __shfl_xor_sync(FULL_WARP_MASK, word, 1);
        word |= __shfl_xor_sync(FULL_WARP_MASK, word, 2);
        if (i % 4 == 0)
            kept[i / 4] = word;
    }
}

/* Return the kept weights of this thread: bit 4 i + j is set if the weight of its row i
 * and other j is kept. The tile is drawn into `shared`, which holds the weights later;
 * has a barrier before it is read and one after. */
template <int R, bool rows_are_keys>
__device__ inline uint32_t
plain_kept(float *shared, const struct dropout_bits_head &drops, int query, int key)
{
    int y = threadIdx.x / PLAIN_ACROSS * R, x = threadIdx.x % PLAIN_ACROSS * 4;
    uint32_t *tile = (uint32_t *)shared, kept = 0;

    plain_draw<R>(tile, drops, query, key);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < R * 4; i++) {
        int row = y + i / 4, other = x + i % 4;
        int q = rows_are_keys ? other : row, k = rows_are_keys ? row : other;

        kept |= (tile[2 * q + k / 32] >> k % 32 & 1) << i;
    }
    __syncthreads();
    return kept;
}

/* Set this thread's dropped weights in shared memory to 0. */
template <int R> __device__ inline void plain_drop(float *shared, uint32_t kept)
{
    int y = threadIdx.x / PLAIN_ACROSS * R, x = threadIdx.x % PLAIN_ACROSS * 4;

#pragma unroll
    for (int i = 0; i < R * 4; i++)
        if (!(kept >> i & 1))
            shared[plain_place(x + i % 4, y + i / 4)] = 0;
}

/* Apply dropout to the gradients of the weights, before the gradient of the softmax. */
template <int R>
__device__ inline void plain_drop_gradients(float gradients[R][4], uint32_t kept,
                                            float factor)
{
#pragma unroll
    for (int i = 0; i < R * 4; i++) {
        float *x = &gradients[i / 4][i % 4];

        *x = kept >> i & 1 ? *x * factor : 0;
    }
}

/* Apply the cap to a scaled score; cap > 0. */
__device__ inline float plain_capped(float score, float cap)
{
    return cap * tanhf(score / cap);
}

/* e^(scaled score + bias - lse) */
__device__ inline float plain_weight(float score, float scale, float cap, float bias,
                                     float lse)
{
    if (cap > 0)
        return expf(plain_capped(score * scale, cap) - lse);
    return expf(score * scale + bias - lse);
}

/* Return the slope of the cap at the score that gave `weight`; 0 for a weight of 0. */
__device__ inline float plain_slope(float weight, float cap, float lse)
{
    float t = fmaxf((logf(weight) + lse) / cap, -1.0f);

    return 1 - t * t;
}

/* A tile of a sequence. */
struct plain_tile {
    int first, length;   /* first row of the tile in the sequence; rows of the sequence */
    size_t start;        /* first row of the sequence */
    int others;          /* its keys or queries, whichever are not the tile's, */
    size_t others_start; /* from this row on */
};

/*
 * Return the tile of a slot; keys: of keys. Sequence s has the slots offsets[s] / 64 + s ..
 * offsets[s + 1] / 64 + s, at least as many as it has tiles; there are N / 64 + sequences
 * slots in total. first >= length: the slot has no tile.
 */
template <enum plain_kind kind>
__device__ inline struct plain_tile plain_find(const struct op_attention &op, bool keys,
                                               int slot)
{
    bool crosses = kind != PLAIN_CAUSAL && op.key_offsets;
    const int32_t *offsets = crosses && keys ? op.key_offsets : op.offsets;
    const int32_t *others = crosses && !keys ? op.key_offsets : op.offsets;
    int low = 0, high = (int)op.sequences - 1;

    while (low < high) {
        int middle = (low + high + 1) / 2;

        if (offsets[middle] / PLAIN_TILE + middle <= slot)
            low = middle;
        else
            high = middle - 1;
    }
    return { (slot - offsets[low] / PLAIN_TILE - low) * PLAIN_TILE,
             offsets[low + 1] - offsets[low], (size_t)offsets[low],
             others[low + 1] - others[low], (size_t)others[low] };
}

/* Return the rows of the sequence from `start` on. */
__device__ inline struct plain_rows
plain_rows_from(size_t start, int end, struct tensor x, int head, int columns)
{
    struct plain_head of = plain_head_of(x, head, columns);

    of.data += start * x.stride * (x.format == FORMAT_FP32 ? 4 : 2);
    return { of, end };
}

__device__ inline struct plain_rows plain_rows_of(const struct plain_tile &at,
                                                  struct tensor x, int head, int columns)
{
    return plain_rows_from(at.start, at.length, x, head, columns);
}

__device__ inline struct plain_rows
plain_others_of(const struct plain_tile &at, struct tensor x, int head, int columns)
{
    return plain_rows_from(at.others_start, at.others, x, head, columns);
}

/* keys: the tile's rows are keys. */
__device__ inline struct plain_visibility plain_sight(const struct plain_tile &at,
                                                      const struct op_attention &op,
                                                      bool keys, unsigned window)
{
    const int32_t *edges = keys ? op.since : op.reach;

    return { keys ? -1 : 1,
             window,
             edges ? edges + at.start : edges,
             op.key_offsets ? keys ? 0 : at.others : -1,
             (int)at.others_start,
             at.length };
}

/* Compute the slack of this thread's rows. */
template <int R, enum plain_kind kind>
__device__ inline void plain_slacks(int slack[R], const struct plain_visibility &sight,
                                    int first)
{
#pragma unroll
    for (int i = 0; i < R; i++)
        slack[i] =
            plain_slack<kind>(sight, first + (int)threadIdx.x / PLAIN_ACROSS * R + i);
}

/* Return the last row of the tile. */
__device__ inline int plain_last(const struct plain_tile &at)
{
    int last = at.first + PLAIN_TILE - 1;

    return last < at.length ? last : at.length - 1;
}

/* rows: of the queries or keys */
static inline unsigned plain_slots(const struct op_attention *op, size_t rows)
{
    return (unsigned)(rows / PLAIN_TILE + op->sequences);
}

static inline bool plain_is_causal(const struct op_attention *op)
{
    return !op->reach && !op->key_offsets;
}

/* Return how many blocks share the sums of a head. */
template <int D> static inline unsigned plain_parts(const struct op_attention *op)
{
    return (unsigned)((op->head_size + D - 1) / D);
}

/* The keys that all queries of a tile reach, and that any of them does; in causal attention
 * the tile of the last begins with the tile's own rows. */
struct plain_ends {
    int near, far;
};

template <enum plain_kind kind>
__device__ inline struct plain_ends plain_ends_of(const struct plain_visibility &sight,
                                                  const struct plain_tile &at)
{
    int last = plain_last(at);

    if (kind == PLAIN_CAUSAL)
        return { at.first + 1, at.first + 1 };
    return { at.first + 1 + plain_slack<kind>(sight, at.first),
             last + 1 + plain_slack<kind>(sight, last) };
}

static inline unsigned plain_window(const struct op_attention *op)
{
    return op->window > 0 && op->window < 1u << 31 ? (unsigned)op->window : 1u << 31;
}

#endif
