/* runner/job/plan_alternatives.h - the alternatives to a plan, as text and as JSON: other
 * formats, checkpointing, optimizers and methods, with memory, relative time and cost. */
#ifndef RUNNER_JOB_PLAN_ALTERNATIVES_H
#define RUNNER_JOB_PLAN_ALTERNATIVES_H

#include "base/json.h"
#include "base/text.h"
#include "runner/job/inspect.h"

/* Both need a job that has a plan. `steps`: what was counted in the data, or NULL. */
void plan_alternatives_text(const struct inspection *inspection,
                            const struct steps *steps, struct text *out);
json_t *plan_alternatives_json(const struct inspection *inspection,
                               const struct steps *steps);

#endif
