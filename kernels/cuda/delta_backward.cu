/*
 * kernels/cuda/delta_backward.cu - gradients of the gated delta rule, in three steps.
 *
 * The forward kernel writes the state at the start of each chunk again; delta_return passes
 * the gradient of the state from the last chunk to the first and keeps that at the end of
 * each, a block for each WARP columns of the values; then delta_chunks computes all
 * gradients of a chunk and a head of keys in one block, which adds what the heads of values
 * and their columns give in order.
 */
#include "kernels/cuda/delta.cuh"

template <typename T> struct delta_slopes {
    delta_operands<T> of;
    view<T> dq, dk, dv;
    view<float> ddecay, dbeta;
    view<const T> dout;
    view<float> states, dstates;
};

/* The transposed scores times a column of dout, in rows delta_row(r). */
template <typename T>
__device__ static inline void delta_read_scores(float out[DELTA_ROWS],
                                                const struct delta_shared &s,
                                                const view<const T> &dout, size_t first,
                                                unsigned rows, size_t column, bool has)
{
#pragma unroll
    for (unsigned r = 0; r < DELTA_ROWS; r++)
        out[r] = 0;
    for (unsigned j = 0; j < rows; j++) {
        float value = has ? to_float(*dout.at(first + j, column)) : 0;

#pragma unroll
        for (unsigned r = 0; r < DELTA_ROWS; r++)
            if (delta_row(r) <= j)
                out[r] += s.pairs[delta_row(r) * DELTA_PITCH + j] * value;
    }
}

template <typename T>
__global__ void __launch_bounds__(DELTA_THREADS) delta_return(struct delta_slopes<T> f)
{
    const unsigned lane = threadIdx.x % WARP, column = blockIdx.x * WARP + lane;
    const unsigned key = f.of.key, head = blockIdx.y, sequence = blockIdx.z;
    const size_t at = (size_t)head * f.of.value + column;
    const bool has = column < f.of.value;
    struct delta_shared s = delta_shared_at((float *)shared_memory(), key);
    float *dstate = s.rest, *du = dstate + key * WARP;
    size_t begin = (size_t)f.of.offsets[sequence];
    size_t end = (size_t)f.of.offsets[sequence + 1];
    size_t chunks = (end - begin + DELTA_CHUNK - 1) / DELTA_CHUNK;

    for (unsigned d = threadIdx.x / WARP; d < key; d += DELTA_WARPS)
        dstate[d * WARP + lane] = 0;
    while (chunks-- > 0) {
        size_t first = begin + chunks * DELTA_CHUNK;
        unsigned rows = end - first < DELTA_CHUNK ? (unsigned)(end - first) : DELTA_CHUNK;
        float *kept = f.dstates.at(delta_first_chunk(begin, sequence) + chunks, 0);
        float out[DELTA_ROWS], known[DELTA_ROWS];
        delta_queries<T> q =
            delta_load_keys(s, f.of, first, rows, head / (f.of.heads / f.of.key_heads));

        for (unsigned d = threadIdx.x / WARP; has && d < key; d += DELTA_WARPS)
            kept[((size_t)head * key + d) * f.of.value + column] =
                dstate[d * WARP + lane];
        delta_load_gates(s, f.of, first, rows, head);
        __syncthreads();
        delta_make_pairs(s, q, key);
        __syncthreads();
        delta_read_scores(out, s, f.dout, first, rows, at, has);
        delta_read(known, delta_keys(s), dstate, WARP, key);
        for (unsigned r = 0; r < DELTA_ROWS; r++)
            du[delta_row(r) * DELTA_PITCH + lane] =
                out[r] + s.until[delta_row(r)] * known[r];
        __syncthreads();
        if (threadIdx.x < WARP)
            delta_solve_back(s, du);
        __syncthreads();
        for (unsigned d = threadIdx.x / WARP; d < key; d += DELTA_WARPS) {
            float sum = dstate[d * WARP + lane] * s.since[DELTA_CHUNK - 1];

            for (unsigned i = 0; i < rows; i++) {
                float dout = has ? to_float(*f.dout.at(first + i, at)) : 0;

                sum +=
                    s.since[i] * (q.at(i, d) * dout - s.k[i * s.pitch + d] * s.beta[i] *
                                                          du[i * DELTA_PITCH + lane]);
            }
            dstate[d * WARP + lane] = sum;
        }
        __syncthreads();
    }
}

