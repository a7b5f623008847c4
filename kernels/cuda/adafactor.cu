/*
 * kernels/cuda/adafactor.cu - Adafactor: second moments of rows and columns, the size of
 * the update, the update.
 *
 * Bytes moved per weight, all in fp32 with a 16-bit copy: 20 read (the gradient four
 * times) and 6 written.
 */
#include "kernels/cuda/optimizer_step.cuh"

#define SQUARE_EPSILON 1e-30f

/* A block of the pass over columns has COLUMNS columns; sums of a pass over the matrix are
 * in at most PARTS blocks. */
enum { SUM_THREADS = 256, COLUMNS = 32, PARTS = 512 };

/* Blocks per multiprocessor of the pass over rows. */
enum { SUM_BLOCKS = 8 };
static const size_t MOST_PARTS = PARTS;

/* In the launcher's scratch: what later kernels of the step read. */
struct progress {
    float beta, rest, grad_scale, mean, clip;
    bool made;
    double parts[PARTS];
};

/* A matrix with its moments; a vector has v. */
struct factored {
    const float *grad;
    float *row, *col, *v;
    size_t rows, cols;

    __device__ float update(size_t i, const progress *p) const
    {
        float g = grad[i] * p->grad_scale;

        if (v)
            return g / sqrtf(v[i]);
        return g / sqrtf(row[i / cols] / p->mean) / sqrtf(col[i % cols]);
    }
};

static __global__ void begin_adafactor(progress *p, const settings s)
{
    const struct step_scalars *numbers = s.numbers;
    double beta = 1 - pow((double)(numbers ? numbers->step : s.step), -0.8);

    p->beta = (float)beta;
    p->rest = (float)(1 - beta);
    p->grad_scale = (float)(s.grad_scale * (numbers ? numbers->factor : 1));
    p->made = !numbers || numbers->finite;
}

static __global__ void find_rows(const factored f, const progress *p)
{
    double *room = (double *)shared_memory();

    for (size_t row = blockIdx.x; p->made && row < f.rows; row += gridDim.x) {
        const float *grad = f.grad + row * f.cols;
        double sum = 0;

        for (size_t i = threadIdx.x; i < f.cols; i += SUM_THREADS) {
            float g = grad[i] * p->grad_scale;

            sum += (double)(g * g);
        }
        sum = block_sum(sum, room);
        if (threadIdx.x == 0)
            f.row[row] = f.row[row] * p->beta +
                         ((float)(sum / (double)f.cols) + SQUARE_EPSILON) * p->rest;
    }
}

/* A warp reads neighboring columns of every eighth row. */
static __global__ void find_columns(const factored f, const progress *p)
{
    double *room = (double *)shared_memory(); /* [SUM_THREADS] */
    size_t col = (size_t)blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    double sum = 0;

    for (size_t row = threadIdx.x / COLUMNS; p->made && col < f.cols && row < f.rows;
         row += SUM_THREADS / COLUMNS) {
        float g = f.grad[row * f.cols + col] * p->grad_scale;

        sum += (double)(g * g);
    }
    room[threadIdx.x] = sum;
    __syncthreads();
    if (!p->made || threadIdx.x >= COLUMNS || col >= f.cols)
        return;
    for (int i = 1; i < SUM_THREADS / COLUMNS; i++)
        sum += room[threadIdx.x + i * COLUMNS];
    f.col[col] =
        f.col[col] * p->beta + ((float)(sum / (double)f.rows) + SQUARE_EPSILON) * p->rest;
}

static __global__ void find_elements(const factored f, const progress *p)
{
    for (size_t i = (size_t)blockIdx.x * SUM_THREADS + threadIdx.x; p->made && i < f.cols;
         i += (size_t)gridDim.x * SUM_THREADS) {
        float g = f.grad[i] * p->grad_scale;

        f.v[i] = f.v[i] * p->beta + (g * g + SQUARE_EPSILON) * p->rest;
    }
}

static __global__ void find_mean(const factored f, progress *p)
{
    double *room = (double *)shared_memory(), sum = 0;

    for (size_t i = threadIdx.x; i < f.rows; i += SUM_THREADS)
        sum += (double)f.row[i];
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        p->mean = (float)(sum / (double)f.rows);
}

