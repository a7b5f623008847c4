/*
 * kernels/cuda/fp8.cu - rounds a matrix to 8 bits with one scale, for fp8 matmuls.
 *
 * Bytes moved per element of b bytes: b for the maximum, b + 1 for the rounding; 5 in 16
 * bits: (8192, 2048) is 84 MB, 21 us at 4.0 TB/s. The transpose next to it takes 1 more, a
 * maximum that is known b less.
 * About 15 instructions per element. The conversions are our own, so that every GPU has
 * them and they match precision/format.c.
 */
#include "kernels/cuda/block.cuh"

#include <float.h>

/* Blocks per multiprocessor; each goes over the matrix in a grid-stride loop. */
enum { THREADS = 256, BLOCKS = 8 };
/* A tile of SQUARE by SQUARE bytes is transposed in shared memory; its rows are 4 bytes
 * longer there, so that the bytes of a column are in different banks. */
enum { SQUARE = 64, SQUARE_STRIDE = SQUARE + 4 };

/* As format_to_e4m3 and format_to_e5m2; the largest value of each. */
struct e4m3 {
    static constexpr float max = 448;
};
struct e5m2 {
    static constexpr float max = 57344;
};

template <typename F> __device__ static uint32_t to_byte(float x);

template <> __device__ uint32_t to_byte<e4m3>(float x)
{
    uint32_t bits = __float_as_uint(x), rest = bits & 0x7fffffffu, out;

    if (rest >= 0x7f800000u)
        out = 0x7f;
    else if (rest >= 0x43e00000u)
        out = 0x7e;
    else if (rest < 0x3c800000u)
        out = __float_as_uint(__uint_as_float(rest) + 0x1p14f) - 0x46800000u;
    else
        out = (rest + 0x7ffffu + (rest >> 20 & 1) - (120u << 23)) >> 20;
    return (bits >> 24 & 0x80u) | out;
}

template <> __device__ uint32_t to_byte<e5m2>(float x)
{
    uint32_t bits = __float_as_uint(x), rest = bits & 0x7fffffffu, out;

    if (rest > 0x7f800000u)
        out = 0x7e;
    else if (rest >= 0x47700000u)
        out = 0x7c;
    else if (rest < 0x38800000u)
        out = __float_as_uint(__uint_as_float(rest) + 0x1p7f) - 0x43000000u;
    else
        out = (rest + 0xfffffu + (rest >> 21 & 1) - (112u << 23)) >> 21;
    return (bits >> 24 & 0x80u) | out;
}

template <typename T> struct source {
    const T *data;
    size_t rows, cols, stride;
};

/* Load elements col .. col + n of a row, zeros past its end; return how many exist. */
template <int n, typename T>
__device__ static int load_some(float x[n], const source<T> &from, size_t row, size_t col)
{
    const T *data = from.data + row * from.stride + col;
    int count = col + n <= from.cols ? n : (int)(from.cols - col);

    if (count == n) {
        load<n>(x, data);
        return n;
    }
#pragma unroll
    for (int j = 0; j < n; j++)
        x[j] = j < count ? to_float(data[j]) : 0;
    return count;
}

/* Iterates over the pieces of n elements of the matrix's rows. */
template <int n> struct walk {
    size_t i, apart, pieces, all;

    template <typename T>
    __device__ walk(const source<T> &from)
        : i((size_t)blockIdx.x * THREADS + threadIdx.x),
          apart((size_t)gridDim.x * THREADS), pieces((from.cols + n - 1) / n),
          all(from.rows * pieces)
    {
    }
    __device__ size_t row() const
    {
        return pieces == all ? 0 : i / pieces;
    }
    __device__ size_t col() const
    {
        return (pieces == all ? i : i % pieces) * n;
    }
};

