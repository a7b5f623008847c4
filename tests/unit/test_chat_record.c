/* tests/unit/test_chat_record.c - all keys of a record's messages reach the model's own
 * template, as transformers passes them; a named template writes thoughts, and what a
 * template leaves out is counted. */
#include "config.h"

#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"
#include "train/chat/chat.h"
#include "train/dataset/dataset_record.h"

/* What a record becomes: its text, the text that is trained, and what is left out. */
struct written {
    struct text all, learned, left;
    struct template_tally tally;
    struct error err;
};

static void written_clear(struct written *got)
{
    text_clear(&got->all);
    text_clear(&got->learned);
    text_clear(&got->left);
}

static struct tokenizer *open_with(const char *template, struct error *err)
{
    char *dir = unit_dir_new();
    struct tokenizer *tokenizer;

    unit_tokenizer_write(dir, UNIT_SPECIALS, false);
    unit_write_string(dir, "tokenizer_config.json",
                      "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}");
    unit_write_string(dir, "chat_template.jinja", template);
    tokenizer = chat_tokenizer_open(dir, err);
    unit_dir_free(dir);
    if (!tokenizer)
        fail_msg("%s", err->text);
    return tokenizer;
}

/* In JSON, ' stands for ". */
static json_t *read_record(const char *json, struct error *err)
{
    struct text text;
    json_t *record;

    text_init(&text, 0);
    for (const char *at = json; *at; at++)
        text_addc(&text, *at == '\'' ? '"' : *at);
    record = json_read_text(text.data, text.len, "record", 1, err);
    text_clear(&text);
    if (!record)
        fail_msg("%s", err->text);
    return record;
}

/* Encode a record with a model's own template, or with a named one. */
static void write_record(struct written *out, const char *template, const char *name,
                         const char *json, struct template_options options)
{
    static const struct dataset_source detect;
    struct error err = { 0 };
    struct tokenizer *tokenizer = open_with(template, &err);
    json_t *record = read_record(json, &err);
    struct conversation conversation = { 0 };
    struct token_list ids = { 0 };
    const char *why = NULL;
    float *weights = NULL;
    size_t kept = 0;

    *out = (struct written) { .err = { 0 } };
    text_init(&out->all, 0);
    text_init(&out->learned, 0);
    text_init(&out->left, 0);
    if (dataset_record_read(&detect, record, false, &conversation, &why, &out->err) !=
        RECORD_CONVERSATION)
        fail_msg("%s: %s%s", json, out->err.text, why ? why : "");
    options.variables = conversation.variables;
    options.tally = &out->tally;
    template_encode(&(struct template_request) { .chat = name ? template_find(name)
                                                              : template_guess(tokenizer),
                                                 .tokenizer = tokenizer,
                                                 .options = &options,
                                                 .messages = conversation.messages,
                                                 .count = conversation.count },
                    &ids, &weights, &out->err);
    tokenizer_decode(tokenizer, ids.ids, ids.count, false, &out->all);
    for (size_t i = 0; i < ids.count; i++)
        if (weights[i] > 0)
            ids.ids[kept++] = ids.ids[i];
    tokenizer_decode(tokenizer, ids.ids, kept, false, &out->learned);
    template_tally_describe(&out->tally, &out->left);
    conversation_free(&conversation);
    token_list_clear(&ids);
    free(weights);
    json_decref(record);
    tokenizer_close(tokenizer);
}

static const struct template_options plain = { .cutoff_len = 0 };

struct given {
    const char *json, *all;
};

static void expect_all(const char *template, const struct given *given, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct written got;

        write_record(&got, template, NULL, given[i].json, plain);
        if (got.err.code != ERROR_NONE)
            fail_msg("%s: %s", given[i].json, got.err.text);
        if (strcmp(got.all.data, given[i].all) != 0)
            fail_msg("%s\n gives %s\n not   %s", given[i].json, got.all.data,
                     given[i].all);
        written_clear(&got);
    }
}

#define RECORD(answer) "{'messages': [{'role': 'user', 'content': 'q'}, " answer "]}"
#define ANSWER(keys)   "{'role': 'assistant', " keys "}"
#define CALLS          "'tool_calls': [{'id': 'c1', 'function': {'name': 'f', 'arguments': "

