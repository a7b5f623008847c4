/* train/model/model_rotation.h - linear layers whose adapters rotate their inputs (OFT); for
 * model*.c only. */
#ifndef TRAIN_MODEL_MODEL_ROTATION_H
#define TRAIN_MODEL_MODEL_ROTATION_H

#include "train/model/model_internal.h"
#include "train/model/model_stored.h"

/* The stack functions of model_internal.h for a stack that has such adapters. */
void rotation_forward(const struct pass *pass, const struct linear_stack *l, size_t layer,
                      struct tensor x, struct tensor y, float beta);
void rotation_backward_to_input(const struct pass *pass, const struct linear_stack *l,
                                size_t layer, struct tensor dy, struct tensor dx);
void rotation_backward_to_weights(const struct pass *pass, const struct linear_stack *l,
                                  struct tensor x);
/* Append a layer to a stack with such adapters, whose layers stay apart. */
void rotation_append(const struct model *m, size_t layer, enum module module,
                     struct linear_stack *l, const struct linear *linear);
/* Rotate the inputs of rows of a weight: W R^T.  packed: its oft_R. */
void model_rotate_weights(const struct model_rows *rows, const struct rotation *rotation,
                          const float *packed);

#endif
