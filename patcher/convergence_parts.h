/* patcher/convergence_parts.h - what the files of convergence.h share. */
#ifndef PATCHER_CONVERGENCE_PARTS_H
#define PATCHER_CONVERGENCE_PARTS_H

#include "patcher/document/ledger.h"
#include "patcher/convergence.h"

enum fate {
    FATE_TOLD,    /* no edit, or none that may be made */
    FATE_CLASHED, /* another edit was there first */
    FATE_MADE
};

struct convergence {
    struct analyzer *analyzer;
    struct arena *arena;
    struct analysis *first, *last; /* looks at the text as it was and as it is now */
    struct ledger *ledger;
    struct findings merged; /* of all passes, places of the text as it was */
    enum fate *fates;       /* of merged */
    size_t fate_room;
    int groups;       /* numbers of groups given to merged findings */
    const char *text; /* as it is now */
    size_t len;
};

/* The finding of an earlier pass that this one repeats, by its place in the first text;
 * of several alike the first that is not taken.  What is told in other words is not what
 * an edit was made of.  merged.count: there is none. */
size_t convergence_find(const struct convergence *convergence,
                        const struct finding *finding, size_t origin, bool told,
                        const bool *taken);
/* Of the findings of all passes, what is told; nothing where no edit was made. */
void convergence_left(struct convergence *convergence);

#endif
