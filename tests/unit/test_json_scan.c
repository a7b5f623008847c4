/* tests/unit/test_json_scan.c - what jansson accepts is read, with the same values. */
#include "config.h"

#include "base/json_scan.h"

#include "base/json.h"
#include "tests/unit/unit.h"

static const struct {
    const char *text;
    bool valid;
} texts[] = {
    { "null", true },
    { " [ ] ", true },
    { "{\"a\":[1,2.5,-3e+7,{\"b\":{}}],\"c\":true,\"d\":false}", true },
    { "\xef\xbb\xbf[0]", true },
    { "\"\\u00e9\\ud83d\\ude00 \\\"\\/\\b\"", true },
    { "", false },
    { "[1,]", false },
    { "[1 2]", false },
    { "[,1]", false },
    { "{\"a\" 1}", false },
    { "{\"a\":}", false },
    { "{a:1}", false },
    { "{\"a\":1", false },
    { "[1]]", false },
    { "01", false },
    { "1.", false },
    { ".5", false },
    { "1e", false },
    { "-", false },
    { "nul", false },
    { "\"\\x\"", false },
    { "\"\\u12g4\"", false },
    { "\"\\ud800\"", false },
    { "\"\\ud800\\u0041\"", false },
    { "\"a\nb\"", false },
    { "\"a", false },
    { "\"\xc3\"", false },
};

static void test_json_scan_accepts_what_is_valid(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const size_t len = strlen(texts[i].text);
        char *copy = memory_strdup(texts[i].text);
        struct error err = { 0 };
        struct json_scan scan;
        json_t *tree = json_read_text(texts[i].text, len, "f", 1, NULL);

        json_scan_init(&scan, copy, len);
        json_scan_skip(&scan);
        if (json_scan_end(&scan, "f", &err) != texts[i].valid)
            fail_msg("%s: %s", texts[i].text, err.text);
        assert_int_equal(tree != NULL, texts[i].valid);
        assert_true(texts[i].valid || err.code == ERROR_DATA);
        json_decref(tree);
        free(copy);
    }
}

static void test_json_scan_reads_values(void **state)
{
    char text[] = "{\"a\\u00e9\": [7, 18446744073709551615, 1.5, -1, 1e3], "
                  "\"b\": \"\\ud83d\\ude00\\n\"}";
    struct json_scan scan;
    struct error err = { 0 };
    const char *key, *value;
    uint64_t number;

    (void)state;
    json_scan_init(&scan, text, sizeof(text) - 1);
    assert_false(json_scan_open(&scan, '['));
    assert_true(json_scan_open(&scan, '{'));
    assert_true(json_scan_key(&scan, &key));
    assert_string_equal(key, "a\xc3\xa9");
    assert_false(json_scan_string(&scan, &value));
    assert_true(json_scan_open(&scan, '['));
    assert_true(json_scan_item(&scan) && json_scan_count(&scan, &number));
    assert_true(number == 7);
    assert_true(json_scan_item(&scan) && json_scan_count(&scan, &number));
    assert_true(number == UINT64_MAX);
    for (int i = 0; i < 3; i++) {
        assert_true(json_scan_item(&scan));
        assert_false(json_scan_count(&scan, &number));
        assert_true(json_scan_skip(&scan));
    }
    assert_false(json_scan_item(&scan));
    assert_true(json_scan_key(&scan, &key));
    assert_true(json_scan_string(&scan, &value));
    assert_string_equal(value, "\xf0\x9f\x98\x80\n");
    assert_false(json_scan_key(&scan, &key));
    assert_true(json_scan_end(&scan, "f", &err));
}

static void test_json_scan_limits_depth(void **state)
{
    char text[1000];
    struct json_scan scan;
    struct error err = { 0 };

    (void)state;
    memset(text, '[', sizeof(text));
    json_scan_init(&scan, text, sizeof(text));
    assert_false(json_scan_skip(&scan));
    assert_false(json_scan_end(&scan, "f", &err));
    assert_non_null(strstr(err.text, "deep"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_scan_accepts_what_is_valid),
        cmocka_unit_test(test_json_scan_reads_values),
        cmocka_unit_test(test_json_scan_limits_depth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
