/* tests/unit/test_bpe.c - merging compared with its definition, unknown symbols, and
 * malformed models. */
#include "config.h"

#include "train/tokenizer/bpe.h"

#include "base/random.h"
#include "base/size.h"
#include "tests/unit/unit.h"
#include "train/tokenizer/bpe_merges.h"

static struct bpe *read_model(const char *json, bool byte_level, struct error *err)
{
    json_t *model = json_read_text(json, strlen(json), "model", 1, err);
    struct bpe *bpe = model ? bpe_new(model, byte_level, 1 << 20, "model", err) : NULL;

    json_decref(model);
    return bpe;
}

static struct bpe *new_model(const char *json, bool byte_level)
{
    struct error err = { 0 };
    struct bpe *bpe = read_model(json, byte_level, &err);

    if (!bpe)
        fail_msg("%s", err.text);
    return bpe;
}

/* Compare the ids of a word, as "1 2 3". */
static void expect_ids(const struct bpe *bpe, const char *word, const char *expected)
{
    struct bpe_scratch scratch = { 0 };
    struct token_list list = { 0 };
    struct text got;

    text_init(&got, 0);
    bpe_encode(bpe, word, strlen(word), &scratch, &list);
    for (size_t i = 0; i < list.count; i++)
        text_addf(&got, "%s%u", i ? " " : "", list.ids[i]);
    if (strcmp(got.data, expected) != 0)
        fail_msg("\"%s\" gives %s, not %s", word, got.data, expected);
    text_clear(&got);
    token_list_clear(&list);
    bpe_scratch_clear(&scratch);
}

static const char letters[] =
    "{\"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"bc\": 4, \"abc\": 5, "
    "\"cab\": 6}, \"merges\": [\"b c\", \"a b\", [\"a\", \"bc\"], [\"c\", \"ab\"]]";

static void test_bpe_merges_by_rank_then_position(void **state)
{
    struct text json;
    struct bpe *bpe;

    (void)state;
    text_init(&json, 0);
    text_addf(&json, "%s}", letters);
    bpe = new_model(json.data, false);
    expect_ids(bpe, "", "");
    expect_ids(bpe, "a", "0");
    expect_ids(bpe, "ab", "3");
    expect_ids(bpe, "abc", "5"); /* b c first, then a bc: not ab c */
    expect_ids(bpe, "cab", "6");
    expect_ids(bpe, "cabc", "2 5"); /* b c first, so c ab never occurs */
    expect_ids(bpe, "abab", "3 3");
    expect_ids(bpe, "bcbc", "4 4");
    bpe_free(bpe);
    text_clear(&json);
}

/* "ba" is in the vocabulary, but no merges produce it: only ignore_merges uses it
 * whole. */
static void test_bpe_uses_whole_words_with_ignore_merges(void **state)
{
    static const char model[] = "{\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"ba\": "
                                "3}, \"merges\": [\"a b\"]%s}";
    struct text json;
    struct bpe *bpe;

    (void)state;
    text_init(&json, 0);
    text_addf(&json, model, "");
    bpe = new_model(json.data, false);
    expect_ids(bpe, "ba", "1 0");
    expect_ids(bpe, "ab", "2");
    bpe_free(bpe);
    text_reset(&json);
    text_addf(&json, model, ", \"ignore_merges\": true");
    bpe = new_model(json.data, false);
    expect_ids(bpe, "ba", "3");
    expect_ids(bpe, "bab", "1 2");
    bpe_free(bpe);
    text_clear(&json);
}

static void test_bpe_handles_unknown_symbols(void **state)
{
    static const char model[] = "{\"vocab\": {\"<unk>\": 0, \"a\": 1, \"<0xC3>\": 2, "
                                "\"<0xA4>\": 3, \"<0x78>\": 4}, \"merges\": []%s}";
    static const struct {
        const char *options, *word, *expected;
    } cases[] = {
        { "", "axya", "1 1" },
        { ", \"unk_token\": \"<unk>\"", "axya", "1 0 0 1" },
        { ", \"unk_token\": \"<unk>\", \"fuse_unk\": true", "axya", "1 0 1" },
        { ", \"byte_fallback\": true", "a\xc3\xa4x", "1 2 3 4" },
        { ", \"byte_fallback\": true", "a\xc3\xb6x",
          "1 4" }, /* 0xB6 is not in the vocabulary: the character is not split */
        { ", \"byte_fallback\": true, \"unk_token\": \"<unk>\"", "yxa", "4 0 1" },
    };
    struct text json;

    (void)state;
    text_init(&json, 0);
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct bpe *bpe;

        text_reset(&json);
        text_addf(&json, model, cases[i].options);
        bpe = new_model(json.data, false);
        expect_ids(bpe, cases[i].word, cases[i].expected);
        bpe_free(bpe);
    }
    text_clear(&json);
}

