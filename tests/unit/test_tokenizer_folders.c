/* tests/unit/test_tokenizer_folders.c - folders without tokenizer.json give the ids of
 * transformers; damaged files are refused. */
#include "config.h"

#include "train/tokenizer/tokenizer.h"

#include <unistd.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"

/* Write the files of a case: text, or an object with base64. */
static void put_files(const char *dir, const json_t *files)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)files, name, value)
    {
        const char *text = json_string_value(json_object_get(value, "base64"));
        struct text bytes;

        text_init(&bytes, 0);
        if (text)
            assert_true(base64_decode(text, strlen(text), &bytes));
        else
            text_add(&bytes, json_string_value(value), json_string_length(value));
        unit_write(dir, name, &bytes);
        text_clear(&bytes);
    }
}

static void expect_ids(const char *name, const json_t *golden, const char *key,
                       const struct token_list *got)
{
    const json_t *expected = json_object_get(golden, key);
    const char *text = json_string_value(json_object_get(golden, "text"));
    bool same = json_array_size(expected) == got->count;

    for (size_t i = 0; same && i < got->count; i++)
        same = json_integer_value(json_array_get(expected, i)) == got->ids[i];
    if (same)
        return;
    fprintf(stderr, "%s: %s of \"%s\":", name, key, text);
    for (size_t i = 0; i < got->count; i++)
        fprintf(stderr, " %u", got->ids[i]);
    fprintf(stderr, ", not");
    for (size_t i = 0; i < json_array_size(expected); i++)
        fprintf(stderr, " %lld",
                (long long)json_integer_value(json_array_get(expected, i)));
    fprintf(stderr, "\n");
    fail_msg("other ids");
}

static void expect_text(const char *name, const struct tokenizer *tokenizer,
                        const json_t *golden)
{
    const json_t *text = json_object_get(golden, "text");
    const json_t *decoded = json_object_get(golden, "decoded");
    struct token_list with = { 0 }, without = { 0 };
    struct error err = { 0 };
    struct text back;

    text_init(&back, 0);
    if (!tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text),
                          true, &with, &err) ||
        !tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text),
                          false, &without, &err))
        fail_msg("%s: %s", name, err.text);
    expect_ids(name, golden, "ids", &with);
    expect_ids(name, golden, "plain", &without);
    assert_true(tokenizer_decode(tokenizer, without.ids, without.count, false, &back));
    if (back.len != json_string_length(decoded) ||
        memcmp(back.data, json_string_value(decoded), back.len) != 0)
        fail_msg("%s: decoded \"%s\", not \"%s\"", name, back.data,
                 json_string_value(decoded));
    text_clear(&back);
    token_list_clear(&with);
    token_list_clear(&without);
}

static void expect_named(const char *name, const json_t *golden, const char *key,
                         int64_t got)
{
    const json_t *expected = json_object_get(golden, key);
    int64_t id = json_is_integer(expected) ? json_integer_value(expected) : -1;

    if (id != got)
        fail_msg("%s: %s is %lld, not %lld", name, key, (long long)got, (long long)id);
}

static void expect_folder(const json_t *golden)
{
    const char *name = json_string_value(json_object_get(golden, "name"));
    const json_t *cases = json_object_get(golden, "cases");
    char *dir = unit_dir_new();
    struct tokenizer *tokenizer;
    struct error err = { 0 };

    put_files(dir, json_object_get(golden, "files"));
    assert_true(tokenizer_exists(dir));
    tokenizer = tokenizer_open(dir, &err);
    if (!tokenizer)
        fail_msg("%s: %s", name, err.text);
    expect_named(name, golden, "tokens", (int64_t)tokenizer_size(tokenizer));
    expect_named(name, golden, "bos", tokenizer_bos(tokenizer));
    expect_named(name, golden, "eos", tokenizer_eos(tokenizer));
    expect_named(name, golden, "pad", tokenizer_pad(tokenizer));
    assert_int_equal(tokenizer_adds_bos(tokenizer),
                     json_is_true(json_object_get(golden, "adds_bos")));
    assert_true(json_array_size(cases) >= 30);
    for (size_t i = 0; i < json_array_size(cases); i++)
        expect_text(name, tokenizer, json_array_get(cases, i));
    tokenizer_close(tokenizer);
    unit_dir_free(dir);
}

