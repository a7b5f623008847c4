/* runner/job/job_variables.h - the environment variables that a job sets
 * (trainspool.env): for its process, and as shown. */
#ifndef RUNNER_JOB_JOB_VARIABLES_H
#define RUNNER_JOB_JOB_VARIABLES_H

#include "base/json.h"
#include "base/text.h"
#include "train/plan.h"

/* Set the variables of the text of a job in this process. Libraries read theirs when they
 * are loaded: if any value changes, start the program again, and return only if that
 * fails. Call it before anything is opened. */
void job_variables_apply(const char *text, size_t len, char **argv);

/* Append the line of plan, without secrets; nothing if the job sets none. */
void job_variables_add_line(const struct plan *plan, struct text *out);
/* Return an object of names and values, without secrets. */
json_t *job_variables_json(const struct plan *plan);

#endif