/* Columns of a key that a lane has: lane, lane + WARP, ... */
enum { DELTA_PARTS = DELTA_SIZE_MAX / WARP };

/* A block of delta_chunks: rows first .. first + rows of the batch, a row of the states. */
struct delta_place {
    size_t chunk, first;
    unsigned rows;
};

/* Its shared memory after delta_shared. */
struct delta_rest {
    float *state;  /* [key or more][DELTA_PITCH]: S, then dS' */
    float *u, *du; /* [DELTA_CHUNK][DELTA_PITCH] */
    float *slopes; /* [DELTA_CHUNK]: db */
    float *ends;   /* [DELTA_CHUNK]: what rows add to db of the last */
    float *sums;   /* for block_sum */
};

/* What a thread of it has, adding up over heads and columns: rows delta_row(r), columns of
 * the keys or of the other rows; db, dbeta and slope are the same in all lanes. */
template <typename T> struct delta_work {
    delta_slopes<T> f;
    struct delta_shared s;
    struct delta_rest rest;
    struct delta_place place;
    delta_queries<T> q;
    struct delta_pair pair;
    unsigned head, column; /* of the values: the first of WARP columns */
    float dq[DELTA_ROWS][DELTA_PARTS], dk[DELTA_ROWS][DELTA_PARTS];
    float dscore[DELTA_ROWS], dsystem[DELTA_ROWS]; /* of P and A */
    float db[DELTA_ROWS], dbeta[DELTA_ROWS], slope[DELTA_ROWS];
    float product; /* this thread's part of the sum of dS' times S */

    __device__ unsigned lane() const
    {
        return threadIdx.x % WARP;
    }

    __device__ bool has() const
    {
        return column + lane() < f.of.value;
    }

    /* This thread's column of v, dout and dv. */
    __device__ size_t at() const
    {
        return (size_t)head * f.of.value + column + lane();
    }

    /* An element of v or dout in that column. */
    __device__ float get(const view<const T> &x, unsigned i) const
    {
        return has() && i < place.rows ? to_float(*x.at(place.first + i, at())) : 0;
    }
};

/* The state's room also holds pairs of rows. */
__host__ __device__ static inline unsigned delta_rest_rows(unsigned key)
{
    return key > DELTA_CHUNK ? key : (unsigned)DELTA_CHUNK;
}

static inline size_t delta_rest_floats(unsigned key)
{
    return (delta_rest_rows(key) + 2 * DELTA_CHUNK) * DELTA_PITCH + 2 * DELTA_CHUNK +
           WARP;
}

__device__ static inline struct delta_rest delta_rest_at(float *room, unsigned key)
{
    struct delta_rest rest;

    rest.state = room;
    rest.u = rest.state + delta_rest_rows(key) * DELTA_PITCH;
    rest.du = rest.u + DELTA_CHUNK * DELTA_PITCH;
    rest.slopes = rest.du + DELTA_CHUNK * DELTA_PITCH;
    rest.ends = rest.slopes + DELTA_CHUNK;
    rest.sums = rest.ends + DELTA_CHUNK;
    return rest;
}

/* Return whether there is a chunk in this block's row of the states. */
template <typename T>
__device__ static inline bool delta_find(const delta_operands<T> &f,
                                         struct delta_place *place)
{
    unsigned low = 0, high = f.sequences;
    size_t begin, end;

