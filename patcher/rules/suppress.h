/*
 * patcher/rules/suppress.h - which findings are not told: those the job asks to ignore, and
 * those the caller did not select.
 *
 *   bf16: true   # trainspool: ignore[TS102]      whole rules, in this row
 *   trainspool:
 *     ignore: [TS3, TS708]                        rules or families, in the whole job
 *
 * An error of a firm rule (rules.h) is told all the same.  What suppresses nothing is
 * TS714.
 */
#ifndef PATCHER_RULES_SUPPRESS_H
#define PATCHER_RULES_SUPPRESS_H

#include "patcher/document/document.h"
#include "patcher/findings/finding.h"
#include "patcher/rules/patch_options.h"

/*
 * Move what the document ignores from *findings, which are of one look at it, to
 * *ignored; drop what the options do not select; add TS714.  Of a group all findings of
 * one rule are ignored if one is, and the edits of those left are withdrawn.
 */
void suppress(const struct document *document, const struct patch_options *options,
              struct findings *findings, struct findings *ignored);

/* Does a selection have the rule?  The longest prefix that fits decides, `ignore` where
 * both have it; all are selected where `select` is NULL. */
bool suppress_selects(const char *const *select, const char *const *ignore,
                      const char *rule);

/* The rule that a misspelt one may mean: TS1O4, 104 and ts-104 mean TS104; or NULL. */
const char *suppress_meant(const char *text);

#endif
