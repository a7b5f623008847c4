/*
 * kernels/cuda/scan.cuh - operands of the kernels of the selective scan, and its step.
 */
#ifndef KERNELS_CUDA_SCAN_CUH
#define KERNELS_CUDA_SCAN_CUH

#include "kernels/cuda/elementwise_kernel.cuh"

template <typename T> struct scan_operands {
    view<const T> x, b, c, dt;
    any_view a_log, bias, skip;
    const int32_t *offsets;
    unsigned sequences, heads, sharing, size, depth; /* sharing: heads of a group */
    float low, high;
};

template <typename T> static scan_operands<T> scan_operands_of(const struct op_scan *op)
{
    return { view_of<const T>(op->x),
             view_of<const T>(op->b),
             view_of<const T>(op->c),
             view_of<const T>(op->dt),
             any_view_of(op->a_log),
             any_view_of(op->bias),
             any_view_of(op->skip),
             op->offsets,
             (unsigned)op->sequences,
             (unsigned)op->heads,
             (unsigned)(op->heads / op->groups),
             (unsigned)(op->x.cols / op->heads),
             (unsigned)(op->b.cols / op->groups),
             op->low,
             op->high };
}

__device__ static inline size_t scan_first_chunk(size_t first, unsigned sequence)
{
    return first / SCAN_CHUNK + sequence; /* op_scan_first_chunk */
}

/* The step of a row, and its derivative by dt. */
struct scan_step {
    float step, slope;
};

template <typename T>
__device__ static inline scan_step scan_step_of(const scan_operands<T> &f, size_t row,
                                                unsigned head, float bias)
{
    float x = to_float(*f.dt.at(row, head)) + bias, t = expf(-fabsf(x));
    float step = x > 20 ? x : (x > 0 ? x : 0) + log1pf(t);

    if (step < f.low)
        return { f.low, 0 };
    if (step > f.high)
        return { f.high, 0 };
    return { step, x > 20 ? 1 : (x < 0 ? t : 1) / (1 + t) };
}

/* scan.cu: fill states and dstates. */
cudaError_t launch_scan_states(const struct cuda_launch *to,
                               const struct op_scan_backward *op);

#endif
