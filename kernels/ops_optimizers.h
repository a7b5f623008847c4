/*
 * kernels/ops_optimizers.h - the updates of optimizers other than AdamW and SGD, which are
 * in kernels/ops.h.  w, grad, copy, numbers, stochastic, seed and first are as in struct
 * op_adamw.
 */
#ifndef KERNELS_OPS_OPTIMIZERS_H
#define KERNELS_OPS_OPTIMIZERS_H

#include "kernels/tensor.h"

struct step_scalars;

/*
 * AdamW with moments in 8 bits, in blocks of 256 consecutive elements (the last may be
 * shorter), as bitsandbytes keeps them: Dettmers et al., "8-bit Optimizers via Block-wise
 * Quantization", 2022.
 *   m, v                  FORMAT_CODES, the shape of w: codes of the map with signs (m) or
 *                         without (v), precision/dynamic_map.h
 *   m_absmax, v_absmax    (1, blocks) fp32: the largest magnitude of a block
 * A moment is the value of its code times the absmax of its block.  The update uses the new
 * moments in fp32.  Then the absmax is computed again, and each moment, divided by it, gets
 * the code of the nearest value.  All zeros are a valid state.  A block begins where w
 * begins.  If stochastic, `first` is a multiple of 4.
 */
struct op_adamw_8bit {
    struct tensor w, grad, m, v, m_absmax, v_absmax, copy;
    double lr, beta1, beta2, eps, decay, grad_scale;
    int64_t step;
    const struct step_scalars *numbers;
    bool stochastic;
    uint64_t seed, first;
};

/*
 * Lion, Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023, as lion_pytorch
 * and bitsandbytes compute it; m is fp32 or has the format of w:
 *   g = grad_scale * grad;  w -= lr * decay * w
 *   w -= lr * sign(b1 m + (1 - b1) g);  m = b2 m + (1 - b2) g;  copy = w
 */
struct op_lion {
    struct tensor w, grad, m, copy;
    double lr, beta1, beta2, decay, grad_scale;
    int64_t step;
    const struct step_scalars *numbers;
    bool stochastic;
    uint64_t seed, first;
};

/*
 * Adafactor, Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory
 * Cost", 2018, as transformers' Trainer has it: no first moment, no relative steps, no
 * scale by the parameter, clip_threshold 1, decay_rate -0.8.
 *   g = grad_scale * grad;  b = 1 - step^-0.8
 *   a matrix w (R, C):  row = b row + (1 - b) mean over C of (g^2 + 1e-30);  col the same
 *                       over R;  u = g / sqrt(row / mean(row)) / sqrt(col)
 *   a vector w (1, C):  v = b v + (1 - b) (g^2 + 1e-30);  u = g / sqrt(v)
 *   w -= lr * decay * w;  w -= lr * u / max(1, rms(u));  copy = w
 * row (1, R), col (1, C), v (1, C) fp32: a matrix has row and col, a vector has v.  w, grad
 * (fp32) and copy are contiguous.
 */
struct op_adafactor {
    struct tensor w, grad, row, col, v, copy;
    double lr, decay, grad_scale;
    int64_t step;
    const struct step_scalars *numbers;
    bool stochastic;
    uint64_t seed, first;
};

/*
 * The start of a step of Muon, Jordan et al., "Muon: An optimizer for hidden layers in neural
 * networks", 2024; the caller then orthogonalizes x:
 *   g = grad_scale * grad;  m = momentum m + g;  u = g + momentum m
 *   x = u / (norm(u) + 1e-7), the norm over all elements
 * grad fp32, m and x any format; all contiguous, with the same number of elements.
 */
struct op_muon_begin {
    struct tensor x, grad, m;
    double momentum, grad_scale;
    const struct step_scalars *numbers;
};

/* The end of a step of Muon:  w -= lr * decay * w;  w -= lr * scale * x;  copy = w.
 * x any format. */
struct op_muon_end {
    struct tensor w, x, copy;
    double lr, scale, decay;
    int64_t step;
    const struct step_scalars *numbers;
    bool stochastic;
    uint64_t seed, first;
};

