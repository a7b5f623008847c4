/* runner/job/old_checkpoints.h - the checkpoints of a folder that a job no longer needs. */
#ifndef RUNNER_JOB_OLD_CHECKPOINTS_H
#define RUNNER_JOB_OLD_CHECKPOINTS_H

#include "runner/job/old_files.h"

/* Add them. `own`: only those that the current text of the job made; otherwise all. */
void old_checkpoints_add(const struct job *job, const char *folder,
                         const struct job_record *record, bool own,
                         struct old_files *out);
/* Remove one from an open folder. */
bool old_checkpoint_remove(int dir, const char *name, struct error *err);

#endif
