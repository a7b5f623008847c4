/*
 * runner/spool/clerk.h - work about the whole spool, such as writing a page of it, in a
 * child process: the watch never waits for it, whatever the size of the spool.
 */
#ifndef RUNNER_SPOOL_CLERK_H
#define RUNNER_SPOOL_CLERK_H

#include "base/log.h"

struct clerk;

/* What the child does; it must not write to a log.  The working directory is that of the
 * watch.  Only the first failure of a row is logged. */
typedef bool clerk_function(void *context, struct error *err);

struct clerk *clerk_new(clerk_function *work, void *context, struct log *log);
/* Kills the child. */
void clerk_free(struct clerk *clerk);

/* Note that there is something new. */
void clerk_ask(struct clerk *clerk);
/* Start a child if one is due, at most once a second and for at most a twentieth of the
 * time; reap and limit it. `active`: the spool changes all the time. */
void clerk_poll(struct clerk *clerk, bool active);
/* Return when to call clerk_poll again, by clock_seconds. */
double clerk_due(const struct clerk *clerk);
/* Return whether the child has ended and nothing new was noted since it started. */
bool clerk_is_idle(const struct clerk *clerk);
/* Work once more now, and allow at most `seconds` for it. */
void clerk_hurry(struct clerk *clerk, double seconds);

#endif
