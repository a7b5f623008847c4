/* tests/unit/test_pretokenizer.c - the words of each step and behavior, as in the
 * library's own documentation and tests. */
#include "config.h"

#include "train/tokenizer/pretokenizer.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static struct pretokenizer *read_json(const char *json, struct error *err)
{
    json_t *value = json_read_text(json, strlen(json), "x", 1, err);
    struct pretokenizer *pretokenizer = pretokenizer_new(value, "x", err);

    json_decref(value);
    return pretokenizer;
}

static bool take_word(void *context, const char *word, size_t len)
{
    assert_true(len > 0);
    text_addf(context, "%.*s|", (int)len, word);
    return true;
}

static void expect_words(const char *json, const char *text, bool first,
                         const char *wanted)
{
    struct error err = { 0 };
    struct pretokenizer *pretokenizer = read_json(json, &err);
    struct pattern_scratch *scratch = pattern_scratch_new();
    struct text got;

    if (!pretokenizer)
        fail_msg("%s", err.text);
    text_init(&got, 0);
    assert_true(pretokenizer_run(pretokenizer, text, strlen(text), first, scratch,
                                 &(struct word_sink) { take_word, &got }, &err));
    if (strcmp(got.data, wanted) != 0)
        fail_msg("%s of \"%s\" gives %s not %s", json, text, got.data, wanted);
    text_clear(&got);
    pattern_scratch_free(scratch);
    pretokenizer_free(pretokenizer);
}

#define BYTES(prefix, regex)                                                            \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": " prefix ", \"use_regex\": " regex \
    "}"
#define SPLIT(behavior, invert)                                                         \
    "{\"type\": \"Split\", \"pattern\": {\"String\": \"-\"}, \"behavior\": \"" behavior \
    "\", \"invert\": " invert "}"
#define META(rest) "{\"type\": \"Metaspace\", \"replacement\": \"_\"" rest "}"

