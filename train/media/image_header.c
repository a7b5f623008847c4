/* train/media/image_header.c - the format and the size of an image, from the header of
 * its file.  The daemon, which is not linked with libraries that decode, checks
 * datasets with this. */
#include "config.h"

#include "train/media/image_format.h"

#include <string.h>

#include "base/file.h"
#include "base/size.h"

/* Where the bytes of a JPEG begin that say its size: after thumbnails and color
 * profiles. */
#define HEADER_BYTES ((size_t)256 << 10)

const char *const image_format_names[IMAGE_FORMATS] = {
    [IMAGE_JPEG] = "JPEG",
    [IMAGE_PNG] = "PNG",
    [IMAGE_WEBP] = "WebP",
};

/* The first bytes of files that data sets have. */
static const struct magic {
    size_t at;
    const char *bytes;
    size_t len;
    const char *name;
    enum image_format format; /* IMAGE_FORMATS: not read */
} magics[] = {
    { 0, "\xff\xd8\xff", 3, "JPEG", IMAGE_JPEG },
    { 0, "\x89PNG\r\n\x1a\n", 8, "PNG", IMAGE_PNG },
    { 8, "WEBP", 4, "WebP", IMAGE_WEBP },
    { 0, "GIF8", 4, "GIF", IMAGE_FORMATS },
    { 0, "BM", 2, "BMP", IMAGE_FORMATS },
    { 0, "II*\0", 4, "TIFF", IMAGE_FORMATS },
    { 0, "MM\0*", 4, "TIFF", IMAGE_FORMATS },
    { 4, "ftyp", 4, "AVIF or HEIC", IMAGE_FORMATS },
    { 0, "\0\0\0\x0cjP  ", 8, "JPEG 2000", IMAGE_FORMATS },
    { 0, "<svg", 4, "SVG", IMAGE_FORMATS },
    { 0, "%PDF", 4, "PDF", IMAGE_FORMATS },
};

bool image_format_find(const struct image_bytes *b, enum image_format *out,
                       struct error *err)
{
    const char *name = NULL;

    for (size_t i = 0; i < TS_COUNT(magics) && !name; i++) {
        const struct magic *m = &magics[i];

        if (b->len >= m->at + m->len && memcmp(b->data + m->at, m->bytes, m->len) == 0) {
            name = m->name;
            *out = m->format;
        }
    }
    if (!name)
        return error_set(err, ERROR_DATA,
                         b->len == 0 ? "%.200s: the file is empty"
                                     : "%.200s: not an image: it must be a JPEG, PNG or "
                                       "WebP file",
                         b->name);
    if (*out == IMAGE_FORMATS)
        return error_set(err, ERROR_DATA,
                         "%.200s: a %s file is not supported; convert it to JPEG, PNG or "
                         "WebP",
                         b->name, name);
    return true;
}

bool image_format_init(struct image *out, const struct image_bytes *bytes,
                       struct image_size size, enum image_mode mode, struct error *err)
{
    struct error why = { 0 };

    if (image_init(out, size, mode, &why))
        return true;
    return error_set(err, why.code, "%.200s: %s", bytes->name, why.text);
}

/* ---- Sizes ---- */

static uint32_t big(const uint8_t *data, size_t bytes)
{
    uint32_t value = 0;

    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | data[i];
    return value;
}

static uint32_t little(const uint8_t *data, size_t bytes)
{
    uint32_t value = 0;

    for (size_t i = bytes; i > 0; i--)
        value = value << 8 | data[i - 1];
    return value;
}

/* RFC 2083, chapter 3: the signature, then the chunk IHDR */
static bool size_of_png(const struct image_bytes *b, struct image_size *out)
{
    if (b->len < 24 || memcmp(b->data + 12, "IHDR", 4) != 0)
        return false;
    *out = (struct image_size) { big(b->data + 16, 4), big(b->data + 20, 4) };
    return true;
}

/* ITU T.81, annex B: segments of a marker and a length, up to a start of frame */
static bool size_of_jpeg(const struct image_bytes *b, struct image_size *out)
{
    size_t at = 2;

    while (at + 4 <= b->len) {
        uint8_t marker = b->data[at + 1];
        bool frame = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 &&
                     marker != 0xc8 && marker != 0xcc;

        if (b->data[at] != 0xff || marker == 0xff) {
            at++; /* bytes that fill up, or that libjpeg skips, too */
            continue;
        }
        if (marker == 0 || marker == 1 || (marker >= 0xd0 && marker <= 0xd8)) {
            at += 2; /* alone */
            continue;
        }
        if (marker == 0xd9 || marker == 0xda)
            return false; /* the end, or data without a frame */
        if (frame && at + 9 <= b->len) {
            *out = (struct image_size) { big(b->data + at + 7, 2),
                                         big(b->data + at + 5, 2) };
            return true;
        }
        at += 2 + big(b->data + at + 2, 2);
    }
    return false;
}

/* RFC 9649: the first chunk is VP8X with the canvas, VP8L or VP8 */
static bool size_of_webp(const struct image_bytes *b, struct image_size *out)
{
    const uint8_t *data = b->data + 20;
    uint32_t bits;

    if (b->len < 30)
        return false;
    if (memcmp(b->data + 12, "VP8X", 4) == 0) {
        *out = (struct image_size) { little(data + 4, 3) + 1, little(data + 7, 3) + 1 };
    } else if (memcmp(b->data + 12, "VP8L", 4) == 0 && data[0] == 0x2f) {
        bits = little(data + 1, 4);
        *out = (struct image_size) { (bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1 };
    } else if (memcmp(b->data + 12, "VP8 ", 4) == 0 &&
               memcmp(data + 3, "\x9d\x01\x2a", 3) == 0) {
        *out = (struct image_size) { little(data + 6, 2) & 0x3fff,
                                     little(data + 8, 2) & 0x3fff };
    } else {
        return false;
    }
    return true;
}

static bool find_size(const struct image_bytes *b, struct image_size *out, bool *found,
                      struct error *err)
{
    static bool (*const sizes[IMAGE_FORMATS])(const struct image_bytes *,
                                              struct image_size *) = {
        [IMAGE_JPEG] = size_of_jpeg,
        [IMAGE_PNG] = size_of_png,
        [IMAGE_WEBP] = size_of_webp,
    };
    enum image_format format;

    if (!image_format_find(b, &format, err))
        return false;
    *found = sizes[format](b, out);
    return true;
}

bool image_bytes_size(const struct image_bytes *b, struct image_size *out,
                      struct error *err)
{
    struct error why = { 0 };
    bool found;

    if (!find_size(b, out, &found, err))
        return false;
    if (!found)
        return error_set(err, ERROR_DATA, "%.200s: the header of the image is damaged",
                         b->name);
    if (!image_size_fits(*out, &why))
        return error_set(err, why.code, "%.200s: %s", b->name, why.text);
    return true;
}

bool image_size(const char *path, struct image_size *out, struct error *err)
{
    struct image_bytes bytes = { .name = path };
    struct text text;
    bool found = false, ok;

    text_init(&text, 0);
    ok = file_read_start(path, HEADER_BYTES, &text, err);
    bytes.data = (const uint8_t *)text.data;
    bytes.len = text.len;
    ok = ok && find_size(&bytes, out, &found, err);
    /* large segments may come before the size */
    if (ok && !found && text.len == HEADER_BYTES)
        ok = file_read_start(path, IMAGE_FILE_BYTES_MAX, &text, err);
    bytes.data = (const uint8_t *)text.data;
    bytes.len = text.len;
    ok = ok && image_bytes_size(&bytes, out, err);
    text_clear(&text);
    return ok;
}
