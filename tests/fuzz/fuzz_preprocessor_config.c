/*
 * tests/fuzz/fuzz_preprocessor_config.c - the files of a model that say how images and
 * sounds are prepared: they are rejected, or images of any size are rejected or prepared
 * within the limits, and sounds have features.  The first line is the model's type, the
 * second config.json, the rest preprocessor_config.json.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "train/media/image_prepare.h"
#include "train/media/log_mel.h"
#include "train/media/patches.h"

enum { FILLED_MOST = 1 << 20 };

static const struct image_limits limits[] = { { 768 * 768, 1024, false },
                                              { 1 << 30, 1, true } };
static const struct image_size sizes[] = {
    { 1, 1 },       { 17, 9 },      { 640, 480 }, { 1, 4000 },
    { 1 << 20, 1 }, { 3, 1 << 20 }, { 9000, 31 }, { 13000, 13000 },
};

static void fill(const struct image_settings *s, struct image_size from, size_t rows)
{
    struct error err = { 0 };
    struct image image;
    float *values;

    FUZZ_HOLDS(image_init(&image, from, IMAGE_RGBA, &err));
    memset(image.pixels, 77, (size_t)from.width * from.height * 4);
    if (image_prepare(s, &image, &err)) {
        values = memory_alloc(rows * patches_width(s) * sizeof(*values));
        patches_fill(s, &image, values);
        free(values);
    } else {
        FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
    }
    image_clear(&image);
}

static void prepare(const struct image_settings *s)
{
    for (size_t i = 0; i < TS_COUNT(sizes); i++) {
        struct error err = { 0 };
        struct image_size to;
        int32_t grid[3];
        size_t rows, patches;

        if (!image_prepared_size(s, sizes[i], &to, grid, &rows, &err)) {
            FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
            continue;
        }
        patches = (size_t)grid[1] * (size_t)grid[2];
        FUZZ_HOLDS((size_t)to.width * to.height <= IMAGE_PIXELS_MAX);
        FUZZ_HOLDS(patches > 0 &&
                   patches * s->patch * s->patch == (size_t)to.width * to.height);
        if (i < 3 && patches * patches_width(s) < FILLED_MOST)
            fill(s, sizes[i], patches);
    }
}

static void hear(const struct mel_settings *s)
{
    static const float sound[3000] = { 1, -1, [1000] = 0.5F };
    struct log_mel *mel;
    size_t count;
    float *out;

    for (size_t samples = 0; samples < SIZE_MAX / 2; samples = 3 * samples + 1)
        FUZZ_HOLDS(mel_samples_used(s, samples) <= samples &&
                   mel_heard_frames(s, samples, 0) <= mel_frames(s, samples) &&
                   mel_rows(s, samples) <= mel_frames(s, samples));
    count = mel_frames(s, TS_COUNT(sound)) * s->mels;
    if (count > FILLED_MOST)
        return;
    mel = log_mel_new(s);
    out = memory_alloc(count * sizeof(*out));
    log_mel_fill(mel, sound, TS_COUNT(sound), out);
    free(out);
    log_mel_free(mel);
}

static void read_sound(const char *type)
{
    struct mel_settings settings;
    struct error err = { 0 };

    if (mel_settings_read(fuzz_dir(), type, &settings, &err))
        hear(&settings);
    else
        FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_part rest = { (const char *)data, len };
    char *type = fuzz_word(fuzz_take(&rest, '\n'));
    struct fuzz_part config = fuzz_take(&rest, '\n');
    struct image_settings settings;

    fuzz_file("config.json", config.data, config.len);
    fuzz_file("preprocessor_config.json", rest.data, rest.len);
    for (size_t i = 0; i < TS_COUNT(limits); i++) {
        struct error err = { 0 };

        if (image_settings_read(fuzz_dir(), type, &limits[i], &settings, &err))
            prepare(&settings);
        else
            FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
    }
    read_sound(type);
    free(type);
    return 0;
}
