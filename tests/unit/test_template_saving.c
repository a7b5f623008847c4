/* tests/unit/test_template_saving.c - a saved folder's own chat template writes what the
 * named template trained, and its files name the tokens that end an answer. */
#include "config.h"

#include "train/chat/template_saving.h"

#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"
#include "train/chat/chat.h"
#include "train/model/companion_files.h"

/* Thoughts in the tags of every row, so that none adds empty ones; quotes and a
 * backslash. */
#define TAGS   "<|channel|>analysis<|message|> ◁think▷ <seed:think> <channel|>"
#define ANSWER "<think>\nit's \\n \"4\"\n</think>\n\n4" TAGS

static const struct message conversation[] = {
    { ROLE_SYSTEM, "Don't \\ lie.", 12, 0, NULL },
    { ROLE_USER, "2+2?", 4, 0, NULL },
    { ROLE_ASSISTANT, ANSWER, sizeof(ANSWER) - 1, 1, NULL },
    { ROLE_USER, "Sure?", 5, 0, NULL },
    { ROLE_ASSISTANT, ANSWER, sizeof(ANSWER) - 1, 1, NULL },
};

static char *folder_new(const char *config)
{
    char *dir = unit_dir_new();

    unit_tokenizer_write(dir, UNIT_SPECIALS, false);
    if (config)
        unit_write_string(dir, "tokenizer_config.json", config);
    return dir;
}

static struct tokenizer *open_folder(const char *dir)
{
    struct error err = { 0 };
    struct tokenizer *tokenizer = chat_tokenizer_open(dir, &err);

    if (!tokenizer)
        fail_msg("%s", err.text);
    return tokenizer;
}

static void write_companions(const char *from, const char *to,
                             const struct template_saving *saving, bool adapter)
{
    const struct companion_files files = { from, saving, adapter, !adapter };
    struct error err = { 0 };

    if (!companion_files_write(&files, to, &err))
        fail_msg("%s", err.text);
}

/* Save the tokenizer of `from` as a training with the template `name` does. */
static char *save(const char *from, const char *name, const char *system, bool adapter)
{
    struct tokenizer *tokenizer = open_folder(from);
    struct template_saving saving;
    char *to = unit_dir_new();

    template_saving_make(tokenizer, name, system, &saving);
    write_companions(from, to, &saving, adapter);
    template_saving_clear(&saving);
    tokenizer_close(tokenizer);
    return to;
}

static char *content_of(const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    struct text text;
    struct error err = { 0 };

    text_init(&text, 0);
    if (file_exists(path) && !file_read(path, 1 << 20, &text, NULL, &err))
        fail_msg("%s", err.text);
    free(path);
    return text_detach(&text, NULL);
}

static void check_content(const char *dir, const char *name, const char *part, bool has)
{
    char *content = content_of(dir, name);

    if ((strstr(content, part) != NULL) != has)
        fail_msg("%s must %shave %s:\n%s", name, has ? "" : "not ", part, content);
    free(content);
}

static void encode(const struct chat_template *chat, const struct tokenizer *tokenizer,
                   const struct message *messages, size_t count, const char *system,
                   struct text *out)
{
    const struct template_options options = { .default_system = system };
    const struct template_request request = { chat, tokenizer, &options, messages,
                                              count };
    struct token_list ids = { 0 };
    float *weights = NULL;
    struct error err = { 0 };

    if (!template_encode(&request, &ids, &weights, &err))
        fail_msg("%s: %s", template_row_name(chat), err.text);
    text_init(out, 0);
    tokenizer_decode(tokenizer, ids.ids, ids.count, false, out);
    token_list_clear(&ids);
    free(weights);
}

