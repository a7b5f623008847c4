/* tests/unit/test_prompt.c - a prompt is the beginning of a complete conversation, and an
 * answer ends with the text that the template writes after it. */
#include "config.h"

#include "train/generation/prompt.h"

#include <stdlib.h>

#include "base/size.h"
#include "tests/unit/unit.h"
#include "tests/unit/unit_model.h"
#include "train/chat/chat.h"

static struct message message(enum role role, const char *text)
{
    return (
        struct message) { .role = role, .text = text, .len = strlen(text), .weight = 1 };
}

static struct tokenizer *open_shared(const char *name)
{
    char *dir = unit_shared(name);
    struct error err = { 0 };
    struct tokenizer *tokenizer;

    if (!dir) {
        print_message("# SKIP %s is not in the shared data\n", name);
        skip();
    }
    tokenizer = chat_tokenizer_open(dir, &err);
    unit_must(tokenizer != NULL, &err);
    free(dir);
    return tokenizer;
}

/* Followed by an answer, the prompt's tokens are the first of the conversation, up to the
 * trained part. */
static void check_prompt(const struct tokenizer *tokenizer, const char *name,
                         size_t turns)
{
    const struct message all[] = { message(ROLE_SYSTEM, "Be brief."),
                                   message(ROLE_USER, "How many feet are 3 m?"),
                                   message(ROLE_ASSISTANT, "9.84"),
                                   message(ROLE_USER, "And 4?"),
                                   message(ROLE_ASSISTANT, "13.12") };
    struct template_options options = { .mask_history = true };
    struct token_list prompt = { 0 }, whole = { 0 };
    struct error err = { 0 };
    float *weights = NULL;
    struct template_request request = { template_find(name), tokenizer, &options, all,
                                        2 * turns };

    assert_non_null(request.chat);
    unit_must(prompt_encode(&request, &prompt, &err), &err);
    request.count++;
    unit_must(template_encode(&request, &whole, &weights, &err), &err);
    assert_true(prompt.count > 0 && prompt.count < whole.count);
    assert_memory_equal(prompt.ids, whole.ids, prompt.count * sizeof(*prompt.ids));
    assert_true(weights[prompt.count] > 0);
    assert_true(weights[prompt.count - 1] == 0);
    token_list_clear(&prompt);
    token_list_clear(&whole);
    free(weights);
}

static void test_prompt_is_the_beginning_of_the_conversation(void **state)
{
    struct tokenizer *tokenizer = open_shared("data/tokenizers/qwen2.5");

    (void)state;
    for (size_t i = 0; template_name(i); i++)
        for (size_t turns = 1; turns <= 2; turns++)
            check_prompt(tokenizer, template_name(i), turns);
    tokenizer_close(tokenizer);
}

static bool has(const struct prompt_ends *ends, int64_t id)
{
    for (size_t i = 0; i < ends->count; i++)
        if (ends->ids[i] == (uint64_t)id)
            return true;
    return false;
}

/* The template's own token ends an answer, or its text if the tokenizer lacks it. */
static void test_prompt_ends_come_from_the_template(void **state)
{
    struct tokenizer *qwen = open_shared("data/tokenizers/qwen2.5"),
                     *gpt2 = open_shared("data/tokenizers/gpt2");
    struct model_config config = { .eos_token_ids = { 7, 9 }, .eos_tokens = 2 };
    const struct prompt_model own = { "/nowhere", &config, template_find("qwen"), qwen },
                              foreign = { "/nowhere", &config, template_find("chatml"),
                                          gpt2 },
                              none = { "/nowhere", &config, NULL, qwen };
    struct prompt_ends ends = { 0 };
    struct error err = { 0 };
    char *stop;

    (void)state;
    unit_must(prompt_ends_find(&own, &ends, &stop, &err), &err);
    assert_null(stop);
    assert_true(has(&ends, 7) && has(&ends, 9));
    assert_true(has(&ends, tokenizer_find(qwen, "<|im_end|>")));
    ends.count = 0;
    unit_must(prompt_ends_find(&foreign, &ends, &stop, &err), &err);
    assert_string_equal(stop, "<|im_end|>");
    free(stop);
    ends.count = 0;
    unit_must(prompt_ends_find(&none, &ends, &stop, &err), &err);
    assert_null(stop);
    assert_true(has(&ends, tokenizer_eos(qwen)));
    tokenizer_close(qwen);
    tokenizer_close(gpt2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompt_is_the_beginning_of_the_conversation),
        cmocka_unit_test(test_prompt_ends_come_from_the_template),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
