/* kernels/cpu/cpu_turn.h - the rotation of a part of a row, of two halves or of adjacent
 * elements. */
#ifndef KERNELS_CPU_CPU_TURN_H
#define KERNELS_CPU_CPU_TURN_H

#include "kernels/cpu/cpu_vector.h"

/* What turns: elements at .. at + 2 * half of a row.  table: of its position, the cosines,
 * then the sines; sign -1 turns back. */
struct turn {
    void *row;
    enum format format;
    size_t at, half;
    const float *table;
    float sign;
};

CPU_INLINE void turn_halves(const struct turn *t)
{
    for (size_t i = 0; i < t->half; i += LANES) {
        size_t count = vec_count(i, t->half);
        vec cosine = vec_load(t->table, FORMAT_FP32, i, count);
        vec sine = vec_load(t->table, FORMAT_FP32, t->half + i, count) * t->sign;
        vec left = vec_load(t->row, t->format, t->at + i, count);
        vec right = vec_load(t->row, t->format, t->at + t->half + i, count);

        vec_store(t->row, t->format, t->at + i, count, left * cosine - right * sine);
        vec_store(t->row, t->format, t->at + t->half + i, count,
                  right * cosine + left * sine);
    }
}

CPU_INLINE void turn_pairs(const struct turn *t)
{
    for (size_t i = 0; i < t->half; i += LANES) {
        size_t count = vec_count(i, t->half), at = t->at + 2 * i;
        size_t lower = vec_count(0, 2 * count), upper = 2 * count - lower;
        vec cosine = vec_load(t->table, FORMAT_FP32, i, count);
        vec sine = vec_load(t->table, FORMAT_FP32, t->half + i, count) * t->sign;
        vec a = vec_load(t->row, t->format, at, lower);
        vec b = upper ? vec_load(t->row, t->format, at + LANES, upper) : (vec) {};
        vec even = __builtin_shufflevector(a, b, LANES_EVEN);
        vec odd = __builtin_shufflevector(a, b, LANES_ODD);

        a = even * cosine - odd * sine;
        b = odd * cosine + even * sine;
        vec_store(t->row, t->format, at, lower,
                  __builtin_shufflevector(a, b, LANES_LOWER));
        if (upper)
            vec_store(t->row, t->format, at + LANES, upper,
                      __builtin_shufflevector(a, b, LANES_UPPER));
    }
}

CPU_INLINE void turn_row(const struct turn *t, bool interleaved)
{
    if (interleaved)
        turn_pairs(t);
    else
        turn_halves(t);
}

#endif
