/*
 * kernels/cuda/cuda_cudnn.h - cuDNN 9: graphs of operations that NVIDIA has kernels for,
 * loaded when attention is asked of it and never linked against.
 *
 * No header of cuDNN is needed to build: what is used of its backend interface stands
 * here, with the values that cudnn_graph.h has in all of version 9.  A descriptor is
 * made, its attributes are set, and finalizing it has the library look at it.
 */
#ifndef KERNELS_CUDA_CUDA_CUDNN_H
#define KERNELS_CUDA_CUDA_CUDNN_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "base/error.h"

typedef struct cudnnContext *cudnn_handle;
typedef void *cudnn_descriptor;

enum { CUDNN_SUCCESS = 0 };

enum cudnn_kind {
    CUDNN_POINTWISE = 0,
    CUDNN_ENGINE = 2,
    CUDNN_ENGINE_CONFIG = 3,
    CUDNN_HEURISTIC = 4,
    CUDNN_PLAN = 5,
    CUDNN_OP_POINTWISE = 13,
    CUDNN_GRAPH = 15,
    CUDNN_VARIANT_PACK = 16,
    CUDNN_TENSOR = 17,
    CUDNN_MATMUL = 18,
    CUDNN_OP_MATMUL = 19,
    CUDNN_REDUCTION = 21,
    CUDNN_OP_REDUCTION = 22,
    CUDNN_OP_RESHAPE = 31,
    CUDNN_DEVICE_PROPERTIES = 38, /* from 9.8 on: a card that is not here */
};

/* What an attribute's elements are. */
enum cudnn_type {
    CUDNN_TYPE_HANDLE = 0,
    CUDNN_TYPE_DATA_TYPE = 1,
    CUDNN_TYPE_BOOLEAN = 2, /* a byte */
    CUDNN_TYPE_INT64 = 3,
    CUDNN_TYPE_DOUBLE = 5,
    CUDNN_TYPE_VOID_PTR = 6,
    CUDNN_TYPE_HEUR_MODE = 8,
    CUDNN_TYPE_NUMERICAL_NOTE = 11,
    CUDNN_TYPE_POINTWISE_MODE = 14,
    CUDNN_TYPE_DESCRIPTOR = 15,
    CUDNN_TYPE_REDUCTION_OPERATOR = 18,
    CUDNN_TYPE_CHAR = 24,
};

enum cudnn_attribute {
    CUDNN_POINTWISE_MODE = 0,
    CUDNN_POINTWISE_MATH_PREC = 1,
    CUDNN_POINTWISE_AXIS = 9,
    CUDNN_HEURISTIC_MODE = 200,
    CUDNN_HEURISTIC_GRAPH = 201,
    CUDNN_HEURISTIC_RESULTS = 202,
    CUDNN_HEURISTIC_DEVICE = 204,
    CUDNN_ENGINE_CONFIG_ENGINE = 300,
    CUDNN_PLAN_HANDLE = 400,
    CUDNN_PLAN_ENGINE_CONFIG = 401,
    CUDNN_PLAN_WORKSPACE_SIZE = 402,
    CUDNN_PLAN_DEVICE = 407,
    CUDNN_OP_POINTWISE_DESC = 750,
    CUDNN_OP_POINTWISE_X = 751,
    CUDNN_OP_POINTWISE_B = 752,
    CUDNN_OP_POINTWISE_Y = 753,
    CUDNN_OP_POINTWISE_T = 758,
    CUDNN_GRAPH_HANDLE = 800,
    CUDNN_GRAPH_OPS = 801,
    CUDNN_TENSOR_ALIGNMENT = 900,
    CUDNN_TENSOR_DATA_TYPE = 901,
    CUDNN_TENSOR_DIMENSIONS = 902,
    CUDNN_TENSOR_STRIDES = 903,
    CUDNN_TENSOR_ID = 906,
    CUDNN_TENSOR_IS_VIRTUAL = 907,
    CUDNN_TENSOR_IS_BY_VALUE = 908,
    CUDNN_TENSOR_RAGGED_OFFSET = 913,
    CUDNN_VARIANT_PACK_IDS = 1000,
    CUDNN_VARIANT_PACK_POINTERS = 1001,
    CUDNN_VARIANT_PACK_WORKSPACE = 1003,
    CUDNN_ENGINE_NUMERICAL_NOTES = 1303,
    CUDNN_ENGINE_DEVICE = 1307,
    CUDNN_MATMUL_COMP_TYPE = 1500,
    CUDNN_MATMUL_PADDING_VALUE = 1503,
    CUDNN_OP_MATMUL_A = 1520,
    CUDNN_OP_MATMUL_B = 1521,
    CUDNN_OP_MATMUL_C = 1522,
    CUDNN_OP_MATMUL_DESC = 1523,
    /* rows, columns and depth of each batch: (B, 1, 1, 1) int32 */
    CUDNN_OP_MATMUL_M = 1525,
    CUDNN_OP_MATMUL_N = 1526,
    CUDNN_OP_MATMUL_K = 1527,
    CUDNN_REDUCTION_OPERATOR = 1600,
    CUDNN_REDUCTION_COMP_TYPE = 1601,
    CUDNN_OP_REDUCTION_X = 1610,
    CUDNN_OP_REDUCTION_Y = 1611,
    CUDNN_OP_REDUCTION_DESC = 1612,
    CUDNN_OP_RESHAPE_X = 2200,
    CUDNN_OP_RESHAPE_Y = 2201,
    CUDNN_DEVICE_JSON = 2702,
};

