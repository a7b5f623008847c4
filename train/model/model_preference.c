/* train/model/model_preference.c - head and loss of pairs of answers, and their
 * reference. */
#include "config.h"

#include "train/model/model.h"

#include <math.h>

#include "train/model/model_internal.h"
#include "train/model/model_loss.h"

const char *const reward_names[REWARDS] = {
    [REWARD_CHOSEN] = "rewards/chosen",
    [REWARD_REJECTED] = "rewards/rejected",
    [REWARD_ACCURACY] = "rewards/accuracies",
    [REWARD_MARGIN] = "rewards/margins",
    [REWARD_LOGP_CHOSEN] = "logps/chosen",
    [REWARD_LOGP_REJECTED] = "logps/rejected",
    [REWARD_KL] = "kl",
    [REWARD_GOOD] = "good",
};

void rewards_divide(struct rewards *rewards)
{
    double *values = rewards->values, good = values[REWARD_GOOD];

    if (!rewards->feedback)
        return;
    values[REWARD_CHOSEN] /= good;
    values[REWARD_LOGP_CHOSEN] /= good;
    values[REWARD_REJECTED] /= 1 - good;
    values[REWARD_LOGP_REJECTED] /= 1 - good;
    values[REWARD_MARGIN] = values[REWARD_CHOSEN] - values[REWARD_REJECTED];
}

bool rewards_show(const struct rewards *rewards, enum reward reward)
{
    bool chosen = rewards->values[REWARD_GOOD] > 0,
         rejected = rewards->values[REWARD_GOOD] < 1;

    if (rewards->names)
        return rewards->names[reward] && !isnan(rewards->values[reward]);
    if (!rewards->feedback)
        return reward < (rewards->scores ? REWARD_LOGP_CHOSEN : REWARD_KL);
    switch (reward) {
    case REWARD_CHOSEN:
    case REWARD_LOGP_CHOSEN:
        return chosen;
    case REWARD_REJECTED:
    case REWARD_LOGP_REJECTED:
        return rejected;
    case REWARD_MARGIN:
        return chosen && rejected;
    default:
        return reward == REWARD_KL;
    }
}

void rewards_add(struct rewards *to, const struct rewards *more, double times)
{
    for (int i = 0; i < REWARDS; i++)
        to->values[i] += times * more->values[i];
    to->names = more->names ? more->names : to->names;
    to->feedback |= more->feedback;
    to->scores |= more->scores;
}

void model_set_reference(struct model *model, struct model *reference)
{
    model->reference = reference;
}

struct tensor pass_losses(const struct pass *pass, enum buffer buffer)
{
    struct tensor all = pass_buffer(pass, buffer, 0);

    return tensor_of(all.data, all.format, all.data ? 1 : 0, pass->rows);
}

struct op_classifier pass_likelihoods(const struct pass *pass)
{
    struct op_classifier op = model_classifier_op(pass);

    op.smoothing = 0;
    return op;
}

void pass_token_losses(const struct pass *pass, struct op_classifier op)
{
    op.dx = op.dw = op.dbias = (struct tensor) { 0 };
    pass->ops->classifier(pass->be, &op);
}

bool model_run_reference(const struct pass *pass, struct error *err)
{
    struct model *m = pass->model;
    struct pass plain = *pass;

    if (!plan_has_reference(m->plan))
        return true;
    if (m->reference && !pass_open(m->reference, pass->batch, &plain, err))
        return false;
    plain.training = plain.first = plain.reduces = false;
    plain.skip_adapters = true;
    plain.teacher = NULL;
    plain.announced = pass->announced;
    plain.second = m->reference != NULL;
    plain.temperature = pass->temperature;
    model_run_forward(&plain);
    pass_token_losses(&plain, pass_likelihoods(&plain));
    pass->ops->convert(pass->be,
                       &(struct op_convert) { .out = pass_losses(pass, BUFFER_REFERENCE),
                                              .x = pass_losses(&plain, BUFFER_LOSSES) });
    return true;
}

