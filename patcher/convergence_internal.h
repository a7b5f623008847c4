/* patcher/convergence_internal.h - shared by the files of convergence.h. */
#ifndef PATCHER_CONVERGENCE_INTERNAL_H
#define PATCHER_CONVERGENCE_INTERNAL_H

#include "patcher/document/edit_log.h"
#include "patcher/convergence.h"

enum edit_outcome {
    EDIT_NONE,       /* no edit, or none that may be made */
    EDIT_CONFLICTED, /* conflicts with an edit made before */
    EDIT_MADE
};

struct convergence {
    struct analyzer *analyzer;
    struct arena *arena;
    struct analysis *first, *last; /* analyses of the original and of the current text */
    struct edit_log *edit_log;
    /* findings of all passes; positions refer to the original text */
    struct findings merged;
    enum edit_outcome *outcomes; /* one per merged finding */
    size_t outcome_room;
    int groups;       /* group numbers used by merged findings */
    const char *text; /* the current text */
    size_t len;
};

/*
 * Find the finding of an earlier pass that this one repeats, by its position in the
 * original text. Of several equal ones, take the first that is not taken.  If an edit was
 * made for a finding, only one with the same message repeats it.  Return merged.count if
 * there is none.
 */
size_t convergence_find(const struct convergence *convergence,
                        const struct finding *finding, size_t origin, bool reported,
                        const bool *taken);
/* Reduce the findings of all passes to those that are reported.  Does nothing if no edit
 * was made. */
void convergence_report(struct convergence *convergence);

#endif
