/* tests/unit/test_dataset.c - a job's data as samples: shares, blocks, skipped records;
 * and the messages for invalid data. */
#include "config.h"

#include "train/dataset/dataset.h"

#include "base/size.h"
#include "tests/unit/unit_dataset.h"
#include "train/chat/chat.h"

static void test_dataset_share_is_held_out_for_evaluation(void **state)
{
    static const struct {
        double val_size;
        size_t eval;
    } cases[] = { { 0.1, 3 }, { 0.5, 13 }, { 5, 5 } };
    struct plan plan = unit_dataset_plan("many.jsonl");

    (void)state;
    unit_dataset_records("many.jsonl", 26);
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct dataset *train, *eval;
        char letters[64];
        size_t count;

        plan.val_size = cases[i].val_size;
        train = unit_dataset_open(&plan, SPLIT_TRAIN);
        eval = unit_dataset_open(&plan, SPLIT_EVAL);
        assert_int_equal(dataset_samples(eval), cases[i].eval);
        assert_int_equal(dataset_samples(train), 26 - cases[i].eval);
        unit_dataset_letters(eval, 0, 4, letters);
        count = strlen(letters);
        unit_dataset_letters(train, 0, 4, letters + count);
        qsort(letters, 26, 1, unit_dataset_by_letter);
        assert_string_equal(letters, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        dataset_close(train);
        dataset_close(eval);
    }
}

/* Collect the letters of all samples' answers. */
static void letters_of(const struct plan *plan, char *out)
{
    struct dataset *dataset = unit_dataset_open(plan, SPLIT_TRAIN);

    unit_dataset_letters(dataset, 0, 1, out);
    dataset_close(dataset);
}

/* Sorted by file name; max_samples applies to all files together. */
static void test_dataset_folder_is_one_dataset(void **state)
{
    struct plan plan = unit_dataset_plan("parts/");
    char *folder = path_join(dir, "parts"), got[32];
    struct error err = { 0 };

    (void)state;
    assert_true(file_make_dir(folder, 0755, &err));
    unit_write_string(dir, "parts/2.jsonl", "{\"prompt\": \"q\", \"response\": \"C\"}\n");
    unit_write_string(dir, "parts/1.json",
                      "[{\"prompt\": \"q\", \"response\": \"A\"}, {\"prompt\": \"q\", "
                      "\"response\": \"B\"}]");
    plan.disable_shuffling = true;
    letters_of(&plan, got);
    assert_string_equal(got, "ABC");
    plan.max_samples = 2;
    letters_of(&plan, got);
    assert_string_equal(got, "AB");
    unit_write_string(dir, "parts/3.jsonl", "{\"prompt\": \"q\", \"resp");
    plan.max_samples = 0;
    assert_null(dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err));
    assert_true(text_ends(err.file, "/parts/3.jsonl"));
    assert_int_equal(err.at.line, 1);
    free(folder);
}

static void test_dataset_mixes_several_datasets(void **state)
{
    struct plan plan = unit_dataset_plan("three.jsonl,drawn");
    char got[64];

    (void)state;
    unit_dataset_records("three.jsonl", 3);
    unit_dataset_records("many.jsonl", 26);
    unit_write_string(dir, "dataset_info.json",
                      "{\"drawn\": {\"file_name\": \"many.jsonl\", \"split\": "
                      "\"train[10:15]\", \"columns\": {\"prompt\": \"prompt\", "
                      "\"response\": \"response\"}}}");
    plan.disable_shuffling = true;
    letters_of(&plan, got);
    assert_string_equal(got, "ABCKLMNO");
    plan.mix_strategy = MIX_INTERLEAVE_UNDER;
    letters_of(&plan, got);
    assert_string_equal(got, "AKBLCM");
    plan.mix_strategy = MIX_INTERLEAVE_OVER;
    letters_of(&plan, got);
    assert_string_equal(got, "AKBLCMANBO");
    plan.mix_strategy = MIX_INTERLEAVE_ONCE;
    letters_of(&plan, got);
    assert_string_equal(got, "AKBLCMNO");
    plan.max_samples = 2;
    letters_of(&plan, got);
    assert_string_equal(got, "AKBL");
    plan.interleave_probs = "0,1";
    plan.mix_strategy = MIX_INTERLEAVE_UNDER;
    letters_of(&plan, got);
    assert_string_equal(got, "KL");
}

