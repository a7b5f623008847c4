/*
 * runner/output/review.h - the job as dropped and as it is, and for each line that differs the
 * rules that changed it, with the reasons they gave.
 */
#ifndef RUNNER_OUTPUT_REVIEW_H
#define RUNNER_OUTPUT_REVIEW_H

#include "patcher/document/diff.h"
#include "patcher/history/history.h"

struct review {
    const char *job; /* borrowed */
    bool colour;     /* of the reasons, for a terminal */
    struct text was, now;
    struct history history;
    /* the backups of what was patched are gone: `was` is not known, and as `now` */
    bool lost;
};

/* `name` has the text as it is: the job itself, or what a run has frozen of it. */
bool review_read(const char *job, const char *name, struct review *out,
                 struct error *err);
void review_clear(struct review *review);
/* How the two are compared: under each hunk stand lines "# TS105: message (because)", or
 * "# by hand: line 3".  Good as long as the review. */
struct diff_options review_diff(const struct review *review);
/* Append that comparison, with or without reasons, but for the values of secret keys;
 * nothing where the two are equal.  False: it cannot be shown. */
bool review_add(const struct review *review, bool reasons, struct text *out);

#endif
