/*
 * kernels/cuda/media.cu - rows of sounds and images: set into the embeddings, averaged,
 * filtered, and unfolded for convolutions.
 *
 * Each element is written by one thread, which sums in order.  Bytes moved per element, of
 * b bytes in its format: place_rows 4 + b, 8 + b if it adds; its gradient 8 + b; pool_rows
 * (of x) b + b' / group, its gradient the same; unfold b of the output, as its input,
 * which is read `size` times, is in the cache.  3000 rows of 1280 in bf16, unfolded
 * by 3: 23 MB, 7 us at 3.3 TB/s.  filter_rows: b + b' of x, each element of which is read
 * by several threads of one multiprocessor, and the weights, which stay in the cache.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

enum { AT_ONCE = 2 };

template <typename T> struct place_cells {
    view<float> x;
    view<const T> rows;
    const int32_t *at;
    bool add;

    template <int n> struct input {
        int32_t at;
        float value[n];
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.at = at[row];
        if (in.at >= 0)
            ::load<n>(in.value, rows.at(row, col));
    }

    template <int n> __device__ void store(const input<n> &in, size_t, size_t col) const
    {
        float value[n] = {};

        if (in.at < 0)
            return;
        if (add)
            ::load<n>(value, x.at((size_t)in.at, col));
#pragma unroll
        for (int i = 0; i < n; i++)
            value[i] = add ? value[i] + in.value[i] : in.value[i];
        ::store<n>(x.at((size_t)in.at, col), value);
    }
};

template <typename T>
static cudaError_t place_typed(const struct cuda_launch *to,
                               const struct op_place_rows *op)
{
    place_cells<T> cells = { view_of<float>(op->x), view_of<const T>(op->rows), op->at,
                             op->add };

    if (elementwise_is_aligned(op->x, 4) && elementwise_is_aligned(op->rows, 4))
        return elementwise_launch<4, AT_ONCE>(to, cells, op->rows.rows, op->rows.cols);
    return elementwise_launch<1, AT_ONCE>(to, cells, op->rows.rows, op->rows.cols);
}

cudaError_t launch_place_rows(const struct cuda_launch *to,
                              const struct op_place_rows *op)
{
    return BY_FORMAT(op->rows.format, T, place_typed<T>(to, op));
}

template <typename T> struct place_backward_cells {
    view<float> dx;
    view<T> drows; /* data NULL: absent */
    const int32_t *at;
    bool add;

    template <int n> struct input {
        int32_t at;
        float value[n];
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.at = at[row];
        if (in.at >= 0)
            ::load<n>(in.value, dx.at((size_t)in.at, col));
        else
#pragma unroll
            for (int i = 0; i < n; i++)
                in.value[i] = 0;
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        const float zeros[n] = {};

        if (drows.data)
            ::store<n>(drows.at(row, col), in.value);
        if (in.at >= 0 && !add)
            ::store<n>(dx.at((size_t)in.at, col), zeros);
    }
};

template <typename T>
static cudaError_t place_backward_typed(const struct cuda_launch *to,
                                        const struct op_place_rows_backward *op)
{
    place_backward_cells<T> cells = { view_of<float>(op->dx), view_of<T>(op->drows),
                                      op->at, op->add };

    if (elementwise_is_aligned(op->dx, 4) && elementwise_is_aligned(op->drows, 4))
        return elementwise_launch<4, AT_ONCE>(to, cells, op->count, op->dx.cols);
    return elementwise_launch<1, AT_ONCE>(to, cells, op->count, op->dx.cols);
}

cudaError_t launch_place_rows_backward(const struct cuda_launch *to,
                                       const struct op_place_rows_backward *op)
{
    enum format format = op->drows.data ? op->drows.format : FORMAT_FP32;

    return BY_FORMAT(format, T, place_backward_typed<T>(to, op));
}

template <typename O, typename X> struct pool_cells {
    view<O> out;
    view<const X> x;
    uint32_t group;

    template <int n> struct input {
        float sum[n];
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        for (uint32_t i = 0; i < group; i++) {
            float value[n];

            ::load<n>(value, x.at(row * group + i, col));
#pragma unroll
            for (int k = 0; k < n; k++)
                in.sum[k] = i == 0 ? value[k] : in.sum[k] + value[k];
        }
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float mean[n];

#pragma unroll
        for (int k = 0; k < n; k++)
            mean[k] = in.sum[k] / (float)group;
        ::store<n>(out.at(row, col), mean);
    }
};

template <typename O, typename X>
static cudaError_t pool_typed(const struct cuda_launch *to, const struct op_pool_rows *op)
{
    pool_cells<O, X> cells = { view_of<O>(op->out), view_of<const X>(op->x),
                               (uint32_t)op->group };

    if (elementwise_is_aligned(op->out, 4) && elementwise_is_aligned(op->x, 4))
        return elementwise_launch<4, 1>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, 1>(to, cells, op->out.rows, op->out.cols);
}

cudaError_t launch_pool_rows(const struct cuda_launch *to, const struct op_pool_rows *op)
{
    return BY_FORMAT(op->out.format, O,
                     BY_FORMAT(op->x.format, X, pool_typed<O, X>(to, op)));
}

template <typename X, typename O> struct pool_backward_cells {
    view<X> dx;
    view<const O> dout;
    uint32_t group, rows; /* of dout */

    template <int n> struct input {
        float value[n];
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        uint32_t from = (uint32_t)row / group;

        if (from < rows)
            ::load<n>(in.value, dout.at(from, col));
        else
#pragma unroll
            for (int i = 0; i < n; i++)
                in.value[i] = 0;
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float share[n];

#pragma unroll
        for (int i = 0; i < n; i++)
            share[i] = in.value[i] / (float)group;
        ::store<n>(dx.at(row, col), share);
    }
};

