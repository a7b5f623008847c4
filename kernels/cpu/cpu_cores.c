/* kernels/cpu/cpu_cores.c - reads the affinity from the scheduler and the limits of control
 * groups. */
#include "config.h"

#include "kernels/cpu/cpu_cores.h"

#include <sched.h>

#include "precision/cgroup.h"

size_t cores_usable(void)
{
    struct cgroup_limits limits;
    cpu_set_t set;
    size_t cores = 1;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cores = (size_t)CPU_COUNT(&set);
    cgroup_read("", &limits);
    return limits.cores > 0 && limits.cores < cores ? limits.cores : cores;
}
