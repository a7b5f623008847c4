/*
 * kernels/cuda/elementwise.cu - sums, multiples, copies, conversions, zeros and dropout.
 *
 * Bytes moved per element, of b bytes in its format: add 3 b, or 2 b + b' with b' of the
 * other; scale and convert b + b'; zero b; dropout 2 b. The floor of each is these bytes
 * over the memory bandwidth: add of (8192, 2048) in bf16 is 101 MB, 24 us at 4.2 TB/s. Dropout
 * also computes ten rounds of Philox for four elements, about 15 instructions per
 * element: in 16 bits about half of what the multiprocessors can issue in that time.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

#include "base/random.h"

#include <math.h>

enum { AT_ONCE = 2 };

/* Elements in 16 bytes of the wider format. */
template <typename A, typename B = A, typename C = A> struct wide {
    static constexpr int n = sizeof(A) == 4 || sizeof(B) == 4 || sizeof(C) == 4 ? 4 : 8;
};

template <typename O, typename A, typename B> struct add_cells {
    view<O> out;
    view<A> a;
    view<B> b;

    template <int n> struct input {
        pack<A, n> a;
        pack<B, n> b;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.a = *(const pack<A, n> *)a.at(row, col);
        in.b = *(const pack<B, n> *)b.at(row, col);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float sum[n];

#pragma unroll
        for (int i = 0; i < n; i++)
            sum[i] = to_float(in.a.at[i]) + to_float(in.b.at[i]);
        ::store<n>(out.at(row, col), sum);
    }
};

struct add_any {
    any_view out, a, b;

    template <int n> struct input {
        float sum;
    };

    __device__ void load(input<1> &in, size_t row, size_t col) const
    {
        in.sum = a.get(row, col) + b.get(row, col);
    }

    __device__ void store(const input<1> &in, size_t row, size_t col) const
    {
        out.set(row, col, in.sum);
    }
};

template <typename O, typename A, typename B>
static cudaError_t add_wide(const struct cuda_launch *to, const struct op_add *op)
{
    return elementwise_launch<wide<O, A, B>::n, AT_ONCE>(
        to,
        add_cells<O, A, B> { view_of<O>(op->out), view_of<A>(op->a), view_of<B>(op->b) },
        op->out.rows, op->out.cols);
}

/* Elements in 16 bytes of the widest of three. */
static int vector_width_of(struct tensor a, struct tensor b, struct tensor c)
{
    return elementwise_bytes(a) == 4 || elementwise_bytes(b) == 4 ||
                   elementwise_bytes(c) == 4
               ? 4
               : 8;
}

cudaError_t launch_add(const struct cuda_launch *to, const struct op_add *op)
{
    struct op_add flat = *op;
    size_t n = vector_width_of(op->out, op->a, op->b);

    if (elementwise_is_contiguous(op->out) && elementwise_is_contiguous(op->a) &&
        elementwise_is_contiguous(op->b))
        flat = { elementwise_flat_view(op->out), elementwise_flat_view(op->a),
                 elementwise_flat_view(op->b) };
    if (!elementwise_is_aligned(flat.out, n) || !elementwise_is_aligned(flat.a, n) ||
        !elementwise_is_aligned(flat.b, n))
        return elementwise_launch<1, AT_ONCE>(
            to,
            add_any { any_view_of(flat.out), any_view_of(flat.a), any_view_of(flat.b) },
            flat.out.rows, flat.out.cols);
    return BY_FORMAT(op->out.format, O,
                     BY_FORMAT(op->a.format, A,
                               BY_FORMAT(op->b.format, B, add_wide<O, A, B>(to, &flat))));
}

template <typename O, typename X> struct scale_cells {
    view<O> out;
    view<X> x;
    float factor;
    const float *by;

    template <int n> struct input {
        pack<X, n> x;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.x = *(const pack<X, n> *)x.at(row, col);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float value[n], all = by ? factor * *by : factor;

#pragma unroll
        for (int i = 0; i < n; i++)
            value[i] = all * to_float(in.x.at[i]);
        ::store<n>(out.at(row, col), value);
    }
};

