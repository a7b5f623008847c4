/*
 * kernels/cuda/xielu.cu - the activation xIELU, whose slopes are learned.
 *
 * Bytes moved per element, of b bytes in its format: forward 2 b, backward 3 b, or 4 b if
 * it also writes the forward's output.  (8192, 8192) in bf16 at 4.2 TB/s: 64, 96 or 128 us.
 * The gradients of the parameters are sums of slices of rows, in the scratch, which a last
 * warp adds in order.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

enum { XIELU_THREADS = 256, XIELU_SLICES = 1024 };

/* The slopes, and by how much each changes with its parameter. */
struct slopes {
    float p, n, beta, eps, dp, dn;
};

__device__ static inline float softplus(float x)
{
    return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x));
}

struct xielu_scalars {
    struct any_view alpha_p, alpha_n;
    const float *beta, *eps;
};

static inline struct xielu_scalars scalars_of(const struct xielu *by)
{
    return { any_view_of(by->alpha_p), any_view_of(by->alpha_n),
             (const float *)by->beta.data, (const float *)by->eps.data };
}

__device__ static inline struct slopes slopes_of(const struct xielu_scalars &by)
{
    float p = by.alpha_p.get(0, 0), n = by.alpha_n.get(0, 0), beta = *by.beta;

    return { softplus(p), beta + softplus(n), beta,
             *by.eps,     1 / (1 + expf(-p)), 1 / (1 + expf(-n)) };
}

/* e^x - 1 - x for x <= 0; near 0, where it loses digits, the series. */
__device__ static inline float xielu_tail(float x)
{
    float series = 1.0f / 362880;

    if (x <= -0.5f)
        return expf(x) - 1 - x;
    series = fmaf(series, x, 1.0f / 40320);
    series = fmaf(series, x, 1.0f / 5040);
    series = fmaf(series, x, 1.0f / 720);
    series = fmaf(series, x, 1.0f / 120);
    series = fmaf(series, x, 1.0f / 24);
    series = fmaf(series, x, 1.0f / 6);
    series = fmaf(series, x, 0.5f);
    return x * x * series;
}

/* What the slopes multiply: x^2, or e^min(x, eps) - 1 - x. NaN stays NaN. */
__device__ static inline float xielu_curve(const struct slopes &s, float x)
{
    float near = x < s.eps ? x : s.eps;

    return x > 0 ? x * x : xielu_tail(near) + (near - x);
}

__device__ static inline float xielu_value(const struct slopes &s, float x, float curve)
{
    return (x > 0 ? s.p : s.n) * curve + s.beta * x;
}

__device__ static inline float xielu_slope(const struct slopes &s, float x)
{
    float growth = (x < s.eps ? expf(x) : x == x ? 0 : x) - 1;

    return x > 0 ? 2 * s.p * x + s.beta : s.n * growth + s.beta;
}

template <typename T> struct xielu_cells {
    view<T> out, x;
    struct xielu_scalars by;

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
        struct slopes s = slopes_of(by);
        float value[n];

#pragma unroll
        for (int i = 0; i < n; i++) {
            float x = to_float(in.x.at[i]);

            value[i] = xielu_value(s, x, xielu_curve(s, x));
        }
        ::store<n>(out.at(row, col), value);
    }
};

template <typename T>
static cudaError_t forward_typed(const struct cuda_launch *to, const struct op_xielu *op)
{
    constexpr int n = 16 / sizeof(T);
    xielu_cells<T> cells = { view_of<T>(op->out), view_of<T>(op->x),
                             scalars_of(&op->by) };

    if (elementwise_is_aligned(op->out, n) && elementwise_is_aligned(op->x, n))
        return elementwise_launch<n, 1>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, 1>(to, cells, op->out.rows, op->out.cols);
}

cudaError_t launch_xielu(const struct cuda_launch *to, const struct op_xielu *op)
{
    return BY_FORMAT(op->out.format, T, forward_typed<T>(to, op));
}

