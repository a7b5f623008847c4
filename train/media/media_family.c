/* train/media/media_family.c - the table of families. */
#include "config.h"

#include "train/media/media_family.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"

#define CONFIG_MAX ((size_t)16 << 20)

#define QWEN_IMAGE                                                               \
    .kind = MEDIA_IMAGE, .token = "<|image_pad|>", .before = "<|vision_start|>", \
    .after = "<|vision_end|>", .merge = 2, .has_grid = true

#define QWEN3_5_TEMPLATES "qwen3_5, qwen3_5_nothink or qwen3_6"
#define LLAVA_IMAGE       .kind = MEDIA_IMAGE, .token = "<image>"
#define PIXTRAL_IMAGE                                                                    \
    .kind = MEDIA_IMAGE, .token = "[IMG]", .row_end = "[IMG_BREAK]", .end = "[IMG_END]", \
    .has_grid = true

/* Sources: LLaMA-Factory, src/llamafactory/data/template.py and mm_plugin.py at ff6d4d12;
 * transformers/models/NAME/processing_NAME.py (5.24) for families without a template
 * there. */
static const struct media_family families[] = {
    { .model_type = "audioflamingo3", .kind = MEDIA_AUDIO, .token = "<sound>" },
    { .model_type = "gemma3",
      .kind = MEDIA_IMAGE,
      .token = "<image_soft_token>",
      .before = "\n\n<start_of_image>",
      .after = "<end_of_image>\n\n",
      .written = "<start_of_image>",
      .templates = "gemma3" },
    { .model_type = "gemma4_unified",
      .kind = MEDIA_IMAGE,
      .token = "<|image|>",
      .before = "<|image>",
      .after = "<image|>",
      .written = "<|image|>",
      .templates = "gemma4" },
    { .model_type = "glm4v",
      .kind = MEDIA_IMAGE,
      .token = "<|image|>",
      .before = "<|begin_of_image|>",
      .after = "<|end_of_image|>",
      .merge = 2,
      .has_grid = true,
      .templates = "glm4v" },
    { .model_type = "internvl",
      .kind = MEDIA_IMAGE,
      .token = "<IMG_CONTEXT>",
      .before = "<img>",
      .after = "</img>",
      .written = "<IMG_CONTEXT>",
      .templates = "intern_vl" },
    { .model_type = "lfm2_vl",
      LLAVA_IMAGE,
      .written = "<image>",
      .own_before = "<|image_start|>",
      .own_after = "<|image_end|>",
      .templates = "lfm2_vl" },
    { .model_type = "llama4",
      .kind = MEDIA_IMAGE,
      .token = "<|image|>",
      .patch = "<|patch|>",
      .row_end = "<|tile_x_separator|>",
      .end = "<|tile_y_separator|>",
      .before = "<|image_start|>",
      .after = "<|image_end|>",
      .written = "<|image|>",
      .merge = 2,
      .has_grid = true,
      .templates = "llama4" },
    { .model_type = "llava",
      .vision = "pixtral",
      PIXTRAL_IMAGE,
      .merge = 1,
      .templates = "pixtral" },
    { .model_type = "llava", LLAVA_IMAGE, .templates = "llava" },
    { .model_type = "llava_next",
      LLAVA_IMAGE,
      .templates = "llava_next, or one of its kind" },
    { .model_type = "llava_onevision", LLAVA_IMAGE },
    { .model_type = "mistral3",
      PIXTRAL_IMAGE,
      .merge = 2,
      .templates = "mistral_small or ministral3" },
    { .model_type = "mllama",
      .kind = MEDIA_IMAGE,
      .token = "<|image|>",
      .beside = true,
      .templates = "mllama" },
    { .model_type = "paddleocr_vl",
      .kind = MEDIA_IMAGE,
      .token = "<|IMAGE_PLACEHOLDER|>",
      .before = "<|IMAGE_START|>",
      .after = "<|IMAGE_END|>",
      .merge = 2,
      .has_grid = true },
#define PHI4_SOUND                                                           \
    .kind = MEDIA_AUDIO, .token_key = "audio_token", .numbered = "<|audio_", \
    .template_token = "<|endoftext11|>", .templates = "phi4_mini"
    { .model_type = "phi4_multimodal", PHI4_SOUND, .token = "<|endoftext11|>" },
    { .model_type = "phi4_multimodal", PHI4_SOUND, .token = "<|audio|>" },
    { .model_type = "phi4mm", PHI4_SOUND, .token = "<|endoftext11|>" },
    { .model_type = "qwen2_audio",
      .kind = MEDIA_AUDIO,
      .token = "<|AUDIO|>",
      .before = "<|audio_bos|>",
      .after = "<|audio_eos|>",
      .templates = "qwen2_audio" },
    { .model_type = "qwen2_5_vl", QWEN_IMAGE, .templates = "qwen2_vl" },
    { .model_type = "qwen2_vl", QWEN_IMAGE, .templates = "qwen2_vl" },
    { .model_type = "qwen3_5", QWEN_IMAGE, .templates = QWEN3_5_TEMPLATES },
    { .model_type = "qwen3_5_moe", QWEN_IMAGE, .templates = QWEN3_5_TEMPLATES },
    { .model_type = "qwen3_vl", QWEN_IMAGE, .templates = "qwen3_vl or qwen3_vl_nothink" },
    { .model_type = "qwen3_vl_moe",
      QWEN_IMAGE,
      .templates = "qwen3_vl or qwen3_vl_nothink" },
    { .model_type = "voxtral",
      .kind = MEDIA_AUDIO,
      .token = "[AUDIO]",
      .before = "[BEGIN_AUDIO]" },
};

