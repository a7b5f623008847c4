/* patcher/rules/optimizer_keys.h - settings that the optimizer of a job does not read. */
#ifndef PATCHER_RULES_OPTIMIZER_KEYS_H
#define PATCHER_RULES_OPTIMIZER_KEYS_H

struct rule_context;

/* Report each group of such keys as TS712. */
void optimizer_keys_check(struct rule_context *context);

#endif
