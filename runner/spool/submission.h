/*
 * runner/spool/submission.h - checks a text before it enters a spool: a watch must not
 * reject it for its paths.
 */
#ifndef RUNNER_SPOOL_SUBMISSION_H
#define RUNNER_SPOOL_SUBMISSION_H

#include "base/error.h"
#include "base/text.h"

/*
 * Check the paths of a job, `name` in the folder `spool`, as its watch would. What another
 * job of the spool will write may be missing. Changes the working directory for a while.
 * ERROR_JOB with the position in the text; the error also says what to do.
 */
bool submission_check(const char *spool, const char *name, const char *data, size_t len,
                      struct error *err);

#endif
