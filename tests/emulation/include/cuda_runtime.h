/*
 * tests/emulation/include/cuda_runtime.h - the twin of CUDA's header: the parts of CUDA C
 * that the kernels use ("CUDA C++ Programming Guide", 13.0). For C it is
 * cuda_runtime_api.h.
 */
#ifndef TESTS_EMULATION_CUDA_RUNTIME_H
#define TESTS_EMULATION_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#include "tests/emulation/emulation_machine.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

/* Vectors have the alignment of the hardware; those of three elements have none. */
#define EMULATION_VECTOR(type, name)                                                  \
    struct name##1                                                                    \
    {                                                                                 \
        type x;                                                                       \
    };                                                                                \
    struct __attribute__((aligned(2 * sizeof(type)))) name##2                         \
    {                                                                                 \
        type x, y;                                                                    \
    };                                                                                \
    struct __attribute__((aligned(sizeof(type) < 8 ? 4 * sizeof(type) : 16))) name##4 \
    {                                                                                 \
        type x, y, z, w;                                                              \
    };                                                                                \
    static inline name##2 make_##name##2(type x, type y)                              \
    {                                                                                 \
        return { x, y };                                                              \
    }                                                                                 \
    static inline name##4 make_##name##4(type x, type y, type z, type w)              \
    {                                                                                 \
        return { x, y, z, w };                                                        \
    }
#define EMULATION_VECTOR_3(type, name)                           \
    struct name##3                                               \
    {                                                            \
        type x, y, z;                                            \
    };                                                           \
    static inline name##3 make_##name##3(type x, type y, type z) \
    {                                                            \
        return { x, y, z };                                      \
    }

EMULATION_VECTOR(signed char, char)
EMULATION_VECTOR(unsigned char, uchar)
EMULATION_VECTOR(short, short)
EMULATION_VECTOR(unsigned short, ushort)
EMULATION_VECTOR(int, int)
EMULATION_VECTOR(unsigned, uint)
EMULATION_VECTOR(float, float)
EMULATION_VECTOR(double, double)
EMULATION_VECTOR(long long, longlong)
EMULATION_VECTOR(unsigned long long, ulonglong)
EMULATION_VECTOR_3(int, int)
EMULATION_VECTOR_3(float, float)
static inline uint3 make_uint3(unsigned x, unsigned y, unsigned z)
{
    return { x, y, z };
}

#define __syncthreads()        ((void)emulation_barrier(EMULATION_HERE, BARRIER_PLAIN, 0))
#define __syncthreads_count(x) emulation_barrier(EMULATION_HERE, BARRIER_COUNT, (x) != 0)
#define __syncthreads_and(x)   emulation_barrier(EMULATION_HERE, BARRIER_AND, (x) != 0)
#define __syncthreads_or(x)    emulation_barrier(EMULATION_HERE, BARRIER_OR, (x) != 0)

static inline uint64_t emulation_gather(emulation_location location,
                                        emulation_rendezvous kind, unsigned mask,
                                        uint64_t value, int lane, int width)
{
    emulation_offer offer = {};

    offer.kind = kind;
    offer.location = location;
    offer.mask = mask;
    offer.value = value;
    offer.lane = lane;
    offer.width = width;
    emulation_meet(&offer);
    return offer.result;
}

template <typename T>
static inline T emulation_shuffle(emulation_location location, emulation_rendezvous kind,
                                  unsigned mask, T value, int lane, int width = 32)
{
    uint64_t bits = 0;

    static_assert(sizeof(T) <= sizeof(bits), "shuffles take up to 8 bytes");
    memcpy(&bits, &value, sizeof(T));
    bits = emulation_gather(location, kind, mask, bits, lane, width);
    memcpy(&value, &bits, sizeof(T));
    return value;
}

struct emulation_sync {
    emulation_location location;
    void operator()(unsigned mask = 0xffffffffu) const
    {
        emulation_gather(location, MEET_SYNC, mask, 0, 0, 32);
    }
};

static inline unsigned emulation_ballot(emulation_location location, unsigned mask,
                                        int predicate)
{
    return (unsigned)emulation_gather(location, MEET_BALLOT, mask, predicate != 0, 0, 32);
}

#define __syncwarp       (emulation_sync { EMULATION_HERE })
#define __shfl_sync(...) emulation_shuffle(EMULATION_HERE, MEET_SHUFFLE, __VA_ARGS__)
#define __shfl_up_sync(...) \
    emulation_shuffle(EMULATION_HERE, MEET_SHUFFLE_UP, __VA_ARGS__)
#define __shfl_down_sync(...) \
    emulation_shuffle(EMULATION_HERE, MEET_SHUFFLE_DOWN, __VA_ARGS__)
#define __shfl_xor_sync(...) \
    emulation_shuffle(EMULATION_HERE, MEET_SHUFFLE_XOR, __VA_ARGS__)
