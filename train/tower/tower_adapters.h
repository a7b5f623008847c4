/*
 * train/tower/tower_adapters.h - low-rank adapters on the linear layers of an encoder's blocks:
 *
 *     y += scale (dropout(x) A^T) B^T,   A (rank, in), B (out, rank)
 *
 * of each part of a layer, whose matrix has a name of its own in files.  Each has a mask of its
 * own, as in PEFT.  Hu et al., "LoRA", 2021.
 */
#ifndef TRAIN_TOWER_TOWER_ADAPTERS_H
#define TRAIN_TOWER_TOWER_ADAPTERS_H

#include "kernels/tensor.h"
#include "train/tower/tower_parameters.h"

struct tower_pass;

struct tower_adapter {
    struct tensor a, b;   /* in the format of matmuls; without data: there is none */
    struct tensor da, db; /* their gradients, fp32 */
};

/* What selects the masks of dropout, besides the layer, its part, and the window, piece or crop
 * of the item.  The passes of tower_backward need those of tower_run. */
struct tower_draw {
    double dropout; /* from 0 to below 1; 0 drops nothing */
    uint64_t seed;  /* of the item */
    uint64_t index; /* of the batch in the run */
};

struct tower_adapters {
    size_t rank;
    double scale;
    struct tower_draw
        draw; /* may change between items; tower_reserve: the largest dropout */
    /* of each parameter of tower_parameters_list, TOWER_PARTS_MAX that follow each other */
    const struct tower_adapter *list;
};

/* Return whether the parts of a layer can have adapters: linear layers of blocks and of
 * DeepStack, not convolutions and patches. */
bool tower_layer_adapts(enum tower_layer layer);

/* y += what the adapters of a layer add */
void tower_adapters_forward(const struct tower_pass *pass, enum tower_layer layer,
                            size_t index, struct tensor x, struct tensor y);
/* Add the gradients of the adapters of a layer. */
void tower_adapters_weights(const struct tower_pass *pass, enum tower_layer layer,
                            size_t index, struct tensor x, struct tensor dy);
/* dx += what passes through the adapters of a layer */
void tower_adapters_input(const struct tower_pass *pass, enum tower_layer layer,
                          size_t index, struct tensor dy, struct tensor dx);

#endif
