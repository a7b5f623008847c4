/* patcher/rules/external.h - the precision of a job that another program runs. */
#ifndef PATCHER_RULES_EXTERNAL_H
#define PATCHER_RULES_EXTERNAL_H

#include "patcher/rules/rules.h"

/* Set defaults of the plan that differ between a Hugging Face script and
 * LLaMA-Factory. */
void external_defaults(const struct rule_context *context, struct plan *plan);
/* Set the quoted booleans that the program reads as true although they say false.  Return
 * whether there are any. */
bool external_read_strings(const struct rule_context *context, struct plan *plan);
/*
 * Decide the precision that LLaMA-Factory or a script of Hugging Face's Trainer runs in,
 * name the settings that decide it in the message, and store the program with its
 * versions in the plan.  If an unknown version decides, assume the current one; the
 * message says so.
 */
void external_decide(const struct rule_context *context, struct plan *plan);

#endif
