/* runner/spool/fleet_health.h - the health of the GPUs of a fleet (struct fleet_health), for
 * fleet.c; what others call is in fleet.h. */
#ifndef RUNNER_SPOOL_FLEET_HEALTH_H
#define RUNNER_SPOOL_FLEET_HEALTH_H

#include "runner/spool/fleet.h"

/* Judge a GPU by the last probe; found: NULL if it is missing there. */
void fleet_judge(struct fleet *fleet, size_t i, const struct device *found,
                 const struct probe *probe);
/* Return whether none is ill. */
bool fleet_all_are_well(const struct fleet *fleet);
/* Return when GPUs that are ill are probed although no job needs them. */
double fleet_ill_due(const struct fleet *fleet);

#endif
