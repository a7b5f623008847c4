/* patcher/convergence.h - analyze a text, make the edits of its findings, and repeat
 * until no edit remains. */
#ifndef PATCHER_CONVERGENCE_H
#define PATCHER_CONVERGENCE_H

#include "patcher/analysis.h"

/*
 * Fill document, findings, plan, text and what depends on them; also before and after.
 * If `edit` is false, make no edit of any class.  If two findings edit the same bytes,
 * the one of the earlier family is applied first, and the other is evaluated again.
 * Return false for an internal error (an edit changed something else, or the edits do not
 * converge), and with ERROR_JOB if the edits would take the text past a limit.
 */
bool converge_text(struct analyzer *analyzer, const char *data, size_t len, bool edit,
                   struct patch *out, struct error *err);

#endif
