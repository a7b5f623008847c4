/* tests/unit/test_dataset_pair.c - the tokens of a pair: those of the conversations that
 * end in its answers, both truncated alike. */
#include "config.h"

#include "train/dataset/dataset_pair.h"

#include "base/size.h"
#include "tests/unit/unit_dataset.h"
#include "train/chat/chat.h"

static struct plan plan_of(const char *dataset)
{
    struct plan plan = unit_dataset_plan(dataset);

    plan.stage = STAGE_DPO;
    plan.disable_shuffling = true;
    return plan;
}

/* One pair of this many letters q, c and r. */
static void put_long(int question, int chosen, int rejected)
{
    static const char many[][128] = {
        "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq",
        "cccccccccccccccccccccccccccccccccccccccc",
        "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr",
    };
    struct text file;

    text_init(&file, 0);
    text_addf(&file,
              "{\"prompt\": \"%.*s\", \"chosen\": \"%.*s\", \"rejected\": \"%.*s\"}\n",
              question, many[0], chosen, many[1], rejected, many[2]);
    unit_write(dir, "cut.jsonl", &file);
    text_clear(&file);
}

static void expect_sequences(const struct dataset *dataset, size_t index,
                             const char *const texts[2])
{
    struct batch batch = { 0 };
    struct text got;

    text_init(&got, 0);
    assert_true(dataset_batch(dataset, 0, 0, 1, &batch));
    for (size_t side = 0; side < 2; side++) {
        unit_dataset_run(&batch, side, &got);
        if (strcmp(got.data, texts[side]) != 0)
            fail_msg("case %zu: %s, not %s", index, got.data, texts[side]);
    }
    text_clear(&got);
    batch_clear(&batch);
}

/* As in infer_seqlen: the longer answer is kept whole if it takes less than half of the
 * space; otherwise the question is, if it takes less than half; otherwise both are
 * truncated in proportion. */
static void test_dataset_pair_is_truncated_alike(void **state)
{
    static const struct {
        const char *name; /* of the template */
        int question, chosen, rejected, cutoff;
        const char *texts[2]; /* NULL: skipped */
    } cases[] = {
        { "empty", 4, 3, 2, 10, { "qqqqccc>ccc", "qqqqrr>rr" } },
        { "empty", 20, 3, 2, 10, { "qqqqqqqccc>ccc", "qqqqqqqrr>rr" } },
        { "empty", 20, 2, 3, 10, { "qqqqqqqcc>cc", "qqqqqqqrrr>rrr" } },
        { "empty", 4, 12, 2, 10, { "qqqqcccccc>cccccc", "qqqqrr>rr" } },
        /* 10 * 20 / 40 = 5 */
        { "empty", 20, 20, 1, 10, { "qqqqqccccc>ccccc", "qqqqqr>r" } },
        /* 12 * 30 / 51 = 7.06, 2 * 0.9 = 1.8, 8 * 5 / 35 = 1.14 and 8 * 5 / 105 = 0.38 */
        { "empty", 21, 6, 30, 12, { "qqqqqcccccc>cccccc", "qqqqqrrrrrrr>rrrrrrr" } },
        { "empty", 1, 9, 9, 2, { "qc>c", "qr>r" } },
        { "empty", 30, 5, 5, 8, { "qqqqqqqc>c", "qqqqqqqr>r" } },
        { "empty", 100, 5, 5, 8, { NULL, NULL } },
        /* a first token has no token before it */
        { "empty", 0, 2, 3, 10, { "cc>c", "rrr>rr" } },
        { "empty", 0, 1, 3, 10, { NULL, NULL } },
        /* the end of a text is part of the answer, and truncated with it */
        { "fewshot",
          4,
          3,
          12,
          10,
          { "qqqqccc\n\n\001>ccc\n\n\001", "qqqqrrrrrr>rrrrrr" } },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = plan_of("cut.jsonl");
        struct error err = { 0 };
        struct dataset *dataset;

        put_long(cases[i].question, cases[i].chosen, cases[i].rejected);
        plan.cutoff_len = cases[i].cutoff;
        plan.template_name = cases[i].name;
        dataset = dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err);
        assert_int_equal(dataset != NULL, cases[i].texts[0] != NULL);
        if (dataset)
            expect_sequences(dataset, i, cases[i].texts);
        else
            assert_non_null(strstr(err.text,
                                   "1 record with no token left to train on in an "
                                   "answer (cutoff_len is too short) is left out"));
        dataset_close(dataset);
    }
}

/* Conversations, to which both answers belong. */
static const char *const conversations[] = {
    "{\"role\": \"user\", \"content\": \"What is 1 + 2?\"}",
    "{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", "
    "\"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": "
    "\"<think>\\nhm\\n</think>\\n\\nHello\"}, {\"role\": \"user\", \"content\": \"What "
    "is 1 + 2?\"}",
};

