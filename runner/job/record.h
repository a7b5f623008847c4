/* runner/job/record.h - the text of state.json: a job's record as a JSON object. */
#ifndef RUNNER_JOB_RECORD_H
#define RUNNER_JOB_RECORD_H

#include "runner/job/job.h"

/* Make a record of a job without state.json: JOB_NEW, and nothing known. */
void record_init(struct job_record *out);
/* Read a text.  One that is not a record (a power cut) gives that of record_init. */
void record_read(const char *data, size_t len, struct job_record *out);
/* Append the text, without a final newline.  Return false on overflow. */
bool record_write(const struct job_record *record, struct text *out);

/* What a decision about a job is made from; it counts only as long as this is the same under
 * the job's lock.  Compared as bytes. */
struct record_stamp {
    int64_t state, attempt, crashes, heals;
    char source[64], queued[32], ended[32];
};
void record_stamp(const struct job_record *record, struct record_stamp *out);

/* Copy as much of a text as fits into `room` bytes, without cutting a character. */
void record_set_text(char *out, size_t room, const char *text);

#endif
