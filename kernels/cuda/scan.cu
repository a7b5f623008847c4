/*
 * kernels/cuda/scan.cu - the selective scan of Mamba-2, row by row, and what its gradients
 * need of the states.
 *
 * A warp has SCAN_COLUMNS columns of a head in one sequence.  Lane i has elements i, i + WARP
 * and so on of their states, in registers.  Kernels in fp32 without tensor cores.
 */
#include "kernels/cuda/scan.cuh"

enum {
    SCAN_WARPS = 4,
    SCAN_THREADS = SCAN_WARPS * WARP,
    SCAN_COLUMNS = 4,
    SCAN_PARTS = SCAN_STATE_MAX / WARP
};

template <typename T> struct scan_pass {
    scan_operands<T> of;
    view<T> out; /* data NULL: absent */
    view<const T> dout;
    float *state;
    size_t state_stride;
    float *kept; /* of each chunk, or NULL */
    size_t kept_stride;
    bool resumes;
};

/* Where this warp's columns begin. */
__device__ static inline unsigned scan_column()
{
    return (blockIdx.x * SCAN_WARPS + threadIdx.x / WARP) * SCAN_COLUMNS;
}

/* Where element 0 of the state of a column is. */
template <typename T>
__device__ static inline size_t scan_part(const scan_operands<T> &f, unsigned column)
{
    return ((size_t)blockIdx.y * f.size + column) * f.depth;
}

template <typename T>
__device__ static inline void scan_keep(float *to, const scan_operands<T> &f,
                                        const float state[SCAN_COLUMNS][SCAN_PARTS])
{
    const unsigned lane = threadIdx.x % WARP, column = scan_column();

#pragma unroll
    for (unsigned p = 0; p < SCAN_COLUMNS; p++)
#pragma unroll
        for (unsigned d = 0; d < SCAN_PARTS; d++)
            if (column + p < f.size && d * WARP + lane < f.depth)
                to[scan_part(f, column + p) + d * WARP + lane] = state[p][d];
}

/* Elements of a row of b or c. */
template <typename T>
__device__ static inline void scan_row(float to[SCAN_PARTS], view<const T> from,
                                       size_t row, size_t at, unsigned depth)
{
    const unsigned lane = threadIdx.x % WARP;

#pragma unroll
    for (unsigned d = 0; d < SCAN_PARTS; d++)
        to[d] =
            d * WARP + lane < depth ? to_float(*from.at(row, at + d * WARP + lane)) : 0;
}

/* state = state * fade + row * by, of each column */
__device__ static inline void scan_add(float state[SCAN_COLUMNS][SCAN_PARTS], float fade,
                                       const float row[SCAN_PARTS],
                                       const float by[SCAN_COLUMNS])
{
#pragma unroll
    for (unsigned p = 0; p < SCAN_COLUMNS; p++)
#pragma unroll
        for (unsigned d = 0; d < SCAN_PARTS; d++)
            state[p][d] = state[p][d] * fade + row[d] * by[p];
}

template <typename T>
__global__ void __launch_bounds__(SCAN_THREADS) scan_forward(struct scan_pass<T> f)
{
    const unsigned lane = threadIdx.x % WARP, column = scan_column();
    const unsigned head = blockIdx.y, sequence = blockIdx.z;
    const size_t begin = (size_t)f.of.offsets[sequence];
    const size_t end = (size_t)f.of.offsets[sequence + 1];
    const size_t group = (size_t)(head / f.of.sharing) * f.of.depth;
    const float rate = -expf(f.of.a_log.get(0, head)), bias = f.of.bias.get(0, head);
    const float skip = f.of.skip.get(0, head);
    float state[SCAN_COLUMNS][SCAN_PARTS] = {};

    if (f.resumes)
#pragma unroll
        for (unsigned p = 0; p < SCAN_COLUMNS; p++)
#pragma unroll
            for (unsigned d = 0; d < SCAN_PARTS; d++)
                if (column + p < f.of.size && d * WARP + lane < f.of.depth)
                    state[p][d] = f.state[sequence * f.state_stride +
                                          scan_part(f.of, column + p) + d * WARP + lane];
    for (size_t n = begin; n < end; n++) {
        const float step = scan_step_of(f.of, n, head, bias).step;
        float x[SCAN_COLUMNS], by[SCAN_COLUMNS], row[SCAN_PARTS];

        if (f.kept && (n - begin) % SCAN_CHUNK == 0)
            scan_keep(f.kept +
                          (scan_first_chunk(begin, sequence) + (n - begin) / SCAN_CHUNK) *
                              f.kept_stride,
                      f.of, state);
#pragma unroll
        for (unsigned p = 0; p < SCAN_COLUMNS; p++) {
            x[p] = column + p < f.of.size
                       ? to_float(*f.of.x.at(n, (size_t)head * f.of.size + column + p))
                       : 0;
            by[p] = x[p] * step;
        }
        scan_row(row, f.of.b, n, group, f.of.depth);
        scan_add(state, expf(rate * step), row, by);
        if (!f.out.data)
            continue;
        scan_row(row, f.of.c, n, group, f.of.depth);
#pragma unroll
        for (unsigned p = 0; p < SCAN_COLUMNS; p++) {
            float sum = 0;

#pragma unroll
            for (unsigned d = 0; d < SCAN_PARTS; d++)
                sum += state[p][d] * row[d];
            sum = warp_sum(sum);
            if (lane == 0 && column + p < f.of.size)
                *f.out.at(n, (size_t)head * f.of.size + column + p) =
                    from_float<T>(sum + skip * x[p]);
        }
    }
    if (f.state)
        scan_keep(f.state + sequence * f.state_stride, f.of, state);
}

