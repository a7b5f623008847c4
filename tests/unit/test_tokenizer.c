/* tests/unit/test_tokenizer.c - the ids of Hugging Face's library on its golden texts,
 * the parts of tokenizer.json one by one, and malicious files. */
#include "config.h"

#include "train/tokenizer/tokenizer.h"

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"

static void expect_ids(const char *folder, const json_t *golden, const char *key,
                       const struct token_list *got)
{
    const json_t *expected = json_object_get(golden, key);
    const char *text = json_string_value(json_object_get(golden, "text"));

    if (json_array_size(expected) != got->count)
        fail_msg("%s: %s of \"%s\": %zu tokens, not %zu", folder, key, text, got->count,
                 json_array_size(expected));
    for (size_t i = 0; i < got->count; i++)
        if (json_integer_value(json_array_get(expected, i)) != got->ids[i])
            fail_msg("%s: %s of \"%s\": token %zu is %u", folder, key, text, i,
                     got->ids[i]);
}

static void expect_case(const char *folder, const struct tokenizer *tokenizer,
                        const json_t *golden)
{
    const json_t *text = json_object_get(golden, "text");
    const json_t *decoded = json_object_get(golden, "decoded");
    struct token_list with = { 0 }, without = { 0 };
    struct error err = { 0 };
    struct text back;

    text_init(&back, 0);
    assert_true(tokenizer_encode(tokenizer, json_string_value(text),
                                 json_string_length(text), true, &with, &err));
    assert_true(tokenizer_encode(tokenizer, json_string_value(text),
                                 json_string_length(text), false, &without, &err));
    expect_ids(folder, golden, "ids", &with);
    expect_ids(folder, golden, "ids_without_specials", &without);
    assert_true(tokenizer_decode(tokenizer, without.ids, without.count, false, &back));
    if (back.len != json_string_length(decoded) ||
        memcmp(back.data, json_string_value(decoded), back.len) != 0)
        fail_msg("%s: decoded \"%s\", not \"%s\"", folder, back.data,
                 json_string_value(decoded));
    text_clear(&back);
    token_list_clear(&with);
    token_list_clear(&without);
}

static void expect_golden(const char *name)
{
    struct error err = { 0 };
    char *folder = unit_shared(name), *file;
    struct tokenizer *tokenizer;
    json_t *golden, *cases;

    if (!folder)
        skip();
    file = path_join(folder, "golden.json");
    golden = json_read_file(file, (size_t)16 << 20, &err);
    tokenizer = tokenizer_open(folder, &err);
    if (!golden || !tokenizer)
        fail_msg("%s", err.text);
    cases = json_object_get(golden, "cases");
    assert_int_equal(json_array_size(cases), 89);
    assert_true(tokenizer_size(tokenizer) >=
                (size_t)json_integer_value(json_object_get(golden, "vocab_size")));
    for (size_t i = 0; i < json_array_size(cases); i++)
        expect_case(name, tokenizer, json_array_get(cases, i));
    tokenizer_close(tokenizer);
    json_decref(golden);
    free(file);
    free(folder);
}

#define GOLDEN(name, folder)                               \
    static void test_tokenizer_golden_##name(void **state) \
    {                                                      \
        (void)state;                                       \
        expect_golden("data/" folder);                     \
    }

GOLDEN(gpt2, "tokenizers/gpt2")
GOLDEN(gpt_neox, "tokenizers/gpt-neox-20b")
GOLDEN(llama2, "tokenizers/llama2")
GOLDEN(llama3, "tokenizers/llama3")
GOLDEN(mistral, "tokenizers/mistral-v0.1")
GOLDEN(qwen2, "tokenizers/qwen2.5")
GOLDEN(slm4096, "slm4096/hf")
GOLDEN(smollm2, "tokenizers/smollm2")
GOLDEN(smollm_padded, "tokenizers/smollm-padded")
GOLDEN(stories260k, "stories260K/hf")

