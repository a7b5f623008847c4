/* train/media/image_png.c - PNG by libpng, with Pillow's modes: the only file that
 * includes it.  Its errors leave it by longjmp. */
#include "config.h"

#include "train/media/image_format.h"

#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "base/text.h"

#define CHUNK_BYTES_MAX ((png_alloc_size_t)8 << 20)

struct job {
    const struct image_bytes *bytes;
    size_t at;
    struct image *out;
    png_bytepp rows;
    struct error *err;
};

_Noreturn static void fail(png_structp png, png_const_charp why)
{
    struct job *job = png_get_error_ptr(png);
    struct text text;

    text_init(&text, 0);
    text_add_visible(&text, why, strlen(why));
    error_set(job->err, ERROR_DATA, "%.200s: the PNG file is damaged: %.200s",
              job->bytes->name, text.data);
    text_clear(&text);
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp why)
{
    (void)png;
    (void)why;
}

static void read_bytes(png_structp png, png_bytep out, size_t len)
{
    struct job *job = png_get_io_ptr(png);

    if (len > job->bytes->len - job->at)
        fail(png, "it is truncated");
    memcpy(out, job->bytes->data + job->at, len);
    job->at += len;
}

/* Bits and colors of the file -> a mode with samples of bytes, as in PngImagePlugin.py.
 * Pillow has a mode for gray of 16 bits only, and takes the high bytes of others. */
static enum image_mode choose_mode(png_structp png, int bits, int color)
{
    if (bits == 16 && color == PNG_COLOR_TYPE_GRAY) {
        const uint16_t one = 1;

        if (*(const uint8_t *)&one == 1)
            png_set_swap(png);
        return IMAGE_GRAY_16;
    }
    png_set_strip_16(png);
    switch (color) {
    case PNG_COLOR_TYPE_GRAY:
        png_set_expand_gray_1_2_4_to_8(png);
        return bits == 1 ? IMAGE_BILEVEL : IMAGE_GRAY;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
        return IMAGE_GRAY_ALPHA;
    case PNG_COLOR_TYPE_PALETTE:
        png_set_packing(png);
        return IMAGE_PALETTE;
    case PNG_COLOR_TYPE_RGB:
        return IMAGE_RGB;
    default:
        return IMAGE_RGBA;
    }
}

/* Colors that the file does not have are black, as in Pillow. */
static void read_palette(png_structp png, png_infop info, struct image *out)
{
    png_colorp colors = NULL;
    int count = 0;

    png_get_PLTE(png, info, &colors, &count);
    for (int i = 0; i < count && i < 256; i++) {
        out->palette[i][0] = colors[i].red;
        out->palette[i][1] = colors[i].green;
        out->palette[i][2] = colors[i].blue;
    }
}

static bool decode(png_structp png, png_infop info, struct job *job)
{
    struct image_size size;
    enum image_mode mode;
    size_t pitch;

    if (setjmp(png_jmpbuf(png)) != 0)
        return false;
    png_set_read_fn(png, job, read_bytes);
    png_set_user_limits(png, IMAGE_SIDE_MAX, IMAGE_SIDE_MAX);
    png_set_chunk_malloc_max(png, CHUNK_BYTES_MAX);
    /* texts and profiles; IHDR, PLTE and IDAT are always read */
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(png, info);
    size = (struct image_size) { png_get_image_width(png, info),
                                 png_get_image_height(png, info) };
    mode = choose_mode(png, png_get_bit_depth(png, info), png_get_color_type(png, info));
    if (!image_format_init(job->out, job->bytes, size, mode, job->err))
        return false;
    if (mode == IMAGE_PALETTE)
        read_palette(png, info, job->out);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    pitch = image_channels(mode) * size.width;
    if (png_get_rowbytes(png, info) != pitch)
        fail(png, "its rows have another size");
    job->rows = malloc(size.height * sizeof(*job->rows));
    if (!job->rows)
        return error_set(job->err, ERROR_MEMORY,
                         "not enough memory for decoding an image");
    for (size_t y = 0; y < size.height; y++)
        job->rows[y] = job->out->pixels + y * pitch;
    png_read_image(png, job->rows);
    return true;
}

bool image_png_decode(const struct image_bytes *bytes, struct image *out,
                      struct error *err)
{
    struct job job = { .bytes = bytes, .out = out, .err = err };
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, fail, ignore);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    bool ok;

    *out = (struct image) { .pixels = NULL };
    ok = info ? decode(png, info, &job)
              : error_set(err, ERROR_MEMORY, "not enough memory for decoding an image");
    png_destroy_read_struct(&png, &info, NULL);
    free(job.rows);
    if (!ok)
        image_clear(out);
    return ok;
}
