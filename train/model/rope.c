/* train/model/rope.c - frequencies of the rotary embedding, and their cosines and sines. */
#include "config.h"

#include "train/model/rope.h"

#include <math.h>

/*
 * Llama 3: wavelengths above one bound are stretched by `factor`, those below another are
 * left alone, between them it goes over smoothly.
 */
static double scale_llama3(const struct rope *rope, double f)
{
    double waves = rope->original_max_positions * f / (2 * M_PI); /* in the old context */
    double smooth = (waves - rope->low_freq_factor) /
                    (rope->high_freq_factor - rope->low_freq_factor);

    if (waves < rope->low_freq_factor)
        return f / rope->factor;
    if (waves > rope->high_freq_factor)
        return f;
    return (1 - smooth) * f / rope->factor + smooth * f;
}

double rope_frequency(const struct rope *rope, size_t head_size, size_t i)
{
    double f = pow(rope->theta, -2.0 * (double)i / (double)head_size);

    switch (rope->kind) {
    case ROPE_LINEAR:
        return f / rope->factor;
    case ROPE_LLAMA3:
        return scale_llama3(rope, f);
    case ROPE_DEFAULT:
        break;
    }
    return f;
}

void rope_fill(const struct rope *rope, size_t head_size, float *table, size_t rows)
{
    size_t half = head_size / 2;

    for (size_t i = 0; i < half; i++) {
        double f = rope_frequency(rope, head_size, i);

        for (size_t p = 0; p < rows; p++) {
            table[p * head_size + i] = (float)cos((double)p * f);
            table[p * head_size + half + i] = (float)sin((double)p * f);
        }
    }
}
