/*
 * kernels/cuda/cuda_attention.h - attention by cuDNN, if requested: the forward pass of
 * 16-bit heads, if cuDNN supports it on the GPU. Our kernels compute the gradients
 * (attention.cu).
 */
#ifndef KERNELS_CUDA_CUDA_ATTENTION_H
#define KERNELS_CUDA_CUDA_ATTENTION_H

#include "kernels/cuda/cuda_backend.h"

/* TRAINSPOOL_CUDNN=1 in the environment requests it; without it *out stays NULL. False:
 * cuDNN is requested but not installed, or does not start. */
bool cuda_attention_new(struct cuda_backend *cuda, struct cuda_attention **out,
                        struct error *err);
void cuda_attention_free(struct cuda_attention *attention, bool dead);

const char *cuda_attention_name(const struct cuda_attention *attention);
size_t cuda_attention_plans(const struct cuda_attention *attention); /* usable plans */

#endif
