/*
 * runner/job/obstacle.h - what is in the way of the files in NAME.run/. A job with an
 * obstacle is blocked: only a person can remove it, and no other job is concerned.
 */
#ifndef RUNNER_JOB_OBSTACLE_H
#define RUNNER_JOB_OBSTACLE_H

#include "runner/job/job.h"

/* Check that NAME.run, which exists, can be written, and that what is in it has the right
 * type. ERROR_SYSTEM says what to do. ERROR_FAULT: the machine could not say. */
bool obstacle_none(const struct job *job, struct error *err);

/* Check only the types, in the folder `dir`. What does not exist is no obstacle. */
bool obstacle_none_at(int dir, const char *run_dir, struct error *err);
/* Check only the type of NAME.run itself. */
bool obstacle_is_folder(int dir, const char *run_dir, struct error *err);

#endif
