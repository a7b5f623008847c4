/* tests/unit/test_image_prepare.c - rows of patches are those of LLaMA-Factory and the
 * processors of transformers (tests/golden/image_prepare.py). */
#include "config.h"

#include "train/media/image_prepare.h"

#include "tests/unit/unit_image.h"
#include "train/media/image_tiles.h"
#include "train/media/patches.h"

static char *folder_of(const json_t *config, const json_t *processor)
{
    const struct {
        const char *name;
        const json_t *json;
    } files[] = { { "config.json", config }, { "preprocessor_config.json", processor } };
    char *dir = unit_dir_new();
    struct error err = { 0 };

    for (size_t i = 0; i < 2; i++) {
        char *path = path_join(dir, files[i].name);
        struct text text;

        text_init(&text, 0);
        if (files[i].json) {
            assert_true(json_write(files[i].json, &text));
            assert_true(file_create(path, text.data, text.len, 0600, &err));
        }
        text_clear(&text);
        free(path);
    }
    return dir;
}

static const char *type_of(const json_t *config)
{
    return json_string_value(json_object_get(config, "model_type"));
}

static void check_case(const struct image_settings *s, const json_t *row)
{
    const char *mode = json_string_value(json_object_get(row, "mode"));
    struct error err = { 0 };
    struct image_size to;
    struct image image;
    int32_t grid[3];
    size_t rows, count;
    float *values;

    unit_image(unit_image_mode(mode), unit_size(row, "from"), true, &image);
    if (!image_prepared_size(s, image.size, &to, grid, &rows, &err) ||
        !image_prepare(s, &image, &err))
        fail_msg("%s: %s", json_dumps(row, 0), err.text);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(
            grid[i], json_integer_value(json_array_get(json_object_get(row, "grid"), i)));
    assert_int_equal(rows, json_integer_value(json_object_get(row, "rows")));
    if (s->sizing == IMAGE_TILES)
        assert_int_equal(image_tiles_shape(s, to),
                         json_integer_value(json_object_get(row, "shape")));
    assert_int_equal(image.mode, IMAGE_RGB);
    assert_int_equal(image.size.width, to.width);
    assert_int_equal(image.size.height, to.height);
    count = (size_t)(to.height / s->patch) * (to.width / s->patch) * patches_width(s);
    values = memory_alloc(count * sizeof(*values));
    patches_fill(s, &image, values);
    unit_digest_is(values, count * sizeof(*values), row, "values");
    free(values);
    image_clear(&image);
}

static void test_image_prepare_is_that_of_the_processors(void **state)
{
    json_t *golden = unit_golden("tests/golden/image_prepare.json");
    const json_t *families = json_object_get(golden, "families");

    (void)state;
    assert_true(json_array_size(families) >= 10);
    for (size_t i = 0; i < json_array_size(families); i++) {
        const json_t *family = json_array_get(families, i);
        const json_t *config = json_object_get(family, "config");
        const json_t *cases = json_object_get(family, "cases");
        struct image_size limit = unit_size(family, "limits");
        const struct image_limits limits = {
            limit.width, limit.height, json_is_true(json_object_get(family, "crops"))
        };
        char *dir = folder_of(config, json_object_get(family, "processor"));
        struct image_settings settings;
        struct error err = { 0 };

        if (!image_settings_read(dir, type_of(config), &limits, &settings, &err))
            fail_msg("%s: %s", json_string_value(json_object_get(family, "name")),
                     err.text);
        assert_true(json_array_size(cases) > 0);
        for (size_t k = 0; k < json_array_size(cases); k++)
            check_case(&settings, json_array_get(cases, k));
        unit_dir_free(dir);
    }
    json_decref(golden);
}

/* ---- Refused sizes ---- */

static const struct image_settings qwen = {
    .limits = { 768 * 768, 32 * 32, false },
    .widened = true,
    .sizing = IMAGE_MULTIPLE,
    .filter = IMAGE_BICUBIC,
    .pixels_min = 3136,
    .pixels_max = 100352,
    .unit = 28,
    .patch = 14,
    .copies = 2,
    .merge = 2,
};

static void expect_size_refused(const struct image_settings *s, uint32_t width,
                                uint32_t height, const char *why)
{
    struct error err = { 0 };
    struct image_size to;
    int32_t grid[3];
    size_t rows;

    if (image_prepared_size(s, (struct image_size) { width, height }, &to, grid, &rows,
                            &err))
        fail_msg("%u x %u became %u x %u", width, height, to.width, to.height);
    assert_int_equal(err.code, ERROR_DATA);
    if (!strstr(err.text, why))
        fail_msg("%s", err.text);
}

