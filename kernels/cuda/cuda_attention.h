/*
 * kernels/cuda/cuda_attention.h - who computes attention: cuDNN, where it has an engine,
 * or our kernels (attention.cu).
 *
 * From compute capability 9.0 on cuDNN computes the forward pass of 16-bit heads if the
 * library is installed, except what our kernels for 9.0 cover. TRAINSPOOL_CUDNN=0 disables
 * it; =1 insists on it: for all that it has engines for, also before 9.0, and a library
 * that is missing or fails is an error. It computes the gradients only if
 * their bits may differ from run to run (backend_options.gradients_bytes).
 */
#ifndef KERNELS_CUDA_CUDA_ATTENTION_H
#define KERNELS_CUDA_CUDA_ATTENTION_H

#include "kernels/cuda/cuda_backend.h"

/* *out stays NULL if cuDNN is not used. False: cuDNN is insisted on but missing or too
 * old. The library does not start before the first attention that it computes. */
bool cuda_attention_new(struct cuda_backend *cuda, struct cuda_attention **out,
                        struct error *err);
void cuda_attention_free(struct cuda_attention *attention, bool dead);

/* "trainspool": our kernels; "trainspool for 9.0": those of this capability, for heads that
 * they cover; "cuDNN 9.19.0"; "trainspool for 9.0, else cuDNN 9.19.0". */
const char *cuda_attention_name(struct backend *be);
/* From now on use what has this name; false if that is not possible. */
bool cuda_attention_use(struct backend *be, const char *name);
/* Start cuDNN and make its plan in a thread, which the first attention joins. */
void cuda_attention_expect(struct backend *be, const struct op_attention *op);

size_t cuda_attention_plans(const struct cuda_attention *attention); /* usable plans */

#endif
