/*
 * tests/reference/double_ops.h - the operations of backend_double, for its own files
 * alone.
 */
#ifndef TESTS_REFERENCE_DOUBLE_OPS_H
#define TESTS_REFERENCE_DOUBLE_OPS_H

#include "base/arena.h"
#include "tests/reference/backend_double.h"

struct double_block;

struct double_backend {
    struct backend base;
    struct double_block *blocks;
    struct arena *desk; /* copies of the operands of one operation */
    double loss;        /* double_take_loss */
    double preference;  /* double_take_preference */
};

static inline struct double_backend *double_of(struct backend *be)
{
    return (struct double_backend *)be;
}

/* X(name): void double_NAME(struct backend *be, const struct op_NAME *op) */
#define DOUBLE_OPS(X)      \
    X(matmul)              \
    X(sum_rows)            \
    X(embedding)           \
    X(embedding_backward)  \
    X(rmsnorm)             \
    X(rmsnorm_backward)    \
    X(layernorm)           \
    X(layernorm_backward)  \
    X(headnorm)            \
    X(headnorm_backward)   \
    X(rope)                \
    X(attention)           \
    X(attention_backward)  \
    X(activation)          \
    X(activation_backward) \
    X(swiglu)              \
    X(swiglu_backward)     \
    X(classifier)          \
    X(distill)             \
    X(preference)          \
    X(add)                 \
    X(convert)             \
    X(zero)                \
    X(dropout)

#define DOUBLE_DECLARE(name) \
    void double_##name(struct backend *be, const struct op_##name *op);
DOUBLE_OPS(DOUBLE_DECLARE)
#undef DOUBLE_DECLARE

#endif
