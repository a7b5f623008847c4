/*
 * runner/job/admit.h - a job becomes ours: looked at, patched, its text frozen, its state
 * ready or rejected.  What run and watch have in common before the trainer starts.
 */
#ifndef RUNNER_JOB_ADMIT_H
#define RUNNER_JOB_ADMIT_H

#include "runner/job/inspect.h"
#include "runner/job/job.h"

struct admit_options {
    const struct machine *machine;
    const char *const *set; /* --set: into the frozen text, never into the job file */
    bool no_patch;
    bool resume; /* --resume */
    bool lazy;   /* the frozen text is not flushed yet: job_flush must follow */
    /* for its turn: a model or data set that is missing (TS713) may be there by then,
     * made by a job before it; the trainer looks again */
    bool waits;
};

/* Can the settings of --set be made in the text that a patch would leave?  Only looks, so
 * that what was mistyped is refused before anything is written.  In what is no job, of
 * which admit_job tells, keys and values are looked at all the same.  ERROR_USAGE. */
bool admit_settings_fit(const struct job *job, const struct admit_options *options,
                        struct error *err);

/*
 * The caller holds the job's lock.  *record must be JOB_NEW; it ends JOB_READY, with
 * NAME.run/job.yaml written, or JOB_REJECTED with the findings in train.log.  *look is
 * what the patcher saw, for whoever wants to show it (inspect_clear in any case).  False:
 * neither, the file could not be read or written; ERROR_DATA: it cannot be a job.
 */
bool admit_job(const struct job *job, const struct admit_options *options,
               struct job_record *record, struct inspection *inspection,
               struct error *err);

/* Rejected without a look inside: a link, a folder, too large. */
bool admit_reject(const struct job *job, struct job_record *record, const char *reason,
                  struct error *err);

#endif
