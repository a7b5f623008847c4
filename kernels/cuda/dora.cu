/*
 * kernels/cuda/dora.cu - norms of adapted rows of weights, and the scaling of the columns of
 * outputs by magnitudes.
 *
 * dora_norm reads w once and a once for NORM_ROWS rows of w, from the L2 cache if it fits; it
 * computes r multiply-adds per element of w, as many as a matmul of r rows.  Bytes moved per
 * element, of b bytes in its format: dora_scale 2 b, or 3 b if it adds to out;
 * dora_scale_backward 3 b.
 */
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/elementwise_kernel.cuh"

#include <math.h>

enum {
    NORM_THREADS = 256,
    NORM_ROWS = 4,
    SCALE_AT_ONCE = 2,
    BACK_WARPS = 8,
    BACK_SLICE_ROWS = 64
};

template <typename W> struct dora_norms {
    view<W> w;
    any_view a, b;
    float *norm, scale;
    size_t rows, cols, rank;
};

/* A block has NORM_ROWS rows. */
template <typename W>
__global__ void __launch_bounds__(NORM_THREADS) dora_norm(struct dora_norms<W> s)
{
    float *room = (float *)shared_memory(); /* [WARP] */
    size_t first = (size_t)blockIdx.x * NORM_ROWS;
    float squares[NORM_ROWS] = {};

    for (size_t col = threadIdx.x; col < s.cols; col += NORM_THREADS) {
        float value[NORM_ROWS];

#pragma unroll
        for (int i = 0; i < NORM_ROWS; i++)
            value[i] = first + i < s.rows ? to_float(*s.w.at(first + i, col)) : 0;
        for (size_t k = 0; k < s.rank; k++) {
            float a = s.a.get(k, col);

#pragma unroll
            for (int i = 0; i < NORM_ROWS; i++)
                if (first + i < s.rows)
                    value[i] += s.scale * s.b.get(first + i, k) * a;
        }
#pragma unroll
        for (int i = 0; i < NORM_ROWS; i++)
            squares[i] += value[i] * value[i];
    }
#pragma unroll
    for (int i = 0; i < NORM_ROWS; i++) {
        float sum = block_sum(squares[i], room);

        if (threadIdx.x == 0 && first + i < s.rows)
            s.norm[first + i] = sqrtf(sum);
    }
}

template <typename W>
static cudaError_t norm_typed(const struct cuda_launch *to, const struct op_dora_norm *op)
{
    struct dora_norms<W> s = {
        view_of<W>(op->w), any_view_of(op->a), any_view_of(op->b),
            (float *)op->norm.data, op->scale, op->w.rows, op->w.cols, op->a.rows
    };

    return launch(to->stream, dora_norm<W>,
                  dim3((unsigned)((s.rows + NORM_ROWS - 1) / NORM_ROWS)),
                  dim3(NORM_THREADS), WARP * sizeof(float), s);
}

cudaError_t launch_dora_norm(const struct cuda_launch *to, const struct op_dora_norm *op)
{
    if (op->w.rows == 0)
        return cudaSuccess;
    return BY_FORMAT(op->w.format, W, norm_typed<W>(to, op));
}

/* The factor of a column. */
struct dora_factor {
    any_view magnitude;
    const float *norm;
    float offset;

    __device__ float at(size_t col) const
    {
        return (magnitude.data ? magnitude.get(0, col) / norm[col] : 1) + offset;
    }
};

static inline struct dora_factor dora_factor_of(struct tensor magnitude,
                                                struct tensor norm, float offset)
{
    return { any_view_of(magnitude), (const float *)norm.data, offset };
}

template <typename O, typename X> struct dora_scale_cells {
    view<O> out;
    view<X> x;
    struct dora_factor factor;
    const float *bias;
    bool adds;

    template <int n> struct input {
        pack<X, n> x;
        pack<O, n> out;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.x = *(const pack<X, n> *)x.at(row, col);
        if (adds)
            in.out = *(const pack<O, n> *)out.at(row, col);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float value[n];

#pragma unroll
        for (int i = 0; i < n; i++) {
            value[i] = to_float(in.x.at[i]) * factor.at(col + i);
            if (bias)
                value[i] += bias[col + i];
            if (adds)
                value[i] += to_float(in.out.at[i]);
        }
        ::store<n>(out.at(row, col), value);
    }
};

template <typename O, typename X>
static cudaError_t scale_typed(const struct cuda_launch *to,
                               const struct op_dora_scale *op)
{
    constexpr int n = 16 / (sizeof(O) > sizeof(X) ? sizeof(O) : sizeof(X));
    dora_scale_cells<O, X> cells = { view_of<O>(op->out), view_of<X>(op->x),
                                     dora_factor_of(op->magnitude, op->norm, op->offset),
                                     (const float *)op->bias.data, op->beta != 0 };

    if (elementwise_is_aligned(op->out, n) && elementwise_is_aligned(op->x, n))
        return elementwise_launch<n, SCALE_AT_ONCE>(to, cells, op->x.rows, op->x.cols);
    return elementwise_launch<1, SCALE_AT_ONCE>(to, cells, op->x.rows, op->x.cols);
}

