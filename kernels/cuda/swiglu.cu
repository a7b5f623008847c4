/*
 * kernels/cuda/swiglu.cu - gated activations (SwiGLU, GeGLU), and their gradients.
 *
 * Bytes moved per element, of b bytes in its format: forward 3 b, backward 5 b, or 6 b if
 * it also writes the forward's output. (8192, 8192) in bf16 at 4.2 TB/s: forward 96 us,
 * backward 160 or 192 us. The exponential and the division are about 20 instructions per
 * element, half of what can be issued in the time of the forward's 6 bytes. The largest
 * magnitude that is written takes no more bytes.
 */
#include "kernels/cuda/activation.cuh"

/* The largest magnitude that a thread has written; `out`, for all threads, may be
 * absent. */
template <typename T> struct largest_written {
    float *out;
    float top;

    template <int n> __device__ void add(const float value[n])
    {
#pragma unroll
        for (int i = 0; i < n; i++)
            top = fmaxf(top, fabsf(value[i]));
    }

    /* Rounding does not change the order of values. Magnitudes are ordered as their bits
     * are, and the order of the threads does not matter. */
    __device__ void finish() const
    {
        float all;

        if (!out)
            return;
        all = warp_largest(to_float(from_float<T>(top)));
        if (threadIdx.x % WARP == 0)
            atomicMax((unsigned *)out, __float_as_uint(all));
    }
};

static cudaError_t largest_clear(const struct cuda_launch *to, float *largest)
{
    return largest ? cudaMemsetAsync(largest, 0, sizeof(*largest), to->stream)
                   : cudaSuccess;
}

template <enum activation kind, typename T> struct swiglu_cells {
    view<T> out, gate, up;
    largest_written<T> largest;

    template <int n> struct input {
        pack<T, n> gate, up;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.gate = *(const pack<T, n> *)gate.at(row, col);
        in.up = *(const pack<T, n> *)up.at(row, col);
    }

    template <int n> __device__ void store(const input<n> &in, size_t row, size_t col)
    {
        float value[n];

#pragma unroll
        for (int i = 0; i < n; i++)
            value[i] = activated_by<kind, T>(to_float(in.gate.at[i])).value *
                       to_float(in.up.at[i]);
        ::store<n>(out.at(row, col), value);
        largest.template add<n>(value);
    }
};

template <enum activation kind, typename T>
__device__ static inline void elementwise_finish(const swiglu_cells<kind, T> &f)
{
    f.largest.finish();
}

template <enum activation kind, typename T> struct swiglu_backward_cells {
    view<T> dgate, dup, out, dout, gate, up; /* out may be absent */
    largest_written<T> largest;

    template <int n> struct input {
        pack<T, n> dout, gate, up;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.dout = *(const pack<T, n> *)dout.at(row, col);
        in.gate = *(const pack<T, n> *)gate.at(row, col);
        in.up = *(const pack<T, n> *)up.at(row, col);
    }

    template <int n> __device__ void store(const input<n> &in, size_t row, size_t col)
    {
        float by_gate[n], by_up[n], value[n];

#pragma unroll
        for (int i = 0; i < n; i++) {
            float x = to_float(in.gate.at[i]), y = to_float(in.up.at[i]);
            float g = to_float(in.dout.at[i]);
            struct activated to = activated_by<kind, T>(x);

            by_gate[i] = g * y * to.slope * to.bend;
            by_up[i] = kind == ACTIVATION_SIGMOID ? g * to.value : g * x * to.share;
            value[i] = to.value * y;
        }
        ::store<n>(dgate.at(row, col), by_gate);
        ::store<n>(dup.at(row, col), by_up);
        if (out.data)
            ::store<n>(out.at(row, col), value);
        largest.template add<n>(by_gate);
        largest.template add<n>(by_up);
    }
};

template <enum activation kind, typename T>
__device__ static inline void elementwise_finish(const swiglu_backward_cells<kind, T> &f)
{
    f.largest.finish();
}

template <enum activation kind, typename T>
static cudaError_t swiglu_typed(const struct cuda_launch *to, const struct op_swiglu *op)
{
    constexpr int n = 16 / sizeof(T);
    swiglu_cells<kind, T> cells = {
        view_of<T>(op->out), view_of<T>(op->gate), view_of<T>(op->up), { op->largest, 0 }
    };

    if (elementwise_is_aligned(op->out, n) && elementwise_is_aligned(op->gate, n) &&
        elementwise_is_aligned(op->up, n))
        return elementwise_launch<n, 2>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, 1>(to, cells, op->out.rows, op->out.cols);
}

cudaError_t launch_swiglu(const struct cuda_launch *to, const struct op_swiglu *op)
{
    struct op_swiglu flat = *op;
    cudaError_t status = largest_clear(to, op->largest);

    if (status != cudaSuccess)
        return status;
    if (elementwise_is_contiguous(op->out) && elementwise_is_contiguous(op->gate) &&
        elementwise_is_contiguous(op->up))
        flat = { elementwise_flat_view(op->out), elementwise_flat_view(op->gate),
                 elementwise_flat_view(op->up), op->kind, op->largest };
    return BY_FORMAT(op->out.format, T,
                     BY_KIND(op->kind, K, swiglu_typed<K, T>(to, &flat)));
}

template <enum activation kind, typename T>
static cudaError_t backward_typed(const struct cuda_launch *to,
                                  const struct op_swiglu_backward *op)
{
    constexpr int n = 16 / sizeof(T);
    swiglu_backward_cells<kind, T> cells = { view_of<T>(op->dgate), view_of<T>(op->dup),
                                             view_of<T>(op->out),   view_of<T>(op->dout),
                                             view_of<T>(op->gate),  view_of<T>(op->up),
                                             { op->largest, 0 } };

    if (elementwise_is_aligned(op->dgate, n) && elementwise_is_aligned(op->dup, n) &&
        elementwise_is_aligned(op->out, n) && elementwise_is_aligned(op->dout, n) &&
        elementwise_is_aligned(op->gate, n) && elementwise_is_aligned(op->up, n))
        return elementwise_launch<n, 2>(to, cells, op->dout.rows, op->dout.cols);
    return elementwise_launch<1, 1>(to, cells, op->dout.rows, op->dout.cols);
}

cudaError_t launch_swiglu_backward(const struct cuda_launch *to,
                                   const struct op_swiglu_backward *op)
{
    struct op_swiglu_backward flat = *op;
    cudaError_t status = largest_clear(to, op->largest);

    if (status != cudaSuccess)
        return status;
    if (elementwise_is_contiguous(op->dgate) && elementwise_is_contiguous(op->dup) &&
        elementwise_is_contiguous(op->out) && elementwise_is_contiguous(op->dout) &&
        elementwise_is_contiguous(op->gate) && elementwise_is_contiguous(op->up))
        flat = { elementwise_flat_view(op->dgate),
                 elementwise_flat_view(op->dup),
                 elementwise_flat_view(op->out),
                 elementwise_flat_view(op->dout),
                 elementwise_flat_view(op->gate),
                 elementwise_flat_view(op->up),
                 op->kind,
                 op->largest };
    return BY_FORMAT(op->dout.format, T,
                     BY_KIND(op->kind, K, backward_typed<K, T>(to, &flat)));
}
