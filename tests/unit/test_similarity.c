/*
 * tests/unit/test_similarity.c - BLEU and ROUGE are those of nltk and rouge_chinese on the
 * words of jieba (tests/golden/similarity.json, made by similarity.py).
 */
#include "config.h"

#include "train/generation/similarity.h"

#include <math.h>

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"
#include "tests/unit/unit_tokenizer.h"
#include "train/generation/words.h"

enum { LIMIT = 1 << 20 };

static void expect_scores(const json_t *row)
{
    const json_t *generated = json_object_get(row, "generated");
    const json_t *expected = json_object_get(row, "expected");
    const json_t *scores = json_object_get(row, "scores");
    struct similarity similarity =
        similarity_measure(json_string_value(generated), json_string_length(generated),
                           json_string_value(expected), json_string_length(expected));

    assert_int_equal(json_object_size(scores), SCORES);
    for (enum score i = 0; i < SCORES; i++) {
        double wanted = json_number_value(json_object_get(scores, score_names[i]));

        /* one unit of the last decimal: a logarithm may differ in its last bit */
        if (!(fabs(similarity.scores[i] - wanted) < 1.1e-4))
            fail_msg("%s of '%s' and '%s': %.4f, not %.4f", score_names[i],
                     json_string_value(generated), json_string_value(expected),
                     similarity.scores[i], wanted);
    }
    assert_false(similarity.has_chinese);
}

static void test_scores_are_those_of_llamafactory(void **state)
{
    char *file = unit_source("tests/golden/similarity.json");
    struct error err = { 0 };
    json_t *rows = json_read_file(file, LIMIT, &err);

    (void)state;
    if (!rows)
        fail_msg("%s", err.text);
    assert_true(json_array_size(rows) >= 80);
    for (size_t i = 0; i < json_array_size(rows); i++)
        expect_scores(json_array_get(rows, i));
    json_decref(rows);
    free(file);
}

static void expect_words(const char *text, const char *const *expected, bool chinese)
{
    struct words words = { 0 };
    size_t i;

    words_split(&words, text, strlen(text));
    assert_int_equal(words.has_chinese, chinese);
    for (i = 0; expected[i]; i++) {
        assert_true(i < words.count);
        assert_int_equal(words.list[i].len, strlen(expected[i]));
        assert_memory_equal(words.list[i].text, expected[i], words.list[i].len);
    }
    assert_int_equal(i, words.count);
    words_clear(&words);
}

static void test_words_of_latin_text_are_those_of_jieba(void **state)
{
    /* list(jieba.cut(TEXT)), jieba 0.42.1 */
    expect_words("a1.5% x_y don't C++11\r\n",
                 (const char *const[]) { "a1.5%", " ", "x", "_", "y", " ", "don", "'",
                                         "t", " ", "C++", "11", "\r\n", NULL },
                 false);
    expect_words("AT&T..#9", (const char *const[]) { "AT&T", "..#", "9", NULL }, false);
    (void)state;
}

static void test_each_chinese_character_is_a_word(void **state)
{
    const char *a = "我喜欢T恤", *b = "我喜欢衬衫";
    struct similarity similarity = similarity_measure(a, strlen(a), b, strlen(b));

    (void)state;
    expect_words(a, (const char *const[]) { "我", "喜", "欢", "T", "恤", NULL }, true);
    assert_true(similarity.has_chinese);
    /* 3 of 5 words are common */
    assert_true(fabs(similarity.scores[SCORE_ROUGE_1] - 60) < 1e-3);
}

static void test_invalid_bytes_count_as_replacement_characters(void **state)
{
    struct similarity similarity = similarity_measure("a\xff z", 4, "a\xef\xbf\xbd z", 6);

    (void)state;
    for (enum score i = 0; i < SCORES; i++)
        assert_true(similarity.scores[i] > 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores_are_those_of_llamafactory),
        cmocka_unit_test(test_words_of_latin_text_are_those_of_jieba),
        cmocka_unit_test(test_each_chinese_character_is_a_word),
        cmocka_unit_test(test_invalid_bytes_count_as_replacement_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
