/* kernels/cuda/cuda_nccl.c - NCCL by dlopen. */
#include "config.h"

#include "kernels/cuda/cuda_nccl.h"

#include "base/size.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libnccl.so.2"

static const struct function {
    const char *name;
    size_t into;
} functions[] = {
    { "ncclGetVersion", offsetof(struct cuda_nccl, version) },
    { "ncclGetUniqueId", offsetof(struct cuda_nccl, unique_id) },
    { "ncclCommInitRankConfig", offsetof(struct cuda_nccl, init) },
    { "ncclCommAbort", offsetof(struct cuda_nccl, abort) },
    { "ncclCommGetAsyncError", offsetof(struct cuda_nccl, state) },
    { "ncclGetErrorString", offsetof(struct cuda_nccl, text) },
    { "ncclGetLastError", offsetof(struct cuda_nccl, last_error) },
    { "ncclReduce", offsetof(struct cuda_nccl, reduce) },
    { "ncclAllReduce", offsetof(struct cuda_nccl, all_reduce) },
    { "ncclAllGather", offsetof(struct cuda_nccl, all_gather) },
    { "ncclBroadcast", offsetof(struct cuda_nccl, broadcast) },
};

/* It stays mapped when closed: its threads may still be exiting. */
static void *load(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

bool cuda_nccl_open(struct cuda_nccl *out, struct error *err)
{
    int version = 0;

    *out = (struct cuda_nccl) { .handle = load(LIBRARY) };
    if (!out->handle)
        out->handle = load(CUDA_LIBRARY_DIR "/" LIBRARY);
    if (!out->handle)
        return error_set(err, ERROR_DEVICE,
                         "cannot load NCCL, required for several GPUs: no " LIBRARY
                         " (%s); install it (libnccl2) or put its folder into "
                         "LD_LIBRARY_PATH, or set ranks: 1",
                         dlerror());
    for (size_t i = 0; i < TS_COUNT(functions); i++) {
        void *function = dlsym(out->handle, functions[i].name);

        if (!function) {
            cuda_nccl_close(out);
            return error_set(err, ERROR_DEVICE,
                             LIBRARY
                             " has no %s: it is too old; install one from 2.14 on",
                             functions[i].name);
        }
        memcpy((char *)out + functions[i].into, &function, sizeof(function));
    }
    out->version(&version); /* 22809: 2.28.9 */
    snprintf(out->name, sizeof(out->name), "NCCL %d.%d.%d", version / 10000,
             version / 100 % 100, version % 100);
    return true;
}

void cuda_nccl_close(struct cuda_nccl *nccl)
{
    if (nccl->handle)
        dlclose(nccl->handle);
    *nccl = (struct cuda_nccl) { 0 };
}
