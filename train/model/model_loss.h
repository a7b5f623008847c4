/* train/model/model_loss.h - head and loss of a micro-batch, for each stage. */
#ifndef TRAIN_MODEL_MODEL_LOSS_H
#define TRAIN_MODEL_MODEL_LOSS_H

#include "train/model/model_internal.h"

/* Run head and loss; in training, write dx to DH. */
void model_classifier_loss(const struct pass *pass);
/* Return the operands of head and loss. */
struct op_classifier model_classifier_op(const struct pass *pass);
/* The same for a distillation, after the teacher's forward pass: model_distill.c. */
void model_distill_loss(const struct pass *pass);
/* model_preference.c.  Before the model's forward pass: compute the losses of the
 * reference, if there is one.  Overwrites the activations of the model's last pass. */
bool model_run_reference(const struct pass *pass, struct error *err);
/* After the forward pass: compute the loss of the pairs and, in training, write dx to
 * DH. */
void model_preference_loss(const struct pass *pass);
/* model_reward.c.  The same for scores. */
void model_reward_loss(const struct pass *pass);
/* Return the targets of a batch: 0 in the row of each sequence that has a score.  Valid
 * until the next call. */
const int32_t *model_score_targets(struct model *m, const struct batch *batch);
/* model_policy.c.  The same for sampled answers. */
void model_policy_loss(const struct pass *pass);
/* Return the temperature of the loss of this model. */
double model_loss_temperature(const struct model *model);
/* Return what the output of the last norm is multiplied with to scale the logits. */
static inline double pass_logit_scale(const struct pass *pass)
{
    double scale = pass->model->config->logit_scale;

    return pass->temperature > 0 ? scale / pass->temperature : scale;
}
/* Return the losses of the current micro-batch (1, N) in a buffer; absent: it has none. */
struct tensor pass_losses(const struct pass *pass, enum buffer buffer);
/* Compute only the loss of each token, without gradients. */
void pass_token_losses(const struct pass *pass, struct op_classifier op);
/* Return the operands of head and loss without smoothing: of likelihoods. */
struct op_classifier pass_likelihoods(const struct pass *pass);
void model_sum_answers(struct model *model, const float *answers, size_t count,
                       double *loss_sum);
/* On the host: add up the results of `count` pairs or answers. */
void model_sum_pairs(struct model *model, const float *pairs, size_t count,
                     double *loss_sum);
/* In training: zero the gradients where necessary, then compute the loss of the stage. */
void model_compute_loss(const struct pass *pass);

#endif
