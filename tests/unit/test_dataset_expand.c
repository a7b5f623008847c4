/* tests/unit/test_dataset_expand.c - placeholders and media of records: forms, what does
 * not match, what is cut, and what is packed. */
#include "config.h"

#include "train/dataset/dataset.h"

#include "base/size.h"
#include "tests/unit/unit_media_data.h"
#include "train/chat/template.h"

#define QWEN "{\"model_type\": \"qwen2_vl\"}"

static char *dir, *features;
static struct tokenizer *tokenizer;

static int start(void **state)
{
    static const struct unit_feature list[] = { { "a.png", 6, { 1, 4, 6 } },
                                                { "b.png", 1, { 1, 2, 2 } },
                                                { "s.wav", 3, { 0 } },
                                                { "odd.png", 5, { 1, 4, 6 } } };

    (void)state;
    dir = unit_dir_new();
    tokenizer = unit_media_model(dir, QWEN);
    unit_features_write(dir, "features.safetensors", list, TS_COUNT(list));
    features = path_join(dir, "features.safetensors");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    unit_dir_free(dir);
    free(features);
    return 0;
}

static struct plan plan_of(const char *dataset)
{
    return (struct plan) {
        .stage = STAGE_SFT,
        .model_name_or_path = dir,
        .dataset = dataset,
        .dataset_dir = dir,
        .features = features,
        .template_name = "qwen2_vl",
        .packing = CHOICE_AUTO,
        .cutoff_len = 1000,
        .disable_shuffling = true,
        .data_seed = -1,
    };
}

static struct dataset *open_plan(const struct plan *plan)
{
    struct error err = { 0 };
    struct dataset *dataset = dataset_open(plan, SPLIT_TRAIN, tokenizer, &err);

    if (!dataset)
        fail_msg("%s:%u: %s", err.file, err.at.line, err.text);
    return dataset;
}

/* A record of the form of `content`, with an answer. */
static void write_record(const char *content, const char *columns)
{
    struct text text;

    text_init(&text, 0);
    text_addf(&text,
              "{\"messages\": [{\"role\": \"user\", \"content\": %s}, {\"role\": "
              "\"assistant\", \"content\": \"A.\"}]%s}\n",
              content, columns);
    unit_write(dir, "data.jsonl", &text);
    text_clear(&text);
}

/* The text of the first question, without the template's. */
static void expect_question(const struct plan *plan, const char *expected)
{
    static const char head[] = "user\n", tail[] = "<|im_end|>\n<|im_start|>assistant";
    struct dataset *dataset = open_plan(plan);
    struct batch batch = { 0 };
    struct text got;
    char *from, *to;

    text_init(&got, 0);
    assert_true(dataset_batch(dataset, 0, 0, 1, &batch));
    unit_media_describe(&batch, &got);
    from = strstr(got.data, head);
    assert_non_null(from);
    from += strlen(head);
    to = strstr(from, tail);
    assert_non_null(to);
    *to = 0;
    assert_string_equal(from, expected);
    text_clear(&got);
    batch_clear(&batch);
    dataset_close(dataset);
}

#define IMAGE(rows) "<|vision_start|><|image_pad|>" rows "<|vision_end|>"

