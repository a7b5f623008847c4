/* train/model/vocabulary_growth.h - another vocabulary than that of the model's files, for
 * the tokens of resize_vocab, add_tokens and add_special_tokens, or those of an adapter that
 * was trained with such tokens. */
#ifndef TRAIN_MODEL_VOCABULARY_GROWTH_H
#define TRAIN_MODEL_VOCABULARY_GROWTH_H

#include "train/model/model_config.h"
#include "train/plan.h"
#include "train/tokenizer/new_tokens.h"

/* Return what to open the model's tokenizer with; vocabulary_grow has set `config`. */
static inline struct new_tokens plan_new_tokens(const struct plan *plan,
                                                const struct model_config *config)
{
    return (struct new_tokens) { plan->add_tokens, plan->add_special_tokens,
                                 config->adapter_tokens ? plan->adapter_name_or_path
                                                        : NULL };
}

/*
 * If the plan asks for it, open the tokenizer in `dir`, the folder of the plan's model, and
 * set the vocabulary of its configuration, also in its text: as many rows as tokens,
 * rounded up to 64, as LLaMA-Factory does (model/model_utils/embedding.py).  An adapter that
 * has its own embeddings gives their number of rows, and the tokenizer next to it the new
 * tokens.  ERROR_JOB for models whose vocabulary cannot change, and for new tokens for which
 * the adapter has no row.
 */
bool vocabulary_grow(const struct plan *plan, const char *dir, struct arena *arena,
                     struct model_config *config, struct error *err);

#endif
