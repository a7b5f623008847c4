/* train/media/log_mel.c - frames, filters and logarithms, two frames at a time. */
#include "config.h"

#include "train/media/log_mel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "train/media/fourier.h"

struct filter { /* a triangle: weights of adjacent frequencies */
    size_t first, count;
    const double *weights;
};

/* What kinds of features differ in. */
struct recipe {
    double (*window)(size_t j, size_t frame);
    double (*mel_of)(double hz), (*hz_of)(double mel);
    double hz_max;
    bool sides_are_straight_in_mel; /* those of triangles; otherwise in Hz */
    bool areas_are_equal;           /* of triangles; otherwise their heights are 1 */
    bool frames_are_centered;
    bool is_emphasized; /* and scaled to integers of 16 bits */
    double floor;       /* of a sum */
    double (*logarithm)(double);
    bool is_clipped;
};

struct log_mel {
    struct mel_settings settings;
    const struct recipe *recipe;
    struct fourier *fourier;
    double *window; /* (frame) */
    struct filter *filters;
    double *weights; /* of all filters */
};

/* A sound that silence extends to `length` samples. */
struct clip {
    const float *samples;
    size_t count, length, frames;
};

/* ---- Constants ---- */

static double hann(size_t j, size_t frame)
{
    return 0.5 - 0.5 * cos(2 * M_PI * (double)j / (double)frame);
}

/* symmetric */
static double hamming(size_t j, size_t frame)
{
    return 0.54 - 0.46 * cos(2 * M_PI * (double)j / (double)(frame - 1));
}

/* linear below 1000 Hz, logarithmic above */
static double slaney_mel(double hz)
{
    return hz < 1000 ? 3 * hz / 200 : 15 + log(hz / 1000) * (27 / log(6.4));
}

static double slaney_hz(double mel)
{
    return mel < 15 ? 200 * mel / 3 : 1000 * exp(log(6.4) / 27 * (mel - 15));
}

static double kaldi_mel(double hz)
{
    return 1127 * log(1 + hz / 700);
}

static double kaldi_hz(double mel)
{
    return 700 * (exp(mel / 1127) - 1);
}

static const struct recipe recipes[MEL_KINDS] = {
    [MEL_WHISPER] = { .window = hann,
                      .mel_of = slaney_mel,
                      .hz_of = slaney_hz,
                      .hz_max = 8000,
                      .areas_are_equal = true,
                      .frames_are_centered = true,
                      .floor = 1e-10,
                      .logarithm = log10,
                      .is_clipped = true },
    [MEL_PHI4] = { .window = hamming,
                   .mel_of = kaldi_mel,
                   .hz_of = kaldi_hz,
                   .hz_max = 7690,
                   .sides_are_straight_in_mel = true,
                   .is_emphasized = true,
                   .floor = 1,
                   .logarithm = log },
};

/* Edge `i` of the triangles, in Hz: filter m rises from edge m to m + 1 and falls to
 * m + 2. */
static double edge(const struct log_mel *mel, size_t i)
{
    const struct recipe *recipe = mel->recipe;
    double most = recipe->mel_of(recipe->hz_max);

    return recipe->hz_of(most * (double)i / (double)(mel->settings.mels + 1));
}

static struct filter filter_new(const struct log_mel *mel, size_t m, double *weights)
{
    const struct mel_settings *settings = &mel->settings;
    bool in_mel = mel->recipe->sides_are_straight_in_mel;
    double low = edge(mel, m), top = edge(mel, m + 1), high = edge(mel, m + 2);
    double scale = mel->recipe->areas_are_equal ? 2 / (high - low) : 1;
    double step = (double)(settings->rate / 2) / (double)(settings->n_fft / 2);
    struct filter filter = { .weights = weights };

