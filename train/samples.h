/*
 * train/samples.h - JOB.run/samples.jsonl: some questions of the evaluation data, and
 * what the model said to them before the training and last.
 */
#ifndef TRAIN_SAMPLES_H
#define TRAIN_SAMPLES_H

#include "base/text.h"

struct samples;

/* Room for `count` questions.  resume: what was said before the training is taken from
 * the file, if it is there. */
struct samples *samples_open(const char *name, size_t count, bool resume,
                             struct error *err);
void samples_close(struct samples *samples); /* NULL is allowed */

struct sample_answer {
    const struct text *prompt, *expected;
    const char *text; /* the completion */
    size_t len;
    bool correct;
};

/* index below `count`; all is copied. */
void samples_put(struct samples *samples, size_t index,
                 const struct sample_answer *answer);
/*
 * Replace the file: a line each, {"prompt":..,"expected":..,"before":..,"after":..,
 * "correct_before":..,"correct":..,"step":N}; at step 0 `after` and `correct` are null,
 * and what was said is `before`.
 */
bool samples_write(struct samples *samples, int64_t step, struct error *err);

#endif
