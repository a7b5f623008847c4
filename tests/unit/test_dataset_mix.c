/* tests/unit/test_dataset_mix.c - slices, draws and interleaving of datasets match
 * Hugging Face datasets (tests/golden/mix.json, made by mix.py). */
#include "config.h"

#include "train/dataset/dataset_mix.h"

#include <math.h>

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"
#include "train/dataset/dataset_info.h"

enum { MOST_SETS = 4 };

static const struct dataset_source whole;

static void must(bool ok, const struct error *err)
{
    if (!ok)
        fail_msg("%s", err->text);
}

static json_t *golden(void)
{
    struct error err = { 0 };
    char *name = unit_source("tests/golden/mix.json");
    json_t *json = json_read_file(name, 1 << 20, &err);

    must(json != NULL, &err);
    free(name);
    return json;
}

/* Parts that follow one another. */
static size_t lay_out(const json_t *lengths, struct dataset_part *parts)
{
    size_t count = json_array_size(lengths), first = 0;

    assert_in_range(count, 1, MOST_SETS);
    for (size_t i = 0; i < count; i++) {
        size_t length = (size_t)json_integer_value(json_array_get(lengths, i));

        parts[i] = (struct dataset_part) { &whole, first, length };
        first += length;
    }
    return count;
}

static void expect_list(const struct dataset_choice *got, const json_t *expected)
{
    uint32_t sum = 0;

    if (json_is_object(expected)) {
        for (size_t i = 0; i < got->count; i++)
            sum += (uint32_t)(i + 1) * got->samples[i];
        assert_int_equal(got->count,
                         json_integer_value(json_object_get(expected, "length")));
        assert_int_equal(sum, json_integer_value(json_object_get(expected, "sum")));
        return;
    }
    assert_int_equal(got->count, json_array_size(expected));
    for (size_t i = 0; i < got->count; i++)
        assert_int_equal(got->samples[i],
                         json_integer_value(json_array_get(expected, i)));
}

static void test_dataset_mix_matches_hugging_face(void **state)
{
    static const struct {
        const char *name;
        enum mix_strategy strategy;
    } rows[] = {
        { "interleave_under", MIX_INTERLEAVE_UNDER },
        { "interleave_over", MIX_INTERLEAVE_OVER },
        { "interleave_once", MIX_INTERLEAVE_ONCE },
    };
    json_t *json = golden(), *cases = json_object_get(json, "cases");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases) * TS_COUNT(rows); i++) {
        const json_t *one = json_array_get(cases, i / TS_COUNT(rows));
        const json_t *shares = json_object_get(one, "probabilities");
        struct dataset_part parts[MOST_SETS];
        size_t count = lay_out(json_object_get(one, "lengths"), parts);
        struct plan plan = { .mix_strategy = rows[i % TS_COUNT(rows)].strategy };
        struct dataset_choice got;
        struct error err = { 0 };
        struct text text;

        text_init(&text, 0);
        for (size_t j = 0; j < json_array_size(shares); j++)
            text_addf(&text, "%s%.17g", j ? ", " : "",
                      json_number_value(json_array_get(shares, j)));
        plan.interleave_probs = text.len > 0 ? text.data : NULL;
        plan.seed = json_integer_value(json_object_get(one, "seed"));
        must(dataset_mix(&plan, parts, count, &got, &err), &err);
        expect_list(&got, json_object_get(one, rows[i % TS_COUNT(rows)].name));
        free(got.samples);
        text_clear(&text);
    }
    json_decref(json);
}

/* Return the selection that an entry of dataset_info.json with this text makes from
 * `count` samples; an empty selection is an error. */
static struct dataset_choice choose(const char *words, const struct plan *plan,
                                    size_t count)
{
    struct arena *arena = arena_new();
    struct dataset_info info = { "dataset_info.json", ".", arena };
    struct dataset_source source = { 0 };
    struct dataset_part part = { &source, 0, count };
    struct dataset_choice got;
    struct error err = { 0 };
    char *text = arena_printf(arena, "{\"file_name\": \"a.json\", %s}", words);
    json_t *entry = json_read_text(text, strlen(text), "entry", 1, &err);

    must(entry && dataset_info_read(&info, "a", entry, &source, &err), &err);
    if (!dataset_mix(plan, &part, 1, &got, &err))
        assert_true(got.count == 0 && strstr(err.text, "leaves no sample"));
    json_decref(entry);
    arena_free(arena);
    return got;
}

static void test_dataset_mix_slices_as_hugging_face(void **state)
{
    json_t *json = golden(), *slices = json_object_get(json, "slices"), *one;
    const struct plan plan = { 0 };
    size_t i;

    (void)state;
    assert_true(json_array_size(slices) > 30);
    json_array_foreach(slices, i, one)
    {
        const char *spec = json_string_value(json_array_get(one, 0));
        size_t count = (size_t)json_integer_value(json_array_get(one, 1));
        size_t from = (size_t)json_integer_value(json_array_get(one, 2));
        size_t to = (size_t)json_integer_value(json_array_get(one, 3));
        char words[64];
        struct dataset_choice got;

        snprintf(words, sizeof(words), "\"split\": \"%s\"", spec);
        got = choose(words, &plan, count);
        if (got.count != (to > from ? to - from : 0))
            fail_msg("%s of %zu: %zu samples", spec, count, got.count);
        for (size_t j = 0; j < got.count; j++)
            assert_int_equal(got.samples[j], from + j);
        free(got.samples);
    }
    json_decref(json);
}

