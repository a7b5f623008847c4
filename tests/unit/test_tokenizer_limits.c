/* tests/unit/test_tokenizer_limits.c - a hostile tokenizer.json fails early, with its
 * name; a long text in an ordinary one does not. */
#include "config.h"

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"

/* The parts of a tokenizer.json as JSON; NULL: none. */
struct parts {
    const char *normalizer, *pre_tokenizer, *post_processor, *decoder;
    const char *added; /* the content of an added token */
};

static void add_part(struct text *json, const char *key, const char *value)
{
    text_addf(json, "\"%s\": ", key);
    text_adds(json, value ? value : "null");
    text_adds(json, ", ");
}

static struct tokenizer *open_parts(const struct parts *parts, struct error *err)
{
    char *dir = unit_dir_new();
    struct tokenizer *tokenizer;
    struct text json;

    text_init(&json, 0);
    text_adds(&json, "{");
    add_part(&json, "normalizer", parts->normalizer);
    add_part(&json, "pre_tokenizer", parts->pre_tokenizer);
    add_part(&json, "post_processor", parts->post_processor);
    add_part(&json, "decoder", parts->decoder);
    if (parts->added) {
        text_adds(&json, "\"added_tokens\": [{\"id\": 256, \"content\": \"");
        text_adds(&json, parts->added);
        text_adds(&json, "\"}], ");
    }
    text_adds(&json, "\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, "
                     "\"merges\": [], \"vocab\": {\"a\": 0");
    for (int byte = 0; byte < 255; byte++)
        text_addf(&json, ", \"<0x%02X>\": %d", (unsigned)byte, byte + 1);
    text_adds(&json, "}}}");
    unit_write(dir, "tokenizer.json", &json);
    text_clear(&json);
    tokenizer = tokenizer_open(dir, err);
    unit_dir_free(dir);
    return tokenizer;
}

/* This many times the string; malloc'ed. */
static char *repeat(const char *string, size_t times)
{
    struct text text;

    text_init(&text, 0);
    for (size_t i = 0; i < times; i++)
        text_adds(&text, string);
    return text_detach(&text, NULL);
}

static bool encode(const struct parts *parts, const char *text, size_t *count,
                   struct error *err)
{
    struct tokenizer *tokenizer = open_parts(parts, err);
    struct token_list list = { 0 };
    bool ok;

    if (!tokenizer)
        fail_msg("%s", err->text);
    ok = tokenizer_encode(tokenizer, text, strlen(text), true, &list, err);
    *count = list.count;
    token_list_clear(&list);
    tokenizer_close(tokenizer);
    return ok;
}

static void expect_failure(const struct parts *parts, const char *text, const char *part)
{
    struct error err = { 0 };
    size_t count;

    assert_false(encode(parts, text, &count, &err));
    assert_int_equal(err.code, ERROR_DATA);
    if (!strstr(err.text, "tokenizer.json: ") || !strstr(err.text, part))
        fail_msg("%s", err.text);
}

/* One byte becomes 1 MB. */
static void test_tokenizer_limits_a_replacement(void **state)
{
    char *large = repeat("b", 1000000), *text = repeat("a", 5000);
    struct text normalizer;

    (void)state;
    text_init(&normalizer, 0);
    text_adds(&normalizer, "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, "
                           "\"content\": \"");
    text_adds(&normalizer, large);
    text_adds(&normalizer, "\"}");
    expect_failure(&(struct parts) { .normalizer = normalizer.data }, text,
                   "the normalizer makes a text too long, at its step 1 (Replace) (in a "
                   "text of 5000 bytes)");
    text_clear(&normalizer);
    free(large);
    free(text);
}

/* Each step doubles the text. */
static void test_tokenizer_limits_steps_together(void **state)
{
    struct text normalizer;

    (void)state;
    text_init(&normalizer, 0);
    text_adds(&normalizer, "{\"type\": \"Sequence\", \"normalizers\": [");
    for (int i = 0; i < 60; i++)
        text_addf(&normalizer,
                  "%s{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, "
                  "\"content\": \"aa\"}",
                  i ? ", " : "");
    text_adds(&normalizer, "]}");
    expect_failure(&(struct parts) { .normalizer = normalizer.data }, "a",
                   "the normalizer makes a text too long, at its step 20 (Replace)");
    text_clear(&normalizer);
}

/* Each step puts a blank of its own before each piece, and splits it off. */
static void test_tokenizer_limits_pieces(void **state)
{
    struct text steps;

    (void)state;
    text_init(&steps, 0);
    text_adds(&steps, "{\"type\": \"Sequence\", \"pretokenizers\": [");
    for (int i = 0; i < 25; i++)
        text_addf(&steps,
                  "%s{\"type\": \"Metaspace\", \"replacement\": \"%c\", \"split\": "
                  "false}, {\"type\": \"Split\", \"pattern\": {\"String\": \"%c\"}, "
                  "\"behavior\": \"Isolated\"}",
                  i ? ", " : "", 'A' + i, 'A' + i);
    text_adds(&steps, "]}");
    expect_failure(&(struct parts) { .pre_tokenizer = steps.data }, "x",
                   "the pre-tokenizer splits a text into too many pieces");
    text_clear(&steps);
}

