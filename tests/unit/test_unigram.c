/* tests/unit/test_unigram.c - the best sum of scores wins, with the ids of Hugging Face's
 * tokenizers 0.23, and malformed models are refused. */
#include "config.h"

#include "train/tokenizer/unigram.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static struct unigram *read_json(const char *json, struct error *err)
{
    json_t *model = json_read_text(json, strlen(json), "test", 1, err);
    struct unigram *unigram = model ? unigram_new(model, "model", err) : NULL;

    json_decref(model);
    return unigram;
}

#define MODEL(more)                                                                      \
    "{\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<unk>\", 0], [\"xy\", -30], " \
    "[\"y\", -1], [\"yz\", -1], [\"aa\", -2], [\"a\", -1], [\"<0xC3>\", -1], "           \
    "[\"<0xA9>\", -1]]" more "}"

/* The penalty makes an unknown character -40: the lowest score minus 10. */
static void test_unigram_takes_the_best_sum(void **state)
{
    static const struct {
        const char *json, *word, *ids;
    } rows[] = {
        { MODEL(""), "xy", "1 " },    /* -30, not -40 - 1 */
        { MODEL(""), "xyz", "0 3 " }, /* -40 - 1, not -30 - 40 */
        { MODEL(""), "aa", "4 " },    /* of equal sums the first found */
        { MODEL(""), "aaa", "5 4 " }, /* which starts first */
        { MODEL(""), "ya", "2 5 " },
        { MODEL(""), "??a?", "0 5 0 " }, /* unknown ones in a row are one */
        { MODEL(""), "<unk>", "0 " },
        { MODEL(""), "\xc3\xa9", "0 " },
        { MODEL(", \"byte_fallback\": true"), "\xc3\xa9", "6 7 " },
        { MODEL(", \"byte_fallback\": true"), "?\xc3\xa9", "0 " }, /* no <0x3F> */
        { MODEL(""), "", "" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct error err = { 0 };
        struct unigram *unigram = read_json(rows[i].json, &err);
        struct unigram_scratch scratch = { 0 };
        struct token_list list = { 0 };
        struct text ids;

        if (!unigram)
            fail_msg("%s", err.text);
        text_init(&ids, 0);
        assert_true(
            unigram_encode(unigram, rows[i].word, strlen(rows[i].word), &scratch, &list));
        for (size_t k = 0; k < list.count; k++)
            text_addf(&ids, "%u ", list.ids[k]);
        if (strcmp(ids.data, rows[i].ids) != 0)
            fail_msg("row %zu: \"%s\", not \"%s\"", i, ids.data, rows[i].ids);
        text_clear(&ids);
        token_list_clear(&list);
        unigram_scratch_clear(&scratch);
        unigram_free(unigram);
    }
}

static void test_unigram_refuses_malformed_models(void **state)
{
    static const char *const rows[][2] = {
        { "{}", "must be a list" },
        { "{\"vocab\": {}}", "must be a list" },
        { "{\"vocab\": [], \"unk_id\": 0}", "model.unk_id" },
        { "{\"vocab\": [[\"a\", 1]]}", "model.unk_id" },
        { "{\"vocab\": [[\"a\", 1]], \"unk_id\": 1}", "model.unk_id" },
        { "{\"vocab\": [[\"a\", 1]], \"unk_id\": -1}", "model.unk_id" },
        { "{\"vocab\": [[\"a\"]], \"unk_id\": 0}", "entry 0" },
        { "{\"vocab\": [[\"a\", 1], 5], \"unk_id\": 0}", "entry 1" },
        { "{\"vocab\": [[\"a\", 1], [\"a\", 2]], \"unk_id\": 0}", "twice" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct error err = { 0 };

        assert_null(read_json(rows[i][0], &err));
        if (err.code != ERROR_DATA || !strstr(err.text, rows[i][1]))
            fail_msg("row %zu: \"%s\"", i, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unigram_takes_the_best_sum),
        cmocka_unit_test(test_unigram_refuses_malformed_models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