/* The gradients of the states at the end of each chunk, from the last row to the first. */
template <typename T>
__global__ void __launch_bounds__(SCAN_THREADS) scan_return(struct scan_pass<T> f)
{
    const unsigned column = scan_column(), head = blockIdx.y, sequence = blockIdx.z;
    const size_t begin = (size_t)f.of.offsets[sequence];
    const size_t end = (size_t)f.of.offsets[sequence + 1];
    const size_t group = (size_t)(head / f.of.sharing) * f.of.depth;
    const float rate = -expf(f.of.a_log.get(0, head)), bias = f.of.bias.get(0, head);
    float state[SCAN_COLUMNS][SCAN_PARTS] = {}, fade = 1;

    for (size_t n = end; n-- > begin;) {
        float by[SCAN_COLUMNS], row[SCAN_PARTS];

        if (n + 1 == end || (n + 1 - begin) % SCAN_CHUNK == 0) {
            const float none[SCAN_PARTS] = {}, nothing[SCAN_COLUMNS] = {};

            scan_add(state, fade, none, nothing);
            fade = 1;
            scan_keep(f.kept +
                          (scan_first_chunk(begin, sequence) + (n - begin) / SCAN_CHUNK) *
                              f.kept_stride,
                      f.of, state);
        }
#pragma unroll
        for (unsigned p = 0; p < SCAN_COLUMNS; p++)
            by[p] = column + p < f.of.size
                        ? to_float(*f.dout.at(n, (size_t)head * f.of.size + column + p))
                        : 0;
        scan_row(row, f.of.c, n, group, f.of.depth);
        scan_add(state, fade, row, by);
        fade = expf(rate * scan_step_of(f.of, n, head, bias).step);
    }
}

template <typename T>
static cudaError_t scan_pass_launch(const struct cuda_launch *to,
                                    void (*kernel)(struct scan_pass<T>),
                                    const struct scan_pass<T> *f)
{
    const unsigned columns = SCAN_WARPS * SCAN_COLUMNS;

    if (f->of.sequences == 0)
        return cudaSuccess;
    return launch(
        to->stream, kernel,
        dim3((f->of.size + columns - 1) / columns, f->of.heads, f->of.sequences),
        dim3(SCAN_THREADS), 0, *f);
}

template <typename T>
static cudaError_t forward_typed(const struct cuda_launch *to, const struct op_scan *op)
{
    struct scan_pass<T> f = {
    };

    f.of = scan_operands_of<T>(op);
    f.out = view_of<T>(op->out);
    f.state = (float *)op->state.data;
    f.state_stride = op->state.stride;
    f.resumes = op->state.data && op->resumes;
    return scan_pass_launch(to, scan_forward<T>, &f);
}

cudaError_t launch_scan(const struct cuda_launch *to, const struct op_scan *op)
{
    return BY_FORMAT(op->x.format, T, forward_typed<T>(to, op));
}

template <typename T>
static cudaError_t states_typed(const struct cuda_launch *to,
                                const struct op_scan_backward *op)
{
    struct scan_pass<T> f = {
    };
    cudaError_t status;

    f.of = scan_operands_of<T>(&op->forward);
    f.kept = (float *)op->states.data;
    f.kept_stride = op->states.stride;
    status = scan_pass_launch(to, scan_forward<T>, &f);
    if (status != cudaSuccess)
        return status;
    f.dout = view_of<const T>(op->dout);
    f.kept = (float *)op->dstates.data;
    f.kept_stride = op->dstates.stride;
    return scan_pass_launch(to, scan_return<T>, &f);
}

cudaError_t launch_scan_states(const struct cuda_launch *to,
                               const struct op_scan_backward *op)
{
    return BY_FORMAT(op->dout.format, T, states_typed<T>(to, op));
}
