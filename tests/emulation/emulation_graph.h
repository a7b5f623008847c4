/*
 * tests/emulation/emulation_graph.h - a graph as the emulated cuDNN has it: tensors,
 * operations, whether they are whole, and doing them.
 */
#ifndef TESTS_EMULATION_EMULATION_GRAPH_H
#define TESTS_EMULATION_EMULATION_GRAPH_H

#include "tests/emulation/emulation_runtime.h"

extern "C" {
#include "kernels/cuda/cuda_cudnn.h"
}

enum { OPS = 32, RANK = 4 };

/* Where it is not used, all of it is 0. */
struct layout {
    int64_t id, alignment, dims[RANK], strides[RANK];
    int type;
    bool is_virtual, by_value;
};

struct tensor {
    struct layout own, offsets;
    char *data;            /* in the card's memory */
    const int32_t *starts; /* of each batch, in numbers, where it is ragged */
    double *numbers;       /* of a virtual one, while the graph is done */
    double value;
};

struct how {
    int mode, precision; /* a reduction's operator is its mode */
    int64_t axis;
    double padding;
};

/* y = x b of a product; Y is behind all that is read. */
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

/* All that a plan needs when its turn comes. */
struct job {
    struct graph graph;
    void *workspace;
    size_t bytes; /* of that */
};

/* Of cuDNN. */
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

/* Is it so?  If not, this is what is wrong, for last_error. */
bool graph_must(bool is, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

int graph_mode(int mode);      /* operands of a pointwise operation; 0: there is none */
int64_t graph_bytes(int type); /* of a number; 0: not known */
double graph_load(const void *from, int type, int64_t at);
int64_t graph_span(const struct layout *l); /* numbers from its first to its last */
/* What has the id; NULL: nothing. */
const struct layout *graph_find(const struct graph *graph, int64_t id);

/* Is it whole, and does it go together?  Of a struct tensor, how, operation, graph. */
bool tensor_whole(void *body);
bool pointwise_whole(void *body);
bool in_fp32(void *body);
bool op_matmul_whole(void *body);
bool op_pointwise_whole(void *body);
bool op_reduction_whole(void *body);
bool graph_whole(void *body);
/* Has cuDNN 9.0 an engine for it?  By its products. */
bool graph_is_attention(const struct graph *graph);

/* Do it, with all its pointers in place: a call for a stream, of a struct job. */
void graph_run(const void *job);

#endif
