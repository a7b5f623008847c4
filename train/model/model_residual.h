/* train/model/model_residual.h - private to model*.c: the gradient of the residual, and norms
 * on its way. */
#ifndef TRAIN_MODEL_MODEL_RESIDUAL_H
#define TRAIN_MODEL_MODEL_RESIDUAL_H

#include "train/model/model_internal.h"

/* A norm with its operands. */
struct norm_place {
    const struct norm *norm;
    struct tensor x, rstd, h; /* h: output */
    bool kept;                /* h is still there from the forward pass */
};

/* Return the first C columns of a buffer, without the folded adapters. */
struct tensor residual_columns(const struct pass *pass, enum buffer buffer);
/* Backward pass of either kind of norm, or of none: dx += ..., and its copy. */
void apply_norm_backward(const struct pass *pass, const struct norm *norm,
                         struct op_rmsnorm_backward op);
/* Add the gradient of a norm to the gradient of the residual. */
void residual_norm_backward(const struct pass *pass, const struct norm_place *at,
                            struct tensor dout);
/* Return the gradient of the output of layer o, or down: that of the residual, through
 * the dropout, the factor or the norm of what is added to it. */
struct tensor delta_gradient(const struct pass *pass, size_t layer, bool o);
/* Return the gradient of the input of a norm of what is added to the residual. */
struct tensor post_norm_gradient(const struct pass *pass, const struct norm_place *at);
/* Add to the gradient of the residual, and to its copy. */
void add_to_residual_gradient(const struct pass *pass, struct tensor d);
/* Return the buffer for the gradient of the output of a norm or of attention; absent if
 * no sublayer below is trained. */
struct tensor output_gradient(const struct pass *pass, size_t cols, size_t index);
/* Return the norm before a stack. */
struct norm_place norm_before(const struct pass *pass, enum stack stack, size_t layer);
/* The weight gradient of trained layers needs their input.  Unless it was kept, the norm
 * recomputes it to the same bits; after block recomputation it is still in the buffer. */
struct tensor norm_output(const struct pass *pass, const struct norm_place *at,
                          bool trained);

#endif
