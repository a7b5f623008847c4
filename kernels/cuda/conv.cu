/*
 * kernels/cuda/conv.cu - a causal convolution of each column alone, with SiLU or between two
 * gates, and its gradients.
 *
 * A thread has a column of a slice of the rows; neighbors read neighboring columns.  Bytes
 * moved per element, of b bytes in its format: forward 2 b, backward 3 b, with gates 4 b and
 * 7 b: the rows that a tap reads again are in the cache.
 */
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/column_sums.cuh"

enum { CONV_THREADS = 128, CONV_ROWS = 64 };

/* Return the sequence that has a row. */
__device__ static inline unsigned conv_sequence(const int32_t *offsets,
                                                unsigned sequences, size_t row)
{
    unsigned low = 0, high = sequences;

    while (high - low > 1) {
        unsigned middle = low + (high - low) / 2;

        if ((size_t)offsets[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* GATED: between two gates. */
template <typename T, bool GATED> struct conv_columns {
    view<T> out;
    view<const T> x, before, after;
    view<float> state;
    any_view weight, bias;
    const int32_t *offsets;
    unsigned sequences, taps;
    size_t rows, cols, slice;
    bool resumes;

    __device__ void load_taps(float to[CONV_TAPS_MAX], size_t col) const
    {
#pragma unroll
        for (unsigned j = 0; j < CONV_TAPS_MAX; j++)
            to[j] = j < taps ? weight.get(col, j) : 0;
    }

    __device__ float load_bias(size_t col) const
    {
        return bias.data ? bias.get(0, col) : 0;
    }

    /* The input `back` rows before row n of a sequence that begins with `first`. */
    __device__ float input(unsigned sequence, size_t first, size_t n, unsigned back,
                           size_t col) const
    {
        if (n >= first + back && GATED)
            return to_float(*before.at(n - back, col)) * to_float(*x.at(n - back, col));
        if (n >= first + back)
            return to_float(*x.at(n - back, col));
        if (!resumes)
            return 0;
        return *state.at((sequence + (size_t)1) * (taps - 1) + (n - first) - back, col);
    }

    /* `all`: the bias. */
    __device__ float sum(const float by[CONV_TAPS_MAX], float all, unsigned sequence,
                         size_t first, size_t n, size_t col) const
    {

#pragma unroll
        for (unsigned j = 0; j < CONV_TAPS_MAX; j++)
            if (j < taps)
                all += by[j] * input(sequence, first, n, taps - 1 - j, col);
        return all;
    }
};

template <typename T, bool GATED>
__global__ void __launch_bounds__(CONV_THREADS)
    conv_forward(struct conv_columns<T, GATED> f)
{
    size_t col = blockIdx.x * (size_t)CONV_THREADS + threadIdx.x;
    size_t n = blockIdx.y * f.slice, last = n + f.slice;
    unsigned sequence = conv_sequence(f.offsets, f.sequences, n);
    float by[CONV_TAPS_MAX], bias;

    if (col >= f.cols)
        return;
    f.load_taps(by, col);
    bias = f.load_bias(col);
    for (last = last < f.rows ? last : f.rows; n < last; n++) {
        float sum;

        while (n >= (size_t)f.offsets[sequence + 1])
            sequence++;
        sum = f.sum(by, bias, sequence, (size_t)f.offsets[sequence], n, col);
        *f.out.at(n, col) = from_float<T>(GATED ? to_float(*f.after.at(n, col)) * sum
                                                : activation_silu<float>(sum).value);
    }
}

/* The last rows of each sequence, in the order in which none is overwritten before it is
 * read. */
template <typename T, bool GATED>
__global__ void __launch_bounds__(CONV_THREADS) conv_keep(struct conv_columns<T, GATED> f)
{
    size_t col = blockIdx.x * (size_t)CONV_THREADS + threadIdx.x;
    unsigned s = blockIdx.y;

    if (col >= f.cols)
        return;
    for (unsigned i = 0; i + 1 < f.taps; i++)
        *f.state.at(s * (size_t)(f.taps - 1) + i, col) = f.input(
            s, (size_t)f.offsets[s], (size_t)f.offsets[s + 1], f.taps - 1 - i, col);
}

template <typename T, bool GATED>
static cudaError_t conv_typed(const struct cuda_launch *to, const struct op_conv *op)
{
    struct conv_columns<T, GATED> f = {
        view_of<T>(op->out), view_of<const T>(op->x), view_of<const T>(op->before),
            view_of<const T>(op->after), view_of<float>(op->state),
            any_view_of(op->weight), any_view_of(op->bias), op->offsets,
            (unsigned)op->sequences, (unsigned)op->weight.cols, op->x.rows, op->x.cols,
            CONV_ROWS, op->state.data && op->resumes
    };
    unsigned blocks = (unsigned)((f.cols + CONV_THREADS - 1) / CONV_THREADS);
    size_t slices = (f.rows + CONV_ROWS - 1) / CONV_ROWS;
    cudaError_t status = cudaSuccess;

    if (slices > 0)
        status = launch(to->stream, conv_forward<T, GATED>,
                        dim3(blocks, (unsigned)slices), dim3(CONV_THREADS), 0, f);
    if (status != cudaSuccess || !op->state.data || op->sequences == 0)
        return status;
    return launch(to->stream, conv_keep<T, GATED>, dim3(blocks, (unsigned)op->sequences),
                  dim3(CONV_THREADS), 0, f);
}

cudaError_t launch_conv(const struct cuda_launch *to, const struct op_conv *op)
{
    if (op->after.data)
        return BY_FORMAT(op->x.format, T, conv_typed<T, true>(to, op));
    return BY_FORMAT(op->x.format, T, conv_typed<T, false>(to, op));
}

template <typename T, bool GATED> struct conv_slopes {
    struct conv_columns<T, GATED> of;
    view<T> dx, dbefore, dafter;
    view<const T> dout;
    float *sums; /* (slices, cols * (taps + 1)), of the bias after the taps; or NULL */

    __device__ float sum(const float by[CONV_TAPS_MAX], float bias, unsigned sequence,
                         size_t n, size_t col) const
    {
        return of.sum(by, bias, sequence, (size_t)of.offsets[sequence], n, col);
    }

    /* The gradient of the sum of a row. */
    __device__ float slope(const float by[CONV_TAPS_MAX], float bias, unsigned sequence,
                           size_t n, size_t col) const
    {
        struct activated at;

        if (GATED)
            return to_float(*dout.at(n, col)) * to_float(*of.after.at(n, col));
        at = activation_silu<float>(sum(by, bias, sequence, n, col));
        return to_float(*dout.at(n, col)) * (at.slope * at.bend);
    }

    /* Store the gradients of what is multiplied to the input of a row, that is du. */
    __device__ void put(size_t n, size_t col, float du) const
    {
        if (!GATED) {
            *dx.at(n, col) = from_float<T>(du);
            return;
        }
        *dx.at(n, col) = from_float<T>(du * to_float(*of.before.at(n, col)));
        *dbefore.at(n, col) = from_float<T>(du * to_float(*of.x.at(n, col)));
    }
};

/* next[0] is of row n, next[1] of the row after it, and so on. */
__device__ static inline void conv_push(float next[CONV_TAPS_MAX], float slope)
{
#pragma unroll
    for (int j = CONV_TAPS_MAX - 1; j > 0; j--)
        next[j] = next[j - 1];
    next[0] = slope;
}

/* From the last row of a slice to the first: du of a row needs the slopes of the next
 * taps - 1 rows of its sequence. */
template <typename T, bool GATED>
__global__ void __launch_bounds__(CONV_THREADS)
    conv_backward(struct conv_slopes<T, GATED> b)
{
    size_t col = blockIdx.x * (size_t)CONV_THREADS + threadIdx.x;
    size_t first = blockIdx.y * b.of.slice, last = first + b.of.slice, after;
    float by[CONV_TAPS_MAX], next[CONV_TAPS_MAX] = {}, total[CONV_TAPS_MAX] = {};
    float bias, bias_total = 0;
    unsigned sequence, taps = b.of.taps;

    if (col >= b.of.cols)
        return;
    last = last < b.of.rows ? last : b.of.rows;
    sequence = conv_sequence(b.of.offsets, b.of.sequences, last - 1);
    b.of.load_taps(by, col);
    bias = b.of.load_bias(col);
    after = (size_t)b.of.offsets[sequence + 1];
    after = after < last + taps - 1 ? after : last + taps - 1;
    for (size_t n = after; n-- > last;)
        conv_push(next, b.slope(by, bias, sequence, n, col));
    for (size_t n = last; n-- > first;) {
        float du = 0;

        while (n < (size_t)b.of.offsets[sequence]) {
            sequence--;
#pragma unroll
            for (int j = 0; j < CONV_TAPS_MAX; j++)
                next[j] = 0;
        }
        conv_push(next, b.slope(by, bias, sequence, n, col));
        if (GATED)
            *b.dafter.at(n, col) = from_float<T>(to_float(*b.dout.at(n, col)) *
                                                 b.sum(by, bias, sequence, n, col));
        bias_total += next[0];
#pragma unroll
        for (unsigned j = 0; j < CONV_TAPS_MAX; j++)
            if (j < taps) {
                total[j] += next[0] * b.of.input(sequence, (size_t)b.of.offsets[sequence],
                                                 n, taps - 1 - j, col);
#pragma unroll
                for (unsigned i = 0; i < CONV_TAPS_MAX; i++)
                    if (i + j == taps - 1)
                        du += by[j] * next[i];
            }
        b.put(n, col, du);
    }
    if (!b.sums)
        return;
#pragma unroll
    for (unsigned j = 0; j < CONV_TAPS_MAX; j++)
        if (j < taps)
            b.sums[(blockIdx.y * b.of.cols + col) * (taps + 1) + j] = total[j];
    b.sums[(blockIdx.y * b.of.cols + col) * (taps + 1) + taps] = bias_total;
}

template <typename T, bool GATED>
static cudaError_t conv_backward_typed(const struct cuda_launch *to,
                                       const struct op_conv_backward *op,
                                       struct slices slices)
{
    struct conv_slopes<T, GATED> b = {
        { { NULL, 0 },
          view_of<const T>(op->x),
          view_of<const T>(op->before),
          view_of<const T>(op->after),
          { NULL, 0 },
          any_view_of(op->weight),
          any_view_of(op->bias),
          op->offsets,
          (unsigned)op->sequences,
          (unsigned)op->weight.cols,
          op->x.rows,
          op->x.cols,
          slices.rows,
          false },
            view_of<T>(op->dx), view_of<T>(op->dbefore), view_of<T>(op->dafter),
            view_of<const T>(op->dout),
            op->dweight.data || op->dbias.data ? (float *)to->scratch : NULL
    };
    unsigned blocks = (unsigned)((op->x.cols + CONV_THREADS - 1) / CONV_THREADS);

    return launch(to->stream, conv_backward<T, GATED>,
                  dim3(blocks, (unsigned)slices.count), dim3(CONV_THREADS), 0, b);
}

/* The gradients of the taps (cols, taps), and of the bias; NULL: it has none. */
struct conv_totals {
    view<float> taps;
    float *bias;
    unsigned count; /* of the taps */
    size_t cols;
};

/* += the sums of all slices */
static __global__ void __launch_bounds__(CONV_THREADS)
    conv_total(struct conv_totals out, const float *sums, size_t slices)
{
    size_t at = blockIdx.x * (size_t)CONV_THREADS + threadIdx.x, row = out.count + 1;
    size_t col = at / row, tap = at % row;
    float sum = 0;

    if (at >= out.cols * row)
        return;
    for (size_t i = 0; i < slices; i++)
        sum += sums[i * out.cols * row + at];
    if (tap == out.count && out.bias)
        out.bias[col] += sum;
    else if (tap < out.count && out.taps.data)
        *out.taps.at(col, tap) += sum;
}

static cudaError_t conv_sums(const struct cuda_launch *to,
                             const struct op_conv_backward *op, struct slices slices)
{
    if (op->after.data)
        return BY_FORMAT(op->x.format, T, conv_backward_typed<T, true>(to, op, slices));
    return BY_FORMAT(op->x.format, T, conv_backward_typed<T, false>(to, op, slices));
}

cudaError_t launch_conv_backward(const struct cuda_launch *to,
                                 const struct op_conv_backward *op)
{
    size_t taps = op->weight.cols, cols = op->x.cols, sums = cols * (taps + 1);
    struct slices slices = column_sums_slices(to, op->x.rows, sums, CONV_ROWS);
    struct conv_totals out = { view_of<float>(op->dweight), (float *)op->dbias.data,
                               (unsigned)taps, cols };
    cudaError_t status;

    if (slices.count == 0)
        return op->x.rows == 0 ? cudaSuccess : cudaErrorNotSupported;
    status = conv_sums(to, op, slices);
    if (status != cudaSuccess || !(op->dweight.data || op->dbias.data))
        return status;
    return launch(to->stream, conv_total,
                  dim3((unsigned)((sums + CONV_THREADS - 1) / CONV_THREADS)),
                  dim3(CONV_THREADS), 0, out, (const float *)to->scratch, slices.count);
}
