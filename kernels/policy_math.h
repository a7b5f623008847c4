/* kernels/policy_math.h - the loss of a token of a sampled answer and its slope: the part of
 * op_policy that both backends share.  Everything is double, because ratios near 1 come from
 * differences of nearly equal values. */
#ifndef KERNELS_POLICY_MATH_H
#define KERNELS_POLICY_MATH_H

#include <math.h>

#include "kernels/ops.h"

#ifdef __CUDACC__
#define POLICY_CALL static __device__ inline
#else
#define POLICY_CALL static inline
#endif

/* What the rows of a sequence share. */
struct policy_sequence {
    double advantage, factor;
    double mean; /* of l - o */
    double kl;   /* mean of k without correction */
};

/* A token: k and the loss without its factor; the weight has it. */
struct policy_token {
    double loss, kl, weight;
    bool clipped;
};

/* l - o, where old may be absent. */
POLICY_CALL double policy_log_ratio(const struct op_policy *op, size_t n)
{
    const float *losses = (const float *)op->losses.data;
    const float *old = (const float *)op->old.data;

    return old ? (double)old[n] - (double)losses[n] : 0 * (double)losses[n];
}

/* The term p of op_policy, -min(a, b), and its slope with respect to l. */
POLICY_CALL double policy_surrogate(const struct op_policy *op, double r,
                                    double advantage, double *slope)
{
    double low = 1 - (double)op->low, high = 1 + (double)op->high;
    double delta = op->delta > 0 ? (double)op->delta : INFINITY;
    double clamped = r < low ? low : r > high ? high : r;
    double a = (r > delta ? delta : r) * advantage, b = clamped * advantage;
    double of_a = r > delta ? 0 : r * advantage;
    double of_b = r < low || r > high ? 0 : r * advantage;

    *slope = a < b ? -of_a : a > b ? -of_b : -(of_a + of_b) / 2;
    return a < b ? -a : -b;
}

/* q - l, where the reference may be absent. */
POLICY_CALL double policy_closer(const struct op_policy *op, size_t n)
{
    const float *losses = (const float *)op->losses.data;
    const float *reference = (const float *)op->reference.data;

    return reference ? (double)losses[n] - (double)reference[n] : 0;
}

POLICY_CALL double policy_kl(double closer)
{
    return expm1(closer) - closer;
}

/* Return the token of row n, which has a target. */
POLICY_CALL struct policy_token policy_token_of(const struct op_policy *op, size_t n,
                                                const struct policy_sequence *s)
{
    double ratio = exp(op->by_sequence ? s->mean : policy_log_ratio(op, n)), slope;
    double closer = policy_closer(op, n), kl_slope = -expm1(closer);
    struct policy_token out;

    out.loss = policy_surrogate(op, ratio, s->advantage, &slope);
    out.kl = policy_kl(closer);
    if (op->corrects_kl) {
        kl_slope = ratio * (kl_slope + (op->by_sequence ? s->kl : out.kl));
        out.kl *= ratio;
    }
    if (op->reference.data) {
        out.loss += (double)op->beta * out.kl;
        slope += (double)op->beta * kl_slope;
    }
    out.weight = isnan(out.loss) ? out.loss : s->factor * (0 - slope);
    out.clipped = (ratio < 1 - (double)op->low && s->advantage < 0) ||
                  (ratio > 1 + (double)op->high && s->advantage > 0);
    return out;
}

#endif