static void test_dataset_eval_files_are_separate(void **state)
{
    struct plan plan = unit_dataset_plan("many.jsonl");
    struct dataset *eval;
    char letters[64];

    (void)state;
    unit_dataset_records("many.jsonl", 26);
    unit_dataset_records("few.jsonl", 3);
    plan.eval_dataset = "few.jsonl,few.jsonl";
    eval = unit_dataset_open(&plan, SPLIT_EVAL);
    unit_dataset_letters(eval, 9, 4, letters);
    assert_string_equal(letters, "ABCABC");
    dataset_close(eval);
    plan.max_samples = 2;
    eval = unit_dataset_open(&plan, SPLIT_EVAL);
    unit_dataset_letters(eval, 9, 4, letters);
    assert_string_equal(letters, "ABAB");
    dataset_close(eval);
}

/* Read the blocks of stage pt, joined. */
static void read_blocks(const struct plan *plan, enum split split, struct text *out)
{
    struct dataset *dataset = unit_dataset_open(plan, split);
    struct batch batch = { 0 };

    text_reset(out);
    for (uint64_t i = 0; dataset_batch(dataset, 0, i, 1, &batch); i++) {
        assert_int_equal(batch.sequences, 1);
        assert_int_equal(batch.trained, batch.rows - 1);
        for (size_t row = 0; row < batch.rows; row++) {
            if (row > 0)
                assert_int_equal(batch.targets[row - 1], batch.tokens[row]);
            tokenizer_decode(tokenizer, (const uint32_t *)&batch.tokens[row], 1, false,
                             out);
        }
        assert_int_equal(batch.targets[batch.rows - 1], LABEL_NONE);
        text_addc(out, '|');
    }
    batch_clear(&batch);
    dataset_close(dataset);
}

static void test_dataset_text_is_cut_in_blocks(void **state)
{
    struct plan plan = unit_dataset_plan("docs.jsonl");
    struct text got;

    (void)state;
    unit_write_string(dir, "docs.jsonl",
                      "{\"text\": \"abcde\"}\n{\"text\": \"\"}\n{\"text\": \"fghij\"}\n");
    plan.stage = STAGE_PT;
    plan.template_name = NULL;
    plan.cutoff_len = 4;
    plan.disable_shuffling = true;
    text_init(&got, 0);
    read_blocks(&plan, SPLIT_TRAIN, &got);
    assert_string_equal(got.data, "abcd|e</s></s>f|ghij|");
    plan.packing = CHOICE_NO;
    read_blocks(&plan, SPLIT_TRAIN, &got);
    assert_string_equal(got.data, "abcd|fghi|");
    plan.cutoff_len = 100;
    plan.packing = CHOICE_AUTO;
    plan.template_name = "chatml";
    read_blocks(&plan, SPLIT_TRAIN, &got);
    assert_string_equal(got.data, "abcde<|im_end|><|im_end|>fghij<|im_end|>|");
    text_clear(&got);
}

