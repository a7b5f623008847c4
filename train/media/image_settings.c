/*
 * train/media/image_settings.c - the files of a model that say how images are prepared,
 * and what of the towers in config.json decides sizes and patches.
 */
#include "config.h"

#include "train/media/image_settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/media/image_processor.h"

#define FILE_BYTES_MAX ((size_t)4 << 20)

enum { MERGE_MOST = 16, COPIES_MOST = 8 };

/* ---- The tower ---- */

/* What a type of model, or of its vision_config, decides. */
struct kind {
    const char *model_type;
    const char *vision_type; /* NULL: any */
    const char *processor;   /* unless the file names one */
    uint32_t patch;          /* default of config.json */
    uint32_t image;          /* default of image_size; 0: any size */
    bool qwen;               /* has two frames, merges patches, widens */
    bool multiple;           /* merges patches as Qwen does, of images of one frame */
    bool has_class;
};

static const struct kind kinds[] = {
    { .model_type = "gemma3",
      .processor = "Gemma3ImageProcessor",
      .patch = 16,
      .image = 224 },
    { .model_type = "gemma4_unified",
      .processor = "Gemma4UnifiedImageProcessor",
      .patch = 16 },
    { .model_type = "glm4v",
      .processor = "Glm4vImageProcessor",
      .patch = 14,
      .qwen = true },
    { .model_type = "internvl",
      .vision_type = "internvl_vision",
      .processor = "GotOcr2ImageProcessor",
      .patch = 14,
      .image = 448 },
    { .model_type = "lfm2_vl",
      .vision_type = "siglip2_vision_model",
      .processor = "Lfm2VlImageProcessor",
      .patch = 16 },
    { .model_type = "llama4",
      .processor = "Llama4ImageProcessor",
      .patch = 14,
      .image = 448 },
    { .model_type = "llava",
      .vision_type = "clip_vision_model",
      .processor = "LlavaImageProcessor",
      .patch = 32,
      .image = 224,
      .has_class = true },
    { .model_type = "llava",
      .vision_type = "siglip_vision_model",
      .processor = "LlavaImageProcessor",
      .patch = 16,
      .image = 224 },
    { .model_type = "llava",
      .vision_type = "pixtral",
      .processor = "LlavaImageProcessor",
      .patch = 16 },
    { .model_type = "mistral3",
      .vision_type = "pixtral",
      .processor = "PixtralImageProcessor",
      .patch = 16 },
    { .model_type = "mllama",
      .processor = "MllamaImageProcessor",
      .patch = 14,
      .image = 448,
      .has_class = true },
    { .model_type = "paddleocr_vl",
      .processor = "PaddleOCRVLImageProcessor",
      .patch = 14,
      .multiple = true },
    { .model_type = "qwen2_vl",
      .processor = "Qwen2VLImageProcessor",
      .patch = 14,
      .qwen = true },
    { .model_type = "qwen2_5_vl",
      .processor = "Qwen2VLImageProcessor",
      .patch = 14,
      .qwen = true },
    { .model_type = "qwen3_vl",
      .processor = "Qwen2VLImageProcessor",
      .patch = 16,
      .qwen = true },
    { .model_type = "qwen3_vl_moe",
      .processor = "Qwen2VLImageProcessor",
      .patch = 16,
      .qwen = true },
    { .model_type = "qwen3_5",
      .processor = "Qwen2VLImageProcessor",
      .patch = 16,
      .qwen = true },
    { .model_type = "qwen3_5_moe",
      .processor = "Qwen2VLImageProcessor",
      .patch = 16,
      .qwen = true },
};

static const struct kind *find_kind(const char *model_type,
                                    const struct image_source *vision)
{
    const char *type =
        json_get_string(vision->json, "model_type", NULL, vision->file, vision->err);

    for (size_t i = 0; i < TS_COUNT(kinds); i++)
        if (strcmp(kinds[i].model_type, model_type) == 0 &&
            (!kinds[i].vision_type || text_equal(kinds[i].vision_type, type)))
            return &kinds[i];
    error_set(
        vision->err, ERROR_DATA,
        "%s: images of a %.64s with a vision_config of model_type %.64s are not supported",
        vision->file, model_type, type ? type : "null");
    return NULL;
}

static void read_qwen(const struct image_source *vision, struct image_settings *out)
{
    out->copies =
        (uint32_t)image_source_int(vision, "temporal_patch_size", 2, 1, COPIES_MOST);
    out->merge =
        (uint32_t)image_source_int(vision, "spatial_merge_size", 2, 1, MERGE_MOST);
    out->widened = true;
}

