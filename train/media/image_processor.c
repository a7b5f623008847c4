/* train/media/image_processor.c - what the image processors of transformers read of
 * preprocessor_config.json, with the defaults of their classes. */
#include "config.h"

#include "train/media/image_processor.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "train/media/image_tiles.h"

/* Mean and standard deviation of the classes (utils/constants.py). */
static const double clip_mean[3] = { 0.48145466, 0.4578275, 0.40821073 };
static const double clip_std[3] = { 0.26862954, 0.26130258, 0.27577711 };
static const double standard[3] = { 0.5, 0.5, 0.5 };
static const double zeros[3], ones[3] = { 1, 1, 1 };

/* The defaults of a class of transformers. */
struct processor {
    const char *name; /* without Fast */
    enum image_sizing sizing;
    struct image_size size, crop;
    enum image_filter filter;
    const double *mean, *std;
    enum { PADS_NOTHING, PADS_SQUARE, PADS_OTHERWISE } pads; /* do_pad */
    bool square_default;
    bool counts_copies; /* limits of pixels are of all frames of a patch */
    bool enlarges;      /* a side shorter than `unit`, and the other with it */
    int64_t pixels_min, pixels_max; /* defaults of Qwen's limits */
    bool crops;   /* the image becomes tiles if a job has crop_to_patches */
    bool plain;   /* do_normalize is false by default */
    bool rounded; /* pixels are normalized in bf16 */
};

static const struct processor processors[] = {
    { .name = "CLIPImageProcessor",
      .sizing = IMAGE_SHORTEST,
      .size = { 224, 224 },
      .crop = { 224, 224 },
      .filter = IMAGE_BICUBIC,
      .mean = clip_mean,
      .std = clip_std },
    { .name = "LlavaImageProcessor",
      .sizing = IMAGE_SHORTEST,
      .size = { 224, 224 },
      .crop = { 224, 224 },
      .filter = IMAGE_BICUBIC,
      .mean = clip_mean,
      .std = clip_std,
      .pads = PADS_SQUARE },
    { .name = "SiglipImageProcessor",
      .sizing = IMAGE_FIXED,
      .size = { 224, 224 },
      .filter = IMAGE_BICUBIC,
      .mean = standard,
      .std = standard },
    { .name = "Gemma3ImageProcessor",
      .sizing = IMAGE_FIXED,
      .size = { 224, 224 },
      .filter = IMAGE_BILINEAR,
      .mean = standard,
      .std = standard,
      .square_default = true },
    { .name = "Gemma4UnifiedImageProcessor",
      .sizing = IMAGE_BUDGET,
      .filter = IMAGE_BICUBIC,
      .mean = zeros,
      .std = ones,
      .plain = true },
    { .name = "PixtralImageProcessor",
      .sizing = IMAGE_LONGEST,
      .size = { 1024, 1024 },
      .filter = IMAGE_BICUBIC,
      .mean = clip_mean,
      .std = clip_std,
      .pads = PADS_OTHERWISE,
      .square_default = true },
    { .name = "Llama4ImageProcessor",
      .sizing = IMAGE_TILED,
      .size = { 336, 336 },
      .filter = IMAGE_BILINEAR,
      .mean = standard,
      .std = standard,
      .square_default = true,
      .rounded = true },
    { .name = "MllamaImageProcessor",
      .sizing = IMAGE_TILES,
      .size = { 224, 224 },
      .filter = IMAGE_BILINEAR,
      .mean = standard,
      .std = standard,
      .pads = PADS_OTHERWISE,
      .square_default = true },
    { .name = "Glm4vImageProcessor",
      .sizing = IMAGE_MULTIPLE,
      .filter = IMAGE_BICUBIC,
      .mean = clip_mean,
      .std = clip_std,
      .counts_copies = true,
      .pixels_min = 112 * 112,
      .pixels_max = 28 * 28 * 15000 },
    { .name = "GotOcr2ImageProcessor",
      .sizing = IMAGE_FIXED,
      .size = { 384, 384 },
      .filter = IMAGE_BICUBIC,
      .mean = clip_mean,
      .std = clip_std,
      .square_default = true,
      .crops = true },
    { .name = "Lfm2VlImageProcessor",
      .sizing = IMAGE_ROWS,
      .filter = IMAGE_BILINEAR,
      .mean = standard,
      .std = standard,
      .pads = PADS_OTHERWISE },
    { .name = "PaddleOCRVLImageProcessor",
      .sizing = IMAGE_MULTIPLE,
      .filter = IMAGE_BICUBIC,
      .mean = clip_mean,
      .std = clip_std,
      .enlarges = true,
      .pixels_min = 384 * 384,
      .pixels_max = 1536 * 1536 },
    { .name = "Qwen2VLImageProcessor",
      .sizing = IMAGE_MULTIPLE,
      .filter = IMAGE_BICUBIC,
      .mean = clip_mean,
      .std = clip_std,
      .pixels_min = 56 * 56,
      .pixels_max = 28 * 28 * 1280 },
};

