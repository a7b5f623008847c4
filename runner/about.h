/* runner/about.h - what a run is, in Markdown, for TensorBoard's tab Text. */
#ifndef RUNNER_ABOUT_H
#define RUNNER_ABOUT_H

#include "patcher/patcher.h"

/* Append how it is computed and the job's text, without the values of secret keys.  False,
 * with *out as it may be, where the text cannot be shown. */
bool about_job(const struct patch *patch, struct text *out);

#endif
