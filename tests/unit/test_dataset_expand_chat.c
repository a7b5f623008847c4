/* tests/unit/test_dataset_expand_chat.c - media in conversations that a model's own chat
 * template writes: as transformers' processors expand them. */
#include "config.h"

#include "train/dataset/dataset.h"

#include "base/size.h"
#include "tests/unit/unit_media_data.h"
#include "train/chat/template.h"

#define GEMMA  "{\"model_type\": \"gemma3\"}"
#define QWEN   "{\"model_type\": \"qwen2_vl\"}"
#define LLAVA  "{\"model_type\": \"llava\"}"
#define GEMMA4 "{\"model_type\": \"gemma4_unified\"}"
#define PADDLE "{\"model_type\": \"paddleocr_vl\"}"
#define LFM2   "{\"model_type\": \"lfm2_vl\"}"

/* As Gemma 3's: a mark for an image, which its processor replaces. */
#define GEMMA_TEMPLATE                                                                  \
    "{%- for message in messages -%}{{ '<start_of_turn>' + message['role'] + '\\n' }}"  \
    "{%- if message['role'] == 'assistant' -%}{% generation %}{{ message['content'] }}" \
    "{{ '<end_of_turn>' }}{% endgeneration %}"                                          \
    "{%- elif message['content'] is string -%}{{ message['content'] | trim }}"          \
    "{%- else -%}{%- for item in message['content'] -%}"                                \
    "{%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}"                        \
    "{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}"         \
    "{%- endfor -%}{%- endif -%}{{ '\\n' }}{%- endfor -%}"                              \
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>assistant\\n' }}{%- endif -%}"

/* Of texts alone. */
#define TEXT_TEMPLATE                                                                 \
    "{%- for message in messages -%}{{ message['role'] + ':' + message['content'] + " \
    "'\\n' }}{%- endfor -%}{%- if add_generation_prompt -%}{{ 'assistant:' }}{%- endif -%}"

/* As Llava's: the images of a message come first. */
#define FIRST_TEMPLATE                                                                \
    "{%- for message in messages -%}{{ message['role'] + ':' }}"                      \
    "{%- if message['content'] is string -%}{{ message['content'] }}{%- else -%}"     \
    "{%- for item in message['content'] | selectattr('type', 'equalto', 'image') -%}" \
    "{{ '<image>\\n' }}{%- endfor -%}"                                                \
    "{%- for item in message['content'] | selectattr('type', 'equalto', 'text') -%}"  \
    "{{ item['text'] }}{%- endfor -%}{%- endif -%}{{ '\\n' }}{%- endfor -%}"          \
    "{%- if add_generation_prompt -%}{{ 'assistant:' }}{%- endif -%}"

#define QWEN_TEMPLATE                                                                   \
    "{%- for message in messages -%}{{ message['role'] + ':' }}"                        \
    "{%- if message['content'] is string -%}{{ message['content'] }}{%- else -%}"       \
    "{%- for item in message['content'] -%}{%- if item['type'] == 'image' -%}"          \
    "{{ '<|vision_start|><|image_pad|><|vision_end|>' }}{%- else -%}{{ item['text'] }}" \
    "{%- endif -%}{%- endfor -%}{%- endif -%}{{ '\\n' }}{%- endfor -%}"                 \
    "{%- if add_generation_prompt -%}{{ 'assistant:' }}{%- endif -%}"

#define GEMMA4_TEMPLATE                                                           \
    "{%- for message in messages -%}{{ message['role'] + ':' }}"                  \
    "{%- if message['content'] is string -%}{{ message['content'] }}{%- else -%}" \
    "{%- for item in message['content'] -%}{%- if item['type'] == 'image' -%}"    \
    "{{ '<|image|>' }}{%- else -%}{{ item['text'] }}"                             \
    "{%- endif -%}{%- endfor -%}{%- endif -%}{{ '\\n' }}{%- endfor -%}"           \
    "{%- if add_generation_prompt -%}{{ 'assistant:' }}{%- endif -%}"

/* Of lists of parts alone, as PaddleOCR-VL's. */
#define PADDLE_TEMPLATE                                                                 \
    "{%- for message in messages -%}{%- if message['role'] == 'user' -%}{{ 'User: ' }}" \
    "{%- for item in message['content'] -%}{%- if item['type'] == 'image' -%}"          \
    "{{ '<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>' }}{%- endif -%}"            \
    "{%- endfor -%}{%- else -%}{{ 'Assistant: ' }}{%- endif -%}"                        \
    "{%- for item in message['content'] -%}{%- if item['type'] == 'text' -%}"           \
    "{{ item['text'] }}{%- endif -%}{%- endfor -%}"                                     \
    "{{ '\n' if message['role'] == 'user' else '</s>' }}{%- endfor -%}"                 \
    "{%- if add_generation_prompt -%}{{ 'Assistant: ' }}{%- endif -%}"

#define ONE  ", \"images\": [\"a.png\"]"
#define BOTH ", \"images\": [\"a.png\", \"b.png\"]"
#define PARTS \
    "[{\"type\": \"text\", \"text\": \"x\"}, {\"type\": \"image\", \"path\": \"a.png\"}]"