/* Names in files of models that transformers maps to a class by the model's type. */
static const char *const aliases[][2] = {
    { "Qwen2_5_VLImageProcessor", "Qwen2VLImageProcessor" },
    { "Qwen3VLImageProcessor", "Qwen2VLImageProcessor" },
};

/* The order of keys is that of TorchvisionBackend.resize. */
static void read_plain_size(const struct image_source *from, struct image_settings *out,
                            bool square_default)
{
    const json_t *value = json_object_get(from->json, "size");
    struct image_source in = { value, from->file, from->err };

    if (image_source_has(&in, "max_height") || image_source_has(&in, "max_width") ||
        (image_source_has(&in, "shortest_edge") &&
         image_source_has(&in, "longest_edge"))) {
        image_source_refuse(from, "size",
                            "must have shortest_edge, or height and width, only");
    } else if (image_source_has(&in, "shortest_edge")) {
        out->sizing = IMAGE_SHORTEST;
        out->size.width =
            (uint32_t)image_source_int(&in, "shortest_edge", 0, 1, IMAGE_SOURCE_SIDE_MAX);
        out->size.height = out->size.width;
    } else if (value && !json_is_null(value)) {
        out->sizing =
            json_is_integer(value) && !square_default ? IMAGE_SHORTEST : IMAGE_FIXED;
        out->size = image_source_size(from, "size", out->size, IMAGE_SOURCE_SIDE_MAX);
    }
}

static void read_longest(const struct image_source *from, struct image_settings *out)
{
    const json_t *value = json_object_get(from->json, "size");
    struct image_source in = { value, from->file, from->err };

    if (image_source_has(&in, "longest_edge")) {
        out->size.width =
            (uint32_t)image_source_int(&in, "longest_edge", 0, 1, IMAGE_SOURCE_SIDE_MAX);
        out->size.height = out->size.width;
    } else {
        out->size = image_source_size(from, "size", out->size, IMAGE_SOURCE_SIDE_MAX);
    }
}

/* size, and the keys of older files, which override it */
static void read_pixels(const struct image_source *from, const struct processor *class,
                        struct image_settings *out)
{
    struct image_source size = image_source_inside(from, "size");
    int64_t least = class->pixels_min, most = class->pixels_max;

    if (size.json) {
        least = image_source_has(from, "min_pixels") ? least : 0;
        most = image_source_has(from, "max_pixels") ? most : 0;
        least = image_source_int(&size, "shortest_edge", least, 1, IMAGE_PIXELS_MAX);
        most = image_source_int(&size, "longest_edge", most, 1, IMAGE_PIXELS_MAX);
    }
    out->pixels_min = image_source_int(from, "min_pixels", least, 1, IMAGE_PIXELS_MAX);
    out->pixels_max = image_source_int(from, "max_pixels", most, 1, IMAGE_PIXELS_MAX);
    if (out->pixels_min > out->pixels_max)
        image_source_refuse(from, "min_pixels",
                            "(or size.shortest_edge) is larger than max_pixels");
}

/* Images are not split: in LLaMA-Factory the text of a split image has too few positions, and
 * the run fails. */
static void read_rows(const struct image_source *from, struct image_settings *out)
{
    const int64_t pixels = (int64_t)out->unit * out->unit;
    const int64_t least = image_source_int(from, "min_image_tokens", 64, 1, 1 << 16);
    const int64_t most = image_source_int(from, "max_image_tokens", 256, 1, 1 << 16);

    out->pixels_min = least * pixels;
    out->pixels_max = most * pixels;
    if (least > most)
        image_source_refuse(from, "min_image_tokens", "is larger than max_image_tokens");
    if (image_source_int(from, "encoder_patch_size", 16, 1, IMAGE_SOURCE_PATCH_MAX) !=
        out->patch)
        image_source_refuse(from, "encoder_patch_size",
                            "must be patch_size of vision_config in config.json");
    if (image_source_int(from, "downsample_factor", 2, 1, IMAGE_SOURCE_SIDE_MAX) !=
        out->merge)
        image_source_refuse(from, "downsample_factor", "must be that of config.json");
}

