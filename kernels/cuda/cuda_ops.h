/* kernels/cuda/cuda_ops.h - the operations in the table of the backend
 * (cuda_backend.c). */
#ifndef KERNELS_CUDA_CUDA_OPS_H
#define KERNELS_CUDA_CUDA_OPS_H

#include "kernels/backend.h"

void cuda_matmul(struct backend *be, const struct op_matmul *op);
void cuda_sum_rows(struct backend *be, const struct op_sum_rows *op);
void cuda_embedding(struct backend *be, const struct op_embedding *op);
void cuda_embedding_backward(struct backend *be, const struct op_embedding_backward *op);
void cuda_rmsnorm(struct backend *be, const struct op_rmsnorm *op);
void cuda_rmsnorm_backward(struct backend *be, const struct op_rmsnorm_backward *op);
void cuda_layernorm(struct backend *be, const struct op_layernorm *op);
void cuda_layernorm_backward(struct backend *be, const struct op_layernorm_backward *op);
void cuda_headnorm(struct backend *be, const struct op_headnorm *op);
void cuda_headnorm_backward(struct backend *be, const struct op_headnorm_backward *op);
void cuda_rope(struct backend *be, const struct op_rope *op);
void cuda_attention(struct backend *be, const struct op_attention *op);
void cuda_attention_backward(struct backend *be, const struct op_attention_backward *op);
void cuda_activation(struct backend *be, const struct op_activation *op);
void cuda_activation_backward(struct backend *be,
                              const struct op_activation_backward *op);
void cuda_decode(struct backend *be, const struct op_decode *op);
void cuda_swiglu(struct backend *be, const struct op_swiglu *op);
void cuda_swiglu_backward(struct backend *be, const struct op_swiglu_backward *op);
void cuda_classifier(struct backend *be, const struct op_classifier *op);
void cuda_topk(struct backend *be, const struct op_topk *op);
void cuda_distill(struct backend *be, const struct op_distill *op);
void cuda_preference(struct backend *be, const struct op_preference *op);
void cuda_add(struct backend *be, const struct op_add *op);
void cuda_convert(struct backend *be, const struct op_convert *op);
void cuda_dequantize(struct backend *be, const struct op_dequantize *op);
void cuda_zero(struct backend *be, const struct op_zero *op);
void cuda_dropout(struct backend *be, const struct op_dropout *op);
void cuda_square_sum(struct backend *be, const struct op_square_sum *op);
void cuda_decide(struct backend *be, const struct op_decide *op);
void cuda_adamw(struct backend *be, const struct op_adamw *op);
void cuda_sgd(struct backend *be, const struct op_sgd *op);

#endif
