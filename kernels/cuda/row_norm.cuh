/*
 * kernels/cuda/row_norm.cuh - code shared by row norms: how threads hold a row, the
 * residual sum that is computed while it is read, sums over it, and the launchers.
 *
 * A row is held in registers: `per` units of 4 elements per thread, the threads of a row
 * adjacent, several rows per block if rows are short. Longer rows, and any alignment and
 * mix of formats, use kernels that look formats up and read a row several times, one
 * block per row.
 */
#ifndef KERNELS_CUDA_ROWS_CUH
#define KERNELS_CUDA_ROWS_CUH

#include "kernels/cuda/elementwise_kernel.cuh"
#include "kernels/cuda/column_sums.cuh"

enum {
    UNIT = 4, /* elements */
    THREADS_MOST = 1024,
    BLOCKS = 8,            /* per multiprocessor, forward */
    FORWARD_THREADS = 256, /* of a block, if rows are short */
    BACKWARD_THREADS = 512,
    BACKWARD_UNITS = 2, /* held by a thread */
    SLICE_ROWS = 4,     /* at least */
};

/* Return the sum over the threads of a row to each of them. `room` is 2 * 32 values,
 * whose two parts successive calls use alternately: `turn` counts the calls. */
__device__ static inline float row_sum(float x, float *room, unsigned row_threads,
                                       int turn)
{
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP,
             warps = row_threads / WARP;

    x = warp_sum(x);
    if (warps == 1)
        return x;
    room += turn % 2 * WARP;
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? room[warp / warps * warps + lane] : 0);
}

/* Load a unit of weights from column `col` on, in a format that is the same for all
 * threads. */
__device__ static inline void load_weight(float out[UNIT], any_view weight, unsigned col)
{
    if (weight.format == FORMAT_FP32)
        load<UNIT>(out, (const float *)weight.data + col);
    else if (weight.format == FORMAT_FP16)
        load<UNIT>(out, (const fp16 *)weight.data + col);
    else
        load<UNIT>(out, (const bf16 *)weight.data + col);
}

/* x, or x + delta if there is a delta. */
struct summed_rows {
    const float *x;
    const void *delta; /* of format D, or NULL */
    float *sum;
    size_t x_stride, delta_stride, sum_stride;

    /* Read the units of a row from column `begin` on, every `step` columns, up to `cols`;
     * write the sum on the way. */
    template <int per, typename D>
    __device__ void read(float out[per][UNIT], size_t row, unsigned begin, unsigned step,
                         unsigned cols) const
    {
#pragma unroll
        for (int p = 0; p < per; p++)
            if (begin + p * step < cols)
                load<UNIT>(out[p], x + row * x_stride + begin + p * step);
        if (delta) {
            pack<D, UNIT> more[per];

#pragma unroll
            for (int p = 0; p < per; p++)
                if (begin + p * step < cols)
                    more[p] =
                        *(const pack<D, UNIT> *)((const D *)delta + row * delta_stride +
                                                 begin + p * step);
#pragma unroll
            for (int p = 0; p < per; p++)
                if (begin + p * step < cols) {
#pragma unroll
                    for (int i = 0; i < UNIT; i++)
                        out[p][i] += to_float(more[p].at[i]);
                    store<UNIT>(sum + row * sum_stride + begin + p * step, out[p]);
                }
        }
    }
};

static inline struct summed_rows summed_rows_of(struct tensor x, struct tensor delta,
                                                struct tensor sum)
{
    return { (const float *)x.data, delta.data, (float *)sum.data, x.stride,
             delta.stride,          sum.stride };
}

/* Add the column sums of the block's groups of threads, in order, and store them in
 * row blockIdx.x of `sums`. `others` is shared memory for a row, if there are
 * several groups. */
template <int per>
__device__ static inline void groups_total(float *sums, float total[per][UNIT],
                                           float *others, unsigned group, unsigned groups,
                                           unsigned begin, unsigned step, unsigned cols)
{
    for (unsigned other = 1; other < groups; other++) {
        __syncthreads();
#pragma unroll
        for (int p = 0; p < per; p++)
            if (group == other && begin + p * step < cols)
                store<UNIT>(others + begin + p * step, total[p]);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < per; p++)
            if (group == 0 && begin + p * step < cols)
#pragma unroll
                for (int i = 0; i < UNIT; i++)
                    total[p][i] += others[begin + p * step + i];
    }
#pragma unroll
    for (int p = 0; p < per; p++)
        if (group == 0 && begin + p * step < cols)
            store<UNIT>(sums + (size_t)blockIdx.x * cols + begin + p * step, total[p]);
}

/* Return the threads for a row of `units` units if one thread holds `per`:
 * whole warps. */
static inline unsigned row_threads_of(size_t units, int per)
{
    return (unsigned)((units + per * WARP - 1) / (per * WARP)) * WARP;
}

/* Return how many of `rows` rows a block of about `threads` holds at once. */
static inline unsigned row_groups_of(unsigned row_threads, unsigned threads, size_t rows)
{
    unsigned most = row_threads < threads ? threads / row_threads : 1;

    return most < rows ? most : (unsigned)rows;
}

