/*
 * kernels/cuda/thin.cu - matmuls that sum many rows into a thin result: the gradients of
 * LoRA's B, (512, 16) from 8192 rows.
 *
 *     out (W, N) = alpha * sum over rows of wide (K, W)^T thin (K, N) + beta * out
 *
 * N is at most 64, so that the time is that of reading the wide operand once: 8 MB, 3 us
 * at 2.6 TB/s, for W = 512.  cuBLASLt's own choice took 245 us there, this kernel 25, with
 * what it takes to wait for each (H100, cuBLAS 13.1): a few tiles of the result occupy as
 * few multiprocessors, unless the sum is split.  W = 2048: 38 us instead of 46; 8192: 91
 * instead of 100.  (N, W), the gradients of A, were up to 6 us slower than the library's.
 *
 * A block has TILE columns of the wide operand and a part of the rows; each of its warps
 * has 32 of these columns.  Rows pass through shared memory, STAGES ahead.  The sums of
 * the parts go to the scratch, and a second kernel adds them in order.  The parts depend
 * on the shape only, so a matmul always has the same bits.
 */
#include "kernels/cuda/block.cuh"

enum {
    TILE = 128,     /* columns of the wide operand of a block */
    STEP = 64,      /* rows of a stage */
    STAGES = 3,     /* in shared memory */
    WARPS = 4,      /* of a block; TILE / WARPS columns each */
    GAP = 8,        /* elements between rows in shared memory, against bank conflicts */
    UNIT = 8,       /* elements of a 16-byte copy */
    BLOCKS = 384,   /* wanted: three for each multiprocessor of an H100 */
    THIN_MOST = 64, /* columns of the thin operand */
    DEEP = 1024,    /* rows, at least: less is not worth a second kernel */
};

struct thin_operand {
    const void *data;
    size_t stride, cols;
};

struct thin_matmul {
    struct thin_operand wide, thin;
    float *sums; /* (parts, W, N) */
    size_t rows, part_rows, tiles;
};

/* The second kernel. */
struct thin_result {
    const float *sums;
    float *out;
    size_t parts, cols, count, stride; /* cols: N; count: W * N; stride: of out */
    float alpha, beta;
};

template <typename T>
__device__ inline void thin_mma(float d[4], const uint32_t a[4], const uint32_t b[2]);
template <>
__device__ inline void thin_mma<fp16>(float d[4], const uint32_t a[4],
                                      const uint32_t b[2])
{
    mma_fp16(d, a, b);
}
template <>
__device__ inline void thin_mma<bf16>(float d[4], const uint32_t a[4],
                                      const uint32_t b[2])
{
    mma_bf16(d, a, b);
}

/* Copy rows first .. first + STEP of columns col .. col + cols into shared memory, whose
 * rows are cols + GAP apart; what is beyond `last` or the operand becomes 0. */
template <int cols, typename T>
__device__ inline void thin_copy(T *to, const struct thin_operand &x, size_t first,
                                 size_t last, size_t col)
{
    constexpr int units = cols / UNIT;

    for (int i = threadIdx.x; i < STEP * units; i += WARPS * WARP) {
        size_t row = first + i / units, at = col + i % units * UNIT;
        bool there = row < last && at < x.cols;

        copy_16_bytes(to + i / units * (cols + GAP) + i % units * UNIT,
                      (const T *)x.data + (there ? row * x.stride + at : 0), there);
    }
}

/* n: columns of the thin operand, padded to a multiple of 16 */
template <int n, typename T>
__global__ void __launch_bounds__(WARPS *WARP) thin_kernel(struct thin_matmul p)
{
    constexpr int wide_room = STEP * (TILE + GAP), thin_room = STEP * (n + GAP);
    T *room = (T *)shared_memory(); /* [STAGES][wide_room + thin_room] */
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    size_t tile = blockIdx.x % p.tiles * TILE, part = blockIdx.x / p.tiles;
    size_t first = part * p.part_rows, last = first + p.part_rows;
    float sum[2][n / 8][4] = {}; /* 16 columns of the wide operand, 8 of the thin one */
    int steps, row = lane % 8, matrix = lane / 8;

    last = last < p.rows ? last : p.rows;
    steps = (int)((last - first + STEP - 1) / STEP);
    for (int s = 0; s < STAGES - 1; s++) {
        T *to = room + s * (wide_room + thin_room);

        thin_copy<TILE>(to, p.wide, first + s * STEP, last, tile);
        thin_copy<n>(to + wide_room, p.thin, first + s * STEP, last, 0);
        copies_close();
    }
    for (int s = 0; s < steps; s++) {
        const T *wide = room + s % STAGES * (wide_room + thin_room);
        const T *thin = wide + wide_room;
        T *next = room + (s + STAGES - 1) % STAGES * (wide_room + thin_room);
        size_t ahead = first + (size_t)(s + STAGES - 1) * STEP;

        copies_wait<STAGES - 2>();
        __syncthreads(); /* and no warp reads the oldest stage any more */
        thin_copy<TILE>(next, p.wide, ahead, last, tile);
        thin_copy<n>(next + wide_room, p.thin, ahead, last, 0);
        copies_close();
#pragma unroll
        for (int k = 0; k < STEP; k += 16) {
            uint32_t a[2][4], b[n / 16][4];

            /* fragments of a: (column 0, row 0), (8, 0), (0, 8), (8, 8) */
#pragma unroll
            for (int m = 0; m < 2; m++)
                load_matrices_transposed(
                    a[m], wide + (k + matrix / 2 * 8 + row) * (TILE + GAP) + warp * 32 +
                              m * 16 + matrix % 2 * 8);
                /* of b: rows 0 and 8 of column 0, then of column 8 */
#pragma unroll
            for (int j = 0; j < n / 16; j++)
                load_matrices_transposed(b[j],
                                         thin + (k + matrix % 2 * 8 + row) * (n + GAP) +
                                             j * 16 + matrix / 2 * 8);
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int j = 0; j < n / 8; j++)
                    thin_mma<T>(sum[m][j], a[m], b[j / 2] + j % 2 * 2);
        }
    }
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int j = 0; j < n / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                size_t w = tile + warp * 32 + m * 16 + lane / 4 + i / 2 * 8;
                size_t c = (size_t)j * 8 + lane % 4 * 2 + i % 2;

                if (w < p.wide.cols && c < p.thin.cols)
                    p.sums[(part * p.wide.cols + w) * p.thin.cols + c] = sum[m][j][i];
            }
}

