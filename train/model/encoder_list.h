/*
 * train/model/encoder_list.h - the tensors of a model's encoder of images or sounds that can be
 * trained: the rooms above read them from its config.json (train/tower/tower_trained.h).
 */
#ifndef TRAIN_MODEL_ENCODER_LIST_H
#define TRAIN_MODEL_ENCODER_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/tensor.h"

struct encoder_tensor {
    const char *name;      /* as the files name it */
    size_t rank, shape[5]; /* as they have it */
    /* all dimensions after the first are columns; a vector has one row */
    size_t rows, cols;
    bool multiplied; /* matmuls read it in the compute format */
    bool decays;
    bool joins; /* one matmul reads it and the tensor before it: they are adjacent */
    /* elements after it that belong to no tensor of the files, and stay zero */
    size_t gap;
    /* the module in transformers, without ".weight", if it is a linear layer that can have an
     * adapter; or NULL */
    const char *path;
};

/* Where a model that trains it has a tensor: as matmuls read it, in its own format, and its
 * gradient. */
struct encoder_weights {
    struct tensor operand, weight, grad;
};

/* And the adapter of a layer; without data: it has none. */
struct encoder_adapter {
    struct tensor a, b, da, db;
};

struct encoder_list {
    const struct encoder_tensor *list;
    size_t count;    /* 0: there is no encoder, or it cannot be trained */
    const char *why; /* then, if the reason is known; otherwise NULL */
    /* the path of blocks up to their numbers, and how many of them have an output that is read */
    const char *blocks;
    size_t run;
    const char *global_blocks; /* of those that follow, which are all read; or NULL */
};

#endif
