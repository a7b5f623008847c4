/*
 * kernels/cuda/grouped_matmul.cu - a matmul for each group of rows, on tensor cores in 16
 * bits where all rows are aligned, else with plain loops.
 *
 * The host does not know how many rows a group has: the grid has as many row tiles as M
 * rows in G groups can need, M / tile + G, and a block finds its group in `starts`; blocks
 * that find no rows end.  So the launch is the same for every distribution of the rows,
 * and a CUDA graph can record it.
 *
 * A block computes a tile of the result; operands pass through shared memory, STAGES
 * ahead.  The column tiles of a row tile are neighbors, so its rows are read from memory
 * once, and the matrix of a group, which all its row tiles read, from the L2 cache.
 * Groups of few rows have a tile of 32 rows instead of 128: what a tile computes in vain
 * costs time, too.  128 experts, 2048 to 768 columns, 32768 rows in bf16: 103 GFLOP and
 * 0.6 GB.
 *
 * Each element is the sum over the depth in order, whatever the tile: no bits depend on
 * the other groups.
 */
#include "kernels/cuda/elementwise_kernel.cuh"
#include "kernels/cuda/flash.cuh"

/* Which operands are transposed: a stack's matrices are (n, c), (c, n), or the result. */
enum grouped_kind { GROUPED_NT, GROUPED_NN, GROUPED_TN };

enum {
    STEP = 32, /* of the depth, a stage */
    STAGES = 3,
    UNIT = 8, /* elements of a 16-byte copy */
    GAP = 8,  /* elements between rows in shared memory, against bank conflicts */
    COLS = 128,
    FEW_ROWS = 48 /* of a group on average: the smaller tile */
};

struct grouped_job {
    const void *a, *b;
    void *out;
    size_t a_stride, b_stride, out_stride;
    const int32_t *starts;
    int groups, tiles; /* tiles of columns */
    int rows_of_out;   /* TN: of a matrix of the stack */
    int depth, cols;   /* depth: NT, NN */
    float alpha, beta;
};

/* A block's part: the rows of a and of out, and the matrix of the stack. */
struct grouped_place {
    int group, col;
    size_t row;    /* first row of a; TN: of the group */
    int out, left; /* TN: first row in the result of the group; rows that are left */
    int depth;
};

/* Find the group whose row tiles include `slot`: group g has the slots from starts[g] /
 * rows + g on.  All lanes take part. */
template <int rows>
__device__ inline int grouped_find(const struct grouped_job &p, int slot)
{
    int low = 0, left = p.groups, lane = threadIdx.x % WARP;

    while (left > 1) {
        int step = (left + WARP - 1) / WARP, mine = lane * step, before;
        bool here = mine < left && p.starts[low + mine] / rows + low + mine <= slot;

        before = (__popc(__ballot_sync(FULL_WARP_MASK, here)) - 1) * step;
        low += before;
        left = left - before < step ? left - before : step;
    }
    return low;
}

/* Return false if the block has nothing to do. */
template <enum grouped_kind kind, int rows, int cols>
__device__ inline bool grouped_place_of(struct grouped_place &at,
                                        const struct grouped_job &p)
{
    int slot = (int)(blockIdx.x / p.tiles), tile;

    at.col = (int)(blockIdx.x % p.tiles) * cols;
    if (kind == GROUPED_TN) {
        int down = (p.rows_of_out + rows - 1) / rows;

        at.group = slot / down;
        at.out = slot % down * rows;
        at.left = p.rows_of_out - at.out;
        at.row = p.starts[at.group];
        at.depth = p.starts[at.group + 1] - p.starts[at.group];
        return at.depth > 0 || p.beta == 0;
    }
    at.group = grouped_find<rows>(p, slot);
    tile = slot - (p.starts[at.group] / rows + at.group);
    at.row = (size_t)p.starts[at.group] + (size_t)tile * rows;
    at.out = 0;
    at.left = p.starts[at.group + 1] - (int)at.row;
    at.depth = p.depth;
    return at.left > 0;
}

/* The first row of the block in the result. */
template <enum grouped_kind kind>
__device__ inline size_t grouped_out_row(const struct grouped_job &p,
                                         const struct grouped_place &at)
{
    return kind == GROUPED_TN ? (size_t)at.group * p.rows_of_out + at.out : at.row;
}

/* The matrix of the stack that NT and NN read, and where its rows begin. */
template <enum grouped_kind kind>
__device__ inline size_t grouped_b_row(const struct grouped_job &p,
                                       const struct grouped_place &at)
{
    return kind == GROUPED_NT   ? (size_t)at.group * p.cols
           : kind == GROUPED_NN ? (size_t)at.group * p.depth
                                : at.row;
}

