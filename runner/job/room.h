/* runner/job/room.h - whether the memory that a job needs is free now. */
#ifndef RUNNER_JOB_ROOM_H
#define RUNNER_JOB_ROOM_H

#include "runner/job/machine.h"
#include "train/plan.h"

/* Compare a plan with what the machine had free when it was probed. ERROR_FAULT if that is
 * too little: "waits for 3.1 GiB on cuda:0", the memory that has to become free. */
bool room_check(const struct machine *machine, const struct plan *plan,
                struct error *err);

#endif
