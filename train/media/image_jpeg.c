/*
 * train/media/image_jpeg.c - JPEG by libjpeg(-turbo), with Pillow's settings: the only
 * file that includes it.  Its errors and the end of the data leave it by longjmp.
 */
#include "config.h"

#include "train/media/image_format.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "base/text.h"

/* A progressive file of few bytes can have thousands of scans, each of which passes
 * over the image. */
enum { SCANS_MAX = 500 };
#define MEMORY_MAX (1500L << 20)

struct job {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr manager;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    const struct image_bytes *bytes;
    struct image *out;
    struct error *err;
};

_Noreturn static void fail(struct job *job, const char *why)
{
    error_set(job->err, ERROR_DATA, "%.200s: %s", job->bytes->name, why);
    longjmp(job->failed, 1);
}

_Noreturn static void fail_library(j_common_ptr jpeg)
{
    char why[JMSG_LENGTH_MAX];
    struct text text;
    struct job *job = jpeg->client_data;

    jpeg->err->format_message(jpeg, why);
    text_init(&text, 0);
    text_adds(&text, "the JPEG file is damaged: ");
    text_add_visible(&text, why, strlen(why));
    error_set(job->err, ERROR_DATA, "%.200s: %.200s", job->bytes->name, text.data);
    text_clear(&text);
    longjmp(job->failed, 1);
}

/* Other warnings concern data that libjpeg skips.  Pillow, too, refuses a file that ends
 * early, but not one in which a marker comes early, whose missing pixels are gray. */
static void note(j_common_ptr jpeg, int level)
{
    if (level < 0 && jpeg->err->msg_code == JWRN_HIT_MARKER)
        fail(jpeg->client_data, "the JPEG file is damaged: data of pixels are missing");
    if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF)
        fail(jpeg->client_data, "the JPEG file is truncated");
}

static void count_scans(j_common_ptr jpeg)
{
    struct job *job = jpeg->client_data;

    if (job->jpeg.input_scan_number > SCANS_MAX)
        fail(job, "the JPEG file has more than 500 scans");
}

static enum image_mode mode_of(struct job *job)
{
    switch (job->jpeg.num_components) {
    case 1:
        job->jpeg.out_color_space = JCS_GRAYSCALE;
        return IMAGE_GRAY;
    case 3:
        job->jpeg.out_color_space = JCS_RGB;
        return IMAGE_RGB;
    case 4:
        job->jpeg.out_color_space = JCS_CMYK;
        return IMAGE_CMYK;
    default:
        fail(job, "a JPEG file must have 1, 3 or 4 colors");
    }
}

/* Pillow takes all inks of files as inverted, as Adobe's are. */
static void invert(struct image *image)
{
    size_t count = (size_t)image->size.width * image->size.height * 4;

    for (size_t i = 0; i < count; i++)
        image->pixels[i] = (uint8_t)(255 - image->pixels[i]);
}

static void decode(struct job *job)
{
    struct jpeg_decompress_struct *jpeg = &job->jpeg;
    struct image_size size;
    enum image_mode mode;
    size_t pitch;

    jpeg_mem_src(jpeg, job->bytes->data, job->bytes->len);
    jpeg_read_header(jpeg, TRUE);
    size = (struct image_size) { jpeg->image_width, jpeg->image_height };
    mode = mode_of(job);
    if (!image_format_init(job->out, job->bytes, size, mode, job->err))
        longjmp(job->failed, 1);
    jpeg_start_decompress(jpeg);
    pitch = image_channels(mode) * size.width;
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = job->out->pixels + jpeg->output_scanline * pitch;

        jpeg_read_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_decompress(jpeg);
}

static bool run(struct job *job)
{
    if (setjmp(job->failed) != 0)
        return false;
    jpeg_create_decompress(&job->jpeg);
    job->jpeg.client_data = job;
    job->jpeg.progress = &job->progress;
    job->jpeg.mem->max_memory_to_use = MEMORY_MAX;
    decode(job);
    return true;
}

bool image_jpeg_decode(const struct image_bytes *bytes, struct image *out,
                       struct error *err)
{
    struct job *job = calloc(1, sizeof(*job));
    bool ok;

    *out = (struct image) { .pixels = NULL };
    if (!job)
        return error_set(err, ERROR_MEMORY, "not enough memory for decoding an image");
    job->bytes = bytes;
    job->out = out;
    job->err = err;
    job->jpeg.err = jpeg_std_error(&job->manager);
    job->jpeg.client_data = job;
    job->manager.error_exit = fail_library;
    job->manager.emit_message = note;
    job->progress.progress_monitor = count_scans;
    ok = run(job);
    jpeg_destroy_decompress(&job->jpeg);
    free(job);
    if (!ok)
        image_clear(out);
    else if (out->mode == IMAGE_CMYK)
        invert(out);
    return ok;
}
