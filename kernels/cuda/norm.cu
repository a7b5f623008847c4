/*
 * kernels/cuda/norm.cu - RMSNorm after the residual sum, and its gradients.
 *
 * Bytes moved per element, with a compute format of 2 bytes (of 4):
 *   forward   x 4, delta 4, sum 4, out 2 (4): 14 (16); without delta 6 (8)
 *   backward  dout 2 (4), x 4, dx 4 + 4, dcopy 2 (4): 16 (20); the sums for dweight add 8
 *             bytes for each of at most 512 slices and column, which stay in the L2 cache
 * weight, rstd and data that rows share come from caches.  (8192, 2048) in bf16 at 4.2
 * TB/s: forward 56 us, backward 64 us.
 *
 * A row of usual length is held in registers, so x is read once (row_norm.cuh).
 */
#include "kernels/cuda/row_norm.cuh"

struct norm_rows : forward_rows {
    float offset;
};

/* 8 units per thread only if a warp holds a row. */
template <int per, typename D, typename T>
__global__ void __launch_bounds__(per > 4 ? FORWARD_THREADS : THREADS_MOST)
    norm_forward(struct norm_rows f)
{
    float *room = (float *)shared_memory();
    unsigned row_threads = per > 4 ? WARP : f.row_threads;
    unsigned groups = blockDim.x / row_threads, group = threadIdx.x / row_threads;
    unsigned begin = threadIdx.x % row_threads * UNIT, step = row_threads * UNIT;
    int turn = 0;

    for (size_t first = blockIdx.x * (size_t)groups; first < f.rows;
         first += gridDim.x * (size_t)groups, turn++) {
        size_t row = first + group;
        unsigned cols = row < f.rows ? f.cols : 0;
        float sum[per][UNIT], squares = 0, rstd;

        f.in.read<per, D>(sum, row, begin, step, cols);
#pragma unroll
        for (int p = 0; p < per; p++)
            if (begin + p * step < cols)
#pragma unroll
                for (int i = 0; i < UNIT; i++)
                    squares += sum[p][i] * sum[p][i];
        rstd =
            1 / sqrtf(row_sum(squares, room, row_threads, turn) / (float)f.cols + f.eps);
        if (begin == 0 && row < f.rows)
            f.rstd[row] = rstd;
#pragma unroll
        for (int p = 0; p < per; p++)
            if (begin + p * step < cols) {
                float weight[UNIT];

                load_weight(weight, f.weight, begin + p * step);
#pragma unroll
                for (int i = 0; i < UNIT; i++)
                    sum[p][i] = sum[p][i] * rstd * (f.offset + weight[i]);
                store<UNIT>((T *)f.out + row * f.out_stride + begin + p * step, sum[p]);
            }
    }
}

struct norm_any {
    any_view x, delta, sum, out, weight;
    float *rstd;
    size_t rows, cols;
    float eps, offset;
};

/* One block per row, for any length, format and alignment. */
static __global__ void __launch_bounds__(THREADS_MOST) norm_forward_any(struct norm_any f)
{
    float *room = (float *)shared_memory();

    for (size_t row = blockIdx.x; row < f.rows; row += gridDim.x) {
        float squares = 0, rstd;

        for (size_t col = threadIdx.x; col < f.cols; col += blockDim.x) {
            float sum = f.x.get(row, col);

            if (f.delta.data) {
                sum += f.delta.get(row, col);
                f.sum.set(row, col, sum);
            }
            squares += sum * sum;
        }
        rstd = 1 / sqrtf(block_sum(squares, room) / (float)f.cols + f.eps);
        if (threadIdx.x == 0)
            f.rstd[row] = rstd;
        for (size_t col = threadIdx.x; col < f.cols; col += blockDim.x) {
            float sum = f.delta.data ? f.sum.get(row, col) : f.x.get(row, col);

            f.out.set(row, col, sum * rstd * (f.offset + f.weight.get(0, col)));
        }
    }
}