static const struct {
    const char *config, *chat, *content, *columns, *question;
} cases[] = {
    { GEMMA, GEMMA_TEMPLATE, "\" x<image>\\ny\"", ONE,
      "<start_of_turn>user\nx\n\n<start_of_image><image_soft_token>*3<end_of_image>\n\n\ny\n"
      "<start_of_turn>assistant\n" },
    { GEMMA, GEMMA_TEMPLATE, PARTS, "",
      "<start_of_turn>user\nx\n\n<start_of_image><image_soft_token>*3<end_of_image>\n\n\n"
      "<start_of_turn>assistant\n" },
    { GEMMA, TEXT_TEMPLATE, PARTS, "",
      "user:x\n\n<start_of_image><image_soft_token>*3<end_of_image>\n\n\nassistant:" },
    { QWEN, QWEN_TEMPLATE, "\"x<image>\"", ONE,
      "user:x<|vision_start|><|image_pad|>*3<|vision_end|>\nassistant:" },
    { QWEN, QWEN_TEMPLATE, PARTS, "",
      "user:x<|vision_start|><|image_pad|>*3<|vision_end|>\nassistant:" },
    { QWEN, TEXT_TEMPLATE, PARTS, "",
      "user:x<|vision_start|><|image_pad|>*3<|vision_end|>\nassistant:" },
    /* placeholders in text take media from the column, and parts bring their own */
    { QWEN, QWEN_TEMPLATE,
      "[{\"type\": \"image\", \"path\": \"b.png\"}, {\"type\": \"text\", \"text\": "
      "\"<image>x\"}]",
      ONE,
      "user:<|vision_start|><|image_pad|>*2<|vision_end|>"
      "<|vision_start|><|image_pad|>*3<|vision_end|>x\nassistant:" },
    { LLAVA, FIRST_TEMPLATE,
      "[{\"type\": \"image\"}, {\"type\": \"text\", \"text\": \"x\"}, {\"type\": "
      "\"image\"}]",
      BOTH, "user:<image>*3\n<image>*2\nx\nassistant:" },
    { LFM2, FIRST_TEMPLATE, "\"x<image>y<image>\"", BOTH,
      "user:x<|image_start|><image>*3<|image_end|>y<|image_start|><image>*2<|image_end|>\n"
      "assistant:" },
    { GEMMA4, GEMMA4_TEMPLATE, "\"x<image>\"", ONE,
      "user:x<|image><|image|>*3<image|>\nassistant:" },
    { PADDLE, PADDLE_TEMPLATE, "\"<image>x\"", ONE,
      "User: <|IMAGE_START|><|IMAGE_PLACEHOLDER|>*3<|IMAGE_END|>x\nAssistant: " },
    { PADDLE, PADDLE_TEMPLATE, PARTS, "",
      "User: <|IMAGE_START|><|IMAGE_PLACEHOLDER|>*3<|IMAGE_END|>x\nAssistant: " },
};

static struct tokenizer *set_up(const char *dir, const char *config, const char *chat,
                                const char *content, const char *columns)
{
    const struct unit_feature features[] = { { "a.png", 3, { 1, 2, 6 } },
                                             { "b.png", 2, { 1, 4, 2 } } };
    struct text text;

    unit_features_write(dir, "features.safetensors", features, TS_COUNT(features));
    text_init(&text, 0);
    text_addf(&text,
              "{\"messages\": [{\"role\": \"user\", \"content\": %s}, {\"role\": "
              "\"assistant\", \"content\": \"yes\"}]%s}\n",
              content, columns);
    unit_write(dir, "data.jsonl", &text);
    text_clear(&text);
    unit_write_string(dir, "chat_template.jinja", chat);
    return unit_media_model(dir, config);
}

static void expect_targets(const struct batch *batch, const char *expected)
{
    struct text got;

    text_init(&got, 0);
    for (size_t i = 0; i < batch->rows; i++)
        if (batch->targets[i] >= 0 && batch->targets[i] < 256)
            text_addc(&got, (char)batch->targets[i]);
    assert_true(text_starts(got.data, expected));
    text_clear(&got);
}

static void expect_case(size_t index)
{
    char *dir = unit_dir_new(), *features = path_join(dir, "features.safetensors");
    struct tokenizer *tokenizer = set_up(dir, cases[index].config, cases[index].chat,
                                         cases[index].content, cases[index].columns);
    const struct plan plan = { .stage = STAGE_SFT,
                               .model_name_or_path = dir,
                               .dataset = "data.jsonl",
                               .dataset_dir = dir,
                               .features = features,
                               .enable_thinking = true,
                               .cutoff_len = 1000,
                               .data_seed = -1 };
    struct error err = { 0 };
    struct dataset *dataset = dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err);
    struct batch batch = { 0 };
    struct text got;

    if (!dataset)
        fail_msg("case %zu: %s", index, err.text);
    text_init(&got, 0);
    assert_true(dataset_batch(dataset, 0, 0, 1, &batch));
    unit_media_describe(&batch, &got);
    if (!text_starts(got.data, cases[index].question))
        fail_msg("case %zu: %s", index, got.data);
    expect_targets(&batch, "yes");
    assert_true(batch.media_count > 0);
    text_clear(&got);
    batch_clear(&batch);
    dataset_close(dataset);
    tokenizer_close(tokenizer);
    free(features);
    unit_dir_free(dir);
}

static void test_dataset_expand_writes_media_in_the_models_template(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++)
        expect_case(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_expand_writes_media_in_the_models_template),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
