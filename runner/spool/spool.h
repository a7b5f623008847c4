/*
 * runner/spool/spool.h - the watched folder: the names in it, which of them are jobs,
 * which are ready. Events are hints: a scan has the same effect, and each name can be
 * handled any number of times. The files next to the jobs are the database; the state in
 * memory only saves work.
 *
 * While a spool is open it is the current directory, by its descriptor: a job is
 * "gsm8k.yaml", even if the path of the folder changes.
 */
#ifndef RUNNER_SPOOL_SPOOL_H
#define RUNNER_SPOOL_SPOOL_H

#include "base/log.h"
#include "runner/job/job.h"
#include "runner/job/machine.h"
#include "runner/spool/fleet.h"

struct spool;

#define SPOOL_INNER ".trainspool" /* the daemon's folder inside the spool */

struct spool_options {
    struct log *log;
    struct fleet *fleet; /* the devices, which stay the caller's */
    bool contained;      /* processes that examine jobs are */
    /* share the folder with the watches of other nodes under this name; NULL: under the
     * host's, if it is on a network file system (nodes.h) */
    const char *node;
};

/* Open the spool.  NULL: *busy if another watch has the folder, else *err. */
struct spool *spool_open(const char *path, const struct machine *machine,
                         const struct spool_options *options, bool *busy,
                         struct error *err);
void spool_close(struct spool *spool);
/* Restrict what jobs may write to: as in patch_options. The list stays the caller's. group:
 * may read the files of jobs, or GROUP_NONE (base/group.h). Call it before the first
 * check. */
void spool_set_access(struct spool *spool, const char *const *roots, gid_t group);

int spool_fd(const struct spool *spool); /* readable when something happened; -1: poll */
/* Read the events; check nothing yet. */
void spool_read(struct spool *spool);
/* Return whether a command woke the watch since the last call, or nodes came or went: what
 * people see of the spool may have changed. */
bool spool_was_woken(struct spool *spool);
/* Check the names that are due, a few at a time; while jobs are queued only until
 * `may_start_one` returns true. Scan when it is time. `idle`: no job runs, so a folder that
 * was replaced may be opened again. */
void spool_handle_due(struct spool *spool, bool idle,
                      bool (*may_start_one)(void *context), void *context);
/* Scan at the next spool_handle_due. */
void spool_look_again(struct spool *spool);
/* Flush the frozen texts of admitted jobs. A job may start earlier: until this is on disk
 * the dropped file is the record, and the trainer takes longer to load. */
void spool_flush(struct spool *spool);
/* Show in .trainspool/fleet.json what jobs wait for (fleet_view.h). */
void spool_show(struct spool *spool);
/* Return when to call spool_handle_due again, by clock_seconds. */
double spool_due(const struct spool *spool);
/* Return whether nothing is left to check and nothing is queued. */
bool spool_is_empty(const struct spool *spool);
/* Return whether jobs wait for others that are not done. */
bool spool_has_waiters(const struct spool *spool);
/* Return whether nothing is left that could be done: a file is in the way of the other
 * jobs, or a fault of the machine has lasted for long. */
bool spool_is_stuck(const struct spool *spool);

struct spool_next {
    bool running;     /* it was found running */
    char devices[64]; /* where it starts, as --device */
    int threads;      /* as --threads; 0: as the job says */
    uid_t user;       /* as whom */
};

/* Return the next job to start, which fits now, or one that was found running; malloc'ed;
 * NULL: none. A worker has it until spool_put_back, spool_job_ended or
 * spool_start_failed. */
char *spool_next(struct spool *spool, struct spool_next *out);
/* End what spool_next began: other nodes may choose jobs now. */
void spool_end_turn(struct spool *spool);
/* Return the name of this node; "" if the watch has the folder to itself. */
const char *spool_node(const struct spool *spool);
/* Return whether this node does what one does for all: cleaning. */
bool spool_leads(const struct spool *spool);
/* Note how a job ended: a job that is ready is queued again. Its files are read again in
 * any case. */
void spool_job_ended(struct spool *spool, const char *name,
                     const struct job_record *record);

/* Note that no worker has a job after all: check it again now. */
void spool_put_back(struct spool *spool, const char *name);
/* Note that a job found no room when it started: check it again soon. */
void spool_job_waits(struct spool *spool, const char *name);
/* Note that another process holds the lock of a job that was to start: a command, or the
 * watch of another node, which starts it. */
void spool_job_is_taken(struct spool *spool, const char *name);
/* Note that a job could not start or continue. After a fault of the machine no job starts for
 * a few seconds, and then another one is tried first; after any other error, only this job
 * is checked again later. An empty text: the fault is not known. */
void spool_start_failed(struct spool *spool, const char *name, const struct error *why);
/* Return whether the last job could not start because of a fault of the machine. */
bool spool_is_troubled(const struct spool *spool);
/* Note that a job ran: a fault of the machine is over. */
void spool_start_succeeded(struct spool *spool);

/* Call a function for each job that ends other than by spool_job_ended: it was rejected, or
 * it is found to have crashed. */
typedef void spool_end_function(void *context, const char *path,
                                const struct job_record *record);
void spool_on_end(struct spool *spool, spool_end_function *ended, void *context);

/* Describe the spool in a line, for a service manager: what is queued, or why nothing
 * starts. `running`: what runs; NULL: nothing. */
void spool_describe(const struct spool *spool, const char *running, struct text *out);

/* Return the number of jobs that failed or were rejected since the spool was opened. */
size_t spool_failures(const struct spool *spool);

/* Return whether a watch is running on this folder. */
bool spool_is_watched(const char *path);

#endif
