/* tests/unit/test_eval_prompts.c - records become prompts with expected answers. */
#include "config.h"

#include "train/eval_prompts.h"

#include <stdlib.h>

#include "base/file.h"
#include "tests/unit/unit.h"
#include "tests/unit/unit_model.h"

static const char records[] =
    "{\"instruction\": \"Add.\", \"input\": \"2 and 2\", \"output\": \"4\"}\n"
    "{\"instruction\": \"And 3?\", \"output\": \"7\", \"system\": \"Be brief.\", "
    "\"history\": [[\"2 and 2?\", \"4\"]]}\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": "
    "\"assistant\", \"content\": \"Hello\"}]}\n";

static char *write_file(const char *dir, const char *name, const char *text)
{
    char *path = path_join(dir, name);
    struct error err = { 0 };

    assert_true(file_create(path, text, strlen(text), 0644, &err));
    return path;
}

static void check_asked(const struct eval_prompt *question, size_t messages,
                        const char *asked, const char *expected)
{
    assert_int_equal(question->count, messages);
    assert_string_equal(eval_prompt_text(question)->text, asked);
    assert_int_equal(eval_prompt_text(question)->role, ROLE_USER);
    if (!expected) {
        assert_null(question->expected);
        return;
    }
    assert_int_equal(question->expected_len, strlen(expected));
    assert_string_equal(question->expected, expected);
}

static void test_questions_from_records(void **state)
{
    char *dir = unit_dir_new(), *data = write_file(dir, "data.jsonl", records),
         *lines = write_file(dir, "lines.txt", "One\nTwo\n");
    struct plan plan = { .dir = dir, .stage = STAGE_SFT };
    struct eval_prompts questions;
    struct error err = { 0 };

    (void)state;
    eval_prompts_init(&questions);
    eval_prompts_add(&questions, "Zero", 4);
    unit_must(eval_prompts_read(&questions, &plan, "data.jsonl,lines.txt", &err), &err);
    assert_int_equal(questions.count, 6);
    check_asked(&questions.list[0], 1, "Zero", NULL);
    check_asked(&questions.list[1], 1, "Add.\n2 and 2", "4");
    check_asked(&questions.list[2], 4, "And 3?", "7");
    assert_int_equal(questions.list[2].messages[0].role, ROLE_SYSTEM);
    assert_string_equal(questions.list[2].messages[2].text, "4");
    check_asked(&questions.list[3], 1, "Hi", "Hello");
    check_asked(&questions.list[5], 1, "Two", NULL);
    eval_prompts_clear(&questions);
    eval_prompts_init(&questions);
    plan.max_samples = 1;
    unit_must(eval_prompts_read(&questions, &plan, "data.jsonl,lines.txt", &err), &err);
    assert_int_equal(questions.count, 2);
    eval_prompts_clear(&questions);
    free(data);
    free(lines);
    unit_dir_free(dir);
}

static void test_questions_report_the_position_of_a_broken_record(void **state)
{
    char *dir = unit_dir_new(),
         *data = write_file(dir, "data.jsonl",
                            "{\"instruction\": \"a\", \"output\": \"b\"}\n"
                            "{\"instruction\": true, \"output\": \"b\"}\n");
    struct plan plan = { .dir = dir, .stage = STAGE_SFT };
    struct eval_prompts questions;
    struct error err = { 0 };

    (void)state;
    eval_prompts_init(&questions);
    assert_false(eval_prompts_read(&questions, &plan, "data.jsonl", &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_int_equal(err.at.line, 2);
    assert_non_null(strstr(err.file, "data.jsonl"));
    eval_prompts_clear(&questions);
    free(data);
    unit_dir_free(dir);
}

/* If all records of a file lack the prompt, its name in dataset_info.json is wrong. */
static void test_questions_report_a_misnamed_prompt(void **state)
{
    char *dir = unit_dir_new(),
         *info = write_file(dir, "dataset_info.json",
                            "{\"set\": {\"file_name\": \"data.jsonl\"}}"),
         *data = write_file(dir, "data.jsonl", "{\"input\": \"q\", \"output\": \"b\"}\n");
    struct plan plan = { .dir = dir, .dataset_dir = dir, .stage = STAGE_SFT };
    struct eval_prompts questions;
    struct error err = { 0 };

    (void)state;
    eval_prompts_init(&questions);
    assert_false(eval_prompts_read(&questions, &plan, "set", &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_non_null(strstr(err.text, "no record has \"instruction\""));
    eval_prompts_clear(&questions);
    free(info);
    free(data);
    unit_dir_free(dir);
}

static const char media_records[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"<image>Which of <image> is it?\"}, "
    "{\"role\": \"assistant\", \"content\": \"This: <image>\"}], \"images\": [\"a.png\", "
    "\"b.png\", \"c.png\"]}\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
    "\"Hear \"}, {\"type\": \"audio\", \"audio\": \"d.wav\"}]}, {\"role\": \"assistant\", "
    "\"content\": [{\"type\": \"audio\", \"audio\": \"e.wav\"}]}]}\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_audio\", "
    "\"input_audio\": {\"data\": \"AAEC\"}}]}, {\"role\": \"assistant\", \"content\": "
    "\"x\"}]}\n";

/* Those of the answer are not part of the question, and contents become files. */
static void test_questions_have_the_media_of_their_placeholders(void **state)
{
    char *dir = unit_dir_new(), *data = write_file(dir, "data.jsonl", media_records);
    char *contents = path_join(dir, "contents");
    struct plan plan = { .dir = dir, .stage = STAGE_SFT };
    const struct eval_prompt *q;
    struct eval_prompts questions;
    struct error err = { 0 };
    struct text bytes;

    (void)state;
    eval_prompts_init(&questions);
    questions.contents = contents;
    unit_must(eval_prompts_read(&questions, &plan, "data.jsonl", &err), &err);
    assert_int_equal(questions.count, 3);
    q = &questions.list[0];
    assert_int_equal(q->at.line, 1);
    assert_int_equal(q->media_count, 2);
    assert_string_equal(q->media[0].path, "a.png");
    assert_string_equal(q->media[1].path, "b.png");
    assert_null(q->media[1].text);
    q = &questions.list[1];
    assert_int_equal(q->at.line, 2);
    assert_int_equal(q->media_count, 1);
    assert_string_equal(q->media[0].path, "d.wav");
    assert_ptr_equal(q->media[0].text, q->messages[0].text);
    assert_int_equal(q->media[0].at, strlen("Hear "));
    q = &questions.list[2];
    assert_int_equal(q->media_count, 1);
    assert_true(text_starts(q->media[0].path, contents));
    text_init(&bytes, 0);
    unit_must(file_read(q->media[0].path, 16, &bytes, NULL, &err), &err);
    assert_int_equal(bytes.len, 3);
    assert_memory_equal(bytes.data, "\0\1\2", 3);
    text_clear(&bytes);
    eval_prompts_clear(&questions);
    eval_prompts_init(&questions);
    assert_false(eval_prompts_read(&questions, &plan, "data.jsonl", &err));
    assert_int_equal(err.at.line, 3);
    assert_non_null(strstr(err.text, "the bytes of a sound, and no path"));
    eval_prompts_clear(&questions);
    free(contents);
    free(data);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_questions_from_records),
        cmocka_unit_test(test_questions_report_the_position_of_a_broken_record),
        cmocka_unit_test(test_questions_report_a_misnamed_prompt),
        cmocka_unit_test(test_questions_have_the_media_of_their_placeholders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
