/*
 * runner/report_sarif.h - findings as SARIF 2.1.0 (OASIS), which code hosts and editors
 * show at their lines.
 */
#ifndef RUNNER_REPORT_SARIF_H
#define RUNNER_REPORT_SARIF_H

#include "base/json.h"
#include "patcher/patcher.h"

/* One log for all jobs of a command; the caller prints it and lets go. */
json_t *report_sarif_new(void);
void report_sarif_add(json_t *log, const struct patch *patch);

#endif