    place->chunk = blockIdx.x;
    while (high - low > 1) {
        unsigned middle = low + (high - low) / 2;

        if (delta_first_chunk((size_t)f.offsets[middle], middle) <= place->chunk)
            low = middle;
        else
            high = middle;
    }
    begin = (size_t)f.offsets[low];
    end = (size_t)f.offsets[low + 1];
    place->first = begin + (place->chunk - delta_first_chunk(begin, low)) * DELTA_CHUNK;
    place->rows =
        end - place->first < DELTA_CHUNK ? (unsigned)(end - place->first) : DELTA_CHUNK;
    return place->first < end;
}

/* to += by * x S^T, for the state in shared memory; `along` = the rows of x S^T times those
 * of `unit`. */
template <typename T, typename X>
__device__ static inline void
delta_spread_state(float to[DELTA_ROWS][DELTA_PARTS], float along[DELTA_ROWS],
                   const float by[DELTA_ROWS], const float *x, const delta_work<T> &w,
                   const X &unit)
{
#pragma unroll
    for (unsigned r = 0; r < DELTA_ROWS; r++)
        along[r] = 0;
#pragma unroll
    for (unsigned part = 0; part < DELTA_PARTS; part++) {
        unsigned d = part * WARP + w.lane();
        float sum[DELTA_ROWS] = {};

        if (d >= w.f.of.key)
            continue;
        for (unsigned c = 0; c < WARP; c++) {
            float value = w.rest.state[d * DELTA_PITCH + c];

#pragma unroll
            for (unsigned r = 0; r < DELTA_ROWS; r++)
                sum[r] += x[delta_row(r) * DELTA_PITCH + c] * value;
        }
#pragma unroll
        for (unsigned r = 0; r < DELTA_ROWS; r++) {
            to[r][part] += by[r] * sum[r];
            along[r] += unit.at(delta_row(r), d) * sum[r];
        }
    }
#pragma unroll
    for (unsigned r = 0; r < DELTA_ROWS; r++)
        along[r] = warp_sum(along[r]);
}

/* to (delta_row(r), lane) += x y^T, WARP columns of each, in shared memory */
__device__ static inline void delta_pair_rows(float to[DELTA_ROWS], const float *x,
                                              const float *y)
{
    unsigned lane = threadIdx.x % WARP;

    for (unsigned c = 0; c < WARP; c++) {
        float value = y[lane * DELTA_PITCH + c];

#pragma unroll
        for (unsigned r = 0; r < DELTA_ROWS; r++)
            to[r] += x[delta_row(r) * DELTA_PITCH + c] * value;
    }
}

/* Load WARP columns of the head's state.  Return this thread's part of their sum of products
 * with what was there. */
template <typename T>
__device__ static inline float delta_load_state(const delta_work<T> &w,
                                                const view<float> &states)
{
    const unsigned key = w.f.of.key, value = w.f.of.value;
    const float *from = states.at(w.place.chunk, (size_t)w.head * key * value);
    float product = 0;

    for (unsigned d = threadIdx.x / WARP; d < key; d += DELTA_WARPS) {
        float *to = w.rest.state + d * DELTA_PITCH + w.lane();
        float x = w.has() ? from[(size_t)d * value + w.column + w.lane()] : 0;

        product += *to * x;
        *to = x;
    }
    return product;
}

/* With S and dout (in du): what reads the state adds to dq; `error`, and u until it is
 * solved. */
template <typename T>
__device__ static inline void delta_read_back(delta_work<T> &w, float error[DELTA_ROWS])
{
    float by[DELTA_ROWS], known[DELTA_ROWS];

    for (unsigned r = 0; r < DELTA_ROWS; r++)
        by[r] = w.s.since[delta_row(r)];
    delta_spread_state(w.dq, known, by, w.rest.du, w, w.q);
    for (unsigned r = 0; r < DELTA_ROWS; r++)
        w.db[r] += by[r] * known[r];
    delta_read(known, delta_keys(w.s), w.rest.state, DELTA_PITCH, w.f.of.key);
    for (unsigned r = 0; r < DELTA_ROWS; r++) {
        unsigned i = delta_row(r);

        error[r] = w.get(w.f.of.v, i) - by[r] * known[r];
        w.rest.u[i * DELTA_PITCH + w.lane()] = w.s.beta[i] * error[r];
    }
}