static void test_dataset_expand_reads_all_forms(void **state)
{
    static const struct {
        const char *content, *columns, *expected;
    } cases[] = {
        { "\"<image>x<image>\"", ", \"images\": [\"a.png\", \"b.png\"]",
          IMAGE("*6") "x" IMAGE("") },
        { "\"x<image>\"", ", \"image\": \"a.png\"", "x" IMAGE("*6") },
        { "\"x<image>\"", ", \"image\": {\"path\": \"a.png\", \"bytes\": null}",
          "x" IMAGE("*6") },
        { "\"x <image\"", ", \"images\": []", "x <image" },
        { "\"x\"", ", \"images\": null", "x" },
        { "[{\"type\": \"image\", \"image\": \"b.png\"}, {\"type\": \"text\", \"text\": "
          "\"x\"}, {\"type\": \"image_url\", \"image_url\": {\"url\": \"a.png\"}}]",
          "", IMAGE("") "x" IMAGE("*6") },
        { "[{\"type\": \"image_url\", \"value\": \"b.png\"}, {\"type\": \"text\", "
          "\"value\": \"x\"}]",
          "", IMAGE("") "x" },
        { "[{\"type\": \"image\", \"path\": \"b.png\"}, {\"type\": \"image\"}]",
          ", \"images\": [\"a.png\"]", IMAGE("") IMAGE("*6") },
        /* a text in a list may have placeholders of the column */
        { "[{\"type\": \"text\", \"text\": \"<image>x\"}, {\"type\": \"image\", \"url\": "
          "\"b.png\"}]",
          ", \"images\": [\"a.png\"]", IMAGE("*6") "x" IMAGE("") },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = plan_of("data.jsonl");

        print_message("# form %zu\n", i);
        write_record(cases[i].content, cases[i].columns);
        expect_question(&plan, cases[i].expected);
    }
}

static void expect_error(const struct plan *plan, const char *says)
{
    struct error err = { 0 };
    struct dataset *dataset = dataset_open(plan, SPLIT_TRAIN, tokenizer, &err);

    if (dataset)
        fail_msg("not refused: %s", says);
    assert_int_equal(err.code, ERROR_DATA);
    if (!strstr(err.text, says))
        fail_msg("%s, not: %s", err.text, says);
}

static void test_dataset_expand_refuses_what_does_not_match(void **state)
{
    static const struct {
        const char *content, *columns, *says;
    } cases[] = {
        { "\"<image>\"", ", \"images\": [\"a.png\", \"b.png\"]",
          "has 2 images for 1 <image> in its messages; add or remove" },
        { "\"<image><image>\"", ", \"images\": [\"a.png\"]",
          "has 1 image for 2 <image> in its messages" },
        { "\"<image>\"", "", "which stands for an image, and the record has none" },
        { "\"<audio>\"", "", "the messages have <audio>, which stands for a sound" },
        { "\"<video>\"", "", "the messages have <video>, and videos are not supported" },
        { "\"x<|image_pad|>\"", "", "the text has <|image_pad|> itself" },
        { "\"<image>\"", ", \"images\": [\"none.png\"]",
          "features.safetensors has no rows for \"none.png\"" },
        { "\"<image>\"", ", \"images\": [\"odd.png\"]",
          "\"odd.png\" has 5 rows, and its grid of 1 x 4 x 6 patches gives 6" },
        { "\"<image>\"", ", \"images\": [\"s.wav\"]", "has no tensor \"s.wav#grid\"" },
        { "\"<audio>\"", ", \"audios\": [\"s.wav\"]",
          "sounds, and trainspool cannot give those to a model of model_type qwen2_vl" },
        { "[{\"type\": \"image\", \"url\": \"a.png\"}, {\"type\": \"image\"}]", "",
          "has 1 image for 2 <image> in its messages" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = plan_of("data.jsonl");

        write_record(cases[i].content, cases[i].columns);
        expect_error(&plan, cases[i].says);
    }
}

/* The position is that of the record. */
static void test_dataset_expand_errors_have_a_position(void **state)
{
    struct plan plan = plan_of("data.jsonl");
    struct error err = { 0 };

    (void)state;
    unit_write_string(dir, "data.jsonl",
                      "{\"instruction\": \"q\", \"output\": \"a\"}\n"
                      "{\"instruction\": \"<image>\", \"output\": \"a\"}\n");
    assert_null(dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err));
    assert_int_equal(err.at.line, 2);
    assert_non_null(strstr(err.file, "data.jsonl"));
}

