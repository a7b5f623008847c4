/* tests/unit/test_dataset.c - a job's data as batches: runs, positions, targets, order,
 * shares, packing without leaks; and the words for data that are wrong. */
#include "config.h"

#include "train/dataset.h"

#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"
#include "train/template.h"

static char *dir;
static struct tokenizer *tokenizer;

static int open_all(void **state)
{
    (void)state;
    dir = unit_dir_new();
    tokenizer = unit_tokenizer(UNIT_SPECIALS);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    unit_dir_free(dir);
    return 0;
}

/* A plan whose data are files of the directory. */
static struct plan new_plan(const char *dataset)
{
    return (struct plan) {
        .stage = STAGE_SFT,
        .dataset = dataset,
        .dataset_dir = dir,
        .template_name = "empty",
        .packing = CHOICE_AUTO,
        .cutoff_len = 64,
        .seed = 42,
        .data_seed = -1,
    };
}

static struct dataset *open_split(const struct plan *plan, enum split split)
{
    struct error err = { 0 };
    struct dataset *dataset = dataset_open(plan, split, tokenizer, &err);

    if (!dataset)
        fail_msg("%s:%u: %s", err.file, err.at.line, err.text);
    return dataset;
}

/* Records "q" * (i % 5 + 1) -> a letter and "b" * (i % 7); i names the letter. */
static void put_records(const char *name, size_t count)
{
    struct text file;

    text_init(&file, 0);
    for (size_t i = 0; i < count; i++)
        text_addf(&file, "{\"prompt\": \"%.*s\", \"response\": \"%c%.*s\"}\n",
                  (int)(i % 5) + 1, "qqqqq", (char)('A' + i), (int)(i % 7), "bbbbbbb");
    unit_write(dir, name, &file);
    text_clear(&file);
}

/* What a run of a batch reads and learns, as "read>learnt". */
static void describe_run(const struct batch *batch, size_t run, struct text *out)
{
    text_reset(out);
    for (int32_t i = batch->offsets[run]; i < batch->offsets[run + 1]; i++) {
        assert_int_equal(batch->positions[i], i - batch->offsets[run]);
        text_addc(out, (char)batch->tokens[i]);
    }
    text_addc(out, '>');
    for (int32_t i = batch->offsets[run]; i < batch->offsets[run + 1]; i++)
        if (batch->targets[i] != LABEL_NONE)
            text_addc(out, (char)batch->targets[i]);
}

static void test_dataset_batch_is_runs_without_padding(void **state)
{
    struct plan plan = new_plan("few.jsonl");
    struct batch batch = { 0 };
    struct dataset *dataset;
    struct text got;

    (void)state;
    put_records("few.jsonl", 3);
    plan.disable_shuffling = true;
    dataset = open_split(&plan, SPLIT_TRAIN);
    assert_int_equal(dataset_samples(dataset), 3);
    assert_int_equal(dataset_longest(dataset), 6);
    assert_int_equal(dataset_tokens(dataset), 2 + 4 + 6);
    assert_int_equal(dataset_token_max(dataset), 'q');
    assert_true(dataset_batch(dataset, 0, 0, 2, &batch));
    assert_int_equal(batch.sequences, 2);
    assert_int_equal(batch.rows, 6);
    assert_int_equal(batch.seen, 6);
    assert_int_equal(batch.longest, 4);
    assert_int_equal(batch.trained, 1 + 2);
    text_init(&got, 0);
    describe_run(&batch, 0, &got);
    assert_string_equal(got.data, "qA>A");
    describe_run(&batch, 1, &got);
    assert_string_equal(got.data, "qqBb>Bb");
    assert_true(dataset_batch(dataset, 0, 1, 2, &batch));
    assert_int_equal(batch.sequences, 1);
    describe_run(&batch, 0, &got);
    assert_string_equal(got.data, "qqqCbb>Cbb");
    assert_false(dataset_batch(dataset, 0, 2, 2, &batch));
    text_clear(&got);
    batch_clear(&batch);
    dataset_close(dataset);
}