/* With dS': the gradient of u, until it is solved, replaces dout; what writes the state adds
 * to dk. */
template <typename T> __device__ static inline void delta_write_back(delta_work<T> &w)
{
    float by[DELTA_ROWS], known[DELTA_ROWS], out[DELTA_ROWS];

    delta_pair_rows(w.dscore, w.rest.du, w.rest.u);
    delta_read_scores(out, w.s, w.f.dout, w.place.first, w.place.rows, w.at(), w.has());
    delta_read(known, delta_keys(w.s), w.rest.state, DELTA_PITCH, w.f.of.key);
    __syncthreads(); /* all have read dout */
    for (unsigned r = 0; r < DELTA_ROWS; r++) {
        by[r] = w.s.until[delta_row(r)];
        w.rest.du[delta_row(r) * DELTA_PITCH + w.lane()] = out[r] + by[r] * known[r];
    }
    delta_spread_state(w.dk, known, by, w.rest.u, w, delta_keys(w.s));
    for (unsigned r = 0; r < DELTA_ROWS; r++) {
        w.db[r] -= by[r] * known[r];
        w.slope[r] += by[r] * known[r];
    }
}

/* With S again, and the gradient of the system's right side: dv, and what it adds. */
template <typename T>
__device__ static inline void delta_solved_back(delta_work<T> &w,
                                                const float error[DELTA_ROWS])
{
    float by[DELTA_ROWS], known[DELTA_ROWS];

    delta_pair_rows(w.dsystem, w.rest.du, w.rest.u);
    for (unsigned r = 0; r < DELTA_ROWS; r++) {
        unsigned i = delta_row(r);
        float du = w.rest.du[i * DELTA_PITCH + w.lane()];

        if (w.has() && i < w.place.rows)
            *w.f.dv.at(w.place.first + i, w.at()) = from_float<T>(w.s.beta[i] * du);
        w.dbeta[r] += warp_sum(du * error[r]);
        by[r] = -w.s.beta[i] * w.s.since[i];
    }
    delta_spread_state(w.dk, known, by, w.rest.du, w, delta_keys(w.s));
    for (unsigned r = 0; r < DELTA_ROWS; r++)
        w.db[r] += by[r] * known[r];
}

/* WARP columns of the values of a head. */
template <typename T> __device__ static void delta_columns(delta_work<T> &w)
{
    float error[DELTA_ROWS];

    for (unsigned d = threadIdx.x / WARP; d < w.f.of.key; d += DELTA_WARPS)
        w.rest.state[d * DELTA_PITCH + w.lane()] = 0;
    delta_load_state(w, w.f.states);
    for (unsigned r = 0; r < DELTA_ROWS; r++)
        w.rest.du[delta_row(r) * DELTA_PITCH + w.lane()] = w.get(w.f.dout, delta_row(r));
    __syncthreads();
    delta_read_back(w, error);
    __syncthreads();
    if (threadIdx.x < WARP)
        delta_solve(w.s, w.rest.u);
    w.product += delta_load_state(w, w.f.dstates);
    __syncthreads();
    delta_write_back(w);
    __syncthreads();
    if (threadIdx.x < WARP)
        delta_solve_back(w.s, w.rest.du);
    delta_load_state(w, w.f.states);
    __syncthreads();
    delta_solved_back(w, error);
    __syncthreads();
}

