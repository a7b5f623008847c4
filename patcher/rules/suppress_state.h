/* patcher/rules/suppress_state.h - what the files of suppress.h share. */
#ifndef PATCHER_RULES_SUPPRESS_STATE_H
#define PATCHER_RULES_SUPPRESS_STATE_H

#include "patcher/document/directive.h"
#include "patcher/rules/suppress.h"

/* As many IDs to ignore, and keys to keep, are looked at. */
#define SUPPRESSIONS_MAX 1000

/* One ID that is to be ignored. */
struct suppression {
    const char *text;
    char id[6]; /* upper case; a family where it is shorter than a rule */
    struct mark at;
    size_t bytes;
    const struct directive *directive; /* NULL: of trainspool.ignore, the whole job */
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
    bool *hidden; /* of each finding */
};

/* Adds TS714 for what was read and not used. */
void suppress_report_unused(struct suppress_state *all);

/* The beginning of a rule's name: TS1. */
bool suppress_is_family(const char *id);
/* Is the finding of the row that the wish's comment is in? */
bool suppress_matches_line(const struct suppress_state *all,
                           const struct finding *finding,
                           const struct suppression *suppression);
/* What trainspool.`name` holds, or NULL. */
const struct node *suppress_list(const struct document *document, const char *name);

#endif
