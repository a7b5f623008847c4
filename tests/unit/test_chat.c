/*
 * tests/unit/test_chat.c - a model's own chat template determines how conversations are
 * written, and which part of them is trained on.
 */
#include "config.h"

#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"
#include "train/chat/chat.h"

static const struct message conversation[] = {
    { ROLE_USER, "2+2?", 4, 0, NULL },
    { ROLE_ASSISTANT, "4", 1, 1, NULL },
    { ROLE_USER, "Sure?", 5, 0, NULL },
    { ROLE_ASSISTANT, "Yes.", 4, 1, NULL },
};

#define TURN   "<|im_start|>{{ m.role }}\\n{{ m.content }}<|im_end|>\\n"
#define EACH   "{% for m in messages %}"
#define PROMPT "{% if add_generation_prompt %}<|im_start|>assistant\\n{% endif %}"

/* A folder of a tokenizer whose configuration contains the template unchanged; the other
 * file of tokens adds to it without changing anything. */
static char *folder_with(const char *template)
{
    char *dir = unit_dir_new();
    struct text config;

    unit_tokenizer_write(dir, UNIT_SPECIALS, false);
    text_init(&config, 0);
    text_addf(&config,
              "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</s>\"%s%s}",
              template ? ", \"chat_template\": " : "", template ? template : "");
    unit_write(dir, "tokenizer_config.json", &config);
    text_clear(&config);
    unit_write_string(dir, "special_tokens_map.json",
                      "{\"bos_token\": \"<no>\", \"sep_token\": \"<sep>\"}");
    return dir;
}

static struct tokenizer *open_with(const char *template, struct error *err)
{
    char *dir = folder_with(template);
    struct tokenizer *tokenizer = chat_tokenizer_open(dir, err);

    unit_dir_free(dir);
    return tokenizer;
}

struct written {
    struct text all, learned;
    struct error err;
    bool ok;
};

static void write_conversation(struct written *out, const char *template,
                               const struct message *messages, size_t count,
                               const struct template_options *options)
{
    struct tokenizer *tokenizer = open_with(template, &out->err);
    const struct chat_template *chat = tokenizer ? template_guess(tokenizer) : NULL;
    const struct template_request request = { chat, tokenizer, options, messages, count };
    struct token_list ids = { 0 };
    float *weights = NULL;
    size_t kept = 0;

    *out = (struct written) { .err = out->err };
    text_init(&out->all, 0);
    text_init(&out->learned, 0);
    if (!tokenizer)
        fail_msg("%s", out->err.text);
    assert_non_null(template_model_chat(chat));
    out->ok = template_encode(&request, &ids, &weights, &out->err);
    tokenizer_decode(tokenizer, ids.ids, ids.count, false, &out->all);
    for (size_t i = 0; i < ids.count; i++)
        if (weights[i] > 0)
            ids.ids[kept++] = ids.ids[i];
    tokenizer_decode(tokenizer, ids.ids, kept, false, &out->learned);
    token_list_clear(&ids);
    free(weights);
    tokenizer_close(tokenizer);
}

static void expect(const char *template, const struct message *messages, size_t count,
                   const struct template_options *options, const char *all,
                   const char *learned)
{
    struct written got = { .ok = false };

    write_conversation(&got, template, messages, count, options);
    if (!got.ok)
        fail_msg("%s", got.err.text);
    assert_string_equal(got.all.data, all);
    assert_string_equal(got.learned.data, learned);
    text_clear(&got.all);
    text_clear(&got.learned);
}

static const struct template_options plain = { .cutoff_len = 0 };

static void test_chat_learns_between_prompts(void **state)
{
    static const char template[] = "\"" EACH TURN "{% endfor %}" PROMPT "\"";
    static const char all[] =
        "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n4<|im_end|>\n"
        "<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n";
    const struct template_options last = { .mask_history = true },
                                  prompt = { .train_on_prompt = true };

    (void)state;
    expect(template, conversation, 4, &plain, all, "4<|im_end|>\nYes.<|im_end|>\n");
    expect(template, conversation, 4, &last, all, "Yes.<|im_end|>\n");
    expect(template, conversation, 4, &prompt, all, all);
}

