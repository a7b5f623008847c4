/*
 * tests/emulation/emulation_graph.h - graphs of the emulated cuDNN: tensors, operations,
 * their checks, and their execution.
 */
#ifndef TESTS_EMULATION_EMULATION_GRAPH_H
#define TESTS_EMULATION_EMULATION_GRAPH_H

#include "tests/emulation/emulation_runtime.h"

extern "C" {
#include "kernels/cuda/cuda_cudnn.h"
}

enum { OPS = 48, RANK = 4 };

/* All zero if unused. */
struct layout {
    int64_t id, alignment, dims[RANK], strides[RANK];
    int type;
    bool is_virtual, by_value;
};

struct tensor {
    struct layout own, offsets;
    char *data;            /* in device memory */
    const int32_t *starts; /* of each batch, in elements, if ragged */
    double *values;        /* of a virtual tensor, while the graph runs */
    double value;
};

struct how {
    int mode, precision; /* the operator, in a reduction */
    int64_t axis;
    double padding;
};

/* Operands. A matmul computes y = x b; Y comes after everything that is read. */
enum operand { X, B, T, M, N, K, Y, OPERANDS };

struct operation {
    int kind;
    struct how how;
    struct tensor tensors[OPERANDS];
};

struct graph {
    cudnn_handle handle;
    int64_t count;
    struct operation ops[OPS];
};

/* Everything that a plan needs when it runs. */
struct job {
    struct graph graph;
    void *workspace;
    size_t bytes; /* of the workspace */
};

/* Statuses of cuDNN. */
enum status { BAD_PARAM = 2000, BAD_TYPE = 2010, NOT_SUPPORTED = 3000, FAILED = 5000 };

static inline bool has(const struct layout *l)
{
    return l->dims[0] > 0;
}

static inline bool is_real(const struct layout *l)
{
    return has(l) && !l->is_virtual && !l->by_value;
}

static inline bool is_ragged(const struct tensor *t)
{
    return has(&t->offsets);
}

/* Return `is`; if false, store the status and the message for last_error. */
bool graph_require(bool is, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

int graph_mode(int mode);      /* operands of a pointwise operation; 0: unknown */
int64_t graph_bytes(int type); /* of an element; 0: unknown */
double graph_load(const void *from, int type, int64_t at);
int64_t graph_span(const struct layout *l); /* elements from its first to its last */
/* Return the layout with this id, or NULL. */
const struct layout *graph_find(const struct graph *graph, int64_t id);

/* Check a struct tensor, how, operation or graph: all parts are set and consistent. */
bool tensor_check(void *body);
bool pointwise_check(void *body);
bool compute_check(void *body);
bool op_matmul_check(void *body);
bool op_pointwise_check(void *body);
bool op_reduction_check(void *body);
bool op_reshape_check(void *body);
bool graph_check(void *body);
/* Return whether cuDNN 9.0 has an engine for it, judging by its matmuls: attention, or the
 * gradients of attention. */
bool graph_is_attention(const struct graph *graph);
bool graph_is_backward(const struct graph *graph);

/* Execute a struct job whose pointers are set; a call for a stream. */
void graph_run(const void *job);

#endif