static json_t *read_golden(void)
{
    char *path = unit_source("tests/golden/tokenizer_folders.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(path, (size_t)4 << 20, &err);

    if (!golden)
        fail_msg("%s", err.text);
    free(path);
    return golden;
}

static void test_tokenizer_folders_give_the_ids_of_transformers(void **state)
{
    json_t *golden = read_golden();
    const json_t *folders = json_object_get(golden, "folders");

    (void)state;
    assert_true(json_array_size(folders) >= 25);
    for (size_t i = 0; i < json_array_size(folders); i++)
        expect_folder(json_array_get(folders, i));
    json_decref(golden);
}

/* Compare a published tokenizer without its tokenizer.json with the ids of that file. */
static void expect_published(const char *shared, const char *const *names, size_t count,
                             const char *config)
{
    char *folder = unit_shared(shared), *dir, *path;
    struct tokenizer *tokenizer;
    struct error err = { 0 };
    json_t *golden;

    if (!folder)
        skip();
    dir = unit_dir_new();
    for (size_t i = 0; i < count; i++) {
        char *from = path_join(folder, names[i]), *to = path_join(dir, names[i]);

        assert_int_equal(symlink(from, to), 0);
        free(from);
        free(to);
    }
    unit_write_string(dir, "config.json", config);
    path = path_join(folder, "golden.json");
    golden = json_read_file(path, (size_t)16 << 20, &err);
    tokenizer = tokenizer_open(dir, &err);
    if (!golden || !tokenizer)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < json_array_size(json_object_get(golden, "cases")); i++) {
        const json_t *one = json_array_get(json_object_get(golden, "cases"), i);
        const json_t *text = json_object_get(one, "text");
        struct token_list list = { 0 };

        assert_true(tokenizer_encode(tokenizer, json_string_value(text),
                                     json_string_length(text), true, &list, &err));
        expect_ids(shared, one, "ids", &list);
        token_list_clear(&list);
    }
    tokenizer_close(tokenizer);
    json_decref(golden);
    free(path);
    free(folder);
    unit_dir_free(dir);
}

static void test_tokenizer_folders_of_llama2(void **state)
{
    static const char *const names[] = { "tokenizer.model", "tokenizer_config.json" };

    (void)state;
    expect_published("data/tokenizers/llama2", names, TS_COUNT(names),
                     "{\"model_type\": \"llama\"}");
}

static void test_tokenizer_folders_of_gpt2(void **state)
{
    static const char *const names[] = { "vocab.json", "merges.txt",
                                         "tokenizer_config.json" };

    (void)state;
    expect_published("data/tokenizers/gpt2", names, TS_COUNT(names),
                     "{\"model_type\": \"gpt2\"}");
}

