/*
 * kernels/cuda/elementwise_kernel.cuh - elementwise operations on a matrix: one kernel
 * for all of them.
 *
 * A row is divided into units of n elements, one access each; threads walk over the units
 * of all rows in a grid-stride loop, `at_once` units at a time, whose loads are all in
 * flight before the first is waited for. The elements left at the end of each row are
 * processed one by one.
 *
 * An operation is a struct of its operands. Its input<n> is what it reads for n elements;
 * load(in, row, col) reads that, store(in, row, col) computes and writes the result. Each
 * thread has its own copy of the struct. After all its elements, it calls
 * elementwise_finish with that, for which the operation may have its own function.
 */
#ifndef KERNELS_CUDA_CELLS_CUH
#define KERNELS_CUDA_CELLS_CUH

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_launch.h"

enum {
    ELEMENTWISE_THREADS = 256,
    ELEMENTWISE_BLOCKS = 8
};                                        /* per block; blocks per multiprocessor */
#define ELEMENTWISE_MAX ((size_t)1 << 31) /* rows, and units of a row */

/* A matrix whose element type is known. */
template <typename T> struct view {
    T *data;
    size_t stride;

    __device__ T *at(size_t row, size_t col) const
    {
        return data + row * stride + col;
    }
};

template <typename T> static inline view<T> view_of(struct tensor x)
{
    return { (T *)x.data, x.stride };
}

/* The same with the format looked up for each element: slow, for rare cases. */
struct any_view {
    void *data;
    enum format format;
    size_t stride;

    __device__ float get(size_t row, size_t col) const
    {
        size_t at = row * stride + col;

        return format == FORMAT_FP32   ? ((const float *)data)[at]
               : format == FORMAT_FP16 ? to_float(((const fp16 *)data)[at])
                                       : to_float(((const bf16 *)data)[at]);
    }

    __device__ void set(size_t row, size_t col, float value) const
    {
        size_t at = row * stride + col;

        if (format == FORMAT_FP32)
            ((float *)data)[at] = value;
        else if (format == FORMAT_FP16)
            ((fp16 *)data)[at] = from_float<fp16>(value);
        else
            ((bf16 *)data)[at] = from_float<bf16>(value);
    }
};

static inline any_view any_view_of(struct tensor x)
{
    return { x.data, x.format, x.stride };
}

static inline size_t elementwise_bytes(struct tensor x)
{
    return x.format == FORMAT_FP32 ? 4 : 2;
}

/* Return whether every row starts where n elements are one access. True for an absent
 * tensor. */
static inline bool elementwise_is_aligned(struct tensor x, size_t n)
{
    return (uintptr_t)x.data % (n * elementwise_bytes(x)) == 0 &&
           (x.rows <= 1 || x.stride % n == 0);
}

static inline bool elementwise_is_contiguous(struct tensor x)
{
    return x.rows <= 1 || x.stride == x.cols;
}

/* x, which must be contiguous, viewed as one long row. */
static inline struct tensor elementwise_flat_view(struct tensor x)
{
    x.cols *= x.rows;
    x.stride = x.cols;
    x.rows = 1;
    return x;
}

/* A thread's position, and its step to the next unit. All below 2^31. */
struct cells {
    uint32_t rows, units;
    uint32_t whole, rest; /* of a row: units of n elements, and elements after them */
    uint32_t row, unit, row_step, unit_step;

    __device__ void advance()
    {
        row += row_step;
        unit += unit_step;
        if (unit >= units) {
            unit -= units;
            row++;
        }
    }
};

template <typename F> __device__ static inline void elementwise_finish(const F &f)
{
    (void)f;
}

template <int n, int at_once, typename F>
__global__ void __launch_bounds__(ELEMENTWISE_THREADS)
    elementwise_kernel(F f, struct cells c)
{
    uint32_t thread = blockIdx.x * ELEMENTWISE_THREADS + threadIdx.x;

    c.row = thread / c.units;
    c.unit = thread % c.units;
    while (c.row < c.rows) {
        typename F::template input<n> in[at_once] = {};
        struct cells loads = c;

#pragma unroll
        for (int i = 0; i < at_once; i++) {
            if (loads.row < c.rows && loads.unit < c.whole)
                f.load(in[i], loads.row, (size_t)loads.unit * n);
            loads.advance();
        }
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            if (c.row < c.rows && c.unit < c.whole)
                f.store(in[i], c.row, (size_t)c.unit * n);
            c.advance();
        }
    }
    for (uint32_t row = thread; c.rest > 0 && row < c.rows;
         row += gridDim.x * ELEMENTWISE_THREADS)
        for (uint32_t i = 0; i < c.rest; i++) {
            typename F::template input<1> one;

            f.load(one, row, (size_t)c.whole * n + i);
            f.store(one, row, (size_t)c.whole * n + i);
        }
    elementwise_finish(f);
}

template <int n, int at_once, typename F>
static inline cudaError_t elementwise_launch(const struct cuda_launch *to, F f,
                                             size_t rows, size_t cols)
{
    struct cells c = {};
    size_t units = (cols + n - 1) / n;
    size_t wanted = (rows * units + ELEMENTWISE_THREADS * at_once - 1) /
                    (ELEMENTWISE_THREADS * at_once);
    unsigned blocks = blocks_for(to, wanted, ELEMENTWISE_BLOCKS);

    if (rows == 0 || cols == 0)
        return cudaSuccess;
    if (rows > ELEMENTWISE_MAX || units > ELEMENTWISE_MAX)
        return cudaErrorNotSupported;
    c.rows = (uint32_t)rows;
    c.units = (uint32_t)units;
    c.whole = (uint32_t)(cols / n);
    c.rest = (uint32_t)(cols % n);
    c.row_step = blocks * ELEMENTWISE_THREADS / c.units;
    c.unit_step = blocks * ELEMENTWISE_THREADS % c.units;
    return launch(to->stream, elementwise_kernel<n, at_once, F>, blocks,
                  dim3(ELEMENTWISE_THREADS), 0, f, c);
}

#endif
