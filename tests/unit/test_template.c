/* tests/unit/test_template.c - each template writes LLaMA-Factory's text and trains only
 * on the answers; turns are truncated as in LLaMA-Factory. */
#include "config.h"

#include "train/chat/template.h"

#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"

static struct tokenizer *tokenizer;

static int open_tokenizer(void **state)
{
    (void)state;
    tokenizer = unit_tokenizer(UNIT_SPECIALS);
    return 0;
}

static int close_tokenizer(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    return 0;
}

/* A conversation of two turns, preceded by its system message. */
static const struct message conversation[] = {
    { ROLE_SYSTEM, "Be brief.", 9, 0, NULL }, { ROLE_USER, "2+2?", 4, 0, NULL },
    { ROLE_ASSISTANT, "4", 1, 1, NULL },      { ROLE_USER, "Sure?", 5, 0, NULL },
    { ROLE_ASSISTANT, "Yes.", 4, 1, NULL },
};

/* The encoded conversation: all of it, and the trained part, as texts. */
struct encoded {
    struct token_list ids;
    float *weights;
    struct text all, trained;
};

static void encode(struct encoded *out, const char *name, const struct message *messages,
                   size_t count, const struct template_options *options)
{
    const struct template_request request = { template_find(name), tokenizer, options,
                                              messages, count };
    struct error err = { 0 };

    *out = (struct encoded) { .weights = NULL };
    text_init(&out->all, 0);
    text_init(&out->trained, 0);
    if (!template_encode(&request, &out->ids, &out->weights, &err))
        fail_msg("%s", err.text);
    tokenizer_decode(tokenizer, out->ids.ids, out->ids.count, false, &out->all);
    for (size_t i = 0; i < out->ids.count; i++) {
        if (out->weights[i] > 0)
            tokenizer_decode(tokenizer, &out->ids.ids[i], 1, false, &out->trained);
    }
}

static void encoded_clear(struct encoded *encoded)
{
    token_list_clear(&encoded->ids);
    free(encoded->weights);
    text_clear(&encoded->all);
    text_clear(&encoded->trained);
}

static const struct {
    const char *name, *all, *trained;
} golden[] = {
    { "default",
      "System: Be brief.</s>\nHuman: 2+2?</s>\nAssistant:4</s>\nHuman: Sure?</s>\n"
      "Assistant:Yes.</s>\n",
      "4</s>\nYes.</s>\n" },
    { "alpaca",
      "Be brief.### Instruction:\n"
      "2+2?\n\n"
      "### Response:\n"
      "4</s>\n\n"
      "### Instruction:\n"
      "Sure?\n\n"
      "### Response:\n"
      "Yes.</s>\n\n",
      "4</s>\n\nYes.</s>\n\n" },
    { "chatml",
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n"
      "<|im_start|>assistant\n4<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n"
      "<|im_start|>assistant\nYes.<|im_end|>\n",
      "4<|im_end|>\nYes.<|im_end|>\n" },
    { "empty", "Be brief.2+2?4Sure?Yes.", "4Yes." },
    { "gemma",
      "<s><start_of_turn>user\n"
      "Be brief.\n\n"
      "2+2?<end_of_turn>\n"
      "<start_of_turn>model\n"
      "4<end_of_turn>\n"
      "<start_of_turn>user\n"
      "Sure?<end_of_turn>\n"
      "<start_of_turn>model\n"
      "Yes.<end_of_turn>\n",
      "4<end_of_turn>\nYes.<end_of_turn>\n" },
    { "llama2",
      "<s>[INST] <<SYS>>\n"
      "Be brief.\n"
      "<</SYS>>\n\n"
      "2+2? [/INST]4</s><s>[INST] Sure? [/INST]Yes.</s>",
      "4</s>Yes.</s>" },
    { "llama3",
      "<s><|start_header_id|>system<|end_header_id|>\n\n"
      "Be brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
      "2+2?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
      "4<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
      "Sure?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
      "Yes.<|eot_id|>",
      "4<|eot_id|>Yes.<|eot_id|>" },
    { "mistral", "<s>[INST] Be brief.\n\n2+2?[/INST] 4</s>[INST] Sure?[/INST] Yes.</s>",
      " 4</s> Yes.</s>" },
    { "phi",
      "<|system|>\nBe brief.<|end|>\n<|user|>\n2+2?<|end|>\n<|assistant|>\n4<|end|>\n"
      "<|user|>\nSure?<|end|>\n<|assistant|>\nYes.<|end|>\n",
      "4<|end|>\nYes.<|end|>\n" },
    { "qwen",
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n"
      "<|im_start|>assistant\n4<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n"
      "<|im_start|>assistant\nYes.<|im_end|>\n",
      "4<|im_end|>\nYes.<|im_end|>\n" },
    { "qwen3_nothink",
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n"
      "<|im_start|>assistant\n4<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n"
      "<|im_start|>assistant\nYes.<|im_end|>\n",
      "4<|im_end|>\nYes.<|im_end|>\n" },
    { "vicuna", "Be brief.USER: 2+2? ASSISTANT:4</s>USER: Sure? ASSISTANT:Yes.</s>",
      "4</s>Yes.</s>" },
    { "zephyr",
      "<|system|>\n"
      "Be brief.</s><|user|>\n"
      "2+2?</s><|assistant|>\n"
      "4</s><|user|>\n"
      "Sure?</s><|assistant|>\n"
      "Yes.</s>",
      "4</s>Yes.</s>" },
};

