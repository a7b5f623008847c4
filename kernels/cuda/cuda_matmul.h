/* kernels/cuda/cuda_matmul.h - op_matmul by cuBLASLt. */
#ifndef KERNELS_CUDA_CUDA_MATMUL_H
#define KERNELS_CUDA_CUDA_MATMUL_H

#include "kernels/cuda/cuda_backend.h"

/* The card's memory that products want, for cuda_matmul_new. */
size_t cuda_matmul_room(const struct cuda_backend *cuda, size_t rounded_bytes);

/* Loads the library.  `room` is so much memory of the card, not owned. */
struct cuda_matmul *cuda_matmul_new(const struct cuda_backend *cuda, void *room,
                                    size_t rounded_bytes, struct error *err);
void cuda_matmul_free(struct cuda_matmul *matmul, bool dead);   /* NULL is allowed */
const char *cuda_matmul_name(const struct cuda_matmul *matmul); /* "cuBLASLt 13.1.0" */
/* Plans that are kept: a step that is played again makes none. */
size_t cuda_matmul_plans(const struct cuda_matmul *matmul);
/* Products put into the stream, or into a recording, that multiply in 8 bits: 0 where all
 * of a job with fp8 are done as without. */
size_t cuda_matmul_in_fp8(const struct cuda_matmul *matmul);
/* Memory of the card got since it was opened. */
size_t cuda_matmul_bytes(const struct cuda_matmul *matmul);

#endif
