/*
 * tests/unit/test_jinja.c - templates and expressions give the same text as in
 * transformers (tests/golden/chat.json and jinja.json, made by chat.py and jinja.py),
 * report errors with the right line, and terminate.
 */
#include "config.h"

#include "base/digest.h"
#include "base/size.h"
#include "tests/unit/unit.h"
#include "train/jinja/jinja.h"

enum { LIMIT = 8 << 20 };

static json_t *golden, *expressions;

static json_t *golden_read(const char *file)
{
    char *name = unit_source(file);
    struct error err = { 0 };
    json_t *value = json_read_file(name, LIMIT, &err);

    free(name);
    return value;
}

static int open_golden(void **state)
{
    (void)state;
    golden = golden_read("tests/golden/chat.json");
    expressions = golden_read("tests/golden/jinja.json");
    return golden && expressions ? 0 : -1;
}

static int close_golden(void **state)
{
    (void)state;
    json_decref(golden);
    json_decref(expressions);
    return 0;
}

/* The variables that transformers passes to a template. */
static json_t *variables_of(const json_t *row)
{
    const char *key = json_string_value(json_object_get(row, "conversation"));
    json_t *conversation = json_object_get(json_object_get(golden, "conversations"), key);
    json_t *variables = json_deep_copy(conversation);

    assert_non_null(variables);
    if (!json_object_get(variables, "tools"))
        json_object_set_new(variables, "tools", json_null());
    json_object_set_new(variables, "documents", json_null());
    json_object_update(variables, json_object_get(golden, "special"));
    json_object_set(variables, "add_generation_prompt", json_object_get(row, "prompt"));
    return variables;
}

/* Python counts characters, our code bytes. */
static json_int_t characters(const char *text, size_t bytes)
{
    json_int_t count = 0;

    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

static void expect_spans(const struct jinja_output *out, const json_t *spans)
{
    assert_int_equal(out->span_count, json_array_size(spans));
    for (size_t i = 0; i < out->span_count; i++) {
        const json_t *span = json_array_get(spans, i);
        size_t start = out->spans[i].start, end = start + out->spans[i].len;

        assert_int_equal(characters(out->text.data, start),
                         json_integer_value(json_array_get(span, 0)));
        assert_int_equal(characters(out->text.data, end),
                         json_integer_value(json_array_get(span, 1)));
    }
}

static void expect_case(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "template"));
    json_t *source = json_object_get(json_object_get(golden, "templates"), name);
    json_t *expected = json_object_get(row, "text"), *variables = variables_of(row);
    struct error err = { 0 };
    struct jinja *jinja =
        jinja_parse(json_string_value(source), json_string_length(source), name, &err);
    struct jinja_output out;
    bool ok;

    if (!jinja)
        fail_msg("%s", err.text);
    jinja_output_init(&out);
    ok = jinja_render(jinja, variables, &out, NULL, &err);
    if (ok != (expected != NULL))
        fail_msg("%s, %s: %s", name,
                 json_string_value(json_object_get(row, "conversation")),
                 ok ? "rendered without an error" : err.text);
    if (expected) {
        assert_string_equal(out.text.data, json_string_value(expected));
        expect_spans(&out, json_object_get(row, "spans"));
    }
    jinja_output_clear(&out);
    jinja_free(jinja);
    json_decref(variables);
}

static void test_jinja_matches_transformers(void **state)
{
    const json_t *cases = json_object_get(golden, "cases");

    (void)state;
    assert_true(json_array_size(cases) > 200);
    for (size_t i = 0; i < json_array_size(cases); i++)
        expect_case(json_array_get(cases, i));
}

static void expect_published(const json_t *row, const char *folder)
{
    char *file = path_join(folder, "tokenizer_config.json");
    const char *expected = json_string_value(json_object_get(row, "sha256"));
    json_t *variables = variables_of(row), *config, *source;
    struct error err = { 0 };
    struct jinja_output out;
    struct text text;
    struct jinja *jinja;
    char digest[DIGEST_TEXT];
    bool ok;

    text_init(&text, 0);
    assert_true(file_read(file, LIMIT, &text, NULL, &err));
    config = json_read_loose(text.data, text.len, file, 1, &err);
    source = json_object_get(config, "chat_template");
    jinja =
        jinja_parse(json_string_value(source), json_string_length(source), folder, &err);
    if (!jinja)
        fail_msg("%s", err.text);
    jinja_output_init(&out);
    ok = jinja_render(jinja, variables, &out, NULL, &err);
    if (ok != (expected != NULL))
        fail_msg("%s: %s", folder, ok ? "rendered without an error" : err.text);
    digest_bytes(out.text.data, out.text.len, digest);
    if (expected)
        assert_string_equal(digest, expected);
    jinja_output_clear(&out);
    jinja_free(jinja);
    json_decref(config);
    json_decref(variables);
    text_clear(&text);
    free(file);
}

