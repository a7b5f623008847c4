/*
 * kernels/cuda/decide.cu - the end of a step: the sum of squares of all gradients, and
 * the decision whether the optimizer applies the step (kernels/step_decision.h).
 *
 * square_sum reads each gradient once, 4 bytes: a billion take 1.0 ms at 4.0 TB/s. The
 * order of the sum depends on its size alone: blocks of fixed size into scratch, then one
 * block.
 */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_launch.h"
#include "kernels/step_decision.h"

enum { SQUARE_THREADS = 256, SQUARE_PACKS = 4, TOTAL_THREADS = 1024 };
#define SQUARE_BLOCKS ((size_t)2048)

/* `numbers` elements in rows of `cols`, `stride` apart. */
struct squares {
    const void *data;
    size_t numbers, cols, stride;
};

__device__ static size_t place_of(const squares &x, size_t i)
{
    return x.stride == x.cols ? i : i / x.cols * x.stride + i % x.cols;
}

/* n elements from i on; `wide`: in one row and aligned, so that they take one access. */
template <typename T, int n, bool wide>
__device__ static float squares_of(const squares &x, size_t i)
{
    const T *data = (const T *)x.data;
    float in[n], sum = 0;

    if (wide) {
        load<n>(in, data + place_of(x, i));
    } else {
#pragma unroll
        for (int j = 0; j < n; j++)
            in[j] = to_float(data[place_of(x, i + j)]);
    }
#pragma unroll
    for (int j = 0; j < n; j++)
        sum += in[j] * in[j];
    return sum;
}

/* A few elements of a thread are summed in fp32, everything else in double; both ways of
 * reading use the same order. */
template <typename T, int n, bool wide>
static __global__ void __launch_bounds__(SQUARE_THREADS, 4)
    square_blocks(double *sums, const squares x)
{
    double *room = (double *)shared_memory();
    size_t apart = (size_t)gridDim.x * SQUARE_THREADS * n, end = x.numbers / n * n;
    size_t i = ((size_t)blockIdx.x * SQUARE_THREADS + threadIdx.x) * n;
    double sum = 0;

    for (; i + (SQUARE_PACKS - 1) * apart < end; i += SQUARE_PACKS * apart) {
        float part[SQUARE_PACKS];

#pragma unroll
        for (int k = 0; k < SQUARE_PACKS; k++)
            part[k] = squares_of<T, n, wide>(x, i + k * apart);
        sum += (double)((part[0] + part[1]) + (part[2] + part[3]));
    }
    for (; i < end; i += apart)
        sum += (double)squares_of<T, n, wide>(x, i);
    if (blockIdx.x == 0 && end + threadIdx.x < x.numbers)
        sum += (double)squares_of<T, 1, wide>(x, end + threadIdx.x);
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

static __global__ void square_total(double *out, const double *sums, unsigned blocks)
{
    double *room = (double *)shared_memory();
    double sum = 0;

    for (unsigned i = threadIdx.x; i < blocks; i += TOTAL_THREADS)
        sum += sums[i];
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        *out = sum;
}

template <typename T>
static cudaError_t launch_squares(const struct cuda_launch *to, const squares &x,
                                  double *out)
{
    constexpr int n = 16 / sizeof(T);
    bool whole = x.stride == x.cols || (x.stride % n == 0 && x.cols % n == 0);
    size_t a_block = (size_t)SQUARE_THREADS * SQUARE_PACKS * n;
    size_t wanted = (x.numbers + a_block - 1) / a_block;
    unsigned blocks = (unsigned)(wanted < SQUARE_BLOCKS ? wanted : SQUARE_BLOCKS);
    double *sums = (double *)to->scratch;
    cudaError_t status = cudaSuccess;

    if (blocks)
        status =
            launch(to->stream,
                   whole && (uintptr_t)x.data % 16 == 0 ? square_blocks<T, n, true>
                                                        : square_blocks<T, n, false>,
                   dim3(blocks), dim3(SQUARE_THREADS), WARP * sizeof(double), sums, x);
    if (status != cudaSuccess)
        return status;
    return launch(to->stream, square_total, dim3(1), dim3(TOTAL_THREADS),
                  WARP * sizeof(double), out, sums, blocks);
}

extern "C" cudaError_t launch_square_sum(const struct cuda_launch *to,
                                         const struct op_square_sum *op)
{
    const squares x = { op->x.data, op->x.rows * op->x.cols, op->x.cols, op->x.stride };

    return BY_FORMAT(op->x.format, T, launch_squares<T>(to, x, op->sum));
}

static __global__ void decide_kernel(struct step_scalars *numbers)
{
    if (threadIdx.x == 0)
        step_decide(numbers);
}

extern "C" cudaError_t launch_decide(const struct cuda_launch *to,
                                     const struct op_decide *op)
{
    return launch(to->stream, decide_kernel, dim3(1), dim3(WARP), 0, op->numbers);
}
