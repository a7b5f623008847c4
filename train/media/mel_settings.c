/* train/media/mel_settings.c - the table of families, the files of a model's folder, and the
 * lengths that follow. */
#include "config.h"

#include "train/media/mel_settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/media/audio.h"
#include "train/media/fourier.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)

/* ---- Families ---- */

/* The second convolution halves the frames, rounded up, and pooling halves these, rounded
 * down: transformers' _get_feat_extract_output_lengths of Qwen2AudioEncoder, and for frames
 * of all windows together _get_audio_token_length of AudioFlamingo3Processor. */
static size_t rows_halved(const struct mel_settings *settings, size_t samples)
{
    size_t frames = size_divide_up(mel_samples_used(settings, samples), settings->hop);

    return size_divide_up(frames, 2) / settings->pool;
}

/* Silence has rows, too. */
static size_t rows_whole(const struct mel_settings *settings, size_t samples)
{
    return mel_windows(settings, samples) *
           (mel_window_frames(settings) / 2 / settings->pool);
}

/* Phi4MultimodalFeatureExtractor._compute_audio_embed_size */
static size_t rows_compressed(const struct mel_settings *settings, size_t samples)
{
    return size_divide_up(mel_frames(settings, samples), settings->pool);
}

static const struct mel_family families[] = {
    { "audioflamingo3", MEL_WHISPER, MEL_SEPARATE, rows_halved },
    { "phi4_multimodal", MEL_PHI4, MEL_WHOLE, rows_compressed },
    { "phi4mm", MEL_PHI4, MEL_WHOLE, rows_compressed }, /* as it is published */
    { "qwen2_audio", MEL_WHISPER, MEL_FIRST, rows_halved },
    { "voxtral", MEL_WHISPER, MEL_JOINT, rows_whole },
};

const struct mel_family *mel_family_find(const char *model_type)
{
    for (size_t i = 0; i < TS_COUNT(families); i++)
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    return NULL;
}

/* ---- Files ---- */

/* An object of a file, and the name that errors give it. */
struct source {
    const json_t *json;
    const char *file;
    struct error *err;
};

static uint32_t read_size(const struct source *from, const char *key, int64_t missing,
                          int64_t min, int64_t max)
{
    int64_t value = json_get_int(from->json, key, missing, from->file, from->err);

    if (value < min || value > max) {
        error_set(from->err, ERROR_DATA, "%s: %s must be from %lld to %lld, not %lld",
                  from->file, key, (long long)min, (long long)max, (long long)value);
        return (uint32_t)min;
    }
    return (uint32_t)value;
}

/* The same with a second name of the key, which transformers' attribute_map accepts. */
static uint32_t read_size_of(const struct source *from, const char *key,
                             const char *other, int64_t missing)
{
    if (!json_object_get(from->json, key))
        key = other;
    return read_size(from, key, missing, 1, 1 << 20);
}

/* A setting that must have the value it usually has. */
static void check_real(const struct source *from, const char *key, double value)
{
    double is = json_get_real(from->json, key, value, from->file, from->err);

    if (!(is == value))
        error_set(from->err, ERROR_DATA, "%s: %s must be %g, not %g", from->file, key,
                  value, is);
}

static void check_text(const struct source *from, const char *key, const char *value)
{
    const char *text = json_get_string(from->json, key, value, from->file, from->err);

    if (strcmp(text, value) != 0)
        error_set(from->err, ERROR_DATA, "%s: %s must be %s, not %.64s", from->file, key,
                  value, text);
}

/* Defaults are those of WhisperFeatureExtractor. */
static void read_whisper(const struct source *from, struct mel_settings *out)
{
    uint32_t seconds = read_size(from, "chunk_length", 30, 1, 600);

    check_text(from, "feature_extractor_type", "WhisperFeatureExtractor");
    check_real(from, "dither", 0);
    out->n_fft = out->frame = read_size(from, "n_fft", 400, 4, 8192);
    out->window = seconds * out->rate;
    if (out->n_fft / 2 >= out->window || out->window % out->hop != 0)
        error_set(from->err, ERROR_DATA,
                  "%s: the %u s of chunk_length must be a multiple of hop_length, and "
                  "longer than n_fft",
                  from->file, seconds);
}

