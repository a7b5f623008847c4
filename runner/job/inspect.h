/*
 * runner/job/inspect.h - one job on its right device through the patcher: what check, patch,
 * plan and run begin with.
 */
#ifndef RUNNER_JOB_INSPECT_H
#define RUNNER_JOB_INSPECT_H

#include "patcher/patcher.h"
#include "runner/job/machine.h"
#include "runner/options/selection.h"

enum inspect_edit {
    INSPECT_LOOK,  /* what the edits would be, and the plan after them */
    INSPECT_WRITE, /* patch the file */
    INSPECT_AS_IS  /* no edit, not even in mind: the plan of the text as it stands */
};

struct inspect_options {
    const struct machine *machine;
    const char *job;
    const struct selection *selection; /* --select, --ignore; NULL: all rules */
    const char *const *set;            /* --set, NULL-ended, or NULL */
    bool unsafe;
    bool will_run; /* a device or a model that is not here is an error */
    bool resume;   /* --resume */
    enum inspect_edit edit;
};

struct inspection {
    struct patch patch;          /* of an empty arena where there was an error */
    const struct device *device; /* NULL: not known, device rules are off */
    struct device storage;
    struct error no_device; /* why it is not known, if there is more to say */
};

/* ERROR_DATA when the file cannot be opened or read as a job.  inspect_clear in any
 * case. */
bool inspect_job(const struct inspect_options *options, struct inspection *out,
                 struct error *err);
/* The same for a text at hand, which is never written (INSPECT_WRITE only looks). */
bool inspect_text(const struct inspect_options *options, const char *data, size_t len,
                  struct inspection *out, struct error *err);
void inspect_clear(struct inspection *inspection);

#endif
