/*
 * kernels/cuda/loss.cu - the parts of op_classifier that are not matmuls: finding the
 * rows with a target, gathering their rows of x, losses and gradients of logits, and
 * scattering dx back to its rows.
 *
 * The preceding matmul writes a logit once, 4 bytes; here it is read twice and its
 * gradient written once, 2 bytes in a 16-bit format: 10 bytes per logit, and two
 * exponentials. The second pass starts where the first one ended, so that what the caches
 * still hold of the current rows (a row of 128256 logits is half a MB, each
 * multiprocessor processes one or two) is not read from memory again: 6 bytes per logit
 * are the floor, 10 the ceiling. For N = 8192 rows: 6.3 to 10.5 GB, 1.6 to 2.6 ms at 4.0
 * TB/s, compared with 16 ms for the matmuls. order reads 4 bytes per row twice, in one
 * block; gather and scatter move 2 rows of x each.
 */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_launch.h"

#include <float.h>

enum { ORDER_THREADS = 1024, COPY_THREADS = 128 };
/* Number of tokens from which a row justifies a large block. */
enum { LARGE_ROW = 8192, LARGE_BLOCK = 1024, SMALL_BLOCK = 128 };
enum { GROUP = 4, PACKS = 2 };

#define LOG2_E 1.44269504f

/*
 * One block: each warp has consecutive rows, counts those with a target, sums the counts
 * of the warps before it, and writes their indices.
 */
static __global__ void order_rows(int32_t *rows, const int32_t *targets, int count)
{
    int32_t *found = (int32_t *)shared_memory(); /* by each warp */
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    int span = (count + blockDim.x - 1) / blockDim.x * WARP;
    int first = warp * span, last = min(first + span, count);
    int mine = 0, all = 0, at = 0;

#pragma unroll 4
    for (int i = first + lane; i < last; i += WARP)
        mine += targets[i] >= 0;
#pragma unroll
    for (int i = WARP / 2; i > 0; i /= 2)
        mine += __shfl_xor_sync(FULL_WARP_MASK, mine, i);
    if (lane == 0)
        found[warp] = mine;
    __syncthreads();
    for (int i = 0; i < warps; i++) {
        at += i < warp ? found[i] : 0;
        all += found[i];
    }
#pragma unroll 4
    for (int base = first; base < last; base += WARP) {
        int i = base + lane;
        bool there = i < last && targets[i] >= 0;
        unsigned mask = __ballot_sync(FULL_WARP_MASK, there);

        if (there)
            rows[at + __popc(mask & ((1u << lane) - 1))] = i;
        at += __popc(mask);
    }
    for (int i = all + threadIdx.x; i < count; i += blockDim.x)
        rows[i] = -1;
}

/* Copies rows of `units` U from one matrix to another; strides in U. */
template <typename U> struct row_copy {
    U *to;
    const U *from;
    size_t to_stride, from_stride, units;
};

template <typename U>
__device__ static void copy_row(const row_copy<U> &copy, size_t to, size_t from)
{
    U *out = copy.to + to * copy.to_stride;
    const U *in = copy.from + from * copy.from_stride;

    for (size_t i = threadIdx.x; i < copy.units; i += blockDim.x)
        out[i] = in[i];
}

template <typename U> __device__ static void clear_row(const row_copy<U> &copy, size_t to)
{
    U *out = copy.to + to * copy.to_stride;

    for (size_t i = threadIdx.x; i < copy.units; i += blockDim.x)
        out[i] = U();
}

/* Clear the losses and gradients of rows without a target. */
template <typename U>
static __global__ void clear_rows(row_copy<U> dx, float *losses, float *hits,
                                  const int32_t *targets)
{
    size_t row = blockIdx.x;

    if (targets[row] >= 0)
        return;
    if (threadIdx.x == 0) {
        losses[row] = 0;
        if (hits)
            hits[row] = 0;
    }
    clear_row(dx, row);
}

template <typename U>
static __global__ void gather_rows(row_copy<U> copy, const int32_t *rows)
{
    int32_t from = rows[blockIdx.x];

    if (from >= 0)
        copy_row(copy, blockIdx.x, (size_t)from);
    else
        clear_row(copy, blockIdx.x);
}

template <typename U>
static __global__ void scatter_rows(row_copy<U> copy, const int32_t *rows)
{
    int32_t to = rows[blockIdx.x];

    if (to >= 0)
        copy_row(copy, (size_t)to, blockIdx.x);
}

static size_t width_of(struct tensor x)
{
    return x.format == FORMAT_FP32 ? 4 : 2;
}

