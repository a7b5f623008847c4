/*
 * train/model/score_head.h - the head of a reward model: one score for each answer, in place
 * of the logits of tokens.
 *
 * Files have it in one of two forms.  transformers' ...ForSequenceClassification with one
 * label has the tensor score.weight in place of the head, and reads the score in the row of
 * the last token that is not pad_token_id.  TRL's AutoModelForCausalLMWithValueHead, which
 * LLaMA-Factory trains, has v_head.summary.weight and .bias in value_head.safetensors next
 * to the whole model, and reads it in the last row.
 */
#ifndef TRAIN_MODEL_SCORE_HEAD_H
#define TRAIN_MODEL_SCORE_HEAD_H

#include "train/model/model_config.h"
#include "train/plan.h"

#define SCORE_HEAD_FILE "value_head" /* without .safetensors */

/* Give the model in `dir` the head that the plan asks for. */
bool score_head_apply(const struct plan *plan, const char *dir, struct arena *arena,
                      struct model_config *config, struct error *err);
/* Return whether a tensor belongs to the head that it replaces: a file of ...CausalLM has
 * it, and so has the whole model next to a value head. */
bool score_head_replaces(const struct model_config *config, const char *name);
/* Change the text of a config.json to that of a model with such a head. */
bool score_head_edit_config(const struct model_config *config, struct text *text,
                            struct error *err);

#endif
