/*
 * kernels/cuda/scan_backward.cu - gradients of the selective scan, given the states at the
 * start of each chunk and the gradients of those at its end.
 *
 * A block has a chunk of one group, and adds its heads in order.  For b and c a thread has a
 * column of the group; for x a warp has some rows, and a lane some columns.  Rows of b and c
 * and the states are read from memory, where neighbors read neighboring elements or the same
 * one.  The formulas are those of kernels/cpu/cpu_scan_backward.c.
 */
#include "kernels/cuda/scan.cuh"

enum {
    BACK_THREADS = 256,
    BACK_WARPS = BACK_THREADS / WARP,
    SCAN_PITCH = SCAN_CHUNK + 1
};

template <typename T> struct scan_slopes {
    scan_operands<T> of;
    view<T> dx, db, dc, ddt;
    view<const T> dout;
    view<const float> states, dstates;
    view<float> sums;
};

/* The shared memory of a block. */
struct scan_shared {
    float x[SCAN_CHUNK][SCAN_SIZE_MAX], dout[SCAN_CHUNK][SCAN_SIZE_MAX];
    float scores[SCAN_CHUNK][SCAN_PITCH], pairs[SCAN_CHUNK][SCAN_PITCH];
    float fade[SCAN_CHUNK][SCAN_PITCH]; /* e^(e_i - e_j), i not before j */
    float since[SCAN_CHUNK], step[SCAN_CHUNK], slope[SCAN_CHUNK];
    /* c dc and b db through states, of the columns of a warp */
    float reads[BACK_WARPS][SCAN_CHUNK], leaves[BACK_WARPS][SCAN_CHUNK];
    float dstep[SCAN_CHUNK], skipped[SCAN_CHUNK], room[WARP];
};

/* The rows of a chunk; count 0: the scratch has no such chunk. */
struct scan_rows {
    size_t first;
    unsigned count;
};

template <typename T>
__device__ static inline scan_rows scan_find(const scan_operands<T> &f, size_t chunk)
{
    unsigned low = 0, high = f.sequences;
    size_t first, last, row;

    while (high - low > 1) {
        unsigned middle = low + (high - low) / 2;

        if (scan_first_chunk((size_t)f.offsets[middle], middle) <= chunk)
            low = middle;
        else
            high = middle;
    }
    first = (size_t)f.offsets[low];
    last = (size_t)f.offsets[low + 1];
    row = first + (chunk - scan_first_chunk(first, low)) * SCAN_CHUNK;
    if (chunk < scan_first_chunk(first, low) || row >= last)
        return { 0, 0 };
    return { row, last - row < SCAN_CHUNK ? (unsigned)(last - row) : SCAN_CHUNK };
}

/* Load a head's rows of x and dout, which are 0 after the last, and its steps. */
template <typename T>
__device__ static inline void scan_load(scan_shared &s, const scan_slopes<T> &f,
                                        scan_rows rows, unsigned head, float bias)
{
    for (unsigned at = threadIdx.x; at < SCAN_CHUNK * f.of.size; at += BACK_THREADS) {
        unsigned i = at / f.of.size, p = at % f.of.size;
        size_t column = (size_t)head * f.of.size + p;
        bool has = i < rows.count;

        s.x[i][p] = has ? to_float(*f.of.x.at(rows.first + i, column)) : 0;
        s.dout[i][p] = has ? to_float(*f.dout.at(rows.first + i, column)) : 0;
    }
    if (threadIdx.x < SCAN_CHUNK) {
        scan_step at = { 0, 0 };

        if (threadIdx.x < rows.count)
            at = scan_step_of(f.of, rows.first + threadIdx.x, head, bias);
        s.step[threadIdx.x] = at.step;
        s.slope[threadIdx.x] = at.slope;
    }
}

