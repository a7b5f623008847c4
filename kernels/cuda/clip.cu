/*
 * kernels/cuda/clip.cu - limits of values, and the gradient within them.
 *
 * Bytes moved per element, of b bytes in its format: forward 2 b, backward 3 b.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

template <typename T> struct clip_cells {
    view<T> out, x;
    float limit;

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
        for (int i = 0; i < n; i++) {
            float x = to_float(in.x.at[i]);

            value[i] = x > limit ? limit : x < -limit ? -limit : x;
        }
        ::store<n>(out.at(row, col), value);
    }
};

template <typename T>
static cudaError_t clip_typed(const struct cuda_launch *to, const struct op_clip *op)
{
    constexpr int n = 16 / sizeof(T);
    clip_cells<T> cells = { view_of<T>(op->out), view_of<T>(op->x), op->limit };

    if (elementwise_is_aligned(op->out, n) && elementwise_is_aligned(op->x, n))
        return elementwise_launch<n, 2>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, 1>(to, cells, op->out.rows, op->out.cols);
}

cudaError_t launch_clip(const struct cuda_launch *to, const struct op_clip *op)
{
    return BY_FORMAT(op->out.format, T, clip_typed<T>(to, op));
}

template <typename T> struct clip_backward_cells {
    view<T> dx, dout, x;
    float limit;

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
        float value[n];

#pragma unroll
        for (int i = 0; i < n; i++) {
            float x = to_float(in.x.at[i]);

            value[i] = x <= limit && x >= -limit ? to_float(in.dout.at[i]) : 0;
        }
        ::store<n>(dx.at(row, col), value);
    }
};

template <typename T>
static cudaError_t clip_backward_typed(const struct cuda_launch *to,
                                       const struct op_clip_backward *op)
{
    constexpr int n = 16 / sizeof(T);
    clip_backward_cells<T> cells = { view_of<T>(op->dx), view_of<T>(op->dout),
                                     view_of<T>(op->x), op->limit };

    if (elementwise_is_aligned(op->dx, n) && elementwise_is_aligned(op->dout, n) &&
        elementwise_is_aligned(op->x, n))
        return elementwise_launch<n, 2>(to, cells, op->dx.rows, op->dx.cols);
    return elementwise_launch<1, 1>(to, cells, op->dx.rows, op->dx.cols);
}

cudaError_t launch_clip_backward(const struct cuda_launch *to,
                                 const struct op_clip_backward *op)
{
    return BY_FORMAT(op->dx.format, T, clip_backward_typed<T>(to, op));
}