/* The file of a processor counts unless the tokenizer has a template. */
static void test_chat_reads_the_template_of_a_processor(void **state)
{
    static const char *const owns[] = { NULL, "\"{{ 'own' }}\"" };
    static const char *const files[] = {
        NULL,
        "{\"chat_template\": \"{% for m in messages %}{{ m.content }};{% endfor %}\"}",
    };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const char *own = owns[i % 2], *file = files[i / 2];
        char *dir = folder_with(own);
        struct error err = { 0 };
        struct tokenizer *tokenizer;
        struct template_request request = { .options = &plain,
                                            .messages = conversation,
                                            .count = 2 };
        struct text text;

        if (file)
            unit_write_string(dir, "chat_template.json", file);
        tokenizer = chat_tokenizer_open(dir, &err);
        request.tokenizer = tokenizer;
        request.chat = template_guess(tokenizer);
        text_init(&text, 0);
        assert_true((template_model_chat(request.chat) != NULL) == (own || file));
        if (own || file) {
            assert_true(chat_render(&request, false, &text, &err));
            assert_string_equal(text.data, own ? "own" : "2+2?;4;");
        }
        text_clear(&text);
        tokenizer_close(tokenizer);
        unit_dir_free(dir);
    }
}

static void test_chat_learns_marked_text(void **state)
{
    static const char template[] =
        "\"" EACH
        "{{ m.role }}: {% if m.role == 'assistant' %}{% generation %}{{ m.content }}!{% "
        "endgeneration %}{% else %}{{ m.content }}{% endif %} {% endfor %}\"";

    (void)state;
    expect(template, conversation, 4, &plain,
           "user: 2+2? assistant: 4! user: Sure? assistant: Yes.!", "4!Yes.!");
}

static void test_chat_omits_answers_it_cannot_locate(void **state)
{
    static const char template[] =
        "\"" EACH
        "[{{ m.role }}] {% if m.role == 'assistant' and loop.last %}(hm) {% endif %}{{ "
        "m.content }}\\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif "
        "%}\"";

    (void)state;
    expect(template, conversation, 4, &plain,
           "[user] 2+2?\n[assistant] 4\n[user] Sure?\n[assistant] (hm) Yes.\n",
           "(hm) Yes.\n");
}

#define TAILED(tail)                                                              \
    "\"" EACH "[{{ m.role }}] {{ m.content }}"                                    \
    "{% if loop.last and m.role == 'assistant' %}" tail "{% endif %}{% endfor %}" \
    "{% if add_generation_prompt %}[assistant] {% endif %}\""

/* Text written only after the last answer: one or two tokens are skipped. */
static void test_chat_skips_a_short_end(void **state)
{
    (void)state;
    expect(TAILED("!?"), conversation, 4, &plain,
           "[user] 2+2?[assistant] 4[user] Sure?[assistant] Yes.!?", "4Yes.!?");
    expect(TAILED("!?!"), conversation, 4, &plain,
           "[user] 2+2?[assistant] 4[user] Sure?[assistant] Yes.!?!", "Yes.!?!");
}

/* A system message of the conversation overrides the job's; thinking is undefined unless
 * the job sets it; the configuration's tokens come first in a template. */
static void test_chat_passes_variables_to_the_template(void **state)
{
    static const struct message system[] = {
        { ROLE_SYSTEM, "Own.", 4, 0, NULL },
        { ROLE_USER, "q", 1, 0, NULL },
        { ROLE_ASSISTANT, "a", 1, 1, NULL },
    };
    static const char roles[] =
        "[{\"name\": \"tool_use\", \"template\": \"tools\"}, {\"name\": \"default\", "
        "\"template\": \"" EACH "|{{ m.role }} {{ m.content }}{% endfor %}{% if "
        "add_generation_prompt %}|assistant {% endif %}\"}]";
    static const char thinking[] =
        "\"{{ bos_token }}{{ sep_token }}{{ enable_thinking is defined }} {{ "
        "enable_thinking }}" EACH "|{{ m.content }}{% endfor %}{% if "
        "add_generation_prompt %}|{% endif %}\"";
    const struct template_options job = { .default_system = "Job's." },
                                  on = { .thinking = CHAT_THINKING_ON },
                                  off = { .thinking = CHAT_THINKING_OFF };

    (void)state;
    expect(roles, system, 3, &job, "|system Own.|user q|assistant a", "a");
    expect(roles, system + 1, 2, &job, "|system Job's.|user q|assistant a", "a");
    expect(thinking, system + 1, 2, &plain, "<s><sep>False |q|a", "a");
    expect(thinking, system + 1, 2, &on, "<s><sep>True True|q|a", "a");
    expect(thinking, system + 1, 2, &off, "<s><sep>True False|q|a", "a");
}

