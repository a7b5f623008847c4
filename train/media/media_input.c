/* train/media/media_input.c - decodes and prepares a file. */
#include "config.h"

#include "train/media/media_input.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/media/image_file.h"
#include "train/media/image_prepare.h"
#include "train/media/log_mel.h"
#include "train/media/mel_sound.h"
#include "train/media/patches.h"

struct media_reader {
    enum media_kind kind;
    struct image_settings image;
    struct mel_settings mel;
    struct log_mel *log_mel;
};

void media_input_clear(struct media_input *input)
{
    free(input->values);
    free(input->heard);
    *input = (struct media_input) { 0 };
}

struct media_reader *media_reader_open(const struct media_reader_options *options,
                                       struct error *err)
{
    struct media_reader *reader = memory_alloc(sizeof(*reader));
    bool ok;

    reader->kind = options->kind;
    if (options->kind == MEDIA_AUDIO)
        ok =
            mel_settings_read(options->model_dir, options->model_type, &reader->mel, err);
    else
        ok = image_settings_read(options->model_dir, options->model_type,
                                 &options->limits, &reader->image, err);
    if (!ok) {
        free(reader);
        return NULL;
    }
    if (options->kind == MEDIA_AUDIO)
        reader->log_mel = log_mel_new(&reader->mel);
    return reader;
}

void media_reader_close(struct media_reader *reader)
{
    if (!reader)
        return;
    log_mel_free(reader->log_mel);
    free(reader);
}

/* Allocate the values of an input whose rows and columns are set. */
static bool allocate(struct media_input *out, const char *path, struct error *err)
{
    out->values = calloc(out->rows * out->columns, sizeof(*out->values));
    return out->values ||
           error_set(err, ERROR_SYSTEM, "no memory for the %zu x %zu values of %s",
                     out->rows, out->columns, path);
}

static bool read_sound(const struct media_reader *reader, const char *path,
                       struct media_input *out, struct error *err)
{
    const struct mel_settings *mel = &reader->mel;
    struct audio sound = { 0 };
    bool ok;

    if (!mel_sound_read(mel, path, &sound, err))
        return false;
    out->windows = mel_windows(mel, sound.count);
    out->rows = mel_frames(mel, sound.count);
    out->columns = mel->mels;
    out->heard = memory_resize(NULL, out->windows, sizeof(*out->heard));
    for (size_t i = 0; i < out->windows; i++)
        out->heard[i] = mel_heard_frames(mel, sound.count, i);
    ok = allocate(out, path, err);
    if (ok)
        log_mel_fill(reader->log_mel, sound.samples, sound.count, out->values);
    audio_clear(&sound);
    return ok;
}

static bool read_patches(const struct image_settings *settings, const char *path,
                         struct image *image, struct media_input *out, struct error *err)
{
    struct image_size size;
    int32_t grid[3];
    size_t rows;

    if (!image_prepared_size(settings, image->size, &size, grid, &rows, err) ||
        !image_prepare(settings, image, err))
        return false;
    out->height = (size_t)grid[1];
    out->width = (size_t)grid[2];
    out->windows = (size_t)grid[0];
    if (settings->sizing == IMAGE_TILED) { /* the grid is that of the tiles' canvas */
        out->height = out->width = settings->size.width / settings->patch;
        out->windows = size.height / settings->size.height;
    }
    out->rows = out->windows * out->height * out->width;
    out->columns = patches_width(settings);
    if (!allocate(out, path, err))
        return false;
    patches_fill(settings, image, out->values);
    return true;
}

static bool read_image(const struct media_reader *reader, const char *path,
                       struct media_input *out, struct error *err)
{
    struct image image = { 0 };
    bool ok = image_read(path, &image, err) &&
              read_patches(&reader->image, path, &image, out, err);

    image_clear(&image);
    return ok;
}

bool media_reader_read(struct media_reader *reader, const char *path,
                       struct media_input *out, struct error *err)
{
    struct error why = { 0 };
    bool ok;

    *out = (struct media_input) { 0 };
    ok = reader->kind == MEDIA_AUDIO ? read_sound(reader, path, out, &why)
                                     : read_image(reader, path, out, &why);
    if (ok)
        return true;
    media_input_clear(out);
    /* what prepares an image does not know its file */
    if (strstr(why.text, path))
        return error_set(err, why.code, "%s", why.text);
    return error_set(err, why.code, "%s: %s", path, why.text);
}