/*
 * Adam-mini, Zhang et al., "Adam-mini: Use Fewer Learning Rates To Gain More", 2024: AdamW
 * with one second moment for each block of consecutive elements,
 *   v = b2 v + (1 - b2) mean over the block of g^2
 * v (1, elements / block) fp32; m fp32 or the format of w; the rest as in struct op_adamw.
 */
struct op_adam_mini {
    struct tensor w, grad, m, v, copy;
    size_t block;
    double lr, beta1, beta2, eps, decay, grad_scale;
    int64_t step;
    const struct step_scalars *numbers;
    bool stochastic;
    uint64_t seed, first;
};

/*
 * Adam on a gradient that has been projected to fewer rows or columns: GaLore, Zhao et al.,
 * "GaLore: Memory-Efficient LLM Training by Gradient Low-Rank Projection", 2024, and APOLLO,
 * Zhu et al., "APOLLO: SGD-like Memory, AdamW-level Performance", 2024, as galore_torch and
 * apollo_torch compute it, without the bias correction:
 *   x = grad_scale * x;  m = b1 m + (1 - b1) x;  v = b2 v + (1 - b2) x^2
 *   out = m / (sqrt(v) + eps)
 * all fp32 and contiguous, with the same number of elements; out may be x.
 */
struct op_projected_adam {
    struct tensor out, x, m, v;
    double beta1, beta2, eps, grad_scale;
    const struct step_scalars *numbers;
};

/*
 * APOLLO's factors of the gradient: norm(out) / (norm(x) + 1e-8) of op_projected_adam, one
 * for each row, factor (R, 1), for each column, factor (1, C), or for the whole matrix,
 * factor (1, 1).
 * out, x (R, C) contiguous; all fp32.
 */
struct op_apollo_factors {
    struct tensor factor, out, x;
};

/*
 * APOLLO limits how fast the norm of the scaled gradient grows, from the second step on:
 *   n = scale * grad_scale * norm(grad * factor)
 *   by = norm > 0 ? max(n / (norm + 1e-8), 1.01) / 1.01 : 1
 *   limit = grad_scale / by;  norm = n / by
 * limit, norm (1, 1); grad (R, C) contiguous; factor of op_apollo_factors; all fp32.
 */
struct op_apollo_limit {
    struct tensor limit, norm, grad, factor;
    double scale, grad_scale;
    const struct step_scalars *numbers;
};

/*
 * The end of a step of GaLore and APOLLO:
 *   w -= lr * sqrt(1 - b2^step) / (1 - b1^step) * scale * limit * factor * x
 *   w -= lr * decay * w;  copy = w
 * x fp32, contiguous, the shape of w; factor as in op_apollo_limit; factor and limit may be
 * absent.
 */
struct op_projected_end {
    struct tensor w, x, factor, limit, copy;
    double lr, beta1, beta2, scale, decay;
    int64_t step;
    const struct step_scalars *numbers;
    bool stochastic;
    uint64_t seed, first;
};

/*
 * Schedule-free AdamW, Defazio et al., "The Road Less Scheduled", 2024, as the package
 * schedulefree computes it, but with the average x in memory of its own:
 *   g = grad_scale * grad;  v = b2 v + (1 - b2) g^2
 *   z -= lr * (g / (sqrt(v) / sqrt(1 - b2^step) + eps) + decay * w)
 *   x = (1 - share) x + share z;  w = b1 x + (1 - b1) z;  copy = w
 * Before the first step, z and x equal w.  All but copy are fp32.  With numbers, share is
 * numbers->average_share.
 */
struct op_schedule_free {
    struct tensor w, grad, z, x, v, copy;
    double lr, beta1, beta2, eps, decay, grad_scale, share;
    int64_t step;
    const struct step_scalars *numbers;
};

/* Exchange the elements of a and b, both fp32. */
struct op_exchange {
    struct tensor a, b;
};

/* Lion with the moment in 8 bits, as in op_adamw_8bit. */
struct op_lion_8bit {
    struct tensor w, grad, m, m_absmax, copy;
    double lr, beta1, beta2, decay, grad_scale;
    int64_t step;
    const struct step_scalars *numbers;
    bool stochastic;
    uint64_t seed, first;
};

#endif