static __global__ void find_parts(const factored f, progress *p)
{
    double *room = (double *)shared_memory(), sum = 0;

    for (size_t i = (size_t)blockIdx.x * SUM_THREADS + threadIdx.x;
         p->made && i < f.rows * f.cols; i += (size_t)gridDim.x * SUM_THREADS) {
        double u = (double)f.update(i, p);

        sum += u * u;
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        p->parts[blockIdx.x] = sum;
}

static __global__ void find_clip(const factored f, progress *p, unsigned parts)
{
    double *room = (double *)shared_memory(), sum = 0;

    for (unsigned i = threadIdx.x; i < parts; i += SUM_THREADS)
        sum += p->parts[i];
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        p->clip = (float)fmax(1.0, sqrt(sum / (double)(f.rows * f.cols)));
}

template <typename W> struct adafactor {
    weights<W> target;
    factored f;
    const progress *p;

    template <int n> __device__ void update(size_t i, const rates &s) const
    {
        float w[n];

        load<n>(w, target.w + i);
#pragma unroll
        for (int j = 0; j < n; j++)
            w[j] = w[j] * s.keep - s.lr / p->clip * f.update(i + j, p);
        target.template put<n>(i, w, s.step);
    }
};

static cudaError_t launch_moments(const struct cuda_launch *to, const factored &f,
                                  progress *p)
{
    const dim3 threads(SUM_THREADS);
    size_t room = WARP * sizeof(double), count = f.rows * f.cols;
    size_t wanted = (count + SUM_THREADS - 1) / SUM_THREADS;
    unsigned parts = (unsigned)(wanted < MOST_PARTS ? wanted : MOST_PARTS);
    cudaError_t status;

    if (f.v) {
        status = launch(to->stream, find_elements, dim3(parts), threads, 0, f, p);
    } else {
        status = launch(to->stream, find_rows, blocks_for(to, f.rows, SUM_BLOCKS),
                        threads, room, f, p);
        if (status == cudaSuccess)
            status = launch(to->stream, find_columns,
                            dim3((unsigned)((f.cols + COLUMNS - 1) / COLUMNS)), threads,
                            SUM_THREADS * sizeof(double), f, p);
        if (status == cudaSuccess)
            status = launch(to->stream, find_mean, dim3(1), threads, room, f, p);
    }
    if (status == cudaSuccess)
        status = launch(to->stream, find_parts, dim3(parts), threads, room, f, p);
    if (status == cudaSuccess)
        status = launch(to->stream, find_clip, dim3(1), threads, room, f, p, parts);
    return status;
}

template <typename W>
static cudaError_t launch_adafactor_of(const struct cuda_launch *to,
                                       const struct op_adafactor *op)
{
    const struct tensor tensors[] = { op->w, op->grad, op->copy };
    const settings s = {
        op->lr, 0, 0, 0, op->decay, op->grad_scale, op->step, op->numbers
    };
    const factored f = { (const float *)op->grad.data,
                         (float *)op->row.data,
                         (float *)op->col.data,
                         (float *)op->v.data,
                         op->w.rows,
                         op->w.cols };
    progress *p = (progress *)to->scratch;
    const adafactor<W> adafactor = {
        weights_of<W>(op->w, op->copy, { op->stochastic, op->seed, op->first }), f, p
    };
    cudaError_t status;

    if (f.rows * f.cols == 0)
        return cudaSuccess;
    status = launch(to->stream, begin_adafactor, dim3(1), dim3(1), 0, p, s);
    if (status == cudaSuccess)
        status = launch_moments(to, f, p);
    if (status != cudaSuccess)
        return status;
    return launch_step(to, adafactor, s, f.rows * f.cols, packs_are_even(tensors, 3));
}

/* The gradient is fp32. */
extern "C" cudaError_t launch_adafactor(const struct cuda_launch *to,
                                        const struct op_adafactor *op)
{
    if (op->grad.format != FORMAT_FP32)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->w.format, W, launch_adafactor_of<W>(to, op));
}