static void test_template_matches_llama_factory_texts(void **state)
{
    const struct template_options options = { 0 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(golden); i++) {
        struct encoded got;

        encode(&got, golden[i].name, conversation, TS_COUNT(conversation), &options);
        assert_string_equal(got.all.data, golden[i].all);
        assert_string_equal(got.trained.data, golden[i].trained);
        encoded_clear(&got);
    }
}

static size_t count_rows(void)
{
    size_t rows = 0;

    while (template_name(rows))
        rows++;
    return rows;
}

static void test_template_is_found_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < count_rows(); i++)
        assert_string_equal(template_row_name(template_find(template_name(i))),
                            template_name(i));
    assert_null(template_find("Chatml"));
}

static void test_template_rows_are_in_the_manual(void **state)
{
    char *path = unit_source("docs/trainspool-job.5"), *list;
    struct error err = { 0 };
    struct text manual;
    size_t rows = 0;

    (void)state;
    text_init(&manual, 0);
    assert_true(file_read(path, 1 << 20, &manual, NULL, &err));
    list = strstr(manual.data, "\nTemplates:\n");
    assert_non_null(list);
    list = strtok(list, "\n");
    while ((list = strtok(NULL, " \n\"")) && strcmp(list, "Without") != 0) {
        size_t len = strcspn(list, ",");

        if (len == 0 || list[0] == '.') /* ".BR", the commas between, the end */
            continue;
        list[len] = 0;
        assert_non_null(template_find(list));
        rows++;
    }
    assert_non_null(list);
    assert_int_equal(rows, count_rows());
    text_clear(&manual);
    free(path);
}

static void test_template_picks_the_right_system_message(void **state)
{
    const struct template_options plain = { 0 },
                                  job = { .default_system = "By the job." };
    static const struct message silent[] = {
        { ROLE_SYSTEM, "", 0, 0, NULL },
        { ROLE_USER, "a", 1, 0, NULL },
        { ROLE_ASSISTANT, "b", 1, 1, NULL },
    };
    struct encoded got;

    (void)state;
    encode(&got, "qwen", conversation + 1, 2, &plain);
    assert_true(text_starts(got.all.data,
                            "<|im_start|>system\n"
                            "You are Qwen, created by Alibaba Cloud. You are a "
                            "helpful assistant.<"));
    encoded_clear(&got);
    encode(&got, "qwen", conversation + 1, 2, &job);
    assert_true(text_starts(got.all.data, "<|im_start|>system\nBy the job.<|im_end|>"));
    encoded_clear(&got);
    encode(&got, "qwen", silent, 3, &job);
    assert_true(text_starts(got.all.data, "<|im_start|>system\nBy the job.<|im_end|>"));
    encoded_clear(&got);
    encode(&got, "alpaca", conversation + 1, 2, &plain);
    assert_true(text_starts(got.all.data,
                            "Below is an instruction that describes a task. Write a "
                            "response that appropriately completes the request.\n\n"
                            "### Instruction:\n"
                            "2+2?\n\n"));
    encoded_clear(&got);
    encode(&got, "chatml", conversation + 1, 2, &plain);
    assert_true(text_starts(got.all.data, "<|im_start|>user\n2+2?"));
    encoded_clear(&got);
}