/* As many rows as max_soft_tokens, of which the class allows five values. */
static void read_budget(const struct image_source *from, struct image_settings *out)
{
    static const int64_t allowed[] = { 70, 140, 280, 560, 1120 };
    const int64_t rows = image_source_int(from, "max_soft_tokens", 280, 1, 1 << 16);
    const int64_t side =
        image_source_int(from, "patch_size", 16, 1, IMAGE_SOURCE_PATCH_MAX);
    bool known = false;

    for (size_t i = 0; i < TS_COUNT(allowed); i++)
        known = known || rows == allowed[i];
    if (!known)
        image_source_refuse(from, "max_soft_tokens", "must be 70, 140, 280, 560 or 1120");
    if (side *
            image_source_int(from, "pooling_kernel_size", 3, 1, IMAGE_SOURCE_SIDE_MAX) !=
        out->patch)
        image_source_refuse(from, "patch_size",
                            "times pooling_kernel_size must be as in vision_config of "
                            "config.json");
    out->pixels_max = rows * out->unit * out->unit;
}

/* Pillow's numbers of filters */
static void read_filter(const struct image_source *from, enum image_filter *filter)
{
    static const enum image_filter filters[] = { [0] = IMAGE_NEAREST,
                                                 [1] = IMAGE_LANCZOS,
                                                 [2] = IMAGE_BILINEAR,
                                                 [3] = IMAGE_BICUBIC };

    if (image_source_has(from, "resample"))
        *filter = filters[image_source_int(from, "resample", 0, 0, 3)];
}

/* Three numbers, or one for all colors. */
static void read_colors(const struct image_source *from, const char *key, double out[3])
{
    const json_t *value = json_object_get(from->json, key);
    bool ok = json_is_number(value) || json_array_size(value) == 3;

    if (!value || json_is_null(value))
        return;
    for (size_t c = 0; ok && c < 3; c++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, c) : value;

        ok = json_is_number(one) && fabs(json_number_value(one)) < 1e6;
        out[c] = json_number_value(one);
    }
    if (!ok)
        image_source_refuse(from, key, "must be a list of three numbers");
}

/* mean and std are those of scaled pixels */
static void round_values(const struct image_source *from, const double mean[3],
                         const double std[3], bool rescales, struct image_settings *out)
{
    if (!rescales)
        image_source_refuse(from, "do_rescale", "must be true");
    if (out->std[0] == 0)
        image_source_refuse(from, "do_normalize", "must be true");
    for (size_t c = 0; c < 3; c++) {
        out->mean[c] = (float)mean[c];
        out->std[c] = (float)std[c];
    }
    out->rounded = true;
}

/* transformers scales mean and std, in float, instead of the pixels */
static void read_values(const struct image_source *from, const struct processor *class,
                        struct image_settings *out)
{
    double scale =
        json_get_real(from->json, "rescale_factor", 1.0 / 255, from->file, from->err);
    bool rescales = image_source_bool(from, "do_rescale", true);
    double mean[3], std[3];
    float by = rescales ? (float)(1.0 / scale) : 1;

    memcpy(mean, class->mean, sizeof(mean));
    memcpy(std, class->std, sizeof(std));
    read_colors(from, "image_mean", mean);
    read_colors(from, "image_std", std);
    if (!(scale > 1e-9 && scale < 1e9))
        image_source_refuse(from, "rescale_factor", "must be a positive number");
    out->scale = rescales ? (float)scale : 1;
    for (size_t c = 0; c < 3; c++) {
        int border = (int)(mean[c] * 255);

        if (!(std[c] > 1e-6))
            image_source_refuse(from, "image_std", "must be positive");
        out->border[c] = (uint8_t)(border < 0 ? 0 : border > 255 ? 255 : border);
        out->mean[c] = (float)mean[c] * by;
        out->std[c] = (float)std[c] * by;
    }
    if (!image_source_bool(from, "do_normalize", !class->plain))
        memset(out->std, 0, sizeof(out->std));
    if (class->rounded)
        round_values(from, mean, std, rescales, out);
}