/* Samples are drawn in random order, without repetition if there are enough; otherwise
 * all are drawn, then some again. */
static void test_dataset_mix_draws_samples(void **state)
{
    struct plan plan = { .seed = 5 };
    struct dataset_choice got[3];
    size_t seen[10] = { 0 }, moved = 0;

    (void)state;
    got[0] = choose("\"num_samples\": 6", &plan, 10);
    got[1] = choose("\"num_samples\": 6", &plan, 10);
    got[2] = choose("\"num_samples\": 25", &plan, 10);
    assert_int_equal(got[0].count, 6);
    assert_false(got[0].all);
    assert_memory_equal(got[0].samples, got[1].samples, 6 * sizeof(uint32_t));
    for (size_t i = 0; i < 6; i++) {
        assert_in_range(got[0].samples[i], 0, 9);
        assert_int_equal(seen[got[0].samples[i]]++, 0);
        moved += got[0].samples[i] != i;
    }
    assert_true(moved > 0);
    memset(seen, 0, sizeof(seen));
    assert_int_equal(got[2].count, 25);
    for (size_t i = 0; i < 25; i++) {
        assert_in_range(got[2].samples[i], 0, 9);
        assert_true(seen[got[2].samples[i]]++ == 0 || i >= 10);
    }
    plan.max_samples = 4;
    free(got[1].samples);
    got[1] = choose("\"num_samples\": 6", &plan, 10);
    assert_int_equal(got[1].count, 4);
    assert_memory_equal(got[0].samples, got[1].samples, 4 * sizeof(uint32_t));
    for (size_t i = 0; i < 3; i++)
        free(got[i].samples);
}

static void test_dataset_mix_concat_keeps_all_in_order(void **state)
{
    const struct dataset_part parts[] = { { &whole, 0, 3 }, { &whole, 3, 2 } };
    struct plan plan = { 0 };
    struct dataset_choice got;
    struct error err = { 0 };

    (void)state;
    must(dataset_mix(&plan, parts, 2, &got, &err), &err);
    assert_true(got.all);
    assert_int_equal(got.count, 5);
    free(got.samples);
    plan.max_samples = 2;
    must(dataset_mix(&plan, parts, 2, &got, &err), &err);
    assert_false(got.all);
    assert_int_equal(got.count, 4);
    assert_memory_equal(got.samples, ((uint32_t[]) { 0, 1, 3, 4 }), 4 * sizeof(uint32_t));
    free(got.samples);
}

static void test_dataset_mix_refuses_invalid_settings(void **state)
{
    static const struct {
        enum mix_strategy strategy;
        const char *shares, *message;
        enum error_code code;
    } cases[] = {
        { MIX_CONCAT, "0.5,0.5", "not concat", ERROR_JOB },
        { MIX_INTERLEAVE_UNDER, "0.5", "1 numbers for 2 datasets", ERROR_JOB },
        { MIX_INTERLEAVE_UNDER, "0.5,0.4", "add up to 1", ERROR_JOB },
        { MIX_INTERLEAVE_UNDER, "0.5,a", "numbers from 0 to 1", ERROR_JOB },
        { MIX_INTERLEAVE_UNDER, "1.5,-0.5", "numbers from 0 to 1", ERROR_JOB },
        { MIX_INTERLEAVE_UNDER, "nan,1", "numbers from 0 to 1", ERROR_JOB },
        { MIX_INTERLEAVE_OVER, "1,0", "never be exhausted", ERROR_JOB },
    };
    const struct dataset_part parts[] = { { &whole, 0, 3 }, { &whole, 3, 2 } };
    const struct dataset_part empty[] = { { &whole, 0, 3 }, { &whole, 3, 0 } };
    struct dataset_choice got;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = { .mix_strategy = cases[i].strategy,
                             .interleave_probs = cases[i].shares };
        struct error err = { 0 };

        assert_false(dataset_mix_check(&plan, 2, &err));
        assert_int_equal(err.code, cases[i].code);
        if (!strstr(err.text, cases[i].message))
            fail_msg("\"%s\" does not contain \"%s\"", err.text, cases[i].message);
        error_clear(&err);
        assert_false(dataset_mix(&plan, parts, 2, &got, &err));
        free(got.samples);
    }
    {
        struct plan plan = { .mix_strategy = MIX_INTERLEAVE_UNDER };
        struct error err = { 0 };

        assert_false(dataset_mix(&plan, empty, 2, &got, &err));
        assert_non_null(strstr(err.text, "no sample left"));
        free(got.samples);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_mix_matches_hugging_face),
        cmocka_unit_test(test_dataset_mix_slices_as_hugging_face),
        cmocka_unit_test(test_dataset_mix_draws_samples),
        cmocka_unit_test(test_dataset_mix_concat_keeps_all_in_order),
        cmocka_unit_test(test_dataset_mix_refuses_invalid_settings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
