/*
 * train/media/fourier.c - Stockham's transform with factors 4, 2, 3 and 5 (Van Loan,
 * "Computational Frameworks for the Fast Fourier Transform", 1992, 1.7), of half the length:
 * even elements are the real part, odd ones the imaginary part.
 */
#include "config.h"

#include "train/media/fourier.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/size.h"

enum { FACTORS_MAX = 16, RADIX_MAX = 5 };

struct wave { /* a complex number of each lane */
    fourier_lanes re, im;
};

struct turn { /* e^(i angle) */
    double re, im;
};

struct fourier {
    size_t half; /* length of the complex transform */
    size_t factors[FACTORS_MAX], count;
    struct turn *turns; /* e^(-2 pi i k / length), k < length */
};

/* ---- Complex numbers ---- */

static struct wave add(struct wave a, struct wave b)
{
    return (struct wave) { a.re + b.re, a.im + b.im };
}

static struct wave subtract(struct wave a, struct wave b)
{
    return (struct wave) { a.re - b.re, a.im - b.im };
}

static struct wave scale(struct wave a, double by)
{
    return (struct wave) { a.re * by, a.im * by };
}

static struct wave times_minus_i(struct wave a)
{
    return (struct wave) { a.im, -a.re };
}

static struct wave rotate(struct wave a, struct turn by)
{
    return (struct wave) { a.re * by.re - a.im * by.im, a.re * by.im + a.im * by.re };
}

/* ---- Transforms of the factors, in place ---- */

static void transform_2(struct wave *x)
{
    struct wave sum = add(x[0], x[1]);

    x[1] = subtract(x[0], x[1]);
    x[0] = sum;
}

static void transform_3(struct wave *x)
{
    struct wave sum = add(x[1], x[2]);
    struct wave middle = subtract(x[0], scale(sum, 0.5));
    struct wave side = times_minus_i(scale(subtract(x[1], x[2]), sqrt(0.75)));

    x[0] = add(x[0], sum);
    x[1] = add(middle, side);
    x[2] = subtract(middle, side);
}

static void transform_4(struct wave *x)
{
    struct wave even = add(x[0], x[2]), even_rest = subtract(x[0], x[2]);
    struct wave odd = add(x[1], x[3]), odd_rest = times_minus_i(subtract(x[1], x[3]));

    x[0] = add(even, odd);
    x[1] = add(even_rest, odd_rest);
    x[2] = subtract(even, odd);
    x[3] = subtract(even_rest, odd_rest);
}

static void transform_5(struct wave *x)
{
    const double cos1 = 0.30901699437494742410, cos2 = -0.80901699437494742410;
    const double sin1 = 0.95105651629515357212, sin2 = 0.58778525229247312917;
    struct wave sum1 = add(x[1], x[4]), rest1 = subtract(x[1], x[4]);
    struct wave sum2 = add(x[2], x[3]), rest2 = subtract(x[2], x[3]);
    struct wave middle1 = add(x[0], add(scale(sum1, cos1), scale(sum2, cos2)));
    struct wave middle2 = add(x[0], add(scale(sum1, cos2), scale(sum2, cos1)));
    struct wave side1 = times_minus_i(add(scale(rest1, sin1), scale(rest2, sin2)));
    struct wave side2 = times_minus_i(subtract(scale(rest1, sin2), scale(rest2, sin1)));

    x[0] = add(x[0], add(sum1, sum2));
    x[1] = add(middle1, side1);
    x[2] = add(middle2, side2);
    x[3] = subtract(middle2, side2);
    x[4] = subtract(middle1, side1);
}

/* ---- The transform ---- */

/* One factor: `length` is what is left to transform, `stride` the product of the factors
 * before it. */
struct pass {
    const struct fourier *fourier;
    size_t radix, length, stride;
    const struct wave *in;
    struct wave *out;
};

