/*
 * kernels/cuda/delta.cuh - code shared by the kernels of the gated delta rule: a chunk of
 * DELTA_CHUNK rows of one head, in fp32 in shared memory.
 *
 * kernels/cpu/cpu_delta.h has the formulas, with the same names.  A warp has four rows of a
 * chunk; its lanes have the columns: of the other rows, or WARP columns of the values.
 * Rows after the end of a sequence are zeros, with decay 0 and beta 0, which change nothing.
 * q is read where it is, so that shared memory stays below the 48 KiB that a block can have
 * on every card.
 */
#ifndef KERNELS_CUDA_DELTA_CUH
#define KERNELS_CUDA_DELTA_CUH

#include "kernels/cuda/elementwise_kernel.cuh"

enum {
    DELTA_THREADS = 256,
    DELTA_WARPS = DELTA_THREADS / WARP,
    DELTA_ROWS = DELTA_CHUNK / DELTA_WARPS, /* of a warp */
    DELTA_PITCH = WARP + 1,                 /* of a matrix with WARP columns */
};

/* op_delta_first_chunk for the device */
__device__ static inline size_t delta_first_chunk(size_t first, size_t sequence)
{
    return first / DELTA_CHUNK + sequence;
}

template <typename T> struct delta_operands {
    view<const T> q, k, v;
    view<const float> decay, beta;
    const int32_t *offsets;
    unsigned sequences, heads, key_heads, key, value;
};

template <typename T>
static inline delta_operands<T> delta_operands_of(const struct op_delta *op)
{
    return { view_of<const T>(op->q),           view_of<const T>(op->k),
             view_of<const T>(op->v),           view_of<const float>(op->decay),
             view_of<const float>(op->beta),    op->offsets,
             (unsigned)op->sequences,           (unsigned)op->heads,
             (unsigned)op->key_heads,           (unsigned)(op->q.cols / op->key_heads),
             (unsigned)(op->v.cols / op->heads) };
}

/* What all kernels have of a chunk. */
struct delta_shared {
    float *k;             /* [DELTA_CHUNK][key + 1], normalized */
    float *pairs;         /* [DELTA_CHUNK][DELTA_PITCH]: A below, P^T on and above the
                           * diagonal */
    float *decay, *beta;  /* [DELTA_CHUNK] */
    float *since, *until; /* e^b_i, e^(b_last - b_i) */
    float *q_by, *k_by;   /* what q and k were multiplied by */
    float *rest;          /* after these */
    unsigned pitch;       /* of k */
};

__host__ __device__ static inline size_t delta_shared_floats(unsigned key)
{
    return DELTA_CHUNK * (key + 1) + DELTA_CHUNK * DELTA_PITCH + 6 * DELTA_CHUNK;
}

__device__ static inline struct delta_shared delta_shared_at(float *room, unsigned key)
{
    struct delta_shared s;

    s.pitch = key + 1;
    s.k = room;
    s.pairs = s.k + DELTA_CHUNK * s.pitch;
    s.decay = s.pairs + DELTA_CHUNK * DELTA_PITCH;
    s.beta = s.decay + DELTA_CHUNK;
    s.since = s.beta + DELTA_CHUNK;
    s.until = s.since + DELTA_CHUNK;
    s.q_by = s.until + DELTA_CHUNK;
    s.k_by = s.q_by + DELTA_CHUNK;
    s.rest = s.k_by + DELTA_CHUNK;
    return s;
}

/* Return the row of a chunk that this thread has. */
__device__ static inline unsigned delta_row(unsigned i)
{
    return threadIdx.x / WARP * DELTA_ROWS + i;
}

/* The rows of a matrix in shared memory. */
struct delta_matrix {
    const float *data;
    unsigned pitch;

    __device__ float at(unsigned i, unsigned d) const
    {
        return data[i * pitch + d];
    }
};

__device__ static inline struct delta_matrix delta_keys(const struct delta_shared &s)
{
    return { s.k, s.pitch };
}

/* The rows of q of a chunk and a head of keys, normalized. */
template <typename T> struct delta_queries {
    const T *data; /* of the first row */
    size_t stride;
    const float *by;
    unsigned rows;

    __device__ float at(unsigned i, unsigned d) const
    {
        return i < rows ? to_float(data[i * stride + d]) * by[i] : 0;
    }
};

/* Return what normalizes a row of q or k; NULL is a row of zeros. */
template <typename T>
__device__ static inline float delta_factor(const T *from, unsigned key, float scale)
{
    float squares = 0;

    for (unsigned d = threadIdx.x % WARP; from && d < key; d += WARP)
        squares += to_float(from[d]) * to_float(from[d]);
    return scale / sqrtf(warp_sum(squares) + 1e-6f);
}

