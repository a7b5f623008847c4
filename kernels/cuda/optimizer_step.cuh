/*
 * kernels/cuda/optimizer_step.cuh - what updates of weights share: how weights are stored, with
 * random bits if they are rounded stochastically; the scalars of a step; a pass over all
 * elements.
 */
#ifndef KERNELS_CUDA_OPTIMIZER_STEP_CUH
#define KERNELS_CUDA_OPTIMIZER_STEP_CUH

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_launch.h"

#include "base/random.h"

#include <math.h>

/* Blocks per multiprocessor, each with about 12 KB of loads in flight. */
enum { STEP_THREADS = 256, STEP_BLOCKS = 4, AT_ONCE = 4 };

/* Round x to a 16-bit format, up or down with the odds of its position between the
 * two neighbors: up if the sum of the truncated 16 bits and the upper half of
 * `draw` carries. */
template <typename T> __device__ inline float round_by(float x, uint32_t draw);

template <> __device__ inline float round_by<float>(float x, uint32_t)
{
    return x;
}

template <> __device__ inline float round_by<bf16>(float x, uint32_t draw)
{
    uint32_t bits = __float_as_uint(x);

    return x == x ? __uint_as_float((bits + (draw >> 16)) & 0xffff0000u) : x;
}

/* 10 mantissa bits, or below 2^-14 steps of 2^-24 */
template <> __device__ inline float round_by<fp16>(float x, uint32_t draw)
{
    uint32_t bits = __float_as_uint(x);
    float size = fabsf(x);

    if (size < 0x1p-14f) {
        uint32_t steps = ((uint32_t)(size * 0x1p40f) + (draw >> 16)) >> 16;

        return copysignf((float)steps * 0x1p-24f, x);
    }
    return x == x ? __uint_as_float((bits + (draw >> 19)) & 0xffffe000u) : x;
}

/* The source of a weight's random bits. */
struct draws {
    bool stochastic;
    uint64_t seed, first;
};

/* Four random words for elements i onwards. */
__device__ inline void draw_four(uint32_t out[4], const draws &d, int64_t step, size_t i)
{
    uint64_t at = d.first + i;
    int skip = (int)(at % 4);
    uint4 a = random_block(d.seed, RANDOM_ROUNDING, (uint32_t)step, at / 4), b = a;

    if (skip)
        b = random_block(d.seed, RANDOM_ROUNDING, (uint32_t)step, at / 4 + 1);
    uint32_t words[8] = { a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w };

#pragma unroll
    for (int j = 0; j < 4; j++)
        out[j] = skip == 0   ? words[j]
                 : skip == 1 ? words[j + 1]
                 : skip == 2 ? words[j + 2]
                             : words[j + 3];
}

/* Weights and their copy, n elements from i on. */
template <typename W> struct weights {
    W *w;
    void *copy;
    enum format format; /* of the copy */
    draws chance;

    template <int n> __device__ void put(size_t i, float x[n], int64_t step) const
    {
        if (copy && format == FORMAT_BF16)
            store<n>((bf16 *)copy + i, x);
        else if (copy && format == FORMAT_FP16)
            store<n>((fp16 *)copy + i, x);
        else if (copy)
            store<n>((float *)copy + i, x);
        if (sizeof(W) == 2 && chance.stochastic) {
            uint32_t draw[4];

            draw_four(draw, chance, step, i);
#pragma unroll
            for (int j = 0; j < n; j++)
                x[j] = round_by<W>(x[j], draw[j]);
        }
        store<n>(w + i, x);
    }
};

/* An optimizer's settings as passed, and the address of the scalars of its step. */
struct settings {
    double lr, beta1, beta2, eps, decay, grad_scale;
    int64_t step;
    const struct step_scalars *numbers;
    bool correct_eps = false, decay_last = false;
};

