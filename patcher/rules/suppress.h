/*
 * patcher/rules/suppress.h - findings that are not reported: those that the job ignores,
 * and those that the caller did not select.
 *
 *   bf16: true   # trainspool: ignore[TS102]      whole rules, in this line
 *   trainspool:
 *     ignore: [TS3, TS708]                        rules or families, in the whole job
 *
 * An error of a mandatory rule (rules.h) is always reported.  TS714 reports suppressions
 * that hide nothing.
 */
#ifndef PATCHER_RULES_SUPPRESS_H
#define PATCHER_RULES_SUPPRESS_H

#include "patcher/document/document.h"
#include "patcher/findings/finding.h"
#include "patcher/rules/patch_options.h"

/*
 * Move the findings that the document ignores from *findings, the result of one pass, to
 * *ignored; drop those that the options do not select, and those that exist only through
 * such a rule; add TS714.  If one finding of a
 * group is ignored, all findings of its rule in the group are, and the edits of the rest
 * of the group are withdrawn.
 */
void suppress(const struct document *document, const struct patch_options *options,
              struct findings *findings, struct findings *ignored);

/* Return whether a rule is selected.  The longest matching prefix decides, and
 * `ignore` if both lists have it; `select` NULL selects all. */
bool suppress_selects(const char *const *select, const char *const *ignore,
                      const char *rule);

/* Return the rule that a misspelled ID may mean: TS1O4, 104 and ts-104 mean TS104; or
 * NULL. */
const char *suppress_suggest_rule(const char *text);

#endif
