/* kernels/cuda/cuda_library.c - cuBLASLt by dlopen. */
#include "config.h"

#include "kernels/cuda/cuda_library.h"

#include "base/size.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The version of the build's toolkit first; both have all the functions used here. */
static const char *const names[] = {
#if CUDART_VERSION >= 13000
    "libcublasLt.so.13",
    "libcublasLt.so.12",
#else
    "libcublasLt.so.12",
    "libcublasLt.so.13",
#endif
    "libcublasLt.so",
};

static const struct function {
    const char *name;
    size_t into;
} functions[] = {
    { "cublasLtCreate", offsetof(struct cuda_library, create) },
    { "cublasLtDestroy", offsetof(struct cuda_library, destroy) },
    { "cublasLtGetVersion", offsetof(struct cuda_library, version) },
    { "cublasLtGetStatusString", offsetof(struct cuda_library, status_text) },
    { "cublasLtMatmulDescCreate", offsetof(struct cuda_library, desc_create) },
    { "cublasLtMatmulDescDestroy", offsetof(struct cuda_library, desc_destroy) },
    { "cublasLtMatmulDescSetAttribute", offsetof(struct cuda_library, desc_set) },
    { "cublasLtMatrixLayoutCreate", offsetof(struct cuda_library, layout_create) },
    { "cublasLtMatrixLayoutDestroy", offsetof(struct cuda_library, layout_destroy) },
    { "cublasLtMatmulPreferenceCreate",
      offsetof(struct cuda_library, preference_create) },
    { "cublasLtMatmulPreferenceDestroy",
      offsetof(struct cuda_library, preference_destroy) },
    { "cublasLtMatmulPreferenceSetAttribute",
      offsetof(struct cuda_library, preference_set) },
    { "cublasLtMatmulAlgoGetHeuristic", offsetof(struct cuda_library, heuristic) },
    { "cublasLtMatmulAlgoConfigGetAttribute", offsetof(struct cuda_library, algo_get) },
    { "cublasLtMatmul", offsetof(struct cuda_library, matmul) },
};

/* It stays mapped when closed: the driver may still call into it when the
 * process ends. */
static void *load(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void *find(char *why, size_t room)
{
    char path[512];
    void *handle = NULL;

    *why = '\0';
    for (size_t i = 0; i < TS_COUNT(names) && !handle; i++) {
        handle = load(names[i]);
        if (handle)
            break;
        if (i == 0)
            snprintf(why, room, "%s", dlerror());
        snprintf(path, sizeof(path), "%s/%s", CUDA_LIBRARY_DIR, names[i]);
        handle = load(path);
    }
    return handle;
}

bool cuda_library_open(struct cuda_library *out, struct error *err)
{
    char why[200];
    size_t version;

    *out = (struct cuda_library) { .handle = find(why, sizeof(why)) };
    if (!out->handle)
        return error_set(
            err, ERROR_DEVICE,
            "cannot load cuBLASLt, required for matmuls on a GPU: no %s, %s or %s (%s, "
            "nor in %s); install it (libcublas of the CUDA toolkit) or put its folder "
            "into LD_LIBRARY_PATH, or set device: cpu",
            names[0], names[1], names[2], why, CUDA_LIBRARY_DIR);
    for (size_t i = 0; i < TS_COUNT(functions); i++) {
        void *function = dlsym(out->handle, functions[i].name);

        if (!function) {
            cuda_library_close(out);
            return error_set(
                err, ERROR_DEVICE,
                "libcublasLt has no %s: it is too old; install one of CUDA 12 or 13",
                functions[i].name);
        }
        memcpy((char *)out + functions[i].into, &function, sizeof(function));
    }
    version = out->version(); /* 130100: 13.1.0; 120803: 12.8.3 */
    snprintf(out->name, sizeof(out->name), "cuBLASLt %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    return true;
}

void cuda_library_close(struct cuda_library *library)
{
    if (library->handle)
        dlclose(library->handle);
    *library = (struct cuda_library) { 0 };
}