static struct norm_rows forward_of(const struct op_rmsnorm *op)
{
    struct norm_rows f = forward_rows_of<norm_rows>(op, (float *)op->rstd.data);

    f.offset = op->offset;
    return f;
}

template <typename D, typename T>
static cudaError_t forward_typed(const struct cuda_launch *to,
                                 const struct op_rmsnorm *op)
{
    return forward_by_cols(to, norm_forward<4, D, T>, norm_forward<8, D, T>,
                           forward_of(op));
}

cudaError_t launch_rmsnorm(const struct cuda_launch *to, const struct op_rmsnorm *op)
{
    enum format second = op->delta.data ? op->delta.format : op->out.format;

    if (op->x.rows == 0 || op->x.cols == 0)
        return cudaSuccess;
    if (!op->out.data)
        return launch_sum(to, op);
    if (forward_fits(op))
        return BY_FORMAT(second, D,
                         BY_FORMAT(op->out.format, T, forward_typed<D, T>(to, op)));
    struct norm_any any = { any_view_of(op->x),
                            any_view_of(op->delta),
                            any_view_of(op->sum),
                            any_view_of(op->out),
                            any_view_of(op->weight),
                            (float *)op->rstd.data,
                            op->x.rows,
                            op->x.cols,
                            op->eps,
                            op->offset };
    return launch(to->stream, norm_forward_any, blocks_for(to, any.rows, BLOCKS),
                  dim3(any_threads(any.cols)), WARP * sizeof(float), any);
}

struct norm_slices : backward_rows {
    float offset;
    float *sums; /* (slices, cols), or NULL */
};

/*
 * With g = dout * (offset + weight) and h = x * rstd: dx += rstd * (g - h * mean(g * h)).
 * A block has one slice of the rows; a thread adds up what its columns give to dweight,
 * and at the end the block's groups of threads are added in order.
 */
template <typename T>
__global__ void __launch_bounds__(THREADS_MOST) norm_backward(struct norm_slices b)
{
    enum { per = BACKWARD_UNITS };
    float *room = (float *)shared_memory(), *others = room + 2 * WARP;
    unsigned groups = blockDim.x / b.row_threads, group = threadIdx.x / b.row_threads;
    unsigned begin = threadIdx.x % b.row_threads * UNIT, step = b.row_threads * UNIT;
    size_t first = blockIdx.x * b.slice_rows, last = first + b.slice_rows;
    float total[per][UNIT] = {};
    int turn = 0;

    last = last < b.rows ? last : b.rows;
    for (; first < last; first += groups, turn++) {
        size_t row = first + group;
        unsigned cols = row < last ? b.cols : 0;
        float x[per][UNIT], dx[per][UNIT], products = 0, slope, rstd = 0;
        pack<T, UNIT> dout[per];

        if (row < last)
            rstd = b.rstd[row];
#pragma unroll
        for (int p = 0; p < per; p++)
            if (begin + p * step < cols) {
                unsigned col = begin + p * step;

                load<UNIT>(x[p], b.x + row * b.x_stride + col);
                dout[p] = *(const pack<T, UNIT> *)((const T *)b.dout +
                                                   row * b.dout_stride + col);
                load<UNIT>(dx[p], b.dx + row * b.dx_stride + col);
            }
#pragma unroll
        for (int p = 0; p < per; p++)
            if (begin + p * step < cols) {
                float weight[UNIT];

                load_weight(weight, b.weight, begin + p * step);
#pragma unroll
                for (int i = 0; i < UNIT; i++)
                    products +=
                        to_float(dout[p].at[i]) * (b.offset + weight[i]) * x[p][i];
            }
        slope =
            row_sum(products, room, b.row_threads, turn) * rstd * rstd / (float)b.cols;
#pragma unroll
        for (int p = 0; p < per; p++)
            if (begin + p * step < cols) {
                unsigned col = begin + p * step;
                float weight[UNIT];

                load_weight(weight, b.weight, col);
#pragma unroll
                for (int i = 0; i < UNIT; i++) {
                    float g = to_float(dout[p].at[i]);

                    total[p][i] += x[p][i] * rstd * g;
                    dx[p][i] += (g * (b.offset + weight[i]) - x[p][i] * slope) * rstd;
                }
                store<UNIT>(b.dx + row * b.dx_stride + col, dx[p]);
                if (b.dcopy)
                    store<UNIT>((T *)b.dcopy + row * b.dcopy_stride + col, dx[p]);
            }
    }
    if (b.sums)
        groups_total<per>(b.sums, total, others, group, groups, begin, step, b.cols);
}

