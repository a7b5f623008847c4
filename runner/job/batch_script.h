/* runner/job/batch_script.h - the batch script of a job, as sbatch gets it and plan shows
 * it. */
#ifndef RUNNER_JOB_BATCH_SCRIPT_H
#define RUNNER_JOB_BATCH_SCRIPT_H

#include "runner/job/job.h"
#include "runner/options/options.h"
#include "train/plan.h"

struct batch_script {
    const struct options *options; /* of the process that submits */
    const struct job *job;         /* its folder need not exist */
    const struct plan *plan;
    const char *name;   /* of the submission */
    const char *digest; /* of the frozen text; "": not checked */
};

/* Append the script.  The folder of the job and the working directory are in it in full. */
bool batch_script_write(const struct batch_script *script, struct text *out,
                        struct error *err);
/* One script for several jobs, which ask the same of Slurm.  name: that of the array; id: as
 * in slurm.h. */
struct batch_array {
    const char *name, *id;
    const struct batch_script *list;
    size_t count;
};
bool batch_script_write_array(const struct batch_array *array, struct text *out,
                              struct error *err);
/* Append the script of a text that is not frozen yet.  Instead of its random part, the name
 * of the submission has X. */
bool batch_script_preview(const struct options *options, const char *path,
                          const struct plan *plan, const char *text, size_t len,
                          struct text *out, struct error *err);

#endif
