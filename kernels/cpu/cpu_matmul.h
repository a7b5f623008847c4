/* kernels/cpu/cpu_matmul.h - the state that the CPU keeps for matmuls. */
#ifndef KERNELS_CPU_CPU_MATMUL_H
#define KERNELS_CPU_CPU_MATMUL_H

#include "kernels/cpu/cpu_isa.h"
#include "kernels/cpu/cpu_pool.h"
#include "kernels/ops.h"

struct matmul;

/*
 * Whether to use oneDNN. Our own kernels are as fast if they support the CPU's best
 * instructions (docs/performance.md), and give the same bits whether oneDNN is installed
 * or not; so oneDNN is used only on other CPUs.
 */
enum matmul_choice { MATMUL_BEST, MATMUL_OWN, MATMUL_ONEDNN };

/* For a pool of `threads`. */
struct matmul *matmul_new(enum cpu_isa isa, size_t threads, enum matmul_choice choice,
                          struct error *err);
void matmul_free(struct matmul *matmul); /* NULL is allowed */
size_t matmul_bytes(const struct matmul *matmul);
/* "oneDNN 2.6.3" or "own kernels" */
const char *matmul_name(const struct matmul *matmul);

struct op_matmul matmul_of_group(const struct op_grouped_matmul *op, size_t group);
/* The matmuls of the groups that have rows. */
void matmul_grouped(struct matmul *matmul, struct pool *pool,
                    const struct op_grouped_matmul *op);

#endif
