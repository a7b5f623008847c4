/*
 * train/dataset/dataset_feedback.h - the second sequence of a row of stage kto: its
 * question, and the answer of the row before it.  How much likelier than for the
 * reference such answers have become estimates the divergence from it.
 *
 * The rows are taken in the order of the data, 1000 at a time: the first of them gets the
 * answer of the last one (LLaMA-Factory, data/processor/feedback.py).  The spans of bad
 * answers have negative weights.
 */
#ifndef TRAIN_DATASET_DATASET_FEEDBACK_H
#define TRAIN_DATASET_DATASET_FEEDBACK_H

#include "train/dataset/dataset_internal.h"

/* Both borrowed from the dataset. */
struct dataset_mismatch {
    const uint32_t *question, *answer;
    size_t question_len, answer_len;
};

struct dataset_mismatch dataset_feedback_mismatch(const struct dataset *dataset,
                                                  size_t row);
bool dataset_feedback_is_good(const struct dataset *dataset, size_t row);
/* Tokens of both sequences, those with a target, and those of the longer one. */
size_t dataset_feedback_tokens(const struct dataset *dataset, size_t row);
size_t dataset_feedback_targets(const struct dataset *dataset, size_t row);
size_t dataset_feedback_longest(const struct dataset *dataset, size_t row);

#endif