/* Find the largest |x| of each block; NaN is ignored. */
template <typename T, int n>
static __global__ void __launch_bounds__(THREADS)
    find_largest(float *out, const source<T> from)
{
    float *room = (float *)shared_memory();
    float top = 0;

    for (walk<n> at(from); at.i < at.all; at.i += at.apart) {
        float x[n];

        load_some<n>(x, from, at.row(), at.col());
#pragma unroll
        for (int j = 0; j < n; j++)
            top = fmaxf(top, fabsf(x[j]));
    }
    top = block_largest(top, room);
    if (threadIdx.x == 0)
        out[blockIdx.x] = top;
}

/* Return the factor, from the largest elements of all blocks; the first block stores the
 * scale. */
template <typename F>
__device__ static float factor_of(const float *largest, unsigned count, float *scale)
{
    float *room = (float *)shared_memory();
    float top = 0, factor;

    for (unsigned i = threadIdx.x; i < count; i += THREADS)
        top = fmaxf(top, largest[i]);
    factor = F::max / block_largest(top, room);
    if (factor > FLT_MAX)
        factor = 1;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *scale = 1 / factor;
    return factor;
}

/* Round n elements and pack their bytes into words. */
template <typename F, int n>
__device__ static void to_bytes(uint32_t out[(n + 3) / 4], const float x[n], float factor)
{
#pragma unroll
    for (int j = 0; j < n; j++)
        out[j / 4] = (j % 4 ? out[j / 4] : 0) | to_byte<F>(x[j] * factor) << j % 4 * 8;
}

/* Operands of the rounding kernels. */
struct rounding {
    uint8_t *out, *turned; /* round_turned: out may be NULL */
    const float *largest;
    unsigned count; /* of largest */
    float *scale;
};

/* Store `count` of n bytes that are packed in words, at once if that is possible. */
template <int n>
__device__ static void store_some(uint8_t *out, uint32_t words[(n + 3) / 4], int count)
{
    if (n >= 4 && count == n && (uintptr_t)out % n == 0)
        *(pack<uint32_t, (n + 3) / 4> *)out = *(pack<uint32_t, (n + 3) / 4> *)words;
    else
#pragma unroll
        for (int j = 0; j < n; j++)
            if (j < count)
                out[j] = (uint8_t)(words[j / 4] >> j % 4 * 8);
}

template <typename T, typename F, int n>
static __global__ void __launch_bounds__(THREADS)
    round_rows(const rounding to, const source<T> from)
{
    float factor = factor_of<F>(to.largest, to.count, to.scale);

    for (walk<n> at(from); at.i < at.all; at.i += at.apart) {
        size_t row = at.row(), col = at.col();
        uint32_t words[(n + 3) / 4];
        float x[n];
        int count = load_some<n>(x, from, row, col);

        to_bytes<F, n>(words, x, factor);
        store_some<n>(to.out + row * from.cols + col, words, count);
    }
}

/* Round a tile of x, store its transpose in shared memory, and itself unless out is
 * NULL. */
template <typename T, typename F, int n>
__device__ static void turn_in(uint8_t *tile, uint8_t *out, const source<T> &from,
                               size_t row, size_t col, float factor)
{
#pragma unroll 2
    for (int i = threadIdx.x; i < SQUARE * SQUARE / n; i += THREADS) {
        int r = i / (SQUARE / n), c = i % (SQUARE / n) * n;
        uint32_t words[(n + 3) / 4];
        float x[n];
        int count;

        if (row + r >= from.rows || col + c >= from.cols)
            continue;
        count = load_some<n>(x, from, row + r, col + c);
        to_bytes<F, n>(words, x, factor);
#pragma unroll
        for (int j = 0; j < n; j++)
            tile[(c + j) * SQUARE_STRIDE + r] = (uint8_t)(words[j / 4] >> j % 4 * 8);
        if (out)
            store_some<n>(out + (row + r) * from.cols + col + c, words, count);
    }
}

/* Copy a transposed tile from shared memory to memory, four elements of a column of x at
 * a time. */