static void test_chat_record_passes_all_keys(void **state)
{
    static const char template[] =
        "{% for m in messages %}|{{ m.role }} {{ m.name }}{% if m.reasoning_content %}"
        "({{ m.reasoning_content }})({{ m.thinking }}){% endif %}{{ m.content }}"
        "{% for c in m.tool_calls %}<{{ c.id }} {{ c.function.name }} "
        "{{ c.function.arguments | tojson }}>{% endfor %}{{ m.tool_call_id }}"
        "{% endfor %}{% if add_generation_prompt %}|assistant {% endif %}";
    static const struct given cases[] = {
        { RECORD(ANSWER("'content': 'a', 'reasoning_content': 'r'")),
          "|user q|assistant (r)(r)a" },
        { RECORD(ANSWER("'content': 'a', 'thinking': 't'")),
          "|user q|assistant (t)(t)a" },
        { RECORD(ANSWER("'content': 'a', 'reasoning': 'o', 'thinking': null")),
          "|user q|assistant (o)(o)a" },
        { RECORD(ANSWER("'content': 'a', 'thinking': 't', 'reasoning_content': 'r'")),
          "|user q|assistant (r)(t)a" },
        { RECORD(ANSWER("'content': 'look', " CALLS "{'a': 1}}}]")),
          "|user q|assistant look<c1 f {\"a\": 1}>" },
        { RECORD(ANSWER("'content': '', " CALLS "'x'}}]")),
          "|user q|assistant <c1 f \"x\">" },
        { RECORD(ANSWER("'content': null, " CALLS "{}}}]")),
          "|user q|assistant <c1 f {}>" },
        { RECORD(ANSWER(CALLS "{}}}]")), "|user q|assistant <c1 f {}>" },
        { RECORD(ANSWER("'content': 'b', 'name': 'n'")), "|user q|assistant nb" },
        { "{'messages': [{'role': 'user', 'content': 'q'}, " ANSWER(
              "'content': 'c', " CALLS
              "{}}}]") ", {'role': 'tool', 'content': '7', "
                       "'tool_call_id': 'c1'}, " ANSWER("'content': 'a'") "]}",
          "|user q|assistant c<c1 f {}>|tool 7c1|assistant a" },
        { "{'messages': [{'role': 'developer', 'content': 's'}, {'role': 'user', "
          "'content': 'q'}, {'role': 'assistant', 'content': 'a'}]}",
          "|developer s|user q|assistant a" },
        { "{'conversations': [{'from': 'human', 'value': 'q'}, {'from': 'gpt', 'value': "
          "'a', 'reasoning': 'r'}]}",
          "|user q|assistant (r)(r)a" },
    };

    (void)state;
    expect_all(template, cases, TS_COUNT(cases));
}

/* null is a missing key, and "" where a template fails on that. */
static void test_chat_record_drops_null(void **state)
{
    static const char defined[] =
        "{% for m in messages %}|{{ m.content is defined }}.{% endfor %}"
        "{% if add_generation_prompt %}|{% endif %}";
    static const char adds[] =
        "{% for m in messages %}{{ '|' + m.content + '.' }}{% endfor %}"
        "{% if add_generation_prompt %}|{% endif %}";
    static const struct given missing[] = { { RECORD(ANSWER("'content': null")),
                                              "|True.|False." } },
                              filled[] = { { RECORD(ANSWER("'content': null")),
                                             "|q.|." } };

    (void)state;
    expect_all(defined, missing, TS_COUNT(missing));
    expect_all(adds, filled, TS_COUNT(filled));
}

static void test_chat_record_passes_parts_to_templates_that_read_them(void **state)
{
    static const char reads[] =
        "{% for m in messages %}|{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}|{% endif %}";
    static const char prints[] = "{% for m in messages %}|{{ m.content }}{% endfor %}"
                                 "{% if add_generation_prompt %}|{% endif %}";
    static const char parts[] =
        "{'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'p'}, "
        "{'type': 'text', 'text': 'q'}]}, {'role': 'assistant', 'content': 'a'}]}";
    static const struct given lists[] = { { parts, "|[p][q]|a" } },
                              texts[] = { { parts, "|pq|a" } };

    (void)state;
    expect_all(reads, lists, 1);
    expect_all(prints, texts, 1);
}

/* As PaddleOCR-VL's, which would leave out strings. */
static void test_chat_record_divides_texts_for_templates_of_parts(void **state)
{
    static const char template[] =
        "{% for m in messages %}|{% for p in m.content %}{% if p.type == 'text' %}"
        "[{{ p.text }}]{% endif %}{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}|{% endif %}";
    static const struct given cases[] = {
        { "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
          "'content': 'a'}]}",
          "|[q]|[a]" },
        { "{'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'p'}, "
          "{'type': 'text', 'text': 'q'}]}, {'role': 'assistant', 'content': 'a'}]}",
          "|[p][q]|[a]" },
    };

    (void)state;
    expect_all(template, cases, TS_COUNT(cases));
}

