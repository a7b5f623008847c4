/*
 * train/media/image_settings.h - how a model's processor prepares an image:
 * preprocessor_config.json, or image_processor in processor_config.json, with the
 * defaults of transformers' classes.
 */
#ifndef TRAIN_MEDIA_IMAGE_SETTINGS_H
#define TRAIN_MEDIA_IMAGE_SETTINGS_H

#include "train/media/image_resize.h"

/* The size that the processor resizes to. */
enum image_sizing {
    IMAGE_KEEP,     /* the given size: do_resize is false */
    IMAGE_FIXED,    /* size */
    IMAGE_SHORTEST, /* the shorter side is size.width */
    IMAGE_LONGEST, /* no side is longer than size; each is a multiple of `unit`, rounded up */
    IMAGE_TILES, /* as much as fits up to `tiles` squares of size; the rest is black */
    /* `tiles_least` to `tiles` squares of size that hold the image, stretched, and another
     * square that is all of it; one below the other */
    IMAGE_CROPS,
    /* IMAGE_TILES without what is black only, below each other, and another square that is all of
     * the image if there are several (Llama 4) */
    IMAGE_TILED,
    IMAGE_MULTIPLE, /* multiples of `unit`, with pixels_min to pixels_max pixels (Qwen) */
    IMAGE_ROWS,     /* the same, with no limit of the aspect (LFM2-VL) */
    IMAGE_BUDGET, /* the largest multiples of `unit` with at most pixels_max (Gemma 4) */
    IMAGE_SIZINGS
};

/* image_max_pixels, image_min_pixels and crop_to_patches of a job. */
struct image_limits {
    int64_t pixels_max, pixels_min;
    bool crops;
};

struct image_settings {
    struct image_limits limits;
    bool
        widened; /* LLaMA-Factory's limits of Qwen's images: sides of 28, aspects to 200 */

    enum image_sizing sizing;
    struct image_size size;
    int64_t pixels_min, pixels_max; /* of all `copies` if counts_copies */
    bool counts_copies;
    bool enlarges; /* first, images with a side shorter than `unit` (PaddleOCR-VL) */
    uint32_t unit;
    uint32_t tiles, tiles_least;
    enum image_filter filter;
    struct image_size
        crop;    /* at the center, with black where the image is smaller; 0: none */
    bool square; /* first make the image square, with borders of the mean */
    uint8_t border[3];

    /* a byte becomes (byte - mean) / std if std[0] is not 0, else byte * scale */
    float mean[3], std[3], scale;
    bool rounded; /* (byte * scale - mean) / std, each step rounded to bf16 */

    uint32_t patch;   /* pixels of a side */
    bool interleaved; /* the colors of a pixel follow each other in a row of patches */
    uint32_t copies;  /* of a patch in a row: Qwen's frames of a still image */
    uint32_t merge;   /* merge x merge patches become one feature row */
    int32_t extra;    /* more rows of an image or tile, as CLIP's class, or fewer */
};

/* Read them from the folder of a model, whose config.json says model_type.  ERROR_DATA
 * if they are missing, out of range, or of a processor that is not supported. */
bool image_settings_read(const char *model_dir, const char *model_type,
                         const struct image_limits *limits, struct image_settings *out,
                         struct error *err);

#endif
