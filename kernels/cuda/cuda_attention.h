/*
 * kernels/cuda/cuda_attention.h - attention by cuDNN, for those who ask for it: the
 * forward pass of 16-bit heads, where cuDNN has it for the card.  The gradients are our
 * kernels' (attention.cu).
 */
#ifndef KERNELS_CUDA_CUDA_ATTENTION_H
#define KERNELS_CUDA_CUDA_ATTENTION_H

#include "kernels/cuda/cuda_backend.h"

/* TRAINSPOOL_CUDNN=1 in the environment: *out stays NULL without it.  False: cuDNN is
 * asked for and is not there, or does not start. */
bool cuda_attention_new(struct cuda_backend *cuda, struct cuda_attention **out,
                        struct error *err);
void cuda_attention_free(struct cuda_attention *attention, bool dead);

const char *cuda_attention_name(const struct cuda_attention *attention);
size_t cuda_attention_plans(const struct cuda_attention *attention); /* that work */

#endif