static void test_tokenizer_finds_its_end_tokens(void **state)
{
    char *dir = unit_dir_new(), *file = path_join(dir, "tokenizer.json");
    struct error err = { 0 };
    struct tokenizer *tokenizer;

    (void)state;
    unit_tokenizer_write(dir, UNIT_SPECIALS, true);
    tokenizer = tokenizer_open(dir, &err);
    assert_int_equal(tokenizer_bos(tokenizer), UNIT_BOS);
    assert_int_equal(tokenizer_eos(tokenizer), UNIT_EOS);
    assert_int_equal(tokenizer_pad(tokenizer), -1);
    assert_true(tokenizer_adds_bos(tokenizer));
    assert_int_equal(tokenizer_size(tokenizer), 256 + UNIT_SPECIALS);
    assert_int_equal(tokenizer_find(tokenizer, "<|im_end|>"), 259);
    assert_int_equal(tokenizer_find(tokenizer, "a"), 'a');
    assert_int_equal(tokenizer_find(tokenizer, "\xc4\xa0"), ' ');
    assert_int_equal(tokenizer_find(tokenizer, " "), -1);
    tokenizer_close(tokenizer);
    /* the file alone does not name them */
    tokenizer = tokenizer_open(file, &err);
    assert_int_equal(tokenizer_eos(tokenizer), -1);
    assert_false(tokenizer_adds_bos(tokenizer));
    tokenizer_close(tokenizer);
    free(file);
    unit_dir_free(dir);
}

/* As GPT-2 is published: tokenizer_config.json names no end token, config.json does. */
static void test_tokenizer_takes_its_end_token_from_the_model(void **state)
{
    static const struct {
        const char *tokenizer, *model;
        int64_t eos;
    } rows[] = {
        { "{\"model_max_length\": 1024}", "{\"eos_token_id\": 258}", 258 },
        { "{}", "{\"eos_token_id\": [259, 258]}", 259 },
        { "{\"eos_token\": \"<|im_end|>\"}", "{\"eos_token_id\": 258}", 259 },
        { "{\"eos_token\": null}", "{\"eos_token_id\": 258}", -1 },
        { "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}", "{\"eos_token_id\": 258}",
          -1 },
        { "{\"tokenizer_class\": \"TokenizersBackend\"}", "{\"eos_token_id\": 258}", -1 },
        { "{\"tokenizer_class\": \"GPT2Tokenizer\"}", "{\"eos_token_id\": 258}", 258 },
        { "{}", "{\"eos_token_id\": null}", -1 },
        { "{}", "{\"eos_token_id\": []}", -1 },
        { "{}", "{\"eos_token_id\": 100000}", -1 },
        { "{}", "{\"eos_token_id\": -1}", -1 },
        { "{}", "{}", -1 },
    };
    char *dir = unit_dir_new();
    struct error err = { 0 };

    (void)state;
    unit_tokenizer_write(dir, UNIT_SPECIALS, true);
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct tokenizer *tokenizer;

        unit_write_string(dir, "tokenizer_config.json", rows[i].tokenizer);
        unit_write_string(dir, "config.json", rows[i].model);
        tokenizer = tokenizer_open(dir, &err);
        assert_non_null(tokenizer);
        assert_int_equal(tokenizer_eos(tokenizer), rows[i].eos);
        assert_int_equal(tokenizer_bos(tokenizer), -1);
        tokenizer_close(tokenizer);
    }
    unit_dir_free(dir);
}

static void test_tokenizer_omits_special_tokens(void **state)
{
    static const uint32_t ids[] = { UNIT_BOS, 'a', UNIT_EOS, 'b', 99999 };
    struct tokenizer *tokenizer = unit_tokenizer(2);
    struct token_list list = { 0 };
    struct error err = { 0 };
    struct text text;

    (void)state;
    text_init(&text, 0);
    assert_true(tokenizer_decode(tokenizer, ids, TS_COUNT(ids), true, &text));
    assert_string_equal(text.data, "ab");
    assert_true(tokenizer_decode(tokenizer, ids, TS_COUNT(ids), false, &text));
    assert_string_equal(text.data, "ab<s>a</s>b");
    assert_true(tokenizer_encode(tokenizer, "a</s>\0\xff", 7, true, &list, &err) ==
                false);
    assert_int_equal(err.code, ERROR_DATA);
    assert_non_null(strstr(err.text, "byte 7"));
    assert_int_equal(list.count, 0);
    assert_true(tokenizer_encode(tokenizer, "a</s>\0", 6, true, &list, &err));
    assert_int_equal(list.count, 3);
    assert_int_equal(list.ids[1], UNIT_EOS);
    assert_int_equal(list.ids[2], 0);
    token_list_clear(&list);
    text_clear(&text);
    tokenizer_close(tokenizer);
}

