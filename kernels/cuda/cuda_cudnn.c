/* kernels/cuda/cuda_cudnn.c - cuDNN by dlopen. */
#include "config.h"

#include "kernels/cuda/cuda_cudnn.h"

#include "base/size.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcudnn.so.9"

static const struct function {
    const char *name;
    size_t into;
} functions[] = {
    { "cudnnGetVersion", offsetof(struct cuda_cudnn, version) },
    { "cudnnGetErrorString", offsetof(struct cuda_cudnn, text) },
    { "cudnnGetLastErrorString", offsetof(struct cuda_cudnn, last_error) },
    { "cudnnCreate", offsetof(struct cuda_cudnn, create) },
    { "cudnnDestroy", offsetof(struct cuda_cudnn, destroy) },
    { "cudnnSetStream", offsetof(struct cuda_cudnn, set_stream) },
    { "cudnnBackendCreateDescriptor", offsetof(struct cuda_cudnn, desc_create) },
    { "cudnnBackendDestroyDescriptor", offsetof(struct cuda_cudnn, desc_destroy) },
    { "cudnnBackendSetAttribute", offsetof(struct cuda_cudnn, desc_set) },
    { "cudnnBackendGetAttribute", offsetof(struct cuda_cudnn, desc_get) },
    { "cudnnBackendFinalize", offsetof(struct cuda_cudnn, finalize) },
    { "cudnnBackendExecute", offsetof(struct cuda_cudnn, execute) },
};

/* It stays mapped when closed: the driver may still call into it when the
 * process ends. */
static void *load(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

bool cuda_cudnn_open(struct cuda_cudnn *out, struct error *err)
{
    size_t version;

    *out = (struct cuda_cudnn) { .handle = load(LIBRARY) };
    if (!out->handle)
        out->handle = load(CUDA_LIBRARY_DIR "/" LIBRARY);
    if (!out->handle)
        return error_set(err, ERROR_DEVICE,
                         "cannot load " LIBRARY
                         " (%s); install it (libcudnn9-cuda-13 of NVIDIA's packages) or "
                         "put its folder into LD_LIBRARY_PATH, or unset "
                         "TRAINSPOOL_CUDNN",
                         dlerror());
    for (size_t i = 0; i < TS_COUNT(functions); i++) {
        void *function = dlsym(out->handle, functions[i].name);

        if (!function) {
            cuda_cudnn_close(out);
            return error_set(err, ERROR_DEVICE, LIBRARY " has no %s", functions[i].name);
        }
        memcpy((char *)out + functions[i].into, &function, sizeof(function));
    }
    version = out->version(); /* 91900: 9.19.0 */
    snprintf(out->name, sizeof(out->name), "cuDNN %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    return true;
}

void cuda_cudnn_close(struct cuda_cudnn *cudnn)
{
    if (cudnn->handle)
        dlclose(cudnn->handle);
    *cudnn = (struct cuda_cudnn) { 0 };
}
