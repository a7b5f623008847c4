/*
 * kernels/cuda/delta.cu - the gated delta rule, chunk by chunk.
 *
 * A block has WARP columns of the values of one head in one sequence, with their part of
 * the state, and goes through the sequence; what depends on the keys alone is computed by
 * each of the head's blocks.  Kernels in fp32 without tensor cores.
 */
#include "kernels/cuda/delta.cuh"

template <typename T> struct delta_scan {
    delta_operands<T> of;
    view<T> out; /* data NULL: absent */
    float *state;
    size_t state_stride;
    float *states;
    size_t states_stride;
    bool resumes;
};

/* Where this block's part of a head's state is. */
template <typename T>
__device__ static inline size_t delta_part(const delta_operands<T> &f, unsigned d)
{
    return ((size_t)blockIdx.y * f.key + d) * f.value + blockIdx.x * WARP +
           threadIdx.x % WARP;
}

template <typename T>
__global__ void __launch_bounds__(DELTA_THREADS) delta_forward(struct delta_scan<T> f)
{
    const unsigned lane = threadIdx.x % WARP, column = blockIdx.x * WARP + lane;
    const unsigned key = f.of.key, head = blockIdx.y, sequence = blockIdx.z;
    const bool has = column < f.of.value;
    struct delta_shared s = delta_shared_at((float *)shared_memory(), key);
    float *state = s.rest, *u = state + key * WARP;
    size_t begin = (size_t)f.of.offsets[sequence];
    size_t end = (size_t)f.of.offsets[sequence + 1];

    for (unsigned d = threadIdx.x / WARP; d < key; d += DELTA_WARPS)
        state[d * WARP + lane] =
            has && f.resumes ? f.state[sequence * f.state_stride + delta_part(f.of, d)]
                             : 0;
    for (size_t first = begin; first < end; first += DELTA_CHUNK) {
        unsigned rows = end - first < DELTA_CHUNK ? (unsigned)(end - first) : DELTA_CHUNK;
        float known[DELTA_ROWS], out[DELTA_ROWS];
        delta_queries<T> q;

        if (f.states && has) {
            size_t chunk = delta_first_chunk(begin, sequence);

            chunk += (first - begin) / DELTA_CHUNK;
            for (unsigned d = threadIdx.x / WARP; d < key; d += DELTA_WARPS)
                f.states[chunk * f.states_stride + delta_part(f.of, d)] =
                    state[d * WARP + lane];
        }
        q = delta_load_keys(s, f.of, first, rows, head / (f.of.heads / f.of.key_heads));
        delta_load_gates(s, f.of, first, rows, head);
        __syncthreads();
        delta_make_pairs(s, q, key);
        __syncthreads();
        delta_read(known, delta_keys(s), state, WARP, key);
        delta_read(out, q, state, WARP, key);
        for (unsigned r = 0; r < DELTA_ROWS; r++) {
            unsigned i = delta_row(r);
            float v =
                has && i < rows
                    ? to_float(*f.of.v.at(first + i, (size_t)head * f.of.value + column))
                    : 0;

            u[i * DELTA_PITCH + lane] = s.beta[i] * (v - s.since[i] * known[r]);
        }
        __syncthreads();
        if (threadIdx.x < WARP)
            delta_solve(s, u);
        __syncthreads();
        for (unsigned r = 0; f.out.data && r < DELTA_ROWS; r++) {
            unsigned i = delta_row(r);
            float sum = s.since[i] * out[r];

            for (unsigned j = 0; j <= i; j++)
                sum += s.pairs[j * DELTA_PITCH + i] * u[j * DELTA_PITCH + lane];
            if (has && i < rows)
                *f.out.at(first + i, (size_t)head * f.of.value + column) =
                    from_float<T>(sum);
        }
        for (unsigned d = threadIdx.x / WARP; d < key; d += DELTA_WARPS) {
            float sum = state[d * WARP + lane] * s.since[DELTA_CHUNK - 1];

            for (unsigned i = 0; i < DELTA_CHUNK; i++)
                sum += s.k[i * s.pitch + d] * s.until[i] * u[i * DELTA_PITCH + lane];
            state[d * WARP + lane] = sum;
        }
        __syncthreads();
    }
    for (unsigned d = threadIdx.x / WARP; f.state && has && d < key; d += DELTA_WARPS)
        f.state[sequence * f.state_stride + delta_part(f.of, d)] = state[d * WARP + lane];
}

template <typename T>
static cudaError_t forward_typed(const struct cuda_launch *to, const struct op_delta *op,
                                 struct tensor states)
{
    struct delta_scan<T> f = {
        delta_operands_of<T>(op), view_of<T>(op->out),
            (float *)op->state.data, op->state.stride,
            (float *)states.data, states.stride, op->state.data && op->resumes
    };
    size_t shared =
        delta_shared_floats(f.of.key) + f.of.key * WARP + DELTA_CHUNK * DELTA_PITCH;
    dim3 grid((f.of.value + WARP - 1) / WARP, f.of.heads, f.of.sequences);

    if (shared * sizeof(float) > to->shared_max)
        return cudaErrorNotSupported;
    if (f.of.sequences == 0)
        return cudaSuccess;
    return launch(to->stream, delta_forward<T>, grid, dim3(DELTA_THREADS),
                  shared * sizeof(float), f);
}

cudaError_t delta_forward_launch(const struct cuda_launch *to, const struct op_delta *op,
                                 struct tensor states)
{
    return BY_FORMAT(op->q.format, T, forward_typed<T>(to, op, states));
}

cudaError_t launch_delta(const struct cuda_launch *to, const struct op_delta *op)
{
    struct tensor none = {};

    return delta_forward_launch(to, op, none);
}
