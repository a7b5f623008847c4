/* kernels/cpu/cpu_cores.h - how many cores this process may use. */
#ifndef KERNELS_CPU_CPU_CORES_H
#define KERNELS_CPU_CPU_CORES_H

#include <stddef.h>

/* Return the minimum of the affinity and the CPU limits of its control groups,
 * at least 1. A fraction of a core counts as one. */
size_t cores_usable(void);

#endif
