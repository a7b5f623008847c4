/* tests/unit/unit_sound.h - sounds that tests and the generators of tests/golden/ make. */
#ifndef TESTS_UNIT_SOUND_H
#define TESTS_UNIT_SOUND_H

#include <math.h>
#include <string.h>

#include "base/arena.h"

/* The high bits of a linear congruential generator, from -height to height. */
static inline float *unit_noise(size_t count, double height)
{
    float *out = memory_resize(NULL, count + 1, sizeof(*out));
    uint32_t state = 1;

    for (size_t i = 0; i < count; i++) {
        state = state * 1664525 + 1013904223;
        out[i] = (float)((int32_t)state / 2147483648.0 * height);
    }
    return out;
}

/* A tone that rises from 50 Hz by 600 Hz per second, at 16 kHz. */
static inline float *unit_sweep(size_t count, double height)
{
    float *out = memory_resize(NULL, count + 1, sizeof(*out));

    for (size_t i = 0; i < count; i++) {
        double t = (double)i / 16000;

        out[i] = (float)(height * sin(2 * M_PI * (50 * t + 300 * t * t)));
    }
    return out;
}

static inline float *unit_impulse(size_t count, double height)
{
    float *out = memory_alloc((count + 1) * sizeof(*out));

    out[count / 2] = (float)height;
    return out;
}

/* By its name in golden files. */
static inline float *unit_sound(const char *name, size_t count, double height)
{
    if (strcmp(name, "noise") == 0)
        return unit_noise(count, height);
    return strcmp(name, "sweep") == 0 ? unit_sweep(count, height)
                                      : unit_impulse(count, height);
}

#endif
