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

/* All borrowed from the dataset. A medium is kept whole or left out: the question, or the
 * answer, then ends before it. */
struct dataset_mismatch {
    const uint32_t *question, *answer;
    size_t question_len, answer_len;
    /* the question is from the start of one sample, the answer from a token of another */
    const struct sample *own, *other;
    size_t answer_at;
};

struct dataset_mismatch dataset_feedback_mismatch(const struct dataset *dataset,
                                                  size_t row);
/* The sample that has the answer. */
const struct sample *dataset_feedback_other(const struct dataset *dataset, size_t row);
bool dataset_feedback_is_good(const struct dataset *dataset, size_t row);
/* Tokens of both sequences, those with a target, and those of the longer one. */
size_t dataset_feedback_tokens(const struct dataset *dataset, size_t row);
size_t dataset_feedback_targets(const struct dataset *dataset, size_t row);
size_t dataset_feedback_longest(const struct dataset *dataset, size_t row);
/* Feature rows of the mismatched sequence. */
size_t dataset_feedback_media_rows(const struct dataset *dataset, size_t row);

#endif