template <typename O>
__device__ inline void grouped_put(const struct grouped_job &p, size_t row, int col,
                                   float sum)
{
    O *to = (O *)p.out + row * p.out_stride + col;

    *to = from_float<O>(p.alpha * sum + (p.beta != 0 ? to_float(*to) : 0.0f));
}

/* ---- Tensor cores ---- */

/* Copy a tile of `rows` rows of `cols` elements, of which `left` rows and `right` columns
 * from (row, col) on exist, to rows that are cols + GAP apart. */
template <int rows, int cols, int threads, typename T>
__device__ inline void grouped_copy(T *to, const T *from, size_t stride, int left,
                                    int right)
{
    constexpr int units = cols / UNIT;

#pragma unroll
    for (int i = threadIdx.x; i < rows * units; i += threads) {
        int row = i / units, col = i % units * UNIT;
        bool there = row < left && col < right;

        copy_16_bytes(to + row * (cols + GAP) + col,
                      from + (there ? row * stride + col : 0), there);
    }
}

/* M fragments of 16 rows of a warp, DOWN warps one below the other; ACROSS side by side,
 * with 32 columns each. */
template <enum grouped_kind kind, int M, int DOWN, int ACROSS> struct grouped_tile {
    static constexpr int rows = 16 * M * DOWN, cols = 32 * ACROSS;
    static constexpr int threads = WARP * DOWN * ACROSS;
    /* as stored: TN has the depth first in both, NT in none */
    static constexpr int a_rows = kind == GROUPED_TN ? STEP : rows;
    static constexpr int a_cols = kind == GROUPED_TN ? rows : STEP;
    static constexpr int b_rows = kind == GROUPED_NT ? cols : STEP;
    static constexpr int b_cols = kind == GROUPED_NT ? STEP : cols;
    static constexpr int a_room = a_rows * (a_cols + GAP);
    static constexpr int room = a_room + b_rows * (b_cols + GAP);
};

/* The first element of both operands that a block reads. */
template <typename T> struct grouped_sides {
    const T *a, *b;
};

template <enum grouped_kind kind, typename T>
__device__ inline grouped_sides<T> grouped_sides_of(const struct grouped_job &p,
                                                    const struct grouped_place &at)
{
    grouped_sides<T> sides;

    sides.a = (const T *)p.a + at.row * p.a_stride + at.out;
    sides.b = (const T *)p.b + grouped_b_row<kind>(p, at) * p.b_stride +
              (kind == GROUPED_NT ? at.col * p.b_stride : at.col);
    return sides;
}

/* Start copying stage `step` of both operands. */
template <enum grouped_kind kind, typename S, typename T>
__device__ inline void grouped_stage(T *room, const grouped_sides<T> &sides,
                                     const struct grouped_job &p,
                                     const struct grouped_place &at, int step)
{
    int done = step * STEP, deep = at.depth - done, wide = p.cols - at.col;

    room += step % STAGES * S::room;
    if (kind == GROUPED_TN)
        grouped_copy<S::a_rows, S::a_cols, S::threads>(room, sides.a + done * p.a_stride,
                                                       p.a_stride, deep, at.left);
    else
        grouped_copy<S::a_rows, S::a_cols, S::threads>(room, sides.a + done, p.a_stride,
                                                       at.left, deep);
    if (kind == GROUPED_NT)
        grouped_copy<S::b_rows, S::b_cols, S::threads>(room + S::a_room, sides.b + done,
                                                       p.b_stride, wide, deep);
    else
        grouped_copy<S::b_rows, S::b_cols, S::threads>(
            room + S::a_room, sides.b + done * p.b_stride, p.b_stride, deep, wide);
    copies_close();
}

/* sum += a stage; the warp's part begins at row `down` and column `across` of the tile. */
template <enum grouped_kind kind, typename S, int M, typename T>
__device__ inline void grouped_multiply(float (&sum)[M][4][4], const T *room, int down,
                                        int across)
{
    const T *a = room, *b = room + S::a_room;
    int lane = threadIdx.x % WARP, row = lane % 8, matrix = lane / 8;
    int lower = matrix % 2 * 8, upper = matrix / 2 * 8;

#pragma unroll
    for (int k = 0; k < STEP; k += 16) {
        uint32_t left[M][4], right[2][4];

#pragma unroll
        for (int m = 0; m < M; m++)
            if (kind == GROUPED_TN)
                load_matrices_transposed(left[m],
                                         a + (k + upper + row) * (S::a_cols + GAP) +
                                             down + 16 * m + lower);
            else
                load_matrices(left[m],
                              a + (down + 16 * m + lower + row) * (S::a_cols + GAP) + k +
                                  upper);
#pragma unroll
        for (int n = 0; n < 2; n++)
            if (kind == GROUPED_NT)
                load_matrices(right[n],
                              b + (across + 16 * n + upper + row) * (S::b_cols + GAP) +
                                  k + lower);
            else
                load_matrices_transposed(right[n],
                                         b + (k + lower + row) * (S::b_cols + GAP) +
                                             across + 16 * n + upper);
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < 4; n++)
                flash_mma<T>(sum[m][n], left[m], right[n / 2] + n % 2 * 2);
    }
}

