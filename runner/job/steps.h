/*
 * runner/job/steps.h - how many steps a job takes, and how large its batches are. This
 * requires reading and tokenizing the data, so `trainspool-train --steps` does it and
 * prints one tab-separated line:
 *
 *   steps  <per epoch>  <total>  <tokens per epoch>  <samples>  <rows of the largest
 *   batch>  <its sequences>  <peak bytes of the process, reading the data>
 *   <tokens per epoch with a target>  <tokens of the longest prompt to answer>
 */
#ifndef RUNNER_JOB_STEPS_H
#define RUNNER_JOB_STEPS_H

#include "base/text.h"

struct steps {
    int64_t per_epoch, total, tokens, samples;
    int64_t rows, sequences;
    int64_t learned;  /* tokens that have a target */
    int64_t asked;    /* 0: no answers are generated */
    int64_t resident; /* bytes: program, tokenizer and data, as in a run */
};

void steps_write(const struct steps *steps, struct text *out);
bool steps_read(const char *text, struct steps *out);
/* Ask trainspool-train next to this program. Return false with its message if the model
 * or the data do not exist. */
bool steps_query(const char *job, struct steps *out, struct error *err);
/* Return false, with the message, if counting fails within a few seconds.  A check does not
 * wait longer. */
bool steps_can_count(const char *job, struct error *err);

#endif
