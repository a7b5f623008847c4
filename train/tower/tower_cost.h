/*
 * train/tower/tower_cost.h - what an encoder takes while it computes rows of features, or is
 * trained: memory and operations, from its config.json alone.
 */
#ifndef TRAIN_TOWER_TOWER_COST_H
#define TRAIN_TOWER_TOWER_COST_H

#include <stdint.h>

#include "train/tower/tower_config.h"

struct tower_cost {
    bool sound;        /* the items are sounds, not images */
    uint64_t weights;  /* bytes of its parameters */
    uint64_t buffers;  /* bytes of what it computes, for the largest item */
    double operations; /* of that item: a multiplication and an addition are two */
    uint64_t trained;  /* elements that are trained; 0: the encoder is frozen */
};

struct tower_cost_options {
    enum format compute;
    bool project;     /* to the rows after the projector */
    bool trains;      /* tower_run and tower_backward; without `project` */
    size_t rank;      /* of adapters on all linear layers; 0: there are none */
    bool drops;       /* they have dropout */
    size_t alignment; /* of the backend */
};

/* Estimate the cost of an item that has `rows` rows of features. */
void tower_cost_of(const struct tower_config *config,
                   const struct tower_cost_options *options, size_t rows,
                   struct tower_cost *out);

#endif