template <enum grouped_kind kind, typename T, typename O, int M, int DOWN, int ACROSS>
static __global__ void __launch_bounds__(WARP *DOWN *ACROSS)
    grouped_kernel(const struct grouped_job p)
{
    typedef grouped_tile<kind, M, DOWN, ACROSS> S;
    T *room = (T *)shared_memory(); /* [STAGES][S::room] */
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int down = warp / ACROSS * 16 * M, across = warp % ACROSS * 32, steps;
    float sum[M][4][4] = {};
    struct grouped_place at;
    grouped_sides<T> sides;
    size_t first;

    if (!grouped_place_of<kind, S::rows, S::cols>(at, p))
        return;
    sides = grouped_sides_of<kind, T>(p, at);
    steps = (at.depth + STEP - 1) / STEP;
    for (int s = 0; s < STAGES - 1; s++)
        grouped_stage<kind, S>(room, sides, p, at, s);
    for (int s = 0; s < steps; s++) {
        copies_wait<STAGES - 2>();
        __syncthreads(); /* and no warp reads the oldest stage any more */
        grouped_stage<kind, S>(room, sides, p, at, s + STAGES - 1);
        grouped_multiply<kind, S>(sum, room + s % STAGES * S::room, down, across);
    }
    first = grouped_out_row<kind>(p, at);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int row = down + 16 * m + lane / 4 + i / 2 * 8;
                int col = at.col + across + 8 * n + lane % 4 * 2 + i % 2;

                if (row < at.left && col < p.cols)
                    grouped_put<O>(p, first + row, col, sum[m][n][i]);
            }
}

/* ---- Any format and alignment ---- */

enum { PLAIN_TILE = 64, PLAIN_STEP = 16, PLAIN_THREADS = 256, PLAIN_EACH = 4 };

/* A thread has 4 by 4 elements of a tile of 64 by 64; both operands are in shared memory
 * with the depth first. */
template <enum grouped_kind kind, typename T, typename O>
static __global__ void __launch_bounds__(PLAIN_THREADS)
    grouped_plain(const struct grouped_job p)
{
    float *left = (float *)shared_memory(); /* [PLAIN_STEP][PLAIN_TILE], twice */
    float *right = left + PLAIN_STEP * PLAIN_TILE;
    int down = threadIdx.x / 16, across = threadIdx.x % 16;
    float sum[PLAIN_EACH][PLAIN_EACH] = {};
    struct grouped_place at;
    size_t first;
    const T *a, *b;

    if (!grouped_place_of<kind, PLAIN_TILE, PLAIN_TILE>(at, p))
        return;
    a = (const T *)p.a + at.row * p.a_stride;
    b = (const T *)p.b + grouped_b_row<kind>(p, at) * p.b_stride;
    for (int done = 0; done < at.depth; done += PLAIN_STEP) {
        for (int i = threadIdx.x; i < PLAIN_STEP * PLAIN_TILE; i += PLAIN_THREADS) {
            int k = i / PLAIN_TILE, x = i % PLAIN_TILE, deep = done + k;
            int col = at.col + x;
            bool in_a = deep < at.depth && x < at.left;
            bool in_b = deep < at.depth && col < p.cols;
            size_t from_a = kind == GROUPED_TN ? deep * p.a_stride + at.out + x
                                               : x * p.a_stride + deep;
            size_t from_b =
                kind == GROUPED_NT ? col * p.b_stride + deep : deep * p.b_stride + col;

            left[i] = in_a ? to_float(a[from_a]) : 0;
            right[i] = in_b ? to_float(b[from_b]) : 0;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < PLAIN_STEP; k++)
#pragma unroll
            for (int i = 0; i < PLAIN_EACH * PLAIN_EACH; i++)
                sum[i / PLAIN_EACH][i % PLAIN_EACH] =
                    fmaf(left[k * PLAIN_TILE + down + i / PLAIN_EACH * 16],
                         right[k * PLAIN_TILE + across + i % PLAIN_EACH * 16],
                         sum[i / PLAIN_EACH][i % PLAIN_EACH]);
        __syncthreads();
    }
    first = grouped_out_row<kind>(p, at);
    for (int i = 0; i < PLAIN_EACH * PLAIN_EACH; i++) {
        int row = down + i / PLAIN_EACH * 16;
        int col = at.col + across + i % PLAIN_EACH * 16;

        if (row < at.left && col < p.cols)
            grouped_put<O>(p, first + row, col, sum[i / PLAIN_EACH][i % PLAIN_EACH]);
    }
}

