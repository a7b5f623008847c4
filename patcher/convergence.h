/*
 * patcher/convergence.h - looks at a text, makes the edits its findings ask for, and looks
 * again, until there is nothing more to edit.
 */
#ifndef PATCHER_CONVERGENCE_H
#define PATCHER_CONVERGENCE_H

#include "patcher/analysis.h"

/*
 * Fills document, findings, plan, text and what follows from them; before and after too.
 * edit false: no edit is made, whatever its kind.  Of two findings that edit the same
 * bytes the one of the earlier family goes first, and the other is asked again.
 * False for an internal error (an edit changed what it should not have, or the edits do
 * not settle), and with ERROR_JOB where the edits would take the text past a limit.
 */
bool converge_text(struct analyzer *analyzer, const char *data, size_t len, bool edit,
                   struct patch *out, struct error *err);

#endif
