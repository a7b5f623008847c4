/* patcher/rules/trl_quantized.h - what TRL's trainers make of the weights that they train
 * next to quantized ones. */
#ifndef PATCHER_RULES_TRL_QUANTIZED_H
#define PATCHER_RULES_TRL_QUANTIZED_H

#include "patcher/rules/rules.h"

/* Return whether the trainer casts all that it trains to bfloat16; if its version is
 * unknown, *known becomes false and the current version answers. */
bool trl_quantized_casts(const struct rule_context *context, bool *known);
/* Return whether PEFT's prepare_model_for_kbit_training runs, which casts all that is not
 * quantized to float32. */
bool trl_quantized_prepares(const struct rule_context *context);
/* Return the last version that does not cast: "0.25". */
const char *trl_quantized_last(const struct rule_context *context);

#endif
