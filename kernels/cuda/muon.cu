/*
 * kernels/cuda/muon.cu - Muon: the momentum, scaled to norm 1, and the update by the matrix
 * that the caller has orthogonalized.
 *
 * Bytes moved per weight, all in fp32 but x and a copy: begin 24 read and 6 written, end 6
 * read and 6 written.
 */
#include "kernels/cuda/optimizer_step.cuh"

#define NORM_EPSILON 1e-7

/* Sums of a pass are in at most PARTS blocks. */
enum { SUM_THREADS = 256, PARTS = 512 };
static const size_t MOST_PARTS = PARTS;

/* In the launcher's scratch: what the next kernel reads. */
struct progress {
    float scale;
    double parts[PARTS];
};

template <typename M> struct momentum {
    const float *grad;
    M *m;
    size_t count;
    float factor;
    double grad_scale;
    const struct step_scalars *numbers;

    __device__ bool made() const
    {
        return !numbers || numbers->finite;
    }

    __device__ float at(size_t i) const
    {
        float scale = (float)(grad_scale * (numbers ? numbers->factor : 1));

        return grad[i] * scale + to_float(m[i]) * factor;
    }
};

template <typename M>
static __global__ void find_momentum(const momentum<M> u, progress *p)
{
    double *room = (double *)shared_memory(), sum = 0;

    for (size_t i = (size_t)blockIdx.x * SUM_THREADS + threadIdx.x;
         u.made() && i < u.count; i += (size_t)gridDim.x * SUM_THREADS) {
        u.m[i] = from_float<M>(u.at(i));
        double x = (double)u.at(i); /* Nesterov's: of the new momentum */

        sum += x * x;
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        p->parts[blockIdx.x] = sum;
}

static __global__ void find_scale(progress *p, unsigned parts)
{
    double *room = (double *)shared_memory(), sum = 0;

    for (unsigned i = threadIdx.x; i < parts; i += SUM_THREADS)
        sum += p->parts[i];
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        p->scale = (float)(1 / (sqrt(sum) + NORM_EPSILON));
}

template <typename M, typename X>
static __global__ void put_scaled(const momentum<M> u, X *x, const progress *p)
{
    for (size_t i = (size_t)blockIdx.x * SUM_THREADS + threadIdx.x;
         u.made() && i < u.count; i += (size_t)gridDim.x * SUM_THREADS)
        x[i] = from_float<X>(u.at(i) * p->scale);
}

template <typename M, typename X>
static cudaError_t launch_begin_of(const struct cuda_launch *to,
                                   const struct op_muon_begin *op)
{
    const momentum<M> u = {
        (const float *)op->grad.data, (M *)op->m.data, op->x.rows * op->x.cols,
        (float)op->momentum,          op->grad_scale,  op->numbers
    };
    const dim3 threads(SUM_THREADS);
    size_t wanted = (u.count + SUM_THREADS - 1) / SUM_THREADS;
    unsigned parts = (unsigned)(wanted < MOST_PARTS ? wanted : MOST_PARTS);
    progress *p = (progress *)to->scratch;
    cudaError_t status;

    if (u.count == 0)
        return cudaSuccess;
    status = launch(to->stream, find_momentum<M>, dim3(parts), threads,
                    WARP * sizeof(double), u, p);
    if (status == cudaSuccess)
        status = launch(to->stream, find_scale, dim3(1), threads, WARP * sizeof(double),
                        p, parts);
    if (status == cudaSuccess)
        status = launch(to->stream, put_scaled<M, X>, blocks_for(to, wanted, STEP_BLOCKS),
                        threads, 0, u, (X *)op->x.data, p);
    return status;
}

extern "C" cudaError_t launch_muon_begin(const struct cuda_launch *to,
                                         const struct op_muon_begin *op)
{
    if (op->grad.format != FORMAT_FP32)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->m.format, M,
                     BY_FORMAT(op->x.format, X, launch_begin_of<M, X>(to, op)));
}

template <typename W, typename X> struct muon_end {
    weights<W> target;
    const X *x;
    float scale;

    template <int n> __device__ void update(size_t i, const rates &s) const
    {
        float w[n], u[n];

        load<n>(w, target.w + i);
        load<n>(u, x + i);
#pragma unroll
        for (int j = 0; j < n; j++)
            w[j] = w[j] * s.keep - s.lr * scale * u[j];
        target.template put<n>(i, w, s.step);
    }
};

template <typename W, typename X>
static cudaError_t launch_end_of(const struct cuda_launch *to,
                                 const struct op_muon_end *op)
{
    const struct tensor tensors[] = { op->w, op->x, op->copy };
    const settings s = { op->lr, 0, 0, 0, op->decay, 1, op->step, op->numbers };
    const muon_end<W, X> end = { weights_of<W>(op->w, op->copy,
                                               { op->stochastic, op->seed, op->first }),
                                 (const X *)op->x.data, (float)op->scale };

    return launch_step(to, end, s, op->w.rows * op->w.cols, packs_are_even(tensors, 3));
}

extern "C" cudaError_t launch_muon_end(const struct cuda_launch *to,
                                       const struct op_muon_end *op)
{
    return BY_FORMAT(op->w.format, W,
                     BY_FORMAT(op->x.format, X, launch_end_of<W, X>(to, op)));
}
