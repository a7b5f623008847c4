/* tests/unit/unit_media_file.h - WAV and PNG files whose content is hashed from a name, as in
 * tests/golden/tower_files.py. */
#ifndef TESTS_UNIT_UNIT_MEDIA_FILE_H
#define TESTS_UNIT_UNIT_MEDIA_FILE_H

#include <math.h>
#include <zlib.h>

#include "base/path.h"
#include "tests/unit/unit.h"
#include "tests/unit/unit_hashed_model.h"

/* Whether this build reads the file of an item: samples, or (width, height). */
static inline bool unit_media_supported(const json_t *items, size_t item)
{
    const bool sound = json_array_size(json_array_get(items, item)) == 1;

#ifdef HAVE_SNDFILE
    if (sound)
        return true;
#endif
#ifdef HAVE_PNG
    if (!sound)
        return true;
#endif
    return false;
}

static inline char *unit_media_put(const char *dir, const char *file,
                                   const struct text *data)
{
    char *path = path_join(dir, file);
    struct error err = { 0 };

    if (!file_replace(path, data->data, data->len, 0600, &err))
        fail_msg("%s", err.text);
    return path;
}

/* 16 bits, 16 kHz, mono.  Return the path, malloc'ed. */
static inline char *unit_media_sound(const char *dir, const char *name, size_t samples)
{
    const uint32_t sizes[2] = { (uint32_t)(36 + 2 * samples), (uint32_t)(2 * samples) };
    struct text out;
    char *path;

    text_init(&out, 0);
    text_adds(&out, "RIFF");
    text_add(&out, &sizes[0], 4);
    text_add(&out,
             "WAVEfmt \x10\0\0\0\1\0\1\0"
             "\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0"
             "data",
             32);
    text_add(&out, &sizes[1], 4);
    for (size_t i = 0; i < samples; i++) {
        const int16_t sample = (int16_t)nearbyint(hashed(name, i) * 8000);

        text_add(&out, &sample, 2);
    }
    path = unit_media_put(dir, "item.wav", &out);
    text_clear(&out);
    return path;
}

static inline void unit_media_number(struct text *out, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        text_addc(out, (char)(value >> shift & 255));
}

static inline void unit_media_chunk(struct text *out, const char *type, const void *data,
                                    size_t len)
{
    uLong crc = crc32(0, (const Bytef *)type, 4);

    unit_media_number(out, (uint32_t)len);
    text_add(out, type, 4);
    text_add(out, data, len);
    if (len > 0)
        crc = crc32(crc, data, (uInt)len);
    unit_media_number(out, (uint32_t)crc);
}

/* RGB: squares of 5 x 5 equal pixels. */
static inline void unit_media_pixels(const char *name, size_t width, size_t height,
                                     struct text *out)
{
    for (size_t y = 0; y < height; y++) {
        text_addc(out, 0); /* no filter */
        for (size_t i = 0; i < 3 * width; i++) {
            const size_t at = (y / 5 * (width / 5 + 1) + i / 3 / 5) * 3 + i % 3;

            text_addc(out, (char)(int)nearbyint((hashed(name, at) + 1) * 127));
        }
    }
}

static inline char *unit_media_image(const char *dir, const char *name, size_t width,
                                     size_t height)
{
    struct text out, pixels, header;
    uLongf len;
    Bytef *packed;
    char *path;

    text_init(&out, 0);
    text_init(&pixels, 0);
    text_init(&header, 0);
    unit_media_pixels(name, width, height, &pixels);
    len = compressBound((uLong)pixels.len);
    packed = memory_alloc(len);
    assert_int_equal(
        compress(packed, &len, (const Bytef *)pixels.data, (uLong)pixels.len), Z_OK);
    unit_media_number(&header, (uint32_t)width);
    unit_media_number(&header, (uint32_t)height);
    text_add(&header, "\x08\x02\0\0\0", 5);
    text_add(&out, "\x89PNG\r\n\x1a\n", 8);
    unit_media_chunk(&out, "IHDR", header.data, header.len);
    unit_media_chunk(&out, "IDAT", packed, len);
    unit_media_chunk(&out, "IEND", "", 0);
    path = unit_media_put(dir, "item.png", &out);
    free(packed);
    text_clear(&out);
    text_clear(&pixels);
    text_clear(&header);
    return path;
}

#endif
