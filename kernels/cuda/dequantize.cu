/*
 * kernels/cuda/dequantize.cu - converts 4-bit matrices to the values they encode.
 *
 * Bytes moved per element: half a byte, and the output; for its block's factor 1/64 or
 * 1/16 of a byte, which neighbors read together.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

#include "precision/nf4.h"

enum { AT_ONCE = 2 };

/* 64 bytes: the lookups of a warp are in one cache line. */
static __device__ const float numbers[NF4_NUMBERS] = NF4_LIST;

/* A unit of n elements is within one block, because n divides cols and 64. */
template <typename O> struct dequantize_cells {
    view<O> out;
    struct quantized x;
    enum format through;
    size_t cols;
    struct row_order order;

    template <int n> struct input {
        uint8_t codes[n];
        float absmax;
    };

    __device__ float absmax_of(size_t block) const
    {
        if (!x.bytes)
            return x.absmax[block];
        return __fadd_rn(__fmul_rn(x.map[x.bytes[block]], x.absmax[block / NF4_GROUP]),
                         x.map[NF4_MAP]);
    }

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        size_t at = row * cols + col;
        pack<uint8_t, n / 2> two = *(const pack<uint8_t, n / 2> *)(x.codes + at / 2);

#pragma unroll
        for (int i = 0; i < n; i++)
            in.codes[i] = i % 2 ? two.at[i / 2] & 15 : two.at[i / 2] >> 4;
        in.absmax = absmax_of(at / NF4_BLOCK);
    }

    __device__ void load(input<1> &in, size_t row, size_t col) const
    {
        size_t at = row * cols + col;

        in.codes[0] = at % 2 ? x.codes[at / 2] & 15 : x.codes[at / 2] >> 4;
        in.absmax = absmax_of(at / NF4_BLOCK);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float value[n];

#pragma unroll
        for (int i = 0; i < n; i++) {
            value[i] = numbers[in.codes[i]] * in.absmax;
            if (through == FORMAT_FP16)
                value[i] = to_float(from_float<fp16>(value[i]));
            if (through == FORMAT_BF16)
                value[i] = to_float(from_float<bf16>(value[i]));
        }
        ::store<n>(out.at(row_order_in_model(&order, row), col), value);
    }
};

template <typename O>
static cudaError_t dequantize_typed(const struct cuda_launch *to,
                                    const struct op_dequantize *op)
{
    constexpr int n = 16 / sizeof(O);
    size_t rows = op->out.rows, cols = op->out.cols;
    dequantize_cells<O> cells = { view_of<O>(op->out), op->x, op->through, cols,
                                  op->order };

    if (elementwise_is_aligned(op->out, n) && cols % n == 0)
        return elementwise_launch<n, AT_ONCE>(to, cells, rows, cols);
    return elementwise_launch<1, AT_ONCE>(to, cells, rows, cols);
}

cudaError_t launch_dequantize(const struct cuda_launch *to,
                              const struct op_dequantize *op)
{
    return BY_FORMAT(op->out.format, O, dequantize_typed<O>(to, op));
}
