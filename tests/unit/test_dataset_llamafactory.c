/* tests/unit/test_dataset_llamafactory.c - the demonstration datasets give the same
 * tokens and targets in the same order as LLaMA-Factory (tests/golden/conversations.json
 * and pairs.json, each made by the script of the same name). */
#include "config.h"

#include "train/dataset/dataset.h"

#include "base/digest.h"
#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"
#include "train/chat/chat.h"

static const char *text_of(const json_t *one, const char *key)
{
    return json_string_value(json_object_get(one, key));
}

static enum stage stage_of(const json_t *one)
{
    const char *stage = text_of(one, "stage");

    if (!stage)
        return STAGE_SFT;
    return strcmp(stage, "pt") == 0 ? STAGE_PT : STAGE_DPO;
}

static struct plan plan_of(const json_t *one, const char *dir)
{
    static const char *const mixes[] = { "concat", "interleave_under", "interleave_over",
                                         "interleave_once" };
    const char *mix = text_of(one, "mix_strategy");
    const json_t *cutoff = json_object_get(one, "cutoff_len");
    const json_t *packing = json_object_get(one, "packing");
    struct plan plan = {
        .stage = stage_of(one),
        .dataset = text_of(one, "dataset"),
        .dataset_dir = dir,
        .template_name = text_of(one, "template"),
        .packing = packing && json_is_false(packing) ? CHOICE_NO : CHOICE_AUTO,
        .cutoff_len = cutoff ? json_integer_value(cutoff) : 2048,
        .train_on_prompt = json_is_true(json_object_get(one, "train_on_prompt")),
        .mask_history = json_is_true(json_object_get(one, "mask_history")),
        .enable_thinking = !json_is_false(json_object_get(one, "enable_thinking")),
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

/* The tokenizer of the cases. */
#define TOKENIZER "data/tokenizers/llama2"
#define SETS      "data/datasets/llamafactory"

struct setting {
    char *dir; /* of the demonstration datasets */
    struct tokenizer *tokenizer;
    json_t *golden;
};

static void set_up(struct setting *setting, const char *golden)
{
    char *folder, *name;
    struct error err = { 0 };

    unit_need_shared(TOKENIZER);
    unit_need_shared(SETS);
    folder = unit_shared(TOKENIZER);
    name = unit_source(golden);
    setting->dir = unit_shared(SETS);
    setting->golden = json_read_file(name, 1 << 20, &err);
    setting->tokenizer = chat_tokenizer_open(folder, &err);
    if (!setting->golden || !setting->tokenizer)
        fail_msg("%s", err.text);
    free(name);
    free(folder);
}

static void tear_down(struct setting *setting)
{
    tokenizer_close(setting->tokenizer);
    json_decref(setting->golden);
    free(setting->dir);
}

static void expect_case(const struct setting *setting, const json_t *one, size_t index,
                        const char *dir)
{
    struct plan plan = plan_of(one, dir);
    enum split split = text_of(one, "split") ? SPLIT_EVAL : SPLIT_TRAIN;
    struct error err = { 0 };
    struct dataset *dataset = dataset_open(&plan, split, setting->tokenizer, &err);

    if (!dataset)
        fail_msg("case %zu: %s:%u: %s", index, err.file, err.at.line, err.text);
    print_message("# case %zu: %s, %s\n", index, plan.dataset, plan.template_name);
    expect_rows(dataset, one);
    dataset_close(dataset);
}

static void test_dataset_matches_llamafactory(void **state)
{
    struct setting setting = { 0 };
    json_t *one;
    size_t i;

    (void)state;
    set_up(&setting, "tests/golden/conversations.json");
    json_array_foreach(json_object_get(setting.golden, "cases"), i, one)
        expect_case(&setting, one, i, setting.dir);
    assert_true(i >= 18);
    tear_down(&setting);
}

static void write_json(const char *dir, const char *name, const json_t *json)
{
    struct text text;

    text_init(&text, 0);
    json_write(json, &text);
    unit_write(dir, name, &text);
    text_clear(&text);
}

/* Write the datasets of the golden file to a directory. */
static void write_sets(const char *dir, const json_t *sets)
{
    json_t *info = json_object(), *one;
    const char *name;

    json_object_foreach((json_t *)(uintptr_t)sets, name, one)
    {
        json_object_set(info, name, json_object_get(one, "info"));
        write_json(dir, text_of(json_object_get(one, "info"), "file_name"),
                   json_object_get(one, "records"));
    }
    write_json(dir, "dataset_info.json", info);
    json_decref(info);
}

static void test_dataset_pairs_match_llamafactory(void **state)
{
    struct setting setting = { 0 };
    const json_t *sets;
    json_t *one;
    char *own;
    size_t i;

    (void)state;
    set_up(&setting, "tests/golden/pairs.json");
    own = unit_dir_new();
    sets = json_object_get(setting.golden, "sets");
    write_sets(own, sets);
    json_array_foreach(json_object_get(setting.golden, "cases"), i, one)
        expect_case(&setting, one, i,
                    json_object_get(sets, text_of(one, "dataset")) ? own : setting.dir);
    assert_true(i >= 12);
    unit_dir_free(own);
    tear_down(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_matches_llamafactory),
        cmocka_unit_test(test_dataset_pairs_match_llamafactory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