static void test_bpe_bytes_have_code_points(void **state)
{
    bool seen[512] = { false };

    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        int32_t point = bpe_byte_point((unsigned char)byte);

        assert_in_range(point, '!', 323);
        assert_false(seen[point]);
        seen[point] = true;
        assert_int_equal(bpe_point_byte(point), byte);
    }
    assert_int_equal(bpe_byte_point(' '), 0x120); /* as in GPT-2's vocabulary */
    assert_int_equal(bpe_byte_point('\n'), 0x10a);
    assert_int_equal(bpe_byte_point(0xad), 0x143);
    assert_int_equal(bpe_point_byte(' '), -1);
    assert_int_equal(bpe_point_byte(324), -1);
}

/* A model of letters a-d and random merge results, and texts long and short, compared
 * with merging one pair at a time by the definition. */
enum { LETTERS = 4, PRODUCTS = 60 };

struct rule {
    uint32_t left, right;
};

static size_t merge_slowly(const struct rule *rules, uint32_t *ids, size_t count)
{
    for (uint32_t rank = 0; rank < PRODUCTS;) {
        size_t i = 0;

        while (i + 1 < count &&
               (ids[i] != rules[rank].left || ids[i + 1] != rules[rank].right))
            i++;
        if (i + 1 >= count) {
            rank++;
            continue;
        }
        ids[i] = LETTERS + rank;
        memmove(&ids[i + 1], &ids[i + 2], (count - i - 2) * sizeof(ids[0]));
        count--;
        rank = 0;
    }
    return count;
}

static void random_model(uint32_t round, struct rule *rules, struct text *json)
{
    char names[LETTERS + PRODUCTS][64] = { "a", "b", "c", "d" };
    uint32_t made = 0;
    uint64_t draw = 0;

    text_adds(json, "{\"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"d\": 3");
    while (made < PRODUCTS) {
        uint32_t left = random_bits(1, RANDOM_SPLIT, round, draw++) % (LETTERS + made);
        uint32_t right = random_bits(1, RANDOM_SPLIT, round, draw++) % (LETTERS + made);
        char name[64];
        bool fresh = strlen(names[left]) + strlen(names[right]) < 12;

        snprintf(name, sizeof(name), "%.20s%.20s", names[left], names[right]);
        for (uint32_t i = 0; i < LETTERS + made; i++)
            fresh = fresh && strcmp(names[i], name) != 0;
        if (!fresh)
            continue;
        memcpy(names[LETTERS + made], name, sizeof(name));
        rules[made] = (struct rule) { left, right };
        text_addf(json, ", \"%s\": %u", name, LETTERS + made++);
    }
    text_adds(json, "}, \"merges\": [");
    for (uint32_t i = 0; i < PRODUCTS; i++)
        text_addf(json, "%s\"%s %s\"", i ? ", " : "", names[rules[i].left],
                  names[rules[i].right]);
    text_adds(json, "]}");
}

static void expect_as_defined(const struct bpe *bpe, const struct rule *rules,
                              uint32_t round, size_t len)
{
    struct bpe_scratch scratch = { 0 };
    struct token_list got = { 0 };
    uint32_t ids[400];
    char word[400];
    size_t count;

    for (size_t i = 0; i < len; i++) {
        ids[i] = random_bits(2, RANDOM_SPLIT, round, i) % LETTERS;
        word[i] = (char)('a' + ids[i]);
    }
    bpe_encode(bpe, word, len, &scratch, &got);
    count = merge_slowly(rules, ids, len);
    assert_int_equal(got.count, count);
    assert_memory_equal(got.ids, ids, count * sizeof(ids[0]));
    token_list_clear(&got);
    bpe_scratch_clear(&scratch);
}

static void test_bpe_matches_its_definition_on_short_and_long_texts(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 30; round++) {
        struct rule rules[PRODUCTS];
        struct text json;
        struct bpe *bpe;

        text_init(&json, 0);
        random_model(round, rules, &json);
        bpe = new_model(json.data, false);
        for (size_t len = 1; len <= 64; len++)
            expect_as_defined(bpe, rules, round, len);
        expect_as_defined(bpe, rules, round, 400);
        bpe_free(bpe);
        text_clear(&json);
    }
}

/* If no merge crosses the beginning of a word, words may be merged separately; if one
 * does, they must not be. */