static void test_dataset_continuous_text_keeps_its_lines(void **state)
{
    struct plan plan = unit_dataset_plan("play.txt");
    struct text got;

    (void)state;
    unit_write_string(dir, "play.txt", "To be\nor not\n");
    unit_write_string(dir, "dataset_info.json",
                      "{\"play\": {\"file_name\": \"play.txt\", \"columns\": "
                      "{\"prompt\": \"text\"}}}");
    plan.stage = STAGE_PT;
    plan.template_name = NULL;
    plan.cutoff_len = 7;
    plan.disable_shuffling = true;
    text_init(&got, 0);
    read_blocks(&plan, SPLIT_TRAIN, &got);
    assert_string_equal(got.data, "To be\no|r not\n</s>|");
    plan.max_samples = 1;
    read_blocks(&plan, SPLIT_TRAIN, &got);
    assert_string_equal(got.data, "To be\no|");
    plan.max_samples = 0;
    plan.val_size = 1; /* one block of it is held out */
    read_blocks(&plan, SPLIT_EVAL, &got);
    assert_ptr_equal(strchr(got.data, '|'), got.data + got.len - 1);
    plan.val_size = 0;
    plan.dataset = "play"; /* each line is a document there */
    read_blocks(&plan, SPLIT_TRAIN, &got);
    assert_string_equal(got.data, "To be</s>o|");
    plan.dataset = "play,play"; /* documents alternate, then they are cut */
    plan.mix_strategy = MIX_INTERLEAVE_UNDER;
    plan.cutoff_len = 30;
    read_blocks(&plan, SPLIT_TRAIN, &got);
    assert_string_equal(got.data, "To be</s>To be</s>or not</s>or not</s>|");
    text_clear(&got);
}

static void test_dataset_begins_blocks_as_configured(void **state)
{
    char *folder = unit_dir_new();
    struct tokenizer *all = tokenizer;
    struct plan plan = unit_dataset_plan("docs.jsonl");
    struct error err = { 0 };
    struct text got;

    (void)state;
    unit_write_string(dir, "docs.jsonl", "{\"text\": \"abcdefg\"}\n");
    unit_tokenizer_write(folder, UNIT_SPECIALS, true);
    tokenizer = chat_tokenizer_open(folder, &err);
    assert_true(tokenizer_adds_bos(tokenizer));
    plan.stage = STAGE_PT;
    plan.template_name = NULL;
    plan.cutoff_len = 4;
    plan.disable_shuffling = true;
    text_init(&got, 0);
    read_blocks(&plan, SPLIT_TRAIN, &got);
    assert_string_equal(got.data, "<s>bcd|<s>fg</s>|"); /* as in LLaMA-Factory */
    plan.packing = CHOICE_NO;
    read_blocks(&plan, SPLIT_TRAIN, &got);
    assert_string_equal(got.data, "<s>abc|");
    text_clear(&got);
    tokenizer_close(tokenizer);
    tokenizer = all;
    unit_dir_free(folder);
}

static void test_dataset_notes_skipped_records(void **state)
{
    struct plan plan = unit_dataset_plan("mixed.jsonl");
    struct dataset *dataset;

    (void)state;
    unit_write_string(dir, "mixed.jsonl",
                      "{\"prompt\": \"q\", \"response\": \"a\"}\n"
                      "{\"prompt\": \"q\", \"response\": null}\n"
                      "{\"messages\": []}\n"
                      "{\"prompt\": \"q\", \"response\": null}\n");
    plan.template_name = NULL;
    dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
    assert_int_equal(dataset_samples(dataset), 1);
    assert_non_null(strstr(dataset_note(dataset, 0), "llama3"));
    assert_non_null(strstr(dataset_note(dataset, 1), "2 records without an answer are"));
    assert_non_null(strstr(dataset_note(dataset, 1), "mixed.jsonl:2"));
    assert_non_null(strstr(dataset_note(dataset, 2), "1 record whose roles"));
    assert_null(dataset_note(dataset, 3));
    dataset_close(dataset);
}

static bool notes_say(const struct plan *plan, const char *words)
{
    struct dataset *dataset = unit_dataset_open(plan, SPLIT_TRAIN);
    bool found = false;

    for (size_t i = 0; dataset_note(dataset, i); i++)
        found = found || strstr(dataset_note(dataset, i), words);
    dataset_close(dataset);
    return found;
}

