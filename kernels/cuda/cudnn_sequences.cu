/*
 * kernels/cuda/cudnn_sequences.cu - converts sequences of rows to the form cuDNN expects,
 * and its results by rows back to heads.
 *
 * runs: 4 bytes in and 24 out for each sequence, of gradients 40. transpose: 8 bytes per element, 2 us for
 * the log-sum-exp of 8192 rows and 32 heads if they come from memory at 1 TB/s.
 */
#include "kernels/cuda/block.cuh"

enum { SEQUENCES_THREADS = 128, TURN = 32, TURN_ROWS = 8 };

__global__ void __launch_bounds__(SEQUENCES_THREADS)
    sequences_kernel(const struct cuda_sequences runs)
{
    int run = (int)(blockIdx.x * SEQUENCES_THREADS + threadIdx.x);

    if (run > runs.sequences)
        return;

    int32_t offset = runs.offsets[run];

    if (run < runs.sequences)
        runs.lengths[run] = runs.offsets[run + 1] - offset;
#pragma unroll
    for (int i = 0; i < CUDA_SEQUENCES_STARTS; i++)
        if (runs.starts[i])
            runs.starts[i][run] = offset * runs.strides[i];
}

cudaError_t launch_sequences(const struct cuda_launch *to,
                             const struct cuda_sequences *runs)
{
    unsigned blocks = (unsigned)(runs->sequences + SEQUENCES_THREADS) / SEQUENCES_THREADS;

    return launch(to->stream, sequences_kernel, dim3(blocks), dim3(SEQUENCES_THREADS), 0,
                  *runs);
}

struct transposed {
    float *out;
    const float *x;
    int rows, cols; /* of x */
    int64_t out_stride, x_stride;
};

/* A block has TURN rows and columns; a row of its tile has one element more, so that a
 * column of it is in different banks. */
__global__ void __launch_bounds__(TURN *TURN_ROWS)
    transpose_kernel(const struct transposed t)
{
    float *tile = (float *)shared_memory();
    int lane = threadIdx.x % TURN, first = threadIdx.x / TURN;
    int tiles = (t.cols + TURN - 1) / TURN;
    int row = (int)(blockIdx.x / tiles) * TURN, col = (int)(blockIdx.x % tiles) * TURN;

    for (int i = first; i < TURN; i += TURN_ROWS)
        if (row + i < t.rows && col + lane < t.cols)
            tile[i * (TURN + 1) + lane] = t.x[(row + i) * t.x_stride + col + lane];
    __syncthreads();
    for (int i = first; i < TURN; i += TURN_ROWS)
        if (col + i < t.cols && row + lane < t.rows)
            t.out[(col + i) * t.out_stride + row + lane] = tile[lane * (TURN + 1) + i];
}

cudaError_t launch_transpose(const struct cuda_launch *to, struct tensor out,
                             struct tensor x)
{
    size_t blocks = (x.rows + TURN - 1) / TURN * ((x.cols + TURN - 1) / TURN);
    struct transposed t;

    t.out = (float *)out.data;
    t.x = (const float *)x.data;
    t.rows = (int)x.rows;
    t.cols = (int)x.cols;
    t.out_stride = (int64_t)out.stride;
    t.x_stride = (int64_t)x.stride;
    return launch(to->stream, transpose_kernel, dim3((unsigned)blocks),
                  dim3(TURN * TURN_ROWS), TURN * (TURN + 1) * sizeof(float), t);
}
