/*
 * runner/job/job_group.h - a control group (version 2, Linux,
 * Documentation/admin-guide/cgroup-v2.rst) for each job of a watch, if the service manager
 * delegates one to the watch:
 *
 *     GROUP          delegated; a group with groups below it has no processes
 *     GROUP/watch    the watch and its helpers
 *     GROUP/job-N    the processes of a job: limits count all that they use, the OOM killer
 *                    ends all of them together, and its count is about this job only
 *
 * The groups belong to the user of the watch, also if a job is another user's, who
 * therefore can neither change limits nor leave. A group outlives its watch; the next one
 * finds it by a process in it, and removes it if there is none.
 *
 * A tree of files below `root` is for tests; "" is this machine.
 */
#ifndef RUNNER_JOB_JOB_GROUP_H
#define RUNNER_JOB_JOB_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* Functions accept NULL, which means that no group is delegated. */
struct job_groups;

struct job_group {
    int64_t number; /* 0: none */
    /* the child writes "0" to it to enter the group; -1: closed */
    int door;
    char trouble[160]; /* why the child is not in it; "": it is */
};

/* What the kernel's OOM killer did in a group. */
enum job_group_kills {
    JOB_GROUP_UNHARMED,
    JOB_GROUP_NO_MEMORY, /* it ended processes: the machine or a parent group was full */
    JOB_GROUP_OVER_LIMIT /* the same for the limit of the group */
};

/* Move this process to the group `watch`, and remove the groups of jobs that have ended.
 * NULL: no group is delegated; with *err, it is, but groups cannot be made. `service`: a
 * service manager started this process, so that a group that is read-only is an error.
 * `said`: its unit says that the group is delegated. */
struct job_groups *job_groups_open(const char *root, bool service, bool said,
                                   struct error *err);
void job_groups_close(struct job_groups *groups);
const char *job_groups_path(const struct job_groups *groups);

/* Make the group of a job that may use so many bytes (0: no limit). False, with no group:
 * none is delegated, or *err. */
bool job_group_make(struct job_groups *groups, uint64_t bytes, struct job_group *out,
                    struct error *err);
/* Called by the child that is to be in the group. Return 0 or errno. */
int job_group_enter(const struct job_group *group);
/* Close the door once the child is in. */
void job_group_close(struct job_group *group);
/* Find the group of a job that runs, by the path in /proc/PID/cgroup of one of its
 * processes, and limit it again: a manager that starts a unit again may have turned the
 * limits off. */
void job_group_adopt(struct job_groups *groups, const char *path, uint64_t bytes,
                     struct job_group *out);
enum job_group_kills job_group_kills(const struct job_groups *groups,
                                     const struct job_group *group);
/* Remove the group of a job that has ended, and end what is left in it. */
void job_group_remove(struct job_groups *groups, struct job_group *group);

/* Return whether this process is in the group of a job. *bytes is its limit; 0: none. */
bool job_group_own(const char *root, uint64_t *bytes);

#endif
