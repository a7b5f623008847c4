/*
 * train/samples.h - JOB.run/samples.jsonl: some prompts of the evaluation data with the
 * answers of the model before training and at the latest evaluation.
 */
#ifndef TRAIN_SAMPLES_H
#define TRAIN_SAMPLES_H

#include "base/text.h"

struct samples;

/* Make room for `count` prompts.  resume: read the answers from before training from the
 * file, if it exists. */
struct samples *samples_open(const char *name, size_t count, bool resume,
                             struct error *err);
void samples_close(struct samples *samples); /* NULL is allowed */

struct sample_answer {
    const struct text *prompt, *expected;
    const char *text; /* the completion */
    size_t len;
    bool correct;
};

/* Set an answer; index is below `count`.  Everything is copied. */
void samples_put(struct samples *samples, size_t index,
                 const struct sample_answer *answer);
/*
 * Replace the file: a line per prompt, {"prompt":..,"expected":..,"before":..,"after":..,
 * "correct_before":..,"correct":..,"step":N}; at step 0 `after` and `correct` are null,
 * and the answer becomes `before`.
 */
bool samples_write(struct samples *samples, int64_t step, struct error *err);

#endif