static void test_chat_keeps_weights_and_cuts(void **state)
{
    static const char template[] = "\"" EACH TURN "{% endfor %}" PROMPT "\"";
    struct message weighted[4];
    const struct template_options cut = { .cutoff_len = 24 };

    (void)state;
    memcpy(weighted, conversation, sizeof(conversation));
    weighted[1].weight = 0;
    expect(template, weighted, 4, &plain,
           "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n4<|im_end|>\n"
           "<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n",
           "Yes.<|im_end|>\n");
    expect(template, conversation, 2, &cut,
           "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistan4<|im_end|>\n",
           "4<|im_end|>\n");
}

static void test_chat_gives_tokens_system_and_tools(void **state)
{
    static const char call[] = "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}";
    static const struct message tools[] = {
        { ROLE_TOOLS, "[{\"name\": \"f\"}]", 15, 0, NULL },
        { ROLE_USER, "q", 1, 0, NULL },
        { ROLE_FUNCTION, call, sizeof(call) - 1, 1, NULL },
        { ROLE_TOOL, "7", 1, 0, NULL },
        { ROLE_ASSISTANT, "seven", 5, 1, NULL },
    };
    static const char template[] =
        "[{\"name\": \"default\", \"template\": \"no tools\"}, {\"name\": \"tool_use\", "
        "\"template\": \"{{ bos_token }}{% for t in tools %}{{ t.function.name }}{% "
        "endfor %}" EACH
        "|{{ m.role }} {% if m.tool_calls %}{{ m.tool_calls[0].function | tojson }}{{ "
        "'' if m.content == '' else 'said' }}{% else %}{{ m.content }}{% endif %}{% "
        "endfor %}{% if add_generation_prompt %}|assistant {% endif %}\"}]";
    const struct template_options system = { .default_system = "Be." };

    (void)state;
    expect(template, tools, 5, &system,
           "<s>f|system Be.|user q|assistant {\"name\": \"f\", \"arguments\": {\"a\": "
           "1}}|tool 7|assistant seven",
           "{\"name\": \"f\", \"arguments\": {\"a\": 1}}seven");
}

static void expect_error(const char *template, const char *part)
{
    struct written got = { .ok = false };

    write_conversation(&got, template, conversation, 4, &plain);
    assert_false(got.ok);
    if (!strstr(got.err.text, part))
        fail_msg("%s", got.err.text);
    text_clear(&got.all);
    text_clear(&got.learned);
}

static void test_chat_reports_errors_of_the_template(void **state)
{
    (void)state;
    expect_error("\"{% frob %}\"",
                 "line 1: Encountered unknown tag 'frob'; name a template");
    expect_error("\"{{ raise_exception('no, no') }}\"", "line 1: no, no");
    expect_error("\"{{ messages | length }}{{ messages[-1].content }}\"",
                 "cannot separate the answer from the question");
}

/* NULL: no error. */
static void expect_chat_try(const char *template, const char *expected)
{
    struct error err = { 0 };
    char *dir = folder_with(template);
    struct chat *chat;

    assert_true(chat_open(dir, &chat, &err));
    assert_int_equal(chat_check(chat, &err) && chat_try(chat, dir, &err), !expected);
    if (expected && !strstr(err.text, expected))
        fail_msg("\"%s\" is not in \"%s\"", expected, err.text);
    chat_close(chat);
    unit_dir_free(dir);
}

/* Checks that need no conversation. */
static void test_chat_is_checked_before_a_run(void **state)
{
    (void)state;
    expect_chat_try("\"" EACH TURN "{% endfor %}" PROMPT "\"", NULL);
    expect_chat_try("\"{% frob %}\"",
                    "tokenizer_config.json, line 1: Encountered unknown "
                    "tag 'frob'; name a template");
    expect_chat_try("\"" EACH "{{ m.content | frob }}{% endfor %}\"",
                    "tokenizer_config.json, line 1: No filter named 'frob'");
    expect_chat_try("\"{{ raise_exception('documents, please') }}\"", NULL);
    expect_chat_try("\"" EACH TURN "{% endfor %}<|im_start|>assistant\\nto: user\\n\"",
                    "cannot separate the answer from the question");
    expect_chat_try("\"{% if false %}{% generation %}{% endgeneration %}{% endif %}\"",
                    "marks no text as an answer; name a template in the job");
    expect_chat_try("\"{{ messages[0].content }}\"",
                    "cannot separate the answer from the question");
    expect_chat_try("\"" EACH
                    "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}\"",
                    NULL);
}

