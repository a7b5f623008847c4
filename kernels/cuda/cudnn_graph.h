/*
 * kernels/cuda/cudnn_graph.h - building a cuDNN graph of operations on tensors, and its
 * plan. After the first failure every call does nothing.
 *
 * Tensors have the dimensions (sequences, heads, rows, elements).
 */
#ifndef KERNELS_CUDA_CUDNN_GRAPH_H
#define KERNELS_CUDA_CUDNN_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cuda/cuda_cudnn.h"

/* The graph of the gradients has 35 operations on 53 tensors, the heuristic a few
 * configurations. */
enum {
    CUDNN_GRAPH_DESCRIPTORS = 256,
    CUDNN_GRAPH_OPS_MOST = 48,
    CUDNN_GRAPH_IDS = 64, /* of tensors in memory and by value */
};

/* All descriptors that were created, in order, and what a plan needs when it runs. */
struct cudnn_plan {
    const struct cuda_cudnn *cudnn;
    cudnn_handle handle;
    cudnn_descriptor descriptors[CUDNN_GRAPH_DESCRIPTORS];
    size_t count;
    cudnn_descriptor plan; /* one of them */
    int64_t workspace;
    uint64_t ids; /* bit n: the plan receives tensor n */
};

struct cudnn_graph {
    struct cudnn_plan *plan; /* owns what is created */
    const struct cuda_cudnn *cudnn;
    int64_t scores[3]; /* sequences, heads, rows: the scores are rows x rows */
    int status;        /* the first error */
    const char *doing; /* where */
    char why[200];     /* what the library said of it */
    int64_t next_id;   /* of a tensor inside the graph */
    cudnn_descriptor ops[CUDNN_GRAPH_OPS_MOST];
    size_t op_count;
};

/* Which engines a plan may have, and where it runs. */
struct cudnn_choice {
    cudnn_handle handle;
    cudnn_descriptor device; /* NULL, or with handle NULL a GPU that is not here */
    bool varies;             /* also engines whose results differ from run to run */
};

/* ---- Tensors ---- */

struct cudnn_shape {
    int64_t dims[4], strides[4];
};

struct cudnn_shape cudnn_shape_transposed(struct cudnn_shape shape);
/* (count, 1, 1, 1) */
struct cudnn_shape cudnn_shape_list(int64_t count);
/* This many elements for each row and head, contiguous. */
struct cudnn_shape cudnn_shape_rows(const struct cudnn_graph *graph, int64_t elements);

/* A tensor inside the graph. */
cudnn_descriptor cudnn_graph_inside(struct cudnn_graph *graph, int data_type,
                                    struct cudnn_shape shape);
/* The same with the offsets of its sequences. */
cudnn_descriptor cudnn_graph_inside_ragged(struct cudnn_graph *graph, int data_type,
                                           struct cudnn_shape shape,
                                           cudnn_descriptor offsets);
/* A float by value. */
cudnn_descriptor cudnn_graph_value(struct cudnn_graph *graph, int64_t id);
/* In memory; offsets: NULL, or int32 in elements where each sequence begins. */
cudnn_descriptor cudnn_graph_memory(struct cudnn_graph *graph, int64_t id, int data_type,
                                    struct cudnn_shape shape, cudnn_descriptor offsets);

/* ---- Operations: each returns its result ---- */

struct cudnn_pointwise_op {
    enum cudnn_pointwise mode;
    int precision; /* a data type */
    cudnn_descriptor y, x, b, t;
    int64_t axis; /* of GEN_INDEX */
};
cudnn_descriptor cudnn_graph_pointwise(struct cudnn_graph *graph,
                                       struct cudnn_pointwise_op p);
/* On scores, into new scores of this type, in which it is computed. */
cudnn_descriptor cudnn_graph_apply(struct cudnn_graph *graph, enum cudnn_pointwise mode,
                                   int data_type, cudnn_descriptor x,
                                   cudnn_descriptor other);
/* The row index (axis 2) or key index (3) of each score. */
cudnn_descriptor cudnn_graph_index(struct cudnn_graph *graph, cudnn_descriptor x,
                                   int64_t axis);
/* x where `seen`, else `hidden` */
cudnn_descriptor cudnn_graph_select(struct cudnn_graph *graph, cudnn_descriptor x,
                                    cudnn_descriptor seen, cudnn_descriptor hidden);

/* c = a b.  m, n, k: the rows, columns and depth of each sequence, or NULL; with `pads`
 * the rest of c is 0. */
struct cudnn_product {
    cudnn_descriptor c, a, b, m, n, k;
    bool pads;
};
cudnn_descriptor cudnn_graph_product(struct cudnn_graph *graph, struct cudnn_product p);
/* Over the dimensions that only x has. */
cudnn_descriptor cudnn_graph_reduce(struct cudnn_graph *graph, enum cudnn_reduction kind,
                                    cudnn_descriptor x, cudnn_descriptor y);
/* The same elements with other dimensions or in another format. */
cudnn_descriptor cudnn_graph_reshape(struct cudnn_graph *graph, cudnn_descriptor x,
                                     cudnn_descriptor y);

/* ---- The plan ---- */

/* False: a failure, or with *none that cuDNN has no such engine. */
bool cudnn_graph_plan(struct cudnn_graph *graph, const struct cudnn_choice *choice,
                      bool *none, struct error *err);

/* tensors: by id. */
bool cudnn_plan_run(const struct cudnn_plan *plan, void *const *tensors, void *workspace,
                    struct error *err);
void cudnn_plan_free(struct cudnn_plan *plan); /* NULL is allowed */

#endif