/* The pooling of Gemma 3: the square root of patches over tokens */
static void read_gemma(const struct image_source *root, uint32_t image,
                       struct image_settings *out)
{
    int64_t tokens = image_source_int(root, "mm_tokens_per_image", 256, 1, 1 << 20);
    uint32_t side = (uint32_t)lround(sqrt((double)tokens)), patches = image / out->patch;

    out->merge = side > 0 ? patches / side : 0;
    if ((int64_t)side * side != tokens || out->merge == 0 || out->merge > MERGE_MOST ||
        side * out->merge != patches) {
        image_source_refuse(
            root, "mm_tokens_per_image",
            "must be a square number whose root divides the patches of a side");
        out->merge = 1;
    }
}

/* The pixel shuffle of InternVL and Llama 4, which requires a power of two */
static void read_ratio(const struct image_source *from, const char *key,
                       struct image_settings *out)
{
    double ratio = json_get_real(from->json, key, 0.5, from->file, from->err);

    out->merge = 1;
    while (out->merge < MERGE_MOST && out->merge * ratio < 1)
        out->merge *= 2;
    if (out->merge * ratio != 1)
        image_source_refuse(from, key, "must be 1, 1/2, 1/4 and so on");
}

static void read_factor(const struct image_source *root, struct image_settings *out)
{
    out->merge = (uint32_t)image_source_int(root, "downsample_factor", 2, 1, MERGE_MOST);
    out->interleaved = true;
}

/* Patches are read several at a time, as one. */
static void read_pool(const struct image_source *vision, struct image_settings *out)
{
    out->patch *=
        (uint32_t)image_source_int(vision, "pooling_kernel_size", 3, 1, MERGE_MOST);
    out->interleaved = true;
}

/* Llava drops the first row, which CLIP has for the class, unless all are selected. */
static void read_selection(const struct image_source *root, const struct kind *kind,
                           struct image_settings *out)
{
    const char *strategy = json_get_string(root->json, "vision_feature_select_strategy",
                                           "default", root->file, root->err);

    if (strcmp(strategy, "default") != 0 && strcmp(strategy, "full") != 0)
        image_source_refuse(root, "vision_feature_select_strategy",
                            "must be default or full");
    out->extra = kind->has_class - (strcmp(strategy, "default") == 0);
}

/* Return the size that the tower's positions are for, or 0. */
static uint32_t read_tower(const struct image_source *root,
                           const struct image_source *vision, const struct kind *kind,
                           struct image_settings *out)
{
    uint32_t image = kind->image ? image_source_side(vision, "image_size", kind->image,
                                                     IMAGE_SOURCE_SIDE_MAX)
                                 : 0;

    out->patch =
        image_source_side(vision, "patch_size", kind->patch, IMAGE_SOURCE_PATCH_MAX);
    out->copies = 1;
    out->merge = 1;
    if (kind->qwen)
        read_qwen(vision, out);
    else if (kind->multiple)
        out->merge =
            (uint32_t)image_source_int(vision, "spatial_merge_size", 2, 1, MERGE_MOST);
    else if (strcmp(kind->model_type, "gemma3") == 0)
        read_gemma(root, image, out);
    else if (strcmp(kind->model_type, "mistral3") == 0)
        out->merge =
            (uint32_t)image_source_int(root, "spatial_merge_size", 2, 1, MERGE_MOST);
    else if (strcmp(kind->model_type, "internvl") == 0)
        read_ratio(root, "downsample_ratio", out);
    else if (strcmp(kind->model_type, "llama4") == 0)
        read_ratio(vision, "pixel_shuffle_ratio", out);
    else if (strcmp(kind->model_type, "lfm2_vl") == 0)
        read_factor(root, out);
    else if (strcmp(kind->model_type, "gemma4_unified") == 0)
        read_pool(vision, out);
    else if (strcmp(kind->model_type, "mllama") == 0)
        out->extra = 1;
    else
        read_selection(root, kind, out);
    return image;
}

/* ---- Both ---- */

