/* kernels/cuda/cuda_group_none.c - replaces cuda_group.c if configure found no NCCL: runs
 * use one GPU. */
#include "config.h"

#include "kernels/cuda/cuda_group.h"

bool cuda_join(struct backend *be, const struct backend_group *group, struct error *err)
{
    (void)be;
    (void)group;
    return error_set(err, ERROR_DEVICE,
                     "this build has no NCCL, so several GPUs cannot work together; "
                     "configure where nccl.h is found (libnccl-dev), or set ranks: 1");
}

/* No run has joined, so these are never called. */
void cuda_reduce(struct backend *be, float *data, size_t count, int root)
{
    (void)be, (void)data, (void)count, (void)root;
}

void cuda_all_reduce(struct backend *be, double *data, size_t count)
{
    (void)be, (void)data, (void)count;
}

void cuda_all_gather(struct backend *be, void *data, size_t bytes)
{
    (void)be, (void)data, (void)bytes;
}

void cuda_broadcast(struct backend *be, void *data, size_t bytes, int root)
{
    (void)be, (void)data, (void)bytes, (void)root;
}

void cuda_send(struct backend *be, void *data, size_t bytes, int from, int to)
{
    (void)be, (void)data, (void)bytes, (void)from, (void)to;
}

void cuda_meet(struct backend *be)
{
    (void)be;
}

void cuda_mark(struct backend *be)
{
    (void)be;
}

void cuda_meet_mark(struct backend *be)
{
    (void)be;
}

bool cuda_group_well(struct cuda_backend *cuda)
{
    return cuda_ok(cuda);
}

int cuda_group_rank(const struct cuda_group *group)
{
    (void)group;
    return 0;
}

void cuda_group_free(struct cuda_group *group)
{
    (void)group;
}
