/*
 * tests/reference/double_ops.h - the operations of backend_double; private to its files.
 */
#ifndef TESTS_REFERENCE_DOUBLE_OPS_H
#define TESTS_REFERENCE_DOUBLE_OPS_H

#include "base/arena.h"
#include "tests/reference/backend_double.h"

struct double_block;

struct double_backend {
    struct backend base;
    struct double_block *blocks;
    struct arena *operands; /* copies of the operands of one operation */
    double loss;            /* double_take_loss */
    double preference;      /* double_take_preference */
    double balance;         /* double_take_balance */
};

static inline struct double_backend *double_of(struct backend *be)
{
    return (struct double_backend *)be;
}

/* Each operation that kernels/operations.h marks DOUBLE. */
#define DOUBLE_DECLARE_NO_DOUBLE(name)
#define DOUBLE_DECLARE_DOUBLE(name) \
    void double_##name(struct backend *be, const struct op_##name *op);
#define DOUBLE_DECLARE(name, tensors, cpu, cuda, reference, watch) \
    DOUBLE_DECLARE_##reference(name)
OPERATIONS(DOUBLE_DECLARE)

#endif
