/* patcher/schema/schema_internal.h - shared by the files that check a document against
 * the key table. */
#ifndef PATCHER_SCHEMA_SCHEMA_INTERNAL_H
#define PATCHER_SCHEMA_SCHEMA_INTERNAL_H

#include "patcher/document/directive.h"
#include "patcher/findings/propose.h"
#include "patcher/schema/schema.h"

struct check {
    struct proposal to;
    struct arena *arena;
    const struct node *map; /* the root, or the block */
    const struct vocabulary *of;
    const char *path;         /* of the map: "lr_scheduler_kwargs.", or "" for the root */
    bool nested;              /* below the root: cannot be edited */
    bool external;            /* another program trains the job */
    bool trains;              /* the job does not only evaluate */
    bool lenient;             /* that program may have more keys */
    bool tabled;              /* a table has all its keys: rules_keys.c checks names */
    const char **targets;     /* for each entry of map: its correct name, or NULL */
    const struct entry *idle; /* the first key without effect */
    const char *idle_names;
    size_t idle_count;
    struct directive *directives; /* comments of the whole document */
    size_t directive_count;
    bool doubled;   /* a key is given twice */
    size_t unknown; /* number of unknown keys */
};

/* Add a finding at the value of an entry; note may be NULL. */
void check_remark(const struct check *check, const char *rule, enum severity severity,
                  const struct entry *entry, const char *message, const char *note);
/* Return a name of the document in printable form, cut if it is long. */
const char *check_visible(const struct check *check, const char *name);

/* ---- schema_names.c ---- */

/* Add an error at the key; in an open vocabulary, a warning. */
void check_remark_name(const struct check *check, const char *rule,
                       const struct entry *entry, const char *message);
/* Report an unknown key: TS007, TS701, TS702 or TS703. */
void check_unknown(const struct check *check, const struct entry *entry);
/* Report a key of another tool: TS706, or the rule of the row. */
void check_other_tool(struct check *check, const struct key *key,
                      const struct entry *entry);
/* Report TS005 if both names are given, or the rename if the row has a rule. */
void check_renamed(const struct check *check, const struct key *key,
                   const struct entry *entry);

/* ---- schema_no_effect.c ---- */

/* Remember a key without effect. */
void check_note_no_effect(struct check *check, const struct key *key,
                          const struct entry *entry);
/* Report all remembered keys. */
void check_report_no_effect(const struct check *check);

#endif
