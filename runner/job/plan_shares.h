/* runner/job/plan_shares.h - what the ranks of a planned run divide and send. */
#ifndef RUNNER_JOB_PLAN_SHARES_H
#define RUNNER_JOB_PLAN_SHARES_H

#include "base/text.h"
#include "train/plan.h"

/* Append lines for `plan`; none for a run of one process or of another program.
 * trainable: elements of the trained weights. */
void plan_shares_text(const struct plan *plan, uint64_t trainable, struct text *out);

#endif
