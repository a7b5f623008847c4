/*
 * kernels/cuda/layernorm.cu - LayerNorm after the residual sum, and its gradients.
 *
 * Bytes moved per element, with a compute format of 2 bytes (of 4), are those of RMSNorm
 * (norm.cu): forward 14 (16), without delta 6 (8); backward 16 (20); the sums for dweight
 * and dbias 16 bytes for each of at most 512 slices and column, which stay in the L2
 * cache. (8192, 2048) in bf16 at 4.2 TB/s: forward 56 us, backward 64 us.
 *
 * A row of usual length is held in registers, so x is read once, and the variance is
 * computed from the distances to the known mean (row_norm.cuh).
 */
#include "kernels/cuda/row_norm.cuh"

struct layernorm_rows : forward_rows {
    float *mean;
    any_view bias;
    float offset;
};

/* 8 units per thread only if a warp holds a row. */
template <int per, typename D, typename T>
__global__ void __launch_bounds__(per > 4 ? FORWARD_THREADS : THREADS_MOST)
    layernorm_forward(struct layernorm_rows f)
{
    float *room = (float *)shared_memory();
    unsigned row_threads = per > 4 ? WARP : f.row_threads;
    unsigned groups = blockDim.x / row_threads, group = threadIdx.x / row_threads;
    unsigned begin = threadIdx.x % row_threads * UNIT, step = row_threads * UNIT;

    for (size_t first = blockIdx.x * (size_t)groups; first < f.rows;
         first += gridDim.x * (size_t)groups) {
        size_t row = first + group;
        unsigned cols = row < f.rows ? f.cols : 0;
        float sum[per][UNIT], total = 0, squares = 0, mean, rstd;

        f.in.read<per, D>(sum, row, begin, step, cols);
#pragma unroll
        for (int p = 0; p < per; p++)
            if (begin + p * step < cols)
#pragma unroll
                for (int i = 0; i < UNIT; i++)
                    total += sum[p][i];
        mean = row_sum(total, room, row_threads, 0) / (float)f.cols;
#pragma unroll
        for (int p = 0; p < per; p++)
            if (begin + p * step < cols)
#pragma unroll
                for (int i = 0; i < UNIT; i++) {
                    sum[p][i] -= mean;
                    squares += sum[p][i] * sum[p][i];
                }
        rstd = 1 / sqrtf(row_sum(squares, room, row_threads, 1) / (float)f.cols + f.eps);
        if (begin == 0 && row < f.rows) {
            f.mean[row] = mean;
            f.rstd[row] = rstd;
        }
#pragma unroll
        for (int p = 0; p < per; p++)
            if (begin + p * step < cols) {
                float weight[UNIT], bias[UNIT] = {};

                load_weight(weight, f.weight, begin + p * step);
                if (f.bias.data)
                    load_weight(bias, f.bias, begin + p * step);
#pragma unroll
                for (int i = 0; i < UNIT; i++)
                    sum[p][i] = sum[p][i] * rstd * (f.offset + weight[i]) + bias[i];
                store<UNIT>((T *)f.out + row * f.out_stride + begin + p * step, sum[p]);
            }
    }
}

struct layernorm_any {
    any_view x, delta, sum, out, weight, bias;
    float *mean, *rstd;
    size_t rows, cols;
    float eps, offset;

    __device__ float summed(size_t row, size_t col) const
    {
        return delta.data ? sum.get(row, col) : x.get(row, col);
    }
};

/* One block per row, for any length, format and alignment. */
static __global__ void __launch_bounds__(THREADS_MOST)
    layernorm_forward_any(struct layernorm_any f)
{
    float *room = (float *)shared_memory();

    for (size_t row = blockIdx.x; row < f.rows; row += gridDim.x) {
        float total = 0, squares = 0, mean, rstd;

        for (size_t col = threadIdx.x; col < f.cols; col += blockDim.x) {
            float sum = f.x.get(row, col);

            if (f.delta.data) {
                sum += f.delta.get(row, col);
                f.sum.set(row, col, sum);
            }
            total += sum;
        }
        mean = block_sum(total, room) / (float)f.cols;
        for (size_t col = threadIdx.x; col < f.cols; col += blockDim.x) {
            float far = f.summed(row, col) - mean;

            squares += far * far;
        }
        rstd = 1 / sqrtf(block_sum(squares, room) / (float)f.cols + f.eps);
        if (threadIdx.x == 0) {
            f.mean[row] = mean;
            f.rstd[row] = rstd;
        }
        for (size_t col = threadIdx.x; col < f.cols; col += blockDim.x) {
            float factor = f.offset + f.weight.get(0, col);
            float value = (f.summed(row, col) - mean) * rstd * factor;

            f.out.set(row, col, f.bias.data ? value + f.bias.get(0, col) : value);
        }
    }
}

/* Rows 0 and 1 of stats. */
static float *mean_of(struct tensor stats)
{
    return (float *)stats.data;
}

static float *rstd_of(struct tensor stats)
{
    return (float *)stats.data + stats.stride;
}