/* A weight in the data is one in the batch; where there is none, the batch has no list. */
static void test_dataset_batch_has_weights(void **state)
{
    struct plan plan = new_plan("plain.jsonl");
    struct batch batch = { 0 };
    struct dataset *dataset;

    (void)state;
    put_records("plain.jsonl", 3);
    unit_write_string(dir, "weighted.jsonl",
                      "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, "
                      "{\"role\": \"assistant\", \"content\": \"ab\", \"loss_weight\": 0.5},"
                      "{\"role\": \"user\", \"content\": \"r\"}, "
                      "{\"role\": \"assistant\", \"content\": \"c\", \"loss_weight\": 4}]}\n");
    dataset = open_split(&plan, SPLIT_TRAIN);
    assert_true(dataset_batch(dataset, 0, 0, 3, &batch));
    assert_null(batch.weights);
    assert_true(batch.weight == (double)batch.trained);
    assert_true(dataset_weight(dataset, 0, 0, 1, 3) == batch.weight);
    dataset_close(dataset);
    plan.dataset = "weighted.jsonl";
    dataset = open_split(&plan, SPLIT_TRAIN);
    assert_true(dataset_batch(dataset, 0, 0, 3, &batch)); /* the room is there already */
    assert_int_equal(batch.rows, 5);
    assert_memory_equal(batch.weights, ((float[]) { 0.5f, 0.5f, 0, 4, 0 }),
                        5 * sizeof(float));
    assert_int_equal(batch.trained, 3);
    assert_true(batch.weight == 5 && dataset_weight(dataset, 0, 0, 1, 3) == 5);
    dataset_close(dataset);
    batch_clear(&batch);
}

/* Letters of the answers in the order of an epoch. */
static void epoch_letters(const struct dataset *dataset, uint64_t epoch, size_t size,
                          char *out)
{
    struct batch batch = { 0 };
    size_t trained = 0;

    for (uint64_t i = 0; dataset_batch(dataset, epoch, i, size, &batch); i++) {
        for (size_t row = 0; row < batch.rows; row++)
            if (batch.tokens[row] >= 'A' && batch.tokens[row] <= 'Z')
                *out++ = (char)batch.tokens[row];
        trained += batch.trained;
    }
    *out = 0;
    assert_int_equal(trained, dataset_trained(dataset, epoch, 0,
                                              dataset_batches(dataset, size), size));
    batch_clear(&batch);
}

static int compare_bytes(const void *a, const void *b)
{
    return *(const char *)a - *(const char *)b;
}