const struct media_family *media_family_find(const char *model_type, const char *vision)
{
    for (size_t i = 0; i < TS_COUNT(families); i++) {
        const struct media_family *family = &families[i];

        if (strcmp(family->model_type, model_type) == 0 &&
            (!family->vision || (vision && strcmp(family->vision, vision) == 0)))
            return family;
    }
    return NULL;
}

static json_t *read_file(const char *model_dir, const char *name)
{
    char *path = model_dir ? path_join(model_dir, name) : NULL;
    json_t *root = path ? json_read_loose_file(path, CONFIG_MAX, NULL) : NULL;

    free(path);
    return root;
}

/* transformers' attribute_map of the configurations: both names are read. */
int64_t media_family_token(const struct media_family *family, const char *model_dir)
{
    static const char *const keys[MEDIA_KINDS][2] = {
        [MEDIA_IMAGE] = { "image_token_id", "image_token_index" },
        [MEDIA_AUDIO] = { "audio_token_id", "audio_token_index" },
    };
    json_t *root = read_file(model_dir, "config.json");
    const json_t *sections[] = { json_object_get(root, "audio_config"), root };
    int64_t id = -1;

    for (size_t i = 0; i < TS_COUNT(keys[0]) * TS_COUNT(sections); i++) {
        const json_t *value = json_object_get(sections[i / TS_COUNT(keys[0])],
                                              keys[family->kind][i % TS_COUNT(keys[0])]);

        if (json_is_integer(value))
            id = json_integer_value(value);
    }
    json_decref(root);
    return id;
}

/* Return the row whose token is the one of the tokenizer. */
static const struct media_family *with_token(const struct media_family *family,
                                             const char *model_dir)
{
    json_t *root = read_file(model_dir, "tokenizer_config.json");
    const json_t *value = json_object_get(root, family->token_key);
    const char *token = json_string_value(
        json_is_object(value) ? json_object_get(value, "content") : value);

    for (size_t i = 0; token && i < TS_COUNT(families); i++)
        if (strcmp(families[i].model_type, family->model_type) == 0 &&
            strcmp(families[i].token, token) == 0)
            family = &families[i];
    json_decref(root);
    return family;
}

const struct media_family *media_family_read(const char *model_dir, char **model_type)
{
    const struct media_family *family = NULL;
    json_t *root = read_file(model_dir, "config.json");
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const json_t *vision = json_object_get(root, "vision_config");

    if (type)
        family = media_family_find(
            type, json_string_value(json_object_get(vision, "model_type")));
    if (family && family->token_key)
        family = with_token(family, model_dir);
    if (model_type)
        *model_type = type ? memory_strdup(type) : NULL;
    json_decref(root);
    return family;
}

const char *media_family_row_token(const struct media_family *family)
{
    return family->patch ? family->patch : family->token;
}

uint32_t media_family_tile(uint32_t rows, uint32_t down, uint32_t across)
{
    const uint64_t tiles = (uint64_t)down * across;
    uint32_t side = 1;

    if (rows == tiles && down == across)
        return down;
    while (tiles < rows && (uint64_t)side * side < rows - tiles)
        side++;
    return (uint64_t)side * side + tiles == rows && down % side == 0 &&
                   across % side == 0 && tiles > (uint64_t)side * side
               ? side
               : 0;
}

const struct media_family *media_family_at(size_t index)
{
    return index < TS_COUNT(families) ? &families[index] : NULL;
}

const char *media_kind_name(enum media_kind kind)
{
    return kind == MEDIA_IMAGE ? "image" : "audio";
}

const char *media_placeholder(enum media_kind kind)
{
    return kind == MEDIA_IMAGE ? "<image>" : "<audio>";
}

size_t media_placeholders(enum media_kind kind, const char *text, size_t len)
{
    const char *mark = media_placeholder(kind), *end = text + len, *found;
    size_t count = 0;

    while ((found = memmem(text, (size_t)(end - text), mark, strlen(mark)))) {
        text = found + strlen(mark);
        count++;
    }
    return count;
}

const char *media_noun(enum media_kind kind)
{
    return kind == MEDIA_IMAGE ? "image" : "sound";
}

const char *media_nouns(enum media_kind kind)
{
    return kind == MEDIA_IMAGE ? "images" : "sounds";
}

const char *media_one(enum media_kind kind)
{
    return kind == MEDIA_IMAGE ? "an image" : "a sound";
}