/* The form the loop uses. */
struct rates {
    int64_t step;
    bool made;
    float grad_scale, lr, keep, decay, beta1, beta2, rest1, rest2, rate, root, eps;
};

/* x^n, n > 0 */
__device__ inline double power(double x, int64_t n)
{
    double product = 1;

    for (; n > 0; n /= 2, x *= x)
        product *= n % 2 ? x : 1;
    return product;
}

/* One thread of the block computes the scalars of the step, in double as the CPU does. */
__device__ inline rates begin_step(const settings &s)
{
    rates *shared = (rates *)shared_memory();

    if (threadIdx.x == 0) {
        const struct step_scalars *numbers = s.numbers;
        double lr = s.lr * (numbers ? numbers->learning_rate : 1);
        double grad_scale = s.grad_scale * (numbers ? numbers->factor : 1);
        int64_t step = numbers ? numbers->step : s.step;

        shared->step = step;
        shared->made = !numbers || numbers->finite;
        shared->grad_scale = (float)grad_scale;
        shared->lr = (float)lr;
        shared->keep = (float)(1 - lr * s.decay);
        shared->decay = (float)s.decay;
        shared->beta1 = (float)s.beta1;
        shared->beta2 = (float)s.beta2;
        shared->rest1 = (float)(1 - s.beta1);
        shared->rest2 = (float)(1 - s.beta2);
        shared->rate = (float)(lr / (1 - power(s.beta1, step)));
        shared->root = (float)(1 / sqrt(1 - power(s.beta2, step)));
        if (s.decay_last)
            shared->rate *= shared->keep;
        shared->eps = (float)s.eps * (s.correct_eps ? shared->root : 1.0f);
    }
    __syncthreads();
    return *shared;
}

/* -1, 0 or 1; NaN stays. */
__device__ inline float sign_of(float x)
{
    return x > 0 ? 1.0f : x < 0 ? -1.0f : x;
}

template <typename O, int n>
static __global__ void __launch_bounds__(STEP_THREADS, STEP_BLOCKS)
    make_step(const O optimizer, const settings s, size_t numbers)
{
    const rates rates = begin_step(s);
    size_t apart = (size_t)gridDim.x * STEP_THREADS * n;
    size_t i = ((size_t)blockIdx.x * STEP_THREADS + threadIdx.x) * n;

    for (; rates.made && i + n <= numbers; i += apart)
        optimizer.template update<n>(i, rates);
    if (rates.made && i < numbers) /* the end, which is not a whole pack */
        for (; i < numbers; i++)
            optimizer.template update<1>(i, rates);
}

template <typename O>
static cudaError_t launch_step(const struct cuda_launch *to, const O &optimizer,
                               const settings &s, size_t numbers, bool even)
{
    size_t wanted = (numbers + STEP_THREADS * AT_ONCE - 1) / (STEP_THREADS * AT_ONCE);

    if (numbers == 0)
        return cudaSuccess;
    return launch(to->stream, even ? make_step<O, AT_ONCE> : make_step<O, 1>,
                  blocks_for(to, wanted, STEP_BLOCKS), dim3(STEP_THREADS), sizeof(rates),
                  optimizer, s, numbers);
}

/* Bytes of an element, or of a code. */
static inline size_t item_bytes(enum format format)
{
    return format == FORMAT_FP32 ? 4 : format == FORMAT_CODES ? 1 : 2;
}

/* Return whether packs of AT_ONCE elements are aligned for one access. Absent tensors
 * are. */
static inline bool packs_are_even(const struct tensor *tensors, size_t count)
{
    bool even = true;

    for (size_t i = 0; i < count; i++)
        even &=
            (uintptr_t)tensors[i].data % (AT_ONCE * item_bytes(tensors[i].format)) == 0;
    return even;
}

template <typename W>
static weights<W> weights_of(struct tensor w, struct tensor copy, draws chance)
{
    return { (W *)w.data, copy.data, copy.format, chance };
}

#endif
