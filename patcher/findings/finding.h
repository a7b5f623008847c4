/* patcher/findings/finding.h - one remark on a job: rule, severity, place, sentence, at most one
 * edit. */
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
    bool fixed;       /* the edit was made by this patch */
    bool settled;     /* gone after the edits that are, or would be, made */
    const char *key;  /* or NULL: the file as a whole */
    /* the row it is about, of the document that was looked at; behind which a line is
     * inserted; or NULL */
    const struct entry *entry;
    struct mark at; /* of the text before the patch */
    size_t cut;     /* bytes of the span */
    /* exact text of the span, quotes included, and blanks behind it that a longer
     * value takes from a comment; NULL without an edit */
    const char *was;
    /* what replaces it; a whole line with its end where one is inserted */
    const char *now;
    const char *label; /* what a person should see instead of now ("float32"), or NULL */
    const char *message; /* one sentence */
    /* the fact that decided it: "device 0: Tesla T4, cc 7.5"; or NULL */
    const char *because;
    /* behind the edit, in brackets: what stays, what it costs; or NULL */
    const char *note;
    /* findings of one group are applied together or not at all; 0: alone */
    int group;
};

struct findings {
    struct finding *list; /* in the arena */
    size_t count, room;
    struct arena *arena;
};

void findings_init(struct findings *findings, struct arena *arena);
struct finding *findings_add(struct findings *findings, const struct finding *finding);
/* By place, then rule. */
void findings_sort(struct findings *findings);
/* Worst severity among those that are left: neither fixed nor settled; -1: none. */
int findings_worst(const struct findings *findings);

#endif
