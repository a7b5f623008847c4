/* patcher/rules/memory_case.h - a job as the estimate of its memory and the search for
 * changes see it. */
#ifndef PATCHER_RULES_MEMORY_CASE_H
#define PATCHER_RULES_MEMORY_CASE_H

#include "patcher/rules/memory_fit.h"
#include "patcher/rules/rules.h"

/* Fill the case, with the precision decided.  Return false if model, device or memory is
 * unknown. */
bool memory_case_read(struct rule_context *context, struct memory_fit_case *request);
/* Return the key that turns checkpointing on or off. */
const char *memory_case_checkpointing_key(const struct rule_context *context);

#endif