/* to += W x or W^T x for W (DELTA_CHUNK, DELTA_CHUNK) in shared memory and x of keys. */
template <typename X>
__device__ static inline void delta_spread(float to[DELTA_ROWS][DELTA_PARTS],
                                           const float *w, bool turned, const X &x,
                                           unsigned key)
{
    for (unsigned j = 0; j < DELTA_CHUNK; j++)
#pragma unroll
        for (unsigned part = 0; part < DELTA_PARTS; part++) {
            unsigned d = part * WARP + threadIdx.x % WARP;
            float value = d < key ? x.at(j, d) : 0;

#pragma unroll
            for (unsigned r = 0; r < DELTA_ROWS; r++) {
                unsigned i = delta_row(r);

                to[r][part] +=
                    value * (turned ? w[j * DELTA_PITCH + i] : w[i * DELTA_PITCH + j]);
            }
        }
}

/* After all columns of a head: the gradients of its pairs of rows, as factors of k and q in
 * u and du; of its decays, in the state's room; dbeta. */
template <typename T> __device__ static inline void delta_finish_pairs(delta_work<T> &w)
{
    const unsigned lane = w.lane();

    for (unsigned r = 0; r < DELTA_ROWS; r++) {
        unsigned i = delta_row(r);
        float system = lane < i ? -w.dsystem[r] : 0, slope = 0;

        if (lane < i)
            slope = w.dscore[r] * w.s.pairs[lane * DELTA_PITCH + i] +
                    system * w.s.pairs[i * DELTA_PITCH + lane];
        w.db[r] += warp_sum(slope);
        w.dbeta[r] += warp_sum(system * w.pair.gram[r] * w.pair.fade[r]);
        w.rest.u[i * DELTA_PITCH + lane] = lane <= i ? w.dscore[r] * w.pair.fade[r] : 0;
        w.rest.du[i * DELTA_PITCH + lane] = system * w.s.beta[i] * w.pair.fade[r];
        w.rest.state[i * DELTA_PITCH + lane] = slope;
        if (lane > 0)
            continue;
        w.rest.slopes[i] = w.db[r];
        w.rest.ends[i] = w.slope[r];
        if (i < w.place.rows)
            *w.f.dbeta.at(w.place.first + i, w.head) = w.dbeta[r];
    }
}

template <typename T> __device__ static void delta_finish_head(delta_work<T> &w)
{
    const unsigned key = w.f.of.key;
    float product = block_sum(w.product, w.rest.sums);

    delta_finish_pairs(w);
    __syncthreads();
    delta_spread(w.dq, w.rest.u, false, delta_keys(w.s), key);
    delta_spread(w.dk, w.rest.u, true, w.q, key);
    delta_spread(w.dk, w.rest.du, false, delta_keys(w.s), key);
    delta_spread(w.dk, w.rest.du, true, delta_keys(w.s), key);
    if (threadIdx.x < DELTA_CHUNK)
        for (unsigned i = threadIdx.x + 1; i < DELTA_CHUNK; i++)
            w.rest.slopes[threadIdx.x] -= w.rest.state[i * DELTA_PITCH + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = product * w.s.since[DELTA_CHUNK - 1];

        for (unsigned i = 0; i < DELTA_CHUNK; i++)
            sum += w.rest.ends[i];
        for (unsigned i = w.place.rows; i-- > 0;) {
            sum += w.rest.slopes[i];
            *w.f.ddecay.at(w.place.first + i, w.head) = sum;
        }
    }
    __syncthreads();
}

