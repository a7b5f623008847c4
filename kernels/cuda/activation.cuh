/*
 * kernels/cuda/activation.cuh - the functions of enum activation and their slopes, for
 * one value. The compiler drops the parts of the result that a caller does not use.
 *
 * With 16 bits the exponential is the hardware's, whose error of 1e-6 is lost in the
 * rounding.
 */
#ifndef KERNELS_CUDA_ACTIVATION_CUH
#define KERNELS_CUDA_ACTIVATION_CUH

#include "kernels/cuda/elementwise_kernel.cuh"

#include "kernels/gelu.h"

__device__ static inline float exp_minus(float x, float)
{
    return expf(-x);
}

template <typename T> __device__ static inline float exp_minus(float x, T)
{
    return exp2_fast(x * -1.44269504f);
}

/* act(x) = value = x * share, act'(x) = slope * bend: two factors, in the order in which
 * the gradients of a gate are multiplied. */
struct activated {
    float value, share, slope, bend;
};

template <typename T> __device__ static inline struct activated activation_silu(float x)
{
    float all = 1 + exp_minus(x, T()), share = 1 / all;

    return { x / all, share, share, 1 + x * (1 - share) };
}

/* share is Phi(x), of the normal distribution; `more` is the rounding error of u^2
 * / 2. */
template <typename T> __device__ static inline struct activated activation_gelu(float x)
{
    float u = fminf(fabsf(x), GELU_MOST), half = u * u * 0.5f;
    float more = fmaf(u * 0.5f, u, -half), bell = exp_minus(half, T()) * (1 - more);
    float s = GELU_SHIFT / (u + GELU_SHIFT), tail = bell * GELU_TAIL(s);
    float share = x < 0 ? tail : 1 - tail;

    return { x * share, share, share + x * bell * GELU_PEAK, 1 };
}

/* share is 1 / (1 + e^-2z); with t = e^-|2z| neither it nor 1 - share loses digits.
 * Beyond 16 one of them is 0, and x^2 may overflow. */
template <typename T>
__device__ static inline struct activated activation_gelu_tanh(float x)
{
    float near = fmaxf(fminf(x, 16.0f), -16.0f), square = near * near;
    float twice = near * (GELU_TANH_LINEAR + GELU_TANH_CUBIC * square);
    float t = exp_minus(fabsf(twice), T()), larger = 1 / (1 + t);
    float share = x < 0 ? t * larger : larger;
    float turn = GELU_TANH_LINEAR + 3 * GELU_TANH_CUBIC * square;

    return { x * share, share, share + x * (t * larger * larger) * turn, 1 };
}

/* NaN stays NaN. */
__device__ static inline struct activated activation_relu(float x)
{
    float share = x <= 0 ? 0 : 1;

    return { x <= 0 ? 0 : x, share, share, 1 };
}

__device__ static inline struct activated activation_relu2(float x)
{
    float share = x <= 0 ? 0 : x;

    return { share * share, share, share, 2 };
}

/* With t = e^-|x| neither it nor 1 - it loses digits.  It is no product with x: callers do
 * not use share. */
template <typename T>
__device__ static inline struct activated activation_sigmoid(float x)
{
    float t = exp_minus(fabsf(x), T()), larger = 1 / (1 + t);
    float value = x < 0 ? t * larger : larger;

    return { value, 0, value, x < 0 ? larger : t * larger };
}

template <typename T>
__device__ static inline struct activated activation_quick_gelu(float x)
{
    float z = x * GELU_QUICK_LINEAR, all = 1 + exp_minus(z, T()), share = 1 / all;

    return { x / all, share, share, 1 + z * (1 - share) };
}

template <enum activation kind, typename T>
__device__ static inline struct activated activated_by(float x)
{
    return kind == ACTIVATION_GELU         ? activation_gelu<T>(x)
           : kind == ACTIVATION_GELU_TANH  ? activation_gelu_tanh<T>(x)
           : kind == ACTIVATION_RELU       ? activation_relu(x)
           : kind == ACTIVATION_RELU2      ? activation_relu2(x)
           : kind == ACTIVATION_SIGMOID    ? activation_sigmoid<T>(x)
           : kind == ACTIVATION_QUICK_GELU ? activation_quick_gelu<T>(x)
                                           : activation_silu<T>(x);
}

/* BY_KIND(op->kind, K, launch_it<K, T>(...)) is the expression with K a constant. */
#define KIND_IS(kind, K, ...)               \
    ([&] {                                  \
        constexpr enum activation K = kind; \
        return __VA_ARGS__;                 \
    }())
#define BY_KIND(kind, K, ...)                                                           \
    ((kind) == ACTIVATION_SILU         ? KIND_IS(ACTIVATION_SILU, K, __VA_ARGS__)       \
     : (kind) == ACTIVATION_GELU       ? KIND_IS(ACTIVATION_GELU, K, __VA_ARGS__)       \
     : (kind) == ACTIVATION_GELU_TANH  ? KIND_IS(ACTIVATION_GELU_TANH, K, __VA_ARGS__)  \
     : (kind) == ACTIVATION_RELU       ? KIND_IS(ACTIVATION_RELU, K, __VA_ARGS__)       \
     : (kind) == ACTIVATION_RELU2      ? KIND_IS(ACTIVATION_RELU2, K, __VA_ARGS__)      \
     : (kind) == ACTIVATION_SIGMOID    ? KIND_IS(ACTIVATION_SIGMOID, K, __VA_ARGS__)    \
     : (kind) == ACTIVATION_QUICK_GELU ? KIND_IS(ACTIVATION_QUICK_GELU, K, __VA_ARGS__) \
                                       : cudaErrorNotSupported)

#endif
