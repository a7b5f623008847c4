/*
 * kernels/cuda/headlayer.cu - LayerNorm of each head separately, and its gradients.
 *
 * Bytes moved per element, of b bytes in its format: forward 2 b, backward 3 b; statistics and
 * parameters are small.  A warp processes a head, whose further reads hit the cache of its
 * multiprocessor.
 */
#include "kernels/cuda/elementwise_kernel.cuh"
#include "kernels/cuda/column_sums.cuh"

enum {
    HEAD_THREADS = 256,
    HEAD_WARPS = HEAD_THREADS / WARP,
    HEAD_BLOCKS = 8,    /* per multiprocessor, forward */
    LANE_ELEMENTS = 16, /* of a head of HEAD_SIZE_MAX columns */
    SLICE_HEADS = 16,   /* at least */
};

/* The heads of a set share a weight: there is one set of all heads, or a set for each head of a
 * row.  Item i of a set is the head with this number, row by row. */
struct sets {
    unsigned count, heads, size;

    __device__ size_t number(size_t item, unsigned set) const
    {
        return item * count + set;
    }

    template <typename T> __device__ T *at(const view<T> &x, size_t number) const
    {
        return x.at(number / heads, number % heads * size);
    }

    __device__ float *stats(const view<float> &x, size_t number) const
    {
        return x.at(number / heads, number % heads * 2);
    }
};

static inline struct sets sets_of(struct tensor weight, size_t heads)
{
    return { (unsigned)weight.rows, (unsigned)heads, (unsigned)weight.cols };
}

/* The columns of a lane: `n` from each (p * WARP + lane) * n on. */
template <int n> __device__ static inline unsigned column(int p)
{
    return (p * WARP + threadIdx.x % WARP) * n;
}

/* x less its mean; 0 past the end of the head. */
template <int n, typename T>
__device__ static inline void load_far(float out[LANE_ELEMENTS], const T *x,
                                       unsigned size, float mean)
{
#pragma unroll
    for (int p = 0; p < LANE_ELEMENTS / n; p++) {
        float value[n] = {};

        if (column<n>(p) < size)
            load<n>(value, x + column<n>(p));
#pragma unroll
        for (int i = 0; i < n; i++)
            out[p * n + i] = column<n>(p) < size ? value[i] - mean : 0;
    }
}

template <typename T> struct headlayer_heads {
    view<T> out, x;
    view<float> stats;
    any_view weight, bias; /* the second may be absent */
    struct sets sets;
    size_t count;
    float eps;
};

template <int n, typename T>
__global__ void __launch_bounds__(HEAD_THREADS)
    headlayer_forward(const struct headlayer_heads<T> f)
{
    unsigned size = f.sets.size;
    size_t first = blockIdx.x * (size_t)HEAD_WARPS + threadIdx.x / WARP;

    for (size_t head = first; head < f.count; head += gridDim.x * (size_t)HEAD_WARPS) {
        const T *x = f.sets.at(f.x, head);
        T *out = f.sets.at(f.out, head);
        float *stats = f.sets.stats(f.stats, head);
        unsigned set = (unsigned)(head % f.sets.count);
        float far[LANE_ELEMENTS], sum = 0, squares = 0, mean, rstd;

        load_far<n>(far, x, size, 0);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            sum += far[i];
        mean = warp_sum(sum) / (float)size;
        load_far<n>(far, x, size, mean);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            squares += far[i] * far[i];
        rstd = 1 / sqrtf(warp_sum(squares) / (float)size + f.eps);
        if (threadIdx.x % WARP == 0) {
            stats[0] = mean;
            stats[1] = rstd;
        }
#pragma unroll
        for (int p = 0; p < LANE_ELEMENTS / n; p++) {
            float value[n];

            if (column<n>(p) >= size)
                continue;
#pragma unroll
            for (int i = 0; i < n; i++) {
                value[i] = far[p * n + i] * rstd * f.weight.get(set, column<n>(p) + i);
                if (f.bias.data)
                    value[i] += f.bias.get(set, column<n>(p) + i);
            }
            store<n>(out + column<n>(p), value);
        }
    }
}