static void check_same(const char *name, const char *base, size_t first,
                       const char *system)
{
    char *dir = save(base, name, system, false);
    struct tokenizer *before = open_folder(base), *after = open_folder(dir);
    const struct chat_template *own = template_guess(after);
    struct text trained, rendered;

    if (!template_model_chat(own))
        fail_msg("%s: no chat template was saved", name);
    encode(template_find(name), before, conversation + first,
           TS_COUNT(conversation) - first, system, &trained);
    encode(own, after, conversation + first, TS_COUNT(conversation) - first, NULL,
           &rendered);
    if (strcmp(trained.data, rendered.data) != 0)
        fail_msg("%s: trained\n%s\nsaved\n%s", name, trained.data, rendered.data);
    text_clear(&trained);
    text_clear(&rendered);
    tokenizer_close(before);
    tokenizer_close(after);
    unit_dir_free(dir);
}

static void test_saved_chat_template_writes_what_was_trained(void **state)
{
    char *base = folder_new(NULL);
    size_t count = 0;

    (void)state;
    for (const char *name; (name = template_name(count)); count++) {
        check_same(name, base, 0, NULL);
        check_same(name, base, 1, NULL);
        check_same(name, base, 1, "It's \"so\".\n");
    }
    assert_true(count > 30);
    unit_dir_free(base);
}

static struct template_saving saving_of(const char *base, const char *name)
{
    struct tokenizer *tokenizer = open_folder(base);
    struct template_saving saving;

    template_saving_make(tokenizer, name, NULL, &saving);
    tokenizer_close(tokenizer);
    return saving;
}

/* Jinja refuses {{ }}: a prefix of the token that the tokenizer lacks is left out. */
static void test_missing_tokens_are_left_out(void **state)
{
    char *base = unit_dir_new();

    (void)state;
    unit_tokenizer_write(base, 0, false);
    for (size_t i = 0; template_name(i); i++) {
        struct template_saving saving = saving_of(base, template_name(i));

        if (saving.chat_template && strstr(saving.chat_template, "{{  }}"))
            fail_msg("%s: %s", template_name(i), saving.chat_template);
        template_saving_clear(&saving);
    }
    unit_dir_free(base);
}

/* Jinja reads a line end of any kind as \n, in strings too. */
static void test_carriage_return_is_escaped(void **state)
{
    char *base = folder_new(NULL);

    (void)state;
    check_same("qwen", base, 1, "a\r\nb\rc");
    unit_dir_free(base);
}

static void test_stop_token_becomes_the_end(void **state)
{
    char *base =
        folder_new("{\n  \"bos_token\": \"<s>\",\n  \"eos_token\": {\"content\": "
                   "\"</s>\"},\n  \"model_max_length\": "
                   "1000000000000000019884624838656\n}\n");
    char *dir = save(base, "llama3", NULL, false);
    struct tokenizer *tokenizer = open_folder(dir);

    (void)state;
    check_content(dir, "tokenizer_config.json", "1000000000000000019884624838656", true);
    check_content(dir, "tokenizer_config.json", "\n  \"eos_token\": \"<|eot_id|>\",",
                  true);
    check_content(dir, "tokenizer_config.json", "\n  \"pad_token\": \"<|eot_id|>\"",
                  true);
    check_content(dir, "tokenizer_config.json", "eom_id", false);
    assert_int_equal(tokenizer_eos(tokenizer), tokenizer_find(tokenizer, "<|eot_id|>"));
    assert_int_equal(tokenizer_pad(tokenizer), tokenizer_eos(tokenizer));
    check_content(dir, "generation_config.json", "\"eos_token_id\": [262]", true);
    check_content(dir, "generation_config.json", "\"pad_token_id\": 262", true);
    tokenizer_close(tokenizer);
    unit_dir_free(dir);
    unit_dir_free(base);
}

static void test_other_stops_are_special_tokens(void **state)
{
    char *base = folder_new("{\"eos_token\": \"</s>\", \"pad_token\": \"<s>\", "
                            "\"additional_special_tokens\": [{\"content\": \"<s>\"}]}");
    char *dir;

    (void)state;
    unit_write_string(base, "generation_config.json",
                      "{\"temperature\": 0.6, \"eos_token_id\": [257, 7], "
                      "\"pad_token_id\": 3}");
    unit_write_string(base, "special_tokens_map.json", "{\"eos_token\": \"</s>\"}");
    dir = save(base, "chatml", NULL, false);
    check_content(dir, "tokenizer_config.json",
                  "[{\"content\":\"<s>\"},\"<|im_start|>\"]", true);
    check_content(dir, "tokenizer_config.json", "\"pad_token\": \"<s>\"", true);
    check_content(dir, "special_tokens_map.json", "\"eos_token\": \"<|im_end|>\"", true);
    check_content(dir, "generation_config.json",
                  "{\"temperature\": 0.6, \"eos_token_id\": [259,257,7,258], "
                  "\"pad_token_id\": 3}",
                  true);
    unit_dir_free(dir);
    unit_dir_free(base);
}

