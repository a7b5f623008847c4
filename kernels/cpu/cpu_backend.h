/*
 * kernels/cpu/cpu_backend.h - the CPU as a backend: what its operations share.
 *
 * An operation is `void cpu_NAME(struct backend *be, const struct op_NAME *op)`, listed
 * below and in the table of cpu_backend.c.  It cuts its work into tasks by shapes alone
 * and gives them to the pool.
 */
#ifndef KERNELS_CPU_CPU_BACKEND_H
#define KERNELS_CPU_CPU_BACKEND_H

#include "kernels/backend.h"
#include "kernels/cpu/cpu_isa.h"
#include "kernels/cpu/cpu_pool.h"

struct block;
struct matmul;
struct meeting;

struct cpu_backend {
    struct backend base;
    struct pool *pool;
    enum cpu_isa isa;
    struct matmul *matmul;   /* what products keep */
    struct error failed;     /* the first failure since the last sync; ERROR_NONE: none */
    struct block *blocks;    /* what alloc gave out */
    struct meeting *meeting; /* the other ranks; NULL: alone */
    char description[96];
};

static inline struct cpu_backend *cpu_backend_of(struct backend *be)
{
    return (struct cpu_backend *)be;
}

/* Run the tasks of an operation, unless one before it failed. */
void cpu_backend_run(struct backend *be, size_t count, pool_task *task, void *context);

/* cpu_group.c: as in backend.h; on a CPU they are done when they return. */
bool cpu_join(struct backend *be, const struct backend_group *group, struct error *err);
void cpu_reduce(struct backend *be, float *data, size_t count, int root);
void cpu_all_reduce(struct backend *be, double *data, size_t count);
void cpu_all_gather(struct backend *be, void *data, size_t bytes);
void cpu_meet(struct backend *be);

void cpu_matmul(struct backend *be, const struct op_matmul *op);
void cpu_sum_rows(struct backend *be, const struct op_sum_rows *op);
void cpu_embedding(struct backend *be, const struct op_embedding *op);
void cpu_embedding_backward(struct backend *be, const struct op_embedding_backward *op);
void cpu_rmsnorm(struct backend *be, const struct op_rmsnorm *op);
void cpu_rmsnorm_backward(struct backend *be, const struct op_rmsnorm_backward *op);
void cpu_layernorm(struct backend *be, const struct op_layernorm *op);
void cpu_layernorm_backward(struct backend *be, const struct op_layernorm_backward *op);
void cpu_headnorm(struct backend *be, const struct op_headnorm *op);
void cpu_headnorm_backward(struct backend *be, const struct op_headnorm_backward *op);
void cpu_rope(struct backend *be, const struct op_rope *op);
void cpu_attention(struct backend *be, const struct op_attention *op);
void cpu_attention_backward(struct backend *be, const struct op_attention_backward *op);
void cpu_activation(struct backend *be, const struct op_activation *op);
void cpu_activation_backward(struct backend *be, const struct op_activation_backward *op);
void cpu_decode(struct backend *be, const struct op_decode *op);
void cpu_swiglu(struct backend *be, const struct op_swiglu *op);
void cpu_swiglu_backward(struct backend *be, const struct op_swiglu_backward *op);
void cpu_classifier(struct backend *be, const struct op_classifier *op);
void cpu_topk(struct backend *be, const struct op_topk *op);
void cpu_distill(struct backend *be, const struct op_distill *op);
void cpu_preference(struct backend *be, const struct op_preference *op);
void cpu_add(struct backend *be, const struct op_add *op);
void cpu_convert(struct backend *be, const struct op_convert *op);
void cpu_dequantize(struct backend *be, const struct op_dequantize *op);
void cpu_zero(struct backend *be, const struct op_zero *op);
void cpu_dropout(struct backend *be, const struct op_dropout *op);
void cpu_square_sum(struct backend *be, const struct op_square_sum *op);
void cpu_decide(struct backend *be, const struct op_decide *op);
void cpu_adamw(struct backend *be, const struct op_adamw *op);
void cpu_sgd(struct backend *be, const struct op_sgd *op);

#endif
