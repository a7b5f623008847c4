/*
 * kernels/cuda/block_rotation.cu - stacks of skew-symmetric matrices, and matmuls by block.
 *
 * A matmul of N rows, R blocks and size b computes N R b b multiply-adds in fp32: with b of
 * 32, 1 / 128 of those of the linear layer of 4096 outputs that it is in front of.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

enum {
    SKEW_THREADS = 256,
    TILE = 32,     /* rows and columns that a block computes */
    TILE_ROWS = 8, /* rows of threads: each has TILE / TILE_ROWS outputs */
    EACH = TILE / TILE_ROWS,
    INVERSE_THREADS = 256
};

struct skew_args {
    any_view x;
    view<float> out;
    size_t size;
    float diagonal;
};

/* Return the number of elements before row j of a packed triangle. */
__device__ inline size_t triangle_row(size_t size, size_t j)
{
    return j * size - j * (j + 1) / 2;
}

/* A block has one matrix. */
__global__ void __launch_bounds__(SKEW_THREADS) skew_kernel(struct skew_args s)
{
    const size_t block = blockIdx.x;

    for (size_t i = threadIdx.x; i < s.size * s.size; i += SKEW_THREADS) {
        size_t j = i / s.size, k = i % s.size;
        size_t low = j < k ? j : k, high = j < k ? k : j;
        float value = s.diagonal;

        if (j != k)
            value = s.x.get(block, triangle_row(s.size, low) + high - low - 1);
        *s.out.at(block * s.size + j, k) = j > k ? -value : value;
    }
}

cudaError_t launch_skew(const struct cuda_launch *to, const struct op_skew *op)
{
    struct skew_args s = { any_view_of(op->x), view_of<float>(op->out), op->out.cols,
                           op->diagonal };

    if (op->x.rows == 0)
        return cudaSuccess;
    return launch(to->stream, skew_kernel, dim3((unsigned)op->x.rows), dim3(SKEW_THREADS),
                  0, s);
}

struct skew_backward_args {
    view<float> dx, dout;
    size_t size;
    bool adds;
};

__global__ void __launch_bounds__(SKEW_THREADS)
    skew_backward_kernel(struct skew_backward_args s)
{
    const size_t block = blockIdx.x, first = block * s.size;

    for (size_t i = threadIdx.x; i < s.size * s.size; i += SKEW_THREADS) {
        size_t j = i / s.size, k = i % s.size;

        if (j < k) {
            float *to = s.dx.at(block, triangle_row(s.size, j) + k - j - 1);

            *to =
                (s.adds ? *to : 0) + *s.dout.at(first + j, k) - *s.dout.at(first + k, j);
        }
    }
}

cudaError_t launch_skew_backward(const struct cuda_launch *to,
                                 const struct op_skew_backward *op)
{
    struct skew_backward_args s = { view_of<float>(op->dx), view_of<float>(op->dout),
                                    op->dout.cols, op->beta != 0 };

    if (op->dx.rows == 0)
        return cudaSuccess;
    return launch(to->stream, skew_backward_kernel, dim3((unsigned)op->dx.rows),
                  dim3(SKEW_THREADS), 0, s);
}

/* Where the blocks of an operand are: rows and columns from one to the next. */
struct blocks_view {
    any_view x;
    size_t down, across;

    __device__ float get(size_t block, size_t row, size_t col) const
    {
        return x.get(block * down + row, block * across + col);
    }
};

struct block_matmul_args {
    struct blocks_view out, a, b;
    size_t rows, cols, depth, tiles_down, tiles_across;
    bool trans_a, trans_b, adds;
    float alpha, diagonal;
};

/* Read a tile of op(x) to to[TILE][TILE + 1], with zeros outside; neighboring threads read
 * neighboring columns of x. */
__device__ inline void read_tile(float *to, const struct blocks_view &x, size_t block,
                                 size_t first_row, size_t first_col, size_t rows,
                                 size_t cols, bool transposed)
{
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        unsigned y = threadIdx.y + i * TILE_ROWS, row = transposed ? threadIdx.x : y;
        unsigned col = transposed ? y : threadIdx.x;
        bool inside = first_row + row < rows && first_col + col < cols;

        to[row * (TILE + 1) + col] = !inside ? 0
                                     : transposed
                                         ? x.get(block, first_col + col, first_row + row)
                                         : x.get(block, first_row + row, first_col + col);
    }
}

