/* kernels/ops_loss.h - losses other than cross-entropy; included by kernels/ops.h. */
#ifndef KERNELS_OPS_LOSS_H
#define KERNELS_OPS_LOSS_H

/*
 * A factor of the loss of a token in op_classifier; no gradient flows through it:
 *   plain  1
 *   DFT    exp(-CE), the probability of the target; CE is the cross-entropy before label
 *          smoothing (Wu et al., "On the Generalization of SFT", 2025)
 *   EAFT   (H / 3)^alpha; H is the entropy of the softmax over the min(V, EAFT_TOKENS)
 *          largest logits, after the cap ("Entropy-Adaptive Fine-Tuning", 2026)
 * As LLaMA-Factory's dft_loss_func and eaft_loss_func (train/trainer_utils.py).
 */
enum token_loss { TOKEN_LOSS_PLAIN, TOKEN_LOSS_DFT, TOKEN_LOSS_EAFT };
enum { EAFT_TOKENS = 20 };

/*
 * PREFERENCE_KTO of op_preference (Ethayarajh et al., "KTO", 2024): sequence 2p is an
 * answer, good or bad.  Sequence 2p + 1 is the same question with the answer to another
 * one, and only serves to estimate the divergence from the reference.  The last row of a
 * sequence never has a target; TARGET_BAD there marks a bad answer.
 *   k = max(0, mean over p of l[2p + 1] - r[2p + 1]),  d = l[2p] - r[2p];  k is a constant
 *   good  chosen_weight (1 - s(beta (d - k)))      s the logistic function
 *   bad   rejected_weight (1 - s(beta (k - d)))
 *   plus ftx (P / good answers)^2 times the mean of a good answer's losses
 * The weights of sequences 2p + 1 are 0.  As LLaMA-Factory (train/kto/trainer.py) and
 * TRL's kto_loss, whose means over P pairs are sums here.
 */
enum { TARGET_BAD = -101 };
/* Columns of op_preference's pairs with KTO; the first is PREFERENCE_LOSS. */
enum feedback_value {
    FEEDBACK_REWARD = 1, /* beta d */
    FEEDBACK_GOOD,       /* 1 or 0 */
    FEEDBACK_LOGP,       /* l[2p] */
    FEEDBACK_KL          /* k */
};

/*
 * PREFERENCE_REWARD of op_preference: the loss of a reward model, which gives each answer
 * one score (Bradley and Terry, 1952; Ouyang et al., "Training language models to follow
 * instructions with human feedback", 2022).  losses[n] are scores, and l[s] is the sum of
 * those of sequence s, of which one row has a target.
 *   - log s(l[C] - l[R]) + center (l[C] + l[R])^2
 * weights[n] are the derivatives with respect to the scores, times *scale.  The rewards of
 * a pair are l[C] and l[R].
 * As LLaMA-Factory (train/rm/trainer.py); center: TRL's center_rewards_coefficient
 * (Eisenstein et al., "Helping or Herding?", 2023).
 */

#endif
