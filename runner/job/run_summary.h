/* runner/job/run_summary.h - what a run is, in Markdown, for TensorBoard's tab Text. */
#ifndef RUNNER_JOB_RUN_SUMMARY_H
#define RUNNER_JOB_RUN_SUMMARY_H

#include "patcher/patcher.h"
#include "runner/job/job.h"

/* Append how it is computed, what was patched and why, and the text that the run follows,
 * without the values of secret keys.  False, with *out as it may be, where the text
 * cannot be shown. */
bool run_summary_write(const struct job *job, const struct patch *patch,
                       struct text *out);

#endif
