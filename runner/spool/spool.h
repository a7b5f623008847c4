/*
 * runner/spool/spool.h - the watched folder: which names there are, which of them are jobs,
 * which are ready.  Events are hints: a scan comes to the same, and each name is handled
 * as often as one likes.  The files beside the jobs are the database, what is held in
 * memory only saves looking.
 *
 * While a spool is open it is the current directory, by its descriptor: a job is
 * "gsm8k.yaml", whatever happens to the path of the folder.
 */
#ifndef RUNNER_SPOOL_SPOOL_H
#define RUNNER_SPOOL_SPOOL_H

#include "base/log.h"
#include "runner/job/job.h"
#include "runner/job/machine.h"

struct spool;

#define SPOOL_INNER ".trainspool" /* the daemon's own folder in it */

/* NULL: *busy when another watch has the folder, else *err. */
struct spool *spool_open(const char *path, const struct machine *machine, struct log *log,
                         bool *busy, struct error *err);
void spool_close(struct spool *spool);

int spool_fd(const struct spool *spool); /* readable when something happened; -1: poll */
/* Take note of what happened; nothing is looked at yet. */
void spool_read(struct spool *spool);
/* Look at the names that are due, some at a time; scan when it is time.  `idle`: no job
 * runs, so that a folder that was replaced may be opened anew. */
void spool_look(struct spool *spool, bool idle);
/* Flush the frozen texts of jobs that were claimed.  A job may be started before: until
 * this is on disk the dropped file is the record, and the trainer takes longer to
 * load. */
void spool_flush(struct spool *spool);
/* When to call spool_look again, by clock_seconds. */
double spool_due(const struct spool *spool);
/* Is anything still to be looked at, or queued? */
bool spool_is_empty(const struct spool *spool);

/* The next job to start, or one that was found running (*running); malloc'ed; NULL:
 * none. */
char *spool_next(struct spool *spool, bool *running);
/* What became of a job: it is queued again where it is ready. */
void spool_ended(struct spool *spool, const char *name, const struct job_record *record);

/* A job that was handed out could not be started: look at it again in a while. */
void spool_again(struct spool *spool, const char *name);

/* Jobs that failed or were rejected since the spool was opened. */
size_t spool_failures(const struct spool *spool);

/* Is a watch at work on this folder? */
bool spool_is_watched(const char *path);

#endif
