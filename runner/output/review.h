/*
 * runner/output/review.h - the original and the current job, and for each changed line
 * the rules that changed it, with their reasons.
 */
#ifndef RUNNER_OUTPUT_REVIEW_H
#define RUNNER_OUTPUT_REVIEW_H

#include "patcher/document/diff.h"
#include "patcher/history/history.h"

struct review {
    const char *job; /* borrowed */
    bool color;      /* color the reasons, for a terminal */
    struct text was, now;
    struct history history;
    /* the backups of the patches are missing: `was` is unknown, and equals `now` */
    bool lost;
};

/* Read the review of a job; `name` has the current text: the job itself, or the text
 * frozen for a run. */
bool review_read(const char *job, const char *name, struct review *out,
                 struct error *err);
void review_clear(struct review *review);
/* Return how to compare the two texts: each hunk is followed by lines "# TS105: message
 * (because)", or "# by hand: line 3". Valid as long as the review. */
struct diff_options review_diff(const struct review *review);
/* Append that comparison, with or without reasons, without the values of secret keys;
 * nothing if the two are equal. Return false if it cannot be shown. */
bool review_add(const struct review *review, bool reasons, struct text *out);

#endif
