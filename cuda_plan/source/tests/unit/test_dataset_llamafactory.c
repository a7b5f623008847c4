/* tests/unit/test_dataset_llamafactory.c - its demonstration sets become the very tokens and
 * targets, in the very order, that LLaMA-Factory makes of them
 * (tests/golden/conversations.json, made by conversations.py beside it). */
#include "config.h"

#include "train/dataset.h"

#include "base/digest.h"
#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"

static const char *text_of(const json_t *one, const char *key)
{
    return json_string_value(json_object_get(one, key));
}

static struct plan plan_of(const json_t *one, const char *dir)
{
    static const char *const mixes[] = { "concat", "interleave_under", "interleave_over",
                                         "interleave_once" };
    const char *stage = text_of(one, "stage"), *mix = text_of(one, "mix_strategy");
    const json_t *cutoff = json_object_get(one, "cutoff_len");
    const json_t *packing = json_object_get(one, "packing");
    struct plan plan = {
        .stage = stage && strcmp(stage, "pt") == 0 ? STAGE_PT : STAGE_SFT,
        .dataset = text_of(one, "dataset"),
        .dataset_dir = dir,
        .template_name = text_of(one, "template"),
        .packing = packing && json_is_false(packing) ? CHOICE_NO : CHOICE_AUTO,
        .cutoff_len = cutoff ? json_integer_value(cutoff) : 2048,
        .train_on_prompt = json_is_true(json_object_get(one, "train_on_prompt")),
        .mask_history = json_is_true(json_object_get(one, "mask_history")),
        .val_size = json_number_value(json_object_get(one, "val_size")),
        .max_samples = json_integer_value(json_object_get(one, "max_samples")),
        .interleave_probs = text_of(one, "interleave_probs"),
        .disable_shuffling = true,
        .seed = 42,
        .data_seed = -1,
    };

    for (size_t i = 0; mix && i < TS_COUNT(mixes); i++)
        if (strcmp(mixes[i], mix) == 0)
            plan.mix_strategy = (enum mix_strategy)i;
    return plan;
}

static void expect_rows(const struct dataset *dataset, const json_t *one)
{
    struct digest *digest = digest_new();
    struct batch batch = { 0 };
    char got[DIGEST_TEXT];
    size_t tokens = 0, targets = 0;

    for (uint64_t i = 0; dataset_batch(dataset, 0, i, 1, &batch); i++) {
        for (size_t row = 0; row < batch.rows; row++) {
            const int32_t pair[] = { batch.tokens[row], batch.targets[row] };

            digest_add(digest, pair, sizeof(pair));
        }
        tokens += batch.rows;
        targets += batch.trained;
    }
    digest_end(digest, got);
    batch_clear(&batch);
    assert_int_equal(dataset_samples(dataset),
                     json_integer_value(json_object_get(one, "samples")));
    assert_int_equal(tokens, json_integer_value(json_object_get(one, "tokens")));
    assert_int_equal(targets, json_integer_value(json_object_get(one, "targets")));
    assert_string_equal(got, text_of(one, "sha256"));
}

static void test_dataset_is_llamafactorys(void **state)
{
    char *dir = unit_shared("data/datasets/llamafactory");
    char *folder = unit_shared("data/tokenizers/llama2");
    char *name = unit_source("tests/golden/conversations.json");
    struct error err = { 0 };
    struct tokenizer *tokenizer;
    json_t *golden, *one;
    size_t i;

    (void)state;
    if (!dir || !folder) {
        print_message("# SKIP LLaMA-Factory's demonstration sets are not here\n");
        skip();
    }
    golden = json_read_file(name, 1 << 20, &err);
    tokenizer = tokenizer_open(folder, &err);
    if (!golden || !tokenizer)
        fail_msg("%s", err.text);
    json_array_foreach(json_object_get(golden, "cases"), i, one)
    {
        struct plan plan = plan_of(one, dir);
        enum split split = text_of(one, "split") ? SPLIT_EVAL : SPLIT_TRAIN;
        struct dataset *dataset = dataset_open(&plan, split, tokenizer, &err);

        if (!dataset)
            fail_msg("case %zu: %s:%u: %s", i, err.file, err.at.line, err.text);
        print_message("# case %zu: %s, %s\n", i, plan.dataset, plan.template_name);
        expect_rows(dataset, one);
        dataset_close(dataset);
    }
    assert_true(i >= 18);
    tokenizer_close(tokenizer);
    json_decref(golden);
    free(name);
    free(folder);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_dataset_is_llamafactorys) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
