/* runner/commands/queue_again.h - puts an ended job back into the queue. */
#ifndef RUNNER_COMMANDS_QUEUE_AGAIN_H
#define RUNNER_COMMANDS_QUEUE_AGAIN_H

#include "runner/commands/job_change.h"

/* The `unlocked` of a change: a finished job will start from scratch, any other that has
 * ended continues from its last checkpoint. */
bool queue_again(const struct job *job, struct job_record *record,
                 struct job_answer *answer, struct error *err);

#endif