static void put_conversations(void)
{
    static const char *const answers[] = { "Three.", "<think>\\nwell\\n</think>\\n\\n4" };
    struct text pairs, singles;

    text_init(&pairs, 0);
    text_init(&singles, 0);
    for (size_t i = 0; i < TS_COUNT(conversations); i++) {
        text_addf(&pairs, "{\"messages\": [%s]", conversations[i]);
        for (size_t side = 0; side < 2; side++) {
            text_addf(&pairs, ", \"%s\": {\"role\": \"assistant\", \"content\": \"%s\"}",
                      side == 0 ? "chosen" : "rejected", answers[side]);
            text_addf(
                &singles,
                "{\"messages\": [%s, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n",
                conversations[i], answers[side]);
        }
        text_adds(&pairs, "}\n");
    }
    unit_write(dir, "pairs.jsonl", &pairs);
    unit_write(dir, "singles.jsonl", &singles);
    text_clear(&pairs);
    text_clear(&singles);
}

static struct dataset *open_with(const struct plan *plan, const struct tokenizer *with)
{
    struct error err = { 0 };
    struct dataset *dataset = dataset_open(plan, SPLIT_TRAIN, with, &err);

    if (!dataset)
        fail_msg("%s:%u: %s", err.file, err.at.line, err.text);
    return dataset;
}

/* Expect the same tokens; also the same targets, except where the end of a text is not
 * part of earlier answers. */
static void expect_same(const struct plan *plan, const struct plan *single,
                        const struct tokenizer *with, bool targets)
{
    struct dataset *pairs = open_with(plan, with), *singles = open_with(single, with);
    struct batch got = { 0 }, expected = { 0 };

    assert_true(dataset_batch(pairs, 0, 0, TS_COUNT(conversations), &got));
    assert_true(dataset_batch(singles, 0, 0, 2 * TS_COUNT(conversations), &expected));
    assert_int_equal(got.sequences, expected.sequences);
    assert_memory_equal(got.offsets, expected.offsets,
                        (got.sequences + 1) * sizeof(int32_t));
    assert_memory_equal(got.tokens, expected.tokens, got.rows * sizeof(int32_t));
    assert_memory_equal(got.positions, expected.positions, got.rows * sizeof(int32_t));
    if (targets)
        assert_memory_equal(got.targets, expected.targets, got.rows * sizeof(int32_t));
    batch_clear(&got);
    batch_clear(&expected);
    dataset_close(singles);
    dataset_close(pairs);
}

/* Without truncation, each answer equals stage sft's result for the conversation that
 * ends in it. */
static void test_dataset_pair_matches_two_conversations_of_sft(void **state)
{
    static const struct {
        const char *name;
        bool targets;
    } templates[] = { { "empty", true },  { "default", true }, { "chatml", true },
                      { "llama2", true }, { "llama3", true },  { "qwen3", true },
                      { "alpaca", false } };
    struct plan plan = plan_of("pairs.jsonl"),
                single = unit_dataset_plan("singles.jsonl");

    (void)state;
    put_conversations();
    single.disable_shuffling = single.mask_history = true;
    plan.cutoff_len = single.cutoff_len = 1000;
    plan.train_on_prompt = true; /* has no effect */
    for (size_t i = 0; i < 2 * TS_COUNT(templates); i++) {
        plan.template_name = single.template_name = templates[i / 2].name;
        plan.enable_thinking = single.enable_thinking = i % 2 == 0;
        expect_same(&plan, &single, tokenizer, templates[i / 2].targets);
    }
}

static void test_dataset_pair_is_written_by_the_models_template(void **state)
{
    struct plan plan = plan_of("pairs.jsonl"),
                single = unit_dataset_plan("singles.jsonl");
    char *folder = unit_dir_new();
    struct error err = { 0 };
    struct tokenizer *own;

    (void)state;
    put_conversations();
    unit_tokenizer_write(folder, UNIT_SPECIALS, false);
    unit_write_string(
        folder, "chat_template.jinja",
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor "
        "%}{% if add_generation_prompt %}[assistant]{% endif %}");
    own = chat_tokenizer_open(folder, &err);
    if (!own)
        fail_msg("%s", err.text);
    single.disable_shuffling = single.mask_history = true;
    plan.cutoff_len = single.cutoff_len = 1000;
    plan.template_name = single.template_name = NULL;
    expect_same(&plan, &single, own, true);
    tokenizer_close(own);
    unit_dir_free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_pair_is_truncated_alike),
        cmocka_unit_test(test_dataset_pair_matches_two_conversations_of_sft),
        cmocka_unit_test(test_dataset_pair_is_written_by_the_models_template),
    };

    return cmocka_run_group_tests(tests, unit_dataset_start, unit_dataset_stop);
}
