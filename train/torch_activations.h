/*
 * train/torch_activations.h - bytes of activations that PyTorch keeps per layer and row
 * of a batch, by architecture: counted tensor by tensor in transformers 5, varying one
 * dimension at a time (docs/memory.md).
 */
#ifndef TRAIN_TORCH_ACTIVATIONS_H
#define TRAIN_TORCH_ACTIVATIONS_H

#include "precision/policy.h"
#include "train/model/model_config.h"

/* Each field is a factor of the dimension that it names. */
struct torch_row {
    double width, queries, keys, mlp;
    double plain;  /* per pair of rows and head, if attention is not fused */
    double last;   /* of width, after the last layer */
    double stream; /* of width: kept per layer with checkpointing */
    double number; /* bytes of a temporary activation */
    /* temporary, per pair of rows and head of unfused attention: the gradient of its
     * weights in the stored format and in float32 */
    double scores;
    bool always_plain; /* transformers has no fused attention for it */
};

/* An architecture that was not counted is assumed to be like Llama. */
struct torch_row torch_activations_of(const struct model_config *config, enum mode mode,
                                      bool lora);

#endif
