/*
 * kernels/cuda/cuda_backend.h - a GPU at work, for the C files of this folder.
 *
 * One stream carries everything, so the order of the calls is the order of the work.  Every
 * status is looked at: the first that is bad is kept, with the operation and its shapes, and
 * what follows is skipped until sync tells it.
 */
#ifndef KERNELS_CUDA_CUDA_BACKEND_H
#define KERNELS_CUDA_CUDA_BACKEND_H

#include <cuda_runtime_api.h>

#include "kernels/backend.h"
#include "kernels/cuda/cuda_launch.h"

struct cuda_matmul; /* the library of products and its plans: cuda_matmul.c */
struct cuda_graphs; /* recordings: cuda_graph.c */
struct cuda_group;  /* the other GPUs of a run: cuda_group.c */

struct cuda_backend {
    struct backend base;
    struct device device;
    struct cuda_launch launch; /* stream, capability, scratch */
    struct cuda_matmul *matmul;
    struct cuda_graphs *graphs;
    struct cuda_group *group; /* NULL: alone */
    struct error failed;      /* the first failure since the last sync */
    char about[160];
};

static inline struct cuda_backend *cuda_backend_of(struct backend *be)
{
    return (struct cuda_backend *)be;
}

/* Has nothing failed yet?  Else the caller leaves. */
static inline bool cuda_well(const struct cuda_backend *cuda)
{
    return cuda->failed.code == ERROR_NONE;
}

/* Keep a status that is not cudaSuccess: "rmsnorm of (2048, 576) bf16: an illegal memory
 * access was encountered".  The format says what was being done. */
void cuda_check(struct cuda_backend *cuda, cudaError_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* cuda_device.c: as backend_devices, and one device by its ordinal. */
size_t cuda_devices(struct device *out, size_t room, char *note, size_t note_room);

#endif
