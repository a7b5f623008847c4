/* train/model/model_linear.h - linear layers and their adapters: y, and its gradients. */
#ifndef TRAIN_MODEL_MODEL_LINEAR_H
#define TRAIN_MODEL_MODEL_LINEAR_H

#include "train/model/model_internal.h"

/* Return the input of the adapters: x, or x after dropout in scratch. */
struct tensor pass_lora_input(const struct pass *pass, const struct linear_stack *stack,
                              struct tensor x);
/* Return u = x A^T of a stack. */
struct tensor pass_u(const struct pass *pass, const struct linear_stack *stack,
                     size_t layer);
/* Return a buffer of pairs of rows and experts, k for each row of the batch. */
struct tensor pass_pairs(const struct pass *pass, enum buffer buffer, size_t layer);
/* y = alpha x W^T + b + beta y, in the columns of one layer; its gradients
 * grad (+)= alpha dy^T x, and the sum of dy; dx = alpha dy W + beta dx.  read: dx has read
 * dy. */
void linear_forward(const struct pass *pass, const struct linear *p, struct tensor x,
                    struct tensor y, float alpha, float beta);
void linear_weight_gradient(const struct pass *pass, const struct linear *p,
                            struct tensor x, struct tensor dy, float alpha, bool read);
void linear_input_gradient(const struct pass *pass, const struct linear *p,
                           struct tensor dy, struct tensor dx, float alpha, float beta);
/* Compute u of a stack over x. */
void lora_a_forward(const struct pass *pass, const struct linear_stack *l,
                    struct tensor x, struct tensor u);
/* Compute what the backward pass needs of the forward pass of a stack, without y. */
void stack_recompute(const struct pass *pass, const struct linear_stack *l, size_t layer,
                     struct tensor x);
/* Compute y of the layers of a stack over x, with their adapters. */
void stack_forward(const struct pass *pass, const struct linear_stack *l, size_t layer,
                   struct tensor x, struct tensor y, float beta);
/*
 * The backward pass of a stack, in two steps, because the activation computes x of the
 * down projection again when it has the gradient of x.  First dx = dy W + g A, unless dx is
 * absent, and the gradients of B; dy may have more columns.  Folded adapters:
 * dx = (dy, g) [W; A].
 */
void stack_backward_to_input(const struct pass *pass, const struct linear_stack *l,
                             size_t layer, struct tensor dy, struct tensor dx);
/* Then the gradients of W, or dA (+)= g^T dropout(x).  read: there was a dx. */
void stack_backward_to_weights(const struct pass *pass, const struct linear_stack *l,
                               struct tensor x, struct tensor dy, bool read);
/* Both steps, of the adapters alone: adds to dx, if there is one. */
void adapters_backward(const struct pass *pass, const struct linear_stack *l,
                       size_t layer, struct tensor x, struct tensor dy, struct tensor dx);
/* Both steps. */
void stack_backward(const struct pass *pass, const struct linear_stack *l, size_t layer,
                    struct tensor x, struct tensor dy, struct tensor dx);

#endif