/* Back through the normalization of the rows of this warp, and write them. */
template <typename T, typename X>
__device__ static inline void delta_finish_keys(const delta_work<T> &w, const view<T> &to,
                                                const float dy[DELTA_ROWS][DELTA_PARTS],
                                                const X &unit, const float *by,
                                                float share)
{
    const unsigned key = w.f.of.key;

#pragma unroll
    for (unsigned r = 0; r < DELTA_ROWS; r++) {
        unsigned i = delta_row(r);
        float along = 0;

#pragma unroll
        for (unsigned part = 0; part < DELTA_PARTS; part++)
            if (part * WARP + w.lane() < key)
                along += dy[r][part] * unit.at(i, part * WARP + w.lane());
        along = warp_sum(along) * share;
#pragma unroll
        for (unsigned part = 0; part < DELTA_PARTS; part++) {
            unsigned d = part * WARP + w.lane();

            if (d < key && i < w.place.rows)
                *to.at(w.place.first + i, (size_t)blockIdx.y * key + d) =
                    from_float<T>(by[i] * (dy[r][part] - unit.at(i, d) * along));
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(DELTA_THREADS) delta_chunks(struct delta_slopes<T> f)
{
    const unsigned key = f.of.key, sharing = f.of.heads / f.of.key_heads;
    delta_work<T> w = {};

    w.f = f;
    w.s = delta_shared_at((float *)shared_memory(), key);
    w.rest = delta_rest_at(w.s.rest, key);
    if (!delta_find(f.of, &w.place))
        return;
    w.q = delta_load_keys(w.s, f.of, w.place.first, w.place.rows, blockIdx.y);
    for (unsigned i = 0; i < sharing; i++) {
        w.head = blockIdx.y * sharing + i;
        w.product = 0;
        delta_load_gates(w.s, f.of, w.place.first, w.place.rows, w.head);
        __syncthreads();
        w.pair = delta_make_pairs(w.s, w.q, key);
        __syncthreads();
        for (unsigned r = 0; r < DELTA_ROWS; r++)
            w.dscore[r] = w.dsystem[r] = w.db[r] = w.dbeta[r] = w.slope[r] = 0;
        for (w.column = 0; w.column < f.of.value; w.column += WARP)
            delta_columns(w);
        delta_finish_head(w);
    }
    delta_finish_keys(w, f.dq, w.dq, w.q, w.s.q_by, (float)key);
    delta_finish_keys(w, f.dk, w.dk, delta_keys(w.s), w.s.k_by, 1);
}

template <typename T>
static cudaError_t backward_typed(const struct cuda_launch *to,
                                  const struct op_delta_backward *op)
{
    const struct op_delta *forward = &op->forward;
    struct delta_slopes<T> f = {
        delta_operands_of<T>(forward), view_of<T>(op->dq), view_of<T>(op->dk),
            view_of<T>(op->dv), view_of<float>(op->ddecay), view_of<float>(op->dbeta),
            view_of<const T>(op->dout), view_of<float>(op->states),
            view_of<float>(op->dstates)
    };
    size_t common = delta_shared_floats(f.of.key);
    size_t scan = common + f.of.key * WARP + DELTA_CHUNK * DELTA_PITCH;
    size_t whole = common + delta_rest_floats(f.of.key);
    dim3 columns((f.of.value + WARP - 1) / WARP, f.of.heads, f.of.sequences);
    dim3 chunks((unsigned)op_delta_chunks(forward->q.rows, forward->sequences),
                f.of.key_heads);
    cudaError_t status;

    if (whole * sizeof(float) > to->shared_max)
        return cudaErrorNotSupported;
    status = launch(to->stream, delta_return<T>, columns, dim3(DELTA_THREADS),
                    scan * sizeof(float), f);
    if (status != cudaSuccess)
        return status;
    return launch(to->stream, delta_chunks<T>, chunks, dim3(DELTA_THREADS),
                  whole * sizeof(float), f);
}

cudaError_t launch_delta_backward(const struct cuda_launch *to,
                                  const struct op_delta_backward *op)
{
    struct op_delta again = op->forward;
    cudaError_t status;

    if (again.sequences == 0 || again.q.rows == 0)
        return cudaSuccess;
    again.out.data = NULL;
    again.state.data = NULL;
    status = delta_forward_launch(to, &again, op->states);
    if (status != cudaSuccess)
        return status;
    return BY_FORMAT(again.q.format, T, backward_typed<T>(to, op));
}
