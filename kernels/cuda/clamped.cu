/*
 * kernels/cuda/clamped.cu - the clamped activation of experts, their biases, and the
 * gradients of both.
 *
 * The activation moves 3 b bytes per element forward and 5 b or 6 b backward, like swiglu.cu;
 * a bias 2 b, its gradient b, in blocks of 32 columns of a group, whose rows are added in a
 * fixed order.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

/* ---- The activation ---- */

struct clamped {
    float gate, up, share; /* share: the sigmoid */
    bool gate_passes, up_passes;
};

__device__ static inline struct clamped clamped_of(float gate, float up, float alpha,
                                                   float limit)
{
    struct clamped c;

    c.gate_passes = !(gate > limit);
    c.up_passes = !(up > limit) && !(up < -limit);
    c.gate = c.gate_passes ? gate : limit;
    c.up = up > limit ? limit : up < -limit ? -limit : up;
    c.share = 1 / (1 + expf(-alpha * c.gate));
    return c;
}

template <typename T> struct clamped_cells {
    view<T> out, gate, up;
    float alpha, limit;

    template <int n> struct input {
        pack<T, n> gate, up;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.gate = *(const pack<T, n> *)gate.at(row, col);
        in.up = *(const pack<T, n> *)up.at(row, col);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float value[n];

#pragma unroll
        for (int i = 0; i < n; i++) {
            struct clamped c =
                clamped_of(to_float(in.gate.at[i]), to_float(in.up.at[i]), alpha, limit);

            value[i] = (c.up + 1) * (c.gate * c.share);
        }
        ::store<n>(out.at(row, col), value);
    }
};

template <typename T>
static cudaError_t clamped_typed(const struct cuda_launch *to,
                                 const struct op_clamped *op)
{
    constexpr int n = 16 / sizeof(T);
    clamped_cells<T> cells = { view_of<T>(op->out), view_of<T>(op->gate),
                               view_of<T>(op->up), op->alpha, op->limit };

    if (elementwise_is_aligned(op->out, n) && elementwise_is_aligned(op->gate, n) &&
        elementwise_is_aligned(op->up, n))
        return elementwise_launch<n, 2>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, 1>(to, cells, op->out.rows, op->out.cols);
}

cudaError_t launch_clamped(const struct cuda_launch *to, const struct op_clamped *op)
{
    return BY_FORMAT(op->out.format, T, clamped_typed<T>(to, op));
}

template <typename T> struct clamped_backward_cells {
    view<T> dgate, dup, out, dout, gate, up; /* out may be absent */
    float alpha, limit;

    template <int n> struct input {
        pack<T, n> dout, gate, up;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.dout = *(const pack<T, n> *)dout.at(row, col);
        in.gate = *(const pack<T, n> *)gate.at(row, col);
        in.up = *(const pack<T, n> *)up.at(row, col);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float by_gate[n], by_up[n], value[n];

#pragma unroll
        for (int i = 0; i < n; i++) {
            struct clamped c =
                clamped_of(to_float(in.gate.at[i]), to_float(in.up.at[i]), alpha, limit);
            float g = to_float(in.dout.at[i]);
            float slope = c.share * (1 + alpha * c.gate * (1 - c.share));

            by_gate[i] = c.gate_passes ? g * (c.up + 1) * slope : 0;
            by_up[i] = c.up_passes ? g * (c.gate * c.share) : 0;
            value[i] = (c.up + 1) * (c.gate * c.share);
        }
        ::store<n>(dgate.at(row, col), by_gate);
        ::store<n>(dup.at(row, col), by_up);
        if (out.data)
            ::store<n>(out.at(row, col), value);
    }
};

template <typename T>
static cudaError_t clamped_backward_typed(const struct cuda_launch *to,
                                          const struct op_clamped_backward *op)
{
    constexpr int n = 16 / sizeof(T);
    clamped_backward_cells<T> cells = { view_of<T>(op->dgate),
                                        view_of<T>(op->dup),
                                        view_of<T>(op->out),
                                        view_of<T>(op->dout),
                                        view_of<T>(op->gate),
                                        view_of<T>(op->up),
                                        op->alpha,
                                        op->limit };

    if (elementwise_is_aligned(op->dgate, n) && elementwise_is_aligned(op->dup, n) &&
        elementwise_is_aligned(op->out, n) && elementwise_is_aligned(op->dout, n) &&
        elementwise_is_aligned(op->gate, n) && elementwise_is_aligned(op->up, n))
        return elementwise_launch<n, 2>(to, cells, op->dout.rows, op->dout.cols);
    return elementwise_launch<1, 1>(to, cells, op->dout.rows, op->dout.cols);
}

