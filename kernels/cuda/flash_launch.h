/*
 * kernels/cuda/flash_launch.h - launchers of attention on tensor cores, for attention.cu.
 * Require fp16 and compute capability 7.5 or bf16 and 8.0, a head size of at most 256
 * that is a multiple of 8, scale > 0, and matrices whose addresses and strides are
 * multiples of 16 bytes.
 */
#ifndef KERNELS_CUDA_FLASH_LAUNCH_H
#define KERNELS_CUDA_FLASH_LAUNCH_H

#include "kernels/cuda/cuda_launch.h"

cudaError_t launch_flash_forward(const struct cuda_launch *to,
                                 const struct op_attention *op);
/* Requires flash_backward_fits. */
cudaError_t launch_flash_backward(const struct cuda_launch *to,
                                  const struct op_attention_backward *op);
bool flash_backward_fits(const struct cuda_launch *to, size_t head_size);
/* op->delta, for both kinds of kernels */
cudaError_t launch_flash_delta(const struct cuda_launch *to,
                               const struct op_attention_backward *op);

/* flash_hopper_forward.cu, flash_hopper_backward.cu: the same on capability 9.0. Return
 * whether this program has them and they cover the operation: head sizes 64 and 128
 * without window, cap and dropout. */
bool flash_hopper_fits(const struct cuda_launch *to, const struct op_attention *op);
cudaError_t launch_flash_hopper_forward(const struct cuda_launch *to,
                                        const struct op_attention *op);
cudaError_t launch_flash_hopper_backward(const struct cuda_launch *to,
                                         const struct op_attention_backward *op);

#endif
