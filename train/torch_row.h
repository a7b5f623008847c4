/*
 * train/torch_row.h - the bytes of activations that PyTorch keeps of one layer for each
 * row of a batch, by architecture: counted tensor by tensor in transformers 5, one
 * dimension varied at a time (docs/memory.md).
 */
#ifndef TRAIN_TORCH_ROW_H
#define TRAIN_TORCH_ROW_H

#include "precision/policy.h"
#include "train/model/model_config.h"

/* By what they are a multiple of. */
struct torch_row {
    double width, queries, keys, mlp;
    double plain;  /* a pair of rows and a head, where attention is not fused */
    double last;   /* of width, behind the last layer */
    double stream; /* of width: what checkpointing keeps of a layer */
    double number; /* of an activation, for what comes and goes */
    /* a pair and a head of plain attention, for what comes and goes: the gradient of
     * its weights as they were kept, and in float32 */
    double scores;
    bool always_plain; /* transformers has no fused attention for it */
};

/* An architecture that was not counted is taken to be like Llama. */
struct torch_row torch_row_of(const struct model_config *config, enum mode mode,
                              bool lora);

#endif