struct norm_slices_any {
    any_view dx, dcopy, dout, x, weight;
    const float *rstd;
    size_t rows, cols;
    float offset;
    float *sums;
    struct slices slices;
};

/* The same for any operands: the sums of a column for dweight are accumulated in the
 * scratch. */
static __global__ void __launch_bounds__(THREADS_MOST)
    norm_backward_any(struct norm_slices_any b)
{
    float *room = (float *)shared_memory();
    size_t first = blockIdx.x * b.slices.rows, last = first + b.slices.rows;

    last = last < b.rows ? last : b.rows;
    for (size_t row = first; row < last; row++) {
        float products = 0, slope, rstd = b.rstd[row];

        for (size_t col = threadIdx.x; col < b.cols; col += blockDim.x)
            products += b.dout.get(row, col) * (b.offset + b.weight.get(0, col)) *
                        b.x.get(row, col);
        slope = block_sum(products, room) * rstd * rstd / (float)b.cols;
        for (size_t col = threadIdx.x; col < b.cols; col += blockDim.x) {
            float g = b.dout.get(row, col), x = b.x.get(row, col);
            float factor = b.offset + b.weight.get(0, col);
            float dx = b.dx.get(row, col) + (g * factor - x * slope) * rstd;

            b.dx.set(row, col, dx);
            if (b.dcopy.data)
                b.dcopy.set(row, col, dx);
            if (b.sums) {
                float *sum = b.sums + blockIdx.x * b.cols + col;

                *sum = (row > first ? *sum : 0) + x * rstd * g;
            }
        }
    }
}

static cudaError_t backward_any_launch(const struct cuda_launch *to,
                                       const struct op_rmsnorm_backward *op, float *sums,
                                       struct slices slices)
{
    struct norm_slices_any any = { any_view_of(op->dx),
                                   any_view_of(op->dcopy),
                                   any_view_of(op->dout),
                                   any_view_of(op->x),
                                   any_view_of(op->weight),
                                   (const float *)op->rstd.data,
                                   op->x.rows,
                                   op->x.cols,
                                   op->offset,
                                   sums,
                                   slices };

    return launch(to->stream, norm_backward_any, dim3((unsigned)slices.count),
                  dim3(any_threads(any.cols)), WARP * sizeof(float), any);
}

template <typename T>
static cudaError_t backward_typed(const struct cuda_launch *to,
                                  const struct op_rmsnorm_backward *op, float *sums,
                                  struct slices slices)
{
    struct norm_slices b =
        backward_rows_of<norm_slices>(op, (const float *)op->rstd.data, slices);

    b.offset = op->offset;
    b.sums = sums;
    return backward_launch(to, norm_backward<T>, b, slices.count);
}

cudaError_t launch_rmsnorm_backward(const struct cuda_launch *to,
                                    const struct op_rmsnorm_backward *op)
{
    float *sums = op->dweight.data ? (float *)to->scratch : NULL;
    struct slices slices;
    cudaError_t status;

    if (op->x.rows == 0 || op->x.cols == 0)
        return cudaSuccess;
    slices = column_sums_slices(to, op->x.rows, op->x.cols, SLICE_ROWS);
    if (slices.count == 0)
        return cudaErrorNotSupported;
    if (backward_fits(op))
        status = BY_FORMAT(op->dout.format, T, backward_typed<T>(to, op, sums, slices));
    else
        status = backward_any_launch(to, op, sums, slices);
    return status != cudaSuccess || !sums ? status
                                          : column_sums_launch(to, op->dweight, slices);
}
