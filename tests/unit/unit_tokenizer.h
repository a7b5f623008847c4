/*
 * tests/unit/unit_tokenizer.h - a small byte-level tokenizer for tests: token n is byte
 * n, followed by the special tokens of every template.
 */
#ifndef TESTS_UNIT_UNIT_TOKENIZER_H
#define TESTS_UNIT_UNIT_TOKENIZER_H

#include "tests/unit/unit.h"
#include "train/chat/chat.h"
#include "train/tokenizer/bpe.h"
#include "train/tokenizer/tokenizer.h"
#include "train/text/unicode.h"

static const char *const unit_specials[] = {
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
};

enum { UNIT_SPECIALS = 10, UNIT_BOS = 256, UNIT_EOS = 257 };

static inline void unit_write(const char *dir, const char *name, const struct text *text)
{
    char *path = path_join(dir, name);
    struct error err = { 0 };

    if (!file_replace(path, text->data, text->len, 0600, &err))
        fail_msg("%s", err.text);
    free(path);
}

static inline void unit_write_string(const char *dir, const char *name,
                                     const char *string)
{
    struct text text;

    text_init(&text, 0);
    text_adds(&text, string);
    unit_write(dir, name, &text);
    text_clear(&text);
}

/* Write "c": id, escaped as JSON requires. */
static inline void unit_add_byte(struct text *json, int byte)
{
    char bytes[5] = { 0 };

    unicode_put(bpe_byte_point((unsigned char)byte), bytes);
    text_addf(json, "%s\"%s%s\": %d", byte ? ", " : "",
              bytes[0] == '"' || bytes[0] == '\\' ? "\\" : "", bytes, byte);
}

/* Write tokenizer.json with the first of some special tokens, and tokenizer_config.json,
 * into an existing directory, which can then be opened. */
static inline void unit_tokenizer_write_with(const char *dir, const char *const *names,
                                             size_t specials, bool adds_bos)
{
    struct text json;

    text_init(&json, 0);
    text_adds(&json, "{\"version\": \"1.0\", \"added_tokens\": [");
    for (size_t i = 0; i < specials; i++)
        text_addf(&json, "%s{\"id\": %zu, \"content\": \"%s\", \"special\": true}",
                  i ? ", " : "", 256 + i, names[i]);
    text_adds(
        &json,
        "], \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
        "\"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", "
        "\"merges\": [], \"vocab\": {");
    for (int byte = 0; byte < 256; byte++)
        unit_add_byte(&json, byte);
    text_adds(&json, "}}}");
    unit_write(dir, "tokenizer.json", &json);
    text_clear(&json);
    unit_write_string(dir, "tokenizer_config.json",
                      adds_bos
                          ? "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", "
                            "\"add_bos_token\": true}"
                          : "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": "
                            "\"</s>\"}, \"model_max_length\": 1000000000000000000000}");
}

static inline void unit_tokenizer_write(const char *dir, size_t specials, bool adds_bos)
{
    unit_tokenizer_write_with(dir, unit_specials, specials, adds_bos);
}

static inline struct tokenizer *unit_tokenizer(size_t specials)
{
    char *dir = unit_dir_new();
    struct error err = { 0 };
    struct tokenizer *tokenizer;

    unit_tokenizer_write(dir, specials, false);
    tokenizer = chat_tokenizer_open(dir, &err);
    if (!tokenizer)
        fail_msg("%s", err.text);
    unit_dir_free(dir);
    return tokenizer;
}

#endif
