/* tests/fuzz/fuzz_media_records.c - records with images and sounds: each becomes tokens that
 * its feature rows replace one by one, or is reported with its position. Input: one byte
 * for model and stage, one for cutoff_len, then a file of JSON lines. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "train/chat/chat.h"
#include "train/dataset/dataset.h"
#include "train/files/safetensors.h"
#include "train/text/unicode.h"
#include "train/tokenizer/bpe.h"

static const char *const specials[] = {
    "<|im_start|>",     "<|im_end|>",     "<|vision_start|>",   "<|vision_end|>",
    "<|image_pad|>",    "<|AUDIO|>",      "<|audio_bos|>",      "<|audio_eos|>",
    "<start_of_image>", "<end_of_image>", "<image_soft_token>", "<start_of_turn>",
    "<end_of_turn>",    "[IMG]",          "[IMG_BREAK]",        "[IMG_END]",
};

/* Models, each with a template: NULL: its own. */
static const struct {
    const char *name, *config, *template_name, *token;
} models[] = {
    { "vl", "{\"model_type\": \"qwen2_vl\"}", "qwen2_vl", "<|image_pad|>" },
    { "own", "{\"model_type\": \"gemma3\"}", NULL, "<image_soft_token>" },
    { "sound", "{\"model_type\": \"qwen2_audio\"}", "qwen2_audio", "<|AUDIO|>" },
    { "rows",
      "{\"model_type\": \"llava\", \"vision_config\": {\"model_type\": \"pixtral\"}}",
      "pixtral", "[IMG]" },
};
static const enum stage stages[] = { STAGE_SFT, STAGE_DPO, STAGE_KTO, STAGE_PT };

static const char own_template[] =
    "{% for m in messages %}<start_of_turn>{{ m.role }}:"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'image' %}<start_of_image>{% else %}{{ p.text }}{% endif %}"
    "{% endfor %}{% endif %}<end_of_turn>{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>assistant:{% endif %}";

static void write_model(const char *dir, const char *name, const char *text, size_t len)
{
    char *path = path_join(dir, name);
    FILE *file = fopen(path, "w");

    FUZZ_HOLDS(file && fwrite(text, 1, len, file) == len && fclose(file) == 0);
    free(path);
}

static void write_tokenizer(const char *dir)
{
    struct text json;

    text_init(&json, 0);
    text_adds(&json, "{\"version\": \"1.0\", \"added_tokens\": [");
    for (size_t i = 0; i < TS_COUNT(specials); i++)
        text_addf(&json, "%s{\"id\": %zu, \"content\": \"%s\", \"special\": true}",
                  i ? ", " : "", 256 + i, specials[i]);
    text_adds(&json,
              "], \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
              "false}, \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": "
              "\"BPE\", \"merges\": [], \"vocab\": {");
    for (int byte = 0; byte < 256; byte++) {
        char bytes[5] = { 0 };

        unicode_put(bpe_byte_point((unsigned char)byte), bytes);
        text_addf(&json, "%s\"%s%s\": %d", byte ? ", " : "",
                  bytes[0] == '"' || bytes[0] == '\\' ? "\\" : "", bytes, byte);
    }
    text_adds(&json, "}}}");
    write_model(dir, "tokenizer.json", json.data, json.len);
    text_clear(&json);
}

static bool read_tensor(const void *context, size_t index, void *to, struct error *err)
{
    static const int32_t grid[] = { 1, 4, 6 };

    (void)context, (void)err;
    if (index > 0)
        memcpy(to, grid, sizeof(grid));
    else
        memset(to, 0, 6 * sizeof(float));
    return true;
}

/* Two media of six rows. "b" has a grid of a model with merged patches, "p" with single
 * ones. */
static const char *features(void)
{
    static char *path;
    const struct tensor_source sources[] = {
        { .name = "a",
          .format = FORMAT_FP32,
          .rank = 2,
          .shape = { 6, 1 },
          .read = read_tensor },
        { .name = "a#grid",
          .dtype = "I32",
          .rank = 1,
          .shape = { 3 },
          .read = read_tensor,
          .index = 1 },
        { .name = "b",
          .format = FORMAT_FP32,
          .rank = 2,
          .shape = { 1, 1 },
          .read = read_tensor },
    };

    if (!path) {
        path = path_join(fuzz_dir(), "features.safetensors");
        remove(path);
        FUZZ_HOLDS(safetensors_write(path, sources, TS_COUNT(sources), NULL));
    }
    return path;
}

static const struct tokenizer *tokenizer_of(size_t model, char **dir)
{
    static struct tokenizer *tokenizers[TS_COUNT(models)];
    static char *dirs[TS_COUNT(models)];

    if (!tokenizers[model]) {
        dirs[model] = path_join(fuzz_dir(), models[model].name);
        FUZZ_HOLDS(file_make_dirs(dirs[model], 0700, NULL));
        write_tokenizer(dirs[model]);
        write_model(dirs[model], "config.json", models[model].config,
                    strlen(models[model].config));
        if (!models[model].template_name)
            write_model(dirs[model], "chat_template.jinja", own_template,
                        sizeof(own_template) - 1);
        tokenizers[model] = chat_tokenizer_open(dirs[model], NULL);
        FUZZ_HOLDS(tokenizers[model]);
    }
    *dir = dirs[model];
    return tokenizers[model];
}

static void check_batch(const struct dataset *dataset, const struct batch *batch,
                        int32_t token)
{
    size_t tokens = 0, rows = 0;

    for (size_t i = 0; i < batch->rows; i++)
        tokens += batch->tokens[i] == token;
    FUZZ_HOLDS(tokens == batch->media_rows);
    FUZZ_HOLDS(batch->media_rows <= dataset_media_rows_max(dataset, 2));
    for (size_t i = 0; i < batch->media_count; i++) {
        FUZZ_HOLDS(batch->media[i].first == rows);
        rows += batch->media[i].item->rows;
    }
    FUZZ_HOLDS(rows == batch->media_rows);
    for (size_t i = 0; i < rows; i++)
        FUZZ_HOLDS(batch->tokens[batch->media_at[i]] == token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    size_t model = len > 0 ? data[0] % TS_COUNT(models) : 0;
    size_t stage = len > 0 ? data[0] / TS_COUNT(models) % TS_COUNT(stages) : 0;
    struct plan plan = { .stage = stages[stage],
                         .template_name = models[model].template_name,
                         .dataset = "data.jsonl",
                         .dataset_dir = fuzz_dir(),
                         .features = features(),
                         .packing = CHOICE_NO,
                         .cutoff_len = len > 1 ? 2 + 2 * data[1] : 64,
                         .disable_shuffling = true };
    struct batch batch = { 0 };
    struct error err = { 0 };
    struct dataset *dataset;
    const struct tokenizer *tokenizer;
    char *dir;

    tokenizer = tokenizer_of(model, &dir);
    plan.model_name_or_path = dir;
    fuzz_file("data.jsonl", data + (len > 1 ? 2 : len), len > 1 ? len - 2 : 0);
    dataset = dataset_open_readonly(&plan, SPLIT_TRAIN, tokenizer, &err);
    FUZZ_HOLDS(dataset || err.code == ERROR_DATA);
    for (uint64_t i = 0; dataset && dataset_batch(dataset, 0, i, 2, &batch); i++)
        check_batch(dataset, &batch,
                    (int32_t)tokenizer_find(tokenizer, models[model].token));
    batch_clear(&batch);
    dataset_close(dataset);
    return 0;
}
