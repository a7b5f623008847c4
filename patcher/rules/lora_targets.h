/* patcher/rules/lora_targets.h - checks which layers PEFT adapts in an external job. */
#ifndef PATCHER_RULES_LORA_TARGETS_H
#define PATCHER_RULES_LORA_TARGETS_H

#include "patcher/rules/rules_context.h"

/* Report names of lora_target that match no layer, if the config.json of the model exists
 * here: an error if no name matches, else a warning. */
void lora_targets_check(struct rule_context *context);

#endif