cudaError_t launch_dora_scale(const struct cuda_launch *to,
                              const struct op_dora_scale *op)
{
    if (op->out.format == FORMAT_FP32)
        return BY_FORMAT(op->x.format, X, scale_typed<float, X>(to, op));
    if (op->x.format != op->out.format)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->x.format, X, scale_typed<X, X>(to, op));
}

template <typename T> struct dora_slices {
    view<T> dx, dout, x;
    struct dora_factor factor;
    float *sums; /* (slices, cols), or NULL */
    size_t rows, cols, slice_rows, tiles;
};

/* A block has one slice of the rows and WARP * n columns, as in sum_rows_kernel. */
template <int n, typename T>
__global__ void __launch_bounds__(WARP *BACK_WARPS) dora_backward(struct dora_slices<T> s)
{
    float *room = (float *)shared_memory(); /* [BACK_WARPS][n][WARP] */
    unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    size_t slice = blockIdx.x / s.tiles, col = (blockIdx.x % s.tiles * WARP + lane) * n;
    size_t first = slice * s.slice_rows, last = first + s.slice_rows;
    float sum[n] = {}, factor[n] = {};

    last = last < s.rows ? last : s.rows;
#pragma unroll
    for (int k = 0; k < n; k++)
        if (col < s.cols)
            factor[k] = s.factor.at(col + k);
    for (size_t row = first + warp; row < last && col < s.cols; row += BACK_WARPS) {
        float by[n], x[n];

        load<n>(by, s.dout.at(row, col));
        if (s.sums) {
            load<n>(x, s.x.at(row, col));
#pragma unroll
            for (int k = 0; k < n; k++)
                sum[k] += by[k] * x[k];
        }
#pragma unroll
        for (int k = 0; k < n; k++)
            by[k] *= factor[k];
        store<n>(s.dx.at(row, col), by);
    }
    if (!s.sums)
        return;
#pragma unroll
    for (int k = 0; k < n; k++)
        room[(warp * n + k) * WARP + lane] = sum[k];
    __syncthreads();
    if (warp > 0 || col >= s.cols)
        return;
#pragma unroll
    for (int k = 0; k < n; k++) {
        for (int other = 1; other < BACK_WARPS; other++)
            sum[k] += room[(other * n + k) * WARP + lane];
        s.sums[slice * s.cols + col + k] = sum[k] / s.factor.norm[col + k];
    }
}

template <int n, typename T>
static cudaError_t backward_launch(const struct cuda_launch *to,
                                   const struct op_dora_scale_backward *op,
                                   struct slices slices)
{
    struct dora_slices<T> s = {
        view_of<T>(op->dx), view_of<T>(op->dout), view_of<T>(op->x),
            dora_factor_of(op->magnitude, op->norm, op->offset),
            op->dmagnitude.data ? (float *)to->scratch : NULL, op->dout.rows,
            op->dout.cols, slices.rows, (op->dout.cols + WARP * n - 1) / (WARP * n)
    };

    return launch(to->stream, dora_backward<n, T>,
                  dim3((unsigned)(s.tiles * slices.count)), dim3(WARP * BACK_WARPS),
                  BACK_WARPS * WARP * n * sizeof(float), s);
}

template <typename T>
static cudaError_t backward_typed(const struct cuda_launch *to,
                                  const struct op_dora_scale_backward *op,
                                  struct slices slices)
{
    constexpr int n = 16 / sizeof(T);

    if (op->dout.cols % n == 0 && elementwise_is_aligned(op->dx, n) &&
        elementwise_is_aligned(op->dout, n) && elementwise_is_aligned(op->x, n))
        return backward_launch<n, T>(to, op, slices);
    return backward_launch<1, T>(to, op, slices);
}

cudaError_t launch_dora_scale_backward(const struct cuda_launch *to,
                                       const struct op_dora_scale_backward *op)
{
    struct slices slices;
    cudaError_t status;

    if (op->dout.rows == 0 || op->dout.cols == 0)
        return cudaSuccess;
    slices = column_sums_slices(to, op->dout.rows, op->dout.cols, BACK_SLICE_ROWS);
    if (slices.count == 0)
        return cudaErrorNotSupported;
    status = BY_FORMAT(op->dout.format, T, backward_typed<T>(to, op, slices));
    return status != cudaSuccess || !op->dmagnitude.data
               ? status
               : column_sums_launch(to, op->dmagnitude, slices);
}