/* A block of TILE x TILE_ROWS threads computes a tile of one block of the output. */
__global__ void __launch_bounds__(TILE *TILE_ROWS)
    block_matmul_kernel(struct block_matmul_args s)
{
    float *a = (float *)shared_memory(), *b = a + TILE * (TILE + 1);
    const size_t across = blockIdx.x % s.tiles_across;
    const size_t down = blockIdx.x / s.tiles_across % s.tiles_down;
    const size_t block = blockIdx.x / (s.tiles_across * s.tiles_down);
    const size_t row = down * TILE, col = across * TILE;
    float sum[EACH] = {};

    for (size_t k = 0; k < s.depth; k += TILE) {
        read_tile(a, s.a, block, row, k, s.rows, s.depth, s.trans_a);
        read_tile(b, s.b, block, k, col, s.depth, s.cols, s.trans_b);
        __syncthreads();
        for (int j = 0; j < TILE; j++)
#pragma unroll
            for (int i = 0; i < EACH; i++)
                sum[i] += a[(threadIdx.y + i * TILE_ROWS) * (TILE + 1) + j] *
                          b[j * (TILE + 1) + threadIdx.x];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        size_t y = row + threadIdx.y + i * TILE_ROWS, x = col + threadIdx.x;
        float value = s.alpha * sum[i];

        if (y >= s.rows || x >= s.cols)
            continue;
        if (s.adds)
            value += s.out.get(block, y, x);
        if (y == x)
            value += s.diagonal;
        s.out.x.set(block * s.out.down + y, block * s.out.across + x, value);
    }
}

static struct blocks_view blocks_of(const struct op_block_matmul *op, struct tensor x)
{
    bool stacked = x.cols == op->size;

    return { any_view_of(x), stacked ? op->size : 0, stacked ? 0 : op->size };
}

cudaError_t launch_block_matmul(const struct cuda_launch *to,
                                const struct op_block_matmul *op)
{
    struct block_matmul_args s = {};
    bool stacked = op->blocks > 1 && op->out.cols == op->size;
    bool a_stacked = op->blocks > 1 && op->a.cols == op->size;

    s.out = blocks_of(op, op->out);
    s.a = blocks_of(op, op->a);
    s.b = blocks_of(op, op->b);
    s.rows = stacked ? op->size : op->out.rows;
    s.cols = op->size;
    s.depth = !op->trans_a || a_stacked ? op->size : op->a.rows;
    s.tiles_down = (s.rows + TILE - 1) / TILE;
    s.tiles_across = (s.cols + TILE - 1) / TILE;
    s.trans_a = op->trans_a;
    s.trans_b = op->trans_b;
    s.adds = op->beta != 0;
    s.alpha = op->alpha;
    s.diagonal = op->diagonal;
    if (s.rows == 0 || op->blocks == 0)
        return cudaSuccess;
    return launch(to->stream, block_matmul_kernel,
                  dim3((unsigned)(op->blocks * s.tiles_down * s.tiles_across)),
                  dim3(TILE, TILE_ROWS), 2 * TILE * (TILE + 1) * sizeof(float), s);
}

/* A block inverts one matrix by Gauss-Jordan elimination: first the row of a pivot, then the
 * rest, then its column. */
__global__ void __launch_bounds__(INVERSE_THREADS)
    block_inverse_kernel(view<float> x, size_t size)
{
    const size_t first = blockIdx.x * size;

    for (size_t p = 0; p < size; p++) {
        float pivot = 1 / *x.at(first + p, p);

        __syncthreads(); /* all have read the pivot */
        for (size_t j = threadIdx.x; j < size; j += INVERSE_THREADS)
            if (j != p)
                *x.at(first + p, j) *= pivot;
        __syncthreads();
        for (size_t i = threadIdx.x; i < size * size; i += INVERSE_THREADS) {
            size_t row = i / size, col = i % size;

            if (row != p && col != p)
                *x.at(first + row, col) -= *x.at(first + row, p) * *x.at(first + p, col);
        }
        __syncthreads();
        for (size_t i = threadIdx.x; i < size; i += INVERSE_THREADS) {
            float *at = x.at(first + i, p);

            *at = i == p ? pivot : -*at * pivot;
        }
        __syncthreads();
    }
}

cudaError_t launch_block_inverse(const struct cuda_launch *to,
                                 const struct op_block_inverse *op)
{
    if (op->x.rows == 0)
        return cudaSuccess;
    return launch(to->stream, block_inverse_kernel,
                  dim3((unsigned)(op->x.rows / op->x.cols)), dim3(INVERSE_THREADS), 0,
                  view_of<float>(op->x), op->x.cols);
}
