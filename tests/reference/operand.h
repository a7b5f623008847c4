/*
 * tests/reference/operand.h - matrices to test an operation with, and machines to run it
 * on.
 * An operand is a tensor in separate memory with a few elements before it and between its
 * rows, which no operation may touch, and the same values in double.
 */
#ifndef TESTS_REFERENCE_OPERAND_H
#define TESTS_REFERENCE_OPERAND_H

#include "kernels/backend.h"

struct operand {
    struct tensor tensor;
    double *real; /* contiguous; exactly the tensor's values when created or read */
    size_t numbers, bytes;
    unsigned char *block, *initial;
};

/* Normal values times `scale`, rounded to the format. */
struct operand operand_random(enum format format, size_t rows, size_t cols, double scale,
                              uint64_t seed);
/* All elements are equal. */
struct operand operand_filled(enum format format, size_t rows, size_t cols, double value);
/* The same, but each row starts on a multiple of 64 elements, whatever the columns. */
struct operand operand_padded(enum format format, size_t rows, size_t cols, double value);
/* Copy `real` to the tensor (and round it). */
void operand_write(struct operand *operand);
void operand_read(struct operand *operand);
void operand_clear(struct operand *operand);

/* A result and its tolerance: half an epsilon of its format of the value itself, and
 * `units` epsilons of fp32 of the largest value, or of `least` if that is larger. */
struct outcome {
    struct operand *operand;
    const double *wanted;
    double units, least;
};

/*
 * The machines that the tests of an operation run on, depending on the linked file:
 *   machines_cpu.c    the CPU with 1, 2, 3 and 7 threads, and with smaller instruction
 *                     sets
 *   machines_cuda.c   every GPU: those of tests/emulation, or real ones
 */
enum { MACHINES_MAX = 8 };
struct machines {
    struct backend *backends[MACHINES_MAX];
    size_t count;
    size_t alike; /* the first this many give identical bits */
    bool slow;    /* emulated: skip tests with millions of elements */
};

/* cmocka group setup and teardown; *state is the machines. */
int machines_open(void **state);
int machines_close(void **state);

/* Prepare to use this machine: a GPU has to be current when it receives work. */
void machine_enter(struct backend *be);
/* Return whether it multiplies in 8 bits for every shape.  (A GPU only for some:
 * test_cuda_matmul.c.) */
bool machine_has_fp8(struct backend *be);
/* Number of attention shapes that cuDNN was asked for and supports. */
size_t machine_cudnn_plans(struct backend *be);

/* Memory that the host and all machines can read and write, for pointers inside
 * operations. */
void *machines_memory(size_t bytes);
void machines_memory_free(void *block); /* NULL is allowed */
/* Return whether they are faster with rows on multiples of 16 bytes.  Some operands then
 * have such rows. */
bool machines_like_alignment(void);

/*
 * Run the operation on every machine, each time with fresh outcomes: all results must be
 * within tolerance, identical bits on machines that are alike, nothing else touched.
 */
typedef void operation(struct backend *be, const void *op);
void machines_try(struct machines *machines, operation *run, const void *op,
                  const struct outcome *outcomes, size_t count);
/* Run the operation on one machine and wait until it completes. */
void machine_run(struct backend *be, operation *run, const void *op);

/* static void run_NAME(struct backend *be, const void *op) */
#define OPERATION(name)                                        \
    static void run_##name(struct backend *be, const void *op) \
    {                                                          \
        be->ops->name(be, op);                                 \
    }

#endif
