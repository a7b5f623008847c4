/* train/media/mel_sound.c - decodes as much as is used, changes the rate, and cuts. */
#include "config.h"

#include "train/media/mel_sound.h"

#include "train/media/resample.h"

static struct audio_limits limits_of(const struct mel_settings *settings)
{
    double seconds = (double)settings->windows_max * settings->window / settings->rate;

    if (settings->windows_max == 0)
        return (struct audio_limits) { .seconds = MEL_SECONDS_MAX };
    return (struct audio_limits) { .seconds = seconds, .may_exceed = true };
}

static bool check_rows(const struct mel_settings *settings, const char *path,
                       size_t samples, struct error *err)
{
    return mel_rows(settings, samples) > 0 ||
           error_set(err, ERROR_DATA,
                     "cannot use %s: %.3g s of sound are too short for one position",
                     path, (double)samples / settings->rate);
}

static bool count_samples(const struct mel_settings *settings,
                          const struct audio_probe *probe, const char *path,
                          size_t *samples, struct error *err)
{
    uint64_t count = resample_count(probe->frames, probe->rate, settings->rate);

    *samples = mel_samples_used(settings, count < SIZE_MAX ? (size_t)count : SIZE_MAX);
    return check_rows(settings, path, *samples, err);
}

bool mel_sound_probe(const struct mel_settings *settings, const char *path,
                     size_t *samples, struct error *err)
{
    struct audio_limits limits = limits_of(settings);
    struct audio_probe probe;

    return audio_probe(path, &limits, &probe, err) &&
           count_samples(settings, &probe, path, samples, err);
}

bool mel_sound_probe_bytes(const struct mel_settings *settings, const void *data,
                           size_t len, const char *name, size_t *samples,
                           struct error *err)
{
    struct audio_limits limits = limits_of(settings);
    struct audio_probe probe;

    return audio_probe_bytes(data, len, name, &limits, &probe, err) &&
           count_samples(settings, &probe, name, samples, err);
}

bool mel_sound_verify(const struct mel_settings *settings, const char *path,
                      struct error *err)
{
    struct audio_limits limits = limits_of(settings);

    return audio_verify(path, &limits, err);
}

bool mel_sound_verify_bytes(const struct mel_settings *settings, const void *data,
                            size_t len, const char *name, struct error *err)
{
    struct audio_limits limits = limits_of(settings);

    return audio_verify_bytes(data, len, name, &limits, err);
}

bool mel_sound_read(const struct mel_settings *settings, const char *path,
                    struct audio *out, struct error *err)
{
    struct audio_limits limits = limits_of(settings);
    struct audio audio = { 0 };
    bool ok = audio_read(path, &limits, &audio, err) &&
              resample(&audio, settings->rate, out, err);

    audio_clear(&audio);
    if (!ok)
        return false;
    out->count = mel_samples_used(settings, out->count);
    ok = check_rows(settings, path, out->count, err);
    if (!ok)
        audio_clear(out);
    return ok;
}
