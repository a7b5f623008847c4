/* patcher/rules/trainer_settings.h - settings of an external job under the names and with
 * the defaults of its program. */
#ifndef PATCHER_RULES_TRAINER_SETTINGS_H
#define PATCHER_RULES_TRAINER_SETTINGS_H

#include "patcher/rules/rules.h"

/* Bind keys that only the program has, such as TRL's lora_r, and the defaults of its
 * version, as far as both are known. */
void trainer_settings_bind(const struct rule_context *context, struct plan *plan);
/* Return `cutoff_len` or `finetuning_type: lora` under the name that the program has for
 * it. */
const char *trainer_settings_name(const struct rule_context *context, const char *ours);
/* Return whether bf16 is on because it is the program's default. */
bool trainer_settings_bf16(const struct rule_context *context);

#endif