template <int n, typename T>
static cudaError_t forward_typed(const struct cuda_launch *to,
                                 const struct op_headlayer *op)
{
    size_t count = op->x.rows * op->heads;
    struct headlayer_heads<T> f = {
        view_of<T>(op->out), view_of<T>(op->x), view_of<float>(op->stats),
            any_view_of(op->weight), any_view_of(op->bias),
            sets_of(op->weight, op->heads), count, op->eps
    };

    return launch(to->stream, headlayer_forward<n, T>,
                  blocks_for(to, (count + HEAD_WARPS - 1) / HEAD_WARPS, HEAD_BLOCKS),
                  dim3(HEAD_THREADS), 0, f);
}

/* Return how many elements a lane processes at once: as many as keep all lanes busy, if rows
 * and heads begin on multiples of them. */
static int vector_width(size_t size, struct tensor a, struct tensor b, struct tensor c)
{
    for (int n = 4; n > 1; n /= 2)
        if (size % n == 0 && size >= (size_t)n * WARP && elementwise_is_aligned(a, n) &&
            elementwise_is_aligned(b, n) && elementwise_is_aligned(c, n))
            return n;
    return 1;
}

cudaError_t launch_headlayer(const struct cuda_launch *to, const struct op_headlayer *op)
{
    if (op->weight.cols > (size_t)WARP * LANE_ELEMENTS)
        return cudaErrorNotSupported;
    switch (vector_width(op->weight.cols, op->x, op->out, op->x)) {
    case 4:
        return BY_FORMAT(op->x.format, T, forward_typed<4, T>(to, op));
    case 2:
        return BY_FORMAT(op->x.format, T, forward_typed<2, T>(to, op));
    default:
        return BY_FORMAT(op->x.format, T, forward_typed<1, T>(to, op));
    }
}

template <typename T> struct headlayer_slices {
    view<T> dx, dout, x;
    view<float> stats;
    any_view weight;
    struct sets sets;
    size_t items, each;             /* heads of a set, and of a slice */
    float *weight_sums, *bias_sums; /* (slices, sets * D); NULL: none */
};

/* Write the sums of the lanes of all warps, which are added in order. */
template <int n>
__device__ static inline void write_sums(float *to, const float total[LANE_ELEMENTS],
                                         float *room, unsigned size)
{
    unsigned warp = threadIdx.x / WARP;

    __syncthreads(); /* room may still be read */
#pragma unroll
    for (int p = 0; p < LANE_ELEMENTS / n; p++)
#pragma unroll
        for (int i = 0; i < n; i++)
            if (column<n>(p) < size)
                room[warp * size + column<n>(p) + i] = total[p * n + i];
    __syncthreads();
    for (unsigned col = threadIdx.x; col < size; col += HEAD_THREADS) {
        float sum = room[col];

        for (unsigned other = 1; other < HEAD_WARPS; other++)
            sum += room[other * size + col];
        to[col] = sum;
    }
}

