/*
 * kernels/cuda/flash_launch.h - attention on tensor cores, as attention.cu calls it: fp16
 * from 7.5 on, bf16 from 8.0 on, head sizes to 256 in multiples of 8, scale above 0, all
 * matrices at multiples of 16 bytes with strides that are.
 */
#ifndef KERNELS_CUDA_FLASH_LAUNCH_H
#define KERNELS_CUDA_FLASH_LAUNCH_H

#include "kernels/cuda/cuda_launch.h"

cudaError_t launch_flash_forward(const struct cuda_launch *to,
                                 const struct op_attention *op);
/* Only where flash_backward_fits. */
cudaError_t launch_flash_backward(const struct cuda_launch *to,
                                  const struct op_attention_backward *op);
bool flash_backward_fits(const struct cuda_launch *to, size_t head_size);

#endif