static void test_tokenizer_folders_refuse_damaged_files(void **state)
{
    static const struct {
        const char *name, *text, *error;
    } rows[] = {
        { "tokenizer.model", "", "not SentencePiece's" },
        { "tokenizer.model", "\x0a", "not SentencePiece's" },
        { "tokenizer.model", "\x0a\x05", "not SentencePiece's" },
        { "tokenizer.model", "\x0a\x02\x0a\x09", "not SentencePiece's" },
        { "tokenizer.model", "\x0a\x03\x0a\x01\xff", "not SentencePiece's" },
        { "tokenizer.model", "\x0a\x08\x0a\x01\x61\x15\xff\xff\xff\x7f",
          "not SentencePiece's" },
        { "tokenizer.model", "\x0a\x08\x0a\x01\x61\x15\x01\x01\x80\xff",
          "not SentencePiece's" },
        { "tokenizer.model", "\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
          "not SentencePiece's" },
        { "tokenizer.model",
          "\x0a\x03\x0a\x01"
          "a\x12\x02\x18\x03",
          "words or characters" },
        { "tokenizer.model",
          "\x0a\x03\x0a\x01"
          "a\x12\x03\xc0\x01\x01",
          "treat_whitespace_as_suffix" },
        { "tokenizer.model",
          "\x0a\x03\x0a\x01"
          "a\x12\x03\xc0\x02\x05",
          "model.unk_id" },
        { "tokenizer.model",
          "\x0a\x03\x0a\x01"
          "a\x0a\x03\x0a\x01"
          "a\x12\x02\x18\x02",
          "occurs twice" },
        { "tokenizer.model",
          "\x0a\x03\x0a\x01"
          "a\x1a\x03\x12\x01x",
          "precompiled_charsmap is damaged" },
        { "tekken.json", "{}", "must have config.pattern" },
        { "tekken.json", "{\"config\": {\"pattern\": \".\"}}", "must have" },
        { "tekken.json", "{\"config\": {\"pattern\": \".\"}, \"vocab\": [1]}",
          "no token_bytes" },
        { "tekken.json",
          "{\"config\": {\"pattern\": \".\"}, \"vocab\": [{\"token_bytes\": \"!\"}]}",
          "no token_bytes" },
        { "tekken.json",
          "{\"config\": {\"pattern\": \".\"}, \"vocab\": [{\"token_bytes\": \"YQ==\"}, "
          "{\"token_bytes\": \"YQ==\"}]}",
          "occurs twice" },
        { "tekken.json",
          "{\"config\": {\"pattern\": \".\", \"default_num_special_tokens\": 1}, "
          "\"vocab\": []}",
          "default_num_special_tokens" },
        { "tekken.json",
          "{\"config\": {\"pattern\": \".\", \"default_vocab_size\": 1}, \"vocab\": []}",
          "default_vocab_size" },
        { "tekken.json",
          "{\"config\": {\"pattern\": \".\"}, \"vocab\": [], \"special_tokens\": "
          "[{\"rank\": 1, \"token_str\": \"a\"}]}",
          "none of rank 0" },
        { "tekken.json",
          "{\"config\": {\"pattern\": \".\"}, \"vocab\": [], \"special_tokens\": "
          "[{\"rank\": 0, \"token_str\": \"a\"}, {\"rank\": -1, \"token_str\": \"b\"}]}",
          "none of rank 1" },
        { "tekken.json", "{\"config\": {\"pattern\": \"(\"}, \"vocab\": []}",
          "regular expression" },
        { "qwen.tiktoken", "YQ== 1\n",
          "the line of token 0 must have its bytes in base64" },
        { "qwen.tiktoken", "YQ== 0\nYg==\n", "the line of token 1" },
        { "qwen.tiktoken", "YQ== 0 \n", "the line of token 0" },
        { "qwen.tiktoken", " 0\n", "the line of token 0" },
        { "qwen.tiktoken", "!!!! 0\n", "the line of token 0" },
        { "qwen.tiktoken", "YQ== 0\nYQ== 1\n", "the token 1 occurs twice" },
        { "qwen.tiktoken", "PHxpbV9lbmR8Pg== 0\n", "occurs twice" },
        { "merges.txt", "a b\n", "or vocab.json and merges.txt" },
        { "vocab.json", "{}", "or vocab.json and merges.txt" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        char *dir = unit_dir_new();
        struct error err = { 0 };

        unit_write_string(dir, "config.json", "{\"model_type\": \"llama\"}");
        unit_write_string(dir, rows[i].name, rows[i].text);
        assert_null(tokenizer_open(dir, &err));
        assert_int_equal(tokenizer_exists(dir),
                         !strstr(rows[i].error, "vocab.json and merges.txt"));
        if (err.code != ERROR_DATA || !strstr(err.text, rows[i].error) ||
            !strstr(err.text, dir))
            fail_msg("row %zu: \"%s\", not \"%s\"", i, err.text, rows[i].error);
        unit_dir_free(dir);
    }
}

static void test_tokenizer_folders_name_an_unsupported_class(void **state)
{
    static const struct {
        const char *config, *error;
    } rows[] = {
        { "{}", "of the model_type llama are not" },
        { "{\"tokenizer_class\": \"Other\"}", "of the tokenizer_class Other are not" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        char *dir = unit_dir_new();
        struct error err = { 0 };

        unit_write_string(dir, "config.json", "{\"model_type\": \"llama\"}");
        unit_write_string(dir, "tokenizer_config.json", rows[i].config);
        unit_write_string(dir, "vocab.json", "{}");
        unit_write_string(dir, "merges.txt", "");
        assert_true(tokenizer_exists(dir));
        assert_null(tokenizer_open(dir, &err));
        if (err.code != ERROR_DATA || !strstr(err.text, rows[i].error) ||
            !strstr(err.text, "correct tokenizer_class in tokenizer_config.json"))
            fail_msg("row %zu: \"%s\"", i, err.text);
        unit_dir_free(dir);
    }
}

/* Mistral's vocabularies may have the characters of a special token as a token, too. */
static void test_tokenizer_folders_prefer_special_tokens(void **state)
{
    static const char tekken[] =
        "{\"config\": {\"pattern\": \"[^ ]+\"}, \"special_tokens\": [{\"rank\": 0, "
        "\"token_str\": \"ab\"}], \"vocab\": [{\"token_bytes\": \"YQ==\"}, "
        "{\"token_bytes\": \"YWI=\"}, {\"token_bytes\": \"Yg==\"}]}";
    char *dir = unit_dir_new();
    struct token_list list = { 0 };
    struct tokenizer *tokenizer;
    struct error err = { 0 };

    (void)state;
    unit_write_string(dir, "tekken.json", tekken);
    tokenizer = tokenizer_open(dir, &err);
    if (!tokenizer)
        fail_msg("%s", err.text);
    assert_true(tokenizer_encode(tokenizer, "aabb", 4, true, &list, &err));
    assert_int_equal(list.count, 3);
    assert_int_equal(list.ids[0], 1);
    assert_int_equal(list.ids[1], 0);
    assert_int_equal(list.ids[2], 3);
    token_list_clear(&list);
    tokenizer_close(tokenizer);
    unit_dir_free(dir);
}

/* A search of the list for each rank would take minutes. */
static void test_tokenizer_folders_sort_many_special_tokens(void **state)
{
    const int count = 30000;
    char *dir = unit_dir_new();
    struct tokenizer *tokenizer;
    struct error err = { 0 };
    struct text file;

    (void)state;
    text_init(&file, 0);
    text_addf(&file, "{\"config\": {\"pattern\": \".\"}, \"vocab\": [], "
                     "\"special_tokens\": [");
    for (int i = count - 1; i >= 0; i--)
        text_addf(&file, "{\"rank\": %d, \"token_str\": \"<%d>\"}%s", i, i,
                  i > 0 ? ", " : "]}");
    unit_write(dir, "tekken.json", &file);
    text_clear(&file);
    tokenizer = tokenizer_open(dir, &err);
    if (!tokenizer)
        fail_msg("%s", err.text);
    assert_int_equal(tokenizer_size(tokenizer), count);
    assert_int_equal(tokenizer_find(tokenizer, "<0>"), 0);
    assert_int_equal(tokenizer_find(tokenizer, "<1234>"), 1234);
    assert_int_equal(tokenizer_find(tokenizer, "<29999>"), 29999);
    tokenizer_close(tokenizer);
    unit_dir_free(dir);
}

/* A search of the list for each added token would take minutes. */
static void test_tokenizer_folders_mark_many_special_tokens(void **state)
{
    const uint32_t first_and_last[] = { 1, 2, 100000 };
    const int count = 100000;
    char *dir = unit_dir_new();
    struct tokenizer *tokenizer;
    struct error err = { 0 };
    struct text ids, names;

    (void)state;
    text_init(&ids, 0);
    text_init(&names, 0);
    /* the list is in reverse, and lacks <0> */
    for (int i = 0; i < count; i++) {
        text_addf(&ids, "%s\"<%d>\": %d", i ? ", " : "{", i, i + 1);
        text_addf(&names, "%s\"<%d>\"", i ? ", " : "{\"additional_special_tokens\": [",
                  count - i);
    }
    text_addf(&ids, "}");
    text_addf(&names, "]}");
    unit_write_string(dir, "config.json", "{\"model_type\": \"gpt2\"}");
    unit_write_string(dir, "vocab.json", "{\"a\": 0}");
    unit_write_string(dir, "merges.txt", "");
    unit_write(dir, "added_tokens.json", &ids);
    unit_write(dir, "special_tokens_map.json", &names);
    tokenizer = tokenizer_open(dir, &err);
    if (!tokenizer)
        fail_msg("%s", err.text);
    text_reset(&names);
    assert_true(tokenizer_decode(tokenizer, first_and_last, 3, true, &names));
    assert_string_equal(names.data, "<0>");
    text_reset(&names);
    assert_true(tokenizer_decode(tokenizer, first_and_last, 3, false, &names));
    assert_string_equal(names.data, "<0><1><99999>");
    text_clear(&ids);
    text_clear(&names);
    tokenizer_close(tokenizer);
    unit_dir_free(dir);
}

/* The files that merges.txt needs, and their contents. */
static void test_tokenizer_folders_check_merges(void **state)
{
    static const struct {
        const char *vocab, *merges, *error; /* NULL: accepted */
    } rows[] = {
        { "{\"a\": 0, \"b\": 1, \"ab\": 2}", "#version: 0.2\na b\n", NULL },
        { "{\"a\": 0, \"b\": 1, \"ab\": 2}", "a b\r\n\r\n", NULL },
        { "{\"a\": 0, \"b\": 1, \"ab\": 2}", "a  b\n", "model.merges: entry 1" },
        { "{\"a\": 0, \"b\": 1}", "a b\n", "is not in the vocabulary" },
        { "{\"a\": 0, \"b\": 1, \"ab\": 2}", "\xff\n", "not UTF-8" },
        { "[]", "a b\n", "model.vocab" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        char *dir = unit_dir_new();
        struct tokenizer *tokenizer;
        struct error err = { 0 };

        unit_write_string(dir, "config.json", "{\"model_type\": \"gpt2\"}");
        unit_write_string(dir, "vocab.json", rows[i].vocab);
        unit_write_string(dir, "merges.txt", rows[i].merges);
        tokenizer = tokenizer_open(dir, &err);
        if (!tokenizer != (rows[i].error != NULL) ||
            (rows[i].error && !strstr(err.text, rows[i].error)))
            fail_msg("row %zu: \"%s\"", i, err.text);
        tokenizer_close(tokenizer);
        unit_dir_free(dir);
    }
}

/* Cuts and changed bytes of a file of SentencePiece are refused, or give a tokenizer. */
static void test_tokenizer_folders_survive_damage(void **state)
{
    json_t *golden = read_golden();
    const json_t *folder =
        json_array_get(json_object_get(golden, "folders"),
                       json_array_size(json_object_get(golden, "folders")) - 2);
    char *dir = unit_dir_new(), *path = path_join(dir, "tokenizer.model");
    struct error err = { 0 };
    struct text whole;

    (void)state;
    put_files(dir, json_object_get(folder, "files"));
    text_init(&whole, 0);
    assert_true(file_read(path, 1 << 20, &whole, NULL, &err));
    for (size_t i = 0; i < 120; i++) {
        size_t at = i / 2 * 97 % whole.len;
        struct text cut = { .data = whole.data, .len = i % 2 ? whole.len : at };
        struct token_list list = { 0 };
        struct tokenizer *tokenizer;

        whole.data[at] ^= i % 2 ? 0x81 : 0;
        unit_write(dir, "tokenizer.model", &cut);
        whole.data[at] ^= i % 2 ? 0x81 : 0;
        error_clear(&err);
        tokenizer = tokenizer_open(dir, &err);
        assert_true(tokenizer || err.code == ERROR_DATA);
        if (tokenizer)
            tokenizer_encode(tokenizer, "some text \xef\xac\x81", 13, true, &list, &err);
        token_list_clear(&list);
        tokenizer_close(tokenizer);
    }
    text_clear(&whole);
    json_decref(golden);
    free(path);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer_folders_give_the_ids_of_transformers),
        cmocka_unit_test(test_tokenizer_folders_of_llama2),
        cmocka_unit_test(test_tokenizer_folders_of_gpt2),
        cmocka_unit_test(test_tokenizer_folders_refuse_damaged_files),
        cmocka_unit_test(test_tokenizer_folders_name_an_unsupported_class),
        cmocka_unit_test(test_tokenizer_folders_prefer_special_tokens),
        cmocka_unit_test(test_tokenizer_folders_sort_many_special_tokens),
        cmocka_unit_test(test_tokenizer_folders_mark_many_special_tokens),
        cmocka_unit_test(test_tokenizer_folders_check_merges),
        cmocka_unit_test(test_tokenizer_folders_survive_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