static void test_chat_record_passes_its_variables(void **state)
{
    static const char template[] =
        "{{ effort }}{{ enable_thinking }}{% for m in messages %}|{{ m.content }}"
        "{% endfor %}{% if add_generation_prompt %}|{% endif %}";
    static const struct given cases[] = {
        { "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
          "'content': 'a'}], 'chat_template_kwargs': {'effort': 'high', "
          "'enable_thinking': false}}",
          "highFalse|q|a" },
    };

    (void)state;
    expect_all(template, cases, TS_COUNT(cases));
}

/* TRL's form: only the messages of the completion are trained. */
static void test_chat_record_learns_the_completion(void **state)
{
    static const char template[] =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    struct written got;

    (void)state;
    write_record(&got, template, NULL,
                 "{'prompt': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
                 "'content': 'old'}, {'role': 'user', 'content': 'r'}], 'completion': "
                 "[{'role': 'assistant', 'content': 'new'}]}",
                 plain);
    assert_string_equal(got.all.data, "<user>q<assistant>old<user>r<assistant>new");
    assert_string_equal(got.learned.data, "new");
    assert_int_equal(got.tally.answers, 1);
    written_clear(&got);
}

/* A token that a mark ends in is part of the answer; several marks may be one answer. */
static void test_chat_record_learns_marks(void **state)
{
    static const char template[] =
        "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}"
        "{% if m.thinking %}{% generation %}({{ m.thinking }}){% endgeneration %} - "
        "{% endif %}{% generation %}{{ m.content }}.{% endgeneration %}{% else %}"
        "{{ m.content }}{% endif %}{% endfor %}";
    struct template_options last = { .mask_history = true };
    struct written got;
    static const char json[] =
        "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
        "'content': 'a'}, {'role': 'user', 'content': 'r'}, {'role': 'assistant', "
        "'content': 'b', 'thinking': 't'}]}";

    (void)state;
    write_record(&got, template, NULL, json, plain);
    assert_string_equal(got.learned.data, "a.(t)b.");
    assert_int_equal(got.tally.answers, 2);
    assert_int_equal(got.tally.unlearned, 0);
    written_clear(&got);
    write_record(&got, template, NULL, json, last);
    assert_string_equal(got.learned.data, "(t)b.");
    written_clear(&got);
    write_record(
        &got,
        "{% for m in messages %}|{% if m.role == 'user' %}{{ m.content }}{% else "
        "%}{% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor "
        "%}",
        NULL, RECORD(ANSWER("'content': ''")), plain);
    assert_string_equal(got.learned.data, "");
    assert_int_equal(got.tally.unlearned, 0); /* it is empty, not written differently */
    written_clear(&got);
}

#define QWEN                                                                          \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if loop.last and m.role == " \
    "'assistant' %}<think>\n\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n"     \
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

/* Answers that the template writes differently later are counted. */
static void test_chat_record_counts_answers_without_a_position(void **state)
{
    struct written got;

    (void)state;
    write_record(&got, QWEN, NULL,
                 "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
                 "'content': 'a'}, {'role': 'user', 'content': 'r'}, {'role': "
                 "'assistant', 'content': 'b'}]}",
                 plain);
    assert_string_equal(got.learned.data, "<think>\n\n</think>\n\nb<|im_end|>\n");
    assert_int_equal(got.tally.answers, 2);
    assert_int_equal(got.tally.unlearned, 1);
    written_clear(&got);
}

static void test_chat_record_counts_keys_that_are_not_written(void **state)
{
    static const char json[] =
        "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
        "'content': 'look', 'reasoning_content': 'r', 'tool_calls': [{'function': "
        "{'name': 'f', 'arguments': {}}}]}, {'role': 'tool', 'content': '1', "
        "'tool_call_id': 'c'}, {'role': 'assistant', 'content': 'a', "
        "'reasoning_content': 's'}]}";
    struct written got;

    (void)state;
    write_record(&got, QWEN, NULL, json, plain);
    assert_string_equal(got.left.data,
                        "reasoning_content of 2 messages, tool_calls of 1 message, "
                        "tool_call_id of 1 message");
    written_clear(&got);
    write_record(&got,
                 "{{ enable_thinking }}{{ not_thinking }}{% for m in messages %}|{{ "
                 "m['content'] }}{{ m['tool_calls'] }}{{ m.get('tool_call_id') }}{% "
                 "endfor %}{% if add_generation_prompt %}|{% endif %}",
                 NULL, json, plain);
    assert_string_equal(got.left.data, "reasoning_content of 2 messages");
    written_clear(&got);
    write_record(&got, QWEN, "chatml", json, plain);
    assert_string_equal(got.left.data,
                        "reasoning_content of 2 messages, content next to tool_calls of "
                        "1 message, tool_call_id of 1 message");
    written_clear(&got);
    write_record(&got, QWEN, "qwen3", json, plain);
    assert_string_equal(got.left.data, "content next to tool_calls of 1 message, "
                                       "tool_call_id of 1 message");
    written_clear(&got);
}

