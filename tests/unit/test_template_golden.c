/*
 * tests/unit/test_template_golden.c - named templates write and train on the same text as
 * LLaMA-Factory's (tests/golden/named.json, made by named.py).
 */
#include "config.h"

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"
#include "train/chat/template.h"

enum { LIMIT = 4 << 20, MESSAGES = 16 };

static const struct {
    const char *name;
    enum role role;
} roles[] = {
    { "user", ROLE_USER },
    { "assistant", ROLE_ASSISTANT },
    { "function", ROLE_FUNCTION },
    { "observation", ROLE_TOOL },
};

static struct message message_of(enum role role, const json_t *text)
{
    return (struct message) { role, json_string_value(text), json_string_length(text), 1,
                              NULL };
}

/* Put the tags of the row in place of their names. */
static void put_words(const json_t *row, const char *from, struct text *out)
{
    static const char *const names[] = { "BEGIN", "END", "CALL", "LLAC" };
    const json_t *words = json_object_get(row, "words");

    text_reset(out);
    while (*from) {
        size_t i = 0;

        while (i < TS_COUNT(names) && strncmp(from, names[i], strlen(names[i])) != 0)
            i++;
        if (!words || i == TS_COUNT(names)) {
            text_addc(out, *from++);
            continue;
        }
        text_adds(out, json_string_value(json_array_get(words, i)));
        from += strlen(names[i]);
    }
}

static size_t read_messages(const json_t *given, struct message out[MESSAGES])
{
    const json_t *list = json_object_get(given, "messages");
    size_t count = 0;

    if (json_object_get(given, "system"))
        out[count++] = message_of(ROLE_SYSTEM, json_object_get(given, "system"));
    if (json_object_get(given, "tools"))
        out[count++] = message_of(ROLE_TOOLS, json_object_get(given, "tools"));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *role = json_string_value(json_object_get(item, "role"));

        for (size_t k = 0; k < TS_COUNT(roles); k++)
            if (strcmp(roles[k].name, role) == 0)
                out[count++] =
                    message_of(roles[k].role, json_object_get(item, "content"));
    }
    return count;
}

static void expect_row(const struct tokenizer *tokenizer, const char *name,
                       const json_t *row, const json_t *given)
{
    const json_t *thinking = json_object_get(given, "thinking");
    const struct template_options options = {
        .mask_history = json_is_true(json_object_get(given, "mask_history")),
        .thinking = thinking ? CHAT_THINKING_OFF : CHAT_THINKING_DEFAULT,
    };
    struct message messages[MESSAGES];
    size_t count = read_messages(given, messages);
    struct text words[MESSAGES];
    const struct template_request request = { template_find(name), tokenizer, &options,
                                              messages, count };
    struct token_list ids = { 0 };
    struct error err = { 0 };
    struct text all, trained;
    float *weights = NULL;
    size_t kept = 0;

    text_init(&all, 0);
    text_init(&trained, 0);
    for (size_t i = 0; i < count; i++) {
        text_init(&words[i], 0);
        put_words(row, messages[i].text, &words[i]);
        messages[i].text = words[i].data;
        messages[i].len = words[i].len;
    }
    assert_non_null(request.chat);
    if (!template_encode(&request, &ids, &weights, &err))
        fail_msg("%s: %s", name, err.text);
    tokenizer_decode(tokenizer, ids.ids, ids.count, false, &all);
    for (size_t i = 0; i < ids.count; i++)
        if (weights[i] != 0)
            ids.ids[kept++] =
                weights[i] > 0 ? ids.ids[i] : (uint32_t)tokenizer_eos(tokenizer);
    tokenizer_decode(tokenizer, ids.ids, kept, false, &trained);
    assert_string_equal(all.data, json_string_value(json_object_get(row, "all")));
    assert_string_equal(trained.data, json_string_value(json_object_get(row, "trained")));
    text_clear(&all);
    text_clear(&trained);
    for (size_t i = 0; i < count; i++)
        text_clear(&words[i]);
    token_list_clear(&ids);
    free(weights);
}

/* Compare a template with the rows of one, itself or an earlier one that gives the same;
 * return their number. */
static size_t expect_rows(const struct tokenizer *tokenizer, const json_t *golden,
                          const char *name, const char *as)
{
    const json_t *rows = json_object_get(golden, "rows"),
                 *cases = json_object_get(golden, "cases");
    size_t seen = 0;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *key = json_string_value(json_object_get(row, "case"));

        if (!key || strcmp(json_string_value(json_object_get(row, "template")), as) != 0)
            continue;
        /* thoughts before a call, in a template that does not support them */
        if (!json_object_get(row, "error"))
            expect_row(tokenizer, name, row, json_object_get(cases, key));
        seen++;
    }
    return seen;
}

static void test_template_matches_llama_factory(void **state)
{
    char *file = unit_source("tests/golden/named.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(file, LIMIT, &err), *rows;
    struct tokenizer *tokenizer = unit_tokenizer(2);
    size_t count;

    (void)state;
    if (!golden)
        fail_msg("%s", err.text);
    rows = json_object_get(golden, "rows");
    count = json_object_size(json_object_get(golden, "cases"));
    for (size_t names = 0; template_name(names); names++) {
        const char *name = template_name(names), *as = name;

        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *row = json_array_get(rows, i);

            if (json_object_get(row, "as") &&
                strcmp(json_string_value(json_object_get(row, "template")), name) == 0)
                as = json_string_value(json_object_get(row, "as"));
        }
        if (expect_rows(tokenizer, golden, name, as) != count)
            fail_msg("%s: not in named.json", name);
    }
    tokenizer_close(tokenizer);
    json_decref(golden);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_template_matches_llama_factory),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