template <typename X, typename O>
static cudaError_t pool_backward_typed(const struct cuda_launch *to,
                                       const struct op_pool_rows_backward *op)
{
    pool_backward_cells<X, O> cells = { view_of<X>(op->dx), view_of<const O>(op->dout),
                                        (uint32_t)op->group, (uint32_t)op->dout.rows };

    if (elementwise_is_aligned(op->dx, 4) && elementwise_is_aligned(op->dout, 4))
        return elementwise_launch<4, AT_ONCE>(to, cells, op->dx.rows, op->dx.cols);
    return elementwise_launch<1, AT_ONCE>(to, cells, op->dx.rows, op->dx.cols);
}

cudaError_t launch_pool_rows_backward(const struct cuda_launch *to,
                                      const struct op_pool_rows_backward *op)
{
    return BY_FORMAT(op->dx.format, X,
                     BY_FORMAT(op->dout.format, O, pool_backward_typed<X, O>(to, op)));
}

template <typename O, typename X> struct unfold_cells {
    view<O> out;
    view<const X> x;
    const int32_t *taps;
    uint32_t size;

    template <int n> struct input {
        float value[n];
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        uint32_t from = (uint32_t)col / size, k = (uint32_t)col % size;

#pragma unroll
        for (int i = 0; i < n; i++) {
            int32_t tap = taps[row * size + k];

            in.value[i] = tap < 0 ? 0 : to_float(*x.at((size_t)tap, from));
            if (++k == size) {
                k = 0;
                from++;
            }
        }
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        ::store<n>(out.at(row, col), in.value);
    }
};

template <typename O, typename X>
static cudaError_t unfold_typed(const struct cuda_launch *to, const struct op_unfold *op)
{
    unfold_cells<O, X> cells = { view_of<O>(op->out), view_of<const X>(op->x), op->taps,
                                 (uint32_t)op->size };

    if (elementwise_is_aligned(op->out, 4))
        return elementwise_launch<4, AT_ONCE>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, AT_ONCE>(to, cells, op->out.rows, op->out.cols);
}

cudaError_t launch_unfold(const struct cuda_launch *to, const struct op_unfold *op)
{
    return BY_FORMAT(op->out.format, O,
                     BY_FORMAT(op->x.format, X, unfold_typed<O, X>(to, op)));
}

template <typename X, typename O> struct unfold_backward_cells {
    view<X> dx;
    view<const O> dout;
    const int32_t *uses;
    uint32_t size, most;

    template <int n> struct input {
        float sum[n];
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
#pragma unroll
        for (int i = 0; i < n; i++)
            in.sum[i] = 0;
        for (uint32_t u = 0; u < most; u++) {
            int32_t use = uses[row * most + u];

            if (use < 0)
                continue;
#pragma unroll
            for (int i = 0; i < n; i++)
                in.sum[i] += to_float(*dout.at((uint32_t)use / size,
                                               (col + i) * size + (uint32_t)use % size));
        }
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        ::store<n>(dx.at(row, col), in.sum);
    }
};

template <typename X, typename O>
static cudaError_t unfold_backward_typed(const struct cuda_launch *to,
                                         const struct op_unfold_backward *op)
{
    unfold_backward_cells<X, O> cells = { view_of<X>(op->dx), view_of<const O>(op->dout),
                                          op->uses, (uint32_t)op->size,
                                          (uint32_t)op->most };

    return elementwise_launch<1, AT_ONCE>(to, cells, op->dx.rows, op->dx.cols);
}

cudaError_t launch_unfold_backward(const struct cuda_launch *to,
                                   const struct op_unfold_backward *op)
{
    return BY_FORMAT(op->dx.format, X,
                     BY_FORMAT(op->dout.format, O, unfold_backward_typed<X, O>(to, op)));
}

template <typename O, typename X> struct filter_cells {
    view<O> out;
    view<const X> x;
    view<const float> weight;
    const float *bias;
    const int32_t *taps;
    uint32_t size;

    template <int n> struct input {
        float sum[n];
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
#pragma unroll
        for (int i = 0; i < n; i++)
            in.sum[i] = 0;
        if (bias)
            ::load<n>(in.sum, bias + col);
        for (uint32_t k = 0; k < size; k++) {
            int32_t tap = taps[row * size + k];
            float by[n], value[n];

            if (tap < 0)
                continue;
            ::load<n>(by, weight.at(k, col));
            ::load<n>(value, x.at((size_t)tap, col));
#pragma unroll
            for (int i = 0; i < n; i++)
                in.sum[i] += by[i] * value[i];
        }
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        ::store<n>(out.at(row, col), in.sum);
    }
};

template <typename O, typename X>
static cudaError_t filter_typed(const struct cuda_launch *to,
                                const struct op_filter_rows *op)
{
    filter_cells<O, X> cells = { view_of<O>(op->out),
                                 view_of<const X>(op->x),
                                 view_of<const float>(op->weight),
                                 (const float *)op->bias.data,
                                 op->taps,
                                 (uint32_t)op->size };

    if (elementwise_is_aligned(op->out, 4) && elementwise_is_aligned(op->x, 4) &&
        elementwise_is_aligned(op->weight, 4) && elementwise_is_aligned(op->bias, 4))
        return elementwise_launch<4, 1>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, 1>(to, cells, op->out.rows, op->out.cols);
}

cudaError_t launch_filter_rows(const struct cuda_launch *to,
                               const struct op_filter_rows *op)
{
    return BY_FORMAT(op->out.format, O,
                     BY_FORMAT(op->x.format, X, filter_typed<O, X>(to, op)));
}
