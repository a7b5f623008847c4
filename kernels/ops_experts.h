/*
 * kernels/ops_experts.h - the operations of a mixture of experts: a router chooses k of E
 * experts for each row, and each row passes through its experts only.
 *
 * Letters: N rows, E experts, k chosen for each row, M = N * k pairs.  Pair n * k + j is
 * choice j of row n.  Pairs are sorted by expert, so that the rows of an expert are
 * adjacent; a slot is the position of a pair in that order.  All integers are int32, in
 * the backend's memory: the host does not know how many rows an expert has.
 * Shazeer et al., "Outrageously Large Neural Networks", 2017.
 */
#ifndef KERNELS_OPS_EXPERTS_H
#define KERNELS_OPS_EXPERTS_H

#include <stdbool.h>

#include "kernels/tensor.h"

/* The most experts that op_route supports, and the most that it chooses for a row. */
enum { EXPERTS_MAX = 1024, EXPERTS_CHOSEN_MAX = 32 };

/* How the scores of a row are computed from its logits z:
 *   SOFTMAX      softmax(z)
 *   SIGMOID      1 / (1 + e^-z) of each
 *   SPARSEMIXER  described below; Liu et al., "GRIN", 2024 (Phi-3.5-MoE) */
enum route_kind { ROUTE_SOFTMAX, ROUTE_SIGMOID, ROUTE_SPARSEMIXER };

/*
 * Choose the k experts of each row with the highest score s (or s + bias), ties to the
 * lower index, NaN above all.  Then
 *   weight = scale * s, with `normalize` scale * s / (sum of the k scores + least_sum)
 * and sort the pairs.  For a softmax over only the k highest logits, use SOFTMAX with
 * `normalize`.
 *   logits  (N, E) compute or fp32;  1 <= E <= EXPERTS_MAX
 *   bias    (1, E) fp32, or absent: added to s for the choice, not for the weights
 *   probabilities (N, E) fp32: s for SOFTMAX and SIGMOID, softmax(z) for SPARSEMIXER;  0
 *           in rows that are not counted
 *   weights (N, k) fp32;  1 <= k <= EXPERTS_CHOSEN_MAX, k <= E
 *   experts (N, k): in the order of the choice
 *   order   (M): the pairs, by ascending expert, then by ascending n
 *   slots   (M): the slot of each pair: order[slots[p]] = p
 *   starts  (E + 1): expert e has slots starts[e] to starts[e + 1] - 1
 *   counts  (E) += the pairs of each expert in counted rows, or NULL;  SPARSEMIXER counts
 *           the experts of the two highest probabilities of a row, as transformers does
 *   rows    the number of rows that are counted, in the backend's memory; NULL: N
 *   groups  0, or the number of groups of E / groups adjacent experts of which only the
 *           groups_kept best are eligible; k <= groups_kept * E / groups.  The score of a
 *           group is its highest s + bias (DeepSeek-AI, "DeepSeek-V2", 2024) or, with
 *           group_pairs, the sum of its two highest ("DeepSeek-V3", 2024).
 *   scale   0 means 1;  least_sum: 0 means 1e-20
 *
 * SPARSEMIXER: k = 2, and no bias, groups, normalize or scale.  For choice i of a row, m is
 * the highest z of the experts not yet chosen, and S are those of them with
 * (m - z_e) / max(|z_e|, m) <= 2 jitter.  The choice is the highest z, and its weight is
 * its softmax over S.  If `sampled`, for training, it is the highest z - log(-log u)
 * instead, a sample of that softmax.  If this is not the highest z, and u' <= 0.75, the
 * weight is multiplied by 0.3333 (transformers, models/phimoe/modeling_phimoe.py).  u and
 * u' come from the upper 23 bits of random_bits(seed, RANDOM_ROUTING, stream, x):
 * (bits + 0.5) / 2^23, with x = ((draw * rows + n) * 2 + i) * (E + 1) + e, and e = E for
 * u'.  draw: in the backend's memory; NULL: 0.
 */
struct op_route {
    struct tensor probabilities, weights, logits, bias;
    int32_t *experts, *order, *slots, *starts, *counts;
    const uint64_t *rows;
    enum route_kind kind;
    bool normalize, group_pairs, sampled;
    size_t groups, groups_kept;
    float scale, least_sum, jitter;
    uint64_t seed;
    const uint64_t *draw;
    uint32_t stream;
};

/*
 * dlogits (N, E) any format = the gradient for dweights (N, k) fp32.  `forward` has the
 * operands of the forward pass, unchanged; only SPARSEMIXER reads its logits.  The gradient
 * of SPARSEMIXER is that of the softmax over S, without the factor 0.3333.
 *
 * With a coefficient other than 0, it includes the gradient of *factor times the load
 * balancing loss of transformers (load_balancing_loss_func), which SIGMOID does not have:
 *   coefficient * E * sum over e of f_e P_e,
 *   f_e = forward.counts[e] / R,  P_e = sum of the probabilities of e / R,
 *   R = layers * the number of counted rows
 * where the counts and the rows of P are those of all layers.  f has no gradient.
 * factor: in the backend's memory; NULL: 1.
 */
struct op_route_backward {
    struct tensor dlogits, dweights;
    struct op_route forward;
    size_t layers;
    float coefficient;
    const float *factor;
};

/*
 * A matmul for each group of rows: group g has rows starts[g] to starts[g + 1] - 1, and
 * may be empty.  starts (groups + 1) runs from 0 to M >= 1, the number of rows of a.
 * With trans_a false, group g is multiplied by matrix g of a stack:
 *   out (M, n) = beta * out + alpha * a * b_g     a (M, c), b (groups * c, n)
 *   out (M, n) = beta * out + alpha * a * b_g^T   a (M, c), b (groups * n, c), trans_b
 * With trans_a, out is a stack of sums over the rows of each group; trans_b is false:
 *   out (groups * p, q), matrix g = beta * out_g + alpha * a_g^T b_g
 *                                                 a (M, p), b (M, q)
 * Formats and beta as in op_matmul: a compute or fp32, b the format of a (or fp32, if the
 * backend rounds_b), out fp32 or the format of a, beta 0 or 1.
 */
struct op_grouped_matmul {
    struct tensor out, a, b;
    const int32_t *starts;
    size_t groups;
    bool trans_a, trans_b;
    float alpha, beta;
};

/* out (M, C) = x[order[i] / k], x (N, C), any format each, k = M / N; order from
 * op_route */
struct op_gather_pairs {
    struct tensor out, x;
    const int32_t *order;
};

/* out (N, C) = y[slots[n * k]] + ... + y[slots[n * k + k - 1]], in this order, plus out if
 * `add`;  y (M, C), any format each, k = M / N.  This is the backward pass of
 * op_gather_pairs. */
struct op_sum_pairs {
    struct tensor out, y;
    const int32_t *slots;
    bool add;
};

/* out (N, C) = base + sum over j, in order, of weights[n][j] * y[slots[n * k + j]];  base
 * (N, C), or absent (0), may be out;  y (M, C);  out, base and y any format each;
 * weights (N, k) fp32 */
struct op_combine {
    struct tensor out, base, y, weights;
    const int32_t *slots;
};

/* dy (M, C), row slots[n * k + j] = weights[n][j] * dout[n];  dy may be y
 * dweights (N, k) fp32 = sum over C of dout[n] * y[slots[n * k + j]]; it may be absent, and
 * then y may be absent, too
 *   dout (N, C), y, dy any format each; weights and slots are those of op_combine */
struct op_combine_backward {
    struct tensor dy, dweights, dout, y, weights;
    const int32_t *slots;
};

#endif