/* Load k of a head of keys, and the factors of q.  A barrier must follow. */
template <typename T>
__device__ static inline delta_queries<T>
delta_load_keys(const struct delta_shared &s, const delta_operands<T> &f, size_t first,
                unsigned rows, unsigned head)
{
    unsigned lane = threadIdx.x % WARP;
    size_t column = (size_t)head * f.key;

    for (unsigned r = 0; r < DELTA_ROWS; r++) {
        unsigned i = delta_row(r);
        const T *q = i < rows ? f.q.at(first + i, column) : NULL;
        const T *k = i < rows ? f.k.at(first + i, column) : NULL;
        float q_by = delta_factor(q, f.key, 1 / sqrtf((float)f.key));
        float k_by = delta_factor(k, f.key, 1);

        for (unsigned d = lane; d < f.key; d += WARP)
            s.k[i * s.pitch + d] = k ? to_float(k[d]) * k_by : 0;
        if (lane == 0) {
            s.q_by[i] = q_by;
            s.k_by[i] = k_by;
        }
    }
    return { f.q.at(first, column), f.q.stride, s.q_by, rows };
}

/* Load the gates of a head of values; the first warp does.  A barrier must follow. */
template <typename T>
__device__ static inline void delta_load_gates(const struct delta_shared &s,
                                               const delta_operands<T> &f, size_t first,
                                               unsigned rows, unsigned head)
{
    unsigned i = threadIdx.x;

    if (i >= DELTA_CHUNK)
        return;
    s.decay[i] = i < rows ? *f.decay.at(first + i, head) : 0;
    s.beta[i] = i < rows ? *f.beta.at(first + i, head) : 0;
}

/* e^(b_i - b_j): the decays of the rows after j up to i */
__device__ static inline float delta_fade(const float *decay, unsigned j, unsigned i)
{
    float sum = 0;

    for (unsigned t = j; t < i; t++)
        sum += decay[t];
    return expf(sum);
}

/* Compute what depends on keys and gates; the thread's pairs (delta_row(r), lane): k k, q k
 * and their fade.  Barriers must come before and after. */
struct delta_pair {
    float gram[DELTA_ROWS], score[DELTA_ROWS], fade[DELTA_ROWS];
};

template <typename T>
__device__ static inline struct delta_pair
delta_make_pairs(const struct delta_shared &s, const delta_queries<T> &q, unsigned key)
{
    unsigned j = threadIdx.x % WARP;
    struct delta_pair p = {};

    for (unsigned d = 0; d < key; d++) {
        float other = s.k[j * s.pitch + d];

#pragma unroll
        for (unsigned r = 0; r < DELTA_ROWS; r++) {
            p.gram[r] += s.k[delta_row(r) * s.pitch + d] * other;
            p.score[r] += q.at(delta_row(r), d) * other;
        }
    }
#pragma unroll
    for (unsigned r = 0; r < DELTA_ROWS; r++) {
        unsigned i = delta_row(r);

        p.fade[r] = j <= i ? delta_fade(s.decay + 1, j, i) : 0;
        if (j < i)
            s.pairs[i * DELTA_PITCH + j] = s.beta[i] * p.gram[r] * p.fade[r];
        if (j <= i)
            s.pairs[j * DELTA_PITCH + i] = p.score[r] * p.fade[r];
    }
    if (threadIdx.x < DELTA_CHUNK) {
        s.since[threadIdx.x] = delta_fade(s.decay, 0, threadIdx.x + 1);
        s.until[threadIdx.x] = delta_fade(s.decay + 1, threadIdx.x, DELTA_CHUNK - 1);
    }
    return p;
}

/* Rows delta_row(r) of x (DELTA_CHUNK, key) times a state [key][pitch], whose column is the
 * lane's. */
template <typename X>
__device__ static inline void delta_read(float out[DELTA_ROWS], const X &x,
                                         const float *state, unsigned pitch, unsigned key)
{
    unsigned lane = threadIdx.x % WARP;

#pragma unroll
    for (unsigned r = 0; r < DELTA_ROWS; r++)
        out[r] = 0;
    for (unsigned d = 0; d < key; d++) {
        float value = state[d * pitch + lane];

#pragma unroll
        for (unsigned r = 0; r < DELTA_ROWS; r++)
            out[r] += x.at(delta_row(r), d) * value;
    }
}

/* Solve for u, column by column: the lanes of one warp. */
__device__ static inline void delta_solve(const struct delta_shared &s, float *u)
{
    unsigned lane = threadIdx.x % WARP;

    for (unsigned i = 1; i < DELTA_CHUNK; i++) {
        float sum = u[i * DELTA_PITCH + lane];

        for (unsigned j = 0; j < i; j++)
            sum -= s.pairs[i * DELTA_PITCH + j] * u[j * DELTA_PITCH + lane];
        u[i * DELTA_PITCH + lane] = sum;
    }
}

/* The same for the transposed system, from the last row to the first. */
__device__ static inline void delta_solve_back(const struct delta_shared &s, float *u)
{
    unsigned lane = threadIdx.x % WARP;

    for (unsigned i = DELTA_CHUNK - 1; i-- > 0;) {
        float sum = u[i * DELTA_PITCH + lane];

        for (unsigned j = i + 1; j < DELTA_CHUNK; j++)
            sum -= s.pairs[j * DELTA_PITCH + i] * u[j * DELTA_PITCH + lane];
        u[i * DELTA_PITCH + lane] = sum;
    }
}

/* states is NULL, or has a row for each chunk, where the state at its start goes.  op->out
 * may be absent. */
cudaError_t delta_forward_launch(const struct cuda_launch *to, const struct op_delta *op,
                                 struct tensor states);

#endif