static struct layernorm_rows forward_of(const struct op_layernorm *op)
{
    struct layernorm_rows f = forward_rows_of<layernorm_rows>(op, rstd_of(op->stats));

    f.mean = mean_of(op->stats);
    f.bias = any_view_of(op->bias);
    f.offset = op->offset;
    return f;
}

template <typename D, typename T>
static cudaError_t forward_typed(const struct cuda_launch *to,
                                 const struct op_layernorm *op)
{
    return forward_by_cols(to, layernorm_forward<4, D, T>, layernorm_forward<8, D, T>,
                           forward_of(op));
}

static cudaError_t forward_any_launch(const struct cuda_launch *to,
                                      const struct op_layernorm *op)
{
    struct layernorm_any any = { any_view_of(op->x),
                                 any_view_of(op->delta),
                                 any_view_of(op->sum),
                                 any_view_of(op->out),
                                 any_view_of(op->weight),
                                 any_view_of(op->bias),
                                 mean_of(op->stats),
                                 rstd_of(op->stats),
                                 op->x.rows,
                                 op->x.cols,
                                 op->eps,
                                 op->offset };

    return launch(to->stream, layernorm_forward_any, blocks_for(to, any.rows, BLOCKS),
                  dim3(any_threads(any.cols)), WARP * sizeof(float), any);
}

cudaError_t launch_layernorm(const struct cuda_launch *to, const struct op_layernorm *op)
{
    enum format second = op->delta.data ? op->delta.format : op->out.format;

    if (op->x.rows == 0 || op->x.cols == 0)
        return cudaSuccess;
    if (!op->out.data)
        return launch_sum(to, op);
    if (forward_fits(op) && absent_or_fits(op->bias))
        return BY_FORMAT(second, D,
                         BY_FORMAT(op->out.format, T, forward_typed<D, T>(to, op)));
    return forward_any_launch(to, op);
}

/* Sums of the slices of rows for dweight and dbias: (slices, cols) each, or NULL. */
struct layernorm_sums {
    float *weight, *bias;
};

struct layernorm_slices : backward_rows {
    const float *mean;
    struct layernorm_sums sums;
    float offset;
};

/*
 * With g = dout * (offset + weight) and h = (x - mean) * rstd:
 * dx += rstd * (g - mean(g) - h * mean(g * h)).
 * A block has one slice of the rows; a thread adds up what its columns give to dweight
 * and dbias, and at the end the block's groups of threads are added in order.
 */
template <typename T>
__global__ void __launch_bounds__(THREADS_MOST)
    layernorm_backward(struct layernorm_slices b)
{
    enum { per = BACKWARD_UNITS };
    float *room = (float *)shared_memory(), *others = room + 2 * WARP;
    unsigned groups = blockDim.x / b.row_threads, group = threadIdx.x / b.row_threads;
    unsigned begin = threadIdx.x % b.row_threads * UNIT, step = b.row_threads * UNIT;
    size_t first = blockIdx.x * b.slice_rows, last = first + b.slice_rows;
    float by_weight[per][UNIT] = {}, by_bias[per][UNIT] = {};

    last = last < b.rows ? last : b.rows;
    for (; first < last; first += groups) {
        size_t row = first + group;
        unsigned cols = row < last ? b.cols : 0;
        float far[per][UNIT], sum = 0, products = 0, shift, slope, rstd = 0;
        pack<T, UNIT> dout[per];

        if (row < last)
            rstd = b.rstd[row];
#pragma unroll
        for (int p = 0; p < per; p++)
            if (begin + p * step < cols) {
                unsigned col = begin + p * step;

                load<UNIT>(far[p], b.x + row * b.x_stride + col);
                dout[p] = *(const pack<T, UNIT> *)((const T *)b.dout +
                                                   row * b.dout_stride + col);
            }
#pragma unroll
        for (int p = 0; p < per; p++)
            if (begin + p * step < cols) {
                float weight[UNIT], mean = b.mean[row];

                load_weight(weight, b.weight, begin + p * step);
#pragma unroll
                for (int i = 0; i < UNIT; i++) {
                    float g = to_float(dout[p].at[i]);

                    far[p][i] -= mean;
                    by_weight[p][i] += far[p][i] * rstd * g;
                    by_bias[p][i] += g;
                    sum += g * (b.offset + weight[i]);
                    products += g * (b.offset + weight[i]) * far[p][i];
                }
            }
        shift = row_sum(sum, room, b.row_threads, 0) / (float)b.cols;
        slope = row_sum(products, room, b.row_threads, 1) * rstd * rstd / (float)b.cols;
#pragma unroll
        for (int p = 0; p < per; p++)
            if (begin + p * step < cols) {
                unsigned col = begin + p * step;
                float weight[UNIT], dx[UNIT];

                load_weight(weight, b.weight, col);
                load<UNIT>(dx, b.dx + row * b.dx_stride + col);
#pragma unroll
                for (int i = 0; i < UNIT; i++)
                    dx[i] += (to_float(dout[p].at[i]) * (b.offset + weight[i]) - shift -
                              far[p][i] * slope) *
                             rstd;
                store<UNIT>(b.dx + row * b.dx_stride + col, dx);
                if (b.dcopy)
                    store<UNIT>((T *)b.dcopy + row * b.dcopy_stride + col, dx);
            }
    }
    if (b.sums.weight)
        groups_total<per>(b.sums.weight, by_weight, others, group, groups, begin, step,
                          b.cols);
    if (b.sums.bias)
        groups_total<per>(b.sums.bias, by_bias, others, group, groups, begin, step,
                          b.cols);
}