/* Return whether all rows begin and end at multiples of `bytes`; true for an absent
 * matrix. */
static bool is_even(struct tensor x, size_t bytes)
{
    size_t width = width_of(x);

    return !x.data || ((uintptr_t)x.data % bytes == 0 && x.stride * width % bytes == 0 &&
                       x.cols * width % bytes == 0);
}

template <typename U> static row_copy<U> copy_of(struct tensor to, struct tensor from)
{
    size_t width = width_of(to), units = to.data ? to.cols * width / sizeof(U) : 0;

    return { (U *)to.data, (const U *)from.data, to.stride * width / sizeof(U),
             from.stride * width / sizeof(U), units };
}

/* Evaluate the expression with U as the widest type that can copy rows of both
 * matrices. */
#define BY_UNIT(a, b, U, ...)                                   \
    (is_even(a, 16) && is_even(b, 16) ? ([&] {                  \
        using U = uint4;                                        \
        return __VA_ARGS__;                                     \
    }())                                                        \
     : is_even(a, 4) && is_even(b, 4) ? ([&] {                  \
           using U = uint32_t;                                  \
           return __VA_ARGS__;                                  \
       }())                                                     \
                                      : ([&] {                  \
                                            using U = uint16_t; \
                                            return __VA_ARGS__; \
                                        }()))

/*
 * One thread's sums over its logits of a row: sum is of 2^((x - top) log2 e). top starts
 * finite, so that a logit of -inf is not compared with another; a NaN or +inf makes sum
 * NaN.
 */
struct row_sum {
    float top, sum, plain;
};

__device__ static float exp_of(float x, float top)
{
    return exp2_fast((x - top) * LOG2_E);
}

/* Apply the cap to a logit. */
__device__ static float capped(float x, float cap)
{
    return cap * tanhf(x / cap);
}

/*
 * Load n logits to each x[k], `apart` elements after those of k - 1. All loads are issued
 * before one is used. `wide`: they are aligned for loads of n at once.
 */
template <int n, int packs, bool wide>
__device__ static void load_packs(float x[packs][n], const float *logits, size_t apart)
{
    pack<float, n> in[packs];

#pragma unroll
    for (int k = 0; k < packs; k++)
        if (wide)
            in[k] = *(const pack<float, n> *)(logits + k * apart);
        else
#pragma unroll
            for (int j = 0; j < n; j++)
                in[k].at[j] = logits[k * apart + j];
#pragma unroll
    for (int i = 0; i < packs * n; i++)
        x[i / n][i % n] = in[i / n].at[i % n];
}

template <int n, int packs, bool wide, bool cap>
__device__ static void row_add(row_sum *row, const float *logits, size_t apart,
                               float most)
{
    float x[packs][n], top = row->top;

    load_packs<n, packs, wide>(x, logits, apart);
    if (cap)
#pragma unroll
        for (int i = 0; i < packs * n; i++)
            x[i / n][i % n] = capped(x[i / n][i % n], most);
#pragma unroll
    for (int i = 0; i < packs * n; i++) {
        top = fmaxf(top, x[i / n][i % n]);
        row->plain += x[i / n][i % n];
    }
    if (top > row->top) {
        row->sum *= exp_of(row->top, top);
        row->top = top;
    }
#pragma unroll
    for (int i = 0; i < packs * n; i++)
        row->sum += exp_of(x[i / n][i % n], top);
}

/*
 * Sum this thread's part of a row: every blockDim.x-th group of GROUP logits, PACKS of
 * them at once, in the same order whether they are loaded together or not.
 */
template <bool wide, bool cap>
__device__ static row_sum row_part(const float *logits, size_t cols, float most)
{
    size_t apart = blockDim.x * GROUP, i = threadIdx.x * GROUP;
    row_sum row = { -FLT_MAX, 0, 0 };

    for (; i + (PACKS - 1) * apart + GROUP <= cols; i += PACKS * apart)
        row_add<GROUP, PACKS, wide, cap>(&row, logits + i, apart, most);
    for (; i + GROUP <= cols; i += apart)
        row_add<GROUP, 1, wide, cap>(&row, logits + i, apart, most);
    for (; i < cols; i++) /* one thread handles the rest */
        row_add<1, 1, wide, cap>(&row, logits + i, apart, most);
    return row;
}

/* Combine the sums of the block's threads; all of them get the result. room: 32
 * floats. */
__device__ static row_sum row_all(row_sum row, float *room)
{
    float top = block_largest(row.top, room);

    row.sum = block_sum(row.sum * exp_of(row.top, top), room);
    row.plain = block_sum(row.plain, room);
    row.top = top;
    return row;
}

