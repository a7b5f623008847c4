/*
 * precision/cgroup.h - the limits of memory and CPU that control groups set for this
 * process: its own group and every parent, of version 1 and 2.
 */
#ifndef PRECISION_CGROUP_H
#define PRECISION_CGROUP_H

#include <stddef.h>
#include <stdint.h>

struct cgroup_limits {
    uint64_t memory; /* the lowest limit, in bytes; UINT64_MAX: there is none */
    /* what the limits leave, the least of them; caches of files count as free */
    uint64_t available;
    size_t cores; /* rounded up; 0: no limit */
};

/* Read the limits below `root`, which is "" for this machine and a folder for a test. */
void cgroup_read(const char *root, struct cgroup_limits *out);
/* Return how many processes the kernel has killed for lack of memory in the group of this
 * process; where no group counts them, on the machine; -1: unknown. */
int64_t cgroup_oom_kills(const char *root);

#endif