template <typename O, typename X>
static cudaError_t scale_typed(const struct cuda_launch *to, const struct op_scale *op)
{
    constexpr int n = wide<O, X>::n;
    scale_cells<O, X> cells = { view_of<O>(op->out), view_of<X>(op->x), op->factor,
                                (const float *)op->by.data };

    if (elementwise_is_aligned(op->out, n) && elementwise_is_aligned(op->x, n))
        return elementwise_launch<n, AT_ONCE>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, AT_ONCE>(to, cells, op->out.rows, op->out.cols);
}

cudaError_t launch_scale(const struct cuda_launch *to, const struct op_scale *op)
{
    struct op_scale flat = *op;

    if (elementwise_is_contiguous(op->out) && elementwise_is_contiguous(op->x))
        flat = { elementwise_flat_view(op->out), elementwise_flat_view(op->x), op->factor,
                 op->by };
    return BY_FORMAT(op->out.format, O,
                     BY_FORMAT(op->x.format, X, scale_typed<O, X>(to, &flat)));
}

template <typename O, typename X> struct convert_cells {
    view<O> out;
    view<X> x;

    template <int n> struct input {
        pack<X, n> x;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.x = *(const pack<X, n> *)x.at(row, col);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        pack<O, n> value;

#pragma unroll
        for (int i = 0; i < n; i++)
            value.at[i] = convert(in.x.at[i], O());
        *(pack<O, n> *)out.at(row, col) = value;
    }

  private:
    /* The same format is copied bit by bit. */
    __device__ static O convert(O value, O)
    {
        return value;
    }
    template <typename Y> __device__ static O convert(Y value, O)
    {
        return from_float<O>(to_float(value));
    }
};

template <typename O, typename X>
static cudaError_t convert_typed(const struct cuda_launch *to,
                                 const struct op_convert *op)
{
    constexpr int n = wide<O, X>::n;
    convert_cells<O, X> cells = { view_of<O>(op->out), view_of<X>(op->x) };

    if (elementwise_is_aligned(op->out, n) && elementwise_is_aligned(op->x, n))
        return elementwise_launch<n, AT_ONCE>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, AT_ONCE>(to, cells, op->out.rows, op->out.cols);
}

cudaError_t launch_convert(const struct cuda_launch *to, const struct op_convert *op)
{
    struct op_convert flat = *op;

    if (elementwise_is_contiguous(op->out) && elementwise_is_contiguous(op->x))
        flat = { elementwise_flat_view(op->out), elementwise_flat_view(op->x) };
    if (flat.out.rows == 1 && op->out.format == op->x.format)
        return cudaMemcpyAsync(op->out.data, op->x.data,
                               flat.x.cols * elementwise_bytes(op->x),
                               cudaMemcpyDeviceToDevice, to->stream);
    return BY_FORMAT(op->out.format, O,
                     BY_FORMAT(op->x.format, X, convert_typed<O, X>(to, &flat)));
}

/* Writes words of 4 or 2 bytes, whatever they represent. */
template <typename T> struct zero_cells {
    view<T> out;

    template <int n> struct input {
    };

    template <int n> __device__ void load(input<n> &, size_t, size_t) const
    {
    }

    template <int n> __device__ void store(const input<n> &, size_t row, size_t col) const
    {
        *(pack<T, n> *)out.at(row, col) = pack<T, n> {};
    }
};

template <typename T>
static cudaError_t zero_typed(const struct cuda_launch *to, struct tensor out)
{
    constexpr int n = 16 / sizeof(T);
    zero_cells<T> cells = { view_of<T>(out) };

    if (elementwise_is_aligned(out, n))
        return elementwise_launch<n, AT_ONCE>(to, cells, out.rows, out.cols);
    return elementwise_launch<1, AT_ONCE>(to, cells, out.rows, out.cols);
}

