/*
 * kernels/cuda/column_sums.cuh - sums over the rows of a matrix, in two steps with a
 * fixed order.
 *
 * The rows are divided into slices, by the shape alone and independent of the GPU; a
 * first kernel stores the sum of each slice in `to->scratch` (slices, cols);
 * column_sums_total adds them: at most COLUMN_SUMS_LANES threads each take every n-th
 * slice of a column, then their sums are added in order.
 */
#ifndef KERNELS_CUDA_SLICES_CUH
#define KERNELS_CUDA_SLICES_CUH

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_launch.h"

enum { COLUMN_SUMS_SLICES_MAX = 512, COLUMN_SUMS_LANES = 32 };

/* A division of rows: `count` slices of `rows` rows, the last ones may be shorter. */
struct slices {
    size_t count, rows;
};

/* Return slices of at least `least` rows whose sums of `cols` fp32 fit into
 * the scratch. */
static inline struct slices column_sums_slices(const struct cuda_launch *to, size_t rows,
                                               size_t cols, size_t least)
{
    struct slices s;
    size_t room = to->scratch_bytes / (cols * sizeof(float));
    size_t most = COLUMN_SUMS_SLICES_MAX;

    most = room < most ? room : most;
    s.count = (rows + least - 1) / least;
    s.count = s.count < most ? s.count : most;
    if (s.count == 0)
        return { 0, 0 };
    s.rows = (rows + s.count - 1) / s.count;
    s.count = (rows + s.rows - 1) / s.rows;
    return s;
}

/* out (cols) += sum over slices; a block has WARP columns and a warp for each lane. */
static __global__ void __launch_bounds__(WARP *COLUMN_SUMS_LANES)
    column_sums_total(float *out, const float *sums, size_t count, size_t cols)
{
    float *room = (float *)shared_memory(); /* [lanes][WARP] */
    size_t lane = threadIdx.x / WARP, lanes = blockDim.x / WARP,
           column = threadIdx.x % WARP;
    size_t col = blockIdx.x * (size_t)WARP + column;
    float sum = 0;

    if (col < cols)
#pragma unroll 8
        for (size_t slice = lane; slice < count; slice += lanes)
            sum += sums[slice * cols + col];
    room[threadIdx.x] = sum;
    __syncthreads();
    if (lane == 0 && col < cols) {
        sum = room[column];
        for (size_t other = 1; other < lanes; other++)
            sum += room[other * WARP + column];
        out[col] += sum;
    }
}

/* `sums` (slices, cols) are in the scratch. */
static inline cudaError_t column_sums_launch_at(const struct cuda_launch *to,
                                                struct tensor out, const float *sums,
                                                struct slices slices)
{
    size_t most = COLUMN_SUMS_LANES, lanes = slices.count < most ? slices.count : most;

    return launch(to->stream, column_sums_total,
                  dim3((unsigned)((out.cols + WARP - 1) / WARP)),
                  dim3((unsigned)(WARP * lanes)), WARP * lanes * sizeof(float),
                  (float *)out.data, sums, slices.count, out.cols);
}

static inline cudaError_t column_sums_launch(const struct cuda_launch *to,
                                             struct tensor out, struct slices slices)
{
    return column_sums_launch_at(to, out, (const float *)to->scratch, slices);
}

#endif
