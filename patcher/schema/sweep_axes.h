/* patcher/schema/sweep_axes.h - trainspool.sweep: keys of a job, each with a list of values;
 * every combination is a job. */
#ifndef PATCHER_SCHEMA_SWEEP_AXES_H
#define PATCHER_SCHEMA_SWEEP_AXES_H

#include "patcher/document/node.h"

#include "base/arena.h"
#include "base/error.h"

enum { SWEEP_AXES_MAX = 8, SWEEP_JOBS_MAX = 256 };

struct sweep_axis {
    const char *key;
    const char *const *values; /* as texts */
    size_t count;
};

struct sweep_axes {
    struct sweep_axis list[SWEEP_AXES_MAX];
    size_t count;
    size_t jobs; /* the number of combinations */
};

/* Read the value of `sweep`. ERROR_JOB: it is not a map of known keys to lists of different
 * values that fit, or it makes too many jobs. */
bool sweep_axes_read(const struct node *value, struct arena *arena,
                     struct sweep_axes *out, struct error *err);
/* Return the value of an axis in a combination, by its position; the last axis varies
 * first. */
const char *sweep_axes_value(const struct sweep_axes *axes, size_t job, size_t axis);

#endif