static void test_jinja_reads_published_templates(void **state)
{
    const json_t *rows = json_object_get(golden, "published");

    (void)state;
    assert_true(json_array_size(rows) > 0);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        struct text name;
        char *folder;

        text_init(&name, 0);
        text_addf(&name, "data/tokenizers/%s",
                  json_string_value(json_object_get(row, "folder")));
        folder = unit_shared(name.data);
        text_clear(&name);
        if (!folder)
            skip();
        expect_published(row, folder);
        free(folder);
    }
}

/* Expressions that transformers cannot turn into text are errors here. */
static void expect_expression(const char *expression, const char *expected)
{
    bool statements = text_starts(expression, "{%"), ok;
    json_t *none = json_object();
    struct error err = { 0 };
    struct jinja_output out;
    struct jinja *jinja;
    struct text source;

    text_init(&source, 0);
    text_addf(&source, statements ? "%s" : "{{ %s }}", expression);
    jinja_output_init(&out);
    jinja = jinja_parse(source.data, source.len, "t", &err);
    ok = jinja && jinja_render(jinja, none, &out, NULL, &err);
    if (ok != (expected != NULL) || (ok && strcmp(out.text.data, expected) != 0))
        fail_msg("%s: %s, not %s", expression, ok ? out.text.data : err.text,
                 expected ? expected : "an error");
    jinja_output_clear(&out);
    jinja_free(jinja);
    text_clear(&source);
    json_decref(none);
}

static void test_jinja_computes_like_python(void **state)
{
    (void)state;
    assert_true(json_array_size(expressions) > 1500);
    for (size_t i = 0; i < json_array_size(expressions); i++) {
        const json_t *row = json_array_get(expressions, i);

        expect_expression(json_string_value(json_array_get(row, 0)),
                          json_string_value(json_array_get(row, 1)));
    }
}

/* Compare the text of a template without variables, or "!" and the error. */
static void expect(const char *source, const char *expected)
{
    json_t *variables = json_pack("{s[{s s}], s n}", "messages", "role", "user", "no");
    struct error err = { 0 };
    struct jinja *jinja = jinja_parse(source, strlen(source), "t", &err);
    struct jinja_output out;

    jinja_output_init(&out);
    if (jinja && jinja_render(jinja, variables, &out, NULL, &err))
        assert_string_equal(out.text.data, expected);
    else if (expected[0] != '!' || strcmp(err.text, expected + 1) != 0)
        fail_msg("%s: %s", source, err.text);
    jinja_output_clear(&out);
    jinja_free(jinja);
    json_decref(variables);
}

