/* tests/unit/test_dataset_expand_golden.c - conversations with media become the tokens and
 * targets that LLaMA-Factory makes of them (tests/golden/media_text.json, made by
 * media_text.py). */
#include "config.h"

#include "train/dataset/dataset.h"

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit_media_data.h"
#include "train/chat/template.h"

enum { MEDIA_MAX = 8 };

/* Everything of a case in one directory. */
static struct tokenizer *set_up(const char *dir, const json_t *one)
{
    const char *vision = json_string_value(json_object_get(one, "vision")), *name;
    struct unit_feature features[MEDIA_MAX] = { 0 };
    struct tokenizer *tokenizer;
    struct text text;
    size_t count = 0;
    json_t *medium;

    json_object_foreach(json_object_get(one, "media"), name, medium)
    {
        const json_t *grid = json_object_get(medium, "grid");
        struct unit_feature *feature = &features[count++];

        feature->name = name;
        feature->rows = (size_t)json_integer_value(json_object_get(medium, "rows"));
        for (size_t i = 0; i < json_array_size(grid); i++)
            feature->grid[i] = (int32_t)json_integer_value(json_array_get(grid, i));
    }
    unit_features_write(dir, "features.safetensors", features, count);
    text_init(&text, 0);
    json_write(json_object_get(one, "records"), &text);
    unit_write(dir, "data.json", &text);
    text_reset(&text);
    text_addf(&text, "{\"model_type\": \"%s\"",
              json_string_value(json_object_get(one, "model_type")));
    if (vision)
        text_addf(&text, ", \"vision_config\": {\"model_type\": \"%s\"}", vision);
    text_addc(&text, '}');
    tokenizer = unit_media_model(dir, text.data);
    text_clear(&text);
    return tokenizer;
}

static struct dataset *open_case(const char *dir, const json_t *one,
                                 const struct tokenizer *tokenizer)
{
    const char *stage = json_string_value(json_object_get(one, "stage"));
    int64_t cutoff = json_integer_value(json_object_get(one, "cutoff_len"));
    char *features = path_join(dir, "features.safetensors");
    struct error err = { 0 };
    const struct plan plan = {
        .stage = stage ? STAGE_DPO : STAGE_SFT,
        .model_name_or_path = dir,
        .dataset = "data.json",
        .dataset_dir = dir,
        .features = features,
        .template_name = json_string_value(json_object_get(one, "template")),
        .enable_thinking = true,
        .train_on_prompt = json_is_true(json_object_get(one, "train_on_prompt")),
        .mask_history = json_is_true(json_object_get(one, "mask_history")),
        .cutoff_len = cutoff > 0 ? cutoff : 2048,
        .disable_shuffling = true,
        .data_seed = -1,
    };
    struct dataset *dataset = dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err);

    if (!dataset)
        fail_msg("%s:%u: %s", err.file, err.at.line, err.text);
    free(features);
    return dataset;
}

static void expect_sequence(const struct batch *batch, size_t sequence,
                            const json_t *expected)
{
    const json_t *ids = json_object_get(expected, "ids"),
                 *labels = json_object_get(expected, "labels");
    int32_t at = batch->offsets[sequence];
    size_t count = json_array_size(ids);

    assert_int_equal(batch->offsets[sequence + 1] - at, count);
    for (size_t i = 0; i < count; i++) {
        json_int_t label = i + 1 < count
                               ? json_integer_value(json_array_get(labels, i + 1))
                               : LABEL_NONE;

        if (batch->tokens[at + (int32_t)i] != json_integer_value(json_array_get(ids, i)))
            fail_msg("token %zu is %d, not %lld", i, batch->tokens[at + (int32_t)i],
                     (long long)json_integer_value(json_array_get(ids, i)));
        if (batch->targets[at + (int32_t)i] != label)
            fail_msg("target %zu is %d, not %lld", i, batch->targets[at + (int32_t)i],
                     (long long)label);
    }
}

/* Each feature row replaces a media token, and each media token is replaced. */
static void expect_media(const struct batch *batch, int32_t token)
{
    size_t tokens = 0, rows = 0;

    for (size_t i = 0; i < batch->rows; i++)
        tokens += batch->tokens[i] == token;
    assert_int_equal(batch->media_rows, tokens);
    for (size_t i = 0; i < batch->media_rows; i++)
        assert_int_equal(batch->tokens[batch->media_at[i]], token);
    for (size_t i = 0; i < batch->media_count; i++) {
        assert_int_equal(batch->media[i].first, rows);
        rows += batch->media[i].item->rows;
    }
    assert_int_equal(rows, tokens);
}

static void expect_case(const json_t *one)
{
    const json_t *samples = json_object_get(one, "samples");
    const char *vision = json_string_value(json_object_get(one, "vision"));
    const struct media_family *family =
        media_family_find(json_string_value(json_object_get(one, "model_type")), vision);
    char *dir = unit_dir_new();
    struct tokenizer *tokenizer = set_up(dir, one);
    struct dataset *dataset = open_case(dir, one, tokenizer);
    struct batch batch = { 0 };
    size_t sequence = 0;

    for (uint64_t i = 0; dataset_batch(dataset, 0, i, 1, &batch); i++) {
        for (size_t s = 0; s < batch.sequences; s++)
            expect_sequence(&batch, s, json_array_get(samples, sequence++));
        expect_media(&batch,
                     (int32_t)tokenizer_find(tokenizer, media_family_row_token(family)));
        assert_true(batch.media_rows <= dataset_media_rows_max(dataset, 1));
    }
    assert_int_equal(sequence, json_array_size(samples));
    batch_clear(&batch);
    dataset_close(dataset);
    tokenizer_close(tokenizer);
    unit_dir_free(dir);
}

static void test_dataset_expand_equals_llamafactory(void **state)
{
    char *file = unit_source("tests/golden/media_text.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(file, 1 << 20, &err), *one;
    const json_t *specials = json_object_get(golden, "specials");
    size_t i;

    (void)state;
    if (!golden)
        fail_msg("%s", err.text);
    assert_int_equal(json_array_size(specials), UNIT_MEDIA_SPECIALS);
    for (i = 0; i < UNIT_MEDIA_SPECIALS; i++)
        assert_string_equal(json_string_value(json_array_get(specials, i)),
                            unit_media_specials[i]);
    json_array_foreach(json_object_get(golden, "cases"), i, one)
    {
        print_message("# case %zu: %s, %s\n", i,
                      json_string_value(json_object_get(one, "template")),
                      json_string_value(json_object_get(one, "model_type")));
        expect_case(one);
    }
    assert_int_equal(i, 21);
    json_decref(golden);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_expand_equals_llamafactory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