/* transformers 5 has a list of extra_special_tokens; a token may be an object. */
static void test_stops_are_not_doubled(void **state)
{
    char *base = folder_new("{\"eos_token\": \"</s>\", \"extra_special_tokens\": "
                            "[\"<s>\", {\"content\": \"<|im_start|>\"}]}");
    char *dir;

    (void)state;
    unit_write_string(base, "generation_config.json", "{\"eos_token_id\": 257}");
    dir = save(base, "chatml", NULL, false);
    check_content(dir, "tokenizer_config.json",
                  "\"extra_special_tokens\": [\"<s>\",{\"content\":\"<|im_start|>\"}]",
                  true);
    check_content(dir, "tokenizer_config.json", "additional_special_tokens", false);
    check_content(dir, "generation_config.json", "\"eos_token_id\": [259,257,258]", true);
    unit_dir_free(dir);
    unit_dir_free(base);
}

/* What the model has is copied; only tokenizer_config.json is created. */
static void test_other_files_are_copied(void **state)
{
    static const char *const names[] = { "added_tokens.json", "tokenizer.model",
                                         "vocab.json", "merges.txt",
                                         "additional_chat_templates/tool_use.jinja" };
    char *base = folder_new(NULL), *more = path_join(base, "additional_chat_templates");
    struct error err = { 0 };
    char *dir, *map;

    (void)state;
    assert_true(file_make_dirs(more, 0755, &err));
    for (size_t i = 0; i < TS_COUNT(names); i++)
        unit_write_string(base, names[i], names[i]);
    dir = save(base, "chatml", NULL, false);
    for (size_t i = 0; i < TS_COUNT(names); i++)
        check_content(dir, names[i], names[i], true);
    check_content(dir, "tokenizer_config.json", "\"eos_token\": \"<|im_end|>\"", true);
    map = path_join(dir, "special_tokens_map.json");
    assert_false(file_exists(map));
    free(map);
    free(more);
    unit_dir_free(dir);
    unit_dir_free(base);
}

/* A template whose stop the tokenizer lacks trains it as plain text, which ends nothing. */
static void test_missing_stop_is_not_the_end(void **state)
{
    char *base = folder_new("{\"eos_token\": \"</s>\"}"),
         *dir = save(base, "phi", NULL, false);

    (void)state;
    check_content(dir, "tokenizer_config.json", "\"eos_token\": \"</s>\"", true);
    check_content(dir, "generation_config.json", "\"eos_token_id\": [257]", true);
    unit_dir_free(dir);
    unit_dir_free(base);
}

#define OWN                                                               \
    "{% for m in messages %}<|im_start|>{{ m.role }}\\n{{ m.content }}"   \
    "<|im_end|>\\n{% endfor %}{% if add_generation_prompt %}<|im_start|>" \
    "assistant\\n{% endif %}"

/* As in LLaMA-Factory: only the templates that say so replace the model's own. */
static void test_own_chat_template_is_kept(void **state)
{
    static const struct {
        const char *name;
        bool replaced, differ;
    } rows[] = {
        { NULL, false, false },    { "qwen3_nothink", false, false },
        { "llama3", false, true }, { "chatml", true, false },
        { "vicuna", true, false },
    };
    char *base = folder_new("{\"eos_token\": \"</s>\", \"chat_template\": \"" OWN "\"}");

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct template_saving saving = saving_of(base, rows[i].name);

        assert_int_equal(saving.chat_template != NULL, rows[i].replaced);
        assert_int_equal(saving.conversations_differ, rows[i].differ);
        template_saving_clear(&saving);
    }
    unit_dir_free(base);
}

