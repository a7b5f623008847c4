/* patcher/rules/lora_targets.h - names of lora_target that match no layer. */
#ifndef PATCHER_RULES_LORA_TARGETS_H
#define PATCHER_RULES_LORA_TARGETS_H

#include "patcher/rules/rules_context.h"

/* Report names of lora_target that match no layer in an external job, if the config.json of
 * the model exists here: an error if no name matches, else a warning. */
void lora_targets_check(struct rule_context *context);
/* Report those that a native job skips, whose other names match. */
void lora_targets_check_skipped(struct rule_context *context);
/* Report modules of additional_target that nothing reads: the head of a reward model. */
void lora_targets_check_unread(struct rule_context *context);

#endif
