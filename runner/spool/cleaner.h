/*
 * runner/spool/cleaner.h - cleaning of the watched folder (runner/spool/cleaning.h) in a
 * child process: when the watch starts, every hour, and when asked.
 */
#ifndef RUNNER_SPOOL_CLEANER_H
#define RUNNER_SPOOL_CLEANER_H

#include "base/log.h"
#include "runner/spool/cleaning.h"

struct cleaner; /* NULL is allowed everywhere: it cleans nothing */

/* Without limits, only those of jobs count, and the first pass comes later. */
struct cleaner *cleaner_new(const struct old_limits *limits, struct log *log);
/* Kills the child: its next pass continues. */
void cleaner_free(struct cleaner *cleaner);

/* Clean at the next cleaner_poll. */
void cleaner_ask(struct cleaner *cleaner);
/* Start a pass that is due, log what the child says, reap it. The working directory is the
 * folder. */
void cleaner_poll(struct cleaner *cleaner);
/* Return when to call cleaner_poll again, by clock_seconds. */
double cleaner_due(const struct cleaner *cleaner);
bool cleaner_is_idle(const struct cleaner *cleaner); /* no pass runs or is due now */

#endif
