/* tests/unit/test_added_tokens.c - where added tokens are found, the blanks they absorb,
 * and malformed lists. */
#include "config.h"

#include "train/tokenizer/added_tokens.h"

#include "base/size.h"
#include "tests/unit/unit.h"

/* The tokens of a list added to a vocabulary of a hundred, "known" with id 3. */
static struct added_tokens *read_list(const char *json, const char *normal,
                                      struct error *err)
{
    struct vocabulary *names = vocabulary_new(100, 100);
    json_t *list = json_read_text(json, strlen(json), "x", 1, err);
    json_t *steps = json_read_text(normal, strlen(normal), "x", 1, err);
    struct normalizer *normalizer = normalizer_new(steps, "x", err);
    struct added_tokens *added;

    for (uint32_t id = 0; id < 100; id++) {
        char name[8];
        int len = snprintf(name, sizeof(name), id == 3 ? "known" : "%u", id);

        assert_true(vocabulary_add(names, name, (size_t)len, id));
    }
    added = added_tokens_new(list, names, normalizer, 1000, "x", err);
    vocabulary_free(names);
    normalizer_free(normalizer);
    json_decref(list);
    json_decref(steps);
    return added;
}

static void expect_found(const struct added_tokens *added, bool normalized,
                         const char *text, const char *wanted)
{
    struct added_search search = {
        .added = added,
        .normalized = normalized,
        .text = text,
        .len = strlen(text),
    };
    struct text got;
    size_t end;

    text_init(&got, 0);
    while (added_tokens_next(&search, &end)) {
        text_addf(&got, "%.*s[%u:%.*s]", (int)(search.start - search.done),
                  text + search.done, search.token->id, (int)(end - search.start),
                  text + search.start);
        search.done = end;
    }
    text_adds(&got, text + search.done);
    assert_string_equal(got.data, wanted);
    text_clear(&got);
}

static void test_added_tokens_are_found(void **state)
{
    static const char list[] =
        "[{\"id\": 100, \"content\": \"<a>\", \"special\": true}, {\"id\": 101, "
        "\"content\": \"<a><b>\", \"special\": true}, {\"id\": 102, \"content\": "
        "\"<l>\", \"special\": true, \"lstrip\": true}, {\"id\": 103, \"content\": "
        "\"<r>\", \"special\": true, \"rstrip\": true}, {\"id\": 104, \"content\": "
        "\"one\", \"single_word\": true, \"normalized\": false}, {\"id\": 0, "
        "\"content\": \"\"}, {\"id\": 77, \"content\": \"known\", \"normalized\": "
        "false}]";
    struct error err = { 0 };
    struct added_tokens *added = read_list(list, "null", &err);

    (void)state;
    if (!added)
        fail_msg("%s", err.text);
    expect_found(added, false, "", "");
    expect_found(added, false, "x<a>y", "x[100:<a>]y");
    expect_found(added, false, "<a><a><b><b>",
                 "[100:<a>][101:<a><b>]<b>"); /* the longest */
    expect_found(added, false, "x \t<l> y", "x[102: \t<l>] y");
    expect_found(added, false, "x <r> \ny", "x [103:<r> \n]y");
    /* blanks are absorbed once */
    expect_found(added, false, "<r>  <l>", "[103:<r>  ][102:<l>]");
    expect_found(added, false, "one onet tone one, one",
                 "[104:one] onet tone [104:one], [104:one]");
    expect_found(added, false, "\xc3\xa9one one\xc3\xa9", "\xc3\xa9one one\xc3\xa9");
    expect_found(added, false, "known", "[3:known]"); /* the model's id */
    expect_found(added, true, "<a>", "<a>");
    assert_int_equal(added_tokens_size(added), 105);
    assert_string_equal(added_tokens_by_id(added, 3)->content, "known");
    assert_int_equal(added_tokens_by_content(added, "<l>", 3)->id, 102);
    assert_null(added_tokens_by_id(added, 77));
    assert_null(added_tokens_by_content(added, "<l", 2));
    added_tokens_free(added);
}

static void test_added_tokens_are_found_in_normal_form(void **state)
{
    static const char list[] =
        "[{\"id\": 100, \"content\": \"DAY\", \"normalized\": true}]";
    struct error err = { 0 };
    struct added_tokens *added = read_list(list, "{\"type\": \"Lowercase\"}", &err);

    (void)state;
    expect_found(added, true, "a day", "a [100:day]");
    expect_found(added, false, "a DAY", "a DAY");
    assert_string_equal(added_tokens_by_id(added, 100)->content, "DAY");
    assert_string_equal(added_tokens_by_id(added, 100)->normal, "day");
    added_tokens_free(added);
}

/* As in the library, if the list's own numbers have gaps or are already in use. */
static void test_added_tokens_get_ids_as_in_the_library(void **state)
{
    static const char list[] =
        "[{\"id\": 3, \"content\": \"<a>\", \"special\": true}, {\"id\": 3, "
        "\"content\": \"known\", \"special\": true}, {\"id\": 200, \"content\": "
        "\"<b>\", \"special\": true}, {\"id\": 100, \"content\": \"<c>\", \"special\": "
        "true}]";
    struct error err = { 0 };
    struct added_tokens *added = read_list(list, "null", &err);

    (void)state;
    if (!added)
        fail_msg("%s", err.text);
    expect_found(added, false, "<a>known<b><c>", "[100:<a>][3:known][101:<b>][102:<c>]");
    assert_int_equal(added_tokens_size(added), 103);
    added_tokens_free(added);
}

/* A token of only blanks, which the token before it has absorbed. */
static void test_added_tokens_may_consist_of_blanks(void **state)
{
    static const char list[] =
        "[{\"id\": 100, \"content\": \"  \", \"lstrip\": true, \"rstrip\": true}]";
    struct error err = { 0 };
    struct added_tokens *added = read_list(list, "null", &err);

    (void)state;
    if (!added)
        fail_msg("%s", err.text);
    expect_found(added, true, "a     b", "a[100:     ]b");
    added_tokens_free(added);
    added = read_list("[{\"id\": 100, \"content\": \"<r>\", \"rstrip\": true}, {\"id\": "
                      "101, \"content\": \"\\n\\n\"}]",
                      "null", &err);
    expect_found(added, true, "<r>\n\nb", "[100:<r>\n\n][101:]b");
    added_tokens_free(added);
}

static void test_added_tokens_refuse_malformed_lists(void **state)
{
    static const char *const cases[][2] = {
        { "[7]", "no content" },
        { "[{\"content\": \"a\"}]", "out of range" },
        { "[{\"content\": \"a\", \"id\": 1000}]", "out of range" },
        { "[{\"content\": \"a\", \"id\": -3}]", "out of range" },
        { "[{\"content\": \"a\", \"id\": 5}, {\"content\": \"a\", \"id\": 6}]", "twice" },
        { "[{\"content\": \"3\", \"id\": 5}, {\"content\": \"known\", \"id\": 5}, "
          "{\"content\": \"3\", \"id\": 9}]",
          "twice" },
        { "[{\"content\": \"a\", \"id\": 5, \"special\": 1}]", "special" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };

        assert_null(read_list(cases[i][0], "null", &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("\"%s\" does not contain \"%s\"", err.text, cases[i][1]);
    }
    added_tokens_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_added_tokens_are_found),
        cmocka_unit_test(test_added_tokens_are_found_in_normal_form),
        cmocka_unit_test(test_added_tokens_get_ids_as_in_the_library),
        cmocka_unit_test(test_added_tokens_may_consist_of_blanks),
        cmocka_unit_test(test_added_tokens_refuse_malformed_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
