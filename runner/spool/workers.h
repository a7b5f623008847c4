/* runner/spool/workers.h - the jobs that run at once, each with a worker. */
#ifndef RUNNER_SPOOL_WORKERS_H
#define RUNNER_SPOOL_WORKERS_H

#include "runner/spool/worker.h"

struct workers {
    const char *program; /* of all of them */
    struct log *log;
    const char *node;
    bool no_sandbox;
    const char *group;
    const char *const *roots;
    struct guard_limits limits;
    struct job_groups *groups; /* NULL: none */
    struct worker **list;      /* malloc'ed, each too: they keep their addresses */
    size_t count;
};

/* Return a worker that has no job. It is busy after worker_start or worker_adopt. */
struct worker *workers_take(struct workers *workers);
/* Return the busy worker after one (NULL: the first); NULL: there is no other. */
struct worker *workers_next(const struct workers *workers, const struct worker *after);
/* Forget all jobs; they continue without us. */
void workers_close(struct workers *workers);

#endif
