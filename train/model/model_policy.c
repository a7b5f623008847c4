/* train/model/model_policy.c - head and loss of sampled answers. */
#include "config.h"

#include "train/model/model.h"

#include "train/model/model_internal.h"
#include "train/model/model_loss.h"

const char *const sampled_names[REWARDS] = {
    [SAMPLED_REWARD] = "reward",
    [SAMPLED_REWARD_STD] = "reward_std",
    [SAMPLED_LENGTH] = "completions/mean_length",
    [SAMPLED_TRUNCATED] = "completions/clipped_ratio",
    [SAMPLED_KL] = "kl",
    [SAMPLED_CLIPPED] = "clip_ratio/region_mean",
};
_Static_assert(SAMPLED <= (int)REWARDS, "both have room in struct rewards");

/* TRL divides the logits of all likelihoods by the temperature of sampling. */
double model_loss_temperature(const struct model *model)
{
    return model->plan->stage == STAGE_GRPO ? model->plan->generation.temperature : 0;
}

void model_set_policy(struct model *model, const struct batch *batch,
                      const struct model_policy *policy)
{
    const struct shape_buffer *b = model->shapes.buffers;
    const struct backend_ops *ops = model->be->ops;
    char *advantages = model->buffers + b[BUFFER_ADVANTAGES].at;
    size_t bytes = batch->sequences * sizeof(float);

    ops->upload(model->be, advantages, policy->advantages, bytes);
    ops->upload(model->be, advantages + b[BUFFER_ADVANTAGES].cols * sizeof(float),
                policy->factors, bytes);
    if (b[BUFFER_OLD].cols > 0)
        ops->upload(model->be, model->buffers + b[BUFFER_OLD].at, policy->old,
                    batch->rows * sizeof(float));
}

/* Row 0: advantages, row 1: factors. */
static struct tensor answers_row(const struct pass *pass, size_t row)
{
    struct tensor t = tensor_rows(pass_buffer(pass, BUFFER_ADVANTAGES, 0), row, 1);

    t.cols = pass->pairs;
    return t;
}

void model_policy_loss(const struct pass *pass)
{
    const struct reinforcement *g = &pass->model->plan->grpo;
    struct op_classifier op = pass_likelihoods(pass);
    float *weights = pass_buffer(pass, BUFFER_WEIGHTS, 0).data;
    struct tensor values = pass_buffer(pass, BUFFER_PAIRS, 0);

    pass_token_losses(pass, op);
    pass->ops->policy(
        pass->be,
        &(struct op_policy) {
            .values = tensor_of(values.data, values.format, pass->pairs, POLICY_VALUES),
            .losses = op.losses,
            .old = pass_losses(pass, BUFFER_OLD),
            .reference = pass_losses(pass, BUFFER_REFERENCE),
            .advantages = answers_row(pass, 0),
            .factors = answers_row(pass, 1),
            .weights = weights,
            .targets = op.targets,
            .offsets = pass_buffer(pass, BUFFER_OFFSETS, 0).data,
            .low = (float)g->epsilon,
            .high = (float)(g->epsilon_high > 0 ? g->epsilon_high : g->epsilon),
            .delta = (float)g->delta,
            .beta = (float)g->beta,
            .by_sequence = g->importance == IMPORTANCE_SEQUENCE,
            .corrects_kl = g->corrects_kl,
        });
    op.weights = weights;
    pass->ops->classifier(pass->be, &op);
}

bool model_policy_losses(struct model *model, const struct batch *batch, float *losses,
                         struct error *err)
{
    struct pass pass;

    if (!pass_open(model, batch, &pass, err))
        return false;
    pass.temperature = model_loss_temperature(model);
    model_run_forward(&pass);
    pass_token_losses(&pass, pass_likelihoods(&pass));
    pass.ops->download(pass.be, losses, pass_losses(&pass, BUFFER_LOSSES).data,
                       batch->rows * sizeof(float));
    return pass.ops->sync(pass.be, err);
}

void model_sum_answers(struct model *model, const float *answers, size_t count,
                       double *loss_sum)
{
    const bool by_sequence = model->plan->grpo.importance == IMPORTANCE_SEQUENCE;
    double *values = model->rewards.values, kl = 0, clipped = 0, rows = 0;

    for (size_t i = 0; i < count; i++, answers += POLICY_VALUES) {
        *loss_sum += (double)answers[POLICY_LOSS];
        kl += (double)answers[POLICY_KL];
        clipped += by_sequence ? (double)answers[POLICY_CLIPPED] > 0
                               : (double)answers[POLICY_CLIPPED];
        rows += (double)answers[POLICY_ROWS];
    }
    rows = rows > 1 ? rows : 1;
    values[SAMPLED_KL] += kl / rows;
    values[SAMPLED_CLIPPED] += clipped / (by_sequence ? (double)count : rows);
}
