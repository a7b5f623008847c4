/* kernels/cuda/cuda_matmul.h - op_matmul by cuBLASLt. */
#ifndef KERNELS_CUDA_CUDA_MATMUL_H
#define KERNELS_CUDA_CUDA_MATMUL_H

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_plan.h"

/* Return the device memory that matmuls need, for cuda_matmul_new. */
size_t cuda_matmul_room(const struct cuda_backend *cuda, size_t rounded_bytes);

/* Load the library. `room` is that device memory, not owned. */
struct cuda_matmul *cuda_matmul_new(const struct cuda_backend *cuda, void *room,
                                    size_t rounded_bytes, struct error *err);
void cuda_matmul_free(struct cuda_matmul *matmul, bool dead);   /* NULL is allowed */
const char *cuda_matmul_name(const struct cuda_matmul *matmul); /* "cuBLASLt 13.1.0" */
/* Return the number of cached plans: replaying a step creates none. */
size_t cuda_matmul_plans(const struct cuda_matmul *matmul);
/* Make all plans again when they are needed next. */
void cuda_matmul_forget_plans(struct cuda_matmul *matmul);
/* Put a matmul into the stream, by the chosen algorithm of its plan. The result goes to
 * `into`, in the layout of op->out, which is only read unless it is the same. */
cublasStatus_t cuda_matmul_enqueue(struct cuda_backend *cuda,
                                   const struct cuda_plan *plan,
                                   const struct op_matmul *op, void *into);
/* Return the number of matmuls issued or recorded that multiply in fp8: 0 if none of a
 * job's fp8 matmuls can. */
size_t cuda_matmul_in_fp8(const struct cuda_matmul *matmul);
/* For benchmarks: how many algorithms the library proposes for a matmul, best first by its
 * own estimate; 0 if it does not support it.  And use one of them from now on. */
size_t cuda_matmul_choices(struct cuda_backend *cuda, const struct op_matmul *op);
void cuda_matmul_choose(struct cuda_backend *cuda, const struct op_matmul *op,
                        size_t choice);
/* Return the device memory allocated since it was opened. */
size_t cuda_matmul_bytes(const struct cuda_matmul *matmul);

#endif
