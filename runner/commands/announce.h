/*
 * runner/commands/announce.h - what a watch reports to others about its jobs. The watch
 * calls these functions as jobs start and end; nothing here delays or fails it.
 */
#ifndef RUNNER_COMMANDS_ANNOUNCE_H
#define RUNNER_COMMANDS_ANNOUNCE_H

#include "base/log.h"
#include "runner/job/job.h"
#include "runner/options/options.h"

struct announce;

/* Check the options of a watch.  Call it before the spool is the working directory. */
struct announce *announce_open(const struct options *options, struct log *log,
                               struct error *err);
void announce_close(struct announce *announce);

/* The watch is a node (runner/spool/nodes.h): its metrics go to a file of its own, such as
 * spool.boxa.prom for spool.prom. The name stays the caller's; "": it is alone. */
void announce_as_node(struct announce *announce, const char *node);

/* Note the start of an attempt, or that one was found running. */
void announce_job_started(struct announce *announce, const char *path, bool adopted);
/* Note the end of an attempt or a rejection; of `announce`, as a callback. */
void announce_job_ended(void *announce, const char *path,
                        const struct job_record *record);
/* Note that what people see of the spool may have changed. */
void announce_changed(struct announce *announce);
/* Do what is due; never block.  Call it when a child ended and at announce_due().
 * `active`: jobs run or wait. */
void announce_poll(struct announce *announce, bool active);
double announce_due(const struct announce *announce); /* by clock_seconds */
/* Return whether everything has been reported. */
bool announce_is_idle(const struct announce *announce);
/* Finish within some seconds, because the watch was asked to end. */
void announce_hurry(struct announce *announce, double seconds);

#endif
