/* tests/unit/test_tokenizer.c - the ids of Hugging Face's library on its golden texts, the
 * parts of tokenizer.json one by one, and files that mean harm. */
#include "config.h"

#include "train/tokenizer.h"

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"

static void expect_ids(const char *folder, const json_t *golden, const char *key,
                       const struct token_list *got)
{
    const json_t *wanted = json_object_get(golden, key);
    const char *text = json_string_value(json_object_get(golden, "text"));

    if (json_array_size(wanted) != got->count)
        fail_msg("%s: %s of \"%s\": %zu tokens, not %zu", folder, key, text, got->count,
                 json_array_size(wanted));
    for (size_t i = 0; i < got->count; i++)
        if (json_integer_value(json_array_get(wanted, i)) != got->ids[i])
            fail_msg("%s: %s of \"%s\": token %zu is %u", folder, key, text, i, got->ids[i]);
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
    assert_true(tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text),
                                 true, &with, &err));
    assert_true(tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text),
                                 false, &without, &err));
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

#define GOLDEN(name, folder)                                                               \
    static void test_tokenizer_golden_##name(void **state)                                 \
    {                                                                                      \
        (void)state;                                                                       \
        expect_golden("data/" folder);                                                     \
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