/* scores = c b^T of a group */
template <typename T>
__device__ static inline void scan_scores(scan_shared &s, const scan_operands<T> &f,
                                          scan_rows rows, size_t group)
{
    for (unsigned at = threadIdx.x; at < SCAN_CHUNK * SCAN_CHUNK; at += BACK_THREADS) {
        unsigned i = at / SCAN_CHUNK, j = at % SCAN_CHUNK;
        float sum = 0;

        for (unsigned d = 0; j <= i && i < rows.count && d < f.depth; d++)
            sum += to_float(*f.c.at(rows.first + i, group + d)) *
                   to_float(*f.b.at(rows.first + j, group + d));
        s.scores[i][j] = sum;
    }
}

/* pairs = e^(e_i - e_j) step_j dout_i x_j.  The decays between two rows are added for each
 * pair, because their sum from the start may be large. */
__device__ static inline void scan_pairs(scan_shared &s, float rate, unsigned size)
{
    for (unsigned at = threadIdx.x; at < SCAN_CHUNK * SCAN_CHUNK; at += BACK_THREADS) {
        unsigned i = at / SCAN_CHUNK, j = at % SCAN_CHUNK;
        float sum = 0, decay = 0;

        if (j > i)
            continue;
        for (unsigned p = 0; p < size; p++)
            sum += s.dout[i][p] * s.x[j][p];
        for (unsigned n = j + 1; n <= i; n++)
            decay += s.step[n];
        s.fade[i][j] = expf(rate * decay);
        s.pairs[i][j] = sum * s.fade[i][j] * s.step[j];
        if (j == 0)
            s.since[i] = expf(rate * (s.step[0] + decay));
    }
}

/* Keep the sum over the columns of this warp. */
__device__ static inline void scan_keep_row(float to[BACK_WARPS][SCAN_CHUNK], unsigned i,
                                            float by)
{
    by = warp_sum(by);
    if (threadIdx.x % WARP == 0)
        to[threadIdx.x / WARP][i] = by;
}

/* Add a head's part of dc and db of this thread's column.  Return its part of what the state
 * at the start of the chunk adds at its end. */
template <typename T>
__device__ static inline float
scan_columns(scan_shared &s, const scan_slopes<T> &f, scan_rows rows, size_t chunk,
             unsigned head, unsigned d, float dc[SCAN_CHUNK], float db[SCAN_CHUNK])
{
    const bool has = d < f.of.depth;
    const size_t column = (size_t)(head / f.of.sharing) * f.of.depth + (has ? d : 0);
    const size_t part = (size_t)head * f.of.size * f.of.depth + (has ? d : 0);
    const float last = s.since[rows.count - 1];
    float state_part[SCAN_CHUNK] = {}, end = 0;

    for (unsigned p = 0; has && p < f.of.size; p++) {
        float state = *f.states.at(chunk, part + (size_t)p * f.of.depth);

        end += last * state * *f.dstates.at(chunk, part + (size_t)p * f.of.depth);
#pragma unroll
        for (unsigned i = 0; i < SCAN_CHUNK; i++)
            state_part[i] += s.dout[i][p] * state;
    }
#pragma unroll
    for (unsigned i = 0; i < SCAN_CHUNK; i++) {
        float sum = 0, c = 0;

        if (i < rows.count) {
            sum = state_part[i] * s.since[i];
            c = has ? sum * to_float(*f.of.c.at(rows.first + i, column)) : 0;
            for (unsigned j = 0; has && j <= i; j++)
                sum += s.pairs[i][j] * to_float(*f.of.b.at(rows.first + j, column));
        }
        dc[i] += sum;
        scan_keep_row(s.reads, i, c);
        state_part[i] = 0;
    }
    for (unsigned p = 0; has && p < f.of.size; p++) {
        float dstate = *f.dstates.at(chunk, part + (size_t)p * f.of.depth);

#pragma unroll
        for (unsigned j = 0; j < SCAN_CHUNK; j++)
            state_part[j] += s.x[j][p] * dstate;
    }
#pragma unroll
    for (unsigned j = 0; j < SCAN_CHUNK; j++) {
        float sum = 0, b = 0;

        if (j < rows.count) {
            sum = state_part[j] * s.fade[rows.count - 1][j] * s.step[j];
            b = has ? sum * to_float(*f.of.b.at(rows.first + j, column)) : 0;
            for (unsigned i = j; has && i < rows.count; i++)
                sum += s.pairs[i][j] * to_float(*f.of.c.at(rows.first + i, column));
        }
        db[j] += sum;
        scan_keep_row(s.leaves, j, b);
    }
    return end;
}

