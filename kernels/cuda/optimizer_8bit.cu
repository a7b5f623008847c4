/*
 * kernels/cuda/optimizer_8bit.cu - optimizers whose moments are codes of 8 bits: a warp
 * decodes, updates and encodes a block of 256.
 *
 * Bytes moved per weight, fp32 with a 16-bit copy: adamw_8bit 10 read and 8 written,
 * lion_8bit 9 and 7. A code is found by comparison with midpoints in shared memory, 8
 * reads each.
 */
#include "kernels/cuda/optimizer_step.cuh"

#include "precision/dynamic_map.h"

/* A lane has PARTS packs of AT_ONCE elements of a block. */
enum { WARPS = STEP_THREADS / WARP, MOST_MOMENTS = 2 };
enum { PARTS = DYNAMIC_BLOCK / (WARP * AT_ONCE), APART = WARP * AT_ONCE };
static_assert((int)STEP_THREADS == (int)DYNAMIC_CODES,
              "a thread copies a value of each map");

struct moment_8bit {
    uint8_t *codes;
    float *absmax;
};

/* A kernel's parameters: maps are 1 KiB each. */
struct maps {
    float values[MOST_MOMENTS][DYNAMIC_CODES];
};

struct shared_maps {
    rates step; /* begin_step */
    float values[MOST_MOMENTS][DYNAMIC_CODES], between[MOST_MOMENTS][DYNAMIC_CODES];
};

struct adamw_rule {
    enum { MOMENTS = 2 };

    __device__ static float apply(float w, float g, float m[2], const rates &s)
    {
        m[0] = m[0] * s.beta1 + g * s.rest1;
        m[1] = m[1] * s.beta2 + g * g * s.rest2;
        return w * s.keep - s.rate * m[0] / (sqrtf(m[1]) * s.root + s.eps);
    }
};

struct lion_rule {
    enum { MOMENTS = 1 };

    __device__ static float apply(float w, float g, float m[1], const rates &s)
    {
        float sign = sign_of(m[0] * s.beta1 + g * s.rest1);

        m[0] = m[0] * s.beta2 + g * s.rest2;
        return w * s.keep - s.lr * sign;
    }
};

__device__ static uint8_t encode(const float *between, float x)
{
    unsigned code = 0;

#pragma unroll
    for (unsigned step = DYNAMIC_CODES / 2; step > 0; step /= 2)
        code += x > between[code + step - 1] ? step : 0;
    return (uint8_t)code;
}

template <typename R, typename W> struct step_8bit {
    weights<W> target;
    const float *grad;
    moment_8bit moments[R::MOMENTS];
    size_t numbers, blocks;
    bool even; /* packs are aligned */

    /* Elements i .. i + 3; 0 at the end, which is not whole. */
    template <typename T>
    __device__ void get(float out[AT_ONCE], const T *from, size_t i) const
    {
        if (even && i + AT_ONCE <= numbers)
            load<AT_ONCE>(out, from + i);
        else
            for (int j = 0; j < AT_ONCE; j++)
                out[j] = i + j < numbers ? to_float(from[i + j]) : 0;
    }

    __device__ void get_codes(uint8_t out[AT_ONCE], const uint8_t *from, size_t i) const
    {
        pack<uint8_t, AT_ONCE> p;

        if (even && i + AT_ONCE <= numbers)
            p = *(const pack<uint8_t, AT_ONCE> *)(from + i);
        for (int j = 0; j < AT_ONCE; j++)
            out[j] = even && i + AT_ONCE <= numbers ? p.at[j]
                     : i + j < numbers              ? from[i + j]
                                                    : 0;
    }

    __device__ void put_codes(uint8_t *to, const uint8_t in[AT_ONCE], size_t i) const
    {
        pack<uint8_t, AT_ONCE> p;

        for (int j = 0; j < AT_ONCE; j++)
            p.at[j] = in[j];
        if (even && i + AT_ONCE <= numbers)
            *(pack<uint8_t, AT_ONCE> *)(to + i) = p;
        else
            for (int j = 0; j < AT_ONCE && i + j < numbers; j++)
                to[i + j] = in[j];
    }

    __device__ void put(size_t i, float w[AT_ONCE], const rates &s) const
    {
        if (even && i + AT_ONCE <= numbers)
            target.template put<AT_ONCE>(i, w, s.step);
        else
            for (int j = 0; j < AT_ONCE && i + j < numbers; j++)
                target.template put<1>(i + j, w + j, s.step);
    }

    /* Update one part of a lane; its moments are in fp32. */
    __device__ void update_part(size_t i, const shared_maps *maps, const rates &s,
                                const float absmax[], float m[AT_ONCE][R::MOMENTS]) const
    {
        float w[AT_ONCE], g[AT_ONCE];
        uint8_t codes[AT_ONCE];

        get(w, target.w, i);
        get(g, grad, i);
#pragma unroll
        for (int k = 0; k < R::MOMENTS; k++) {
            get_codes(codes, moments[k].codes, i);
            for (int j = 0; j < AT_ONCE; j++)
                m[j][k] = i + j < numbers ? maps->values[k][codes[j]] * absmax[k] : 0;
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            w[j] = R::apply(w[j], g[j] * s.grad_scale, m[j], s);
        put(i, w, s);
    }

    __device__ void encode_moment(int k, size_t i, size_t block, const shared_maps *maps,
                                  const float m[PARTS][AT_ONCE][R::MOMENTS]) const
    {
        float most = 0;
        uint8_t codes[AT_ONCE];

#pragma unroll
        for (int part = 0; part < PARTS; part++)
            for (int j = 0; j < AT_ONCE; j++)
                most = fmaxf(most, fabsf(m[part][j][k]));
        most = warp_largest(most);
        if (threadIdx.x % WARP == 0)
            moments[k].absmax[block] = most;
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            for (int j = 0; j < AT_ONCE; j++)
                codes[j] = encode(maps->between[k], most > 0 ? m[part][j][k] / most : 0);
            put_codes(moments[k].codes, codes, i + part * APART);
        }
    }

    /* Every lane of a warp calls it. */
    __device__ void update(size_t block, const shared_maps *maps, const rates &s) const
    {
        size_t i = block * DYNAMIC_BLOCK + threadIdx.x % WARP * AT_ONCE;
        float m[PARTS][AT_ONCE][R::MOMENTS], absmax[R::MOMENTS];

#pragma unroll
        for (int k = 0; k < R::MOMENTS; k++)
            absmax[k] = moments[k].absmax[block];
        __syncwarp();
#pragma unroll
        for (int part = 0; part < PARTS; part++)
            update_part(i + part * APART, maps, s, absmax, m[part]);
#pragma unroll
        for (int k = 0; k < R::MOMENTS; k++)
            encode_moment(k, i, block, maps, m);
    }
};

