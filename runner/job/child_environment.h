/*
 * runner/job/child_environment.h - the environment variables that reach trainspool-train.
 * Others may hold secrets, or make libraries load code (LD_PRELOAD).
 */
#ifndef RUNNER_JOB_CHILD_ENVIRONMENT_H
#define RUNNER_JOB_CHILD_ENVIRONMENT_H

#include <stdbool.h>

#include "base/user.h"

/* Return whether trainspool-train gets the variable. */
bool child_variable_is_kept(const char *name);
/* Return the variables of this process that it gets, NULL-ended. For another user, those
 * that name folders of this one are left out or replaced. The strings belong to the list
 * and to the environment; free() the list. user: NULL: the same one. */
char **child_environment(const struct user *user);
/* The same for a process that is a rank of a launcher, as this one is. */
char **child_environment_of_rank(void);

#endif