/* If the texts differ only in the last token, the answer can be located: a run skips that
 * token. */
static void test_chat_check_compares_tokens(void **state)
{
#define ENDS(tail) \
    "\"" EACH TURN "{% endfor %}{% if add_generation_prompt %}" tail "{% endif %}\""
    (void)state;
    expect_chat_try(ENDS("<|im_start|>assistant\\n-"), NULL);
    expect_chat_try(ENDS("<|im_start|>assistant\\n--"),
                    "cannot separate the answer from the question");
#undef ENDS
}

static void test_chat_writes_prompts(void **state)
{
    struct error err = { 0 };
    struct tokenizer *tokenizer =
        open_with("\"" EACH TURN "{% endfor %}" PROMPT "\"", &err);
    struct template_request request = { NULL, tokenizer, &plain, conversation, 1 };
    struct token_list ids = { 0 };
    struct text text;
    size_t answer;

    (void)state;
    assert_non_null(tokenizer);
    request.chat = template_guess(tokenizer);
    assert_true(chat_prompt(&request, &ids, &answer, &err));
    text_init(&text, 0);
    tokenizer_decode(tokenizer, ids.ids, answer, false, &text);
    assert_string_equal(text.data,
                        "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n");
    text_reset(&text);
    tokenizer_decode(tokenizer, ids.ids + answer, ids.count - answer, false, &text);
    assert_string_equal(text.data, "<|im_end|>\n");
    text_clear(&text);
    token_list_clear(&ids);
    tokenizer_close(tokenizer);
}

/* The template writes text after the prompt that not every answer starts with. */
static void test_chat_ends_prompts_where_an_answer_would(void **state)
{
    struct error err = { 0 };
    struct tokenizer *tokenizer =
        open_with("\"" EACH TURN "{% endfor %}{% if add_generation_prompt "
                  "%}<|im_start|>assistant\\n<think>{% endif %}\"",
                  &err);
    struct template_request request = { NULL, tokenizer, &plain, conversation, 1 };
    struct token_list ids = { 0 };
    struct text text;
    size_t answer;

    (void)state;
    assert_non_null(tokenizer);
    request.chat = template_guess(tokenizer);
    assert_true(chat_prompt(&request, &ids, &answer, &err));
    text_init(&text, 0);
    tokenizer_decode(tokenizer, ids.ids, ids.count, false, &text);
    assert_string_equal(text.data, "<|im_start|>user\n"
                                   "2+2?<|im_end|>\n"
                                   "<|im_start|>assistant\n"
                                   "<think><|im_end|>\n");
    text_clear(&text);
    token_list_clear(&ids);
    tokenizer_close(tokenizer);
}

static void test_chat_may_be_absent(void **state)
{
    struct error err = { 0 };
    struct tokenizer *tokenizer = open_with(NULL, &err);

    (void)state;
    assert_non_null(tokenizer);
    assert_null(tokenizer_attached(tokenizer));
    assert_null(template_model_chat(template_guess(tokenizer)));
    tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_learns_between_prompts),
        cmocka_unit_test(test_chat_reads_the_template_of_a_processor),
        cmocka_unit_test(test_chat_learns_marked_text),
        cmocka_unit_test(test_chat_omits_answers_it_cannot_locate),
        cmocka_unit_test(test_chat_skips_a_short_end),
        cmocka_unit_test(test_chat_passes_variables_to_the_template),
        cmocka_unit_test(test_chat_keeps_weights_and_cuts),
        cmocka_unit_test(test_chat_gives_tokens_system_and_tools),
        cmocka_unit_test(test_chat_reports_errors_of_the_template),
        cmocka_unit_test(test_chat_is_checked_before_a_run),
        cmocka_unit_test(test_chat_check_compares_tokens),
        cmocka_unit_test(test_chat_writes_prompts),
        cmocka_unit_test(test_chat_ends_prompts_where_an_answer_would),
        cmocka_unit_test(test_chat_may_be_absent),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