static void test_image_prepared_size_refuses_extremes(void **state)
{
    struct image_settings s = qwen;

    (void)state;
    expect_size_refused(&s, 0, 5, "image of 0 x 5 pixels is not supported");
    expect_size_refused(&s, 1 << 20, 1 << 20, "is not supported, only from 1 to");
    expect_size_refused(&s, 1 << 20, 1, "has a side of 0 within image_max_pixels");
    expect_size_refused(&s, 1, 1 << 20, "has a side of 0 within image_max_pixels");
    s.widened = false;
    expect_size_refused(&s, 6000, 2, "has an aspect ratio of more than 200");
    s.sizing = IMAGE_SHORTEST;
    s.size = (struct image_size) { 1 << 14, 1 << 14 };
    expect_size_refused(&s, 6000, 2, "is too narrow for the processor");
    s.sizing = IMAGE_LONGEST;
    s.size = (struct image_size) { 16, 16 };
    expect_size_refused(&s, 2, 6000, "is too narrow for the processor");
    s.sizing = IMAGE_FIXED;
    s.size = (struct image_size) { 1 << 14, 1 << 14 };
    expect_size_refused(&s, 64, 64, "16384 x 16384 pixels is not supported");
    s.sizing = IMAGE_TILES;
    s.tiles = 64;
    expect_size_refused(&s, 64, 6000, "16384 x 16384 pixels is not supported");
    s.sizing = IMAGE_KEEP;
    expect_size_refused(&s, 64, 60, "not multiples of 28");
    s.square = true;
    s.limits = (struct image_limits) { 1 << 30, 1, false };
    expect_size_refused(&s, 1 << 20, 3, "is too narrow to be made square");
}

/* ---- Refused files ---- */

static const char qwen_config[] = "{'model_type': 'qwen2_5_vl', 'vision_config': "
                                  "{'patch_size': 14, 'window_size': 112}}";
static const char llava_config[] =
    "{'model_type': 'llava', 'vision_config': {'model_type': 'clip_vision_model', "
    "'patch_size': 14, 'image_size': 336}}";
static const char gemma_config[] = "{'model_type': 'gemma3', 'vision_config': "
                                   "{'patch_size': 14, 'image_size': 896}}";

static const char lfm2_config[] =
    "{'model_type': 'lfm2_vl', 'vision_config': {'model_type': 'siglip2_vision_model'}}";
static const char gemma4_config[] =
    "{'model_type': 'gemma4_unified', 'text_config': {'sliding_window': 512}, "
    "'vision_config': {}}";
static const char llama4_config[] =
    "{'model_type': 'llama4', 'vision_config': {'image_size': 336}}";
static const char internvl_config[] =
    "{'model_type': 'internvl', 'downsample_ratio': 0.3, 'vision_config': {'model_type': "
    "'internvl_vision'}}";

static const char mllama_config[] = "{'model_type': 'mllama', 'vision_config': "
                                    "{'patch_size': 14, 'image_size': 560}}";

static json_t *json_of(const char *text)
{
    char *copy = memory_strdup(text);
    struct error err = { 0 };
    json_t *out;

    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    out = json_read_text(copy, strlen(copy), "text", 1, &err);
    if (!out)
        fail_msg("%s", err.text);
    free(copy);
    return out;
}

static void expect_read(const char *config, const char *processor, const char *why)
{
    const struct image_limits limits = { 589824, 1024, false };
    json_t *root = json_of(config), *other = processor ? json_of(processor) : NULL;
    char *dir = folder_of(root, other);
    struct image_settings settings;
    struct error err = { 0 };
    bool ok = image_settings_read(dir, type_of(root), &limits, &settings, &err);

    if (ok != !why || (why && (err.code != ERROR_DATA || !strstr(err.text, why))))
        fail_msg("%s %s: %s, not %s", config, processor, ok ? "is read" : err.text, why);
    unit_dir_free(dir);
    json_decref(root);
    json_decref(other);
}