struct loss_rows {
    const float *logits; /* may be the same memory as dlogits */
    void *dlogits;
    float *losses, *hits;
    const int32_t *rows, *targets;
    const float *scale, *weights;
    size_t cols, logits_stride, dlogits_stride;
    float grad_scale, smoothing, softcap;
    enum token_loss kind;
};

/* dlogits = grad (e / sum - even), minus `wanted` at the target, which is handled
 * separately; with a cap, multiplied by its slope, 1 - (capped / cap)^2 */
struct gradient {
    float top, factor, even, grad, cap;
};

template <typename T, int n, int packs, bool cap>
__device__ static void put_packs(const gradient &g, T *dlogits, const float *logits,
                                 size_t apart)
{
    float x[packs][n];

    load_packs<n, packs, true>(x, logits, apart);
#pragma unroll
    for (int k = 0; k < packs; k++) {
#pragma unroll
        for (int j = 0; j < n; j++) {
            float l = cap ? capped(x[k][j], g.cap) : x[k][j], t = l / g.cap;

            x[k][j] = (exp_of(l, g.top) * g.factor - g.even) * g.grad;
            if (cap)
                x[k][j] *= 1 - t * t;
        }
        store<n>(dlogits + k * apart, x[k]);
    }
}

/* Write every blockDim.x-th group of n gradients of a row, from the end to the start.
 * dlogits may be logits. */
template <typename T, int n, bool cap>
__device__ static void put_gradients(const loss_rows &p, T *dlogits, const float *logits,
                                     const row_sum &row, int target, float weight)
{
    const gradient g = { row.top, 1 / row.sum, p.smoothing / (float)p.cols,
                         p.grad_scale * (p.scale ? *p.scale : 1) * weight, p.softcap };
    float l = cap ? capped(logits[target], g.cap) : logits[target], t = l / g.cap;
    float there = (exp_of(l, g.top) * g.factor - (1 - p.smoothing) - g.even) * g.grad;
    size_t apart = blockDim.x * n, first = threadIdx.x * n, end = p.cols / n * n;
    size_t own = first < end ? (end - first + apart - 1) / apart : 0;

    __syncthreads(); /* all threads have read the target's logit */
    if (end + threadIdx.x < p.cols)
        put_packs<T, 1, 1, cap>(g, dlogits + end + threadIdx.x,
                                logits + end + threadIdx.x, 0);
    for (; own % PACKS; own--)
        put_packs<T, n, 1, cap>(g, dlogits + first + (own - 1) * apart,
                                logits + first + (own - 1) * apart, apart);
    for (; own; own -= PACKS)
        put_packs<T, n, PACKS, cap>(g, dlogits + first + (own - PACKS) * apart,
                                    logits + first + (own - PACKS) * apart, apart);
    __syncthreads();
    if (threadIdx.x == 0)
        dlogits[target] = from_float<T>(cap ? there * (1 - t * t) : there);
}

/* The factor of a row by the kind of its loss.  That of EAFT is in `losses` (eaft.cu). */
template <bool cap>
__device__ static float factor_of(const loss_rows &p, const float *logits,
                                  const row_sum &row, int target, float entropy)
{
    float wanted = cap ? capped(logits[target], p.softcap) : logits[target];

    return p.kind == TOKEN_LOSS_DFT    ? exp_of(wanted, row.top) / row.sum
           : p.kind == TOKEN_LOSS_EAFT ? entropy
                                       : 1;
}

/* One block per row. */
template <typename T, bool wide, bool cap>
__device__ static void loss_of_row(const loss_rows &p)
{
    float *room = (float *)shared_memory();
    const float *logits = p.logits + blockIdx.x * p.logits_stride;
    T *dlogits = p.dlogits ? (T *)p.dlogits + blockIdx.x * p.dlogits_stride : NULL;
    int32_t place = p.rows[blockIdx.x], target = place < 0 ? -1 : p.targets[place];
    float weight = p.weights && target >= 0 ? p.weights[place] : 1;
    float entropy = p.kind == TOKEN_LOSS_EAFT && target >= 0 ? p.losses[place] : 1;
    row_sum row;

    if (target < 0) {
        for (size_t i = threadIdx.x; dlogits && i < p.cols; i += blockDim.x)
            dlogits[i] = from_float<T>(0);
        return;
    }
    row = row_all(row_part<wide, cap>(logits, p.cols, p.softcap), room);
    if (p.kind != TOKEN_LOSS_PLAIN)
        weight *= factor_of<cap>(p, logits, row, target, entropy);
    if (threadIdx.x == 0) {
        float log_sum = logf(row.sum), mean = row.plain / (float)p.cols;
        float wanted = cap ? capped(logits[target], p.softcap) : logits[target];
        float loss = row.top - wanted + log_sum;

        if (p.smoothing != 0)
            loss += p.smoothing * (row.top - mean + log_sum - loss);
        p.losses[place] = loss * weight;
        if (p.hits)
            p.hits[place] = wanted == row.top;
    }
    if (dlogits)
        put_gradients<T, wide ? GROUP : 1, cap>(p, dlogits, logits, row, target, weight);
}

