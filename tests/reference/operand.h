/*
 * tests/reference/operand.h - matrices to try an operation on, and machines to try it
 * with.
 *
 * An operand is a tensor in memory of its own with a few numbers before it and between
 * its rows, which no operation may touch, and the same numbers in double.
 */
#ifndef TESTS_REFERENCE_OPERAND_H
#define TESTS_REFERENCE_OPERAND_H

#include "kernels/backend.h"

struct operand {
    struct tensor tensor;
    double *real; /* contiguous; exactly what the tensor held when made or read */
    size_t numbers, bytes;
    unsigned char *block, *initial;
};

/* Normal numbers times `scale`, rounded to the format. */
struct operand operand_random(enum format format, size_t rows, size_t cols, double scale,
                              uint64_t seed);
/* All numbers the same. */
struct operand operand_filled(enum format format, size_t rows, size_t cols, double value);
/* The same, but each row begins on a multiple of 64 numbers, whatever the columns. */
struct operand operand_padded(enum format format, size_t rows, size_t cols, double value);
/* Take over what is in `real` (and round it). */
void operand_write(struct operand *operand);
void operand_read(struct operand *operand);
void operand_clear(struct operand *operand);

/* A result and what it has to be: half an epsilon of its format of the number itself, and
 * `units` epsilons of fp32 of the largest number, or of `least` if that is more. */
struct outcome {
    struct operand *operand;
    const double *wanted;
    double units, least;
};

/*
 * What the tests of an operation run on.  Which: the program is linked with one of
 *   machines_cpu.c    the CPU with 1, 2, 3 and 7 threads, and with lesser instruction
 * sets machines_cuda.c   each GPU there is; those of tests/emulation, or real ones
 */
enum { MACHINES_MAX = 8 };
struct machines {
    struct backend *backends[MACHINES_MAX];
    size_t count;
    size_t alike; /* the first so many give the same bits */
    bool slow;    /* emulated: leave out what takes millions of numbers */
};

/* Group set-up and tear-down of cmocka; *state is the machines. */
int machines_open(void **state);
int machines_close(void **state);

/* What comes next is for this one: a GPU has to be the current one when it is told to
 * work. */
void machine_enter(struct backend *be);
/* Does it multiply in 8 bits, whatever the shape?  (A GPU only some:
 * test_cuda_matmul.c.) */
bool machine_has_fp8(struct backend *be);
/* Shapes of attention that cuDNN has been asked for, and has. */
size_t machine_cudnn_plans(struct backend *be);

/* Memory that the host and all machines read and write: for whatever an operation points
 * at. */
void *machines_memory(size_t bytes);
void machines_memory_free(void *block); /* NULL is allowed */
/* Do they do better with rows on multiples of 16 bytes?  Then some operands have such. */
bool machines_like_alignment(void);

/*
 * Run it on every machine, each time with the outcomes as they were before: all near what
 * is wanted, the same bits on machines that are alike, nothing else touched.
 */
typedef void operation(struct backend *be, const void *op);
void machines_try(struct machines *machines, operation *run, const void *op,
                  const struct outcome *outcomes, size_t count);
/* Run it on one and wait until it is done. */
void machine_run(struct backend *be, operation *run, const void *op);

/* static void run_NAME(struct backend *be, const void *op) */
#define OPERATION(name)                                        \
    static void run_##name(struct backend *be, const void *op) \
    {                                                          \
        be->ops->name(be, op);                                 \
    }

#endif