enum cudnn_data_type {
    CUDNN_FLOAT = 0,
    CUDNN_HALF = 2,
    CUDNN_INT32 = 4,
    CUDNN_BFLOAT16 = 9,
    CUDNN_BOOLEAN = 11,
};

enum cudnn_pointwise {
    CUDNN_ADD = 0,
    CUDNN_MUL = 1,
    CUDNN_DIV = 6,
    CUDNN_SUB = 9,
    CUDNN_EXP = 13,
    CUDNN_LOG = 15,
    CUDNN_IDENTITY = 21,
    CUDNN_CMP_GT = 302,
    CUDNN_CMP_GE = 303,
    CUDNN_CMP_LT = 304,
    CUDNN_AND = 400,
    CUDNN_GEN_INDEX = 501, /* of each number its place along the axis */
    CUDNN_SELECT = 601,    /* y = t ? x : b */
};

enum cudnn_reduction { CUDNN_REDUCE_ADD = 0, CUDNN_REDUCE_MAX = 3 };
enum cudnn_heuristic { CUDNN_HEURISTIC_A = 3 };
enum cudnn_note { CUDNN_NONDETERMINISTIC = 4, CUDNN_NOTES = 10 };

/* Each returns CUDNN_SUCCESS, or what `text` says in words. */
struct cuda_cudnn {
    void *handle;  /* dlopen's */
    char name[32]; /* "cuDNN 9.19.0" */

    size_t (*version)(void);
    const char *(*text)(int status);
    /* What the last call of this thread found wrong, at length; emptied by that. */
    void (*last_error)(char *message, size_t room);
    int (*create)(cudnn_handle *handle);
    int (*destroy)(cudnn_handle handle);
    int (*set_stream)(cudnn_handle handle, cudaStream_t stream);
    int (*desc_create)(int kind, cudnn_descriptor *desc);
    int (*desc_destroy)(cudnn_descriptor desc);
    int (*desc_set)(cudnn_descriptor desc, int attribute, int type, int64_t count,
                    const void *elements);
    /* *count is the number of elements; up to `room` of them are written. The caller
     * creates the descriptors first; the call fills them in. */
    int (*desc_get)(cudnn_descriptor desc, int attribute, int type, int64_t room,
                    int64_t *count, void *elements);
    int (*finalize)(cudnn_descriptor desc);
    int (*execute)(cudnn_handle handle, cudnn_descriptor plan, cudnn_descriptor pack);
};

/* Load the library from the loader's search path, or else from the toolkit that this
 * build was configured with. Fails with ERROR_DEVICE and says what to install. */
bool cuda_cudnn_open(struct cuda_cudnn *out, struct error *err);
void cuda_cudnn_close(struct cuda_cudnn *cudnn); /* does nothing if it was never opened */

#endif