/* dx, and what step and skip get of each row. */
template <typename T>
__device__ static inline void scan_values(scan_shared &s, const scan_slopes<T> &f,
                                          scan_rows rows, size_t chunk, unsigned head)
{
    const unsigned lane = threadIdx.x % WARP;
    const size_t group = (size_t)(head / f.of.sharing) * f.of.depth;
    const float skip = f.of.skip.get(0, head);

    for (unsigned j = threadIdx.x / WARP; j < rows.count; j += BACK_WARPS) {
        const float until = s.fade[rows.count - 1][j];
        float dstep = 0, skipped = 0;

        for (unsigned p = lane; p < f.of.size; p += WARP) {
            const size_t part = ((size_t)head * f.of.size + p) * f.of.depth;
            float du = 0, x = s.x[j][p], dout = s.dout[j][p];

            for (unsigned d = 0; d < f.of.depth; d++)
                du += to_float(*f.of.b.at(rows.first + j, group + d)) *
                      *f.dstates.at(chunk, part + d);
            du *= until;
            for (unsigned i = j; i < rows.count; i++)
                du += s.scores[i][j] * s.fade[i][j] * s.dout[i][p];
            dstep += du * x;
            skipped += dout * x;
            *f.dx.at(rows.first + j, (size_t)head * f.of.size + p) =
                from_float<T>(s.step[j] * du + skip * dout);
        }
        dstep = warp_sum(dstep);
        skipped = warp_sum(skipped);
        if (lane == 0) {
            s.dstep[j] = dstep;
            s.skipped[j] = skipped;
        }
    }
}

/* The gradient of the decay of a row: scan_decay of cpu_scan_backward.c. */
__device__ static inline float scan_decay(const scan_shared &s, unsigned count,
                                          unsigned row, float end)
{
    float sum = end;

    for (unsigned i = 0; i < count; i++) {
        for (unsigned w = 0; w < BACK_WARPS; w++)
            sum += i < row ? s.leaves[w][i] : s.reads[w][i];
        for (unsigned j = 0; i >= row && j < row; j++)
            sum += s.pairs[i][j] * s.scores[i][j];
    }
    return sum;
}

/* ddt, and the sums of the chunk.  By one warp, a lane for each row. */
template <typename T>
__device__ static inline void scan_finish(const scan_shared &s, const scan_slopes<T> &f,
                                          scan_rows rows, size_t chunk, unsigned head,
                                          float rate, float end)
{
    const unsigned i = threadIdx.x;
    float da_log = 0, dbias = 0, dskip = 0;

    if (i < rows.count) {
        const float decay = scan_decay(s, rows.count, i, end) * rate;

        da_log = decay * s.step[i];
        dbias = (s.dstep[i] + decay) * s.slope[i];
        dskip = s.skipped[i];
        *f.ddt.at(rows.first + i, head) = from_float<T>(dbias);
    }
    da_log = warp_sum(da_log);
    dbias = warp_sum(dbias);
    dskip = warp_sum(dskip);
    if (i > 0)
        return;
    *f.sums.at(chunk, 3 * (size_t)head) = da_log;
    *f.sums.at(chunk, 3 * (size_t)head + 1) = dbias;
    *f.sums.at(chunk, 3 * (size_t)head + 2) = dskip;
}

static_assert((int)SCAN_CHUNK == (int)WARP, "a lane for each row");