/* Quadratic: PCRE2's limit is for each position. */
static void test_tokenizer_limits_the_time_of_expressions(void **state)
{
    char *text = repeat("a", 150000); /* seconds, even with fast matching */

    (void)state;
    expect_failure(
        &(struct parts) { .pre_tokenizer =
                              "{\"type\": \"Split\", \"pattern\": {\"Regex\": "
                              "\"a(?=a*[bc])|a(?=a*$)\"}, \"behavior\": \"Isolated\"}" },
        text, "an expression of the pre-tokenizer takes too long");
    expect_failure(&(struct parts) { .normalizer =
                                         "{\"type\": \"Replace\", \"pattern\": "
                                         "{\"Regex\": \"a(?=a*[bc])|a(?=a*$)\"}, "
                                         "\"content\": \"b\"}" },
                   text, "an expression of the normalizer takes too long");
    free(text);
}

/* At each position, the text is compared with the whole token. */
static void test_tokenizer_limits_the_search_for_tokens(void **state)
{
    char *token = repeat("a", 50000), *text = repeat("a", 49999);

    (void)state;
    expect_failure(&(struct parts) { .added = token }, text,
                   "the search for added tokens takes too long");
    free(token);
    free(text);
}

static void test_tokenizer_limits_the_normal_form_of_tokens(void **state)
{
    char *large = repeat("b", 2000000);
    struct error err = { 0 };
    struct text normalizer;

    (void)state;
    text_init(&normalizer, 0);
    text_adds(&normalizer, "{\"type\": \"Prepend\", \"prepend\": \"");
    text_adds(&normalizer, large);
    text_adds(&normalizer, "\"}");
    assert_null(open_parts(&(struct parts) { normalizer.data, .added = "<x>" }, &err));
    assert_non_null(strstr(err.text, "added token \"<x>\": the normalizer makes a text "
                                     "too long"));
    text_clear(&normalizer);
    free(large);
}

static void test_tokenizer_limits_decoded_text(void **state)
{
    static const uint32_t ids[] = { 0, 0, 0, 0 };
    char *large = repeat("b", 1000000);
    struct error err = { 0 };
    struct tokenizer *tokenizer;
    struct text decoder, text;

    (void)state;
    text_init(&text, 0);
    text_init(&decoder, 0);
    text_adds(&decoder, "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, "
                        "\"content\": \"");
    text_adds(&decoder, large);
    text_adds(&decoder, "\"}");
    tokenizer = open_parts(&(struct parts) { .decoder = decoder.data }, &err);
    assert_non_null(tokenizer);
    assert_false(tokenizer_decode(tokenizer, ids, TS_COUNT(ids), false, &text));
    assert_true(text.len < 1000000);
    tokenizer_close(tokenizer);
    text_clear(&decoder);
    text_clear(&text);
    free(large);
}

static void test_tokenizer_limits_special_tokens(void **state)
{
    char *ids = repeat("1, ", 100);
    struct error err = { 0 };
    struct text processor;

    (void)state;
    text_init(&processor, 0);
    text_addf(&processor,
              "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
              "{\"id\": \"x\"}}, {\"Sequence\": {}}], \"special_tokens\": {\"x\": "
              "{\"ids\": [%s 1]}}}",
              ids);
    assert_null(open_parts(&(struct parts) { .post_processor = processor.data }, &err));
    assert_non_null(strstr(err.text, "more than 64 special tokens around a text"));
    text_clear(&processor);
    free(ids);
}

/* U+FDFA becomes 18 characters. */
static void test_tokenizer_limits_allow_long_texts(void **state)
{
    const struct parts parts = {
        .normalizer = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFKD\"}, "
                      "{\"type\": \"NFKC\"}, {\"type\": \"Lowercase\"}, {\"type\": "
                      "\"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": "
                      "\"\xe2\x96\x81\"}]}",
        .pre_tokenizer = "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
                         "\"Digits\"}, {\"type\": \"Punctuation\"}, {\"type\": "
                         "\"Metaspace\"}]}"
    };
    char *text = repeat("\xef\xb7\xba", 100000);
    struct error err = { 0 };
    size_t count;

    (void)state;
    if (!encode(&parts, text, &count, &err))
        fail_msg("%s", err.text);
    assert_true(count > 1800000);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer_limits_a_replacement),
        cmocka_unit_test(test_tokenizer_limits_steps_together),
        cmocka_unit_test(test_tokenizer_limits_pieces),
        cmocka_unit_test(test_tokenizer_limits_the_time_of_expressions),
        cmocka_unit_test(test_tokenizer_limits_the_search_for_tokens),
        cmocka_unit_test(test_tokenizer_limits_the_normal_form_of_tokens),
        cmocka_unit_test(test_tokenizer_limits_decoded_text),
        cmocka_unit_test(test_tokenizer_limits_special_tokens),
        cmocka_unit_test(test_tokenizer_limits_allow_long_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
