/*
 * tests/unit/test_gguf_tokenizer.c - a folder with only SentencePiece's file gives the same
 * values as one with tokenizer.json, and the types and scores in the file.
 */
#include "config.h"

#include "train/model/gguf_tokenizer.h"

#include "base/file.h"
#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"
#include "train/tokenizer/sentencepiece.h"

#define LLAMA "data/tokenizers/llama2"

enum { TOKENS = 32000 };

/* Copy a file of the shared folder into another. */
static void copy(const char *from, const char *to, const char *name)
{
    char *source = path_join(from, name), *path = path_join(to, name);
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    if (!file_read(source, SIZE_MAX, &text, NULL, &err) ||
        !file_create(path, text.data, text.len, 0600, &err))
        fail_msg("%s", err.text);
    text_clear(&text);
    free(source);
    free(path);
}

static void values_of(const char *dir, struct gguf_values *out)
{
    const struct model_config config = { .vocab_size = TOKENS, .bos_token_id = 1 };
    struct error err = { 0 };

    gguf_init(out);
    if (!gguf_tokenizer_check(dir, &err) || !gguf_tokenizer_add(dir, &config, out, &err))
        fail_msg("%s", err.text);
}

/* Return the elements of an array, of 4 bytes each. */
static const char *array_of(const struct gguf_values *values, const char *key)
{
    const size_t len = strlen(key), head = 4 + 4 + 8; /* types and count */

    for (size_t i = 0; i + len + head <= values->bytes.len; i++)
        if (memcmp(values->bytes.data + i, key, len) == 0)
            return values->bytes.data + i + len + head;
    fail_msg("no %s", key);
    return NULL;
}

/* Make a folder with tokenizer.model alone, whose tokenizer has this class. */
static char *open_folder(const char *shared, const char *class)
{
    char *dir = unit_dir_new();
    struct text text;

    copy(shared, dir, "tokenizer.model");
    text_init(&text, 0);
    text_addf(
        &text,
        "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"unk_token\": \"<unk>\", "
        "\"add_bos_token\": true, \"tokenizer_class\": \"%s\"}",
        class);
    unit_write(dir, "tokenizer_config.json", &text);
    text_clear(&text);
    return dir;
}

static void read_model(const char *path, struct text *text,
                       struct sentencepiece_model *model)
{
    struct error err = { 0 };

    text_init(text, 0);
    *model = (struct sentencepiece_model) { .count = 0 };
    if (!file_read(path, SIZE_MAX, text, NULL, &err) ||
        !sentencepiece_read(text->data, text->len, model, path, &err))
        fail_msg("%s", err.text);
}

/* As transformers converts the tokenizer of Llama and those of other models, Mistral's:
 * names as in tokenizer.json, types and scores of the file. */
static void test_gguf_reads_the_file_of_sentencepiece(void **state)
{
    static const char *const classes[] = { "LlamaTokenizer", "PreTrainedTokenizerFast" };
    char *shared = unit_shared(LLAMA), *path;
    struct gguf_values with, without;
    struct sentencepiece_model model;
    struct text text;

    (void)state;
    if (!shared)
        unit_need_shared(LLAMA);
    path = path_join(shared, "tokenizer.model");
    read_model(path, &text, &model);
    assert_int_equal(model.count, TOKENS);
    values_of(shared, &with);
    for (size_t i = 0; i < TS_COUNT(classes); i++) {
        char *dir = open_folder(shared, classes[i]);
        const char *scores, *types;
        size_t same;

        values_of(dir, &without);
        assert_int_equal(with.count, without.count);
        assert_int_equal(with.bytes.len, without.bytes.len);
        scores = array_of(&without, "tokenizer.ggml.scores");
        types = array_of(&without, "tokenizer.ggml.token_type");
        same = (size_t)(scores - without.bytes.data);
        assert_memory_equal(with.bytes.data, without.bytes.data, same);
        same += sizeof(float) * TOKENS;
        assert_memory_equal(with.bytes.data + same, without.bytes.data + same,
                            with.bytes.len - same);
        for (size_t t = 0; t < TOKENS; t++) {
            int32_t type;
            float score;

            memcpy(&score, scores + 4 * t, 4);
            memcpy(&type, types + 4 * t, 4);
            assert_true(score == model.pieces[t].score);
            assert_int_equal(type, model.pieces[t].type);
        }
        gguf_clear(&without);
        unit_dir_free(dir);
    }
    sentencepiece_clear(&model);
    text_clear(&text);
    gguf_clear(&with);
    free(path);
    free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_reads_the_file_of_sentencepiece),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