static void test_pretokenizer_splits_into_words(void **state)
{
    static const struct {
        const char *json, *text, *wanted;
    } cases[] = {
        { "null", "a b", "a b|" },
        { "null", "", "" },
        { BYTES("false", "true"), "Hello  there's 12x!", "Hello| | there|'s| 12|x|!|" },
        { BYTES("true", "true"), "Hello", " Hello|" },
        { BYTES("true", "true"), " Hello", " Hello|" },
        { BYTES("false", "false"), "Hello  there", "Hello  there|" },
        { SPLIT("Removed", "false"), "the-final--countdown", "the|final|countdown|" },
        { SPLIT("Isolated", "false"), "the-final--countdown",
          "the|-|final|-|-|countdown|" },
        { SPLIT("MergedWithPrevious", "false"), "the-final--countdown",
          "the-|final-|-|countdown|" },
        { SPLIT("MergedWithNext", "false"), "the-final--countdown",
          "the|-final|-|-countdown|" },
        { SPLIT("Contiguous", "false"), "the-final--countdown",
          "the|-|final|--|countdown|" },
        { SPLIT("Removed", "true"), "the-final--countdown", "-|-|-|" },
        { SPLIT("Isolated", "true"), "-a", "-|a|" },
        { SPLIT("MergedWithNext", "false"), "-a-", "-a|-|" },
        { SPLIT("MergedWithPrevious", "false"), "-a-", "-|a-|" },
        { "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?=[A-Z])\"}, \"behavior\": "
          "\"Isolated\", \"invert\": false}",
          "aBcD", "a|Bc|D|" },
        { "{\"type\": \"Digits\", \"individual_digits\": true}", "a12\xc2\xbd",
          "a|1|2|\xc2\xbd|" },
        { "{\"type\": \"Digits\", \"individual_digits\": false}", "a12b", "a|12|b|" },
        { "{\"type\": \"Whitespace\"}", "Hey man! it's e\xcc\x81.",
          "Hey|man|!|it|'|s|e\xcc\x81|.|" },
        { "{\"type\": \"WhitespaceSplit\"}", " Hey  man!\n", "Hey|man!|" },
        { "{\"type\": \"Punctuation\"}", "Hey, man!?", "Hey|,| man|!|?|" },
        { META(""), "Hey friend!", "_Hey|_friend!|" },
        { META(""), "Hey   friend!", "_Hey|_|_|_friend!|" },
        { META(", \"prepend_scheme\": \"never\""), "Hey  x", "Hey|_|_x|" },
        { META(", \"add_prefix_space\": false"), "Hey x", "Hey|_x|" },
        { META(", \"split\": false"), "Hey x", "_Hey_x|" },
        { "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", "
          "\"individual_digits\": true}, " BYTES("false", "true") "]}",
          "in 42 ways", "in| |4|2| ways|" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++)
        expect_words(cases[i].json, cases[i].text, true, cases[i].wanted);
}

static void test_pretokenizer_prepends_only_to_the_first_word(void **state)
{
    static const char json[] = META(", \"prepend_scheme\": \"first\"");

    (void)state;
    expect_words(json, "a b", true, "_a|_b|");
    expect_words(json, "a b", false, "a|_b|");
    expect_words(
        "{\"type\": \"Sequence\", \"pretokenizers\": [" SPLIT(
            "Isolated", "false") ", " META(", \"prepend_scheme\": \"first\"") "]}",
        "a-b", true, "_a|-|b|");
}

static void test_pretokenizer_reports_byte_level(void **state)
{
    struct error err = { 0 };
    struct pretokenizer *plain = read_json("{\"type\": \"Whitespace\"}", &err);
    struct pretokenizer *bytes = read_json(BYTES("false", "true"), &err);

    (void)state;
    assert_false(pretokenizer_is_byte_level(plain));
    assert_true(pretokenizer_is_byte_level(bytes));
    pretokenizer_free(plain);
    pretokenizer_free(bytes);
}

static void test_pretokenizer_refuses_unsupported_steps(void **state)
{
    static const char *const cases[][2] = {
        { "{\"type\": \"BertPreTokenizer\"}", "\"BertPreTokenizer\" is not supported" },
        { "{\"type\": \"Sequence\", \"pretokenizers\": 1}", "list of steps" },
        { SPLIT("Sideways", "false"), "Sideways" },
        { "{\"type\": \"Split\", \"behavior\": \"Isolated\"}", "pattern" },
        { "{\"type\": \"Metaspace\", \"replacement\": \"toolong\"}", "one character" },
        { "{\"type\": \"Metaspace\", \"replacement\": \"\"}", "one character" },
        { "{\"type\": \"Sequence\", \"pretokenizers\": [" BYTES(
              "false", "true") ", " BYTES("false", "true") "]}",
          "after ByteLevel" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };

        assert_null(read_json(cases[i][0], &err));
        assert_int_equal(err.code, ERROR_DATA);
        assert_non_null(strstr(err.text, cases[i][1]));
    }
}

static void test_pretokenizer_abandons_slow_expressions(void **state)
{
    struct error err = { 0 };
    struct pretokenizer *pretokenizer = read_json(
        "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a+)+$\"}, \"invert\": false}",
        &err);
    struct pattern_scratch *scratch = pattern_scratch_new();
    struct text got;

    (void)state;
    text_init(&got, 0);
    assert_false(
        pretokenizer_run(pretokenizer, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", 40,
                         true, scratch, &(struct word_sink) { take_word, &got }, &err));
    assert_int_equal(err.code, ERROR_DATA);
    text_clear(&got);
    pattern_scratch_free(scratch);
    pretokenizer_free(pretokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pretokenizer_splits_into_words),
        cmocka_unit_test(test_pretokenizer_prepends_only_to_the_first_word),
        cmocka_unit_test(test_pretokenizer_reports_byte_level),
        cmocka_unit_test(test_pretokenizer_refuses_unsupported_steps),
        cmocka_unit_test(test_pretokenizer_abandons_slow_expressions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
