/*
 * kernels/cuda/cuda_library.h - cuBLASLt, NVIDIA's matmul library, loaded when a GPU is
 * opened and never linked against, because it is 500 MB that a CPU job does not need.
 *
 * The functions are those of cublasLt.h that are the same in CUDA 12 and 13.
 */
#ifndef KERNELS_CUDA_CUDA_LIBRARY_H
#define KERNELS_CUDA_CUDA_LIBRARY_H

#include <cublasLt.h>

#include "base/error.h"

struct cuda_library {
    void *handle;  /* dlopen's */
    char name[48]; /* "cuBLASLt 13.1.0" */

    cublasStatus_t (*create)(cublasLtHandle_t *handle);
    cublasStatus_t (*destroy)(cublasLtHandle_t handle);
    size_t (*version)(void);
    const char *(*status_text)(cublasStatus_t status);

    cublasStatus_t (*desc_create)(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                  cudaDataType_t scale);
    cublasStatus_t (*desc_destroy)(cublasLtMatmulDesc_t desc);
    cublasStatus_t (*desc_set)(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes);

    cublasStatus_t (*layout_create)(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                    uint64_t rows, uint64_t cols, int64_t ld);
    cublasStatus_t (*layout_destroy)(cublasLtMatrixLayout_t layout);

    cublasStatus_t (*preference_create)(cublasLtMatmulPreference_t *preference);
    cublasStatus_t (*preference_destroy)(cublasLtMatmulPreference_t preference);
    cublasStatus_t (*preference_set)(cublasLtMatmulPreference_t preference,
                                     cublasLtMatmulPreferenceAttributes_t attribute,
                                     const void *value, size_t bytes);

    cublasStatus_t (*heuristic)(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                cublasLtMatmulPreference_t preference, int wanted,
                                cublasLtMatmulHeuristicResult_t results[], int *found);
    cublasStatus_t (*algo_get)(const cublasLtMatmulAlgo_t *algo,
                               cublasLtMatmulAlgoConfigAttributes_t attribute,
                               void *value, size_t bytes, size_t *written);
    cublasStatus_t (*matmul)(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                             const void *alpha, const void *a,
                             cublasLtMatrixLayout_t a_layout, const void *b,
                             cublasLtMatrixLayout_t b_layout, const void *beta,
                             const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                             cublasLtMatrixLayout_t d_layout,
                             const cublasLtMatmulAlgo_t *algo, void *workspace,
                             size_t workspace_bytes, cudaStream_t stream);
};

/*
 * Load the library from the loader's search path (LD_LIBRARY_PATH, ld.so.conf), or else
 * from the toolkit that this build was configured with; that toolkit's version is tried
 * before others. Fails with ERROR_DEVICE, the names tried, and what to install.
 */
bool cuda_library_open(struct cuda_library *out, struct error *err);
void cuda_library_close(struct cuda_library *library); /* does nothing if it was never
                                                        * opened */

#endif
