/*
 * kernels/cuda/layer_gate.cu - a learned gate of the output of a layer.
 *
 * Bytes moved per element, of b bytes in its format: 2 b, backward 3 b.  (4096, 4096) in
 * bf16 at 4.2 TB/s: 16 or 24 us.  The gradient of the gate is made of sums of slices of
 * rows, in the scratch, which a last warp adds in order.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

enum { GATE_THREADS = 256, GATE_SLICES = 1024 };

/* Load n adjacent elements. */
template <int n>
__device__ static inline void gate_load(float out[n], const struct any_view &x,
                                        size_t row, size_t col)
{
    size_t at = row * x.stride + col;

    if (x.format == FORMAT_FP32)
        load<n>(out, (const float *)x.data + at);
    else if (x.format == FORMAT_FP16)
        load<n>(out, (const fp16 *)x.data + at);
    else
        load<n>(out, (const bf16 *)x.data + at);
}

template <int n>
__device__ static inline void gate_store(const struct any_view &x, size_t row, size_t col,
                                         const float in[n])
{
    size_t at = row * x.stride + col;

    if (x.format == FORMAT_FP32)
        store<n>((float *)x.data + at, in);
    else if (x.format == FORMAT_FP16)
        store<n>((fp16 *)x.data + at, in);
    else
        store<n>((bf16 *)x.data + at, in);
}

struct gate_cells {
    struct any_view out, x, gate;
    const int32_t *seen;

    template <int n> struct input {
        float value[n];
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        if (!seen || seen[row] != 0)
            gate_load<n>(in.value, x, row, col);
        else
#pragma unroll
            for (int i = 0; i < n; i++)
                in.value[i] = 0;
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float factor = tanhf(gate.get(0, 0)), value[n];

#pragma unroll
        for (int i = 0; i < n; i++)
            value[i] = factor * in.value[i];
        gate_store<n>(out, row, col, value);
    }
};

cudaError_t launch_gate(const struct cuda_launch *to, const struct op_gate *op)
{
    struct gate_cells cells = { any_view_of(op->out), any_view_of(op->x),
                                any_view_of(op->gate), op->seen };

    if (elementwise_is_aligned(op->out, 4) && elementwise_is_aligned(op->x, 4))
        return elementwise_launch<4, 1>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, 1>(to, cells, op->out.rows, op->out.cols);
}

struct gate_back {
    struct any_view dx, dout, x, gate;
    const int32_t *seen;
    float *sums; /* of the slices, or NULL */
    size_t rows, cols, slice;
};

/* A block has the rows of a slice, a thread n adjacent columns at a time; cols is a multiple
 * of n. */
template <int n>
static __global__ void __launch_bounds__(GATE_THREADS)
    gate_backward(const struct gate_back b)
{
    float *room = (float *)shared_memory(), factor = tanhf(b.gate.get(0, 0)), sum = 0;
    size_t first = blockIdx.x * b.slice, last = first + b.slice;

    last = last < b.rows ? last : b.rows;
    for (size_t row = first; row < last; row++) {
        bool seen = !b.seen || b.seen[row] != 0;

        for (size_t i = threadIdx.x * n; i < b.cols; i += GATE_THREADS * n) {
            float g[n] = {}, x[n] = {};

            if (seen)
                gate_load<n>(g, b.dout, row, i);
            if (seen && b.sums)
                gate_load<n>(x, b.x, row, i);
#pragma unroll
            for (int k = 0; k < n; k++) {
                sum = fmaf(g[k], x[k], sum);
                g[k] *= factor;
            }
            gate_store<n>(b.dx, row, i, g);
        }
    }
    if (!b.sums)
        return;
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        b.sums[blockIdx.x] = sum;
}

/* Add the sums of the slices: a lane each WARP-th of them. */
static __global__ void __launch_bounds__(WARP)
    gate_total(float *dgate, struct any_view gate, const float *sums, size_t slices)
{
    float value = tanhf(gate.get(0, 0)), sum = 0;

    for (size_t i = threadIdx.x; i < slices; i += WARP)
        sum += sums[i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0)
        *dgate += (1 - value * value) * sum;
}

cudaError_t launch_gate_backward(const struct cuda_launch *to,
                                 const struct op_gate_backward *op)
{
    size_t rows = op->dout.rows, slice = (rows + GATE_SLICES - 1) / GATE_SLICES;
    size_t slices = rows > 0 ? (rows + slice - 1) / slice : 0;
    bool wide = elementwise_is_aligned(op->dx, 4) &&
                elementwise_is_aligned(op->dout, 4) && elementwise_is_aligned(op->x, 4) &&
                op->dout.cols % 4 == 0;
    struct gate_back b = { any_view_of(op->dx),
                           any_view_of(op->dout),
                           any_view_of(op->x),
                           any_view_of(op->gate),
                           op->seen,
                           op->dgate.data ? (float *)to->scratch : NULL,
                           rows,
                           op->dout.cols,
                           slice };
    cudaError_t status;

    if (rows == 0)
        return cudaSuccess;
    if (to->scratch_bytes < GATE_SLICES * sizeof(float))
        return cudaErrorNotSupported;
    status = launch(to->stream, wide ? gate_backward<4> : gate_backward<1>,
                    dim3((unsigned)slices), dim3(GATE_THREADS), WARP * sizeof(float), b);
    if (status != cudaSuccess || !op->dgate.data)
        return status;
    return launch(to->stream, gate_total, dim3(1), dim3(WARP), 0, (float *)op->dgate.data,
                  any_view_of(op->gate), (const float *)to->scratch, slices);
}