/* LLaMA-Factory's ReasoningTemplate, with the thoughts from their own key. */
static void test_chat_record_writes_thoughts_with_named_templates(void **state)
{
    static const char json[] =
        "{'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
        "'content': 'a', 'reasoning_content': 'r'}, {'role': 'user', 'content': 's'}, "
        "{'role': 'assistant', 'content': 'b'}]}";
    struct template_options off = { .thinking = CHAT_THINKING_OFF },
                            last = { .mask_history = true };
    struct written got;

    (void)state;
    write_record(&got, QWEN, "qwen3", json, plain);
    assert_string_equal(got.learned.data,
                        "<think>\nr\n</think>\n\na<|im_end|>\n<think>\n\n</think>\n\n"
                        "b<|im_end|>\n");
    written_clear(&got);
    write_record(&got, QWEN, "qwen3", json, off);
    assert_string_equal(got.learned.data, "a<|im_end|>\nb<|im_end|>\n");
    written_clear(&got);
    write_record(&got, QWEN, "qwen3", json, last);
    assert_null(strstr(got.all.data, "r\n</think>"));
    written_clear(&got);
    write_record(&got, QWEN, "chatml", json, plain);
    assert_string_equal(got.learned.data, "a<|im_end|>\nb<|im_end|>\n");
    written_clear(&got);
}

/* The named template that fits a model's own, with and without a tokenizer's help. */
static void test_chat_record_matches_named_templates(void **state)
{
    static const struct {
        const char *template, *name, *other;
    } cases[] = {
        { QWEN, "qwen3", "chatml" },
        { "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
          "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
          "chatml", "qwen3" },
        { "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ "
          "m.content }}{% else %}<｜Assistant｜>{{ m.content.split('</think>')[-1] }}{{ "
          "eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}"
          "<｜Assistant｜><think>\n{% endif %}",
          "deepseekr1", "deepseek3" },
        { "<s>{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}"
          "{% else %}<｜Assistant｜></think>{{ m.content }}<｜end▁of▁sentence｜>{% endif "
          "%}{% endfor %}{% if add_generation_prompt %}<｜Assistant｜></think>{% endif %}",
          "deepseek3", "deepseekr1" },
        { "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ "
          "m.content }}{% else %}<｜Assistant｜>{{ m.content }}{{ eos_token }}{% endif "
          "%}{% endfor %}{% if add_generation_prompt %}<｜Assistant｜>{% endif %}",
          "deepseek3", "deepseekr1" },
        { "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}"
          "<|end_header_id|>\n\n{{ m.content }}<|eot_id|>{% endfor %}",
          "llama3", NULL },
        { "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == "
          "'assistant' else m.role }}\n{{ m.content }}<end_of_turn>\n{% endfor %}",
          "gemma", NULL },
        { "{% frob %}<|im_start|><|im_end|>", "chatml", NULL },
        { "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}", NULL,
          NULL },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct tokenizer *tokenizer = open_with(cases[i].template, &err);
        const struct chat *own = template_model_chat(template_guess(tokenizer));
        const char *other, *name = template_match(own, &other);

        if (strcmp(name ? name : "", cases[i].name ? cases[i].name : "") != 0 ||
            strcmp(other ? other : "", cases[i].other ? cases[i].other : "") != 0)
            fail_msg("%s is like %s and %s", cases[i].template, name ? name : "none",
                     other ? other : "none");
        tokenizer_close(tokenizer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_record_passes_all_keys),
        cmocka_unit_test(test_chat_record_drops_null),
        cmocka_unit_test(test_chat_record_passes_parts_to_templates_that_read_them),
        cmocka_unit_test(test_chat_record_divides_texts_for_templates_of_parts),
        cmocka_unit_test(test_chat_record_passes_its_variables),
        cmocka_unit_test(test_chat_record_learns_the_completion),
        cmocka_unit_test(test_chat_record_learns_marks),
        cmocka_unit_test(test_chat_record_counts_answers_without_a_position),
        cmocka_unit_test(test_chat_record_counts_keys_that_are_not_written),
        cmocka_unit_test(test_chat_record_writes_thoughts_with_named_templates),
        cmocka_unit_test(test_chat_record_matches_named_templates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