static void test_bpe_splits_at_blanks_only_if_allowed(void **state)
{
    static const char plain[] =
        "{\"vocab\": {\"\xe2\x96\x81\": 0, \"a\": 1, \"\xe2\x96\x81"
        "a\": 2, "
        "\"\xe2\x96\x81\xe2\x96\x81\": 3}, \"merges\": [\"\xe2\x96\x81 \xe2\x96\x81\", "
        "\"\xe2\x96\x81 a\"]}";
    static const char crossing[] =
        "{\"vocab\": {\"\xe2\x96\x81\": 0, \"a\": 1, \"\xe2\x96\x81"
        "a\": 2, "
        "\"a\xe2\x96\x81\": 3}, \"merges\": [\"a \xe2\x96\x81\", \"\xe2\x96\x81 a\"]}";
    struct bpe *bpe = new_model(plain, false);

    (void)state;
    expect_ids(bpe,
               "\xe2\x96\x81"
               "a\xe2\x96\x81"
               "a",
               "2 2");
    expect_ids(bpe,
               "a\xe2\x96\x81\xe2\x96\x81\xe2\x96\x81"
               "a",
               "1 3 2");
    bpe_free(bpe);
    bpe = new_model(crossing, false);
    expect_ids(bpe,
               "a\xe2\x96\x81"
               "a\xe2\x96\x81"
               "a",
               "3 3 1");
    bpe_free(bpe);
}

static void test_bpe_refuses_malformed_models(void **state)
{
    static const char *const cases[][2] = {
        { "[]", "no model" },
        { "{\"type\": \"Unigram\", \"vocab\": {}, \"merges\": []}", "Unigram" },
        { "{\"vocab\": [], \"merges\": []}", "vocab" },
        { "{\"vocab\": {\"a\": -1}, \"merges\": []}", "\"a\"" },
        { "{\"vocab\": {\"a\": 4294967295}, \"merges\": []}", "\"a\"" },
        { "{\"vocab\": {\"a\": 1.5}, \"merges\": []}", "\"a\"" },
        { "{\"vocab\": {\"a\": 1, \"b\": 1}, \"merges\": []}", "twice" },
        { "{\"vocab\": {\"a\": 1}}", "merges" },
        { "{\"vocab\": {\"a\": 1}, \"merges\": [\"a\"]}", "entry 1" },
        { "{\"vocab\": {\"a\": 1}, \"merges\": [\"a a a\"]}", "entry 1" },
        { "{\"vocab\": {\"a\": 1}, \"merges\": [[\"a\", 1]]}", "entry 1" },
        { "{\"vocab\": {\"a\": 1}, \"merges\": [\"a a\"]}", "not in the vocabulary" },
        { "{\"vocab\": {\"a\": 1, \"aa\": 2}, \"merges\": [\"a a\", \"a x\"]}",
          "entry 2" },
        { "{\"vocab\": {}, \"merges\": [], \"dropout\": 0.1}", "dropout" },
        { "{\"vocab\": {}, \"merges\": [], \"end_of_word_suffix\": \"</w>\"}", "suffix" },
        { "{\"vocab\": {}, \"merges\": [], \"unk_token\": \"?\"}", "unk_token" },
        { "{\"vocab\": {}, \"merges\": [], \"fuse_unk\": 1}", "fuse_unk" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };

        assert_null(read_model(cases[i][0], i % 2, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("%s: \"%s\" does not contain \"%s\"", cases[i][0], err.text,
                     cases[i][1]);
    }
}

/* If there is no unknown token, the neighbors of an unknown character become adjacent,
 * even if both are blanks. */
static void test_bpe_merges_across_omitted_characters(void **state)
{
    static const char *const cases[][2] = {
        { "", "2 1" }, { ", \"unk_token\": \"<unk>\"", "1 0 1 0 1" }
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct text json;
        struct bpe *bpe;

        text_init(&json, 0);
        text_addf(&json,
                  "{\"vocab\": {\"<unk>\": 0, \"\xe2\x96\x81\": 1, "
                  "\"\xe2\x96\x81\xe2\x96\x81\": 2}, \"merges\": [\"\xe2\x96\x81 "
                  "\xe2\x96\x81\"]%s}",
                  cases[i][0]);
        bpe = new_model(json.data, false);
        expect_ids(bpe, "\xe2\x96\x81x\xe2\x96\x81x\xe2\x96\x81", cases[i][1]);
        bpe_free(bpe);
        text_clear(&json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe_merges_across_omitted_characters),
        cmocka_unit_test(test_bpe_merges_by_rank_then_position),
        cmocka_unit_test(test_bpe_uses_whole_words_with_ignore_merges),
        cmocka_unit_test(test_bpe_handles_unknown_symbols),
        cmocka_unit_test(test_bpe_bytes_have_code_points),
        cmocka_unit_test(test_bpe_matches_its_definition_on_short_and_long_texts),
        cmocka_unit_test(test_bpe_splits_at_blanks_only_if_allowed),
        cmocka_unit_test(test_bpe_refuses_malformed_models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
