/* tests/fuzz/fuzz_audio.c - sound files: one is refused with a reason, or has finite
 * samples, as many as its probe says; features of them are finite. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "tests/unit/unit_leaks.h"
#include "train/media/audio.h"
#include "train/media/log_mel.h"
#include "train/media/resample.h"

/* Sounds of fuzzers are short; a header may say otherwise. */
static const struct audio_limits limits = { .seconds = 60 };
static const struct audio_limits cut = { .seconds = 0.25, .may_exceed = true };

static void check_features(const struct audio *audio)
{
    struct mel_settings settings = { .family = mel_family_find("audioflamingo3"),
                                     .rate = 16000,
                                     .mels = 20,
                                     .frame = 80,
                                     .n_fft = 80,
                                     .hop = 160,
                                     .window = 1600,
                                     .windows_max = 3,
                                     .pool = 2 };
    struct log_mel *mel = log_mel_new(&settings);
    size_t count = mel_frames(&settings, audio->count) * settings.mels;
    float *out = memory_resize(NULL, count, sizeof(*out));

    log_mel_fill(mel, audio->samples, audio->count, out);
    for (size_t i = 0; i < count; i++)
        FUZZ_HOLDS(isfinite(out[i]));
    free(out);
    log_mel_free(mel);
}

static void check_sound(const struct audio *audio)
{
    struct audio slow = { 0 };
    struct error err = { 0 };

    FUZZ_HOLDS(audio->count > 0 && audio->count <= AUDIO_SAMPLES_MAX);
    FUZZ_HOLDS(audio->rate >= AUDIO_RATE_MIN && audio->rate <= AUDIO_RATE_MAX);
    for (size_t i = 0; i < audio->count; i++)
        FUZZ_HOLDS(fabsf(audio->samples[i]) <= (float)AUDIO_HEIGHT_MAX);
    if (audio->count > 100000)
        return;
    FUZZ_HOLDS(resample(audio, 16000, &slow, &err));
    FUZZ_HOLDS(slow.count == resample_count(audio->count, audio->rate, 16000));
    check_features(&slow);
    audio_clear(&slow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct audio audio = { 0 };
    struct audio_probe probe;
    struct error err = { 0 }, why = { 0 };
    bool is_read = audio_read_bytes(data, len, "a", &limits, &audio, &err);
    bool is_probed = audio_probe_bytes(data, len, "a", &limits, &probe, &why);

    FUZZ_HOLDS(is_read || err.text[0]);
    FUZZ_HOLDS(is_probed || why.text[0]);
    if (is_read)
        check_sound(&audio);
    if (is_read && is_probed)
        FUZZ_HOLDS(probe.frames == audio.count && probe.rate == audio.rate);
    audio_clear(&audio);
    error_clear(&err);
    if (audio_read_bytes(data, len, "a", &cut, &audio, &err))
        check_sound(&audio);
    audio_clear(&audio);
    return 0;
}