/* Defaults are those of Phi4MultimodalFeatureExtractor, which computes the same as the class
 * that is published with the model. */
static void read_phi4(const struct source *from, struct mel_settings *out)
{
    check_text(from, "feature_extractor_type",
               strcmp(out->family->model_type, "phi4mm") == 0
                   ? "Phi4MMAudioFeatureExtractor"
                   : "Phi4MultimodalFeatureExtractor");
    check_real(from, "preemphasis", 0.97);
    check_real(from, "mel_min_frequency", 0);
    check_real(from, "mel_max_frequency", 7690);
    check_real(from, "audio_downsample_rate", 1);
    check_real(from, "audio_feat_stride", 1);
    out->n_fft = read_size(from, "n_fft", 512, 4, 8192);
    out->frame = read_size(from, "win_length", 400, 2, out->n_fft);
    out->pool = read_size(from, "audio_compression_rate", 8, 1, 1024);
}

static void read_extractor(const struct source *from, struct mel_settings *out)
{
    check_text(from, "padding_side", "right");
    check_real(from, "padding_value", 0);
    out->rate = read_size(from, "sampling_rate", 16000, AUDIO_RATE_MIN, AUDIO_RATE_MAX);
    out->mels = read_size(from, "feature_size", 80, 1, 1024);
    out->hop = read_size(from, "hop_length", 160, 1, 8192);
    if (out->family->kind == MEL_PHI4)
        read_phi4(from, out);
    else
        read_whisper(from, out);
    if (!fourier_fits(out->n_fft))
        error_set(from->err, ERROR_DATA,
                  "%s: n_fft must be an even number with no prime factor above 5, not %u",
                  from->file, out->n_fft);
}

/* Only Audio Flamingo 3 has this limit; its processor's default. */
static void read_length(const struct source *from, struct mel_settings *out)
{
    uint32_t most = read_size(from, "max_audio_len", 600, 1, 86400);
    uint32_t seconds = out->window / out->rate;

    out->windows_max = most / seconds;
    if (out->windows_max == 0)
        error_set(from->err, ERROR_DATA,
                  "%s: max_audio_len must be at least the %u s of a window, not %u",
                  from->file, seconds, most);
}

/* Return NULL, without an error, if the folder has no such file. */
static json_t *read_file(const char *dir, const char *name, struct error *err)
{
    char *path = path_join(dir, name);
    json_t *json =
        file_exists(path) ? json_read_loose_file(path, FILE_BYTES_MAX, err) : NULL;

    if (json && !json_is_object(json)) {
        error_set(err, ERROR_DATA, "cannot read %s: expected a JSON object", path);
        json_decref(json);
        json = NULL;
    }
    free(path);
    return json;
}

/* transformers 5 saves the settings inside processor_config.json, which comes first. */
static void read_processor(const char *dir, struct mel_settings *out, struct error *err)
{
    json_t *whole = read_file(dir, "processor_config.json", err);
    json_t *own = read_file(dir, "preprocessor_config.json", err);
    const char *key =
        out->family->kind == MEL_PHI4 ? "audio_processor" : "feature_extractor";
    struct source from = { json_object_get(whole, key), "processor_config.json", err };

    if (!json_is_object(from.json))
        from = (struct source) { own, "preprocessor_config.json", err };
    if (!from.json)
        error_set(err, ERROR_DATA,
                  "cannot read sound: %s has no preprocessor_config.json, nor "
                  "%s in processor_config.json",
                  dir, key);
    else
        read_extractor(&from, out);
    if (!err->code && out->family->split == MEL_SEPARATE)
        read_length(&(struct source) { whole, "processor_config.json", err }, out);
    json_decref(whole);
    json_decref(own);
}

