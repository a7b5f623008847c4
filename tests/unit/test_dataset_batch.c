/* tests/unit/test_dataset_batch.c - rows as batches: sequences, positions, targets,
 * weights, order, packing without leaks. */
#include "config.h"

#include "train/dataset/dataset.h"

#include "base/size.h"
#include "tests/unit/unit_dataset.h"

static void test_dataset_batch_is_sequences_without_padding(void **state)
{
    struct plan plan = unit_dataset_plan("few.jsonl");
    struct batch batch = { 0 };
    struct dataset *dataset;
    struct text got;

    (void)state;
    unit_dataset_records("few.jsonl", 3);
    plan.disable_shuffling = true;
    dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
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
    unit_dataset_run(&batch, 0, &got);
    assert_string_equal(got.data, "qA>A");
    unit_dataset_run(&batch, 1, &got);
    assert_string_equal(got.data, "qqBb>Bb");
    assert_true(dataset_batch(dataset, 0, 1, 2, &batch));
    assert_int_equal(batch.sequences, 1);
    unit_dataset_run(&batch, 0, &got);
    assert_string_equal(got.data, "qqqCbb>Cbb");
    assert_false(dataset_batch(dataset, 0, 2, 2, &batch));
    text_clear(&got);
    batch_clear(&batch);
    dataset_close(dataset);
}

/* A weight in the data appears in the batch; without one, the batch has no list. */
static void test_dataset_batch_has_weights(void **state)
{
    struct plan plan = unit_dataset_plan("plain.jsonl");
    struct batch batch = { 0 };
    struct dataset *dataset;

    (void)state;
    unit_dataset_records("plain.jsonl", 3);
    unit_write_string(dir, "weighted.jsonl",
                      "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, "
                      "{\"role\": \"assistant\", \"content\": \"ab\", \"loss_weight\": "
                      "0.5},{\"role\": \"user\", \"content\": \"r\"}, {\"role\": "
                      "\"assistant\", \"content\": \"c\", \"loss_weight\": 4}]}\n");
    dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
    assert_true(dataset_batch(dataset, 0, 0, 3, &batch));
    assert_null(batch.weights);
    assert_true(batch.weight == (double)batch.trained);
    assert_true(dataset_weight(dataset, 0, 0, 1, 3) == batch.weight);
    dataset_close(dataset);
    plan.dataset = "weighted.jsonl";
    dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
    /* the memory is already allocated */
    assert_true(dataset_batch(dataset, 0, 0, 3, &batch));
    assert_int_equal(batch.rows, 5);
    assert_memory_equal(batch.weights, ((float[]) { 0.5f, 0.5f, 0, 4, 0 }),
                        5 * sizeof(float));
    assert_int_equal(batch.trained, 3);
    assert_true(batch.weight == 5 && dataset_weight(dataset, 0, 0, 1, 3) == 5);
    dataset_close(dataset);
    batch_clear(&batch);
}

/* If the end of a text follows only the last answer, the earlier ones are trained to end
 * with it, at the position of the next question's first token (LLaMA-Factory's
 * efficient_eos). */
static void test_dataset_batch_ends_each_answer(void **state)
{
    static const struct {
        bool train_on_prompt, mask_history;
        int32_t targets[10];
        float weights[10];
    } rows[] = {
        { false,
          false,
          { 'a', 'b', '\n', '\n', UNIT_EOS, 'c', '\n', '\n', UNIT_EOS, LABEL_NONE },
          { 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 4, 4, 4, 1, 0 } },
        { true,
          false,
          { 'a', 'b', '\n', '\n', 'r', 'c', '\n', '\n', UNIT_EOS, LABEL_NONE },
          { 0.5f, 0.5f, 0.5f, 0.5f, 1, 4, 4, 4, 1, 0 } },
        { false,
          true,
          { LABEL_NONE, LABEL_NONE, LABEL_NONE, LABEL_NONE, LABEL_NONE, 'c', '\n', '\n',
            UNIT_EOS, LABEL_NONE },
          { 0, 0, 0, 0, 0, 4, 4, 4, 1, 0 } },
    };
    struct plan plan = unit_dataset_plan("turns.jsonl");
    struct dataset_question question;
    struct batch batch = { 0 };

    (void)state;
    unit_write_string(dir, "turns.jsonl",
                      "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, "
                      "{\"role\": \"assistant\", \"content\": \"ab\", \"loss_weight\": "
                      "0.5},{\"role\": \"user\", \"content\": \"r\"}, {\"role\": "
                      "\"assistant\", \"content\": \"c\", \"loss_weight\": 4}]}\n");
    plan.template_name = "fewshot";
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct dataset *dataset;
        double weight = 0;

        plan.train_on_prompt = rows[i].train_on_prompt;
        plan.mask_history = rows[i].mask_history;
        dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
        assert_true(dataset_batch(dataset, 0, 0, 1, &batch));
        assert_int_equal(batch.rows, 10);
        assert_memory_equal(batch.targets, rows[i].targets, sizeof(rows[i].targets));
        assert_memory_equal(batch.weights, rows[i].weights, sizeof(rows[i].weights));
        for (size_t row = 0; row < 10; row++)
            weight += (double)rows[i].weights[row];
        assert_true(batch.weight == weight);
        assert_true(dataset_question(dataset, 0, &question) == !plan.train_on_prompt);
        assert_true(plan.train_on_prompt ||
                    (question.question_len == 6 && question.count == 10));
        dataset_close(dataset);
    }
    batch_clear(&batch);
}

