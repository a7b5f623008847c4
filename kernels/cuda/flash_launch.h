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

#endif