    if (in_mel) {
        low = mel->recipe->mel_of(low);
        top = mel->recipe->mel_of(top);
        high = mel->recipe->mel_of(high);
    }
    for (size_t k = 0; k <= settings->n_fft / 2; k++) {
        double at = step * (double)k, height;

        at = in_mel ? mel->recipe->mel_of(at) : at;
        height = fmin((at - low) / (top - low), (high - at) / (high - top));
        if (height <= 0)
            continue;
        if (filter.count == 0)
            filter.first = k;
        weights[filter.count++] = height * scale;
    }
    return filter;
}

static void add_filters(struct log_mel *mel)
{
    const struct mel_settings *settings = &mel->settings;
    size_t used = 0;

    mel->filters = memory_resize(NULL, settings->mels, sizeof(*mel->filters));
    /* at any frequency, two triangles are not 0, or three at an edge that is rounded */
    mel->weights =
        memory_resize(NULL, 3 * (settings->n_fft / 2 + 1), sizeof(*mel->weights));
    for (size_t m = 0; m < settings->mels; m++) {
        mel->filters[m] = filter_new(mel, m, mel->weights + used);
        used += mel->filters[m].count;
    }
}

struct log_mel *log_mel_new(const struct mel_settings *settings)
{
    struct log_mel *mel = memory_alloc(sizeof(*mel));

    mel->settings = *settings;
    mel->recipe = &recipes[settings->family->kind];
    mel->fourier = fourier_new(settings->n_fft);
    mel->window = memory_resize(NULL, settings->frame, sizeof(*mel->window));
    for (size_t j = 0; j < settings->frame; j++)
        mel->window[j] = mel->recipe->window(j, settings->frame);
    add_filters(mel);
    return mel;
}

void log_mel_free(struct log_mel *mel)
{
    if (!mel)
        return;
    fourier_free(mel->fourier);
    free(mel->window);
    free(mel->filters);
    free(mel->weights);
    free(mel);
}

/* ---- Frames ---- */

/* A clip is reflected at both ends, if frame t is centered at its sample t hop. */
static ptrdiff_t frame_start(const struct log_mel *mel, size_t t)
{
    size_t before = mel->recipe->frames_are_centered ? mel->settings.frame / 2 : 0;

    return (ptrdiff_t)(t * mel->settings.hop) - (ptrdiff_t)before;
}

/* What is reflected at the end comes after the start of its frame. */
static bool is_silent(const struct log_mel *mel, const struct clip *clip, size_t t)
{
    return frame_start(mel, t) >= (ptrdiff_t)clip->count;
}

static double sample_at(const struct clip *clip, ptrdiff_t i)
{
    ptrdiff_t length = (ptrdiff_t)clip->length;

    if (i < 0)
        i = -i;
    if (i >= length)
        i = 2 * length - 2 - i;
    return i < (ptrdiff_t)clip->count ? (double)clip->samples[i] : 0;
}

/* In float, as torch computes it; the sample before the first is the first. */
static double emphasized(float sample, float before)
{
    return (double)((sample - 0.97F * before) * 32768);
}

static void frame_emphasize(const struct log_mel *mel, const float *samples, size_t lane,
                            fourier_lanes *x)
{
    for (size_t j = 0; j < mel->settings.frame; j++)
        x[j][lane] = emphasized(samples[j], samples[j > 0 ? j - 1 : 0]) * mel->window[j];
    for (size_t j = mel->settings.frame; j < mel->settings.n_fft; j++)
        x[j][lane] = 0;
}

static void frame_fill(const struct log_mel *mel, const struct clip *clip, size_t t,
                       size_t lane, fourier_lanes *x)
{
    ptrdiff_t start = frame_start(mel, t), n = (ptrdiff_t)mel->settings.frame;

    if (mel->recipe->is_emphasized)
        frame_emphasize(mel, clip->samples + start, lane, x);
    else if (start >= 0 && start + n <= (ptrdiff_t)clip->count)
        for (ptrdiff_t j = 0; j < n; j++)
            x[j][lane] = (double)clip->samples[start + j] * mel->window[j];
    else
        for (ptrdiff_t j = 0; j < n; j++)
            x[j][lane] = sample_at(clip, start + j) * mel->window[j];
}

