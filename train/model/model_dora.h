/* train/model/model_dora.h - linear layers whose adapters are weight-decomposed (DoRA); for
 * model*.c only. */
#ifndef TRAIN_MODEL_MODEL_DORA_H
#define TRAIN_MODEL_MODEL_DORA_H

#include "train/model/model_internal.h"
#include "train/model/model_linear.h"

/* The stack functions of model_internal.h for a stack that has such adapters. */
void dora_forward(const struct pass *pass, const struct linear_stack *l, size_t layer,
                  struct tensor x, struct tensor y, float beta);
void dora_backward_to_input(const struct pass *pass, const struct linear_stack *l,
                            size_t layer, struct tensor dy, struct tensor dx);
/* Compute u and z, what the backward pass needs. */
void dora_compute_z(const struct pass *pass, const struct linear_stack *l, size_t layer,
                    struct tensor x);
/* List the layers first .. last of a stack whose adapters are decomposed. */
void dora_open(const struct model *m, size_t layer, enum module first, enum module last,
               struct linear_stack *l);
/* Initialize the magnitudes from base and adapters. */
void model_init_magnitudes(struct model *model);

/* ---- Parts of model_linear.c ---- */

/* y = beta y + alpha x W^T + bias */
void linear_forward(const struct pass *pass, const struct linear *p, struct tensor x,
                    struct tensor y, float alpha, float beta);
/* dx = beta dx + alpha dy W */
void linear_input_gradient(const struct pass *pass, const struct linear *p,
                           struct tensor dy, struct tensor dx, float alpha, float beta);
/* dB (+)= scale dy^T u;  g = scale dy B */
void lora_b_backward(const struct pass *pass, const struct linear_stack *l,
                     struct tensor u, struct tensor dy);
/* dx += dropout(beta scratch + g A), with scratch BUFFER_LORA_X; without dropout directly
 * into dx. */
void lora_input_gradient(const struct pass *pass, const struct linear_stack *l,
                         struct tensor dx, float beta);

#endif
