/* kernels/ops_loss.h - losses other than cross-entropy; included by kernels/ops.h. */
#ifndef KERNELS_OPS_LOSS_H
#define KERNELS_OPS_LOSS_H

/*
 * A factor of the loss of a token in op_classifier, which is a constant to the gradient:
 *   plain  1
 *   DFT    exp(-CE), the probability of the target; CE is the cross-entropy before label
 *          smoothing (Wu et al., "On the Generalization of SFT", 2025)
 *   EAFT   (H / 3)^alpha; H is the entropy of the softmax over the min(V, EAFT_TOKENS)
 *          largest logits, after the cap ("Entropy-Adaptive Fine-Tuning", 2026)
 * As LLaMA-Factory's dft_loss_func and eaft_loss_func (train/trainer_utils.py).
 */
enum token_loss { TOKEN_LOSS_PLAIN, TOKEN_LOSS_DFT, TOKEN_LOSS_EAFT };
enum { EAFT_TOKENS = 20 };

#endif
