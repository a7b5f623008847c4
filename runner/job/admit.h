/*
 * runner/job/admit.h - admits a job: inspects it, patches it, freezes its text and makes
 * its state ready or rejected. Shared by run and watch, before the trainer starts.
 */
#ifndef RUNNER_JOB_ADMIT_H
#define RUNNER_JOB_ADMIT_H

#include <sys/types.h>

#include "runner/job/inspect.h"
#include "runner/job/job.h"

struct admit_options {
    const struct machine *machine;
    const char *const *set; /* --set: for the frozen text, never for the job file */
    bool no_patch;
    bool resume;              /* --resume */
    bool spooled;             /* the job comes from a watched folder */
    const char *const *roots; /* with spooled: as in patch_options */
    uid_t owner;
    double arrived; /* with spooled: when the file did, which delays count from */
    bool lazy;      /* the frozen text is not flushed yet: job_flush must follow */
    /* accept a missing model or dataset, but no damaged one (TS713): an earlier job may
     * create it before this one starts; the trainer checks again */
    bool waits;
    bool launched;    /* as in patch_options */
    const char *best; /* a rejection is for this one of several nodes; NULL: none */
    const struct heal *heal; /* the problem to remedy, as in patch_options; NULL: none */
};

/* Return whether the settings of --set can be applied to the text that a patch would
 * produce. This only reads, so that mistyped settings are refused before anything is
 * written. If the text is not a job, which admit_job reports, keys and values are checked
 * anyway. ERROR_USAGE. */
bool admit_settings_are_valid(const struct job *job, const struct admit_options *options,
                              struct error *err);

/* Admit a job whose lock the caller holds. *record must be JOB_NEW; it becomes JOB_READY,
 * with NAME.run/job.yaml written, or JOB_REJECTED, with the findings in train.log. *look
 * is what the patcher found, for callers that show it (inspect_clear in any case). Return
 * false if neither happened because the file could not be read or written; ERROR_DATA: it
 * cannot be a job. */
bool admit_job(const struct job *job, const struct admit_options *options,
               struct job_record *record, struct inspection *inspection,
               struct error *err);

/* Find what admit_job would, and change nothing: the text that would be frozen is
 * inspection->patch.text. */
bool admit_preview(const struct job *job, const struct admit_options *options,
                   struct inspection *inspection, struct error *err);

/* Return whether admit_job would accept the job; nothing is written. False also if that
 * cannot be found out. */
bool admit_would_accept(const struct job *job, const struct admit_options *options,
                        const struct job_record *record);

/* Reject a job without reading it: a link, a folder, too large. */
bool admit_reject(const struct job *job, struct job_record *record, const char *reason,
                  struct error *err);

#endif