template <typename T>
__device__ static void turn_out(uint8_t *out, const uint8_t *tile, const source<T> &from,
                                size_t row, size_t col)
{
    for (int i = threadIdx.x; i < SQUARE * SQUARE / 4; i += THREADS) {
        int c = i / (SQUARE / 4), r = i % (SQUARE / 4) * 4;
        const uint8_t *in = tile + c * SQUARE_STRIDE + r;
        uint8_t *at = out + (col + c) * from.rows + row + r;

        if (col + c >= from.cols)
            continue;
        if (row + r + 4 <= from.rows && (uintptr_t)at % 4 == 0)
            *(uint32_t *)at = *(const uint32_t *)in;
        else
            for (int j = 0; j < 4 && row + r + j < from.rows; j++)
                at[j] = in[j];
    }
}

template <typename T, typename F, int n>
static __global__ void __launch_bounds__(THREADS)
    round_turned(const rounding to, const source<T> from)
{
    float factor = factor_of<F>(to.largest, to.count, to.scale);
    uint8_t *tile = (uint8_t *)shared_memory() + WARP * sizeof(float);
    size_t across = (from.cols + SQUARE - 1) / SQUARE;
    size_t tiles = (from.rows + SQUARE - 1) / SQUARE * across;

    for (size_t i = blockIdx.x; i < tiles; i += gridDim.x) {
        size_t row = i / across * SQUARE, col = i % across * SQUARE;

        turn_in<T, F, n>(tile, to.out, from, row, col, factor);
        __syncthreads();
        turn_out(to.turned, tile, from, row, col);
        __syncthreads();
    }
}

template <typename T, typename F, int n>
static cudaError_t launch_rounding(const struct cuda_launch *to,
                                   const struct cuda_quantize *op, source<T> x)
{
    size_t tiles = ((x.rows + SQUARE - 1) / SQUARE) * ((x.cols + SQUARE - 1) / SQUARE);
    size_t room = WARP * sizeof(float), pieces;
    float *largest = (float *)to->scratch;
    rounding r = { (uint8_t *)op->out, (uint8_t *)op->turned, largest, 0, op->scale };
    source<T> flat = x;
    unsigned blocks;
    cudaError_t status;

    if (x.stride == x.cols) {
        flat.cols = flat.stride = x.rows * x.cols;
        flat.rows = 1;
    }
    pieces = flat.rows * ((flat.cols + n - 1) / n);
    blocks = blocks_for(to, (pieces + THREADS - 1) / THREADS, BLOCKS);
    r.count = blocks;
    if (op->largest) {
        r.largest = op->largest;
        r.count = 1;
    } else {
        status = launch(to->stream, find_largest<T, n>, r.count, dim3(THREADS), room,
                        largest, flat);
        if (status != cudaSuccess)
            return status;
    }
    if (op->turned)
        return launch(to->stream, round_turned<T, F, n>, blocks_for(to, tiles, BLOCKS),
                      dim3(THREADS), room + SQUARE * SQUARE_STRIDE, r, x);
    return launch(to->stream, round_rows<T, F, n>, blocks, dim3(THREADS), room, r, flat);
}

template <typename T, typename F>
static cudaError_t launch_quantize_of(const struct cuda_launch *to,
                                      const struct cuda_quantize *op)
{
    constexpr int n = 16 / sizeof(T);
    const source<T> x = { (const T *)op->x.data, op->x.rows, op->x.cols, op->x.stride };
    bool even = (uintptr_t)x.data % 16 == 0 && x.stride % n == 0;

    return even ? launch_rounding<T, F, n>(to, op, x)
                : launch_rounding<T, F, 1>(to, op, x);
}

extern "C" cudaError_t launch_quantize(const struct cuda_launch *to,
                                       const struct cuda_quantize *op)
{
    if (op->format == FORMAT_FP8_E4M3)
        return BY_FORMAT(op->x.format, T, launch_quantize_of<T, e4m3>(to, op));
    if (op->format == FORMAT_FP8_E5M2)
        return BY_FORMAT(op->x.format, T, launch_quantize_of<T, e5m2>(to, op));
    return cudaErrorNotSupported;
}