template <typename R, typename W>
static __global__ void __launch_bounds__(STEP_THREADS)
    make_step_8bit(const step_8bit<R, W> step, const settings s, const maps given)
{
    shared_maps *maps = (shared_maps *)shared_memory();
    const rates rates = begin_step(s);
    size_t t = threadIdx.x;

#pragma unroll
    for (int k = 0; k < R::MOMENTS; k++) {
        maps->values[k][t] = given.values[k][t];
        maps->between[k][t] =
            (given.values[k][t] + given.values[k][t < 255 ? t + 1 : t]) / 2;
    }
    __syncthreads();
    for (size_t block = (size_t)blockIdx.x * WARPS + t / WARP;
         rates.made && block < step.blocks; block += (size_t)gridDim.x * WARPS)
        step.update(block, maps, rates);
}

template <typename R, typename W>
static cudaError_t launch_8bit(const struct cuda_launch *to, const step_8bit<R, W> &step,
                               const settings &s)
{
    size_t wanted = (step.blocks + WARPS - 1) / WARPS;
    maps given;

    if (step.numbers == 0)
        return cudaSuccess;
    for (int k = 0; k < R::MOMENTS; k++)
        dynamic_map(k == 0, given.values[k]);
    return launch(to->stream, make_step_8bit<R, W>, blocks_for(to, wanted, STEP_BLOCKS),
                  dim3(STEP_THREADS), sizeof(shared_maps), step, s, given);
}

template <typename W>
static cudaError_t launch_adamw_8bit_of(const struct cuda_launch *to,
                                        const struct op_adamw_8bit *op)
{
    const struct tensor tensors[] = { op->w, op->grad, op->m, op->v, op->copy };
    const settings s = { op->lr,    op->beta1,      op->beta2, op->eps,
                         op->decay, op->grad_scale, op->step,  op->numbers };
    const step_8bit<adamw_rule, W> step = {
        weights_of<W>(op->w, op->copy, { op->stochastic, op->seed, op->first }),
        (const float *)op->grad.data,
        { { (uint8_t *)op->m.data, (float *)op->m_absmax.data },
          { (uint8_t *)op->v.data, (float *)op->v_absmax.data } },
        op->w.rows * op->w.cols,
        dynamic_blocks(op->w.rows * op->w.cols),
        packs_are_even(tensors, 5)
    };

    return launch_8bit(to, step, s);
}

template <typename W>
static cudaError_t launch_lion_8bit_of(const struct cuda_launch *to,
                                       const struct op_lion_8bit *op)
{
    const struct tensor tensors[] = { op->w, op->grad, op->m, op->copy };
    const settings s = { op->lr,    op->beta1,      op->beta2, 0,
                         op->decay, op->grad_scale, op->step,  op->numbers };
    const step_8bit<lion_rule, W> step = {
        weights_of<W>(op->w, op->copy, { op->stochastic, op->seed, op->first }),
        (const float *)op->grad.data,
        { { (uint8_t *)op->m.data, (float *)op->m_absmax.data } },
        op->w.rows * op->w.cols,
        dynamic_blocks(op->w.rows * op->w.cols),
        packs_are_even(tensors, 4)
    };

    return launch_8bit(to, step, s);
}

/* The gradient is fp32. */
extern "C" cudaError_t launch_adamw_8bit(const struct cuda_launch *to,
                                         const struct op_adamw_8bit *op)
{
    if (op->grad.format != FORMAT_FP32)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->w.format, W, launch_adamw_8bit_of<W>(to, op));
}

extern "C" cudaError_t launch_lion_8bit(const struct cuda_launch *to,
                                        const struct op_lion_8bit *op)
{
    if (op->grad.format != FORMAT_FP32)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->w.format, W, launch_lion_8bit_of<W>(to, op));
}
