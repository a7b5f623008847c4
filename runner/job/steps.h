/*
 * runner/job/steps.h - how many steps a job takes, and how large its batches are.  The data
 * must be read and tokenised for it, so `trainspool-train --steps` does it and says one
 * tab-separated line: steps  <an epoch>  <in all>  <tokens of an epoch>  <samples>  <rows
 * of the largest batch>  <its sequences>  <most bytes it had itself, reading the data>
 * <tokens of an epoch that are learnt>  <tokens of the longest question to answer>
 */
#ifndef RUNNER_JOB_STEPS_H
#define RUNNER_JOB_STEPS_H

#include "base/text.h"

struct steps {
    int64_t per_epoch, total, tokens, samples;
    int64_t rows, sequences;
    int64_t learnt;   /* of the tokens, those with a target */
    int64_t asked;    /* 0: none is answered */
    int64_t resident; /* bytes: program, tokenizer and data, as a run holds them too */
};

void steps_write(const struct steps *steps, struct text *out);
bool steps_read(const char *text, struct steps *out);
/* Ask trainspool-train beside this program.  False with its own words when the model or
 * the data are not there. */
bool steps_ask(const char *job, struct steps *out, struct error *err);

#endif
