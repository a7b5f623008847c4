/*
 * kernels/cpu/cpu_meeting.h - processes of one machine that add up and hand round numbers
 * through shared memory.
 *
 * Each has a window there.  They write theirs, wait for each other, and read; sums go by
 * rank, so one result whatever the timing.  Every rank makes the same calls in the same
 * order. A call returns false, at once or after a moment, when a rank has ended: whoever
 * finds a link hung up tells the others through the shared memory.  From then on all
 * calls do.
 */
#ifndef KERNELS_CPU_CPU_MEETING_H
#define KERNELS_CPU_CPU_MEETING_H

#include "kernels/backend.h"

struct meeting;

/* The shared memory of a meeting, as a descriptor that the caller closes; -1 on
 * failure. */
int meeting_file(int ranks, struct error *err);
/* links: as in struct backend_group, borrowed; NULL: nobody is watched, and who keeps the
 * others waiting for a minute counts as gone. */
struct meeting *meeting_open(int file, int rank, int ranks, const int *links,
                             struct error *err);
/* Those who come later find it over.  NULL is allowed. */
void meeting_close(struct meeting *meeting);

bool meeting_wait(struct meeting *meeting);
/* As the operations of struct backend_ops. */
bool meeting_reduce(struct meeting *meeting, float *data, size_t count, int root);
bool meeting_all_reduce(struct meeting *meeting, double *data, size_t count);
bool meeting_all_gather(struct meeting *meeting, void *data, size_t bytes);

#endif
