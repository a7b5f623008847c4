/* tests/unit/unit_attention_trial.h - compares a case of attention with the reference. */
#ifndef TESTS_UNIT_UNIT_ATTENTION_TRIAL_H
#define TESTS_UNIT_UNIT_ATTENTION_TRIAL_H

#include "tests/unit/unit_attention.h"

/* The sum in a score is up to twice as long as in other heads, and so is its error. */
static inline double length_factor(const struct shape *shape)
{
    return shape->head_size > 256 ? 2 : 1;
}

/* Return whether weights are rounded to the operands' format.  The CPU does so for
 * bf16. */
static inline bool rounds(const struct machines *machines, enum format format)
{
    return format == FORMAT_BF16 ||
           (format == FORMAT_FP16 && machines->backends[0]->ops->kind == DEVICE_CUDA);
}

/* Rounded weights: half an epsilon of each. */
static inline double forward_units(const struct machines *machines, enum format format)
{
    return rounds(machines, format) ? 16 + format_info(format)->epsilon / 2 * 0x1p23 : 16;
}

/* Dropout scales up the weights it keeps. */
static inline void try_forward(struct machines *machines, const struct shape *shape,
                               struct extra extra)
{
    struct attention_case c;
    double longer = length_factor(shape);

    case_open_with(&c, shape, extra);
    machines_try(machines, run_attention, &c.op,
                 (struct outcome[]) { { &c.out, c.real[0],
                                        longer * forward_units(machines, shape->format),
                                        extra.p > 0 ? 1 / (1 - (double)extra.p) : 0 },
                                      { &c.lse, c.real[1], longer * 8, 1 } },
                 2);
    case_close(&c);
}

/* Relative to the terms summed: delta comes from `out` rounded to its format, half an
 * epsilon; where weights and their gradients are rounded, another half. */
static inline double backward_units(const struct machines *machines, enum format format)
{
    double half = format_info(format)->epsilon / 2 * 0x1p23;

    return format == FORMAT_FP32 ? 32 : rounds(machines, format) ? 2 * half : 32 + half;
}

static inline double largest(const double *x, size_t numbers)
{
    double most = 0;

    for (size_t i = 0; i < numbers; i++)
        most = fmax(most, x[i]);
    return most;
}

static inline void try_backward(struct machines *machines, const struct shape *shape,
                                struct extra extra)
{
    struct attention_case c;
    struct op_attention_backward op;
    double units = length_factor(shape) * backward_units(machines, shape->format);

    case_open_with(&c, shape, extra);
    memcpy(c.out.real, c.real[0], c.out.numbers * sizeof(double));
    memcpy(c.lse.real, c.real[1], c.lse.numbers * sizeof(double));
    operand_write(&c.out);
    operand_write(&c.lse);
    op = case_backward(&c);
    machines_try(machines, run_attention_backward, &op,
                 (struct outcome[]) {
                     { &c.dq, c.real[2], units, largest(c.real[5], c.dq.numbers) },
                     { &c.dk, c.real[3], units, largest(c.real[6], c.dk.numbers) },
                     { &c.dv, c.real[4], units, 1 },
                     { &c.delta, NULL, 0, 0 } },
                 4);
    case_close(&c);
}

typedef void trial(struct machines *machines, const struct shape *shape,
                   struct extra extra);

#endif
