/*
 * kernels/cuda/decode.cu - attention of one new row per sequence over cached keys and
 * values.
 *
 * A block processes one query head of one sequence. Its warps take every DECODE_WARPS-th
 * row, a lane every 32nd column, each with a separate online softmax; the last step
 * combines them in order. Heads that share keys and values read them through L2.
 *
 * Floor: keys and values once from memory, 2 (length) D elements for each key/value head.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

enum { DECODE_WARPS = 4 };

/* A warp's online softmax, and this lane's columns of the weighted sums of v. */
template <int N> struct decode_soft {
    float most, total, sums[N];
};

/* Return a row of the cache, or the new row, which the cache may not have yet. */
template <typename T>
__device__ inline const T *decode_row(const struct op_decode &op, struct tensor cache,
                                      struct tensor own, size_t slot, int row)
{
    return row == op.lengths[slot]
               ? (const T *)own.data + slot * own.stride
               : (const T *)cache.data + (slot * op.room + (size_t)row) * cache.stride;
}

template <typename T, int N>
__device__ inline void decode_load(float out[N], const T *from, int size)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        int column = (int)threadIdx.x % WARP + i * WARP;

        out[i] = column < size ? to_float(from[column]) : 0;
    }
}

template <int N>
__device__ inline void decode_take(struct decode_soft<N> &soft, float score,
                                   const float value[N])
{
    float most = fmaxf(soft.most, score), shift = most == -INFINITY ? 0 : most;
    float shrink = expf(soft.most - shift), weight = expf(score - shift);

    soft.most = most;
    soft.total = soft.total * shrink + weight;
#pragma unroll
    for (int i = 0; i < N; i++)
        soft.sums[i] = soft.sums[i] * shrink + weight * value[i];
}

/* Combine the warps' sums, stored one after another: N * WARP columns, most, total.  sink:
 * a logit that joins them, or NULL. */
template <typename T, int N>
__device__ inline void decode_join(const struct decode_soft<N> &soft, const float *sink,
                                   T *out, int size)
{
    enum { PART = N * WARP + 2 };
    float *parts = (float *)shared_memory();
    float *own = parts + threadIdx.x / WARP * PART;
    int lane = threadIdx.x % WARP;
    float most = sink ? *sink : -INFINITY, shift, total;

#pragma unroll
    for (int i = 0; i < N; i++)
        own[lane + i * WARP] = soft.sums[i];
    if (lane == 0) {
        own[N * WARP] = soft.most;
        own[N * WARP + 1] = soft.total;
    }
    __syncthreads();
    for (int w = 0; w < DECODE_WARPS; w++)
        most = fmaxf(most, parts[w * PART + N * WARP]);
    shift = most == -INFINITY ? 0 : most;
    total = sink ? expf(*sink - shift) : 0;
    for (int w = 0; w < DECODE_WARPS; w++)
        total +=
            parts[w * PART + N * WARP + 1] * expf(parts[w * PART + N * WARP] - shift);
    for (int column = threadIdx.x; column < size; column += DECODE_WARPS * WARP) {
        float sum = 0;

        for (int w = 0; w < DECODE_WARPS; w++)
            sum += parts[w * PART + column] * expf(parts[w * PART + N * WARP] - shift);
        out[column] = from_float<T>(sum / total);
    }
}

/* Append k or v of this head to its cached rows. */
template <typename T>
__device__ inline void decode_keep(const struct op_decode &op, struct tensor cache,
                                   struct tensor own, size_t slot, int head)
{
    int size = (int)op.head_size;
    size_t row = slot * op.room + (size_t)op.lengths[slot];
    const T *from = (const T *)own.data + slot * own.stride + head * size;
    T *to = (T *)cache.data + row * cache.stride + head * size;

    for (int i = threadIdx.x; i < size; i += DECODE_WARPS * WARP)
        to[i] = from[i];
}

/* Allow three blocks per multiprocessor: more would spill registers; two for the longest
 * heads. */
template <typename T, int N>
__global__ void __launch_bounds__(DECODE_WARPS *WARP, N > 8 ? 2 : 3)
    decode(struct op_decode op)
{
    int heads = (int)op.heads, sharing = heads / (int)op.kv_heads;
    int head = (int)(blockIdx.x % heads), size = (int)op.head_size;
    size_t slot = blockIdx.x / heads;
    int at = head / sharing * size, last = op.lengths[slot], window = (int)op.window;
    int start = op.chunk ? last / (int)op.chunk * (int)op.chunk : 0;
    struct decode_soft<N> soft = {
        - INFINITY, 0,
        {
            0
        }
    };
    float q[N], x[N], slope = alibi_slope(op.slopes, op.heads, (size_t)head);

    decode_load<T, N>(q, (const T *)op.q.data + slot * op.q.stride + head * size, size);
    for (int row = max(window && last >= window ? last - window + 1 : 0, start) +
                   (int)threadIdx.x / WARP;
         row <= last; row += DECODE_WARPS) {
        float score = 0;

        decode_load<T, N>(x, decode_row<T>(op, op.keys, op.k, slot, row) + at, size);
#pragma unroll
        for (int i = 0; i < N; i++)
            score += q[i] * x[i];
        score = warp_sum(score) * op.scale;
        if (op.softcap > 0)
            score = op.softcap * tanhf(score / op.softcap);
        score += slope * (float)(row - last);
        decode_load<T, N>(x, decode_row<T>(op, op.values, op.v, slot, row) + at, size);
        decode_take<N>(soft, score, x);
    }
    decode_join<T, N>(soft, op.sinks ? op.sinks + head : NULL,
                      (T *)op.out.data + slot * op.out.stride + head * size, size);
    if (head % sharing == 0) {
        decode_keep<T>(op, op.keys, op.k, slot, head / sharing);
        decode_keep<T>(op, op.values, op.v, slot, head / sharing);
    }
}

template <typename T, int N>
static cudaError_t launch_size(const struct cuda_launch *to, const struct op_decode *op)
{
    return launch(to->stream, decode<T, N>, dim3((unsigned)(op->q.rows * op->heads)),
                  dim3(DECODE_WARPS * WARP),
                  DECODE_WARPS * (N * WARP + 2) * sizeof(float), *op);
}

template <typename T>
static cudaError_t launch_typed(const struct cuda_launch *to, const struct op_decode *op)
{
    return op->head_size <= 64    ? launch_size<T, 2>(to, op)
           : op->head_size <= 128 ? launch_size<T, 4>(to, op)
           : op->head_size <= 256 ? launch_size<T, 8>(to, op)
           : op->head_size <= 512 ? launch_size<T, 16>(to, op)
                                  : cudaErrorNotSupported;
}

cudaError_t launch_decode(const struct cuda_launch *to, const struct op_decode *op)
{
    return BY_FORMAT(op->q.format, T, launch_typed<T>(to, op));
}
