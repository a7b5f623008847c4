/* tests/unit/test_dataset_pairs.c - stage dpo: pairs of answers stay together and count
 * as one; cached ones are reused; errors are reported for data of another kind. */
#include "config.h"

#include "train/dataset/dataset.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/size.h"
#include "tests/unit/unit_dataset.h"

static struct plan plan_of(const char *dataset)
{
    struct plan plan = unit_dataset_plan(dataset);

    plan.stage = STAGE_DPO;
    plan.disable_shuffling = true;
    return plan;
}

/* Pairs "q" * (i % 5 + 1) -> a letter and "c" * (i % 3), the same letter and "r". */
static void put_pairs(const char *name, char first, size_t count)
{
    struct text file;

    text_init(&file, 0);
    for (size_t i = 0; i < count; i++)
        text_addf(
            &file,
            "{\"prompt\": \"%.*s\", \"chosen\": \"%c%.*s\", \"rejected\": \"%cr\"}\n",
            (int)(i % 5) + 1, "qqqqq", (char)(first + (int)i), (int)(i % 3), "cc",
            (char)(first + (int)i));
    unit_write(dir, name, &file);
    text_clear(&file);
}

/* The letter of each pair in the order of an epoch; no batch separates a pair. */
static void letters_of(const struct dataset *dataset, uint64_t epoch, size_t size,
                       char *out)
{
    struct batch batch = { 0 };
    struct text texts[2];

    for (size_t side = 0; side < 2; side++)
        text_init(&texts[side], 0);
    for (uint64_t i = 0; dataset_batch(dataset, epoch, i, size, &batch); i++) {
        assert_int_equal(batch.sequences % 2, 0);
        assert_true(batch.sequences <= 2 * size);
        assert_float_equal(batch.weight, batch.sequences / 2, 0);
        for (size_t run = 0; run < batch.sequences; run += 2) {
            for (size_t side = 0; side < 2; side++) {
                unit_dataset_run(&batch, run + side, &texts[side]);
                *out = strchr(texts[side].data, '>')[1];
                assert_true(*out ==
                            strpbrk(texts[0].data, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")[0]);
            }
            assert_null(strchr(texts[0].data, 'r'));
            assert_true(text_ends(texts[1].data, "r"));
            out++;
        }
    }
    *out = 0;
    for (size_t side = 0; side < 2; side++)
        text_clear(&texts[side]);
    batch_clear(&batch);
}

static void expect_letters(const struct plan *plan, enum split split,
                           const char *expected)
{
    struct dataset *dataset = unit_dataset_open(plan, split);
    char got[64];

    letters_of(dataset, 0, 2, got);
    assert_string_equal(got, expected);
    assert_int_equal(dataset_samples(dataset), strlen(expected));
    dataset_close(dataset);
}

static void test_dataset_pairs_are_two_sequences_each(void **state)
{
    static const char *const expected[] = { "qA>A", "qAr>Ar", "qqBc>Bc", "qqBr>Br" };
    static const uint32_t numbers[] = { 0, 1, 2, 3 };
    struct plan plan = plan_of("few.jsonl");
    struct batch batch = { 0 };
    struct dataset *dataset;
    uint32_t samples[8];
    struct text got;

    (void)state;
    put_pairs("few.jsonl", 'A', 3);
    dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
    assert_int_equal(dataset_samples(dataset), 3);
    assert_int_equal(dataset_longest(dataset), 6);
    assert_int_equal(dataset_positions_max(dataset), 6);
    assert_int_equal(dataset_tokens(dataset), 2 + 3 + 4 + 4 + 6 + 5);
    assert_int_equal(dataset_batches(dataset, 2), 2);
    assert_int_equal(dataset_rows_max(dataset, 2), 8 + 11);
    assert_int_equal(dataset_sequences_max(dataset, 2), 4);
    assert_true(dataset_batch(dataset, 0, 0, 2, &batch));
    assert_int_equal(batch.sequences, 4);
    assert_int_equal(batch.rows, 13);
    assert_int_equal(batch.longest, 4);
    assert_int_equal(batch.trained, 1 + 2 + 2 + 2);
    assert_float_equal(batch.weight, 2, 0);
    assert_null(batch.weights);
    text_init(&got, 0);
    for (size_t run = 0; run < TS_COUNT(expected); run++) {
        unit_dataset_run(&batch, run, &got);
        assert_string_equal(got.data, expected[run]);
    }
    assert_int_equal(dataset_batch_samples(dataset, 0, 0, 2, samples, 8), 4);
    assert_memory_equal(samples, numbers, sizeof(numbers));
    assert_int_equal(dataset_trained(dataset, 0, 0, 2, 2), 7 + 3 + 2);
    assert_float_equal(dataset_weight(dataset, 0, 0, 2, 2), 3, 0);
    assert_true(dataset_batch(dataset, 0, 1, 2, &batch));
    assert_int_equal(batch.sequences, 2);
    assert_float_equal(batch.weight, 1, 0);
    text_clear(&got);
    batch_clear(&batch);
    dataset_close(dataset);
}

static void test_dataset_feedback_adds_the_answer_before(void **state)
{
    static const char *const expected[] = { "qA>A",  "qCCC>CCC",   "qqBB>BB\x9b",
                                            "qqA>A", "qqqCCC>CCC", "qqqBB>BB" };
    struct plan plan = plan_of("marked.jsonl");
    struct batch batch = { 0 };
    struct dataset *dataset;
    uint32_t samples[8];
    struct text got;

    (void)state;
    unit_write_string(
        dir, "marked.jsonl",
        "{\"prompt\": \"q\", \"completion\": \"A\", \"label\": true}\n"
        "{\"prompt\": \"qq\", \"completion\": \"BB\", \"label\": false}\n"
        "{\"prompt\": \"x\", \"completion\": \"X\", \"label\": 1}\n"
        "{\"prompt\": \"qqq\", \"completion\": \"CCC\", \"kto_tag\": true}\n");
    plan.stage = STAGE_KTO;
    dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
    assert_non_null(strstr(dataset_note(dataset, 0), "neither true nor false"));
    assert_int_equal(dataset_samples(dataset), 3);
    assert_int_equal(dataset_positions_max(dataset), 6);
    assert_int_equal(dataset_rows_max(dataset, 3), 2 + 4 + 4 + 3 + 6 + 5);
    assert_int_equal(dataset_sequences_max(dataset, 3), 6);
    assert_true(dataset_batch(dataset, 0, 0, 3, &batch));
    assert_int_equal(batch.trained, 12);
    assert_int_equal(dataset_trained(dataset, 0, 0, 1, 3), 12);
    assert_float_equal(batch.weight, 3, 0);
    assert_null(batch.weights);
    text_init(&got, 0);
    for (size_t run = 0; run < TS_COUNT(expected); run++) {
        unit_dataset_run(&batch, run, &got);
        assert_string_equal(got.data, expected[run]);
    }
    assert_int_equal(dataset_batch_samples(dataset, 0, 0, 3, samples, 8), 6);
    assert_int_equal(samples[5], 5);
    text_clear(&got);
    batch_clear(&batch);
    dataset_close(dataset);
}

/* Answers are compared, not generated: there is no question to answer. */
static void test_dataset_pairs_have_no_questions(void **state)
{
    struct plan plan = plan_of("few.jsonl");
    struct dataset *dataset, *whole;
    struct error err = { 0 };
    size_t longer;

    (void)state;
    put_pairs("few.jsonl", 'A', 3);
    plan.eval_dataset = "few.jsonl";
    plan.cutoff_len = 3;
    dataset = unit_dataset_open(&plan, SPLIT_EVAL);
    assert_int_equal(dataset_questions(dataset), 0);
    assert_int_equal(dataset_question_max(dataset, 10, &longer), 0);
    assert_int_equal(longer, 0);
    assert_true(dataset_open_whole(&plan, dataset, tokenizer, &whole, &err));
    assert_null(whole);
    dataset_close(dataset);
}

static void test_dataset_pairs_are_counted_as_one(void **state)
{
    struct plan plan = plan_of("many.jsonl");
    struct dataset *train, *eval;
    char letters[64];

    (void)state;
    put_pairs("many.jsonl", 'A', 26);
    plan.max_samples = 5;
    expect_letters(&plan, SPLIT_TRAIN, "ABCDE");
    plan.dataloader_drop_last = true;
    train = unit_dataset_open(&plan, SPLIT_TRAIN);
    letters_of(train, 0, 2, letters);
    assert_string_equal(letters, "ABCD");
    dataset_close(train);
    plan = plan_of("many.jsonl");
    plan.val_size = 0.1;
    train = unit_dataset_open(&plan, SPLIT_TRAIN);
    eval = unit_dataset_open(&plan, SPLIT_EVAL);
    assert_int_equal(dataset_samples(eval), 3); /* as for 26 single answers */
    assert_int_equal(dataset_samples(train), 23);
    letters_of(eval, 0, 4, letters);
    letters_of(train, 0, 4, letters + 3);
    qsort(letters, 26, 1, unit_dataset_by_letter);
    assert_string_equal(letters, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    dataset_close(train);
    dataset_close(eval);
}

/* Packing has no effect; the order of an epoch is that of the same number of single
 * answers. */
static void test_dataset_pairs_are_shuffled_as_units(void **state)
{
    struct plan plan = plan_of("many.jsonl"), single = unit_dataset_plan("single.jsonl");
    struct dataset *pairs, *answers;
    char got[64], expected[64], before[64] = "";

    (void)state;
    put_pairs("many.jsonl", 'A', 26);
    unit_dataset_records("single.jsonl", 26);
    plan.disable_shuffling = false;
    plan.packing = CHOICE_YES;
    plan.neat_packing = true;
    pairs = unit_dataset_open(&plan, SPLIT_TRAIN);
    answers = unit_dataset_open(&single, SPLIT_TRAIN);
    assert_int_equal(dataset_samples(pairs), 26);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        letters_of(pairs, epoch, 3, got);
        unit_dataset_letters(answers, epoch, 3, expected);
        assert_string_equal(got, expected);
        assert_string_not_equal(got, before);
        strcpy(before, got);
    }
    dataset_close(answers);
    dataset_close(pairs);
}

static void test_dataset_pairs_are_mixed(void **state)
{
    struct plan plan = plan_of("three.jsonl,part");
    struct dataset *dataset;
    char got[64];

    (void)state;
    put_pairs("three.jsonl", 'A', 3);
    put_pairs("later.jsonl", 'K', 16);
    unit_write_string(
        dir, "dataset_info.json",
        "{\"part\": {\"file_name\": \"later.jsonl\", \"split\": \"train[2:7]\", "
        "\"ranking\": true, \"columns\": {\"prompt\": \"prompt\", \"chosen\": "
        "\"chosen\", \"rejected\": \"rejected\"}}, \"drawn\": {\"file_name\": "
        "\"three.jsonl\", \"num_samples\": 7, \"ranking\": true, \"columns\": "
        "{\"prompt\": \"prompt\", \"chosen\": \"chosen\", \"rejected\": \"rejected\"}}}");
    expect_letters(&plan, SPLIT_TRAIN, "ABCMNOPQ");
    plan.mix_strategy = MIX_INTERLEAVE_UNDER;
    expect_letters(&plan, SPLIT_TRAIN, "AMBNCO");
    plan.mix_strategy = MIX_INTERLEAVE_OVER;
    expect_letters(&plan, SPLIT_TRAIN, "AMBNCOAPBQ");
    plan.max_samples = 2;
    plan.mix_strategy = MIX_INTERLEAVE_ONCE;
    expect_letters(&plan, SPLIT_TRAIN, "AMBN");
    plan = plan_of("drawn");
    dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
    letters_of(dataset, 0, 4, got);
    assert_int_equal(strlen(got), 7);
    assert_int_equal(strspn(got, "ABC"), 7);
    dataset_close(dataset);
}

/* Make data older than the cache made of them. */
static void make_old(const char *name)
{
    char *path = path_join(dir, name);
    struct timespec times[2] = { 0 };

    times[0].tv_sec = times[1].tv_sec = (time_t)(clock_wall() - 100);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    free(path);
}

static bool is_cached(const struct dataset *dataset)
{
    return text_starts(dataset_origin(dataset), "tokens mapped from");
}

/* Records that both stages can read; the cache of one is not used by the other. */
static void test_dataset_pairs_are_cached(void **state)
{
    struct plan plan = plan_of("both.jsonl"), single = unit_dataset_plan("both.jsonl");
    char *kept = path_join(dir, "kept"), got[16];
    struct dataset *dataset;

    (void)state;
    unit_write_string(dir, "both.jsonl",
                      "{\"prompt\": \"q\", \"response\": \"A\", \"chosen\": \"A\", "
                      "\"rejected\": \"Ar\"}\n"
                      "{\"prompt\": \"q\", \"response\": \"B\", \"chosen\": \"B\", "
                      "\"rejected\": \"B\"}\n"
                      "{\"prompt\": \"q\", \"response\": \"C\", \"chosen\": \"C\", "
                      "\"rejected\": \"Cr\"}\n");
    make_old("both.jsonl");
    plan.tokenized_path = single.tokenized_path = kept;
    for (size_t i = 0; i < 4; i++) {
        const struct plan *now = i == 2 ? &single : &plan;

        dataset = unit_dataset_open(now, SPLIT_TRAIN);
        assert_int_equal(is_cached(dataset), i == 1);
        if (i != 2) {
            letters_of(dataset, 0, 2, got);
            assert_string_equal(got, "AC");
            assert_non_null(
                strstr(dataset_note(dataset, 0),
                       "1 record whose two answers are the same is left out; the "
                       "first is at "));
            assert_true(text_ends(dataset_note(dataset, 0), "/both.jsonl:2"));
        } else {
            assert_int_equal(dataset_samples(dataset), 3);
            assert_non_null(strstr(dataset_origin(dataset), "stage differs"));
        }
        dataset_close(dataset);
    }
    free(kept);
}

static void test_dataset_pairs_errors_have_a_position(void **state)
{
    static const struct {
        const char *dataset, *text;
        enum stage stage;
        unsigned line;
        const char *message;
    } cases[] = {
        { "bad.jsonl",
          "{\"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": \"b\"}\n"
          "{\"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": 7}\n",
          STAGE_DPO, 2, "\"rejected\" must be a string, not a number; put it in quotes" },
        { "bad.jsonl", "\n{\"instruction\": \"q\", \"output\": \"a\"}\n", STAGE_DPO, 2,
          "the record has no \"chosen\" and \"rejected\"" },
        { "bad.jsonl", "{\"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": \"b\"}\n",
          STAGE_SFT, 1,
          "a chosen and a rejected answer, which stages dpo and rm compare; use one of them" },
        { "bad.txt", "once upon a time\n", STAGE_DPO, 1,
          "stages dpo and rm require questions with a chosen and a rejected answer each" },
        { "bad.jsonl", "{\"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": \"a\"}\n",
          STAGE_DPO, 0,
          "bad.jsonl has no record to train on: 1 record whose two answers are "
          "the same is left out" },
        { "single", "{\"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": \"b\"}\n",
          STAGE_DPO, 0,
          "dataset_info.json: dataset single has one answer per question, and stage: "
          "dpo compares two" },
        { "pairs", "{\"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": \"b\"}\n",
          STAGE_SFT, 0,
          "dataset_info.json: dataset pairs has two answers per question (ranking), "
          "which stages dpo and rm compare" },
        { "pairs", "{\"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": \"b\"}\n",
          STAGE_PT, 0, "dataset pairs has two answers" },
        { "single", "{\"instruction\": \"q\", \"output\": \"a\"}\n", STAGE_KTO, 0,
          "dataset single does not mark its answers as good or bad" },
        { "marked", "{\"instruction\": \"q\", \"output\": \"a\"}\n", STAGE_SFT, 0,
          "dataset marked marks its answers as good or bad (kto_tag), which is for "
          "stage: kto" },
        { "bad.jsonl", "{\"instruction\": \"q\", \"output\": \"a\"}\n", STAGE_KTO, 1,
          "the record has no \"label\" and no \"kto_tag\"" },
    };

    (void)state;
    unit_write_string(
        dir, "dataset_info.json",
        "{\"single\": {\"file_name\": \"bad.jsonl\"}, \"marked\": {\"file_name\": "
        "\"bad.jsonl\", \"columns\": {\"prompt\": \"instruction\", \"response\": "
        "\"output\", \"kto_tag\": \"label\"}}, \"pairs\": {\"file_name\": "
        "\"bad.jsonl\", \"ranking\": true, \"columns\": {\"prompt\": \"prompt\", "
        "\"chosen\": \"chosen\", \"rejected\": \"rejected\"}}}");
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = plan_of(cases[i].dataset);
        struct error err = { 0 };

        unit_write_string(dir,
                          strchr(cases[i].dataset, '.') ? cases[i].dataset : "bad.jsonl",
                          cases[i].text);
        plan.stage = cases[i].stage;
        assert_null(dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i].message) || err.at.line != cases[i].line)
            fail_msg("case %zu, line %u: %s", i, err.at.line, err.text);
        assert_int_equal(text_ends(err.file, cases[i].dataset), cases[i].line > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_pairs_are_two_sequences_each),
        cmocka_unit_test(test_dataset_feedback_adds_the_answer_before),
        cmocka_unit_test(test_dataset_pairs_have_no_questions),
        cmocka_unit_test(test_dataset_pairs_are_counted_as_one),
        cmocka_unit_test(test_dataset_pairs_are_shuffled_as_units),
        cmocka_unit_test(test_dataset_pairs_are_mixed),
        cmocka_unit_test(test_dataset_pairs_are_cached),
        cmocka_unit_test(test_dataset_pairs_errors_have_a_position),
    };

    return cmocka_run_group_tests(tests, unit_dataset_start, unit_dataset_stop);
}
