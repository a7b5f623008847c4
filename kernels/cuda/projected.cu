/*
 * kernels/cuda/projected.cu - GaLore and APOLLO: Adam on a projected gradient, APOLLO's
 * factors and limit, and the update.
 *
 * Bytes moved per weight, all in fp32 with a 16-bit copy: limit 4 read, end 8 read and 6
 * written; the projected gradient is small.
 */
#include "kernels/cuda/optimizer_step.cuh"

#define NORM_EPSILON 1e-8
/* apollo_torch/apollo.py: norms of two steps grow by at most this factor */
#define GROWTH 1.01

/* Sums of a pass are in at most PARTS blocks. */
enum { SUM_THREADS = 256, SUM_BLOCKS = 8, PARTS = 512 };
static const size_t MOST_PARTS = PARTS;

/* ---- Adam ---- */

struct projected_adam {
    float *out, *x, *m, *v;

    template <int n> __device__ void update(size_t i, const rates &s) const
    {
        float g[n], m1[n], m2[n], u[n];

        load<n>(g, x + i);
        load<n>(m1, m + i);
        load<n>(m2, v + i);
#pragma unroll
        for (int j = 0; j < n; j++) {
            g[j] *= s.grad_scale;
            m1[j] = m1[j] * s.beta1 + g[j] * s.rest1;
            m2[j] = m2[j] * s.beta2 + g[j] * g[j] * s.rest2;
            u[j] = m1[j] / (sqrtf(m2[j]) + s.eps);
        }
        store<n>(m + i, m1);
        store<n>(v + i, m2);
        store<n>(x + i, g);
        store<n>(out + i, u);
    }
};

extern "C" cudaError_t launch_projected_adam(const struct cuda_launch *to,
                                             const struct op_projected_adam *op)
{
    const struct tensor tensors[] = { op->out, op->x, op->m, op->v };
    const settings s = { 0, op->beta1,      op->beta2, op->eps,
                         0, op->grad_scale, 1,         op->numbers };
    const projected_adam adam = { (float *)op->out.data, (float *)op->x.data,
                                  (float *)op->m.data, (float *)op->v.data };

    return launch_step(to, adam, s, op->x.rows * op->x.cols, packs_are_even(tensors, 4));
}

/* ---- Factors ---- */

static __device__ float factor_of(double out, double x)
{
    return (float)(sqrt(out) / (sqrt(x) + NORM_EPSILON));
}

/* The rows may be one, of everything. */
static __global__ void find_row_factors(float *factor, const float *out, const float *x,
                                        size_t rows, size_t cols)
{
    double *room = (double *)shared_memory();

    for (size_t row = blockIdx.x; row < rows; row += gridDim.x) {
        double sums[2] = { 0, 0 };

        for (size_t i = threadIdx.x; i < cols; i += SUM_THREADS) {
            float a = out[row * cols + i], b = x[row * cols + i];

            sums[0] += (double)(a * a);
            sums[1] += (double)(b * b);
        }
        sums[0] = block_sum(sums[0], room);
        sums[1] = block_sum(sums[1], room);
        if (threadIdx.x == 0)
            factor[row] = factor_of(sums[0], sums[1]);
    }
}

static __global__ void find_column_factors(float *factor, const float *out,
                                           const float *x, size_t rows, size_t cols)
{
    for (size_t i = (size_t)blockIdx.x * SUM_THREADS + threadIdx.x; i < cols;
         i += (size_t)gridDim.x * SUM_THREADS) {
        double sums[2] = { 0, 0 };

        for (size_t row = 0; row < rows; row++) {
            double a = out[row * cols + i], b = x[row * cols + i];

            sums[0] += a * a;
            sums[1] += b * b;
        }
        factor[i] = factor_of(sums[0], sums[1]);
    }
}

extern "C" cudaError_t launch_apollo_factors(const struct cuda_launch *to,
                                             const struct op_apollo_factors *op)
{
    size_t rows = op->x.rows, cols = op->x.cols;
    bool by_row = op->factor.rows == rows && op->factor.cols == 1;
    bool by_column = !by_row && op->factor.cols == cols && op->factor.rows == 1;
    const float *out = (const float *)op->out.data, *x = (const float *)op->x.data;
    float *factor = (float *)op->factor.data;

    if (rows == 0 || cols == 0)
        return cudaSuccess;
    if (by_column)
        return launch(to->stream, find_column_factors,
                      blocks_for(to, (cols + SUM_THREADS - 1) / SUM_THREADS, SUM_BLOCKS),
                      dim3(SUM_THREADS), 0, factor, out, x, rows, cols);
    if (!by_row) {
        cols *= rows;
        rows = 1;
    }
    return launch(to->stream, find_row_factors, blocks_for(to, rows, SUM_BLOCKS),
                  dim3(SUM_THREADS), WARP * sizeof(double), factor, out, x, rows, cols);
}

