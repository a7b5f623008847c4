/*
 * base/seccomp.h - refuses system calls to this process and all that it starts, for good
 * (seccomp(2)): they fail with EPERM.
 */
#ifndef BASE_SECCOMP_H
#define BASE_SECCOMP_H

#include "base/error.h"

enum seccomp_calls {
    /* Parts of the kernel that a computation never uses and that were often faulty or
     * change the machine: mounts, modules, namespaces, clocks, BPF, io_uring, keys. */
    SECCOMP_SYSTEM = 1 << 0,
    SECCOMP_NETWORK = 1 << 1,   /* sockets, except those of SECCOMP_LOCAL */
    SECCOMP_LOCAL = 1 << 2,     /* sockets of this machine: Unix, netlink */
    SECCOMP_PROCESSES = 1 << 3, /* new processes; threads are allowed */
    SECCOMP_PROGRAMS = 1 << 4,  /* execve */
    SECCOMP_OTHERS = 1 << 5     /* the memory of other processes */
};

/* Return whether this kernel and this build can refuse system calls. */
bool seccomp_is_available(void);
/* Refuse them to all threads. ERROR_SYSTEM if the kernel cannot. */
bool seccomp_refuse(unsigned calls, struct error *err);

#endif
