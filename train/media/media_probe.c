/* train/media/media_probe.c - rows of features from the size of an image or the length of a
 * sound. */
#include "config.h"

#include "train/media/media_probe.h"

#include "train/media/image_file.h"
#include "train/media/image_prepare.h"
#include "train/media/mel_sound.h"

static bool read_mel(const struct media_family *family, const struct plan *plan,
                     struct media_settings *out, struct error *err)
{
    if (!mel_settings_read(plan->model_name_or_path, family->model_type, &out->mel, err))
        return false;
    return !plan->audio_sampling_rate ||
           plan->audio_sampling_rate == (int64_t)out->mel.rate ||
           error_set(err, ERROR_JOB,
                     "audio_sampling_rate is %lld, and the model hears %u samples per "
                     "second; remove the key",
                     (long long)plan->audio_sampling_rate, out->mel.rate);
}

bool media_settings_read(const struct media_family *family, const struct plan *plan,
                         struct media_settings *out, struct error *err)
{
    const struct image_limits limits = { .pixels_max = plan->image_max_pixels,
                                         .pixels_min = plan->image_min_pixels,
                                         .crops = plan->crop_to_patches };

    *out = (struct media_settings) { .family = family };
    return family->kind == MEDIA_AUDIO
               ? read_mel(family, plan, out, err)
               : image_settings_read(plan->model_name_or_path, family->model_type,
                                     &limits, &out->image, err);
}

static bool fill_image(const struct media_settings *settings, struct image_size size,
                       const char *name, struct media_probe *out, struct error *err)
{
    struct error cause = { 0 };
    struct image_size prepared;
    size_t rows;

    *out = (struct media_probe) { 0 };
    if (!image_prepared_size(&settings->image, size, &prepared, out->grid, &rows, &cause))
        return error_set(err, cause.code, "%s: %s", name, cause.text);
    if (rows == 0 || rows > UINT32_MAX)
        return error_set(err, ERROR_DATA, "%s: the image is too small for the model",
                         name);
    out->rows = (uint32_t)rows;
    return true;
}

static bool fill_sound(const struct media_settings *settings, size_t samples,
                       struct media_probe *out)
{
    *out = (struct media_probe) { .rows = (uint32_t)mel_rows(&settings->mel, samples) };
    return true;
}

bool media_probe(const struct media_settings *settings, const char *path,
                 struct media_probe *out, struct error *err)
{
    struct image_size size;
    size_t samples;

    if (settings->family->kind == MEDIA_AUDIO)
        return mel_sound_probe(&settings->mel, path, &samples, err) &&
               fill_sound(settings, samples, out);
    return image_size(path, &size, err) && fill_image(settings, size, path, out, err);
}

bool media_probe_bytes(const struct media_settings *settings,
                       const struct media_bytes *bytes, struct media_probe *out,
                       struct error *err)
{
    const struct image_bytes image = { bytes->data, bytes->len, bytes->name };
    struct image_size size;
    size_t samples;

    if (settings->family->kind == MEDIA_AUDIO)
        return mel_sound_probe_bytes(&settings->mel, bytes->data, bytes->len, bytes->name,
                                     &samples, err) &&
               fill_sound(settings, samples, out);
    return image_bytes_size(&image, &size, err) &&
           fill_image(settings, size, bytes->name, out, err);
}

static bool is_large(struct image_size size, uint64_t pixels_max)
{
    return (uint64_t)size.width * size.height > pixels_max;
}

bool media_verify(const struct media_settings *settings, const char *path,
                  uint64_t pixels_max, bool *large, struct error *err)
{
    struct image image = { 0 };
    struct image_size size;
    bool ok;

    *large = false;
    if (settings->family->kind == MEDIA_AUDIO)
        return mel_sound_verify(&settings->mel, path, err);
    ok = image_size(path, &size, err);
    *large = ok && is_large(size, pixels_max);
    ok = ok && (*large || image_read(path, &image, err));
    image_clear(&image);
    return ok;
}

bool media_verify_bytes(const struct media_settings *settings,
                        const struct media_bytes *bytes, uint64_t pixels_max, bool *large,
                        struct error *err)
{
    const struct image_bytes encoded = { bytes->data, bytes->len, bytes->name };
    struct image image = { 0 };
    struct image_size size;
    bool ok;

    *large = false;
    if (settings->family->kind == MEDIA_AUDIO)
        return mel_sound_verify_bytes(&settings->mel, bytes->data, bytes->len,
                                      bytes->name, err);
    ok = image_bytes_size(&encoded, &size, err);
    *large = ok && is_large(size, pixels_max);
    ok = ok && (*large || image_decode(&encoded, &image, err));
    image_clear(&image);
    return ok;
}
