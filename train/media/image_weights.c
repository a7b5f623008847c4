/*
 * train/media/image_weights.c - the weights of a resize, as Pillow (Resample.c) and torch
 * (UpSampleKernel.cpp) compute them: in double, in this order.
 */
#include "config.h"

#include "train/media/image_weights.h"

#include <math.h>
#include <stdlib.h>

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* Keys, "Cubic convolution interpolation for digital image processing", 1981, with a =
 * -0.5 */
static double bicubic(double x)
{
    const double a = -0.5;

    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2)
        return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

static double sinc(double x)
{
    if (x == 0)
        return 1;
    x *= M_PI;
    return sin(x) / x;
}

static double lanczos(double x)
{
    return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static const struct filter {
    double (*weight)(double x);
    double support;
} filters[IMAGE_FILTERS] = {
    [IMAGE_BILINEAR] = { bilinear, 1 },
    [IMAGE_BICUBIC] = { bicubic, 2 },
    [IMAGE_LANCZOS] = { lanczos, 3 },
};

struct range {
    double center;
    uint32_t first, taps;
};

static struct range range_of(uint32_t i, double scale, double support, uint32_t from)
{
    struct range r = { .center = (i + 0.5) * scale };
    int64_t low = (int64_t)(r.center - support + 0.5);
    int64_t high = (int64_t)(r.center + support + 0.5);

    low = low < 0 ? 0 : low;
    high = high > from ? from : high;
    r.first = (uint32_t)low;
    r.taps = high > low ? (uint32_t)(high - low) : 0;
    return r;
}

static void fill(double *out, const struct range *r, double inverse,
                 double (*weight)(double x))
{
    double sum = 0;

    for (uint32_t j = 0; j < r->taps; j++) {
        out[j] = weight(((double)j + r->first - r->center + 0.5) * inverse);
        sum += out[j];
    }
    for (uint32_t j = 0; sum != 0 && j < r->taps; j++)
        out[j] /= sum;
}

bool image_weights_init(struct image_weights *out, uint32_t from, uint32_t to,
                        enum image_filter filter, struct error *err)
{
    const struct filter *f = &filters[filter];
    double scale = (double)from / to, wider = scale > 1 ? scale : 1;
    double support = f->support * wider;
    size_t total = 0;

    *out = (struct image_weights) { .count = to };
    for (uint32_t i = 0; i < to; i++)
        total += range_of(i, scale, support, from).taps;
    out->first = malloc(to * sizeof(*out->first));
    out->taps = malloc(to * sizeof(*out->taps));
    out->start = malloc(to * sizeof(*out->start));
    out->real = malloc((total + 1) * sizeof(*out->real));
    if (!out->first || !out->taps || !out->start || !out->real) {
        image_weights_clear(out);
        return error_set(err, ERROR_MEMORY, "not enough memory for resizing an image");
    }
    total = 0;
    for (uint32_t i = 0; i < to; i++) {
        struct range r = range_of(i, scale, support, from);

        out->first[i] = r.first;
        out->taps[i] = r.taps;
        out->start[i] = total;
        fill(out->real + total, &r, 1 / wider, f->weight);
        total += r.taps;
    }
    return true;
}

static size_t total_of(const struct image_weights *w)
{
    return w->start[w->count - 1] + w->taps[w->count - 1];
}

/* Torch keeps weights in 16 bits: the most bits for which the largest of the axis fits. */
static unsigned bits_of(const struct image_weights *w, enum image_kernel kernel)
{
    double most = 0;
    unsigned bits = 0;

    if (kernel == IMAGE_PILLOW)
        return 22;
    for (size_t i = 0; i < total_of(w); i++)
        most = w->real[i] > most ? w->real[i] : most;
    while (bits < 22 && (int)(0.5 + most * (1 << (bits + 1))) < 1 << 15)
        bits++;
    return bits;
}

bool image_weights_fix(struct image_weights *w, enum image_kernel kernel,
                       struct error *err)
{
    size_t total = total_of(w);

    w->bits = bits_of(w, kernel);
    w->fixed = malloc((total + 1) * sizeof(*w->fixed));
    if (!w->fixed)
        return error_set(err, ERROR_MEMORY, "not enough memory for resizing an image");
    for (size_t i = 0; i < total; i++) {
        double value = w->real[i] * (1 << w->bits);

        w->fixed[i] = (int32_t)(value + (value < 0 ? -0.5 : 0.5));
    }
    return true;
}

void image_weights_clear(struct image_weights *w)
{
    free(w->first);
    free(w->taps);
    free(w->start);
    free(w->real);
    free(w->fixed);
    *w = (struct image_weights) { 0 };
}