/* ---- Launching ---- */

/* The number of blocks for row tiles of `rows`. */
static dim3 grouped_grid(const struct grouped_job *p, const struct op_grouped_matmul *op,
                         size_t rows)
{
    size_t slots = op->trans_a ? op->groups * ((p->rows_of_out + rows - 1) / rows)
                               : op->a.rows / rows + op->groups;

    return dim3((unsigned)(slots * p->tiles));
}

template <enum grouped_kind kind, typename T, typename O, int M, int DOWN, int ACROSS>
static cudaError_t grouped_on_tensor_cores(const struct cuda_launch *to,
                                           const struct grouped_job *p,
                                           const struct op_grouped_matmul *op)
{
    typedef grouped_tile<kind, M, DOWN, ACROSS> S;
    struct grouped_job job = *p;

    job.tiles = (p->cols + S::cols - 1) / S::cols;
    return launch(to->stream, grouped_kernel<kind, T, O, M, DOWN, ACROSS>,
                  grouped_grid(&job, op, S::rows), dim3(S::threads),
                  STAGES * S::room * sizeof(T), job);
}

template <enum grouped_kind kind, typename T, typename O>
static cudaError_t grouped_plainly(const struct cuda_launch *to,
                                   const struct grouped_job *p,
                                   const struct op_grouped_matmul *op)
{
    struct grouped_job job = *p;

    job.tiles = (p->cols + PLAIN_TILE - 1) / PLAIN_TILE;
    return launch(to->stream, grouped_plain<kind, T, O>,
                  grouped_grid(&job, op, PLAIN_TILE), dim3(PLAIN_THREADS),
                  2 * PLAIN_STEP * PLAIN_TILE * sizeof(float), job);
}

static bool grouped_is_aligned(struct tensor x)
{
    return (uintptr_t)x.data % 16 == 0 && x.stride % UNIT == 0 && x.cols % UNIT == 0;
}

/* Choose the kernel by the format, the alignment and the rows of a group. */
template <enum grouped_kind kind, typename T, typename O> struct grouped_choice {
    static cudaError_t enqueue(const struct cuda_launch *to, const struct grouped_job *p,
                               const struct op_grouped_matmul *op)
    {
        int least = op->a.format == FORMAT_BF16 ? 80 : 75;
        size_t rows = kind == GROUPED_TN ? p->rows_of_out : op->a.rows / op->groups;

        if (to->capability < least || !grouped_is_aligned(op->a) ||
            !grouped_is_aligned(op->b))
            return grouped_plainly<kind, T, O>(to, p, op);
        return rows < FEW_ROWS ? grouped_on_tensor_cores<kind, T, O, 2, 1, 4>(to, p, op)
                               : grouped_on_tensor_cores<kind, T, O, 4, 2, 4>(to, p, op);
    }
};

template <enum grouped_kind kind, typename O> struct grouped_choice<kind, float, O> {
    static cudaError_t enqueue(const struct cuda_launch *to, const struct grouped_job *p,
                               const struct op_grouped_matmul *op)
    {
        return grouped_plainly<kind, float, float>(to, p, op);
    }
};

template <enum grouped_kind kind>
static cudaError_t grouped_by_format(const struct cuda_launch *to,
                                     const struct grouped_job *p,
                                     const struct op_grouped_matmul *op)
{
    if (op->out.format == FORMAT_FP32)
        return BY_FORMAT(op->a.format, T,
                         grouped_choice<kind, T, float>::enqueue(to, p, op));
    return BY_FORMAT(op->a.format, T, grouped_choice<kind, T, T>::enqueue(to, p, op));
}

cudaError_t launch_grouped_matmul(const struct cuda_launch *to,
                                  const struct op_grouped_matmul *op)
{
    struct grouped_job p = {};

    p.a = op->a.data;
    p.b = op->b.data;
    p.out = op->out.data;
    p.a_stride = op->a.stride;
    p.b_stride = op->b.stride;
    p.out_stride = op->out.stride;
    p.starts = op->starts;
    p.groups = (int)op->groups;
    p.rows_of_out = op->trans_a ? (int)(op->out.rows / op->groups) : 0;
    p.depth = op->trans_a ? 0 : (int)op->a.cols;
    p.cols = (int)op->out.cols;
    p.alpha = op->alpha;
    p.beta = op->beta;
    return op->trans_a   ? grouped_by_format<GROUPED_TN>(to, &p, op)
           : op->trans_b ? grouped_by_format<GROUPED_NT>(to, &p, op)
                         : grouped_by_format<GROUPED_NN>(to, &p, op);
}
