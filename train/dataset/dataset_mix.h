/* train/dataset/dataset_mix.h - several datasets as one list of samples: a slice or a
 * random draw of each, then concatenated or interleaved, as LLaMA-Factory and Hugging
 * Face `interleave_datasets` do. */
#ifndef TRAIN_DATASET_DATASET_MIX_H
#define TRAIN_DATASET_DATASET_MIX_H

#include "train/dataset/dataset_source.h"
#include "train/plan.h"

/* The samples of one dataset: samples [first, first + count) of the store. */
struct dataset_part {
    const struct dataset_source *source;
    size_t first, count;
};

/* The samples to train on, by number in the store. */
struct dataset_choice {
    uint32_t *samples; /* malloc'ed */
    size_t count;
    bool all; /* every sample once and in order: nothing to select */
};

/* Check that mix_strategy and interleave_probs fit together, for this number of datasets.
 * ERROR_JOB. */
bool dataset_mix_check(const struct plan *plan, size_t sets, struct error *err);

/* Slice, draw (num_samples) and cut (max_samples) each part, in this order, then mix
 * them:
 *   concat            one after the other
 *   interleave_under  in turn until the first part is exhausted
 *   interleave_over   until the last is; an exhausted part starts again
 *   interleave_once   the same, but each sample once
 * Turns are round-robin, or with interleave_probs drawn by numpy's default_rng(seed): the
 * same list that `interleave_datasets` gives for this seed. ERROR_DATA if nothing is left
 * or the list exceeds 2^32 - 2 samples. */
bool dataset_mix(const struct plan *plan, const struct dataset_part *parts, size_t count,
                 struct dataset_choice *out, struct error *err);

#endif
