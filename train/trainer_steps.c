/* train/trainer_steps.c - numbers of steps and intervals between them. */
#include "config.h"

#include "train/trainer.h"

#include <math.h>

struct trainer_steps trainer_steps(const struct plan *plan, size_t micro_batches)
{
    int64_t window = plan->gradient_accumulation_steps * (int64_t)plan_ranks(plan);
    struct trainer_steps steps = { .per_epoch =
                                       ((int64_t)micro_batches + window - 1) / window };

    steps.total = plan->max_steps > 0
                      ? plan->max_steps
                      : (int64_t)ceil(plan->num_train_epochs * (double)steps.per_epoch);
    return steps;
}

int64_t trainer_interval(double steps, int64_t total)
{
    int64_t interval = (int64_t)(steps < 1 ? ceil(steps * (double)total) : steps);

    return interval < 1 ? 1 : interval;
}
