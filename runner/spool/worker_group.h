/* runner/spool/worker_group.h - the control group of the job of a worker. */
#ifndef RUNNER_SPOOL_WORKER_GROUP_H
#define RUNNER_SPOOL_WORKER_GROUP_H

#include "runner/spool/worker.h"

/* Make the group, with the rights of the watch.  Without one, the job runs as before; the log
 * says why if there should be one. */
void worker_group_make(struct worker *worker, const struct job_record *record);
/* Start the child in the group, as far as there is one. */
bool worker_group_start(struct worker *worker, struct child_start *how,
                        struct error *err);
/* Find the group of a job that another watch started. */
void worker_group_adopt(struct worker *worker, const struct job_record *record);
/* Return the status of a job that has ended (-1: unknown), by what the kernel counted in its
 * group: that its OOM killer ended the job. */
int worker_group_status(const struct worker *worker, int status);

#endif
