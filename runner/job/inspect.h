/*
 * runner/job/inspect.h - runs one job with its device through the patcher: the first step
 * of check, patch, plan and run.
 */
#ifndef RUNNER_JOB_INSPECT_H
#define RUNNER_JOB_INSPECT_H

#include <sys/types.h>

#include "patcher/patcher.h"
#include "runner/job/machine.h"
#include "runner/options/program.h"
#include "runner/job/steps.h"
#include "runner/options/selection.h"

enum inspect_edit {
    INSPECT_LOOK,  /* what the edits would be, and the plan after them */
    INSPECT_WRITE, /* patch the file */
    /* no edits, not even in memory: plan the unchanged text of the file */
    INSPECT_AS_IS
};

/* Where the job runs. */
enum inspect_place {
    INSPECT_HERE,  /* on this machine */
    INSPECT_NAMED, /* plan: on the device that the job or its repository names, or here */
    /* check, patch: the same, and no edit follows from a device that nothing names */
    INSPECT_ANYWHERE
};

struct inspect_options {
    const struct machine *machine;
    const char *job;
    const struct selection *selection; /* --select, --ignore; NULL: all rules */
    const struct program *program;     /* --target, --versions; NULL: neither */
    const char *const *set;            /* --set, NULL-ended, or NULL */
    bool unsafe;
    /* read the data where that may change a finding (TS301, TS305) */
    bool counts;
    bool frozen;              /* inspect_text: the text is that of NAME.run/job.yaml */
    bool will_run;            /* a missing device or model is an error */
    bool spooled;             /* the job comes from a watched folder */
    const char *const *roots; /* with spooled: as in patch_options */
    uid_t owner;
    bool resume;             /* --resume */
    const struct heal *heal; /* as in patch_options */
    const char *origin;
    /* with INSPECT_HERE: if Slurm runs the job, check it for the device there */
    bool submits;
    bool launched; /* as in patch_options */
    enum inspect_edit edit;
    enum inspect_place place;
};

struct inspection {
    struct patch patch;          /* with an empty arena if there was an error */
    const struct device *device; /* NULL: unknown, device rules are off */
    struct checked_device storage;
    const char *const *set; /* as in inspect_options */
    bool has_steps;         /* the data were read, and a run would accept them */
    struct steps steps;
    struct error no_device; /* why the device is unknown, if there is a reason to show */
};

/* Inspect a job file. ERROR_DATA if the file cannot be opened or read as a job. Call
 * inspect_clear in any case. */
bool inspect_job(const struct inspect_options *options, struct inspection *out,
                 struct error *err);
/* Inspect a text in memory, which is never written (INSPECT_WRITE does not write). */
bool inspect_text(const struct inspect_options *options, const char *data, size_t len,
                  struct inspection *out, struct error *err);
void inspect_clear(struct inspection *inspection);

#endif
