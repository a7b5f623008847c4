/* patcher/rules/memory_advice.h - advice that makes a job fit into memory. */
#ifndef PATCHER_RULES_MEMORY_ADVICE_H
#define PATCHER_RULES_MEMORY_ADVICE_H

#include "patcher/rules/alternatives.h"
#include "patcher/rules/memory_fit.h"
#include "patcher/rules/rules.h"

/* "1.9 GiB", from the arena. */
const char *memory_advice_bytes(const struct rule_context *context, uint64_t bytes);
/* Return advice for a job that no edit of TS301 makes fit; `use` is its estimate, and
 * `advice` the first alternative that fits, or NULL. */
const char *memory_advice(const struct rule_context *context,
                          const struct memory_fit_case *request,
                          const struct memory_use *use,
                          const struct alternative_advice *advice);
/* Return why a job may fit although its estimate does not, or NULL.  For a job that shards
 * its state across an unknown number of ranks, name the number that fits; NULL if none
 * does. */
const char *memory_advice_doubt(const struct rule_context *context,
                                const struct memory_fit_case *request);

#endif
