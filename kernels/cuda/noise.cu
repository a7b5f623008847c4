/*
 * kernels/cuda/noise.cu - uniform noise, added or multiplied.
 *
 * Noise moves 8 bytes and computes ten rounds of Philox per element: four times what
 * dropout computes, on one matrix per pass.  Jitter, with two numbers per element, does the
 * same on the input of each block's experts, twice: 2 N C blocks of Philox next to 6 k N C
 * I operations of matmuls, below 0.1 % of them.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

#include "base/random.h"

struct noise_cells {
    view<float> x;
    uint64_t seed, cols;
    const float *magnitude;
    const uint64_t *draw, *rows;
    float factor;

    template <int n> struct input {
        pack<float, n> x;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.x = *(const pack<float, n> *)x.at(row, col);
    }

    /* 2 u - 1 of an element */
    __device__ float at(uint64_t index) const
    {
        uint4 four = random_block(seed, RANDOM_NOISE, 0, index / 4);
        uint32_t bits = index % 4 == 0   ? four.x
                        : index % 4 == 1 ? four.y
                        : index % 4 == 2 ? four.z
                                         : four.w;

        return (float)(int32_t)(bits ^ 0x80000000u) * 0x1p-31f;
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        uint64_t index = *draw * *rows * cols + row * cols + col;
        float value[n];

#pragma unroll
        for (int i = 0; i < n; i++)
            value[i] = in.x.at[i] + factor * *magnitude * at(index + i);
        ::store<n>(x.at(row, col), value);
    }
};

cudaError_t launch_noise(const struct cuda_launch *to, const struct op_noise *op)
{
    noise_cells cells = { view_of<float>(op->x),
                          op->seed,
                          op->x.cols,
                          op->magnitude,
                          op->draw,
                          op->rows,
                          op->factor };

    return elementwise_launch<1, 1>(to, cells, op->x.rows, op->x.cols);
}

template <typename X> struct jitter_cells {
    view<X> x;
    uint64_t seed, cols;
    const uint64_t *draw, *rows;
    uint32_t stream;
    float size, second; /* second 0: there is one factor */

    template <int n> struct input {
        pack<X, n> x;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.x = *(const pack<X, n> *)x.at(row, col);
    }

    static __device__ float part(float size, uint32_t bits)
    {
        return 1 + size * ((float)(int32_t)(bits ^ 0x80000000u) * 0x1p-31f);
    }

    /* The factor of an element: two words of a block. */
    __device__ float at(uint64_t index) const
    {
        uint4 four = random_block(seed, RANDOM_NOISE, stream, index / 2);

        return index % 2 == 0 ? part(size, four.x) * part(second, four.y)
                              : part(size, four.z) * part(second, four.w);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        uint64_t index = *rows * *draw * cols + row * cols + col;
        float value[n];

#pragma unroll
        for (int i = 0; i < n; i++)
            value[i] = to_float(in.x.at[i]) * at(index + i);
        ::store<n>(x.at(row, col), value);
    }
};

template <typename X>
static cudaError_t jitter(const struct cuda_launch *to, const struct op_jitter *op)
{
    jitter_cells<X> cells = { view_of<X>(op->x), op->seed,
                              op->x.cols,        op->draw,
                              op->rows,          op->stream,
                              op->size,          op->twice ? op->size : 0 };

    return elementwise_launch<1, 1>(to, cells, op->x.rows, op->x.cols);
}

cudaError_t launch_jitter(const struct cuda_launch *to, const struct op_jitter *op)
{
    return BY_FORMAT(op->x.format, X, jitter<X>(to, op));
}