/* Row 0: the current micro-batch. */
static struct tensor newest_pairs(const struct pass *pass)
{
    struct tensor all = pass_buffer(pass, BUFFER_PAIRS, 0);

    return tensor_of(all.data, all.format, pass->pairs, PREFERENCE_VALUES);
}

void model_preference_loss(const struct pass *pass)
{
    const struct preference *p = &pass->model->plan->preference;
    struct op_classifier op = pass_likelihoods(pass);
    float *weights = pass_buffer(pass, BUFFER_WEIGHTS, 0).data;

    if (pass->model->config->scores) {
        model_reward_loss(pass);
        return;
    }
    pass_token_losses(pass, op);
    pass->ops->preference(pass->be,
                          &(struct op_preference) {
                              .pairs = newest_pairs(pass),
                              .losses = op.losses,
                              .reference = pass_losses(pass, BUFFER_REFERENCE),
                              .weights = weights,
                              .targets = op.targets,
                              .offsets = pass_buffer(pass, BUFFER_OFFSETS, 0).data,
                              .kind = p->loss,
                              .beta = (float)p->beta,
                              .ftx = (float)p->ftx,
                              .smoothing = (float)p->label_smoothing,
                              .margin = (float)p->simpo_gamma,
                              .chosen_weight = (float)p->chosen_weight,
                              .rejected_weight = (float)p->rejected_weight,
                          });
    if (!pass->training)
        return;
    op.weights = weights;
    pass->ops->classifier(pass->be, &op);
}

static void sum_feedback(struct model *model, const float *answers, size_t count,
                         double *loss_sum)
{
    double *values = model->rewards.values;

    for (size_t i = 0; i < count; i++, answers += PREFERENCE_VALUES) {
        bool good = answers[FEEDBACK_GOOD] > 0;

        *loss_sum += answers[PREFERENCE_LOSS];
        values[good ? REWARD_CHOSEN : REWARD_REJECTED] += answers[FEEDBACK_REWARD];
        values[good ? REWARD_LOGP_CHOSEN : REWARD_LOGP_REJECTED] +=
            answers[FEEDBACK_LOGP];
        values[REWARD_KL] += answers[FEEDBACK_KL];
        values[REWARD_GOOD] += good;
    }
}

void model_sum_pairs(struct model *model, const float *pairs, size_t count,
                     double *loss_sum)
{
    double *values = model->rewards.values;

    if (model->plan->stage == STAGE_GRPO) {
        model_sum_answers(model, pairs, count, loss_sum);
        return;
    }
    model->rewards.feedback = model->plan->stage == STAGE_KTO;
    model->rewards.scores = model->plan->stage == STAGE_RM;
    if (model->rewards.feedback) {
        sum_feedback(model, pairs, count, loss_sum);
        return;
    }

    for (size_t i = 0; i < count; i++, pairs += PREFERENCE_VALUES) {
        *loss_sum += pairs[PREFERENCE_LOSS];
        values[REWARD_CHOSEN] += pairs[PREFERENCE_CHOSEN];
        values[REWARD_REJECTED] += pairs[PREFERENCE_REJECTED];
        values[REWARD_ACCURACY] += pairs[PREFERENCE_CHOSEN] > pairs[PREFERENCE_REJECTED];
        values[REWARD_MARGIN] +=
            (double)pairs[PREFERENCE_CHOSEN] - pairs[PREFERENCE_REJECTED];
        values[REWARD_LOGP_CHOSEN] += pairs[PREFERENCE_LOGP_CHOSEN];
        values[REWARD_LOGP_REJECTED] += pairs[PREFERENCE_LOGP_REJECTED];
    }
}

const float *model_pairs(const struct model *model)
{
    return model->results[0].pairs;
}

struct rewards model_rewards(const struct model *model)
{
    return model->rewards;
}