/* Inlined with a constant radix, so that the elements stay in registers. */
static inline __attribute__((always_inline)) void
pass_run(const struct pass *pass, size_t radix, void (*transform)(struct wave *x))
{
    const struct wave *in = pass->in;
    struct wave *out = pass->out;
    size_t stride = pass->stride, parts = pass->length / radix;
    /* turns are those of 2 half; a step of this length is so many of them */
    size_t step = 2 * pass->fourier->half / pass->length;

    for (size_t p = 0; p < parts; p++)
        for (size_t q = 0; q < stride; q++) {
            struct wave x[RADIX_MAX];

            for (size_t k = 0; k < radix; k++)
                x[k] = in[q + stride * (p + parts * k)];
            transform(x);
            out[q + stride * radix * p] = x[0];
            for (size_t k = 1; k < radix; k++)
                out[q + stride * (radix * p + k)] =
                    rotate(x[k], pass->fourier->turns[p * k * step]);
        }
}

static void pass_choose(const struct pass *pass)
{
    switch (pass->radix) {
    case 2:
        pass_run(pass, 2, transform_2);
        break;
    case 3:
        pass_run(pass, 3, transform_3);
        break;
    case 4:
        pass_run(pass, 4, transform_4);
        break;
    default:
        pass_run(pass, 5, transform_5);
    }
}

/* Transform x; the result is in x or in `other`, and returned. */
static struct wave *transform(const struct fourier *fourier, struct wave *x,
                              struct wave *other)
{
    struct pass pass = { .fourier = fourier, .length = fourier->half, .stride = 1 };

    for (size_t i = 0; i < fourier->count; i++) {
        struct wave *swap = x;

        pass.radix = fourier->factors[i];
        pass.in = x;
        pass.out = other;
        pass_choose(&pass);
        pass.length /= pass.radix;
        pass.stride *= pass.radix;
        x = other;
        other = swap;
    }
    return x;
}

/* With Z the transform of x[2j] + i x[2j+1]: of the even elements it has
 * (Z[k] + conj Z[-k]) / 2, of the odd ones -i (Z[k] - conj Z[-k]) / 2. */
void fourier_power(const struct fourier *fourier, const fourier_lanes *x,
                   fourier_lanes *power, fourier_lanes *scratch)
{
    size_t half = fourier->half;
    struct wave *z = (struct wave *)scratch;

    for (size_t j = 0; j < half; j++)
        z[j] = (struct wave) { x[2 * j], x[2 * j + 1] };
    z = transform(fourier, z, z + half);
    for (size_t k = 0; k <= half; k++) {
        struct wave a = z[k == half ? 0 : k], b = z[k == 0 ? 0 : half - k], sum;

        b.im = -b.im;
        sum = add(add(a, b), rotate(times_minus_i(subtract(a, b)), fourier->turns[k]));
        power[k] = 0.25 * (sum.re * sum.re + sum.im * sum.im);
    }
}

size_t fourier_scratch(const struct fourier *fourier)
{
    return 2 * fourier->half * sizeof(struct wave) / sizeof(fourier_lanes);
}

/* ---- Lengths ---- */

/* Write the factors; return their count, or 0. */
static size_t factorize(size_t length, size_t factors[FACTORS_MAX])
{
    static const size_t radices[] = { 4, 5, 3, 2 };
    size_t count = 0;

    for (size_t i = 0; i < TS_COUNT(radices); i++)
        for (; length % radices[i] == 0; length /= radices[i])
            factors[count++] = radices[i];
    return length == 1 ? count : 0;
}

bool fourier_fits(size_t length)
{
    size_t factors[FACTORS_MAX];

    return length >= 4 && length <= FOURIER_MAX && length % 2 == 0 &&
           factorize(length / 2, factors) > 0;
}

struct fourier *fourier_new(size_t length)
{
    struct fourier *fourier = memory_alloc(sizeof(*fourier));

    fourier->half = length / 2;
    fourier->count = factorize(fourier->half, fourier->factors);
    fourier->turns = memory_resize(NULL, length, sizeof(*fourier->turns));
    for (size_t k = 0; k < length; k++) {
        double angle = -2 * M_PI * (double)k / (double)length;

        fourier->turns[k] = (struct turn) { cos(angle), sin(angle) };
    }
    return fourier;
}

void fourier_free(struct fourier *fourier)
{
    if (!fourier)
        return;
    free(fourier->turns);
    free(fourier);
}