static void test_image_settings_refuse_what_is_not_supported(void **state)
{
    static const struct {
        const char *config, *processor, *why; /* NULL: read */
    } cases[] = {
        { qwen_config, "{}", NULL },
        { qwen_config, NULL, "has no preprocessor_config.json" },
        { internvl_config, "{}", "downsample_ratio must be 1, 1/2, 1/4 and so on" },
        { llama4_config, "{}", NULL },
        { llama4_config, "{'size': {'height': 448, 'width': 448}}",
          "must be 336 x 336, the image_size of config.json" },
        { llama4_config, "{'max_patches': 65}", "max_patches" },
        { llama4_config, "{'resize_to_max_canvas': true}", "true is not supported" },
        { llama4_config, "{'do_normalize': false}", "must be true" },
        { llama4_config, "{'do_rescale': false}", "must be true" },
        { gemma4_config, "{}", NULL },
        { gemma4_config, "{'max_soft_tokens': 300}",
          "must be 70, 140, 280, 560 or 1120" },
        { gemma4_config, "{'max_soft_tokens': 560}",
          "max_soft_tokens must be at most the sliding_window of config.json, 512" },
        { gemma4_config, "{'patch_size': 14}",
          "times pooling_kernel_size must be as in" },
        { lfm2_config, "{}", NULL },
        { lfm2_config, "{'do_resize': false}", NULL },
        { lfm2_config, "{'encoder_patch_size': 14}",
          "encoder_patch_size must be patch_size of vision_config" },
        { lfm2_config, "{'downsample_factor': 4}", "must be that of config.json" },
        { lfm2_config, "{'min_image_tokens': 300}", "is larger than max_image_tokens" },
        { qwen_config, "{'image_processor_type': 'CLIPImageProcessor'}",
          "image_processor_type CLIPImageProcessor does not fit the model" },
        { qwen_config, "{'image_processor_type': 'ViTImageProcessor'}",
          "image_processor_type ViTImageProcessor is not supported" },
        { qwen_config, "{'patch_size': 16}",
          "patch_size must be 14 as in vision_config" },
        { qwen_config, "{'merge_size': 4}", "merge_size must be 2 as in vision_config" },
        { qwen_config, "{'temporal_patch_size': 1}", "temporal_patch_size must be 2" },
        { qwen_config, "{'min_pixels': 0}", "min_pixels must be from 1 to 178956970" },
        { qwen_config, "{'min_pixels': 9000, 'max_pixels': 8000}",
          "is larger than max_pixels" },
        { qwen_config, "{'size': {'shortest_edge': 3136}}",
          "longest_edge must be from 1" },
        { qwen_config, "{'size': 5}", "size must be an object" },
        { qwen_config, "{'resample': 4}", "resample must be from 0 to 3, not 4" },
        { qwen_config, "{'image_std': [0.5, 0, 0.5]}", "image_std must be positive" },
        { qwen_config, "{'image_mean': [0.5, 0.5]}", "must be a list of three numbers" },
        { qwen_config, "{'image_mean': [0.5, 'a', 1]}",
          "must be a list of three numbers" },
        { qwen_config, "{'rescale_factor': 0}", "rescale_factor must be a positive" },
        { qwen_config, "{'do_resize': 'yes'}", "do_resize" },
        { "{'model_type': 'qwen2_vl', 'vision_config': {'patch_size': [14, 15]}}", "{}",
          "patch_size must be a number, or a list of two equal ones" },
        { "{'model_type': 'qwen2_vl', 'vision_config': 5}", "{}",
          "vision_config must be an object" },
        { "{'model_type': 'blip', 'vision_config': {}}", "{}",
          "images of a blip with a vision_config of model_type null are not supported" },
        { llava_config, "{'size': 336, 'crop_size': 336}", NULL },
        { llava_config, "{'size': 336, 'do_center_crop': false}",
          "size (or crop_size) must be 336 x 336, the image_size of config.json" },
        { llava_config, "{'size': [336, 336], 'do_center_crop': false}", NULL },
        { llava_config, "{}", "must be 336 x 336" },
        { llava_config,
          "{'size': {'shortest_edge': 336, 'longest_edge': 672}, 'crop_size': 336}",
          "size must have shortest_edge, or height and width, only" },
        { llava_config,
          "{'image_processor_type': 'CLIPImageProcessor', 'size': 336, 'crop_size': 336, "
          "'do_pad': true}",
          "do_pad true is not supported" },
        { gemma_config, "{'size': {'height': 896, 'width': 896}}", NULL },
        { gemma_config,
          "{'size': {'height': 896, 'width': 896}, 'do_pan_and_scan': true}",
          "do_pan_and_scan true is not supported" },
        { gemma_config, "{'size': {'height': 896, 'width': 0}}", "width must be from 1" },
        { mllama_config, "{'size': 560}", NULL },
        { mllama_config, "{'size': [560, 500]}",
          "size must have the same height and width" },
        { mllama_config, "{'size': 448}", "must be 560 x 560" },
        { mllama_config, "{'size': 560, 'max_image_tiles': 0}",
          "max_image_tiles must be" },
        { mllama_config, "{'size': 560, 'do_pad': false}", "do_pad must be true" },
        { mllama_config, "{'size': 560, 'do_resize': false}", "do_resize must be true" },
        { "{'model_type': 'gemma3', 'mm_tokens_per_image': 250, 'vision_config': "
          "{'patch_size': 14, 'image_size': 896}}",
          "{'size': 896}", "mm_tokens_per_image must be a square number" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        expect_read(cases[i].config, cases[i].processor, cases[i].why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image_prepare_is_that_of_the_processors),
        cmocka_unit_test(test_image_prepared_size_refuses_extremes),
        cmocka_unit_test(test_image_settings_refuse_what_is_not_supported),
    };

    return cmocka_run_group_tests_name("image_prepare", tests, NULL, NULL);
}
