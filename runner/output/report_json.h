/* runner/output/report_json.h - the objects that trainspool(1) describes, one a line. */
#ifndef RUNNER_OUTPUT_REPORT_JSON_H
#define RUNNER_OUTPUT_REPORT_JSON_H

#include "base/json.h"
#include "patcher/patcher.h"
#include "runner/output/report.h"

/* A string as JSON; what is no UTF-8 is made visible first (a file name may hold
 * anything). */
json_t *report_json_string(const char *string);          /* NULL gives null */
json_t *report_json_device(const struct device *device); /* NULL gives null */
json_t *report_json_findings(const struct findings *findings);
json_t *report_json_patch(const struct patch *patch, const struct device *device);
/* Print what is wrong with a job that could not even be looked at: on standard error, and
 * with --json as an object of its name and the error. */
void report_json_failure(struct report *report, const struct options *options,
                         const char *job, const struct error *err);
/* Print and let go. */
bool report_json(struct report *report, json_t *value, struct error *err);

#endif
