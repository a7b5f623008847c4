/* kernels/cpu/cpu_cores.h - how many cores this process may use. */
#ifndef KERNELS_CPU_CPU_CORES_H
#define KERNELS_CPU_CPU_CORES_H

#include <stddef.h>

/* Return the minimum of the affinity and the CPU limits of its cgroups (version 1 and 2),
 * at least 1. A fraction of a core counts as one. */
size_t cores_usable(void);

/*
 * Parse the same limit from the contents of files, for cores_usable and its test; 0: no
 * limit. `max` is cpu.max of version 2 ("150000 100000", "max 100000"), `quota` and
 * `period` are cpu.cfs_quota_us ("-1": none) and cpu.cfs_period_us of version 1.
 */
size_t cores_of_max(const char *max);
size_t cores_of_quota(const char *quota, const char *period);

#endif
