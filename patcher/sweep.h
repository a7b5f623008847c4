/* patcher/sweep.h - the jobs of a sweep: the text of each combination of values. */
#ifndef PATCHER_SWEEP_H
#define PATCHER_SWEEP_H

#include "patcher/schema/sweep_axes.h"

struct sweep_job {
    const char *name; /* "gsm8k-2-learning_rate-2e-5", without .yaml */
    const char *text;
    size_t len;
    char digest[65]; /* SHA-256 of the text */
};

/* In the arena. */
struct sweep {
    struct sweep_axes axes;
    struct sweep_job *jobs;
    size_t count;
};

/* Make the jobs of a text that has trainspool.sweep. `name` is that of the job, without
 * .yaml. A job writes its checkpoints and its model below output_dir/NAME if the text sets
 * output_dir, and next to itself otherwise. ERROR_JOB. */
bool sweep_make(const char *name, const char *text, size_t len, struct arena *arena,
                struct sweep *out, struct error *err);

#endif