/* A block has a slice of a set. */
template <int n, typename T>
__global__ void __launch_bounds__(HEAD_THREADS)
    headlayer_backward(const struct headlayer_slices<T> b)
{
    float *room = (float *)shared_memory(); /* [warps][D] */
    unsigned size = b.sets.size, set = blockIdx.y;
    size_t first = blockIdx.x * b.each, last = first + b.each;
    size_t at = (blockIdx.x * (size_t)b.sets.count + set) * size;
    float weights[LANE_ELEMENTS] = {}, biases[LANE_ELEMENTS] = {};

    last = last < b.items ? last : b.items;
    for (size_t item = first + threadIdx.x / WARP; item < last; item += HEAD_WARPS) {
        size_t head = b.sets.number(item, set);
        const T *dout = b.sets.at(b.dout, head);
        const float *stats = b.sets.stats(b.stats, head);
        float far[LANE_ELEMENTS], by[LANE_ELEMENTS], rstd = stats[1];
        float all = 0, along = 0, mean, slope;

        load_far<n>(far, b.sets.at(b.x, head), size, stats[0]);
        load_far<n>(by, dout, size, 0);
#pragma unroll
        for (int p = 0; p < LANE_ELEMENTS / n; p++)
#pragma unroll
            for (int i = 0; i < n; i++) {
                int k = p * n + i;

                weights[k] += by[k] * far[k] * rstd;
                biases[k] += by[k];
                if (column<n>(p) < size)
                    by[k] *= b.weight.get(set, column<n>(p) + i);
                all += by[k];
                along += by[k] * far[k];
            }
        mean = warp_sum(all) / (float)size;
        slope = warp_sum(along) * rstd * rstd / (float)size;
#pragma unroll
        for (int p = 0; p < LANE_ELEMENTS / n; p++) {
            float step[n];

#pragma unroll
            for (int i = 0; i < n; i++)
                step[i] = (by[p * n + i] - mean - far[p * n + i] * slope) * rstd;
            if (column<n>(p) < size)
                store<n>(b.sets.at(b.dx, head) + column<n>(p), step);
        }
    }
    if (b.weight_sums)
        write_sums<n>(b.weight_sums + at, weights, room, size);
    if (b.bias_sums)
        write_sums<n>(b.bias_sums + at, biases, room, size);
}

template <int n, typename T>
static cudaError_t backward_typed(const struct cuda_launch *to,
                                  const struct op_headlayer_backward *op,
                                  struct slices slices)
{
    const struct sets sets = sets_of(op->weight, op->heads);
    size_t cols = op->weight.rows * op->weight.cols;
    float *sums = (float *)to->scratch;
    struct headlayer_slices<T> b = {
        view_of<T>(op->dx), view_of<T>(op->dout), view_of<T>(op->x),
            view_of<float>(op->stats),
            any_view_of(op->weight), sets, op->x.rows * op->heads / sets.count,
            slices.rows, op->dweight.data ? sums : NULL,
            op->dbias.data ? sums + slices.count *cols : NULL,
    };

    return launch(to->stream, headlayer_backward<n, T>,
                  dim3((unsigned)slices.count, sets.count), dim3(HEAD_THREADS),
                  HEAD_WARPS * op->weight.cols * sizeof(float), b);
}

static cudaError_t backward_launch(const struct cuda_launch *to,
                                   const struct op_headlayer_backward *op,
                                   struct slices slices)
{
    switch (vector_width(op->weight.cols, op->x, op->dout, op->dx)) {
    case 4:
        return BY_FORMAT(op->x.format, T, backward_typed<4, T>(to, op, slices));
    case 2:
        return BY_FORMAT(op->x.format, T, backward_typed<2, T>(to, op, slices));
    default:
        return BY_FORMAT(op->x.format, T, backward_typed<1, T>(to, op, slices));
    }
}

static cudaError_t add_sums(const struct cuda_launch *to, struct tensor out,
                            const float *sums, struct slices slices)
{
    out.cols *= out.rows;
    out.rows = 1;
    return out.data ? column_sums_launch_at(to, out, sums, slices) : cudaSuccess;
}

cudaError_t launch_headlayer_backward(const struct cuda_launch *to,
                                      const struct op_headlayer_backward *op)
{
    size_t sets = op->weight.rows, cols = sets * op->weight.cols;
    struct slices slices =
        column_sums_slices(to, op->x.rows * op->heads / sets, 2 * cols, SLICE_HEADS);
    const float *sums = (const float *)to->scratch;
    cudaError_t status;

    if (op->x.rows == 0)
        return cudaSuccess;
    if (slices.count == 0 || op->weight.cols > (size_t)WARP * LANE_ELEMENTS)
        return cudaErrorNotSupported;
    status = backward_launch(to, op, slices);
    if (status == cudaSuccess)
        status = add_sums(to, op->dweight, sums, slices);
    if (status == cudaSuccess)
        status = add_sums(to, op->dbias, sums + slices.count * cols, slices);
    return status;
}
