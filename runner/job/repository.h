/*
 * runner/job/repository.h - .trainspool.toml, the settings of a repository of jobs.
 *
 *   # what the jobs of this repository run on
 *   device = "V100 32GB"
 *
 * The file is searched for in the job's folder and in those above it, up to the folder
 * with .git.  Outside of a repository only the job's own folder counts.  It applies to
 * check, patch and plan; a run uses the devices of its machine.
 */
#ifndef RUNNER_JOB_REPOSITORY_H
#define RUNNER_JOB_REPOSITORY_H

#include "base/error.h"

#define REPOSITORY_FILE ".trainspool.toml"

struct repository {
    char file[256];  /* name of the file in messages; "" if there is none */
    char device[96]; /* as for --device; "" if it does not say */
};

/* Find and read the file for a job.  Without a file, succeeds with an empty *out.
 * ERROR_USAGE, with the position, for a file that is not as above. */
bool repository_find(const char *job, struct repository *out, struct error *err);
/* Read the text of the file; out->file is used in messages. */
bool repository_read(const char *text, struct repository *out, struct error *err);

#endif