/* The encoder must have as many positions and features as the processor makes. */
static void check_positions(const struct source *from, struct mel_settings *out)
{
    uint32_t mels = read_size(from, "num_mel_bins", 128, 1, 1 << 20);
    uint32_t positions = read_size(from, "max_source_positions", 1500, 1, 1 << 20);
    uint32_t width = read_size_of(from, "hidden_size", "d_model", 1280);
    uint32_t inner = read_size_of(from, "intermediate_size", "encoder_ffn_dim", 5120);
    size_t frames = mel_window_frames(out);

    if (from->err->code)
        return;
    if (mels != out->mels || frames != 2 * (size_t)positions)
        error_set(from->err, ERROR_DATA,
                  "config.json: the encoder requires %u frames of %u features, but the "
                  "processor makes %zu of %u",
                  2 * positions, mels, frames, out->mels);
    out->pool = 2;
    if (out->family->split != MEL_JOINT)
        return;
    /* VoxtralForConditionalGeneration: rows of intermediate_size elements */
    out->pool = inner / width;
    if (out->pool == 0 || inner % width != 0 || positions % out->pool != 0)
        error_set(from->err, ERROR_DATA,
                  "config.json: %u positions of %u elements cannot be divided into rows "
                  "of %u",
                  positions, width, inner);
}

static void check_reduction(const struct source *from, const struct mel_settings *out)
{
    uint32_t mels = read_size(from, "input_size", 80, 1, 1 << 20);
    uint32_t pool = read_size(from, "time_reduction", 8, 1, 1 << 20);

    if (!from->err->code && (mels != out->mels || pool != out->pool))
        error_set(from->err, ERROR_DATA,
                  "config.json: the encoder makes one row of %u frames of %u features, "
                  "but the processor counts %zu of %u",
                  pool, mels, out->pool, out->mels);
}

static void read_config(const char *dir, struct mel_settings *out, struct error *err)
{
    json_t *whole = read_file(dir, "config.json", err);
    struct source from = { json_object_get(whole, "audio_config"), "config.json", err };

    if (strcmp(out->family->model_type, "phi4mm") == 0)
        from.json = json_object_get(json_object_get(whole, "audio_processor"), "config");
    if (!json_is_object(from.json))
        error_set(err, ERROR_DATA,
                  "cannot read sound: the config.json of %s has no "
                  "audio_config",
                  dir);
    else if (out->family->kind == MEL_PHI4)
        check_reduction(&from, out);
    else
        check_positions(&from, out);
    json_decref(whole);
}

bool mel_settings_read(const char *model_dir, const char *model_type,
                       struct mel_settings *out, struct error *err)
{
    struct error own = { 0 };

    *out = (struct mel_settings) { .family = mel_family_find(model_type) };
    if (!out->family)
        return error_set(err, ERROR_DATA, "models of type %s hear no sound here",
                         model_type);
    if (out->family->split == MEL_FIRST)
        out->windows_max = 1;
    read_processor(model_dir, out, &own);
    if (!own.code)
        read_config(model_dir, out, &own);
    return !own.code || error_set(err, own.code, "%s", own.text);
}

/* ---- Lengths ---- */

size_t mel_windows(const struct mel_settings *settings, size_t samples)
{
    size_t windows;

    if (settings->family->split == MEL_WHOLE)
        return 1;
    windows = samples / settings->window + (samples % settings->window != 0);
    if (settings->windows_max > 0)
        windows = size_min(windows, settings->windows_max);
    return windows > 0 ? windows : 1;
}

size_t mel_window_frames(const struct mel_settings *settings)
{
    return settings->window / settings->hop;
}

size_t mel_frames(const struct mel_settings *settings, size_t samples)
{
    if (settings->family->split != MEL_WHOLE)
        return mel_windows(settings, samples) * mel_window_frames(settings);
    return samples < settings->frame ? 0
                                     : (samples - settings->frame) / settings->hop + 1;
}

size_t mel_samples_used(const struct mel_settings *settings, size_t samples)
{
    return settings->windows_max == 0
               ? samples
               : size_min(samples, settings->windows_max * settings->window);
}

size_t mel_heard_frames(const struct mel_settings *settings, size_t samples,
                        size_t window)
{
    size_t used = mel_samples_used(settings, samples), from;

    if (settings->family->split == MEL_WHOLE)
        return window == 0 ? mel_frames(settings, samples) : 0;
    from = size_min(window * settings->window, used);
    return size_divide_up(size_min(used - from, settings->window), settings->hop);
}

size_t mel_rows(const struct mel_settings *settings, size_t samples)
{
    return samples == 0 ? 0 : settings->family->rows(settings, samples);
}