struct layernorm_slices_any {
    any_view dx, dcopy, dout, x, weight;
    const float *mean, *rstd;
    size_t rows, cols;
    struct layernorm_sums sums;
    struct slices slices;
    float offset;
};

/* The same for any operands: the sums of a column for dweight and dbias are accumulated
 * in the scratch. */
static __global__ void __launch_bounds__(THREADS_MOST)
    layernorm_backward_any(struct layernorm_slices_any b)
{
    float *room = (float *)shared_memory();
    size_t first = blockIdx.x * b.slices.rows, last = first + b.slices.rows;

    last = last < b.rows ? last : b.rows;
    for (size_t row = first; row < last; row++) {
        float sum = 0, products = 0, shift, slope, mean = b.mean[row], rstd = b.rstd[row];

        for (size_t col = threadIdx.x; col < b.cols; col += blockDim.x) {
            float g = b.dout.get(row, col) * (b.offset + b.weight.get(0, col));

            sum += g;
            products += g * (b.x.get(row, col) - mean);
        }
        shift = block_sum(sum, room) / (float)b.cols;
        slope = block_sum(products, room) * rstd * rstd / (float)b.cols;
        for (size_t col = threadIdx.x; col < b.cols; col += blockDim.x) {
            size_t at = blockIdx.x * b.cols + col;
            float dout = b.dout.get(row, col), far = b.x.get(row, col) - mean;
            float g = dout * (b.offset + b.weight.get(0, col));
            float dx = b.dx.get(row, col) + (g - shift - far * slope) * rstd;

            b.dx.set(row, col, dx);
            if (b.dcopy.data)
                b.dcopy.set(row, col, dx);
            if (b.sums.weight)
                b.sums.weight[at] =
                    (row > first ? b.sums.weight[at] : 0) + far * rstd * dout;
            if (b.sums.bias)
                b.sums.bias[at] = (row > first ? b.sums.bias[at] : 0) + dout;
        }
    }
}

static cudaError_t backward_any_launch(const struct cuda_launch *to,
                                       const struct op_layernorm_backward *op,
                                       struct layernorm_sums sums, struct slices slices)
{
    struct layernorm_slices_any any = { any_view_of(op->dx),
                                        any_view_of(op->dcopy),
                                        any_view_of(op->dout),
                                        any_view_of(op->x),
                                        any_view_of(op->weight),
                                        mean_of(op->stats),
                                        rstd_of(op->stats),
                                        op->x.rows,
                                        op->x.cols,
                                        sums,
                                        slices,
                                        op->offset };

    return launch(to->stream, layernorm_backward_any, dim3((unsigned)slices.count),
                  dim3(any_threads(any.cols)), WARP * sizeof(float), any);
}

template <typename T>
static cudaError_t backward_typed(const struct cuda_launch *to,
                                  const struct op_layernorm_backward *op,
                                  struct layernorm_sums sums, struct slices slices)
{
    struct layernorm_slices b =
        backward_rows_of<layernorm_slices>(op, rstd_of(op->stats), slices);

    b.mean = mean_of(op->stats);
    b.sums = sums;
    b.offset = op->offset;
    return backward_launch(to, layernorm_backward<T>, b, slices.count);
}

cudaError_t launch_layernorm_backward(const struct cuda_launch *to,
                                      const struct op_layernorm_backward *op)
{
    float *scratch = (float *)to->scratch;
    struct layernorm_sums sums;
    struct slices slices;
    cudaError_t status;

    if (op->x.rows == 0 || op->x.cols == 0)
        return cudaSuccess;
    slices = column_sums_slices(to, op->x.rows, 2 * op->x.cols, SLICE_ROWS);
    if (slices.count == 0)
        return cudaErrorNotSupported;
    sums.weight = op->dweight.data ? scratch : NULL;
    sums.bias = op->dbias.data ? scratch + slices.count * op->x.cols : NULL;
    status = backward_fits(op)
                 ? BY_FORMAT(op->dout.format, T, backward_typed<T>(to, op, sums, slices))
                 : backward_any_launch(to, op, sums, slices);
    if (status == cudaSuccess && sums.weight)
        status = column_sums_launch_at(to, op->dweight, sums.weight, slices);
    if (status == cudaSuccess && sums.bias)
        status = column_sums_launch_at(to, op->dbias, sums.bias, slices);
    return status;
}
