/* patcher/schema/schema_parts.h - what the files that check a document against the table
 * share. */
#ifndef PATCHER_SCHEMA_SCHEMA_PARTS_H
#define PATCHER_SCHEMA_SCHEMA_PARTS_H

#include "patcher/document/directive.h"
#include "patcher/findings/propose.h"
#include "patcher/schema/schema.h"

struct check {
    struct proposal to;
    struct arena *arena;
    const struct node *map; /* the root, or the block */
    const struct vocabulary *of;
    const char *path;         /* of the map: "lr_scheduler_kwargs.", "" of the root */
    bool nested;              /* not of the root: cannot be edited */
    bool external;            /* another program's business what it does */
    bool lenient;             /* that may have keys of its own */
    const char **targets;     /* of each row of map: the name it should have, or NULL */
    const struct entry *idle; /* the first key without effect */
    const char *idle_names;
    size_t idle_count;
    struct directive *directives; /* of the whole document */
    size_t directive_count;
    bool doubled;   /* some key is given twice */
    size_t unknown; /* keys */
};

/* A finding at the value of an entry; note may be NULL. */
void check_remark(const struct check *check, const char *rule, enum severity severity,
                  const struct entry *entry, const char *message, const char *note);
/* A name of the text as a person may see it, cut where it is long. */
const char *check_visible(const struct check *check, const char *name);

/* ---- schema_names.c ---- */

/* An error (a warning in an open vocabulary) at the key. */
void check_remark_name(const struct check *check, const char *rule,
                       const struct entry *entry, const char *message);
/* TS007, TS701, TS702, TS703 */
void check_unknown(const struct check *check, const struct entry *entry);
/* TS706, or the rule of the row. */
void check_foreign(struct check *check, const struct key *key, const struct entry *entry);
/* TS005 where both names are given; the rename where the row has a rule. */
void check_renamed(const struct check *check, const struct key *key,
                   const struct entry *entry);

/* ---- schema_idle.c ---- */

void check_note_idle(struct check *check, const struct key *key,
                     const struct entry *entry);
/* All that were noted. */
void check_tell_idle(const struct check *check);

#endif