/* ---- Features ---- */

static void filters_apply(const struct log_mel *mel, const fourier_lanes *power,
                          size_t lanes, float *out)
{
    const struct recipe *recipe = mel->recipe;
    size_t mels = mel->settings.mels;

    for (size_t m = 0; m < mels; m++) {
        const struct filter *filter = &mel->filters[m];
        const fourier_lanes *at = power + filter->first;
        fourier_lanes sum = { 0 };

        for (size_t k = 0; k < filter->count; k++)
            sum += at[k] * filter->weights[k];
        for (size_t lane = 0; lane < lanes; lane++)
            out[lane * mels + m] =
                (float)recipe->logarithm(fmax(sum[lane], recipe->floor));
    }
}

/* What a clip requires: a pair of frames, their power, scratch memory. */
struct work {
    fourier_lanes *x, *power, *scratch;
};

static void clip_logarithms(const struct log_mel *mel, const struct clip *clip,
                            const struct work *work, float *out)
{
    float silence = (float)mel->recipe->logarithm(mel->recipe->floor);
    size_t frames = clip->frames, mels = mel->settings.mels;

    for (size_t t = 0, lanes; t < frames; t += lanes) {
        lanes = size_min(FOURIER_LANES, frames - t);
        if (is_silent(mel, clip, t) && is_silent(mel, clip, t + lanes - 1)) {
            for (size_t i = 0; i < lanes * mels; i++)
                out[t * mels + i] = silence;
            continue;
        }
        for (size_t lane = 0; lane < FOURIER_LANES; lane++)
            frame_fill(mel, clip, t + size_min(lane, lanes - 1), lane, work->x);
        fourier_power(mel->fourier, work->x, work->power, work->scratch);
        filters_apply(mel, work->power, lanes, out + t * mels);
    }
}

static void clip_fill(const struct log_mel *mel, const struct clip *clip,
                      const struct work *work, float *out)
{
    size_t count = clip->frames * mel->settings.mels;
    float top = -INFINITY;

    clip_logarithms(mel, clip, work, out);
    if (!mel->recipe->is_clipped)
        return;
    for (size_t i = 0; i < count; i++)
        top = fmaxf(top, out[i]);
    for (size_t i = 0; i < count; i++)
        out[i] = (fmaxf(out[i], top - 8) + 4) / 4;
}

/* Features of each window, or of all windows together. */
static void fill_windows(const struct log_mel *mel, const float *samples, size_t count,
                         const struct work *work, float *out)
{
    const struct mel_settings *settings = &mel->settings;
    size_t windows = mel_windows(settings, count), window = settings->window;
    size_t joint = settings->family->split == MEL_JOINT ? windows : 1;
    size_t frames = joint * mel_window_frames(settings);

    for (size_t i = 0; i < windows; i += joint, out += frames * settings->mels) {
        size_t from = size_min(i * window, count), length = joint * window;
        struct clip clip = { samples + from, size_min(count - from, length), length,
                             frames };

        clip_fill(mel, &clip, work, out);
    }
}

void log_mel_fill(const struct log_mel *mel, const float *samples, size_t count,
                  float *out)
{
    const struct mel_settings *settings = &mel->settings;
    size_t n = settings->n_fft, power = n / 2 + 1;
    size_t scratch = fourier_scratch(mel->fourier);
    struct work work = { .x = memory_resize(NULL, n + power + scratch,
                                            sizeof(fourier_lanes)) };
    struct clip whole = { samples, count, count, mel_frames(settings, count) };

    work.power = work.x + n;
    work.scratch = work.power + power;
    if (settings->family->split == MEL_WHOLE)
        clip_fill(mel, &whole, &work, out);
    else
        fill_windows(mel, samples, count, &work, out);
    free(work.x);
}
