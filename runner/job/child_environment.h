/*
 * runner/job/child_environment.h - the environment variables that reach trainspool-train.
 * Others may hold secrets, or make libraries load code (LD_PRELOAD).
 */
#ifndef RUNNER_JOB_CHILD_ENVIRONMENT_H
#define RUNNER_JOB_CHILD_ENVIRONMENT_H

#include <stdbool.h>

/* Return whether trainspool-train gets the variable. */
bool child_variable_is_kept(const char *name);
/* Return the variables of this process that it gets, NULL-ended. The strings belong to
 * the environment; free() the list. */
char **child_environment(void);

#endif
