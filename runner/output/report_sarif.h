/*
 * runner/output/report_sarif.h - findings as SARIF 2.1.0 (OASIS), which code hosts and editors
 * show at their lines.
 */
#ifndef RUNNER_OUTPUT_REPORT_SARIF_H
#define RUNNER_OUTPUT_REPORT_SARIF_H

#include "base/json.h"
#include "patcher/patcher.h"

/* One log with one run for all jobs of a command; the caller prints it and lets go. */
json_t *report_sarif_new(void);
/*
 * Add a job that was checked.  A fix is what trainspool patch would make: all fixes, by
 * their byte regions, give its text.  Edits that go together are one fix, of the first
 * result. `suppressed` adds what the job asks to ignore, with suppressions[]; code hosts
 * that do not know these would show it like the rest.
 */
void report_sarif_add(json_t *log, const struct patch *patch, bool suppressed);
/* Say that a job could not be looked at. */
void report_sarif_failure(json_t *log, const char *job, const struct error *err);

#endif
