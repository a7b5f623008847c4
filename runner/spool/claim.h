/*
 * runner/spool/claim.h - takes a job of the spool: locks it, admits it and records the
 * result. Runs in an examiner, not in the watch.
 */
#ifndef RUNNER_SPOOL_CLAIM_H
#define RUNNER_SPOOL_CLAIM_H

#include "runner/spool/examiner.h"

/* The `examine` of struct examine_how; the spool is the current directory. */
void claim_examine(const struct examine_request *request, const struct examine_how *how,
                   struct examine_result *out);

#endif
