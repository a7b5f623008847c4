/* runner/about.h - what a run is, in Markdown, for TensorBoard's tab Text. */
#ifndef RUNNER_ABOUT_H
#define RUNNER_ABOUT_H

#include "patcher/patcher.h"
#include "runner/job.h"

/* Append how it is computed, what was patched and why, and the text that the run follows,
 * without the values of secret keys.  False, with *out as it may be, where the text
 * cannot be shown. */
bool about_job(const struct job *job, const struct patch *patch, struct text *out);

#endif
