/* train/media/image_file.c - decode a file by the library of its format. */
#include "config.h"

#include "train/media/image_file.h"

#include "base/file.h"
#include "train/media/image_format.h"

/* NULL: this build lacks the library */
static const struct decoder {
    bool (*decode)(const struct image_bytes *bytes, struct image *out, struct error *err);
    const char *package;
} decoders[IMAGE_FORMATS] = {
#ifdef HAVE_JPEG
    [IMAGE_JPEG].decode = image_jpeg_decode,
#endif
#ifdef HAVE_PNG
    [IMAGE_PNG].decode = image_png_decode,
#endif
#ifdef HAVE_WEBP
    [IMAGE_WEBP].decode = image_webp_decode,
#endif
    [IMAGE_JPEG].package = "libjpeg-dev",    [IMAGE_PNG].package = "libpng-dev",
    [IMAGE_WEBP].package = "libwebp-dev",
};

bool image_decode(const struct image_bytes *bytes, struct image *out, struct error *err)
{
    struct image_size size;
    enum image_format format;

    *out = (struct image) { .pixels = NULL };
    /* the header is checked first: what the daemon refuses is not decoded either */
    if (!image_format_find(bytes, &format, err) || !image_bytes_size(bytes, &size, err))
        return false;
    if (!decoders[format].decode)
        return error_set(err, ERROR_DATA,
                         "%.200s: this build cannot read %s files: install %s, then "
                         "configure and build again",
                         bytes->name, image_format_names[format],
                         decoders[format].package);
    if (!decoders[format].decode(bytes, out, err))
        return false;
    if (out->size.width == size.width && out->size.height == size.height)
        return true;
    image_clear(out);
    return error_set(err, ERROR_DATA,
                     "%.200s: the image has %u x %u pixels, but its header says %u x %u",
                     bytes->name, out->size.width, out->size.height, size.width,
                     size.height);
}

bool image_read(const char *path, struct image *out, struct error *err)
{
    struct image_bytes bytes = { .name = path };
    struct text text;
    bool ok;

    *out = (struct image) { .pixels = NULL };
    text_init(&text, 0);
    ok = file_read_start(path, IMAGE_FILE_BYTES_MAX + 1, &text, err);
    if (ok && text.len > IMAGE_FILE_BYTES_MAX)
        ok = error_set(err, ERROR_DATA, "%.200s: the file has more than %zu bytes", path,
                       IMAGE_FILE_BYTES_MAX);
    bytes.data = (const uint8_t *)text.data;
    bytes.len = text.len;
    ok = ok && image_decode(&bytes, out, err);
    text_clear(&text);
    return ok;
}
