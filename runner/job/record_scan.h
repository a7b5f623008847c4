/*
 * runner/job/record_scan.h - the fields of a record, and a quick reader of the texts that
 * record_write writes: a status reads thousands.
 */
#ifndef RUNNER_JOB_RECORD_SCAN_H
#define RUNNER_JOB_RECORD_SCAN_H

#include "runner/job/job.h"

enum record_kind { RECORD_TEXT, RECORD_INTEGER, RECORD_REAL, RECORD_BOOLEAN };

struct record_field {
    const char *key;
    enum record_kind kind;
    size_t at, room; /* in struct job_record */
};
extern const struct record_field record_fields[];
extern const size_t record_field_count; /* at most 63 */

/* Return false for a name that is not a state. */
bool record_set_state(struct job_record *out, const char *name);

/* Read a text into a record of record_init, without JSON values in between.  Return false
 * for a text that is unusual or not a record: a full parser decides, and *out has any
 * values. */
bool record_scan(const char *data, size_t len, struct job_record *out);

#endif