static void test_template_trains_as_configured(void **state)
{
    const struct template_options prompt = { .train_on_prompt = true };
    const struct template_options last = { .mask_history = true };
    struct message masked[4];
    struct encoded got;

    (void)state;
    encode(&got, "default", conversation + 1, 4, &prompt);
    assert_string_equal(got.trained.data, got.all.data);
    encoded_clear(&got);
    encode(&got, "default", conversation + 1, 4, &last);
    assert_string_equal(got.trained.data, "Yes.</s>\n");
    encoded_clear(&got);
    memcpy(masked, conversation + 1, sizeof(masked));
    masked[3].weight = 0;
    masked[1].weight = 0.25f;
    encode(&got, "default", masked, 4, &(struct template_options) { 0 });
    assert_string_equal(got.trained.data, "4</s>\n");
    for (size_t i = 0; i < got.ids.count; i++)
        assert_true(got.weights[i] == 0 || got.weights[i] == 0.25f);
    encoded_clear(&got);
}

/* Placeholders and special tokens in a message are kept literally. */
static void test_template_keeps_messages_literally(void **state)
{
    static const struct message odd[] = {
        { ROLE_USER, "{{content}} {{idx}} {{name}}", 28, 0, NULL },
        { ROLE_ASSISTANT, "I am {{name}}.\001\003", 16, 1, NULL },
    };
    struct encoded got;

    (void)state;
    encode(&got, "llama2", odd, 2, &(struct template_options) { 0 });
    assert_string_equal(got.all.data,
                        "<s>[INST] {{content}} {{idx}} {{name}} [/INST]I am "
                        "{{name}}.\001\003</s>");
    encoded_clear(&got);
}

/* A turn of source and target tokens in template "empty", truncated to a length. */
static void expect_cut(size_t source, size_t target, size_t cutoff, size_t want_source,
                       size_t want_target)
{
    char *text = memory_alloc(source + target + 1);
    const struct template_options options = { .cutoff_len = cutoff };
    const struct message turn[] = {
        { ROLE_USER, text, source, 0, NULL },
        { ROLE_ASSISTANT, text + source, target, 1, NULL },
    };
    struct encoded got;

    memset(text, 'q', source);
    memset(text + source, 'a', target);
    encode(&got, "empty", turn, 2, &options);
    assert_int_equal(got.ids.count, want_source + want_target);
    assert_int_equal(got.trained.len, want_target);
    for (size_t i = 0; i < got.ids.count; i++)
        assert_int_equal(got.ids.ids[i], i < want_source ? 'q' : 'a');
    encoded_clear(&got);
    free(text);
}

/* Expected lengths: computed by hand from infer_seqlen of LLaMA-Factory. */
static void test_template_truncates_in_proportion(void **state)
{
    (void)state;
    expect_cut(30, 20, 100, 30, 20);  /* fits */
    expect_cut(200, 20, 100, 80, 20); /* a short answer is kept whole */
    expect_cut(20, 200, 100, 20, 80); /* a short question is kept whole */
    expect_cut(300, 100, 100, 75, 25);
    expect_cut(100, 100, 100, 50, 50);
    expect_cut(50, 50, 100, 50, 50);
    /* exactly half the length does not count as less than half */
    expect_cut(80, 50, 100, 62, 38);
    expect_cut(50, 80, 100, 39, 61);
    expect_cut(200, 100, 100, 67, 33); /* int(100 * (100 / 300)) is 33 */
}

static void test_template_truncates_later_turns_first(void **state)
{
    static const struct message turns[] = {
        { ROLE_USER, "11111", 5, 0, NULL }, { ROLE_ASSISTANT, "aaaaa", 5, 1, NULL },
        { ROLE_USER, "22222", 5, 0, NULL }, { ROLE_ASSISTANT, "bbbbb", 5, 1, NULL },
        { ROLE_USER, "33333", 5, 0, NULL }, { ROLE_ASSISTANT, "ccccc", 5, 1, NULL },
    };
    struct template_options options = { .cutoff_len = 16 };
    struct encoded got;

    (void)state;
    encode(&got, "empty", turns, 6, &options);
    assert_string_equal(got.all.data, "11111aaaaa222bbb");
    encoded_clear(&got);
    options.cutoff_len = 10;
    encode(&got, "empty", turns, 6, &options);
    assert_string_equal(got.all.data, "11111aaaaa");
    encoded_clear(&got);
    /* if only the last answer is trained, the last turns are kept */
    options.mask_history = true;
    options.cutoff_len = 16;
    encode(&got, "empty", turns, 6, &options);
    assert_string_equal(got.all.data, "222bbb33333ccccc");
    assert_string_equal(got.trained.data, "ccccc");
    encoded_clear(&got);
}

