/* train/optimizer.c - the norm of all gradients, clipping, and one update of every
 * weight. */
#include "config.h"

#include "train/optimizer.h"

#include <math.h>

/* torch/nn/utils/clip_grad.py */
#define CLIP_EPSILON 1e-6

bool optimizer_norm(struct model *model, struct backend *be, double scale, double *norm,
                    struct error *err)
{
    double *place = model_number(model), sum = 0;
    const struct op_square_sum op = { .x = model_gradients(model), .sum = place };

    be->ops->square_sum(be, &op);
    be->ops->download(be, &sum, place, sizeof(sum));
    if (!be->ops->sync(be, err))
        return false;
    *norm = sqrt(sum) / scale;
    return true;
}

/* What the gradients are multiplied by: unscaled and clipped at once. */
static double gradient_factor(const struct plan *plan, const struct optimizer_step *step)
{
    double most = plan->precision.max_grad_norm, clip = 1;

    if (most > 0)
        clip = fmin(1, most / (step->norm + CLIP_EPSILON));
    return clip / step->scale;
}

static void update_adamw(struct backend *be, const struct plan *plan,
                         const struct parameter *p, const struct optimizer_step *step,
                         double factor)
{
    const struct op_adamw op = {
        .w = p->weight,
        .grad = p->grad,
        .m = p->moment1,
        .v = p->moment2,
        .copy = p->copy,
        .lr = step->learning_rate * p->lr_factor,
        .beta1 = plan->adam_beta1,
        .beta2 = plan->adam_beta2,
        .eps = plan->adam_epsilon,
        .decay = p->decays ? plan->weight_decay : 0,
        .grad_scale = factor,
        .step = step->step,
    };

    be->ops->adamw(be, &op);
}

static void update_sgd(struct backend *be, const struct plan *plan,
                       const struct parameter *p, const struct optimizer_step *step,
                       double factor)
{
    const struct op_sgd op = {
        .w = p->weight,
        .grad = p->grad,
        .copy = p->copy,
        .lr = step->learning_rate * p->lr_factor,
        .decay = p->decays ? plan->weight_decay : 0,
        .grad_scale = factor,
    };

    be->ops->sgd(be, &op);
}

static void (*const updates[])(struct backend *be, const struct plan *plan,
                               const struct parameter *p,
                               const struct optimizer_step *step, double factor) = {
    [OPTIMIZER_ADAMW] = update_adamw,
    [OPTIMIZER_SGD] = update_sgd,
};

bool optimizer_step(struct model *model, struct backend *be, const struct plan *plan,
                    const struct optimizer_step *step, struct error *err)
{
    double factor = gradient_factor(plan, step);

    for (size_t i = 0; i < model_parameters(model); i++) {
        const struct parameter *p = model_parameter(model, i);

        if (p->trainable)
            updates[plan->optimizer](be, plan, p, step, factor);
    }
    return be->ops->sync(be, err);
}
