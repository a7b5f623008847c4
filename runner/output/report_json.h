/* runner/output/report_json.h - the JSON objects that trainspool(1) describes, one per
 * line. */
#ifndef RUNNER_OUTPUT_REPORT_JSON_H
#define RUNNER_OUTPUT_REPORT_JSON_H

#include "base/json.h"
#include "patcher/patcher.h"
#include "runner/output/report.h"

/* Return a string as JSON; bytes that are not UTF-8 are made visible first (a file name
 * may contain anything). */
json_t *report_json_string(const char *string);          /* NULL gives null */
json_t *report_json_device(const struct device *device); /* NULL gives null */
json_t *report_json_findings(const struct findings *findings);
json_t *report_json_patch(const struct patch *patch, const struct device *device);
/* Print the error of a job that could not be inspected: on standard error, and with
 * --json also as an object with its name and the error. */
void report_json_failure(struct report *report, const struct options *options,
                         const char *job, const struct error *err);
/* Print an object and release it. */
bool report_json(struct report *report, json_t *value, struct error *err);

#endif
