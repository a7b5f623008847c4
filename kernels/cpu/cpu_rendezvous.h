/*
 * kernels/cpu/cpu_rendezvous.h - reductions and gathers between processes of one machine,
 * through shared memory.
 *
 * Each rank has a window there. Ranks write their own window, wait for each other, and
 * read; sums are in rank order, so the result does not depend on timing. Every rank makes
 * the same calls in the same order. A call returns false, at once or after a moment, when
 * a rank has ended: the rank that finds a link hung up notifies the others through the
 * shared memory. From then on all calls return false.
 */
#ifndef KERNELS_CPU_CPU_RENDEZVOUS_H
#define KERNELS_CPU_CPU_RENDEZVOUS_H

#include "kernels/backend.h"

struct rendezvous;

/* Create the shared memory of a meeting; return a descriptor that the caller closes, -1
 * on failure. */
int rendezvous_file(int ranks, struct error *err);
/* links: as in struct backend_group, borrowed; NULL: ranks are not watched, and a rank
 * that blocks the others for a minute counts as ended. */
struct rendezvous *rendezvous_open(int file, int rank, int ranks, const int *links,
                                   struct error *err);
/* Ranks that arrive later find the meeting closed. NULL is allowed. */
void rendezvous_close(struct rendezvous *rendezvous);

bool rendezvous_wait(struct rendezvous *rendezvous);
/* As the operations of struct backend_ops. */
bool rendezvous_reduce(struct rendezvous *rendezvous, float *data, size_t count,
                       int root);
/* The same with each rank's elements rounded to bf16, and summed in fp32. */
bool rendezvous_reduce_bf16(struct rendezvous *rendezvous, float *data, size_t count,
                            int root);
bool rendezvous_all_reduce(struct rendezvous *rendezvous, double *data, size_t count);
bool rendezvous_all_gather(struct rendezvous *rendezvous, void *data, size_t bytes);
bool rendezvous_broadcast(struct rendezvous *rendezvous, void *data, size_t bytes,
                          int root);
bool rendezvous_send(struct rendezvous *rendezvous, void *data, size_t bytes, int from,
                     int to);

#endif