static void test_dataset_expand_depends_on_the_template(void **state)
{
    struct plan plan = plan_of("data.jsonl");

    (void)state;
    write_record("\"<image>\"", ", \"images\": [\"a.png\"]");
    plan.template_name = "qwen";
    expect_error(&plan,
                 "the template qwen has no token for images; use template: qwen2_vl");
    plan.template_name = "llava";
    expect_error(&plan, "the template llava writes <image> for an image, and the model "
                        "reads <|image_pad|>; use template: qwen2_vl");
    write_record("\"<image>\"", ""); /* a text for a template of texts */
    plan.template_name = "qwen";
    expect_question(&plan, "<image>");
}

/* transformers looks for the token of config.json. */
static void test_dataset_expand_requires_the_models_token(void **state)
{
    struct plan plan = plan_of("data.jsonl");

    (void)state;
    write_record("\"<image>\"", ", \"images\": [\"a.png\"]");
    unit_write_string(dir, "config.json",
                      "{\"model_type\": \"qwen2_vl\", \"image_token_id\": 268}");
    expect_question(&plan, IMAGE("*6"));
    unit_write_string(dir, "config.json",
                      "{\"model_type\": \"qwen2_vl\", \"image_token_id\": 7}");
    expect_error(&plan, "reads images at token 7, and <|image_pad|> is token 268");
    unit_write_string(dir, "config.json",
                      "{\"model_type\": \"internvl\", \"image_token_index\": 7}");
    plan.template_name = "intern_vl";
    expect_error(&plan, "at token 7, and <IMG_CONTEXT> is token 284");
    unit_write_string(dir, "config.json", QWEN);
}

