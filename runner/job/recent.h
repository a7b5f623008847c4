/* runner/job/recent.h - the last lines of a job's metrics.jsonl, while it may grow. */
#ifndef RUNNER_JOB_RECENT_H
#define RUNNER_JOB_RECENT_H

#include "runner/job/job.h"

struct recent {
    double *steps, *losses; /* of logged steps, oldest first; malloc'ed */
    size_t count, room;
    /* of the last logged step; NaN: unknown */
    double tokens, tokens_per_second, memory;
};

/* Read at most the last `bytes`.  A missing or unreadable file has no lines. */
void recent_read(const struct job *job, size_t bytes, struct recent *out);
void recent_clear(struct recent *recent);

/* Return the bytes that run.json says the run needs; NaN: unknown. */
double recent_planned_bytes(const struct job *job);

#endif
