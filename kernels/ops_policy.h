/* kernels/ops_policy.h - the loss of sampled answers (part of kernels/ops.h). */
#ifndef KERNELS_OPS_POLICY_H
#define KERNELS_OPS_POLICY_H

#include <stdbool.h>

#include "kernels/tensor.h"

/*
 * The loss of answers that were sampled and rewarded, and its gradient with respect to the
 * loss of each token (Shao et al., "DeepSeekMath", 2024, section 4.1; Schulman et al.,
 * "Proximal Policy Optimization Algorithms", 2017).  Sequence s of the batch is a prompt
 * and an answer with the advantage A = advantages[s].  For each row n of it with a target:
 *   l = -losses[n], the log-likelihood;  o = -old[n], that of the model that sampled the
 *   answer;  q = -reference[n]
 *   r = exp(l - o), or, by_sequence, exp of the mean of l - o over the rows of s with a
 *   target (Zheng et al., "Group Sequence Policy Optimization", 2025)
 *   p = -min(min(r, delta) A, clamp(r, 1 - low, 1 + high) A);   delta 0: r in place of it
 *   k = exp(q - l) - (q - l) - 1, an unbiased estimate of the distance from the reference;
 *   corrects_kl: times r
 *   loss[n] = factors[s] (p + beta k)
 * As TRL's GRPOTrainer (trl/trainer/grpo_trainer.py).
 *   values (S, POLICY_VALUES) fp32: enum policy_value of each sequence;  S >= 1
 *   losses (1, N) fp32: from op_classifier with weights NULL, read for rows with a target
 *   old (1, N) fp32: the losses before the first step on these answers; absent: the current
 *   losses, so r is 1
 *   reference (1, N) fp32: the losses of the reference model; absent: k is 0
 *   advantages, factors (1, S) fp32
 *   weights (N) fp32: d sum of loss / d losses[n], of any sign; 0 for rows without a target
 *   and those after sequence S - 1.  With them op_classifier computes the gradient.
 *   offsets (S + 1 or more) int32 from 0 up to N, targets (N) int32: as in op_classifier
 * As in PyTorch, the slope of min is the mean of those of its arguments where these are
 * equal, and the slope of clamp is 1 at its ends.  A NaN in a row propagates to the loss of
 * its sequence and to the weight of the row; with by_sequence, to all weights of the
 * sequence.
 */
enum policy_value {
    POLICY_LOSS,    /* sum of loss */
    POLICY_KL,      /* sum of k */
    POLICY_CLIPPED, /* rows with r < 1 - low and A < 0, or r > 1 + high and A > 0 */
    POLICY_ROWS,    /* with a target */
    POLICY_VALUES
};
struct op_policy {
    struct tensor values, losses, old, reference, advantages, factors;
    float *weights;
    const int32_t *targets, *offsets;
    float low, high, delta, beta;
    bool by_sequence, corrects_kl;
};

#endif