/* A processor prepares what the tower reads. */
static void compare(const struct image_source *from, uint32_t image,
                    const struct image_settings *s)
{
    static const struct {
        const char *key;
        size_t at;
    } same[] = {
        { "merge_size", offsetof(struct image_settings, merge) },
        { "temporal_patch_size", offsetof(struct image_settings, copies) },
    };
    bool given = s->crop.width || s->sizing == IMAGE_FIXED || s->sizing == IMAGE_CROPS ||
                 s->sizing == IMAGE_TILES || s->sizing == IMAGE_TILED;
    struct image_size prepared = s->crop.width ? s->crop : s->size;
    struct image_size patch =
        image_source_size(from, "patch_size", (struct image_size) { s->patch, s->patch },
                          IMAGE_SOURCE_PATCH_MAX);

    if (s->sizing == IMAGE_MULTIPLE || s->sizing == IMAGE_LONGEST) {
        if (patch.width != s->patch || patch.height != s->patch)
            error_set(from->err, ERROR_DATA,
                      "%s: patch_size must be %u as in vision_config of config.json",
                      from->file, s->patch);
    }
    for (size_t i = 0; s->sizing == IMAGE_MULTIPLE && i < TS_COUNT(same); i++) {
        uint32_t value;

        memcpy(&value, (const char *)s + same[i].at, sizeof(value));
        if (image_source_int(from, same[i].key, value, 1, IMAGE_SOURCE_SIDE_MAX) != value)
            error_set(from->err, ERROR_DATA,
                      "%s: %s must be %u as in vision_config of config.json", from->file,
                      same[i].key, value);
    }
    if (image && (!given || prepared.width != image || prepared.height != image))
        error_set(
            from->err, ERROR_DATA,
            "%s: size (or crop_size) must be %u x %u, the image_size of config.json",
            from->file, image, image);
}

/* In transformers' training, all rows of an image see each other also where they are further
 * apart than a window; here they do not. */
static void compare_window(const struct image_source *root,
                           const struct image_source *from,
                           const struct image_settings *s)
{
    const struct image_source text = image_source_inside(root, "text_config");
    const int64_t window = image_source_int(&text, "sliding_window", 1024, 1, INT32_MAX);

    if (s->pixels_max > window * s->unit * s->unit)
        error_set(
            from->err, ERROR_DATA,
            "%s: max_soft_tokens must be at most the sliding_window of config.json, "
            "%lld",
            from->file, (long long)window);
}

/* Read a file of the model; *out is NULL if it does not exist. */
static bool read_file(const char *model_dir, const char *name, json_t **out,
                      struct error *err)
{
    char *path = path_join(model_dir, name);
    bool exists = file_exists(path);

    *out = exists ? json_read_loose_file(path, FILE_BYTES_MAX, err) : NULL;
    free(path);
    if (*out && !json_is_object(*out))
        error_set(err, ERROR_DATA, "%s: expected a JSON object", name);
    return !exists || json_is_object(*out);
}

struct files {
    json_t *config, *nested, *processor;
};

/* The nested object comes first, as in get_image_processor_dict. */
static bool read_files(const char *model_dir, struct files *f, struct image_source *from,
                       struct error *err)
{
    const json_t *nested;

    if (!read_file(model_dir, "config.json", &f->config, err) ||
        !read_file(model_dir, "processor_config.json", &f->nested, err) ||
        !read_file(model_dir, "preprocessor_config.json", &f->processor, err))
        return false;
    nested = json_object_get(f->nested, "image_processor");
    *from = (struct image_source) { f->processor, "preprocessor_config.json", err };
    if (json_is_object(nested))
        *from = (struct image_source) { nested, "processor_config.json", err };
    if (!f->config || !from->json)
        return error_set(err, ERROR_DATA,
                         "%.200s has no %s, which says how images are prepared",
                         model_dir, f->config ? from->file : "config.json");
    return true;
}

static bool read_all(const struct files *f, const char *model_type,
                     const struct image_source *from, struct image_settings *out,
                     struct error *err)
{
    struct error failed = { 0 };
    const struct image_source root = { f->config, "config.json", &failed };
    const struct image_source vision = image_source_inside(&root, "vision_config");
    const struct image_source checked = { from->json, from->file, &failed };
    const struct kind *kind = find_kind(model_type, &vision);
    uint32_t image = kind ? read_tower(&root, &vision, kind, out) : 0;

    if (failed.code == ERROR_NONE)
        image_processor_read(&checked, kind->processor, kind->qwen || kind->multiple,
                             out);
    if (failed.code == ERROR_NONE)
        compare(&checked, image, out);
    if (failed.code == ERROR_NONE && out->sizing == IMAGE_BUDGET)
        compare_window(&root, &checked, out);
    if (failed.code != ERROR_NONE)
        return error_set(err, failed.code, "%s", failed.text);
    return true;
}

bool image_settings_read(const char *model_dir, const char *model_type,
                         const struct image_limits *limits, struct image_settings *out,
                         struct error *err)
{
    struct files files = { 0 };
    struct image_source from;
    bool ok;

    *out = (struct image_settings) { .limits = *limits };
    ok = read_files(model_dir, &files, &from, err) &&
         read_all(&files, model_type, &from, out, err);
    json_decref(files.config);
    json_decref(files.nested);
    json_decref(files.processor);
    return ok;
}
