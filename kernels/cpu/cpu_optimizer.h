/* kernels/cpu/cpu_optimizer.h - what updates of weights share: how they are stored, with
 * random bits if they are rounded stochastically. */
#ifndef KERNELS_CPU_CPU_OPTIMIZER_H
#define KERNELS_CPU_CPU_OPTIMIZER_H

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_random.h"
#include "kernels/cpu/cpu_vector.h"

/* Weights, and how they are stored. */
struct target {
    struct tensor w, copy;
    bool stochastic;
    struct random_key key;
    uint64_t base; /* index of the first element's draw */
};

static inline struct target target_of(struct tensor w, struct tensor copy)
{
    return (struct target) { .w = cpu_flat(w), .copy = cpu_flat(copy) };
}

static inline void target_rounds(struct target *target, uint64_t seed, int64_t step,
                                 uint64_t first)
{
    target->stochastic = target->w.format != FORMAT_FP32;
    target->key = (struct random_key) { seed, RANDOM_ROUNDING, (uint32_t)step };
    target->base = first;
}

/* -1, 0 or 1; NaN stays. */
CPU_INLINE vec vec_sign(vec x)
{
    const vec zero = vec_all(0), one = vec_all(1);

    return vec_select(x > zero, one, vec_select(x < zero, -one, x));
}

/* `draws`, if given, belong to elements i onwards. */
CPU_INLINE void target_store(const struct target *target, size_t i, size_t count, vec w,
                             const uint32_t *draws)
{
    uvec draw;

    if (target->copy.data)
        vec_store(target->copy.data, target->copy.format, i, count, w);
    if (draws) {
        memcpy(&draw, draws, sizeof(draw));
        w = vec_round_by(w, target->w.format, draw);
    }
    vec_store(target->w.data, target->w.format, i, count, w);
}

/* Update elements first .. last, with or without random bits. */
typedef void target_range(const void *context, size_t first, size_t last,
                          const uint32_t *draws);

/* Process a task in pieces whose random bits are drawn together. */
static inline void target_draw(const struct target *target, size_t task,
                               target_range *range, const void *context)
{
    size_t first = task * CPU_TASK_ELEMENTS;
    size_t last = size_min(first + CPU_TASK_ELEMENTS, target->w.cols);
    uint32_t bits[RANDOM_ROOM] = { 0 };

    while (first < last) {
        uint64_t at = target->base + first;
        size_t skip = at % 4, end = size_min(first + RANDOM_NUMBERS - skip, last);

        random_fill(&target->key, at / 4, bits);
        range(context, first, end, bits + skip);
        first = end;
    }
}

#endif
