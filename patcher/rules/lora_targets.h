/* patcher/rules/lora_targets.h - the layers that PEFT would adapt in another program. */
#ifndef PATCHER_RULES_LORA_TARGETS_H
#define PATCHER_RULES_LORA_TARGETS_H

#include "patcher/rules/rules_context.h"

/* Report names of lora_target that match no layer of the model, if its config.json is here:
 * an error if none matches. */
void lora_targets_check(struct rule_context *context);

#endif
