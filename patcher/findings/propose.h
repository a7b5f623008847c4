/*
 * patcher/findings/propose.h - findings with an edit, where the job allows it.
 *
 * Keys in trainspool.keep or on a line with `# trainspool: keep` are never edited, nor is
 * anything that comes from an anchor (TS007) or contains `${...}` (TS008).  Such a
 * finding is still reported, for a person to act on.  Ignored findings are removed later
 * (suppress.h).
 */
#ifndef PATCHER_FINDINGS_PROPOSE_H
#define PATCHER_FINDINGS_PROPOSE_H

#include "patcher/findings/rewrite.h"

struct proposal {
    const struct document *document;
    struct findings *findings;
};

/* Each function copies *base, fills in row, position and edit, adds the finding and
 * returns it. base->apply is the class of the edit if it can be made. */
struct finding *propose_value(const struct proposal *to, const struct finding *base,
                              const struct entry *entry, const char *value);
/* Propose the same text without quotes. */
struct finding *propose_unquoted(const struct proposal *to, const struct finding *base,
                                 const struct entry *entry);
struct finding *propose_name(const struct proposal *to, const struct finding *base,
                             const struct entry *entry, const char *name);
/* Propose a new line after the entry (NULL: after the last line); base->key is the new
 * key. */
struct finding *propose_line(const struct proposal *to, const struct finding *base,
                             const struct entry *after, const char *value);
struct finding *propose_removal(const struct proposal *to, const struct finding *base,
                                const struct entry *entry);
/* Add a finding without an edit at the value of the entry (at its key if there is no
 * value). */
struct finding *propose_remark(const struct proposal *to, const struct finding *base,
                               const struct entry *entry);
/* The same, at the key. */
struct finding *propose_key_remark(const struct proposal *to, const struct finding *base,
                                   const struct entry *entry);

/* Set the position of a word in a scalar from its bytes in the value; the whole scalar if
 * its text differs from its value. */
void propose_word(const struct document *document, const struct node *node, size_t from,
                  size_t len, struct finding *out);

/* Return whether trainspool.keep names the key (or NULL), or whether the row (or NULL) is
 * kept by its name or a comment. */
bool propose_keeps(const struct document *document, const char *key,
                   const struct entry *entry);
/* Withdraw all edits of each group in which one edit cannot be made; a group with
 * an unsafe edit is unsafe. */
void propose_resolve_groups(struct findings *findings);
/* Remove the edit from a finding. */
void propose_withdraw(struct finding *finding);

#endif
