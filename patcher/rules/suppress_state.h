/* patcher/rules/suppress_state.h - the state that suppress.c and suppress_unused.c
 * share. */
#ifndef PATCHER_RULES_SUPPRESS_STATE_H
#define PATCHER_RULES_SUPPRESS_STATE_H

#include "patcher/document/directive.h"
#include "patcher/rules/suppress.h"

/* Maximum number of IDs to ignore, and of keys to keep. */
#define SUPPRESSIONS_MAX 1000

/* One ID to ignore. */
struct suppression {
    const char *text;
    char id[6]; /* upper case; a family if shorter than the ID of a rule */
    struct mark at;
    size_t bytes;
    const struct directive *directive; /* NULL: trainspool.ignore, the whole job */
    bool used, refused;
};

struct suppress_state {
    const struct document *document;
    const struct patch_options *options;
    struct findings *findings;
    struct arena *arena;
    struct directive *directives;
    size_t directive_count;
    struct suppression *suppressions;
    size_t suppression_count, suppression_room;
    bool *hidden; /* one for each finding */
};

/* Add TS714 for suppressions that were read and not used. */
void suppress_report_unused(struct suppress_state *state);

/* Return whether an ID is the beginning of the ID of rules: TS1. */
bool suppress_is_family(const char *id);
/* Return whether the finding is in the line of the suppression's comment. */
bool suppress_matches_line(const struct suppress_state *state,
                           const struct finding *finding,
                           const struct suppression *suppression);
/* Return the value of trainspool.`name`, or NULL. */
const struct node *suppress_list(const struct document *document, const char *name);

#endif
