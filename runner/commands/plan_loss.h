/* runner/commands/plan_loss.h - what `plan` shows about the loss: a teacher, a reference
 * model, the loss of a token. */
#ifndef RUNNER_COMMANDS_PLAN_LOSS_H
#define RUNNER_COMMANDS_PLAN_LOSS_H

#include "base/text.h"
#include "train/plan.h"

/* Add the lines of these, if the plan has them. */
void plan_loss_add(struct text *out, const struct plan *plan);

#endif