/* The trained part would end with the tokenizer's end-of-text token, but there is
 * none. */
static void test_dataset_notes_a_missing_end_token(void **state)
{
    static const struct {
        const char *template_name;
        enum stage stage;
        bool noted; /* without an end token */
    } rows[] = {
        { "default", STAGE_SFT, true }, { "llama2", STAGE_SFT, true },
        { "gemma2", STAGE_SFT, true },  { "llama3", STAGE_SFT, false },
        { NULL, STAGE_PT, true },       { "chatml", STAGE_PT, false },
    };
    struct plan plan = unit_dataset_plan("mixed.jsonl");
    struct tokenizer *all = tokenizer;
    char *folder = unit_dir_new();
    struct error err = { 0 };

    (void)state;
    unit_write_string(dir, "mixed.jsonl",
                      "{\"prompt\": \"q\", \"response\": \"a\", \"text\": \"b\"}\n");
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        plan.template_name = rows[i].template_name;
        plan.stage = rows[i].stage;
        assert_false(notes_say(&plan, "defines no end-of-text token"));
        unit_tokenizer_write(folder, UNIT_SPECIALS, false);
        unit_write_string(folder, "tokenizer_config.json", "{}");
        tokenizer = chat_tokenizer_open(folder, &err);
        assert_int_equal(notes_say(&plan, "defines no end-of-text token"), rows[i].noted);
        tokenizer_close(tokenizer);
        tokenizer = all;
    }
    unit_dir_free(folder);
}

static void test_dataset_reports_file_and_line(void **state)
{
    static const struct {
        const char *data, *message;
        uint32_t line;
    } cases[] = {
        { "{\"prompt\": \"q\", \"response\": \"a\"}\n{\"prompt\": \"q\", \"resp",
          "the record is truncated", 2 },
        { "{\"prompt\": \"q\", \"response\": \"a\"}\n\n"
          "{\"prompt\": {}, \"response\": \"a\"}\n",
          "must be a string", 3 },
        { "{\"prompt\": \"q\xff\", \"response\": \"a\"}\n", "iconv -t utf-8", 1 },
        { "{'prompt': 'q', 'response': 'a'}\n", "JSON requires double quotes", 1 },
        { "prompt,response\nq,a\n", "a record is an object in braces", 1 },
        { "{\"prompt\": \"q\\ud800\", \"response\": \"a\"}\n", "invalid JSON", 1 },
        { "{\"prompt\": \"q\", \"response\": NaN}\n", "JSON has no NaN", 1 },
        { "{\"prompt\": \"q\", \"prompt\": \"q\"}\n", "a key occurs twice", 1 },
        { "{\"text\": \"q\"}\n", "stage: pt", 1 },
        { "\n\n", "no record to train on", 0 },
        { "{\"messages\": []}\n", "no record to train on", 0 },
    };
    struct plan plan = unit_dataset_plan("bad.jsonl");

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };

        unit_write_string(dir, "bad.jsonl", cases[i].data);
        assert_null(dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i].message))
            fail_msg("\"%s\" does not contain \"%s\"", err.text, cases[i].message);
        assert_int_equal(err.at.line, cases[i].line);
        if (cases[i].line)
            assert_true(text_ends(err.file, "/bad.jsonl"));
    }
}

