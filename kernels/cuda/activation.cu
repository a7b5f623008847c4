/*
 * kernels/cuda/activation.cu - elementwise activation functions and their gradients.
 *
 * Bytes moved per element, of b bytes in its format: forward 2 b, backward 3 b, or 4 b if
 * it also writes the forward's output. (8192, 8192) in bf16 at 4.2 TB/s: forward 64 us,
 * backward 96 or 128 us. GELU is about 35 instructions
 * per element, SILU and GELU by tanh 20: in 16 bits the issue rate limits GELU to 140 us
 * on 132 multiprocessors at 1.7 GHz.
 */
#include "kernels/cuda/activation.cuh"

template <enum activation kind, typename T> struct activation_cells {
    view<T> out, x;

    template <int n> struct input {
        pack<T, n> x;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.x = *(const pack<T, n> *)x.at(row, col);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float value[n];

#pragma unroll
        for (int i = 0; i < n; i++)
            value[i] = activated_by<kind, T>(to_float(in.x.at[i])).value;
        ::store<n>(out.at(row, col), value);
    }
};

template <enum activation kind, typename T> struct activation_backward_cells {
    view<T> dx, out, dout, x; /* out may be absent */

    template <int n> struct input {
        pack<T, n> dout, x;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.dout = *(const pack<T, n> *)dout.at(row, col);
        in.x = *(const pack<T, n> *)x.at(row, col);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float value[n], by_x[n];

#pragma unroll
        for (int i = 0; i < n; i++) {
            struct activated to = activated_by<kind, T>(to_float(in.x.at[i]));

            by_x[i] = to_float(in.dout.at[i]) * to.slope * to.bend;
            value[i] = to.value;
        }
        ::store<n>(dx.at(row, col), by_x);
        if (out.data)
            ::store<n>(out.at(row, col), value);
    }
};

template <enum activation kind, typename T>
static cudaError_t forward_typed(const struct cuda_launch *to,
                                 const struct op_activation *op)
{
    constexpr int n = 16 / sizeof(T);
    activation_cells<kind, T> cells = { view_of<T>(op->out), view_of<T>(op->x) };

    if (elementwise_is_aligned(op->out, n) && elementwise_is_aligned(op->x, n))
        return elementwise_launch<n, 2>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, 1>(to, cells, op->out.rows, op->out.cols);
}

cudaError_t launch_activation(const struct cuda_launch *to,
                              const struct op_activation *op)
{
    struct op_activation flat = *op;

    if (elementwise_is_contiguous(op->out) && elementwise_is_contiguous(op->x))
        flat = { elementwise_flat_view(op->out), elementwise_flat_view(op->x), op->kind };
    return BY_FORMAT(op->out.format, T,
                     BY_KIND(op->kind, K, forward_typed<K, T>(to, &flat)));
}

template <enum activation kind, typename T>
static cudaError_t backward_typed(const struct cuda_launch *to,
                                  const struct op_activation_backward *op)
{
    constexpr int n = 16 / sizeof(T);
    /* two units of the longest function in 16 bits spill registers on 12.0 */
    constexpr int at_once = kind == ACTIVATION_GELU_TANH && sizeof(T) == 2 ? 1 : 2;
    activation_backward_cells<kind, T> cells = { view_of<T>(op->dx), view_of<T>(op->out),
                                                 view_of<T>(op->dout),
                                                 view_of<T>(op->x) };

    if (elementwise_is_aligned(op->dx, n) && elementwise_is_aligned(op->out, n) &&
        elementwise_is_aligned(op->dout, n) && elementwise_is_aligned(op->x, n))
        return elementwise_launch<n, at_once>(to, cells, op->dout.rows, op->dout.cols);
    return elementwise_launch<1, 1>(to, cells, op->dout.rows, op->dout.cols);
}

cudaError_t launch_activation_backward(const struct cuda_launch *to,
                                       const struct op_activation_backward *op)
{
    struct op_activation_backward flat = *op;

    if (elementwise_is_contiguous(op->dx) && elementwise_is_contiguous(op->out) &&
        elementwise_is_contiguous(op->dout) && elementwise_is_contiguous(op->x))
        flat = { elementwise_flat_view(op->dx), elementwise_flat_view(op->out),
                 elementwise_flat_view(op->dout), elementwise_flat_view(op->x),
                 op->kind };
    return BY_FORMAT(op->dout.format, T,
                     BY_KIND(op->kind, K, backward_typed<K, T>(to, &flat)));
}
