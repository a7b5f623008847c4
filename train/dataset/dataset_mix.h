/*
 * train/dataset/dataset_mix.h - from the samples of several data sets to one list of them: a part
 * or a draw of each, then one behind the other or in turn, as LLaMA-Factory and Hugging
 * Face `interleave_datasets` do.
 */
#ifndef TRAIN_DATASET_DATASET_MIX_H
#define TRAIN_DATASET_DATASET_MIX_H

#include "train/dataset/dataset_source.h"
#include "train/plan.h"

/* What of a data set there is to choose from: samples [first, first + count) of the
 * store. */
struct dataset_part {
    const struct dataset_source *source;
    size_t first, count;
};

/* The samples to train on, by their numbers in the store. */
struct dataset_choice {
    uint32_t *samples; /* malloc'ed */
    size_t count;
    bool all; /* each once and in order: there is nothing to choose */
};

/* Do mix_strategy and interleave_probs go together, for so many data sets?  ERROR_JOB. */
bool dataset_mix_check(const struct plan *plan, size_t sets, struct error *err);

/*
 * Slice, draw (num_samples) and cut (max_samples) each part, in this order, then mix
 * them:
 *   concat            one behind the other
 *   interleave_under  in turn until the first has given all
 *   interleave_over   until the last has; what was exhausted begins again
 *   interleave_once   the same, but each sample once
 * In turn is a round, or with interleave_probs a draw of numpy's default_rng(seed): the
 * very list that `interleave_datasets` gives for this seed.  ERROR_DATA where nothing is
 * left or it becomes more than 2^32 - 2 samples.
 */
bool dataset_mix(const struct plan *plan, const struct dataset_part *parts, size_t count,
                 struct dataset_choice *out, struct error *err);

#endif