template <typename T>
__global__ void __launch_bounds__(BACK_THREADS) scan_backward(struct scan_slopes<T> f)
{
    scan_shared &s = *(scan_shared *)shared_memory();
    const size_t chunk = blockIdx.x;
    const unsigned first = blockIdx.y * f.of.sharing, d = threadIdx.x;
    const size_t group = (size_t)blockIdx.y * f.of.depth;
    const scan_rows rows = scan_find(f.of, chunk);
    float dc[SCAN_CHUNK] = {}, db[SCAN_CHUNK] = {};

    if (rows.count == 0) {
        for (unsigned i = d; i < 3 * f.of.sharing; i += BACK_THREADS)
            *f.sums.at(chunk, 3 * (size_t)first + i) = 0;
        return;
    }
    scan_scores(s, f.of, rows, group);
    for (unsigned head = first; head < first + f.of.sharing; head++) {
        const float rate = -expf(f.of.a_log.get(0, head));
        float end;

        scan_load(s, f, rows, head, f.of.bias.get(0, head));
        __syncthreads();
        scan_pairs(s, rate, f.of.size);
        __syncthreads();
        end = scan_columns(s, f, rows, chunk, head, d, dc, db);
        scan_values(s, f, rows, chunk, head);
        end = block_sum(end, s.room);
        if (d < WARP)
            scan_finish(s, f, rows, chunk, head, rate, end);
        __syncthreads();
    }
    if (d >= f.of.depth)
        return;
#pragma unroll
    for (unsigned i = 0; i < SCAN_CHUNK; i++)
        if (i < rows.count) {
            *f.dc.at(rows.first + i, group + d) = from_float<T>(dc[i]);
            *f.db.at(rows.first + i, group + d) = from_float<T>(db[i]);
        }
}

/* Add up the chunks in order. */
static __global__ void __launch_bounds__(BACK_THREADS)
    scan_total(view<const float> sums, size_t chunks, unsigned heads, float *da_log,
               float *dbias, float *dskip)
{
    const unsigned at = blockIdx.x * BACK_THREADS + threadIdx.x, head = at / 3;
    float *to = at % 3 == 0 ? da_log : at % 3 == 1 ? dbias : dskip, sum = 0;

    if (head >= heads || !to)
        return;
    for (size_t i = 0; i < chunks; i++)
        sum += *sums.at(i, at);
    to[head] += sum;
}

template <typename T>
static cudaError_t backward_typed(const struct cuda_launch *to,
                                  const struct op_scan_backward *op)
{
    const struct scan_slopes<T> f = {
        scan_operands_of<T>(&op->forward), view_of<T>(op->dx), view_of<T>(op->db),
            view_of<T>(op->dc), view_of<T>(op->ddt), view_of<const T>(op->dout),
            view_of<const float>(op->states), view_of<const float>(op->dstates),
            view_of<float>(op->sums)
    };
    const size_t chunks = op_scan_chunks(op->dout.rows, op->forward.sequences);

    return launch(to->stream, scan_backward<T>,
                  dim3((unsigned)chunks, (unsigned)op->forward.groups),
                  dim3(BACK_THREADS), sizeof(scan_shared), f);
}

cudaError_t launch_scan_backward(const struct cuda_launch *to,
                                 const struct op_scan_backward *op)
{
    const unsigned heads = (unsigned)op->forward.heads;
    cudaError_t status;

    if (op->forward.sequences == 0)
        return cudaSuccess;
    if (sizeof(scan_shared) > to->shared_max)
        return cudaErrorNotSupported;
    status = launch_scan_states(to, op);
    if (status == cudaSuccess)
        status = BY_FORMAT(op->dout.format, T, backward_typed<T>(to, op));
    if (status != cudaSuccess)
        return status;
    return launch(
        to->stream, scan_total, dim3((3 * heads + BACK_THREADS - 1) / BACK_THREADS),
        dim3(BACK_THREADS), 0, view_of<const float>(op->sums),
        op_scan_chunks(op->dout.rows, op->forward.sequences), heads,
        (float *)op->da_log.data, (float *)op->dbias.data, (float *)op->dskip.data);
}