template <typename T> struct xielu_back {
    view<T> dx, out, dout, x; /* out may be absent */
    struct xielu_scalars by;
    float *sums; /* (slices, 2), or NULL */
    size_t rows, cols, slice;
};

/* A block has the rows of a slice. */
template <typename T>
static __global__ void __launch_bounds__(XIELU_THREADS)
    xielu_backward(const struct xielu_back<T> b)
{
    struct slopes s = slopes_of(b.by);
    float *room = (float *)shared_memory(), right = 0, left = 0;
    size_t first = blockIdx.x * b.slice, last = first + b.slice;

    last = last < b.rows ? last : b.rows;
    for (size_t row = first; row < last; row++)
        for (size_t i = threadIdx.x; i < b.cols; i += XIELU_THREADS) {
            float x = to_float(*b.x.at(row, i)), g = to_float(*b.dout.at(row, i));
            float curve = xielu_curve(s, x);

            right += x > 0 ? g * curve : 0;
            left += x > 0 ? 0 : g * curve;
            *b.dx.at(row, i) = from_float<T>(g * xielu_slope(s, x));
            if (b.out.data)
                *b.out.at(row, i) = from_float<T>(xielu_value(s, x, curve));
        }
    if (!b.sums)
        return;
    right = block_sum(right, room);
    left = block_sum(left, room);
    if (threadIdx.x == 0) {
        b.sums[2 * blockIdx.x] = right;
        b.sums[2 * blockIdx.x + 1] = left;
    }
}

/* Add the sums of the slices: a lane each WARP-th of them. */
static __global__ void __launch_bounds__(WARP)
    xielu_total(float *dalpha_p, float *dalpha_n, struct xielu_scalars by,
                const float *sums, size_t slices)
{
    struct slopes s = slopes_of(by);
    float right = 0, left = 0;

    for (size_t i = threadIdx.x; i < slices; i += WARP) {
        right += sums[2 * i];
        left += sums[2 * i + 1];
    }
    right = warp_sum(right);
    left = warp_sum(left);
    if (threadIdx.x > 0)
        return;
    if (dalpha_p)
        *dalpha_p += right * s.dp;
    if (dalpha_n)
        *dalpha_n += left * s.dn;
}

template <typename T>
static cudaError_t backward_typed(const struct cuda_launch *to,
                                  const struct op_xielu_backward *op, size_t slice)
{
    bool learns = op->dalpha_p.data || op->dalpha_n.data;
    size_t slices = (op->dout.rows + slice - 1) / slice;
    struct xielu_back<T> b = {
        view_of<T>(op->dx), view_of<T>(op->out), view_of<T>(op->dout), view_of<T>(op->x),
            scalars_of(&op->by), learns ? (float *)to->scratch : NULL, op->dout.rows,
            op->dout.cols, slice
    };
    cudaError_t status = launch(to->stream, xielu_backward<T>, dim3((unsigned)slices),
                                dim3(XIELU_THREADS), WARP * sizeof(float), b);

    if (status != cudaSuccess || !learns)
        return status;
    return launch(to->stream, xielu_total, dim3(1), dim3(WARP), 0,
                  (float *)op->dalpha_p.data, (float *)op->dalpha_n.data,
                  scalars_of(&op->by), (const float *)to->scratch, slices);
}

cudaError_t launch_xielu_backward(const struct cuda_launch *to,
                                  const struct op_xielu_backward *op)
{
    size_t slice = (op->dout.rows + XIELU_SLICES - 1) / XIELU_SLICES;

    if (op->dout.rows == 0)
        return cudaSuccess;
    if (to->scratch_bytes < XIELU_SLICES * 2 * sizeof(float))
        return cudaErrorNotSupported;
    return BY_FORMAT(op->dout.format, T, backward_typed<T>(to, op, slice));
}
