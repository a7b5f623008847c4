/* tests/unit/test_samples.c - answers from before training are kept next to the latest
 * ones, also through a resume. */
#include "config.h"

#include "train/samples.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/unit/unit.h"

static void put(struct samples *samples, size_t index, const char *prompt,
                const char *answer, bool correct)
{
    struct text asked, expected;

    text_init(&asked, 0);
    text_init(&expected, 0);
    text_adds(&asked, prompt);
    text_adds(&expected, "42");
    samples_put(samples, index,
                &(struct sample_answer) { .prompt = &asked,
                                          .expected = &expected,
                                          .text = answer,
                                          .len = strlen(answer),
                                          .correct = correct });
    text_clear(&asked);
    text_clear(&expected);
}

static void check(const char *name, const char *expected)
{
    struct text text;
    struct error err = { 0 };

    text_init(&text, 0);
    assert_true(file_read(name, 1 << 20, &text, NULL, &err));
    assert_string_equal(text.data, expected);
    text_clear(&text);
}

static void test_samples_keep_before_and_after(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "samples.jsonl");
    struct error err = { 0 };
    struct samples *samples = samples_open(name, 3, false, &err);

    (void)state;
    assert_non_null(samples);
    put(samples, 0, "6 * 7?", "41", false);
    put(samples, 2, "7 * 6?", "no \xff", false);
    assert_true(samples_write(samples, 0, &err));
    check(
        name,
        "{\"prompt\":\"6 * "
        "7?\",\"expected\":\"42\",\"before\":\"41\",\"after\":null,\"correct_before\":false,\"correct\":null,\"step\":0}\n"
        "{\"prompt\":\"7 * 6?\",\"expected\":\"42\",\"before\":\"no "
        "\\\\xff\",\"after\":null,\"correct_before\":false,\"correct\":null,\"step\":0}\n");
    put(samples, 0, "6 * 7?", "42", true);
    assert_true(samples_write(samples, 10, &err));
    samples_close(samples);
    samples = samples_open(name, 1, true, &err);
    put(samples, 0, "6 * 7?", "43", false);
    assert_true(samples_write(samples, 20, &err));
    samples_close(samples);
    check(
        name,
        "{\"prompt\":\"6 * "
        "7?\",\"expected\":\"42\",\"before\":\"41\",\"after\":\"43\",\"correct_before\":false,\"correct\":false,\"step\":20}\n");
    free(name);
    unit_dir_free(dir);
}

/* A broken file is replaced. */
static void test_samples_replace_a_broken_file(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "samples.jsonl");
    struct error err = { 0 };
    struct samples *samples;

    (void)state;
    assert_true(file_create(name, "{\"before\n", 9, 0644, &err));
    samples = samples_open(name, 1, true, &err);
    put(samples, 0, "?", "42", true);
    assert_true(samples_write(samples, 5, &err));
    samples_close(samples);
    check(
        name,
        "{\"prompt\":\"?\",\"expected\":\"42\",\"before\":null,\"after\":\"42\",\"correct_before\":null,\"correct\":true,\"step\":5}\n");
    free(name);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_keep_before_and_after),
        cmocka_unit_test(test_samples_replace_a_broken_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
