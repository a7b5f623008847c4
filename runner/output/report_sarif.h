/*
 * runner/output/report_sarif.h - findings as SARIF 2.1.0 (OASIS), which code hosts and
 * editors show at their lines.
 */
#ifndef RUNNER_OUTPUT_REPORT_SARIF_H
#define RUNNER_OUTPUT_REPORT_SARIF_H

#include "base/json.h"
#include "patcher/patcher.h"

/* Create one log with one run for all jobs of a command; the caller prints and releases
 * it. */
json_t *report_sarif_new(void);
/* Add a checked job. The fixes are the edits of trainspool patch: applying all of them by
 * their byte regions gives its text. Edits that belong together are one fix, in the first
 * result. `suppressed` adds the findings that the job asks to ignore, with
 * suppressions[]; code hosts that do not support these would show them like the rest. */
void report_sarif_add(json_t *log, const struct patch *patch, bool suppressed);
/* Record that a job could not be inspected. */
void report_sarif_failure(json_t *log, const char *job, const struct error *err);

#endif
