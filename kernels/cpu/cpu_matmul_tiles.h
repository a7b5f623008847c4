/* kernels/cpu/cpu_matmul_tiles.h - a matmul as a grid of tiles, each computed by one
 * thread. */
#ifndef KERNELS_CPU_CPU_MATMUL_TILES_H
#define KERNELS_CPU_CPU_MATMUL_TILES_H

#include "kernels/cpu/cpu_isa.h"
#include "kernels/cpu/cpu_onednn.h"
#include "kernels/cpu/cpu_pool.h"
#include "kernels/ops.h"

struct tiles; /* kept between matmuls: the threads' panels */

/* Uses oneDNN if it is given (the caller keeps ownership) and has a plan, else our own
 * kernels. */
struct tiles *tiles_new(enum cpu_isa isa, size_t threads, struct onednn *onednn,
                        struct error *err);
void tiles_free(struct tiles *tiles); /* NULL is allowed */
size_t tiles_bytes(const struct tiles *tiles);

/* Run an operation whose shapes and formats are valid and not empty. Returns false if
 * oneDNN fails. */
bool tiles_matmul(struct tiles *tiles, struct pool *pool, const struct op_matmul *op);

/* Run the matmul of each group that has rows, with our own kernels: oneDNN plans each
 * shape, and those of groups change with every batch. */
void tiles_grouped(struct tiles *tiles, struct pool *pool,
                   const struct op_grouped_matmul *op);

#endif