/* ---- A matrix with its factors ---- */

struct scaled {
    const float *x, *factor;
    size_t cols;
    bool by_row, by_column; /* neither: one factor, or none */

    __device__ float of(float value, size_t i) const
    {
        if (!factor)
            return value;
        return value * factor[by_column ? i % cols : by_row ? i / cols : 0];
    }
};

static scaled scaled_of(struct tensor x, struct tensor factor)
{
    return { (const float *)x.data, (const float *)factor.data, x.cols,
             factor.data && factor.cols == 1 && factor.rows > 1,
             factor.data && factor.rows == 1 && factor.cols > 1 };
}

/* ---- The limit ---- */

/* In the launcher's scratch: what the next kernel reads. */
struct progress {
    double parts[PARTS];
};

static __global__ void find_norm(const scaled s, size_t count, progress *p)
{
    double *room = (double *)shared_memory(), sum = 0;

    for (size_t i = (size_t)blockIdx.x * SUM_THREADS + threadIdx.x; i < count;
         i += (size_t)gridDim.x * SUM_THREADS) {
        double x = (double)s.of(s.x[i], i);

        sum += x * x;
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        p->parts[blockIdx.x] = sum;
}

static __global__ void find_limit(float *limit, float *norm, const progress *p,
                                  unsigned parts, double scale, double grad_scale,
                                  const struct step_scalars *numbers)
{
    double *room = (double *)shared_memory(), sum = 0, by = 1;

    for (unsigned i = threadIdx.x; i < parts; i += SUM_THREADS)
        sum += p->parts[i];
    sum = block_sum(sum, room);
    if (threadIdx.x != 0 || (numbers && !numbers->finite))
        return;
    grad_scale *= numbers ? numbers->factor : 1;
    sum = scale * grad_scale * sqrt(sum);
    if (*norm > 0)
        by = fmax(sum / ((double)*norm + NORM_EPSILON), GROWTH) / GROWTH;
    *limit = (float)(grad_scale / by);
    *norm = (float)(sum / by);
}

extern "C" cudaError_t launch_apollo_limit(const struct cuda_launch *to,
                                           const struct op_apollo_limit *op)
{
    size_t count = op->grad.rows * op->grad.cols;
    size_t wanted = (count + SUM_THREADS - 1) / SUM_THREADS;
    unsigned parts = (unsigned)(wanted < MOST_PARTS ? wanted : MOST_PARTS);
    progress *p = (progress *)to->scratch;
    cudaError_t status;

    if (op->grad.format != FORMAT_FP32)
        return cudaErrorNotSupported;
    if (count == 0)
        return cudaSuccess;
    status = launch(to->stream, find_norm, dim3(parts), dim3(SUM_THREADS),
                    WARP * sizeof(double), scaled_of(op->grad, op->factor), count, p);
    if (status != cudaSuccess)
        return status;
    return launch(to->stream, find_limit, dim3(1), dim3(SUM_THREADS),
                  WARP * sizeof(double), (float *)op->limit.data, (float *)op->norm.data,
                  (const progress *)p, parts, op->scale, op->grad_scale, op->numbers);
}

/* ---- The update ---- */

template <typename W> struct projected_end {
    weights<W> target;
    scaled matrix;
    const float *limit;
    float scale;

    template <int n> __device__ void update(size_t i, const rates &s) const
    {
        float w[n], x[n], rate = s.rate / s.root * scale * (limit ? *limit : 1.0f);

        load<n>(w, target.w + i);
        load<n>(x, matrix.x + i);
#pragma unroll
        for (int j = 0; j < n; j++)
            w[j] = (w[j] - matrix.of(x[j], i + j) * rate) * s.keep;
        target.template put<n>(i, w, s.step);
    }
};

template <typename W>
static cudaError_t launch_end_of(const struct cuda_launch *to,
                                 const struct op_projected_end *op)
{
    const struct tensor tensors[] = { op->w, op->x, op->copy };
    const settings s = { op->lr,    op->beta1, op->beta2, 0,
                         op->decay, 1,         op->step,  op->numbers };
    const projected_end<W> end = {
        weights_of<W>(op->w, op->copy, { op->stochastic, op->seed, op->first }),
        scaled_of(op->x, op->factor), (const float *)op->limit.data, (float)op->scale
    };

    return launch_step(to, end, s, op->w.rows * op->w.cols, packs_are_even(tensors, 3));
}

extern "C" cudaError_t launch_projected_end(const struct cuda_launch *to,
                                            const struct op_projected_end *op)
{
    if (op->x.format != FORMAT_FP32)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->w.format, W, launch_end_of<W>(to, op));
}
