/*
 * kernels/cpu/cpu_backend.h - the state of the CPU backend, shared by its operations.
 *
 * An operation is `void cpu_NAME(struct backend *be, const struct op_NAME *op)`. It
 * divides its work into tasks, by shapes alone, and gives them to the pool.
 */
#ifndef KERNELS_CPU_CPU_BACKEND_H
#define KERNELS_CPU_CPU_BACKEND_H

#include "kernels/backend.h"
#include "kernels/cpu/cpu_isa.h"
#include "kernels/cpu/cpu_pool.h"

struct block;
struct matmul;
struct mesh;
struct rendezvous;

struct cpu_backend {
    struct backend base;
    struct pool *pool;
    enum cpu_isa isa;
    struct matmul *matmul; /* state of the matmuls */
    struct error failed;   /* the first failure since the last sync; ERROR_NONE: none */
    struct block *blocks;  /* allocated by alloc */
    struct rendezvous *rendezvous; /* the other ranks, of this machine; NULL: none */
    struct mesh *mesh;             /* the other ranks, of several machines; NULL: none */
    enum format sent;              /* backend_group.sent */
    char description[96];
};

static inline struct cpu_backend *cpu_backend_of(struct backend *be)
{
    return (struct cpu_backend *)be;
}

/* Run the tasks of an operation, unless an earlier operation failed. */
void cpu_backend_run(struct backend *be, size_t count, pool_task *task, void *context);

/* cpu_group.c: as in backend.h; on the CPU they complete before they return. */
bool cpu_join(struct backend *be, const struct backend_group *group, struct error *err);
void cpu_reduce(struct backend *be, float *data, size_t count, int root);
void cpu_reduce_shards(struct backend *be, float *data, size_t count, size_t first,
                       size_t shard);
void cpu_all_reduce(struct backend *be, double *data, size_t count);
void cpu_all_gather(struct backend *be, void *data, size_t bytes);
void cpu_broadcast(struct backend *be, void *data, size_t bytes, int root);
void cpu_send(struct backend *be, void *data, size_t bytes, int from, int to);
void cpu_meet(struct backend *be); /* also mark and meet_mark */

#define CPU_OPERATION(name, ...) \
    void cpu_##name(struct backend *be, const struct op_##name *op);
OPERATIONS(CPU_OPERATION)
#undef CPU_OPERATION

#endif