static void test_jinja_reports_the_line(void **state)
{
    static const char *const rows[][2] = {
        { "a\n{{ x.y }}", "!t, line 2: 'x' is undefined" },
        { "\n\n{{ messages[0].name.first }}",
          "!t, line 3: 'dict object' has no attribute 'name'" },
        { "{{ messages[0].role + 1 }}",
          "!t, line 1: can only concatenate str (not \"int\") to str" },
        { "{% if true %}\n{% for x in y %}",
          "!t, line 2: Unexpected end of template: 'endfor' is missing" },
        { "{% frob %}", "!t, line 1: Encountered unknown tag 'frob'" },
        { "{{ 1 | frob }}", "!t, line 1: No filter named 'frob'; it is not supported" },
        { "{{ 1 is frob }}", "!t, line 1: No test named 'frob'; it is not supported" },
        { "{{ (1 }}", "!t, line 1: unexpected '}', expected ')'" },
        { "{{ 'a }}", "!t, line 1: unexpected char ''': the string has no end" },
        { "x\n{# a", "!t, line 2: Missing end of comment tag" },
        { "{{ raise_exception('no: ' ~ 1) }}", "!t, line 1: no: 1" },
        { "{{ messages.append(1) }}", "!t, line 1: a list must not be changed in place; "
                                      "make a new one with + or set" },
        { "{% include 'x' %}", "!t, line 1: Encountered unknown tag 'include'" },
        { "{% for x in [1] recursive %}{% endfor %}",
          "!t, line 1: recursive loops are not supported" },
        { "{{ 9223372036854775807 + 1 }}", "!t, line 1: an integer exceeds 64 bits" },
        { "{% macro m() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ m() }}",
          "!t, line 1: {% generation %} inside of a macro or a block that is set" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++)
        expect(rows[i][0], rows[i][1]);
}

#define STEPS  " steps: it does not end, or repeats its work"
#define MEMORY "the template takes more than 32 MiB of memory"
#define OFTEN  "{% for i in range(100000) %}"
#define LONG   "{% set x = 'a' * 1000000 %}"
#define BLANK  "{% set x = ' ' * 1000000 %}"
#define LIST   "{% set x = [1] * 900000 %}"

static void expect_failure(const char *source, const char *part)
{
    json_t *none = json_object();
    struct error err = { 0 };
    struct jinja_output out;
    struct jinja *jinja = jinja_parse(source, strlen(source), "t", &err);

    jinja_output_init(&out);
    assert_non_null(jinja);
    if (jinja_render(jinja, none, &out, NULL, &err) ||
        !text_starts(err.text, "t, line 1: ") || !strstr(err.text, part))
        fail_msg("%s: %s", source, err.code ? err.text : "no failure");
    jinja_output_clear(&out);
    jinja_free(jinja);
    json_decref(none);
}

/* Each of these took more than a second, and some took hours. */
static void test_jinja_limits_steps_and_memory(void **state)
{
    static const char *const rows[][2] = {
        { OFTEN OFTEN "{% endfor %}{% endfor %}", MEMORY },
        { "{% set l = range(99999) | list %}" OFTEN "{% if l != l %}{% endif %}{% endfor "
          "%}",
          STEPS },
        { "{{ 'x' * 1000000000000 }}", MEMORY },
        { "{{ ('%s' * 100000000) % 1 }}", MEMORY },
        { "{{ ('%s' * 10000000) % 1 }}", STEPS },
        { "{{ ('{}' * 10000000).format(1) }}", STEPS },
        { "{% set ns = namespace(x='ab') %}" OFTEN
          "{% set ns.x = ns.x + ns.x %}{% endfor %}",
          MEMORY },
        { "{% set ns = namespace(x='ab') %}" OFTEN
          "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
          MEMORY },
        { BLANK OFTEN "{% set y = x | trim %}{% endfor %}", STEPS },
        { BLANK OFTEN "{% set y = x.strip() %}{% endfor %}", STEPS },
        { BLANK OFTEN "{% set y = x | int %}{% endfor %}", STEPS },
        { "{{ ('a' * 1000000).strip('b' * 1000000 ~ 'a') }}", STEPS },
        { LONG OFTEN "{% set y = x.isalpha() %}{% endfor %}", STEPS },
        { LONG OFTEN "{% set y = x is lower %}{% endfor %}", STEPS },
        { LONG OFTEN "{% set y = x is string %}{% endfor %}", STEPS },
        { LONG OFTEN "{% set y = x | upper %}{% endfor %}", STEPS },
        { LONG OFTEN "{% set y = x | e %}{% endfor %}", STEPS },
        { LONG OFTEN "{% set y = x | tojson %}{% endfor %}", STEPS },
        { LONG OFTEN "{% set y = x.startswith(x) %}{% endfor %}", STEPS },
        { LONG OFTEN "{% set y = {x: 1}[x] %}{% endfor %}", STEPS },
        { LONG OFTEN "{% set y = strftime_now(x) %}{% endfor %}", MEMORY },
        { LONG "{{ x.rfind('a' * 500000 ~ 'b') }}", STEPS },
        { LONG "{{ x.rsplit('a' * 500000 ~ 'b') | length }}", STEPS },
        { LONG "{{ x.replace('a', x) | length }}", STEPS },
        { "{{ 'a'.ljust(30000000, 'b') | length }}", STEPS },
        { LIST OFTEN "{% set y = x | sum %}{% endfor %}", STEPS },
        { LIST OFTEN "{% set y = x | max %}{% endfor %}", STEPS },
        { LIST OFTEN "{% if 2 in x %}{% endif %}{% endfor %}", STEPS },
        { OFTEN "{{ '%9999d' % 1 }}{% endfor %}", STEPS },
        { OFTEN "{{ '%.20f' % 1e300 }}{% endfor %}", STEPS },
        { "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
          "the template exceeds 400 levels of nesting" },
        { "{% set ns = namespace(x=[]) %}{% for a in range(9999) %}{% set ns.x = [ns.x, "
          "ns.x] %}{% endfor %}{{ ns.x }}",
          "the template exceeds 400 levels of nesting" },
        { "{{ range(1000000) }}",
          "Range too big. The sandbox blocks ranges larger than 100000" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++)
        expect_failure(rows[i][0], rows[i][1]);
}

/* 1,000 messages of 1,000 bytes: more than the context of most models. */
static json_t *long_conversation(void)
{
    json_t *messages = json_array();
    char content[1001];

    for (size_t i = 0; i < sizeof(content) - 1; i++)
        content[i] = "word word\n<x> "[i % 14];
    content[sizeof(content) - 1] = 0;
    for (int i = 0; i < 1000; i++)
        json_array_append_new(messages, json_pack("{s s, s s}", "role",
                                                  i % 2 ? "assistant" : "user", "content",
                                                  content));
    return messages;
}

static void test_jinja_limits_allow_long_conversations(void **state)
{
    json_t *variables = json_deep_copy(json_object_get(golden, "special")), *source;
    const char *name;
    size_t rendered = 0;

    (void)state;
    json_object_set_new(variables, "messages", long_conversation());
    json_object_set_new(variables, "tools", json_null());
    json_object_set_new(variables, "add_generation_prompt", json_false());
    json_object_foreach(json_object_get(golden, "templates"), name, source)
    {
        struct error err = { 0 };
        struct jinja *jinja = jinja_parse(json_string_value(source),
                                          json_string_length(source), name, &err);
        struct jinja_output out;
        bool refused = false;

        jinja_output_init(&out);
        if (jinja_render(jinja, variables, &out, &refused, &err))
            rendered++;
        else if (!refused && strstr(err.text, "takes more than"))
            fail_msg("%s", err.text);
        jinja_output_clear(&out);
        jinja_free(jinja);
    }
    assert_true(rendered > 15);
    json_decref(variables);
}

static void test_jinja_recognizes_a_template_refusal(void **state)
{
    static const char source[] = "{{ raise_exception('only users') }}",
                      other[] = "{{ x.y }}";
    json_t *none = json_object();
    struct jinja_output out;

    (void)state;
    jinja_output_init(&out);
    for (int i = 0; i < 2; i++) {
        struct error err = { 0 };
        const char *text = i ? other : source;
        struct jinja *jinja = jinja_parse(text, strlen(text), "t", &err);
        bool refused = false;

        assert_false(jinja_render(jinja, none, &out, &refused, &err));
        assert_int_equal(refused, i == 0);
        assert_int_equal(err.code, ERROR_DATA);
        jinja_free(jinja);
    }
    jinja_output_clear(&out);
    json_decref(none);
}

static void test_jinja_reports_generation_spans(void **state)
{
    struct error err = { 0 };
    static const char with[] = "{%- generation -%}x{%- endgeneration -%}",
                      without[] = "x";
    struct jinja *a = jinja_parse(with, strlen(with), "a", &err);
    struct jinja *b = jinja_parse(without, strlen(without), "b", &err);

    (void)state;
    assert_true(jinja_marks_generation(a));
    assert_false(jinja_marks_generation(b));
    jinja_free(a);
    jinja_free(b);
    jinja_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jinja_matches_transformers),
        cmocka_unit_test(test_jinja_reads_published_templates),
        cmocka_unit_test(test_jinja_computes_like_python),
        cmocka_unit_test(test_jinja_reports_the_line),
        cmocka_unit_test(test_jinja_limits_steps_and_memory),
        cmocka_unit_test(test_jinja_limits_allow_long_conversations),
        cmocka_unit_test(test_jinja_recognizes_a_template_refusal),
        cmocka_unit_test(test_jinja_reports_generation_spans),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