/* Return the threads of a block that processes one row after another. */
static inline unsigned any_threads(size_t cols)
{
    size_t most = THREADS_MOST;

    return row_threads_of(cols < most ? cols : most, 1);
}

static inline bool units_fit(struct tensor x)
{
    return x.cols % UNIT == 0 && elementwise_is_aligned(x, UNIT);
}

/* An absent tensor fits. */
static inline bool absent_or_fits(struct tensor x)
{
    return !x.data || units_fit(x);
}

/* ---- Launching: op_rmsnorm and op_layernorm, their forward and backward passes ---- */

/* The operands that the forward kernels of both norms have. */
struct forward_rows {
    struct summed_rows in;
    void *out;
    float *rstd;
    any_view weight;
    size_t out_stride;
    size_t rows;
    unsigned cols, row_threads;
    float eps;
};

template <typename R, typename O> static R forward_rows_of(const O *op, float *rstd)
{
    R f = {};

    f.in = summed_rows_of(op->x, op->delta, op->sum);
    f.out = op->out.data;
    f.rstd = rstd;
    f.weight = any_view_of(op->weight);
    f.out_stride = op->out.stride;
    f.rows = op->x.rows;
    f.cols = op->x.cols;
    f.eps = op->eps;
    return f;
}

/* Return whether the kernels that hold a row in registers can run op. */
template <typename O> static bool forward_fits(const O *op)
{
    return op->x.cols <= (size_t)4 * THREADS_MOST * UNIT && units_fit(op->x) &&
           units_fit(op->out) && units_fit(op->weight) &&
           (!op->delta.data || (units_fit(op->delta) && units_fit(op->sum)));
}

template <typename R>
static cudaError_t forward_launch(const struct cuda_launch *to, void (*kernel)(R),
                                  int per, R f)
{
    unsigned groups;

    f.row_threads = row_threads_of(f.cols / UNIT, per);
    groups = row_groups_of(f.row_threads, FORWARD_THREADS, f.rows);
    return launch(to->stream, kernel,
                  blocks_for(to, (f.rows + groups - 1) / groups, BLOCKS),
                  dim3(groups * f.row_threads), 2 * WARP * sizeof(float), f);
}

/* `four`, `eight`: the kernels with so many units a thread. */
template <typename R>
static cudaError_t forward_by_cols(const struct cuda_launch *to, void (*four)(R),
                                   void (*eight)(R), const R &f)
{
    size_t units = f.cols / UNIT;

    if (units > 4 * WARP && units <= 8 * WARP)
        return forward_launch(to, eight, 8, f);
    return forward_launch(to, four, 4, f);
}

/* Without out there is only the residual sum to compute. */
template <typename O>
static cudaError_t launch_sum(const struct cuda_launch *to, const O *op)
{
    struct op_add add = { op->sum, op->x, op->delta };

    return op->delta.data ? launch_add(to, &add) : cudaSuccess;
}

/* The operands that the backward kernels of both norms have. */
struct backward_rows {
    const float *x;
    const void *dout;
    float *dx;
    void *dcopy;
    const float *rstd;
    any_view weight;
    size_t x_stride, dout_stride, dx_stride, dcopy_stride;
    size_t rows, slice_rows;
    unsigned cols, row_threads;
};

template <typename R, typename O>
static R backward_rows_of(const O *op, const float *rstd, struct slices slices)
{
    R b = {};

    b.x = (const float *)op->x.data;
    b.dout = op->dout.data;
    b.dx = (float *)op->dx.data;
    b.dcopy = op->dcopy.data;
    b.rstd = rstd;
    b.weight = any_view_of(op->weight);
    b.x_stride = op->x.stride;
    b.dout_stride = op->dout.stride;
    b.dx_stride = op->dx.stride;
    b.dcopy_stride = op->dcopy.stride;
    b.rows = op->x.rows;
    b.cols = op->x.cols;
    b.slice_rows = slices.rows;
    return b;
}

template <typename O> static bool backward_fits(const O *op)
{
    return op->x.cols <= (size_t)BACKWARD_UNITS * THREADS_MOST * UNIT &&
           units_fit(op->x) && units_fit(op->dx) && units_fit(op->dout) &&
           units_fit(op->weight) &&
           (!op->dcopy.data ||
            (op->dcopy.format == op->dout.format && units_fit(op->dcopy)));
}

template <typename R>
static cudaError_t backward_launch(const struct cuda_launch *to, void (*kernel)(R), R b,
                                   size_t slices)
{
    unsigned groups;

    b.row_threads = row_threads_of(b.cols / UNIT, BACKWARD_UNITS);
    groups = row_groups_of(b.row_threads, BACKWARD_THREADS, b.slice_rows);
    return launch(to->stream, kernel, dim3((unsigned)slices),
                  dim3(groups * b.row_threads),
                  (2 * WARP + (groups > 1 ? b.cols : 0)) * sizeof(float), b);
}

#endif
