/* runner/spool/elsewhere.h - what a watch leaves to those of other nodes (nodes.h), and looks
 * at again from time to time. */
#ifndef RUNNER_SPOOL_ELSEWHERE_H
#define RUNNER_SPOOL_ELSEWHERE_H

#include "runner/spool/intake.h"

/* Return whether a job whose state is `running` is not of this node: it neither waits for its
 * end nor records it. locked: a process runs it. */
bool elsewhere_runs(struct intake *intake, struct item *item, const struct job *job,
                    const struct job_record *record, bool locked);
/* Note that the item is left to another node: check it again later. */
void elsewhere_leave(struct intake *intake, struct item *item);
/* Forget that it was. */
void elsewhere_forget(struct intake *intake, struct item *item);

#endif
