/* kernels/cpu/cpu_matmul.h - what the CPU keeps for products. */
#ifndef KERNELS_CPU_CPU_MATMUL_H
#define KERNELS_CPU_CPU_MATMUL_H

#include "kernels/cpu/cpu_isa.h"
#include "kernels/cpu/cpu_pool.h"

struct matmul;

/* For a pool of `threads`. */
struct matmul *matmul_new(enum cpu_isa isa, size_t threads, bool no_onednn,
                          struct error *err);
void matmul_free(struct matmul *matmul); /* NULL is allowed */
size_t matmul_bytes(const struct matmul *matmul);
/* "oneDNN 2.6.3" or "own products" */
const char *matmul_name(const struct matmul *matmul);

#endif
