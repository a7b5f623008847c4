/*
 * runner/cluster/slurm_submission.h - a submission of a job to Slurm, as its file has it:
 * written before sbatch is called, so that another process finds what became of it.
 */
#ifndef RUNNER_CLUSTER_SLURM_SUBMISSION_H
#define RUNNER_CLUSTER_SLURM_SUBMISSION_H

#include "base/digest.h"
#include "runner/cluster/slurm.h"

struct slurm_submission {
    char name[SLURM_NAME];
    int64_t id;               /* Slurm's number; 0: not known yet */
    char digest[DIGEST_TEXT]; /* of the text of the job */
    int64_t first;            /* the step at which it begins */
    /* it is a task of an array of the job's sweep; the number is that of the array */
    bool in_array;
    char array[SLURM_NAME]; /* name of the array; "": not known yet */
    int64_t task;
};

/* Make a name: that of the job, readable in squeue, and 48 random bits. */
bool slurm_submission_name(const char *job, char out[SLURM_NAME], struct error *err);
/* Write what such a name looks like, with X instead of the random part. */
void slurm_submission_example(const char *job, char out[SLURM_NAME]);
/* Replace the file, on disk when this returns. */
bool slurm_submission_write(const struct slurm_submission *submission, const char *file,
                            struct error *err);
/* False: there is no such file, or it is damaged. */
bool slurm_submission_read(const char *file, struct slurm_submission *out);

#endif