static const struct processor *find_processor(const struct image_source *from,
                                              const char *missing)
{
    const char *type =
        json_get_string(from->json, "image_processor_type", NULL, from->file, from->err);
    const char *older = json_get_string(from->json, "feature_extractor_type", NULL,
                                        from->file, from->err);
    const char *name = type ? type : missing;
    size_t len;

    if (!type && older && strcmp(older, "CLIPFeatureExtractor") == 0)
        name = "CLIPImageProcessor";
    for (size_t i = 0; i < TS_COUNT(aliases); i++)
        name = text_starts(name, aliases[i][0]) ? aliases[i][1] : name;
    len = strlen(name) - (text_ends(name, "Fast") ? 4 : 0);
    for (size_t i = 0; i < TS_COUNT(processors); i++)
        if (strlen(processors[i].name) == len &&
            strncmp(processors[i].name, name, len) == 0)
            return &processors[i];
    error_set(from->err, ERROR_DATA, "%s: image_processor_type %.64s is not supported",
              from->file, name);
    return NULL;
}

/* Tiles are squares, and images always become tiles. */
static void read_tiles(const struct image_source *from, const char *key, int64_t most,
                       struct image_settings *out)
{
    out->size = image_source_size(from, "size", out->size, IMAGE_SOURCE_SIDE_MAX);
    out->tiles = (uint32_t)image_source_int(from, key, most, 1, IMAGE_TILES_MAX);
    if (out->size.width != out->size.height)
        image_source_refuse(from, "size", "must have the same height and width");
    if (!image_source_bool(from, "do_resize", true))
        image_source_refuse(from, "do_resize", "must be true");
    if (out->sizing == IMAGE_TILES && !image_source_bool(from, "do_pad", true))
        image_source_refuse(from, "do_pad", "must be true");
    if (image_source_bool(from, "resize_to_max_canvas", false))
        image_source_refuse(from, "resize_to_max_canvas", "true is not supported");
}

/* crop_to_patches is off by default and a key of the job, not of the file: LLaMA-Factory
 * passes it, with these limits. */
static void read_crops(const struct image_source *from, struct image_settings *out)
{
    if (out->sizing != IMAGE_FIXED) {
        image_source_refuse(from, "size", "must have height and width");
        return;
    }
    out->sizing = IMAGE_CROPS;
    out->tiles_least = 1;
    out->tiles = 12;
}

/* Keys of the processors of one class only. */
static void read_class(const struct image_source *from, const struct processor *class,
                       struct image_settings *out)
{
    bool pads;

    if (class->sizing == IMAGE_MULTIPLE)
        read_pixels(from, class, out);
    else if (class->sizing == IMAGE_ROWS)
        read_rows(from, out);
    else if (class->sizing == IMAGE_BUDGET)
        read_budget(from, out);
    else if (class->sizing == IMAGE_TILES)
        read_tiles(from, "max_image_tiles", 4, out);
    else if (class->sizing == IMAGE_TILED)
        read_tiles(from, "max_patches", 16, out);
    else if (class->sizing == IMAGE_LONGEST)
        read_longest(from, out);
    else
        read_plain_size(
            from, out,
            image_source_bool(from, "default_to_square", class->square_default));
    if (!image_source_bool(from, "do_center_crop", class->crop.width > 0))
        out->crop = (struct image_size) { 0, 0 };
    else
        out->crop =
            image_source_size(from, "crop_size", class->crop, IMAGE_SOURCE_SIDE_MAX);
    pads = image_source_bool(from, "do_pad", false);
    out->square = pads && class->pads == PADS_SQUARE;
    if (pads && class->pads == PADS_NOTHING)
        image_source_refuse(from, "do_pad", "true is not supported");
    if (image_source_bool(from, "do_pan_and_scan", false))
        image_source_refuse(from, "do_pan_and_scan", "true is not supported");
    if (!image_source_bool(from, "do_resize", true) && class->sizing != IMAGE_ROWS)
        out->sizing = IMAGE_KEEP;
    if (class->crops && out->limits.crops)
        read_crops(from, out);
}

void image_processor_read(const struct image_source *from, const char *class,
                          bool multiple, struct image_settings *out)
{
    const struct processor *found = find_processor(from, class);

    if (!found)
        return;
    if (multiple != (found->sizing == IMAGE_MULTIPLE)) {
        error_set(from->err, ERROR_DATA,
                  "%s: image_processor_type %s does not fit the model", from->file,
                  found->name);
        return;
    }
    out->sizing = found->sizing;
    out->size = found->size;
    out->filter = found->filter;
    out->counts_copies = found->counts_copies;
    out->enlarges = found->enlarges;
    out->unit = out->patch * out->merge;
    read_class(from, found, out);
    read_filter(from, &out->filter);
    read_values(from, found, out);
}