cudaError_t launch_zero(const struct cuda_launch *to, const struct op_zero *op)
{
    size_t bytes = op->out.rows * op->out.cols * elementwise_bytes(op->out);

    /* Gradients of a whole model may have more elements than a row of cells. */
    if (elementwise_is_contiguous(op->out))
        return bytes ? cudaMemsetAsync(op->out.data, 0, bytes, to->stream) : cudaSuccess;
    return elementwise_bytes(op->out) == 4 ? zero_typed<uint32_t>(to, op->out)
                                           : zero_typed<uint16_t>(to, op->out);
}

/* Which elements are kept: those whose draw of base/random.h, by their index in the
 * whole, is at least p. */
struct dropout_mask {
    uint64_t seed, step,
        size; /* size: elements of the matrix, unless rows says otherwise */
    const uint64_t *draw, *rows;
    size_t cols; /* of the matrix, even if it is viewed as one row */
    uint32_t stream, threshold;
    float factor;

    __device__ uint64_t index(size_t row, size_t col) const
    {
        return (step + (draw ? *draw : 0)) * (rows ? *rows * cols : size) + row * cols +
               col;
    }

    __device__ bool keeps(uint32_t bits) const
    {
        return bits >= threshold;
    }

    /* The bits of elements index .. index + n: if they start inside a block of four, one
     * more block is generated and all are shifted. */
    template <int n> __device__ void bits(uint32_t out[n], uint64_t index) const
    {
        uint32_t all[n + 7];
        int skip = (int)(index % 4);

#pragma unroll
        for (int i = 0; i < n + 3; i += 4) {
            if (i < n || skip > 0) {
                uint4 four =
                    random_block(seed, RANDOM_DROPOUT, stream, index / 4 + i / 4);

                all[i] = four.x;
                all[i + 1] = four.y;
                all[i + 2] = four.z;
                all[i + 3] = four.w;
            }
        }
        if (skip & 1)
#pragma unroll
            for (int i = 0; i < n + 2; i++)
                all[i] = all[i + 1];
        if (skip & 2)
#pragma unroll
            for (int i = 0; i < n; i++)
                all[i] = all[i + 2];
#pragma unroll
        for (int i = 0; i < n; i++)
            out[i] = all[i];
    }
};

template <typename O, typename X> struct dropout_cells {
    view<O> out;
    view<X> x;
    dropout_mask mask;

    template <int n> struct input {
        pack<X, n> x;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.x = *(const pack<X, n> *)x.at(row, col);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        uint32_t bits[n];
        float value[n];

        mask.bits<n>(bits, mask.index(row, col));
#pragma unroll
        for (int i = 0; i < n; i++)
            value[i] = mask.keeps(bits[i]) ? to_float(in.x.at[i]) * mask.factor : 0;
        ::store<n>(out.at(row, col), value);
    }
};

template <typename O, typename X>
static cudaError_t dropout_typed(const struct cuda_launch *to, struct tensor out,
                                 struct tensor x, dropout_mask mask)
{
    constexpr int n = wide<O, X>::n;
    dropout_cells<O, X> cells = { view_of<O>(out), view_of<X>(x), mask };

    if (elementwise_is_aligned(out, n) && elementwise_is_aligned(x, n))
        return elementwise_launch<n, 1>(to, cells, out.rows, out.cols);
    return elementwise_launch<1, 1>(to, cells, out.rows, out.cols);
}

cudaError_t launch_dropout(const struct cuda_launch *to, const struct op_dropout *op)
{
    struct tensor out = op->out, x = op->x;
    dropout_mask mask = {};

    mask.seed = op->seed;
    mask.step = op->step;
    mask.size = (uint64_t)op->x.rows * op->x.cols;
    mask.draw = op->draw;
    mask.rows = op->rows;
    mask.cols = op->x.cols;
    mask.stream = op->stream;
    mask.threshold = (uint32_t)ceil((double)op->p * 0x1p32);
    mask.factor = 1 / (1 - op->p);
    if (elementwise_is_contiguous(out) && elementwise_is_contiguous(x)) {
        out = elementwise_flat_view(out);
        x = elementwise_flat_view(x);
    }
    return BY_FORMAT(out.format, O,
                     BY_FORMAT(x.format, X, dropout_typed<O, X>(to, out, x, mask)));
}