static void test_dataset_order_is_of_seed_and_epoch(void **state)
{
    struct plan plan = new_plan("many.jsonl");
    char first[32], second[32], again[32], other[32];
    struct dataset *dataset;

    (void)state;
    put_records("many.jsonl", 26);
    dataset = open_split(&plan, SPLIT_TRAIN);
    epoch_letters(dataset, 0, 4, first);
    epoch_letters(dataset, 1, 4, second);
    epoch_letters(dataset, 0, 7, again);
    assert_string_equal(first, again);
    assert_string_not_equal(first, second);
    dataset_close(dataset);
    plan.data_seed = 43;
    dataset = open_split(&plan, SPLIT_TRAIN);
    epoch_letters(dataset, 0, 4, other);
    assert_string_not_equal(first, other);
    dataset_close(dataset);
    assert_string_not_equal(first, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    qsort(first, 26, 1, compare_bytes);
    qsort(second, 26, 1, compare_bytes);
    assert_string_equal(first, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    assert_string_equal(second, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

static void test_dataset_windows_count_their_targets(void **state)
{
    struct plan plan = new_plan("many.jsonl");
    struct batch batch = { 0 };
    struct dataset *dataset;

    (void)state;
    put_records("many.jsonl", 26);
    dataset = open_split(&plan, SPLIT_TRAIN);
    assert_int_equal(dataset_batches(dataset, 4), 7);
    for (uint64_t first = 0; first < 7; first += 3) {
        size_t trained = 0;

        for (uint64_t i = first; i < first + 3; i++)
            if (dataset_batch(dataset, 5, i, 4, &batch))
                trained += batch.trained;
        assert_int_equal(dataset_trained(dataset, 5, first, 3, 4), trained);
    }
    assert_int_equal(dataset_trained(dataset, 5, 7, 3, 4), 0);
    batch_clear(&batch);
    dataset_close(dataset);
    plan.dataloader_drop_last = true;
    dataset = open_split(&plan, SPLIT_TRAIN);
    assert_int_equal(dataset_batches(dataset, 4), 6);
    assert_false(dataset_batch(dataset, 0, 6, 4, &batch));
    dataset_close(dataset);
}

static void test_dataset_max_is_never_passed(void **state)
{
    struct plan plan = new_plan("many.jsonl");

    (void)state;
    put_records("many.jsonl", 26);
    for (int packed = 0; packed < 2; packed++) {
        struct batch batch = { 0 };
        struct dataset *dataset;
        size_t rows = 0, sequences = 0;

        plan.packing = packed ? CHOICE_YES : CHOICE_NO;
        plan.cutoff_len = 20;
        dataset = open_split(&plan, SPLIT_TRAIN);
        for (uint64_t epoch = 0; epoch < 20; epoch++)
            for (uint64_t i = 0; dataset_batch(dataset, epoch, i, 3, &batch); i++) {
                rows = batch.rows > rows ? batch.rows : rows;
                sequences = batch.sequences > sequences ? batch.sequences : sequences;
            }
        assert_in_range(rows, 1, dataset_rows_max(dataset, 3));
        assert_in_range(sequences, 1, dataset_sequences_max(dataset, 3));
        assert_int_equal(dataset_sequences_max(dataset, 3) > 3, packed);
        assert_true(dataset_rows_max(dataset, 3) <= 3 * dataset_longest(dataset));
        batch_clear(&batch);
        dataset_close(dataset);
    }
}

/* Every run of all batches, as a sorted list. */
static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void all_runs(const struct plan *plan, struct text *out)
{
    struct dataset *dataset = open_split(plan, SPLIT_TRAIN);
    struct batch batch = { 0 };
    char *runs[64];
    size_t count = 0;

    for (uint64_t i = 0; dataset_batch(dataset, 3, i, 4, &batch); i++) {
        assert_int_equal(batch.offsets[0], 0);
        assert_int_equal(batch.offsets[batch.sequences], batch.rows);
        for (size_t run = 0; run < batch.sequences; run++) {
            struct text text;

            text_init(&text, 0);
            describe_run(&batch, run, &text);
            runs[count++] = text_detach(&text, NULL);
        }
    }
    qsort(runs, count, sizeof(runs[0]), compare_strings);
    text_reset(out);
    for (size_t i = 0; i < count; i++) {
        text_addf(out, "%s ", runs[i]);
        free(runs[i]);
    }
    batch_clear(&batch);
    dataset_close(dataset);
}

/* The same runs are read and learnt, packed or not: so their losses are the same. */
static void test_dataset_packed_is_plain(void **state)
{
    struct plan plan = new_plan("many.jsonl");
    struct text plain, packed;

    (void)state;
    put_records("many.jsonl", 26);
    text_init(&plain, 0);
    text_init(&packed, 0);
    all_runs(&plan, &plain);
    plan.packing = CHOICE_YES;
    all_runs(&plan, &packed);
    assert_string_equal(plain.data, packed.data);
    plan.packing = CHOICE_AUTO;
    plan.neat_packing = true;
    all_runs(&plan, &packed);
    assert_string_equal(plain.data, packed.data);
    text_clear(&plain);
    text_clear(&packed);
}

static void test_dataset_packed_rows_are_full(void **state)
{
    struct plan plan = new_plan("many.jsonl");
    struct dataset *dataset;

    (void)state;
    put_records("many.jsonl", 26);
    plan.packing = CHOICE_YES;
    dataset = open_split(&plan, SPLIT_TRAIN);
    /* 26 samples of 2 to 12 tokens, 175 in all, into rows of 64 */
    assert_int_equal(dataset_tokens(dataset), 175);
    assert_int_equal(dataset_samples(dataset), 3);
    assert_int_equal(dataset_longest(dataset), 64);
    dataset_close(dataset);
}

static void test_dataset_share_is_kept_for_evaluation(void **state)
{
    static const struct {
        double val_size;
        size_t eval;
    } cases[] = { { 0.1, 3 }, { 0.5, 13 }, { 5, 5 } };
    struct plan plan = new_plan("many.jsonl");

    (void)state;
    put_records("many.jsonl", 26);
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct dataset *train, *eval;
        char letters[64];
        size_t count;

        plan.val_size = cases[i].val_size;
        train = open_split(&plan, SPLIT_TRAIN);
        eval = open_split(&plan, SPLIT_EVAL);
        assert_int_equal(dataset_samples(eval), cases[i].eval);
        assert_int_equal(dataset_samples(train), 26 - cases[i].eval);
        epoch_letters(eval, 0, 4, letters);
        count = strlen(letters);
        for (size_t n = 1; n < count; n++) /* in the order of the file */
            assert_true(letters[n] > letters[n - 1]);
        epoch_letters(train, 0, 4, letters + count);
        qsort(letters, 26, 1, compare_bytes);
        assert_string_equal(letters, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        dataset_close(train);
        dataset_close(eval);
    }
}

static void test_dataset_eval_files_are_their_own(void **state)
{
    struct plan plan = new_plan("many.jsonl");
    struct dataset *eval;
    char letters[64];

    (void)state;
    put_records("many.jsonl", 26);
    put_records("few.jsonl", 3);
    plan.eval_dataset = "few.jsonl,few.jsonl";
    eval = open_split(&plan, SPLIT_EVAL);
    epoch_letters(eval, 9, 4, letters);
    assert_string_equal(letters, "ABCABC");
    dataset_close(eval);
    plan.max_samples = 2;
    eval = open_split(&plan, SPLIT_EVAL);
    epoch_letters(eval, 9, 4, letters);
    assert_string_equal(letters, "ABAB");
    dataset_close(eval);
}

/* The blocks of stage pt, joined. */
static void read_blocks(const struct plan *plan, enum split split, struct text *out)
{
    struct dataset *dataset = open_split(plan, split);
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
    struct plan plan = new_plan("docs.jsonl");
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

static void test_dataset_running_text_keeps_its_lines(void **state)
{
    struct plan plan = new_plan("play.txt");
    struct text got;

    (void)state;
    unit_write_string(dir, "play.txt", "To be\nor not\n");
    unit_write_string(dir, "dataset_info.json",
                      "{\"play\": {\"file_name\": \"play.txt\", "
                      "\"columns\": {\"prompt\": \"text\"}}}");
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
    plan.val_size = 1; /* a block of it is kept apart */
    read_blocks(&plan, SPLIT_EVAL, &got);
    assert_ptr_equal(strchr(got.data, '|'), got.data + got.len - 1);
    plan.val_size = 0;
    plan.dataset = "play"; /* a line is a document there */
    read_blocks(&plan, SPLIT_TRAIN, &got);
    assert_string_equal(got.data, "To be</s>o|");
    text_clear(&got);
}

static void test_dataset_begins_blocks_as_told(void **state)
{
    char *folder = unit_dir_new();
    struct tokenizer *all = tokenizer;
    struct plan plan = new_plan("docs.jsonl");
    struct error err = { 0 };
    struct text got;

    (void)state;
    unit_write_string(dir, "docs.jsonl", "{\"text\": \"abcdefg\"}\n");
    unit_tokenizer_write(folder, UNIT_SPECIALS, true);
    tokenizer = tokenizer_open(folder, &err);
    assert_true(tokenizer_adds_bos(tokenizer));
    plan.stage = STAGE_PT;
    plan.template_name = NULL;
    plan.cutoff_len = 4;
    plan.disable_shuffling = true;
    text_init(&got, 0);
    read_blocks(&plan, SPLIT_TRAIN, &got);
    assert_string_equal(got.data, "<s>bcd|<s>fg</s>|"); /* LLaMA-Factory's way */
    plan.packing = CHOICE_NO;
    read_blocks(&plan, SPLIT_TRAIN, &got);
    assert_string_equal(got.data, "<s>abc|");
    text_clear(&got);
    tokenizer_close(tokenizer);
    tokenizer = all;
    unit_dir_free(folder);
}

static void test_dataset_notes_what_is_left_out(void **state)
{
    struct plan plan = new_plan("mixed.jsonl");
    struct dataset *dataset;

    (void)state;
    unit_write_string(dir, "mixed.jsonl",
                      "{\"prompt\": \"q\", \"response\": \"a\"}\n"
                      "{\"prompt\": \"q\", \"response\": null}\n"
                      "{\"messages\": []}\n"
                      "{\"prompt\": \"q\", \"response\": null}\n");
    plan.template_name = NULL;
    dataset = open_split(&plan, SPLIT_TRAIN);
    assert_int_equal(dataset_samples(dataset), 1);
    assert_non_null(strstr(dataset_note(dataset, 0), "llama3"));
    assert_non_null(strstr(dataset_note(dataset, 1), "2 records without an answer are"));
    assert_non_null(strstr(dataset_note(dataset, 1), "mixed.jsonl:2"));
    assert_non_null(strstr(dataset_note(dataset, 2), "1 record whose roles"));
    assert_null(dataset_note(dataset, 3));
    dataset_close(dataset);
}

static void test_dataset_tells_file_and_line(void **state)
{
    static const struct {
        const char *data, *says;
        uint32_t line;
    } cases[] = {
        { "{\"prompt\": \"q\", \"response\": \"a\"}\n{\"prompt\": \"q\", \"resp",
          "not JSON", 2 },
        { "{\"prompt\": \"q\", \"response\": \"a\"}\n\n{\"prompt\": 3, \"response\": "
          "\"a\"}\n",
          "must be a string", 3 },
        { "{\"prompt\": \"q\xff\", \"response\": \"a\"}\n", "not JSON", 1 },
        { "{\"prompt\": \"q\\ud800\", \"response\": \"a\"}\n", "not JSON", 1 },
        { "{\"prompt\": \"q\", \"response\": NaN}\n", "not JSON", 1 },
        { "{\"prompt\": \"q\", \"prompt\": \"q\"}\n", "not JSON", 1 },
        { "{\"text\": \"q\"}\n", "stage: pt", 1 },
        { "\n\n", "no record that can be learnt", 0 },
        { "{\"messages\": []}\n", "no record that can be learnt", 0 },
    };
    struct plan plan = new_plan("bad.jsonl");

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };

        unit_write_string(dir, "bad.jsonl", cases[i].data);
        assert_null(dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].says);
        assert_int_equal(err.at.line, cases[i].line);
        if (cases[i].line)
            assert_true(text_ends(err.file, "/bad.jsonl"));
    }
}

static void test_dataset_refuses_a_job(void **state)
{
    struct plan plans[6];
    struct error err = { 0 };

    (void)state;
    put_records("few.jsonl", 3);
    for (size_t i = 0; i < TS_COUNT(plans); i++)
        plans[i] = new_plan("few.jsonl");
    plans[0].stage = STAGE_DISTILL;
    plans[1].template_name = "nobody";
    plans[2].mask_history = plans[2].train_on_prompt = true;
    plans[3].eval_dataset = "few.jsonl";
    plans[3].val_size = 0.5;
    plans[4].dataset = NULL;
    plans[5].cutoff_len = 1;
    for (size_t i = 0; i < TS_COUNT(plans); i++) {
        error_clear(&err);
        assert_null(dataset_open(&plans[i], SPLIT_TRAIN, tokenizer, &err));
        assert_int_equal(err.code, ERROR_JOB);
    }
    plans[0] = new_plan("few.jsonl");
    error_clear(&err);
    assert_null(dataset_open(&plans[0], SPLIT_EVAL, tokenizer, &err));
    assert_int_equal(err.code, ERROR_JOB);
    plans[0].val_size = 3;
    error_clear(&err);
    assert_null(dataset_open(&plans[0], SPLIT_TRAIN, tokenizer, &err));
    assert_non_null(strstr(err.text, "nothing to train on"));
}

/* Real files, as they are published. */
static void test_dataset_reads_what_is_published(void **state)
{
    static const struct {
        const char *name;
        enum stage stage;
        size_t samples;
    } cases[] = {
        { "alpaca_en_demo", STAGE_SFT, 999 },
        { "alpaca_zh_demo", STAGE_SFT, 1000 },
        { "identity", STAGE_SFT, 91 },
        { "glaive_toolcall_en_demo", STAGE_SFT, 109 },
        { "v1_sft_demo.jsonl", STAGE_SFT, 500 },
        { "c4_demo", STAGE_PT, 0 },
        { "wiki_demo,c4_demo.jsonl", STAGE_PT, 0 },
    };
    char *folder = unit_shared("data/datasets/llamafactory");

    (void)state;
    if (!folder)
        skip();
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = new_plan(cases[i].name);
        struct dataset *dataset;

        plan.dataset_dir = folder;
        plan.stage = cases[i].stage;
        plan.cutoff_len = 4096;
        dataset = open_split(&plan, SPLIT_TRAIN);
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
        cmocka_unit_test(test_dataset_batch_is_runs_without_padding),
        cmocka_unit_test(test_dataset_batch_has_weights),
        cmocka_unit_test(test_dataset_order_is_of_seed_and_epoch),
        cmocka_unit_test(test_dataset_windows_count_their_targets),
        cmocka_unit_test(test_dataset_max_is_never_passed),
        cmocka_unit_test(test_dataset_packed_is_plain),
        cmocka_unit_test(test_dataset_packed_rows_are_full),
        cmocka_unit_test(test_dataset_share_is_kept_for_evaluation),
        cmocka_unit_test(test_dataset_eval_files_are_their_own),
        cmocka_unit_test(test_dataset_text_is_cut_in_blocks),
        cmocka_unit_test(test_dataset_running_text_keeps_its_lines),
        cmocka_unit_test(test_dataset_begins_blocks_as_told),
        cmocka_unit_test(test_dataset_notes_what_is_left_out),
        cmocka_unit_test(test_dataset_tells_file_and_line),
        cmocka_unit_test(test_dataset_refuses_a_job),
        cmocka_unit_test(test_dataset_reads_what_is_published),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
