/*
 * patcher/findings/propose.h - findings with an edit, where the job allows it.
 *
 * What stands in trainspool.keep or on a line with `# trainspool: keep` is never edited,
 * nor what comes from an anchor (TS007) or holds `${...}` (TS008): the finding is then
 * told all the same, for a person to act on.  What is ignored is taken out later
 * (suppress.h).
 */
#ifndef PATCHER_FINDINGS_PROPOSE_H
#define PATCHER_FINDINGS_PROPOSE_H

#include "patcher/findings/rewrite.h"

struct proposal {
    const struct document *document;
    struct findings *findings;
};

/* Each copies *base, fills in the row, the place and the edit, adds it, and returns it.
 * base->apply is what the edit is when it can be made. */
struct finding *propose_value(const struct proposal *to, const struct finding *base,
                              const struct entry *entry, const char *value);
/* The same text without quotes. */
struct finding *propose_unquoted(const struct proposal *to, const struct finding *base,
                                 const struct entry *entry);
struct finding *propose_name(const struct proposal *to, const struct finding *base,
                             const struct entry *entry, const char *name);
/* A new line behind `behind`; base->key is the new key.  NULL: the last line. */
struct finding *propose_line(const struct proposal *to, const struct finding *base,
                             const struct entry *behind, const char *value);
struct finding *propose_removal(const struct proposal *to, const struct finding *base,
                                const struct entry *entry);
/* Without an edit: at the value of the entry (at its key if there is none). */
struct finding *propose_remark(const struct proposal *to, const struct finding *base,
                               const struct entry *entry);
/* The same at the key. */
struct finding *propose_key_remark(const struct proposal *to, const struct finding *base,
                                   const struct entry *entry);

/* The place of a word in a scalar, by its bytes in the text as it reads; that of the
 * whole scalar, where it is not written as it reads. */
void propose_word(const struct document *document, const struct node *node, size_t from,
                  size_t len, struct finding *out);

/* Does trainspool.keep name the key (or NULL), or the row (or NULL) by its name or a
 * comment? */
bool propose_keeps(const struct document *document, const char *key,
                   const struct entry *entry);
/* All edits of a group or none: where one cannot be made, the others are withdrawn. */
void propose_settle_groups(struct findings *findings);
/* Take the edit out of a finding. */
void propose_withdraw(struct finding *finding);

#endif
