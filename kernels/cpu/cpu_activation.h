/*
 * kernels/cpu/cpu_activation.h - the functions of enum activation and their slopes, for a
 * vector of values. The compiler drops the parts of the result that a caller does not
 * use.
 *
 * Errors, in units of 2^-23 of the result, down to the smallest value: SILU 2, GELU 5;
 * GELU by tanh 6 and 2 |2z|, whose rounding is in an exponent; RELU2 1; SIGMOID 3;
 * QUICK_GELU 2 and |1.702 x|, for the same reason. Of slopes, in units of 2^-23: SILU and
 * QUICK_GELU 10 (they have x times the rounding of a share, at most 17), the others 3.
 */
#ifndef KERNELS_CPU_CPU_ACTIVATION_H
#define KERNELS_CPU_CPU_ACTIVATION_H

#include "kernels/cpu/cpu_vector.h"
#include "kernels/gelu.h"
#include "kernels/ops.h"

/* act(x) = value = x * share, act'(x) = slope * bend: two factors, in the order in which
 * the gradients of a gate are multiplied. */
struct activated {
    vec value, share, slope, bend;
};

CPU_INLINE struct activated activation_silu(vec x)
{
    vec all = 1.0f + vec_exp(-x), share = 1.0f / all;

    return (struct activated) { x / all, share, share, 1.0f + x * (1.0f - share) };
}

/* e^(-u^2 / 2): the square in two parts, the first of them exact. */
CPU_INLINE vec activation_bell(vec u)
{
    vec head = (vec)((uvec)u & 0xfffff000);

    return vec_exp_sum(head * head * -0.5f, (u - head) * (u + head) * -0.5f);
}

/* share is Phi(x), of the normal distribution. */
CPU_INLINE struct activated activation_gelu(vec x)
{
    vec u = vec_min(vec_all(GELU_MOST), (vec)((uvec)x & 0x7fffffff));
    vec bell = activation_bell(u), s = GELU_SHIFT / (u + GELU_SHIFT);
    vec tail = bell * GELU_TAIL(s);
    vec share = vec_select(x < 0, tail, 1.0f - tail);

    return (struct activated) { x * share, share, share + x * bell * GELU_PEAK,
                                vec_all(1) };
}

/* share is 1 / (1 + e^-2z); with t = e^-|2z| neither it nor 1 - share loses digits.
 * Beyond 16 one of them is 0, and x^2 may overflow. */
CPU_INLINE struct activated activation_gelu_tanh(vec x)
{
    vec near = vec_max(vec_all(-16), vec_min(vec_all(16), x)), square = near * near;
    vec twice = near * (GELU_TANH_LINEAR + GELU_TANH_CUBIC * square);
    vec t = vec_exp((vec)((uvec)twice | 0x80000000)), larger = 1.0f / (1.0f + t);
    vec share = vec_select(x < 0, t * larger, larger);
    vec turn = GELU_TANH_LINEAR + 3 * GELU_TANH_CUBIC * square;

    return (struct activated) { x * share, share,
                                share + x * (t * larger * larger) * turn, vec_all(1) };
}

/* NaN stays NaN. */
CPU_INLINE struct activated activation_relu(vec x)
{
    vec share = vec_select(x <= 0, (vec) {}, vec_all(1));

    return (struct activated) { vec_select(x <= 0, (vec) {}, x), share, share,
                                vec_all(1) };
}

CPU_INLINE struct activated activation_relu2(vec x)
{
    vec share = vec_select(x <= 0, (vec) {}, x);

    return (struct activated) { share * share, share, share, vec_all(2) };
}

/* With t = e^-|x| neither it nor 1 - it loses digits.  It is no product with x: callers do
 * not use share. */
CPU_INLINE struct activated activation_sigmoid(vec x)
{
    vec t = vec_exp((vec)((uvec)x | 0x80000000)), larger = 1.0f / (1.0f + t);
    vec value = vec_select(x < 0, t * larger, larger);

    return (struct activated) { value, (vec) {}, value,
                                vec_select(x < 0, larger, t * larger) };
}

CPU_INLINE struct activated activation_quick_gelu(vec x)
{
    vec z = x * GELU_QUICK_LINEAR, all = 1.0f + vec_exp(-z), share = 1.0f / all;

    return (struct activated) { x / all, share, share, 1.0f + z * (1.0f - share) };
}

/* `kind` is a constant at the call sites: ACTIVATION_BY_KIND. */
CPU_INLINE struct activated activated_by(enum activation kind, vec x)
{
    switch (kind) {
    case ACTIVATION_GELU:
        return activation_gelu(x);
    case ACTIVATION_GELU_TANH:
        return activation_gelu_tanh(x);
    case ACTIVATION_RELU:
        return activation_relu(x);
    case ACTIVATION_RELU2:
        return activation_relu2(x);
    case ACTIVATION_SIGMOID:
        return activation_sigmoid(x);
    case ACTIVATION_QUICK_GELU:
        return activation_quick_gelu(x);
    default:
        return activation_silu(x);
    }
}

/* Call an always-inlined function with kind and format, its last arguments,
 * as constants. */
#define ACTIVATION_BY_KIND(kind, format, function, ...)                          \
    do {                                                                         \
        if ((kind) == ACTIVATION_GELU)                                           \
            VEC_BY_FORMAT(format, function, __VA_ARGS__, ACTIVATION_GELU);       \
        else if ((kind) == ACTIVATION_GELU_TANH)                                 \
            VEC_BY_FORMAT(format, function, __VA_ARGS__, ACTIVATION_GELU_TANH);  \
        else if ((kind) == ACTIVATION_RELU)                                      \
            VEC_BY_FORMAT(format, function, __VA_ARGS__, ACTIVATION_RELU);       \
        else if ((kind) == ACTIVATION_RELU2)                                     \
            VEC_BY_FORMAT(format, function, __VA_ARGS__, ACTIVATION_RELU2);      \
        else if ((kind) == ACTIVATION_SIGMOID)                                   \
            VEC_BY_FORMAT(format, function, __VA_ARGS__, ACTIVATION_SIGMOID);    \
        else if ((kind) == ACTIVATION_QUICK_GELU)                                \
            VEC_BY_FORMAT(format, function, __VA_ARGS__, ACTIVATION_QUICK_GELU); \
        else                                                                     \
            VEC_BY_FORMAT(format, function, __VA_ARGS__, ACTIVATION_SILU);       \
    } while (0)

#endif
