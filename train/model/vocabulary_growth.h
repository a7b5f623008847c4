/* train/model/vocabulary_growth.h - a larger vocabulary than that of the model's files, for
 * the tokens of resize_vocab, add_tokens and add_special_tokens. */
#ifndef TRAIN_MODEL_VOCABULARY_GROWTH_H
#define TRAIN_MODEL_VOCABULARY_GROWTH_H

#include "train/model/model_config.h"
#include "train/plan.h"
#include "train/tokenizer/new_tokens.h"

static inline struct new_tokens plan_new_tokens(const struct plan *plan)
{
    return (struct new_tokens) { plan->add_tokens, plan->add_special_tokens };
}

/*
 * If the plan asks for it, open the tokenizer in `dir`, the folder of the plan's model, and
 * set the vocabulary of its configuration, also in its text: as many rows as tokens,
 * rounded up to 64, as LLaMA-Factory does (model/model_utils/embedding.py).  ERROR_JOB for
 * models whose vocabulary cannot grow.
 */
bool vocabulary_grow(const struct plan *plan, const char *dir, struct arena *arena,
                     struct model_config *config, struct error *err);

#endif
