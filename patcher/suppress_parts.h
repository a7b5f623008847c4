/* patcher/suppress_parts.h - what the files of suppress.h share. */
#ifndef PATCHER_SUPPRESS_PARTS_H
#define PATCHER_SUPPRESS_PARTS_H

#include "patcher/document/directive.h"
#include "patcher/suppress.h"

/* As many IDs to ignore, and keys to keep, are looked at. */
#define WISHES_MAX 1000

/* One ID that is to be ignored. */
struct wish {
    const char *text;
    char id[6]; /* upper case; a family where it is shorter than a rule */
    struct mark at;
    size_t bytes;
    const struct directive *directive; /* NULL: of trainspool.ignore, the whole job */
    bool used, refused;
};

struct suppressing {
    const struct document *document;
    const struct patch_options *options;
    struct findings *findings;
    struct arena *arena;
    struct directive *directives;
    size_t directive_count;
    struct wish *wishes;
    size_t wish_count, wish_room;
    bool *hidden; /* of each finding */
};

/* Adds TS714 for what was read and not used. */
void suppress_tell(struct suppressing *all);

/* The beginning of a rule's name: TS1. */
bool suppress_is_family(const char *id);
/* Is the finding of the row that the wish's comment is in? */
bool suppress_is_beside(const struct suppressing *all, const struct finding *finding,
                        const struct wish *wish);
/* What trainspool.`name` holds, or NULL. */
const struct node *suppress_list(const struct document *document, const char *name);

#endif
