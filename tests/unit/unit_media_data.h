/* tests/unit/unit_media_data.h - for tests of data with media: a tokenizer of bytes with the
 * tokens of media, a model's config.json, and a file of features. */
#ifndef TESTS_UNIT_UNIT_MEDIA_DATA_H
#define TESTS_UNIT_UNIT_MEDIA_DATA_H

#include "tests/unit/unit_tokenizer.h"
#include "train/dataset/dataset.h"
#include "train/files/safetensors.h"

/* Token 256 and on; the first are those of unit_tokenizer.h. */
static const char *const unit_media_specials[] = {
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<|audio_bos|>",
    "<|audio_eos|>",
    "<|AUDIO|>",
    "<start_of_image>",
    "<end_of_image>",
    "<image_soft_token>",
    "<image>",
    "[IMG]",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[INST]",
    "[/INST]",
    "<img>",
    "</img>",
    "<IMG_CONTEXT>",
    "<|image|>",
    "<|begin_of_image|>",
    "<|end_of_image|>",
    "<|user|>",
    "<|observation|>",
    "</answer>",
    "<|image>",
    "<image|>",
    "<|turn>",
    "<turn|>",
    "<|header_start|>",
    "<|header_end|>",
    "<|eot|>",
    "<|image_start|>",
    "<|image_end|>",
    "<|patch|>",
    "<|tile_x_separator|>",
    "<|tile_y_separator|>",
    "<|assistant|>",
    "<|end|>",
    "<|endoftext11|>",
    "<|audio|>",
    "<|IMAGE_START|>",
    "<|IMAGE_PLACEHOLDER|>",
    "<|IMAGE_END|>",
};

enum {
    UNIT_MEDIA_SPECIALS = sizeof(unit_media_specials) / sizeof(unit_media_specials[0]),
    UNIT_IMAGE_PAD = 256 + 12,
    UNIT_AUDIO = 256 + 16
};

/* Append the text of a batch, in which repeated tokens are counted: "<|image_pad|>*3". */
static inline void unit_media_describe(const struct batch *batch, struct text *out)
{
    for (size_t i = 0; i < batch->rows; i++) {
        uint32_t id = (uint32_t)batch->tokens[i];
        size_t count = 1;

        while (id >= 256 && i + 1 < batch->rows && batch->tokens[i + 1] == (int32_t)id) {
            i++;
            count++;
        }
        if (id < 256)
            text_addc(out, (char)id);
        else
            text_adds(out, unit_media_specials[id - 256]);
        if (count > 1)
            text_addf(out, "*%zu", count);
    }
}

/* The tokenizer's files and config.json in a directory. */
static inline struct tokenizer *unit_media_model(const char *dir, const char *config)
{
    struct error err = { 0 };
    struct tokenizer *tokenizer;

    unit_tokenizer_write_with(dir, unit_media_specials, UNIT_MEDIA_SPECIALS, false);
    unit_write_string(dir, "config.json", config);
    tokenizer = chat_tokenizer_open(dir, &err);
    if (!tokenizer)
        fail_msg("%s", err.text);
    return tokenizer;
}

/* Feature rows of one element each; a grid with 0 frames: none. */
struct unit_feature {
    const char *name;
    size_t rows;
    int32_t grid[3];
};

static inline bool unit_feature_read(const void *context, size_t index, void *to,
                                     struct error *err)
{
    const struct unit_feature *feature = context;

    (void)err;
    if (index == 0)
        memset(to, 0, feature->rows * sizeof(float));
    else
        memcpy(to, feature->grid, sizeof(feature->grid));
    return true;
}

/* Write a file of features; it replaces one of the same name. */
static inline void unit_features_write(const char *dir, const char *name,
                                       const struct unit_feature *features, size_t count)
{
    struct tensor_source *sources = memory_alloc(2 * count * sizeof(*sources));
    char **names = memory_alloc(count * sizeof(*names));
    char *path = path_join(dir, name);
    struct error err = { 0 };
    size_t tensors = 0;

    remove(path);
    for (size_t i = 0; i < count; i++) {
        struct text text;

        sources[tensors++] = (struct tensor_source) { .name = features[i].name,
                                                      .format = FORMAT_FP32,
                                                      .rank = 2,
                                                      .shape = { features[i].rows, 1 },
                                                      .read = unit_feature_read,
                                                      .context = &features[i] };
        text_init(&text, 0);
        text_addf(&text, "%s#grid", features[i].name);
        names[i] = text_detach(&text, NULL);
        if (features[i].grid[0] > 0)
            sources[tensors++] = (struct tensor_source) { .name = names[i],
                                                          .dtype = "I32",
                                                          .rank = 1,
                                                          .shape = { 3 },
                                                          .read = unit_feature_read,
                                                          .context = &features[i],
                                                          .index = 1 };
    }
    if (!safetensors_write(path, sources, tensors, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
    free(sources);
    free(path);
}

#endif
