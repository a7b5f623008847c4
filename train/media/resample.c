/*
 * train/media/resample.c - a polyphase filter.  With both rates divided by their greatest
 * common divisor, output q n + i is the sum over j of input q o + j - w times weight (i, j):
 * `to` n phases, every `from` o inputs.
 */
#include "config.h"

#include "train/media/resample.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/size.h"

/* the defaults of torchaudio.functional.resample */
#define CROSSINGS 6
#define ROLLOFF   0.99

struct filter {
    size_t from, to; /* rates, without a common divisor */
    size_t width;    /* w */
    double base;     /* cut-off frequency, in units of the common divisor */
    size_t phases;   /* that are computed */
    size_t taps;     /* weights of a phase that are not 0, at most */
    size_t *starts;  /* first j of each phase */
    float *weights;  /* (phases, taps) */
};

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b > 0) {
        uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

uint64_t resample_count(uint64_t count, uint32_t from, uint32_t to)
{
    uint32_t divisor = common_divisor(from, to);
    uint64_t product;

    if (__builtin_mul_overflow(count, (uint64_t)(to / divisor), &product))
        return UINT64_MAX;
    from /= divisor;
    return product / from + (product % from != 0);
}

/* Weight j of phase i.  Values are rounded to float where torchaudio rounds them: weights of
 * rates with a small common divisor depend on it. */
static float weight(const struct filter *filter, size_t i, size_t j)
{
    float from = (float)filter->from, to = (float)filter->to;
    float offset = ((float)j - (float)filter->width) / from;
    float t = -(float)i / to + offset, window, sinc;

    t *= (float)filter->base;
    t = fminf(fmaxf(t, -CROSSINGS), CROSSINGS);
    window = cosf(t * (float)M_PI / CROSSINGS / 2);
    t *= (float)M_PI;
    sinc = t == 0 ? 1 : sinf(t) / t;
    return sinc * (window * window * (float)(filter->base / (double)filter->from));
}

/* The window of phase i is not 0 for j from about w + o (i / n - 6 / base), for twice the
 * distance; what rounding moves across an end is 0 as well. */
static void fill_phase(struct filter *filter, size_t i)
{
    double reach = CROSSINGS * (double)filter->from / filter->base;
    double middle =
        (double)filter->width + (double)filter->from * (double)i / (double)filter->to;
    size_t start = (size_t)fmax(ceil(middle - reach), 0);

    filter->starts[i] = start;
    for (size_t k = 0; k < filter->taps; k++)
        filter->weights[i * filter->taps + k] = weight(filter, i, start + k);
}

static struct filter filter_new(uint32_t from, uint32_t to, uint64_t out_count)
{
    uint32_t divisor = common_divisor(from, to);
    struct filter filter = { .from = from / divisor, .to = to / divisor };

    filter.base = (double)size_min(filter.from, filter.to) * ROLLOFF;
    filter.width = (size_t)ceil(CROSSINGS * (double)filter.from / filter.base);
    filter.taps = (size_t)(2 * CROSSINGS * (double)filter.from / filter.base) + 1;
    filter.phases = size_min(filter.to, out_count);
    filter.starts = memory_resize(NULL, filter.phases, sizeof(*filter.starts));
    filter.weights =
        memory_resize(NULL, filter.phases * filter.taps, sizeof(*filter.weights));
    for (size_t i = 0; i < filter.phases; i++)
        fill_phase(&filter, i);
    return filter;
}

static void filter_clear(struct filter *filter)
{
    free(filter->starts);
    free(filter->weights);
}

static double dot(const float *a, const float *b, size_t count)
{
    double sums[4] = { 0 };
    size_t i = 0;

    for (; i + 4 <= count; i += 4)
        for (size_t j = 0; j < 4; j++)
            sums[j] += (double)a[i + j] * (double)b[i + j];
    for (; i < count; i++)
        sums[0] += (double)a[i] * (double)b[i];
    return sums[0] + sums[1] + (sums[2] + sums[3]);
}

/* Samples before the first and after the last are 0. */
static float output_at(const struct filter *filter, const struct audio *in, size_t q,
                       size_t i)
{
    size_t first = q * filter->from + filter->starts[i], skip = 0, taps = filter->taps;
    const float *weights = filter->weights + i * taps;

    if (first < filter->width) {
        skip = filter->width - first;
        first = filter->width;
    }
    first -= filter->width;
    if (skip >= taps || first >= in->count)
        return 0;
    return (float)dot(in->samples + first, weights + skip,
                      size_min(taps - skip, in->count - first));
}

static bool copy(const struct audio *in, struct audio *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out->samples[i] = in->samples[i];
    return true;
}

bool resample(const struct audio *in, uint32_t rate, struct audio *out, struct error *err)
{
    uint64_t count = resample_count(in->count, in->rate, rate);
    struct filter filter;
    size_t bytes;

    if (count > SIZE_MAX || !size_mul((size_t)count, sizeof(float), &bytes) ||
        !(out->samples = malloc(bytes > 0 ? bytes : 1)))
        return error_set(err, ERROR_MEMORY,
                         "not enough memory for %.0f s of sound at %u samples per second",
                         (double)in->count / in->rate, rate);
    out->count = (size_t)count;
    out->rate = rate;
    if (rate == in->rate)
        return copy(in, out, out->count);
    filter = filter_new(in->rate, rate, count);
    for (size_t k = 0; k < out->count; k++)
        out->samples[k] = output_at(&filter, in, k / filter.to, k % filter.to);
    filter_clear(&filter);
    return true;
}