static void test_adapter_has_no_generation_config(void **state)
{
    char *base = folder_new(NULL), *dir, *name;

    (void)state;
    unit_write_string(base, "generation_config.json", "{}");
    dir = save(base, "llama3", NULL, true);
    name = path_join(dir, "generation_config.json");
    assert_false(file_exists(name));
    free(name);
    name = path_join(dir, "Modelfile");
    assert_false(file_exists(name));
    free(name);
    check_content(dir, "chat_template.jinja", "<|eot_id|>", true);
    unit_dir_free(dir);
    unit_dir_free(base);
}

/* The texts that LLaMA-Factory 0.9.5 writes, without its comment line. */
static void test_modelfile(void **state)
{
    char *base = folder_new("{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}");
    struct template_saving saving = saving_of(base, "llama3");

    (void)state;
    assert_string_equal(
        saving.modelfile,
        "FROM .\n\nTEMPLATE \"\"\"<s>{{ if .System }}"
        "<|start_header_id|>system<|end_header_id|>\n\n{{ .System }}<|eot_id|>{{ end }}"
        "{{ range .Messages }}{{ if eq .Role \"user\" }}"
        "<|start_header_id|>user<|end_header_id|>\n\n{{ .Content }}<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
        "{{ else if eq .Role \"assistant\" }}{{ .Content }}<|eot_id|>{{ end }}{{ end }}"
        "\"\"\"\n\nPARAMETER stop \"<|eot_id|>\"\nPARAMETER num_ctx 4096\n");
    template_saving_clear(&saving);
    unit_dir_free(base);
}

static void test_modelfile_of_the_own_template(void **state)
{
    char *base =
        folder_new("{\"eos_token\": \"<|im_end|>\", \"chat_template\": \"" OWN "\"}");
    struct template_saving saving = saving_of(base, NULL);

    (void)state;
    assert_string_equal(
        saving.modelfile,
        "FROM .\n\nTEMPLATE \"\"\"{{ if .System }}"
        "<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}"
        "{{ range .Messages }}{{ if eq .Role \"user\" }}"
        "<|im_start|>user\n{{ .Content }}<|im_end|>\n<|im_start|>assistant\n"
        "{{ else if eq .Role \"assistant\" }}{{ .Content }}<|im_end|>\n{{ end }}{{ end }}"
        "\"\"\"\n\nPARAMETER stop \"<|im_end|>\"\nPARAMETER num_ctx 4096\n");
    template_saving_clear(&saving);
    unit_dir_free(base);
}

static void test_config_has_the_new_end(void **state)
{
    char *base = folder_new("{\"eos_token\": \"</s>\"}");
    struct template_saving saving = saving_of(base, "gemma");
    struct text config;
    struct error err = { 0 };

    (void)state;
    text_init(&config, 0);
    text_adds(&config, "{\"eos_token_id\": [1, 2], \"x\": 1e9}");
    assert_true(companion_files_edit_config(&saving, &config, &err));
    assert_string_equal(config.data,
                        "{\"eos_token_id\": 265, \"x\": 1e9, \"pad_token_id\": 265}");
    template_saving_clear(&saving);
    text_clear(&config);
    unit_dir_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saved_chat_template_writes_what_was_trained),
        cmocka_unit_test(test_missing_tokens_are_left_out),
        cmocka_unit_test(test_carriage_return_is_escaped),
        cmocka_unit_test(test_stop_token_becomes_the_end),
        cmocka_unit_test(test_other_stops_are_special_tokens),
        cmocka_unit_test(test_stops_are_not_doubled),
        cmocka_unit_test(test_other_files_are_copied),
        cmocka_unit_test(test_missing_stop_is_not_the_end),
        cmocka_unit_test(test_own_chat_template_is_kept),
        cmocka_unit_test(test_adapter_has_no_generation_config),
        cmocka_unit_test(test_modelfile),
        cmocka_unit_test(test_modelfile_of_the_own_template),
        cmocka_unit_test(test_config_has_the_new_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