/* The results of several functions form one turn; an empty list of them is no system
 * message. */
static void test_template_joins_function_results(void **state)
{
    static const char call[] = "{\"name\": \"f\", \"arguments\": {}}";
    static const struct message turns[] = {
        { ROLE_TOOLS, "[]", 2, 0, NULL },
        { ROLE_USER, "q", 1, 0, NULL },
        { ROLE_FUNCTION, call, sizeof(call) - 1, 1, NULL },
        { ROLE_TOOL, "7", 1, 0, NULL },
        { ROLE_TOOL, "8", 1, 0, NULL },
        { ROLE_ASSISTANT, "15", 2, 1, NULL },
    };
    const struct template_options options = { 0 };
    struct encoded got;

    (void)state;
    encode(&got, "qwen3", turns, TS_COUNT(turns), &options);
    assert_non_null(strstr(got.all.data, "<|im_start|>user\n<tool_response>\n7\n"
                                         "</tool_response>\n<tool_response>\n8\n"
                                         "</tool_response><|im_end|>\n"));
    assert_true(text_starts(got.all.data, "<|im_start|>user\nq<|im_end|>\n"));
    encoded_clear(&got);
}

static void test_template_refuses_invalid_turns(void **state)
{
    static const struct message wrong[] = {
        { ROLE_ASSISTANT, "a", 1, 1, NULL },
        { ROLE_USER, "b", 1, 0, NULL },
    };
    const struct template_options options = { 0 };
    struct template_request request = { template_find("default"), tokenizer, &options,
                                        conversation + 1, 0 };
    struct token_list ids = { 0 };
    float *weights = NULL;

    (void)state;
    for (size_t count = 0; count <= 3;
         count += 3) { /* nothing, and no answer at the end */
        struct error err = { 0 };

        request.count = count;
        assert_false(template_encode(&request, &ids, &weights, &err));
        assert_int_equal(err.code, ERROR_DATA);
    }
    request.messages = wrong;
    request.count = 2;
    assert_false(template_encode(&request, &ids, &weights, NULL));
    assert_int_equal(ids.count, 0);
}

static void test_template_finds_its_tokens(void **state)
{
    struct tokenizer *plain = unit_tokenizer(2), *im = unit_tokenizer(3);

    (void)state;
    assert_string_equal(template_row_name(template_guess(plain)), "default");
    assert_string_equal(template_row_name(template_guess(im)), "chatml");
    assert_string_equal(template_row_name(template_guess(tokenizer)), "llama3");
    assert_null(template_missing(template_find("default"), plain));
    assert_string_equal(template_missing(template_find("chatml"), plain), "<|im_start|>");
    assert_string_equal(template_missing(template_find("chatml"), im), "<|im_end|>");
    assert_null(template_missing(template_find("llama3"), tokenizer));
    assert_int_equal(template_document_end(NULL, tokenizer), UNIT_EOS);
    assert_int_equal(template_document_end(template_find("default"), tokenizer),
                     UNIT_EOS);
    assert_int_equal(template_document_end(template_find("chatml"), tokenizer), 256 + 3);
    assert_int_equal(template_document_end(template_find("llama3"), tokenizer), 256 + 7);
    assert_int_equal(template_document_end(template_find("llama3"), plain), UNIT_EOS);
    tokenizer_close(plain);
    tokenizer_close(im);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_template_matches_llama_factory_texts),
        cmocka_unit_test(test_template_is_found_by_name),
        cmocka_unit_test(test_template_rows_are_in_the_manual),
        cmocka_unit_test(test_template_picks_the_right_system_message),
        cmocka_unit_test(test_template_trains_as_configured),
        cmocka_unit_test(test_template_keeps_messages_literally),
        cmocka_unit_test(test_template_truncates_in_proportion),
        cmocka_unit_test(test_template_truncates_later_turns_first),
        cmocka_unit_test(test_template_joins_function_results),
        cmocka_unit_test(test_template_refuses_invalid_turns),
        cmocka_unit_test(test_template_finds_its_tokens),
    };

    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