template <typename T, bool wide>
static __global__ void __launch_bounds__(LARGE_BLOCK) loss_row(const loss_rows p)
{
    loss_of_row<T, wide, false>(p);
}

/* Allow one block per multiprocessor: two would spill registers. */
template <typename T, bool wide>
static __global__ void __launch_bounds__(LARGE_BLOCK, 1)
    loss_row_capped(const loss_rows p)
{
    loss_of_row<T, wide, true>(p);
}

template <typename T>
static cudaError_t launch_loss(const struct cuda_launch *to, const loss_rows &p,
                               size_t count)
{
    bool wide = p.logits_stride % GROUP == 0 && p.dlogits_stride % GROUP == 0 &&
                (uintptr_t)p.logits % (GROUP * sizeof(float)) == 0 &&
                (uintptr_t)p.dlogits % (GROUP * sizeof(T)) == 0;
    unsigned threads = p.cols < LARGE_ROW ? SMALL_BLOCK : LARGE_BLOCK;
    auto kernel = wide ? loss_row<T, true> : loss_row<T, false>;

    if (p.softcap > 0)
        kernel = wide ? loss_row_capped<T, true> : loss_row_capped<T, false>;
    return launch(to->stream, kernel, dim3((unsigned)count), dim3(threads),
                  WARP * sizeof(float), p);
}

extern "C" cudaError_t launch_classifier_order(const struct cuda_launch *to,
                                               const struct op_classifier *op)
{
    dim3 grid((unsigned)op->x.rows), block(COPY_THREADS);
    struct tensor dx = op->dx, none = {};
    cudaError_t status = launch(to->stream, order_rows, dim3(1), dim3(ORDER_THREADS),
                                ORDER_THREADS / WARP * sizeof(int32_t), op->rows,
                                op->targets, (int)op->x.rows);

    if (status != cudaSuccess || op->x.rows == 0 || !op->losses.data)
        return status;
    return BY_UNIT(dx, dx, U,
                   launch(to->stream, clear_rows<U>, grid, block, 0, copy_of<U>(dx, none),
                          (float *)op->losses.data, op->hits, op->targets));
}

extern "C" cudaError_t launch_classifier_gather(const struct cuda_launch *to,
                                                const struct op_classifier *op,
                                                size_t first, size_t count)
{
    struct tensor out = op->gathered, x = op->x;

    return BY_UNIT(out, x, U,
                   launch(to->stream, gather_rows<U>, dim3((unsigned)count),
                          dim3(COPY_THREADS), 0, copy_of<U>(out, x), op->rows + first));
}

extern "C" cudaError_t launch_classifier_loss(const struct cuda_launch *to,
                                              const struct op_classifier *op,
                                              size_t first, size_t count)
{
    bool gradients = op->dx.data || op->dw.data;
    const loss_rows p = {
        (const float *)op->logits.data,
        gradients ? op->dlogits.data : NULL,
        (float *)op->losses.data,
        op->hits,
        op->rows + first,
        op->targets,
        op->scale,
        op->weights,
        op->w.rows,
        op->logits.stride,
        gradients ? op->dlogits.stride : 0,
        op->grad_scale,
        op->smoothing,
        op->softcap,
        op->kind,
    };

    if (op->kind == TOKEN_LOSS_EAFT) {
        cudaError_t status = launch_eaft_factors(to, op, first, count);

        if (status != cudaSuccess)
            return status;
    }
    if (!gradients)
        return launch_loss<float>(to, p, count);
    return BY_FORMAT(op->dlogits.format, T, launch_loss<T>(to, p, count));
}

extern "C" cudaError_t launch_classifier_scatter(const struct cuda_launch *to,
                                                 const struct op_classifier *op,
                                                 size_t first, size_t count)
{
    struct tensor dx = op->dx, from = op->dgathered;

    return BY_UNIT(dx, from, U,
                   launch(to->stream, scatter_rows<U>, dim3((unsigned)count),
                          dim3(COPY_THREADS), 0, copy_of<U>(dx, from), op->rows + first));
}
