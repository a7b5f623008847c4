/*
 * train/model/model_projector.h - a projector that is trained, or whose encoder is: from rows
 * of an encoder's output to rows of features in place of embeddings.
 *
 *     x = norm(rows) Wm^T        features = y W2^T [+ b2]
 *     y = act(x W1^T [+ b1]), or of GLM-4V
 *     y = silu(h Wg^T) * (h Wu^T), h = act(norm(x W1^T)), or x
 *
 * The norms, Wm and W1 exist in some models (projector_config.h); several rows of the norm
 * may be one of the layers.  Rows beyond those of a batch, in recorded passes, are zero.
 */
#ifndef TRAIN_MODEL_MODEL_PROJECTOR_H
#define TRAIN_MODEL_MODEL_PROJECTOR_H

#include "kernels/tensor.h"
#include "train/model/shapes.h"

struct model;
struct pass;
struct projector;

/* NULL: batches have rows of its output (shapes.projects). */
struct projector *model_projector_new(const struct model *model);
void model_projector_free(struct projector *projector);

/* Return the buffer of the encoder's rows, as many as features in each; and, if the encoder
 * is trained, of their gradients after a backward pass. */
enum buffer model_projector_input(const struct model *model);
enum buffer model_projector_gradient(const struct model *model);
/* Compute `rows` rows of BUFFER_MEDIA_ROWS; and from their gradients, over them, those of
 * the parameters that are trained. */
void model_projector_forward(const struct pass *pass, size_t rows);
void model_projector_backward(const struct pass *pass, size_t rows);
/* In a batch without media: let the gradients of a window start at 0. */
void model_projector_skip(const struct pass *pass);

#endif
