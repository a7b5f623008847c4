/* patcher/rules/external.h - what another program would make of a job, as far as can be
 * known. */
#ifndef PATCHER_RULES_EXTERNAL_H
#define PATCHER_RULES_EXTERNAL_H

#include "patcher/rules/rules.h"

/* Presets that a Hugging Face script has otherwise than LLaMA-Factory, into the plan. */
void external_defaults(const struct rule_context *context, struct plan *plan);
/*
 * The precision that LLaMA-Factory or a script of Hugging Face's Trainer runs in, with
 * the settings that decide it in the message, and the program with its versions into the
 * plan. Where a version decides and is not known, the one of today is taken, and the
 * message says so.
 */
void external_decide(const struct rule_context *context, struct plan *plan);

#endif
