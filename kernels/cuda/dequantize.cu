/*
 * kernels/cuda/dequantize.cu - converts matrices in 4 or 8 bits to the values they encode.
 *
 * Bytes moved per element: half a byte, or one, and the output; for the factor of its
 * block 1/64 or 1/16 of a byte, for those of its group 5/128 (of 128 columns), which
 * neighbors read together.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

#include "precision/nf4.h"

enum { AT_ONCE = 2 };

/* 64 bytes: the lookups of a warp are in one cache line. */
static __device__ const float numbers[NF4_NUMBERS] = NF4_LIST;

/* Where values go: to the rows of the output, rounded before. */
template <typename O> struct dequantized_rows {
    view<O> out;
    enum format through;
    size_t cols;
    struct row_order order;

    template <int n>
    __device__ void store(float (&value)[n], size_t row, size_t col) const
    {
#pragma unroll
        for (int i = 0; i < n; i++) {
            if (through == FORMAT_FP16)
                value[i] = to_float(from_float<fp16>(value[i]));
            if (through == FORMAT_BF16)
                value[i] = to_float(from_float<bf16>(value[i]));
        }
        ::store<n>(out.at(row_order_in_model(&order, row), col), value);
    }
};

/* Read the n codes of 4 bits from element `at` on: an even one, or n is 1. */
template <int n>
static __device__ void load_halves(const uint8_t *codes, size_t at, uint8_t (&out)[n])
{
    pack<uint8_t, n / 2> two = *(const pack<uint8_t, n / 2> *)(codes + at / 2);

#pragma unroll
    for (int i = 0; i < n; i++)
        out[i] = i % 2 ? two.at[i / 2] & 15 : two.at[i / 2] >> 4;
}

static __device__ void load_halves(const uint8_t *codes, size_t at, uint8_t (&out)[1])
{
    out[0] = at % 2 ? codes[at / 2] & 15 : codes[at / 2] >> 4;
}

/* A unit of n elements is within one block, because n divides cols and 64. */
template <typename O> struct nf4_cells {
    dequantized_rows<O> to;
    struct quantized x;

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
        size_t at = row * to.cols + col;

        load_halves(x.codes, at, in.codes);
        in.absmax = absmax_of(at / NF4_BLOCK);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float value[n];

#pragma unroll
        for (int i = 0; i < n; i++)
            value[i] = numbers[in.codes[i]] * in.absmax;
        to.store(value, row, col);
    }
};

/* Integer codes.  The group of a unit's first element is that of all, if `whole`. */
template <typename O> struct integer_cells {
    dequantized_rows<O> to;
    struct quantized x;
    bool whole;

    template <int n> struct input {
        uint8_t codes[n];
        uint8_t zeros[n];
        float scales[n];
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        size_t at = row * to.cols + col, factors = row * x.groups;

        if (x.bits == 8) {
            pack<uint8_t, n> codes = *(const pack<uint8_t, n> *)(x.codes + at);

#pragma unroll
            for (int i = 0; i < n; i++)
                in.codes[i] = codes.at[i];
        } else
            load_halves(x.codes, at, in.codes);
#pragma unroll
        for (int i = 0; i < n; i++) {
            if (i == 0 || !whole) {
                size_t group = x.columns ? x.columns[col + i] : (col + i) / x.group;

                in.zeros[i] = x.zeros[factors + group];
                in.scales[i] = x.scales[factors + group];
            } else {
                in.zeros[i] = in.zeros[0];
                in.scales[i] = in.scales[0];
            }
        }
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float value[n];

#pragma unroll
        for (int i = 0; i < n; i++)
            value[i] = (float)((int)in.codes[i] - (int)in.zeros[i]) * in.scales[i];
        to.store(value, row, col);
    }
};

template <typename O, typename C>
static cudaError_t dequantize_cells(const struct cuda_launch *to, struct tensor out,
                                    const C &cells)
{
    constexpr int n = 16 / sizeof(O);

    if (elementwise_is_aligned(out, n) && out.cols % n == 0)
        return elementwise_launch<n, AT_ONCE>(to, cells, out.rows, out.cols);
    return elementwise_launch<1, AT_ONCE>(to, cells, out.rows, out.cols);
}

template <typename O>
static cudaError_t dequantize_typed(const struct cuda_launch *to,
                                    const struct op_dequantize *op)
{
    constexpr int n = 16 / sizeof(O);
    dequantized_rows<O> rows = { view_of<O>(op->out), op->through, op->out.cols,
                                 op->order };
    nf4_cells<O> blocks = { rows, op->x };
    integer_cells<O> integers = { rows, op->x, !op->x.columns && op->x.group % n == 0 };

    return op->x.bits ? dequantize_cells<O>(to, op->out, integers)
                      : dequantize_cells<O>(to, op->out, blocks);
}

cudaError_t launch_dequantize(const struct cuda_launch *to,
                              const struct op_dequantize *op)
{
    return BY_FORMAT(op->out.format, O, dequantize_typed<O>(to, op));
}