__global__ void thin_add_kernel(struct thin_result r)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < r.count;
         i += (size_t)gridDim.x * blockDim.x) {
        float *out = r.out + i / r.cols * r.stride + i % r.cols;
        float sum = 0;

#pragma unroll 8
        for (size_t part = 0; part < r.parts; part++)
            sum += r.sums[part * r.count + i];
        *out = r.alpha * sum + (r.beta != 0 ? r.beta * *out : 0);
    }
}

template <int n, typename T>
static cudaError_t thin_launch(const struct cuda_launch *to, const struct thin_matmul *p,
                               size_t parts)
{
    return launch(to->stream, thin_kernel<n, T>, dim3((unsigned)(p->tiles * parts)),
                  dim3(WARPS * WARP), STAGES * STEP * (TILE + n + 2 * GAP) * sizeof(T),
                  *p);
}

template <typename T>
static cudaError_t thin_typed(const struct cuda_launch *to, const struct thin_matmul *p,
                              size_t parts)
{
    return p->thin.cols <= 16   ? thin_launch<16, T>(to, p, parts)
           : p->thin.cols <= 32 ? thin_launch<32, T>(to, p, parts)
           : p->thin.cols <= 48 ? thin_launch<48, T>(to, p, parts)
                                : thin_launch<64, T>(to, p, parts);
}

static bool is_unit_wise(struct tensor x)
{
    return (uintptr_t)x.data % 16 == 0 && x.stride % UNIT == 0 && x.cols % UNIT == 0;
}

bool launch_thin_suits(const struct cuda_launch *to, const struct op_matmul *op)
{
    return to->capability >= 80 && op->trans_a && !op->trans_b && !op->bias.data &&
           op->round_a == FORMAT_FP32 && op->out.format == FORMAT_FP32 &&
           (op->a.format == FORMAT_BF16 || op->a.format == FORMAT_FP16) &&
           op->out.cols <= THIN_MOST && op->out.cols < op->out.rows &&
           op->out.rows * op->out.cols * sizeof(float) <= to->scratch_bytes &&
           op->a.rows >= DEEP && is_unit_wise(op->a) && is_unit_wise(op->b);
}

cudaError_t launch_thin(const struct cuda_launch *to, const struct op_matmul *op)
{
    size_t count = op->out.rows * op->out.cols;
    size_t most = to->scratch_bytes / sizeof(float) / count, parts;
    struct thin_matmul p = {};
    struct thin_result r = {};
    cudaError_t status;

    p.wide = { op->a.data, op->a.stride, op->a.cols };
    p.thin = { op->b.data, op->b.stride, op->b.cols };
    p.sums = (float *)to->scratch;
    p.rows = op->a.rows;
    p.tiles = (p.wide.cols + TILE - 1) / TILE;
    parts = BLOCKS / p.tiles < most ? BLOCKS / p.tiles : most;
    p.part_rows = parts > 1 ? (p.rows + parts - 1) / parts : p.rows;
    p.part_rows = (p.part_rows + STEP - 1) / STEP * STEP;
    parts = (p.rows + p.part_rows - 1) / p.part_rows;
    status = op->a.format == FORMAT_BF16 ? thin_typed<bf16>(to, &p, parts)
                                         : thin_typed<fp16>(to, &p, parts);
    if (status != cudaSuccess)
        return status;
    r.sums = p.sums;
    r.out = (float *)op->out.data;
    r.parts = parts;
    r.cols = op->out.cols;
    r.count = count;
    r.stride = op->out.stride;
    r.alpha = op->alpha;
    r.beta = op->beta;
    return launch(to->stream, thin_add_kernel, dim3((unsigned)((count + 255) / 256)),
                  dim3(256), 0, r);
}
