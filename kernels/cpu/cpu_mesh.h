/*
 * kernels/cpu/cpu_mesh.h - reductions and gathers between processes of several machines,
 * each of which has a connection to each other.
 *
 * Every rank sums a slice of the values, in rank order, so the bits are those of the shared
 * memory of one machine (cpu_rendezvous.h), and no machine receives more than the others.
 * Every rank makes the same calls in the same order. A call returns false when a rank has
 * ended; so do all later calls.
 */
#ifndef KERNELS_CPU_CPU_MESH_H
#define KERNELS_CPU_CPU_MESH_H

#include "kernels/backend.h"

struct mesh;

/* peers: by rank, as in struct backend_group; copied. The caller closes the sockets, which a
 * call that fails shuts down: the other ranks' calls fail then, too.  room: values of all
 * ranks that it has memory for, at least two of each; all ranks give the same. */
struct mesh *mesh_open(int rank, int ranks, const int *peers, size_t room,
                       struct error *err);
void mesh_close(struct mesh *mesh); /* NULL is allowed */

/* As the operations of struct backend_ops. */
bool mesh_reduce(struct mesh *mesh, float *data, size_t count, int root);
/* The same with each rank's elements rounded to bf16, and summed in fp32. */
bool mesh_reduce_bf16(struct mesh *mesh, float *data, size_t count, int root);
/* As reduce_shards; sent: FORMAT_FP32 or FORMAT_BF16. */
bool mesh_reduce_shards(struct mesh *mesh, float *data, size_t count, size_t first,
                        size_t shard, enum format sent);
bool mesh_all_reduce(struct mesh *mesh, double *data, size_t count);
bool mesh_all_gather(struct mesh *mesh, void *data, size_t bytes);
bool mesh_broadcast(struct mesh *mesh, void *data, size_t bytes, int root);
/* Ranks that neither send nor receive return at once. */
bool mesh_send(struct mesh *mesh, void *data, size_t bytes, int from, int to);

#endif