cudaError_t launch_clamped_backward(const struct cuda_launch *to,
                                    const struct op_clamped_backward *op)
{
    return BY_FORMAT(op->dout.format, T, clamped_backward_typed<T>(to, op));
}

/* ---- Biases ---- */

enum { BIAS_THREADS = 128, BIAS_COLUMNS = WARP, BIAS_ROWS = 8 };

/* A block has a row; the group of a row is the last that starts at or before it. */
template <typename T>
static __global__ void __launch_bounds__(BIAS_THREADS)
    group_bias_kernel(const view<T> out, const view<const float> bias,
                      const int32_t *starts, int groups, unsigned cols)
{
    int row = (int)blockIdx.x, low = 0, high = groups;

    while (high - low > 1) {
        int middle = low + (high - low) / 2;

        if (starts[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    for (unsigned i = threadIdx.x; i < cols; i += BIAS_THREADS) {
        T *at = out.at((size_t)row, i);

        *at = from_float<T>(to_float(*at) + *bias.at((size_t)low, i));
    }
}

template <typename T>
static cudaError_t group_bias_typed(const struct cuda_launch *to,
                                    const struct op_group_bias *op)
{
    return launch(to->stream, group_bias_kernel<T>, dim3((unsigned)op->out.rows),
                  dim3(BIAS_THREADS), 0, view_of<T>(op->out),
                  view_of<const float>(op->bias), op->starts, (int)op->groups,
                  (unsigned)op->out.cols);
}

cudaError_t launch_group_bias(const struct cuda_launch *to,
                              const struct op_group_bias *op)
{
    return BY_FORMAT(op->out.format, T, group_bias_typed<T>(to, op));
}

template <typename T>
static __global__ void __launch_bounds__(BIAS_COLUMNS *BIAS_ROWS)
    group_bias_backward_kernel(const view<float> dbias, const view<const T> dout,
                               const int32_t *starts, unsigned cols)
{
    float *parts = (float *)shared_memory(); /* [BIAS_ROWS * BIAS_COLUMNS] */
    int group = (int)blockIdx.x, lane = threadIdx.x % BIAS_COLUMNS;
    int part = threadIdx.x / BIAS_COLUMNS;
    unsigned col = blockIdx.y * BIAS_COLUMNS + lane;
    float sum = 0;

    for (int row = starts[group] + part; row < starts[group + 1]; row += BIAS_ROWS)
        if (col < cols)
            sum += to_float(*dout.at((size_t)row, col));
    parts[threadIdx.x] = sum;
    __syncthreads();
    if (part > 0 || col >= cols)
        return;
    for (int i = 1; i < BIAS_ROWS; i++)
        sum += parts[i * BIAS_COLUMNS + lane];
    *dbias.at((size_t)group, col) += sum;
}

template <typename T>
static cudaError_t group_bias_backward_typed(const struct cuda_launch *to,
                                             const struct op_group_bias_backward *op)
{
    unsigned cols = (unsigned)op->dbias.cols;
    dim3 grid((unsigned)op->groups, (cols + BIAS_COLUMNS - 1) / BIAS_COLUMNS);

    return launch(to->stream, group_bias_backward_kernel<T>, grid,
                  dim3(BIAS_COLUMNS * BIAS_ROWS),
                  BIAS_COLUMNS * BIAS_ROWS * sizeof(float), view_of<float>(op->dbias),
                  view_of<const T>(op->dout), op->starts, cols);
}

cudaError_t launch_group_bias_backward(const struct cuda_launch *to,
                                       const struct op_group_bias_backward *op)
{
    return BY_FORMAT(op->dout.format, T, group_bias_backward_typed<T>(to, op));
}
