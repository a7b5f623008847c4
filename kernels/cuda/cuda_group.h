/* kernels/cuda/cuda_group.h - the other GPUs of a run, for cuda_backend.c and
 * cuda_wait.c. The first nine functions are as in backend.h. */
#ifndef KERNELS_CUDA_CUDA_GROUP_H
#define KERNELS_CUDA_CUDA_GROUP_H

#include "kernels/cuda/cuda_backend.h"

bool cuda_join(struct backend *be, const struct backend_group *group, struct error *err);
void cuda_reduce(struct backend *be, float *data, size_t count, int root);
void cuda_all_reduce(struct backend *be, double *data, size_t count);
void cuda_all_gather(struct backend *be, void *data, size_t bytes);
void cuda_broadcast(struct backend *be, void *data, size_t bytes, int root);
void cuda_send(struct backend *be, void *data, size_t bytes, int from, int to);
void cuda_meet(struct backend *be);
void cuda_mark(struct backend *be);
void cuda_meet_mark(struct backend *be);

/* Return whether all ranks are alive; the host calls this now and then while it waits for
 * the GPU. If not, collective work is aborted, so that the GPU becomes free, and the
 * failure is recorded. */
bool cuda_group_well(struct cuda_backend *cuda);
int cuda_group_rank(const struct cuda_group *group); /* NULL: 0 */
/* Leave immediately, whatever the other ranks do. NULL is allowed. */
void cuda_group_free(struct cuda_group *group);

#endif