static void test_dataset_batch_order_depends_on_seed_and_epoch(void **state)
{
    struct plan plan = unit_dataset_plan("many.jsonl");
    char first[32], second[32], again[32], other[32];
    struct dataset *dataset;

    (void)state;
    unit_dataset_records("many.jsonl", 26);
    dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
    unit_dataset_letters(dataset, 0, 4, first);
    unit_dataset_letters(dataset, 1, 4, second);
    unit_dataset_letters(dataset, 0, 7, again);
    assert_string_equal(first, again);
    assert_string_not_equal(first, second);
    dataset_close(dataset);
    plan.data_seed = 43;
    dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
    unit_dataset_letters(dataset, 0, 4, other);
    assert_string_not_equal(first, other);
    dataset_close(dataset);
    assert_string_not_equal(first, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    qsort(first, 26, 1, unit_dataset_by_letter);
    qsort(second, 26, 1, unit_dataset_by_letter);
    assert_string_equal(first, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    assert_string_equal(second, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

static void test_dataset_batch_windows_count_their_targets(void **state)
{
    struct plan plan = unit_dataset_plan("many.jsonl");
    struct batch batch = { 0 };
    struct dataset *dataset;

    (void)state;
    unit_dataset_records("many.jsonl", 26);
    dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
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
    dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
    assert_int_equal(dataset_batches(dataset, 4), 6);
    assert_false(dataset_batch(dataset, 0, 6, 4, &batch));
    dataset_close(dataset);
}

static void test_dataset_batch_max_is_never_exceeded(void **state)
{
    struct plan plan = unit_dataset_plan("many.jsonl");

    (void)state;
    unit_dataset_records("many.jsonl", 26);
    for (int packed = 0; packed < 2; packed++) {
        struct batch batch = { 0 };
        struct dataset *dataset;
        size_t rows = 0, sequences = 0;

        plan.packing = packed ? CHOICE_YES : CHOICE_NO;
        plan.cutoff_len = 20;
        dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
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

/* Every sequence of all batches, as a sorted list. */
static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void all_sequences(const struct plan *plan, struct text *out)
{
    struct dataset *dataset = unit_dataset_open(plan, SPLIT_TRAIN);
    struct batch batch = { 0 };
    char *runs[64];
    size_t count = 0;

    for (uint64_t i = 0; dataset_batch(dataset, 3, i, 4, &batch); i++) {
        assert_int_equal(batch.offsets[0], 0);
        assert_int_equal(batch.offsets[batch.sequences], batch.rows);
        for (size_t run = 0; run < batch.sequences; run++) {
            struct text text;

            text_init(&text, 0);
            unit_dataset_run(&batch, run, &text);
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

/* Packed or not, the same sequences are read with the same targets, so their losses are
 * the same. */
static void test_dataset_batch_packed_equals_unpacked(void **state)
{
    struct plan plan = unit_dataset_plan("many.jsonl");
    struct text plain, packed;

    (void)state;
    unit_dataset_records("many.jsonl", 26);
    text_init(&plain, 0);
    text_init(&packed, 0);
    all_sequences(&plan, &plain);
    plan.packing = CHOICE_YES;
    all_sequences(&plan, &packed);
    assert_string_equal(plain.data, packed.data);
    plan.packing = CHOICE_AUTO;
    plan.neat_packing = true;
    all_sequences(&plan, &packed);
    assert_string_equal(plain.data, packed.data);
    text_clear(&plain);
    text_clear(&packed);
}

static void test_dataset_batch_packed_rows_are_full(void **state)
{
    struct plan plan = unit_dataset_plan("many.jsonl");
    struct dataset *dataset;

    (void)state;
    unit_dataset_records("many.jsonl", 26);
    plan.packing = CHOICE_YES;
    dataset = unit_dataset_open(&plan, SPLIT_TRAIN);
    /* 26 samples of 2 to 12 tokens, 175 in all, into rows of 64 */
    assert_int_equal(dataset_tokens(dataset), 175);
    assert_int_equal(dataset_samples(dataset), 3);
    assert_int_equal(dataset_longest(dataset), 64);
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_batch_is_sequences_without_padding),
        cmocka_unit_test(test_dataset_batch_has_weights),
        cmocka_unit_test(test_dataset_batch_ends_each_answer),
        cmocka_unit_test(test_dataset_batch_order_depends_on_seed_and_epoch),
        cmocka_unit_test(test_dataset_batch_windows_count_their_targets),
        cmocka_unit_test(test_dataset_batch_max_is_never_exceeded),
        cmocka_unit_test(test_dataset_batch_packed_equals_unpacked),
        cmocka_unit_test(test_dataset_batch_packed_rows_are_full),
    };

    return cmocka_run_group_tests(tests, unit_dataset_start, unit_dataset_stop);
}
