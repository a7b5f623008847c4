/* tests/unit/test_postprocessor.c - the tokens added before and after a text. */
#include "config.h"

#include "train/tokenizer/postprocessor.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static struct postprocessor *read_json(const char *json, struct error *err)
{
    json_t *value = json_read_text(json, strlen(json), "x", 1, err);
    struct postprocessor *postprocessor = postprocessor_new(value, 100, "x", err);

    json_decref(value);
    return postprocessor;
}

#define TEMPLATE(single)                                                         \
    "{\"type\": \"TemplateProcessing\", \"single\": [" single "], \"pair\": []," \
    " \"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [1]},"            \
    " \"</s>\": {\"id\": \"</s>\", \"ids\": [2, 3]}}}"
#define SPECIAL(name) "{\"SpecialToken\": {\"id\": \"" name "\", \"type_id\": 0}}"
#define TEXT          "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"
#define SEQUENCE(all) "{\"type\": \"Sequence\", \"processors\": [" all "]}"
#define ROBERTA \
    "{\"type\": \"RobertaProcessing\", \"sep\": [\"</s>\", 7], \"cls\": [\"<s>\", 6]}"

static void test_postprocessor_adds_tokens_around_a_text(void **state)
{
    static const char *const cases[][2] = {
        { "null", "T" },
        { "{\"type\": \"ByteLevel\"}", "T" },
        { TEMPLATE(SPECIAL("<s>") ", " TEXT), "1 T" },
        { TEMPLATE(SPECIAL("<s>") ", " TEXT ", " SPECIAL("</s>")), "1 T 2 3" },
        { ROBERTA, "6 T 7" },
        { SEQUENCE("{\"type\": \"ByteLevel\"}, " TEMPLATE(SPECIAL("<s>") ", " TEXT)),
          "1 T" },
        { SEQUENCE(TEMPLATE(SPECIAL("<s>") ", " TEXT) ", " ROBERTA), "6 1 T 7" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct postprocessor *postprocessor = read_json(cases[i][0], &err);
        struct token_list list = { 0 };
        struct text got;
        size_t before;

        if (!postprocessor)
            fail_msg("%s", err.text);
        text_init(&got, 0);
        postprocessor_begin(postprocessor, &list);
        before = list.count;
        postprocessor_end(postprocessor, &list);
        for (size_t n = 0; n < before; n++)
            text_addf(&got, "%u ", list.ids[n]);
        text_addc(&got, 'T');
        for (size_t n = before; n < list.count; n++)
            text_addf(&got, " %u", list.ids[n]);
        assert_string_equal(got.data, cases[i][1]);
        text_clear(&got);
        token_list_clear(&list);
        postprocessor_free(postprocessor);
    }
}

static void test_postprocessor_refuses_invalid_settings(void **state)
{
    static const char *const cases[][2] = {
        { "{\"type\": \"Magic\"}", "\"Magic\" is not supported" },
        { TEMPLATE(SPECIAL("<x>") ", " TEXT), "\"<x>\" has no ids" },
        { TEMPLATE(SPECIAL("<s>")), "the text once" },
        { TEMPLATE(TEXT ", " TEXT), "the text once" },
        { "{\"type\": \"TemplateProcessing\"}", "the text once" },
        { "{\"type\": \"BertProcessing\", \"sep\": [\"x\", 100], \"cls\": [\"x\", 1]}",
          "out of range" },
        { "{\"type\": \"BertProcessing\"}", "out of range" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };

        assert_null(read_json(cases[i][0], &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("\"%s\" does not contain \"%s\"", err.text, cases[i][1]);
    }
    postprocessor_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_postprocessor_adds_tokens_around_a_text),
        cmocka_unit_test(test_postprocessor_refuses_invalid_settings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
