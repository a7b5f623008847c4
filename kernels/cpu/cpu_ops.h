/*
 * kernels/cpu/cpu_ops.h - declarations that all operations other than matmuls share.
 *
 * kernels/local.mk builds the files of these operations once with the flags of the whole
 * program ("generic") and once for each instruction set, with CPU_VARIANT defined.  Their
 * public names are made by CPU_OP, so that the variants do not clash; everything else in
 * them is static.  cpu_ops.c chooses by the instruction set of the backend.
 */
#ifndef KERNELS_CPU_CPU_OPS_H
#define KERNELS_CPU_CPU_OPS_H

#include "base/size.h"
#include "kernels/cpu/cpu_backend.h"

#ifndef CPU_VARIANT
#define CPU_VARIANT generic
#endif

#define CPU_JOIN_NOW(name, variant) cpu_##name##_##variant
#define CPU_JOIN(name, variant)     CPU_JOIN_NOW(name, variant)
#define CPU_OP(name)                CPU_JOIN(name, CPU_VARIANT)

/* The variants of each operation that is built for every instruction set. */
#define CPU_VARIANT_OF(name, variant) \
    void cpu_##name##_##variant(struct backend *be, const struct op_##name *op);
#define CPU_VARIANTS_ONCE(name)
#define CPU_VARIANTS_EACH_ISA(name) \
    CPU_VARIANT_OF(name, generic)   \
    CPU_VARIANT_OF(name, avx2)      \
    CPU_VARIANT_OF(name, avx512)
#define CPU_VARIANTS(name, tensors, cpu, ...) CPU_VARIANTS_##cpu(name)
OPERATIONS(CPU_VARIANTS)

/* Elements of one task: 64 KiB of fp32, a few microseconds of work. */
enum { CPU_TASK_ELEMENTS = 1 << 14 };

/* Rows of one task, for an operation over rows of `cols` elements. */
static inline size_t cpu_task_rows(size_t cols)
{
    return cols && cols < CPU_TASK_ELEMENTS ? CPU_TASK_ELEMENTS / cols : 1;
}

/* Address of a row; NULL for an absent tensor. */
static inline void *cpu_row(struct tensor x, size_t row)
{
    size_t bytes = x.format == FORMAT_FP16 || x.format == FORMAT_BF16 ? 2 : 4;

    return x.data ? (char *)x.data + row * x.stride * bytes : NULL;
}

/* The same elements as one row, if there are no gaps between the rows. */
static inline struct tensor cpu_flat(struct tensor x)
{
    if (x.stride != x.cols)
        return x;
    x.cols = x.stride = x.rows * x.cols;
    x.rows = 1;
    return x;
}

#endif
