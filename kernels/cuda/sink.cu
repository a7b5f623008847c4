/*
 * kernels/cuda/sink.cu - sinks of attention, and their gradients.
 *
 * A warp has a row of a head, at most 256 columns of it.  Bytes moved per element of out, b
 * bytes each: 2 b forward, 2 b backward.  8192 rows of 64 heads of 64 columns in bf16 at
 * 4.2 TB/s: 32 us each.  The gradient has one block per head, so that its sum has one
 * order: with 64 heads, half of the multiprocessors of an H100.
 */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/elementwise_kernel.cuh"

enum { SINK_WARPS = 8, SINK_THREADS = SINK_WARPS * WARP };

/* Return the share of the weights that the keys keep; *both: the logarithm of the sum. */
__device__ static inline float sink_share(float lse, float sink, float *both)
{
    float most = fmaxf(lse, sink), key = expf(lse - most), own = expf(sink - most);

    *both = lse != lse ? lse : most + logf(key + own); /* fmaxf drops NaN */
    return lse != lse ? lse : key / (key + own);
}

template <typename T>
static __global__ void __launch_bounds__(SINK_THREADS)
    sink_kernel(const view<T> out, const view<float> lse, const float *sinks, size_t rows,
                unsigned heads, unsigned size)
{
    size_t row = (size_t)blockIdx.x * SINK_WARPS + threadIdx.x / WARP;
    unsigned lane = threadIdx.x % WARP;

    if (row >= rows)
        return;
    for (unsigned h = blockIdx.y; h < heads; h += gridDim.y) {
        float both, share = sink_share(*lse.at(h, row), sinks[h], &both);

        __syncwarp(); /* all lanes have read it */
        if (lane == 0)
            *lse.at(h, row) = both;
        for (unsigned i = lane; i < size; i += WARP) {
            T *at = out.at(row, h * size + i);

            *at = from_float<T>(to_float(*at) * share);
        }
    }
}

template <typename T>
static cudaError_t sink_typed(const struct cuda_launch *to, const struct op_sink *op)
{
    dim3 grid((unsigned)((op->out.rows + SINK_WARPS - 1) / SINK_WARPS),
              (unsigned)op->heads);

    return launch(to->stream, sink_kernel<T>, grid, dim3(SINK_THREADS), 0,
                  view_of<T>(op->out), view_of<float>(op->lse),
                  (const float *)op->sinks.data, op->out.rows, (unsigned)op->heads,
                  (unsigned)(op->out.cols / op->heads));
}

cudaError_t launch_sink(const struct cuda_launch *to, const struct op_sink *op)
{
    return BY_FORMAT(op->out.format, T, sink_typed<T>(to, op));
}

template <typename T> struct sink_backward_job {
    float *dsinks;
    const float *sinks;
    view<const T> out;
    any_view dout;
    view<const float> lse;
    size_t rows;
    unsigned size;
};

template <typename T>
static __global__ void __launch_bounds__(SINK_THREADS)
    sink_backward_kernel(const struct sink_backward_job<T> p)
{
    double *parts = (double *)shared_memory(); /* [SINK_WARPS] */
    unsigned h = blockIdx.x, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    double sum = 0;

    for (size_t row = warp; row < p.rows; row += SINK_WARPS) {
        float dot = 0;

        for (unsigned i = lane; i < p.size; i += WARP)
            dot += to_float(*p.out.at(row, h * p.size + i)) *
                   p.dout.get(row, h * p.size + i);
        dot = warp_sum(dot);
        if (lane == 0)
            sum += (double)(expf(p.sinks[h] - *p.lse.at(h, row)) * dot);
    }
    if (lane == 0)
        parts[warp] = sum;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int w = 1; w < SINK_WARPS; w++)
        sum += parts[w];
    p.dsinks[h] -= (float)sum;
}

template <typename T>
static cudaError_t sink_backward_typed(const struct cuda_launch *to,
                                       const struct op_sink_backward *op)
{
    struct sink_backward_job<T> p = {
        (float *)op->dsinks.data,
            (const float *)op->sinks.data, view_of<const T>(op->out),
            any_view_of(op->dout), view_of<const float>(op->lse), op->out.rows,
            (unsigned)(op->out.cols / op->heads)
    };

    return launch(to->stream, sink_backward_kernel<T>, dim3((unsigned)op->heads),
                  dim3(SINK_THREADS), SINK_WARPS * sizeof(double), p);
}

cudaError_t launch_sink_backward(const struct cuda_launch *to,
                                 const struct op_sink_backward *op)
{
    return BY_FORMAT(op->out.format, T, sink_backward_typed<T>(to, op));
}
