/* runner/spool/fleet_use.h - charges users for the devices that their jobs have. */
#ifndef RUNNER_SPOOL_FLEET_USE_H
#define RUNNER_SPOOL_FLEET_USE_H

#include "runner/spool/fleet.h"

/* Charge the owner of a running job, by its index, until now. */
void fleet_use_charge(struct fleet *fleet, size_t job);
/* The same for the time in which no watch ran. since: when the job started (ISO 8601), as its
 * record says, which its owner can change. */
void fleet_use_charge_past(struct fleet *fleet, size_t job, const char *since);
/* Count the jobs of each user that run, and what all have used until now. */
void fleet_use_count(struct fleet *fleet);
/* Charge for all jobs, and save what users have used. */
void fleet_use_save(struct fleet *fleet);

#endif
