/* tests/unit/unit_job_ranks.h - a job in two processes. */
#ifndef TESTS_UNIT_UNIT_JOB_RANKS_H
#define TESTS_UNIT_UNIT_JOB_RANKS_H

#include "tests/unit/unit_curve.h"
#include "tests/unit/unit_ranks.h"

/* Run a job with two ranks; rank 1 exits here, with status 0, or with its error in a file. */
static inline bool unit_job_ranks(struct training *training, struct unit_ranks *ranks,
                                  struct error *err)
{
    bool ok;

    curve_write(training->dir, "job.yaml", training->job);
    unit_ranks_fork(ranks, 2);
    if (ranks->group.rank > 0)
        prctl(PR_SET_PDEATHSIG, 0); /* it is to see that rank 0 has ended */
    training->group = &ranks->group;
    ok = training_run(training, err);
    if (ranks->group.rank == 0)
        return ok;
    curve_write(training->dir, "rank1", err->text);
    _exit(ok ? 0 : 1);
}

#endif
