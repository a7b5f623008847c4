/* train/optimizer.h - AdamW (or SGD) over the parameter table, with clipping to max_grad_norm. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "train/model.h"

/* L2 norm of all gradients divided by `scale` (the loss scale), in double, in a fixed order.
 * Not finite if any gradient is not: that is how an overflow is seen. */
bool optimizer_norm(struct model *model, struct backend *be, double scale, double *norm,
                    struct error *err);

struct optimizer_step {
    double learning_rate;
    double scale;     /* the loss scale the gradients still carry */
    double norm;      /* of the unscaled gradients */
    int64_t step;     /* from 1; skipped steps do not count */
};

/* Clip factor as torch.nn.utils.clip_grad_norm_: min(1, max / (norm + 1e-6)); unscale, clip,
 * AdamW and the 16-bit copy in one pass.  max_grad_norm 0 does not clip. */
bool optimizer_step(struct model *model, struct backend *be, const struct plan *plan,
                    const struct optimizer_step *step, struct error *err);

#endif
