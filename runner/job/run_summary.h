/* runner/job/run_summary.h - a Markdown summary of a run for TensorBoard's Text tab. */
#ifndef RUNNER_JOB_RUN_SUMMARY_H
#define RUNNER_JOB_RUN_SUMMARY_H

#include "patcher/patcher.h"
#include "runner/job/job.h"

/* Append the precision, what was patched and why, and the text that the run follows,
 * without the values of secret keys. Return false if the text cannot be shown; *out is
 * then unspecified. */
bool run_summary_write(const struct job *job, const struct patch *patch,
                       struct text *out);

#endif
