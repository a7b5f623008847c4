/* patcher/findings/finding.h - one finding of a job: rule, severity, position, sentence,
 * at most one edit. */
#ifndef PATCHER_FINDINGS_FINDING_H
#define PATCHER_FINDINGS_FINDING_H

#include "base/arena.h"
#include "base/error.h"

enum severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_ERROR };
extern const char *const severity_names[3];
enum apply { APPLY_MANUAL, APPLY_UNSAFE, APPLY_SAFE };
extern const char *const apply_names[3];

struct entry;

struct finding {
    const char *rule; /* "TS105" */
    enum severity severity;
    enum apply apply; /* MANUAL: there is no edit */
    bool fixed;       /* this patch applied the edit */
    bool absent;      /* what it is about does not exist; another job may create it */
    bool resolved;    /* no longer found after the edits that are, or would be, made */
    const char *key;  /* the key, or NULL for the file as a whole */
    /* the row of the analyzed document that it concerns, or after which a line is
     * inserted; or NULL */
    const struct entry *entry;
    struct mark at; /* in the text before the patch */
    size_t cut;     /* bytes of the span */
    /* exact text of the span, including quotes and the blanks before a comment that a
     * longer value uses; NULL without an edit */
    const char *old_text;
    /* the replacement; an inserted line includes its line end */
    const char *new_text;
    const char *label;   /* shown to users instead of `new_text` ("float32"), or NULL */
    const char *message; /* one sentence */
    /* the fact that decided it, as in "device 0: Tesla T4, cc 7.5"; or NULL */
    const char *because;
    /* shown after the edit, in brackets: what stays, what it costs; or NULL */
    const char *note;
    /* findings of one group are applied together or not at all; 0: no group */
    int group;
    /* the rule of the finding that this one exists through: it is ignored with that rule,
     * in this group; or NULL */
    const char *through;
};

struct findings {
    struct finding *list; /* in the arena */
    size_t count, room;
    struct arena *arena;
};

void findings_init(struct findings *findings, struct arena *arena);
struct finding *findings_add(struct findings *findings, const struct finding *finding);
/* Sort by position, then by rule. */
void findings_sort(struct findings *findings);
/* Return the worst severity of the findings that are neither fixed nor resolved; -1 if
 * there are none. */
int findings_worst(const struct findings *findings);

#endif
