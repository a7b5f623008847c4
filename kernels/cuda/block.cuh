/*
 * kernels/cuda/block.cuh - building blocks of kernels: element formats, vector loads,
 * sums over a warp and a block, random bits, and grid sizes.
 *
 * Sums have a fixed order: a butterfly in the warp, then the warps in order.
 */
#ifndef KERNELS_CUDA_BLOCK_CUH
#define KERNELS_CUDA_BLOCK_CUH

#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/hardware.cuh"
#include "precision/format.h"

enum { WARP = 32 };
#define FULL_WARP_MASK 0xffffffffu

/* Return the number of blocks of a kernel with a grid-stride loop: one per unit of work,
 * at most `each` per multiprocessor; 1 if there is no work. */
static inline unsigned blocks_for(const struct cuda_launch *to, size_t wanted,
                                  size_t each)
{
    size_t most = (size_t)to->multiprocessors * each;

    if (wanted == 0)
        return 1;
    return (unsigned)(wanted < most ? wanted : most);
}

/* The three formats as types.  Conversions round to nearest even. */
typedef __half fp16;
typedef __nv_bfloat16 bf16;

__device__ inline float to_float(float x)
{
    return x;
}
__device__ inline float to_float(fp16 x)
{
    return __half2float(x);
}
__device__ inline float to_float(bf16 x)
{
    return __bfloat162float(x);
}

template <typename T> __device__ inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x)
{
    return x;
}
template <> __device__ inline fp16 from_float<fp16>(float x)
{
    return __float2half_rn(x);
}
template <> __device__ inline bf16 from_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* `n` elements that are read or written in one access of n * sizeof(T) <= 16 bytes; the
 * address is a multiple of that. */
template <typename T, int n> struct alignas(sizeof(T) * n) pack {
    T at[n];
};

template <int n, typename T> __device__ inline void load(float out[n], const T *from)
{
    pack<T, n> p = *(const pack<T, n> *)from;

#pragma unroll
    for (int i = 0; i < n; i++)
        out[i] = to_float(p.at[i]);
}

template <int n, typename T> __device__ inline void store(T *to, const float in[n])
{
    pack<T, n> p;

#pragma unroll
    for (int i = 0; i < n; i++)
        p.at[i] = from_float<T>(in[i]);
    *(pack<T, n> *)to = p;
}

/* Over `lanes` neighbors, a power of two: each gets the sum, or the maximum. All lanes of
 * the warp take part. */
template <int lanes, typename T> __device__ inline T lanes_sum(T x)
{
#pragma unroll
    for (int i = lanes / 2; i > 0; i /= 2)
        x += __shfl_xor_sync(FULL_WARP_MASK, x, i);
    return x;
}

template <int lanes> __device__ inline float lanes_largest(float x)
{
#pragma unroll
    for (int i = lanes / 2; i > 0; i /= 2)
        x = fmaxf(x, __shfl_xor_sync(FULL_WARP_MASK, x, i));
    return x;
}

/* Over the warp. */
template <typename T> __device__ inline T warp_sum(T x)
{
    return lanes_sum<WARP>(x);
}

__device__ inline float warp_largest(float x)
{
    return lanes_largest<WARP>(x);
}

/* All threads of the block (blockDim.x of them, whole warps) get the sum. `room` is
 * shared memory for 32 values; it may be reused immediately. */
template <typename T> __device__ inline T block_sum(T x, T *room)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;

    x = warp_sum(x);
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    x = warp_sum(lane < warps ? room[lane] : T(0));
    __syncthreads();
    return x;
}

/* The same for the maximum; NaN is not compared. */
__device__ inline float block_largest(float x, float *room)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;

    x = warp_largest(x);
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    x = warp_largest(room[lane < warps ? lane : 0]);
    __syncthreads();
    return x;
}

/* Philox 4x32-10 of the four words of a counter, as in base/random.h */
__device__ inline uint4 random_words(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t c2,
                                     uint32_t c3)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

#pragma unroll
    for (int i = 0; i < 10; i++) {
        uint64_t left = (uint64_t)0xD2511F53u * c0, right = (uint64_t)0xCD9E8D57u * c2;

        c0 = (uint32_t)(right >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)right;
        c2 = (uint32_t)(left >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)left;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
}

/* Four words of its random_bits. */
__device__ inline uint4 random_block(uint64_t seed, uint32_t site, uint32_t stream,
                                     uint64_t block)
{
    return random_words(seed, (uint32_t)block, (uint32_t)(block >> 32), stream, site);
}

/*
 * The one place that maps a format to a type: BY_FORMAT(op->x.format, T,
 * launch_it<T>(...)) is the expression with T float, fp16 or bf16; cudaErrorNotSupported
 * for any other format.
 */
#define BY_FORMAT(format, T, ...)       \
    ((format) == FORMAT_FP32   ? ([&] { \
        using T = float;              \
        return __VA_ARGS__;           \
    }())                              \
     : (format) == FORMAT_FP16 ? ([&] { \
           using T = fp16;              \
           return __VA_ARGS__;          \
       }())                             \
     : (format) == FORMAT_BF16 ? ([&] { \
           using T = bf16;              \
           return __VA_ARGS__;          \
       }())                             \
                               : cudaErrorNotSupported)

#endif