/* If some records lack the column, the others show that it is expected. */
static void test_dataset_reports_a_misnamed_prompt(void **state)
{
    struct plan plan = unit_dataset_plan("set");
    struct error err = { 0 };
    char got[32];

    (void)state;
    unit_write_string(dir, "dataset_info.json",
                      "{\"set\": {\"file_name\": \"set.jsonl\"}}");
    unit_write_string(dir, "set.jsonl",
                      "{\"input\": \"q\", \"output\": \"A\"}\n"
                      "{\"instruction\": \"q\", \"output\": \"B\"}\n");
    plan.disable_shuffling = true;
    letters_of(&plan, got);
    assert_string_equal(got, "AB");
    unit_write_string(dir, "set.jsonl",
                      "{\"input\": \"q\", \"output\": \"A\"}\n"
                      "{\"task\": \"q\", \"input\": \"q\", \"output\": \"B\"}\n");
    assert_null(dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_non_null(strstr(err.text, "no record has \"instruction\""));
}

static void test_dataset_refuses_invalid_jobs(void **state)
{
    struct plan plans[5];
    struct error err = { 0 };

    (void)state;
    unit_dataset_records("few.jsonl", 3);
    for (size_t i = 0; i < TS_COUNT(plans); i++)
        plans[i] = unit_dataset_plan("few.jsonl");
    plans[0].template_name = "unknown";
    plans[1].mask_history = plans[1].train_on_prompt = true;
    plans[2].eval_dataset = "few.jsonl";
    plans[2].val_size = 0.5;
    plans[3].dataset = NULL;
    plans[4].cutoff_len = 1;
    for (size_t i = 0; i < TS_COUNT(plans); i++) {
        error_clear(&err);
        assert_null(dataset_open(&plans[i], SPLIT_TRAIN, tokenizer, &err));
        assert_int_equal(err.code, ERROR_JOB);
    }
    plans[0] = unit_dataset_plan("few.jsonl");
    error_clear(&err);
    assert_null(dataset_open(&plans[0], SPLIT_EVAL, tokenizer, &err));
    assert_int_equal(err.code, ERROR_JOB);
    plans[0].val_size = 3;
    error_clear(&err);
    assert_null(dataset_open(&plans[0], SPLIT_TRAIN, tokenizer, &err));
    assert_non_null(strstr(err.text, "nothing to train on"));
}

/* Real files, as published. */
static void test_dataset_reads_published_files(void **state)
{
    static const struct {
        const char *name;
        enum stage stage;
        size_t samples;
    } cases[] = {
        { "alpaca_en_demo", STAGE_SFT, 999 },
        { "alpaca_zh_demo", STAGE_SFT, 1000 },
        { "identity", STAGE_SFT, 91 },
        { "glaive_toolcall_en_demo", STAGE_SFT, 300 },
        { "v1_sft_demo.jsonl", STAGE_SFT, 500 },
        { "c4_demo", STAGE_PT, 0 },
        { "wiki_demo,c4_demo.jsonl", STAGE_PT, 0 },
    };
    char *folder = unit_shared("data/datasets/llamafactory");

    (void)state;
    if (!folder)
        skip();
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = unit_dataset_plan(cases[i].name);
        struct dataset *dataset;

        plan.dataset_dir = folder;
        plan.stage = cases[i].stage;
        plan.cutoff_len = 4096;
        dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
        if (cases[i].samples)
            assert_int_equal(dataset_samples(dataset), cases[i].samples);
        assert_in_range(dataset_longest(dataset), 2, 4096);
        dataset_close(dataset);
    }
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_share_is_held_out_for_evaluation),
        cmocka_unit_test(test_dataset_folder_is_one_dataset),
        cmocka_unit_test(test_dataset_mixes_several_datasets),
        cmocka_unit_test(test_dataset_eval_files_are_separate),
        cmocka_unit_test(test_dataset_text_is_cut_in_blocks),
        cmocka_unit_test(test_dataset_continuous_text_keeps_its_lines),
        cmocka_unit_test(test_dataset_begins_blocks_as_configured),
        cmocka_unit_test(test_dataset_notes_skipped_records),
        cmocka_unit_test(test_dataset_notes_a_missing_end_token),
        cmocka_unit_test(test_dataset_reports_file_and_line),
        cmocka_unit_test(test_dataset_reports_a_misnamed_prompt),
        cmocka_unit_test(test_dataset_refuses_invalid_jobs),
        cmocka_unit_test(test_dataset_reads_published_files),
    };

    return cmocka_run_group_tests(tests, unit_dataset_start, unit_dataset_stop);
}