/* A record whose cut would lose a part of a medium is left out. */
static void test_dataset_expand_keeps_media_whole(void **state)
{
    static const char two[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"<image>\"}, {\"role\": "
        "\"assistant\", \"content\": \"A\"}, {\"role\": \"user\", \"content\": "
        "\"x<image>\"}, {\"role\": \"assistant\", \"content\": \"B\"}], \"images\": "
        "[\"a.png\", \"a.png\"]}\n{\"instruction\": \"q\", \"output\": \"a\"}\n";
    struct plan plan = plan_of("data.jsonl");
    size_t kept = 0, left_out = 0, first = 0;

    (void)state;
    unit_write_string(dir, "data.jsonl", two);
    for (plan.cutoff_len = 20; plan.cutoff_len <= 130; plan.cutoff_len++) {
        struct dataset *dataset = open_plan(&plan);
        struct batch batch = { 0 };
        bool whole;

        assert_true(dataset_batch(dataset, 0, 0, 1, &batch));
        whole = batch.media_count > 0;
        assert_int_equal(batch.media_rows, 6 * batch.media_count);
        assert_int_equal(dataset_samples(dataset), whole ? 2 : 1);
        if (!whole && !strstr(dataset_note(dataset, 0),
                              "1 record whose media do not fit in cutoff_len tokens with "
                              "their text is left out; the first is at "))
            fail_msg("%s", dataset_note(dataset, 0));
        kept += batch.media_count == 2;
        first += batch.media_count == 1;
        left_out += !whole;
        batch_clear(&batch);
        dataset_close(dataset);
    }
    assert_true(kept > 0 && first > 0 && left_out > 0);
}

static void test_dataset_expand_packs_and_shares_media(void **state)
{
    static const char data[] =
        "{\"instruction\": \"<image>\", \"output\": \"a\", \"images\": [\"a.png\"]}\n"
        "{\"instruction\": \"q\", \"output\": \"a\"}\n"
        "{\"instruction\": \"<image> <image>\", \"output\": \"a\", \"images\": "
        "[\"b.png\", \"a.png\"]}\n";
    struct plan plan = plan_of("data.jsonl");
    struct batch batch = { 0 };
    struct dataset *dataset;

    (void)state;
    unit_write_string(dir, "data.jsonl", data);
    plan.packing = CHOICE_YES;
    dataset = open_plan(&plan);
    assert_int_equal(dataset_samples(dataset), 1);
    assert_int_equal(dataset_media(dataset), 2);
    assert_int_equal(dataset_media_rows_max(dataset, 1), 13);
    assert_true(dataset_batch(dataset, 0, 0, 1, &batch));
    assert_int_equal(batch.sequences, 3);
    assert_int_equal(batch.media_count, 3);
    for (size_t i = 0; i < batch.media_count; i++) {
        int32_t at = batch.media_at[batch.media[i].first];

        assert_true(at >= batch.offsets[batch.media[i].sequence] &&
                    at < batch.offsets[batch.media[i].sequence + 1]);
    }
    batch_clear(&batch);
    dataset_close(dataset);
}

/* Questions have their media, without the answer's. */
static void test_dataset_expand_has_media_of_questions(void **state)
{
    struct plan plan = plan_of("data.jsonl");
    struct dataset_question question;
    struct batch batch = { 0 };
    struct dataset *dataset;

    (void)state;
    unit_write_string(
        dir, "data.jsonl",
        "{\"instruction\": \"<image>\", \"output\": \"<image>\", \"images\": "
        "[\"a.png\", \"b.png\"]}\n");
    dataset = open_plan(&plan);
    assert_true(dataset_question(dataset, 0, &question));
    dataset_question_batch(dataset, 0, &question, &batch);
    assert_int_equal(batch.rows, question.question_len);
    assert_int_equal(batch.media_count, 1);
    assert_int_equal(batch.media_rows, 6);
    assert_int_equal(batch.tokens[batch.media_at[5]], UNIT_IMAGE_PAD);
    assert_int_equal(batch.offsets[1], question.question_len);
    batch_clear(&batch);
    dataset_close(dataset);
}

/* Each feature row replaces a media token of its sequence, and no media token is left. */
static void expect_media(const struct batch *batch)
{
    size_t tokens = 0;

    for (size_t i = 0; i < batch->rows; i++)
        tokens += batch->tokens[i] == UNIT_IMAGE_PAD;
    assert_int_equal(batch->media_rows, tokens);
    for (size_t i = 0; i < batch->media_rows; i++) {
        assert_int_equal(batch->tokens[batch->media_at[i]], UNIT_IMAGE_PAD);
        assert_true(i == 0 || batch->media_at[i] > batch->media_at[i - 1]);
    }
    for (size_t m = 0; m < batch->media_count; m++)
        for (uint32_t i = 0; i < batch->media[m].item->rows; i++) {
            int32_t at = batch->media_at[batch->media[m].first + i];

            assert_true(at >= batch->offsets[batch->media[m].sequence] &&
                        at < batch->offsets[batch->media[m].sequence + 1]);
        }
}

/* The two answers to a question have its media, and their own. */
static void test_dataset_expand_reads_pairs(void **state)
{
    struct plan plan = plan_of("data.jsonl");
    struct batch batch = { 0 };
    struct dataset *dataset;
    size_t whole = 0, cut = 0;

    (void)state;
    plan.stage = STAGE_DPO;
    unit_write_string(
        dir, "data.jsonl",
        "{\"prompt\": \"<image>\", \"chosen\": \"x<image>\", \"rejected\": \"<image>\", "
        "\"images\": [\"a.png\", \"b.png\"]}\n{\"prompt\": [{\"role\": \"user\", "
        "\"content\": \"q\"}], \"chosen\": [{\"role\": \"assistant\", \"content\": "
        "[{\"type\": \"image\", \"path\": \"a.png\"}]}], \"rejected\": [{\"role\": "
        "\"assistant\", \"content\": [{\"type\": \"image\", \"path\": \"b.png\"}]}]}\n");
    dataset = open_plan(&plan);
    assert_int_equal(dataset_samples(dataset), 2);
    assert_true(dataset_batch(dataset, 0, 0, 2, &batch));
    assert_int_equal(batch.media_count, 6);
    assert_int_equal(batch.media_rows, 2 * (6 + 1) + 6 + 1);
    expect_media(&batch);
    dataset_close(dataset);
    unit_write_string(dir, "data.jsonl",
                      "{\"prompt\": \"<image>\", \"chosen\": \"x\", \"rejected\": "
                      "\"<image>\", \"images\": [\"a.png\", \"b.png\"]}\n");
    expect_error(&plan, "has 2 images for 1 <image> in its messages");
    unit_write_string(
        dir, "data.jsonl",
        "{\"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": \"b\"}\n"
        "{\"prompt\": \"<image>\", \"chosen\": \"long answer\", \"rejected\": \"b\", "
        "\"images\": \"a.png\"}\n");
    for (plan.cutoff_len = 40; plan.cutoff_len < 120; plan.cutoff_len++) {
        dataset = open_plan(&plan);
        whole += dataset_samples(dataset) == 2;
        cut += dataset_samples(dataset) == 1;
        assert_true(dataset_batch(dataset, 0, 0, 2, &batch));
        expect_media(&batch);
        dataset_close(dataset);
    }
    assert_true(whole > 0 && cut > 0);
    batch_clear(&batch);
}

/* The mismatched sequence of stage kto has the media of the question. */
static void test_dataset_expand_reads_feedback(void **state)
{
    struct plan plan = plan_of("data.jsonl");
    struct batch batch = { 0 };
    size_t kept = 0, left = 0;

    (void)state;
    plan.stage = STAGE_KTO;
    unit_write_string(
        dir, "data.jsonl",
        "{\"prompt\": \"<image>\", \"response\": \"a\", \"label\": true, \"images\": "
        "[\"a.png\"]}\n"
        "{\"prompt\": \"q\", \"response\": \"a very long answer, of more tokens than most "
        "others\", \"label\": false}\n");
    for (plan.cutoff_len = 70; plan.cutoff_len < 160; plan.cutoff_len++) {
        struct dataset *dataset = open_plan(&plan);

        assert_true(dataset_batch(dataset, 0, 0, 2, &batch));
        expect_media(&batch);
        assert_true(batch.media_rows <= dataset_media_rows_max(dataset, 2));
        kept += batch.media_count == 2;
        left += batch.media_count == 1;
        dataset_close(dataset);
    }
    assert_true(kept > 0 && left > 0);
    batch_clear(&batch);
}

static void test_dataset_expand_reads_texts_with_media(void **state)
{
    struct plan plan = plan_of("texts");
    struct batch batch = { 0 };
    struct dataset *dataset;

    (void)state;
    plan.stage = STAGE_PT;
    plan.packing = CHOICE_NO;
    unit_write_string(dir, "dataset_info.json",
                      "{\"texts\": {\"file_name\": \"texts.jsonl\", \"columns\": "
                      "{\"prompt\": \"text\", \"images\": \"pictures\"}}}");
    unit_write_string(dir, "texts.jsonl",
                      "{\"text\": \"x<image>\", \"pictures\": [\"a.png\"]}\n"
                      "{\"text\": \"y<image> \", \"pictures\": [\"b.png\"]}\n");
    dataset = open_plan(&plan);
    assert_true(dataset_batch(dataset, 0, 0, 2, &batch));
    assert_int_equal(batch.media_count, 2);
    assert_int_equal(batch.rows, 1 + 8 + 1 + 1 + 3 + 1 + 1);
    expect_media(&batch);
    dataset_close(dataset);
    plan.cutoff_len = 7;
    dataset = open_plan(&plan);
    assert_int_equal(dataset_samples(dataset), 1); /* only the second fits */
    assert_true(dataset_batch(dataset, 0, 0, 1, &batch));
    assert_int_equal(batch.media_rows, 1);
    dataset_close(dataset);
    plan.packing = CHOICE_AUTO;
    expect_error(&plan, "which the blocks of stage: pt would divide; set packing: false");
    batch_clear(&batch);
}

/* ---- Numbered placeholders ---- */

#define PHI4(key) "{\"model_type\": \"phi4_multimodal\"" key "}"

static void write_phi4(const char *config, const char *audio_token)
{
    struct text text;

    unit_write_string(dir, "config.json", config);
    text_init(&text, 0);
    text_addf(&text, "{\"audio_token\": \"%s\"}", audio_token);
    unit_write(dir, "tokenizer_config.json", &text);
    text_clear(&text);
}

static struct plan plan_of_phi4(void)
{
    struct plan plan = plan_of("data.jsonl");

    plan.template_name = "phi4_mini";
    return plan;
}

static void expect_sounds(const char *content, const char *expected)
{
    const struct plan plan = plan_of_phi4();
    struct dataset *dataset;
    struct batch batch = { 0 };
    struct text got;

    write_record(content, ", \"audios\": [\"s.wav\", \"s.wav\"]");
    dataset = open_plan(&plan);
    text_init(&got, 0);
    assert_true(dataset_batch(dataset, 0, 0, 1, &batch));
    unit_media_describe(&batch, &got);
    assert_string_equal(got.data, expected);
    assert_int_equal(batch.media_count, 2);
    text_clear(&got);
    batch_clear(&batch);
    dataset_close(dataset);
}

/* The token is the one that the tokenizer's files name; that of config.json is compared. */
static void test_dataset_expand_reads_numbered_placeholders(void **state)
{
    const struct plan plan = plan_of_phi4();

    (void)state;
    write_phi4(PHI4(""), "<|endoftext11|>");
    expect_sounds(
        "\"<|audio_1|>a<|audio_2|>b\"",
        "<|user|><|endoftext11|>*3a<|endoftext11|>*3b<|end|><|assistant|>A.<|end|>");
    expect_sounds(
        "\"<audio>a<|audio_2|>\"",
        "<|user|><|endoftext11|>*3a<|endoftext11|>*3<|end|><|assistant|>A.<|end|>");
    write_phi4(PHI4(", \"audio_config\": {\"audio_token_id\": 306}"), "<|audio|>");
    expect_sounds("\"<|audio_1|>a<|audio_2|>\"",
                  "<|user|><|audio|>*3a<|audio|>*3<|end|><|assistant|>A.<|end|>");
    write_record("\"<|audio_2|>a<|audio_1|>\"", ", \"audios\": [\"s.wav\", \"s.wav\"]");
    expect_error(&plan, "the messages have <|audio_2|>, where <|audio_1|> is the next");
    write_record("\"<|audio_1|>\"", ", \"audios\": [\"s.wav\", \"s.wav\"]");
    expect_error(&plan, "the record has 2 sounds for 1 <audio>");
    write_phi4(PHI4(", \"audio_config\": {\"audio_token_id\": 200011}"), "<|audio|>");
    write_record("\"<|audio_1|>\"", ", \"audios\": [\"s.wav\"]");
    expect_error(&plan, "reads sounds at token 200011, and <|audio|> is token 306");
    write_phi4(QWEN, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_expand_reads_all_forms),
        cmocka_unit_test(test_dataset_expand_refuses_what_does_not_match),
        cmocka_unit_test(test_dataset_expand_errors_have_a_position),
        cmocka_unit_test(test_dataset_expand_depends_on_the_template),
        cmocka_unit_test(test_dataset_expand_requires_the_models_token),
        cmocka_unit_test(test_dataset_expand_keeps_media_whole),
        cmocka_unit_test(test_dataset_expand_packs_and_shares_media),
        cmocka_unit_test(test_dataset_expand_has_media_of_questions),
        cmocka_unit_test(test_dataset_expand_reads_pairs),
        cmocka_unit_test(test_dataset_expand_reads_feedback),
        cmocka_unit_test(test_dataset_expand_reads_texts_with_media),
        cmocka_unit_test(test_dataset_expand_reads_numbered_placeholders),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
