/* patcher/rules/memory_advice.h - sentences about what would make a job fit into memory. */
#ifndef PATCHER_RULES_MEMORY_ADVICE_H
#define PATCHER_RULES_MEMORY_ADVICE_H

#include "patcher/rules/alternatives.h"
#include "patcher/rules/memory_fit.h"
#include "patcher/rules/rules.h"

/* "1.9 GiB", from the arena. */
const char *memory_advice_bytes(const struct rule_context *context, uint64_t bytes);
/* Say what would make a job fit that no edit of TS301 makes fit; `use` is its estimate, and
 * `mildest` the first alternative that fits, or NULL. */
const char *memory_advice(const struct rule_context *context,
                          const struct memory_fit_case *request,
                          const struct memory_use *use,
                          const struct alternative_mildest *mildest);
/* Say why a job whose estimate does not fit may fit all the same; NULL: it does not.  For
 * a job that divides its state among an unknown number of ranks, say how many suffice;
 * NULL if what is not divided is too much. */
const char *memory_advice_doubt(const struct rule_context *context,
                                const struct memory_fit_case *request);

#endif