#define __ballot_sync(mask, x) emulation_ballot(EMULATION_HERE, mask, x)
#define __any_sync(mask, x)    (emulation_ballot(EMULATION_HERE, mask, x) != 0)
#define __all_sync(mask, x)    (emulation_ballot(EMULATION_HERE, mask, !(x)) == 0)
#define __match_any_sync(mask, x) \
    ((unsigned)emulation_gather(EMULATION_HERE, MEET_MATCH, mask, (uint64_t)(x), 0, 32))

/* All threads of the machine run in one thread of the system: nothing is reordered. */
static inline void __threadfence(void)
{
}
static inline void __threadfence_block(void)
{
}

#define EMULATION_ATOMIC(name, type, expression)                                     \
    __attribute__((no_sanitize("thread"))) static inline type name(type *at, type x) \
    {                                                                                \
        type was;                                                                    \
                                                                                     \
        emulation_atomic(at, sizeof(type));                                          \
        was = *at;                                                                   \
        *at = expression;                                                            \
        return was;                                                                  \
    }
#define EMULATION_ATOMICS(type)                                          \
    EMULATION_ATOMIC(atomicAdd, type, was + x)                           \
    EMULATION_ATOMIC(atomicMax, type, was > x ? was : x)                 \
    EMULATION_ATOMIC(atomicMin, type, was < x ? was : x)                 \
    EMULATION_ATOMIC(atomicExch, type, x)                                \
    EMULATION_ATOMIC(atomicOr, type, was | x)                            \
    EMULATION_ATOMIC(atomicAnd, type, was &x)                            \
    __attribute__((no_sanitize("thread"))) static inline type atomicCAS( \
        type *at, type old, type x)                                      \
    {                                                                    \
        type was;                                                        \
                                                                         \
        emulation_atomic(at, sizeof(type));                              \
        was = *at;                                                       \
        *at = was == old ? x : was;                                      \
        return was;                                                      \
    }
EMULATION_ATOMICS(int)
EMULATION_ATOMICS(unsigned)
EMULATION_ATOMICS(unsigned long long)

template <typename T> static inline T __ldg(const T *from)
{
    return *from;
}
template <typename T> static inline T __ldcs(const T *from)
{
    return *from;
}
template <typename T> static inline T __ldcg(const T *from)
{
    return *from;
}
template <typename T> static inline void __stcs(T *to, T x)
{
    *to = x;
}
template <typename T> static inline void __stcg(T *to, T x)
{
    *to = x;
}

template <typename To, typename From> static inline To emulation_bits(From from)
{
    To to;

    static_assert(sizeof(To) == sizeof(From), "the same bits");
    memcpy(&to, &from, sizeof(to));
    return to;
}
static inline unsigned __float_as_uint(float x)
{
    return emulation_bits<unsigned>(x);
}
static inline int __float_as_int(float x)
{
    return emulation_bits<int>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return emulation_bits<float>(x);
}
static inline float __int_as_float(int x)
{
    return emulation_bits<float>(x);
}
static inline long long __double_as_longlong(double x)
{
    return emulation_bits<long long>(x);
}
static inline double __longlong_as_double(long long x)
{
    return emulation_bits<double>(x);
}

static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

/* One operation, one rounding, which a compiler may not contract. */
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fsub_rn(float a, float b)
{
    return a - b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
static inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline float __frcp_rn(float a)
{
    return 1 / a;
}
static inline double __dadd_rn(double a, double b)
{
    return a + b;
}
static inline double __dmul_rn(double a, double b)
{
    return a * b;
}
static inline double __ddiv_rn(double a, double b)
{
    return a / b;
}
static inline double __dsqrt_rn(double a)
{
    return sqrt(a);
}
static inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}
static inline float __fdividef(float a, float b)
{
    return a / b;
}
static inline float rsqrtf(float x)
{
    return (float)(1 / sqrt((double)x));
}
static inline double rsqrt(double x)
{
    return 1 / sqrt(x);
}
static inline int __float2int_rn(float x)
{
    return (int)rintf(x);
}
static inline int __float2int_rz(float x)
{
    return (int)x;
}
static inline float __int2float_rn(int x)
{
    return (float)x;
}
static inline float __uint2float_rn(unsigned x)
{
    return (float)x;
}
static inline float __double2float_rn(double x)
{
    return (float)x;
}

template <typename A, typename B> static constexpr std::common_type_t<A, B> min(A a, B b)
{
    return b < a ? b : a;
}
template <typename A, typename B> static constexpr std::common_type_t<A, B> max(A a, B b)
{
    return a < b ? b : a;
}

#define __trap() emulation_fail("__trap at %s:%d", __FILE__, __LINE__)

#endif /* C has only the functions */

#endif
