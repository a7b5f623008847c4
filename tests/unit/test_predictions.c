/* tests/unit/test_predictions.c - predictions are written in the order of the data, and
 * their scores are averaged. */
#include "config.h"

#include "train/predictions.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static void put(struct predictions *predictions, size_t index, const char *answer,
                const char *label)
{
    struct text asked, expected;

    text_init(&asked, 0);
    text_init(&expected, 0);
    text_addf(&asked, "<s>%zu?", index);
    text_adds(&expected, label);
    predictions_put(predictions, index,
                    &(struct prediction) { .prompt = &asked,
                                           .label = &expected,
                                           .text = answer,
                                           .len = strlen(answer) });
    text_clear(&asked);
    text_clear(&expected);
}

static void expect_mean(const json_t *object, const char *key, double mean)
{
    const json_t *value = json_object_get(object, key);

    assert_non_null(value);
    assert_true(fabs(json_number_value(value) - mean) < 1e-3);
}

static void test_predictions_are_written_in_order(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "generated_predictions.jsonl");
    struct predictions *predictions = predictions_new(4);
    struct error err = { 0 };
    struct text text;

    (void)state;
    put(predictions, 3, "été\xff", "été \"3\"\n");
    put(predictions, 1, "", "one"); /* 0 and 2 are skipped: too long */
    assert_int_equal(predictions_answered(predictions), 2);
    assert_true(predictions_write(predictions, name, &err));
    text_init(&text, 0);
    assert_true(file_read(name, 1 << 20, &text, NULL, &err));
    assert_string_equal(text.data,
                        "{\"prompt\":\"<s>1?\",\"predict\":\"\",\"label\":\"one\"}\n"
                        "{\"prompt\":\"<s>3?\",\"predict\":\"été\xef\xbf\xbd\","
                        "\"label\":\"été \\\"3\\\"\\n\"}\n");
    text_clear(&text);
    predictions_free(predictions);
    free(name);
    unit_dir_free(dir);
}

static void test_scores_are_means(void **state)
{
    struct predictions *predictions = predictions_new(2);
    json_t *object = json_object();

    (void)state;
    put(predictions, 0, "a cat sat here", "a cat sat here");
    put(predictions, 1, "x", "y");
    assert_false(predictions_have_chinese(predictions));
    predictions_add_scores(predictions, "eval_", object);
    assert_int_equal(json_object_size(object), SCORES);
    expect_mean(object, "eval_rouge-1", 50);
    expect_mean(object, "eval_rouge-l", 50);
    expect_mean(object, "eval_bleu-4", 50);
    json_decref(object);
    predictions_free(predictions);
}

static void test_scores_of_chinese_characters_have_their_own_names(void **state)
{
    struct predictions *predictions = predictions_new(1);
    json_t *object = json_object();

    (void)state;
    put(predictions, 0, "yes", "是");
    assert_true(predictions_have_chinese(predictions));
    predictions_add_scores(predictions, "predict_", object);
    expect_mean(object, "predict_rouge-1-char", 0);
    expect_mean(object, "predict_bleu-4", 0);
    assert_null(json_object_get(object, "predict_rouge-1"));
    json_decref(object);
    predictions_free(predictions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_predictions_are_written_in_order),
        cmocka_unit_test(test_scores_are_means),
        cmocka_unit_test(test_scores_of_chinese_characters_have_their_own_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
