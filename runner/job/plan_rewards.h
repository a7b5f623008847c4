/* runner/job/plan_rewards.h - references and sampled answers in what `plan` prints. */
#ifndef RUNNER_JOB_PLAN_REWARDS_H
#define RUNNER_JOB_PLAN_REWARDS_H

#include "base/json.h"
#include "train/plan.h"

/* Return the settings of stage grpo as an object, or null in other stages. */
json_t *plan_rewards_json(const struct plan *plan);
/* Add what the model is compared with. */
void plan_reference_text(struct text *out, const struct plan *plan);
/* Add the lines of stage grpo: answers, rewards, loss and reference. */
void plan_rewards_text(struct text *out, const struct plan *plan);

#endif