/* Malformed or oversized files are refused with the part's name. */
static void test_tokenizer_refuses_malformed_files(void **state)
{
    static const char *const cases[][2] = {
        { "", "invalid JSON" },
        { "[]", "no model" },
        { "{\"model\": {\"type\": \"WordPiece\", \"vocab\": {}}}", "WordPiece" },
        { "{\"model\": {\"vocab\": {\"a\": 1048576}, \"merges\": []}}", "\"a\"" },
        { "{\"model\": {\"vocab\": {}, \"merges\": [\"a b\"]}}", "entry 1" },
        { "{\"model\": {\"vocab\": {}, \"merges\": []}, \"normalizer\": {\"type\": "
          "\"Nmt\"}}",
          "Nmt" },
        { "{\"model\": {\"vocab\": {}, \"merges\": []}, \"pre_tokenizer\": {\"type\": "
          "\"Split\", \"pattern\": {\"Regex\": \"(\"}}}",
          "regular expression" },
        { "{\"model\": {\"vocab\": {}, \"merges\": []}, \"decoder\": {\"type\": "
          "\"CTC\"}}",
          "CTC" },
        { "{\"model\": {\"vocab\": {}, \"merges\": []}, \"added_tokens\": "
          "[{\"content\": \"a\", \"id\": 4000000000}]}",
          "out of range" },
    };
    char *dir = unit_dir_new();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };

        unit_write_string(dir, "tokenizer.json", cases[i][0]);
        assert_null(tokenizer_open(dir, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("\"%s\" does not contain \"%s\"", err.text, cases[i][1]);
    }
    unit_dir_free(dir);
}

static void test_tokenizer_requires_its_file(void **state)
{
    char *dir = unit_dir_new();
    struct error err = { 0 };

    (void)state;
    assert_null(tokenizer_open(dir, &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_non_null(strstr(err.text, "no tokenizer.json"));
    error_clear(&err);
    assert_null(tokenizer_open("nowhere/model", &err));
    assert_string_equal(err.text, "nowhere/model does not exist");
    unit_tokenizer_write(dir, 1, false);
    unit_write_string(dir, "tokenizer_config.json", "{");
    error_clear(&err);
    assert_null(tokenizer_open(dir, &err));
    assert_true(text_ends(err.file, "tokenizer_config.json"));
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer_golden_gpt2),
        cmocka_unit_test(test_tokenizer_golden_gpt_neox),
        cmocka_unit_test(test_tokenizer_golden_llama2),
        cmocka_unit_test(test_tokenizer_golden_llama3),
        cmocka_unit_test(test_tokenizer_golden_mistral),
        cmocka_unit_test(test_tokenizer_golden_qwen2),
        cmocka_unit_test(test_tokenizer_golden_slm4096),
        cmocka_unit_test(test_tokenizer_golden_smollm2),
        cmocka_unit_test(test_tokenizer_golden_smollm_padded),
        cmocka_unit_test(test_tokenizer_golden_stories260k),
        cmocka_unit_test(test_tokenizer_finds_its_end_tokens),
        cmocka_unit_test(test_tokenizer_takes_its_end_token_from_the_model),
        cmocka_unit_test(test_tokenizer_omits_special_tokens),
        cmocka_unit_test(test_tokenizer_refuses_malformed_files),
        cmocka_unit_test(test_tokenizer_requires_its_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
