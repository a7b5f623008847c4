/*
 * tests/unit/test_trainer_reward_curve.c - steps of stage rm, from records in a file to
 * metrics.jsonl, have the same losses, scores, norms and learning rates as transformers on
 * the same pairs (tests/golden/reward_curve.py), with either form of the head; and the
 * saved model gives the same scores.
 */
#include "config.h"

#include "tests/unit/training.h"
#include "tests/unit/unit_formula_adapter.h"

#include <math.h>
#include <unistd.h>

#include "train/files/safetensors.h"

#define LIMIT ((size_t)1 << 20)
#define MODEL "data/stories260K/hf"

static json_t *read_golden(void)
{
    char *name = unit_source("tests/golden/reward_curve.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(name, LIMIT, &err);

    unit_must(golden != NULL, &err);
    free(name);
    return golden;
}

static void write_file(const char *dir, const char *file, const struct text *text)
{
    char *name = path_join(dir, file);
    struct error err = { 0 };

    unit_must(file_replace(name, text->data, text->len, 0644, &err), &err);
    free(name);
}

static void write_records(const char *dir, const json_t *records)
{
    struct text out;
    json_t *record;
    size_t i;

    text_init(&out, LIMIT);
    json_array_foreach(records, i, record)
    {
        json_write(record, &out);
        text_addc(&out, '\n');
    }
    write_file(dir, "pairs.jsonl", &out);
    text_clear(&out);
}

static void link_file(const char *from, const char *dir, const char *file, const char *as)
{
    char *target = path_join(from, file), *name = path_join(dir, as);

    assert_int_equal(symlink(target, name), 0);
    free(target);
    free(name);
}

static bool read_head(const void *context, size_t index, void *to, struct error *err)
{
    const json_t *values = context;
    float *out = to;

    (void)index;
    (void)err;
    out[0] = (float)json_number_value(values);
    for (size_t i = 0; i < json_array_size(values); i++)
        out[i] = (float)json_number_value(json_array_get(values, i));
    return true;
}

static void write_head(const char *dir, const char *file, const json_t *head, bool value)
{
    const struct tensor_source sources[] = {
        { .name = value ? "v_head.summary.weight" : "score.weight",
          .format = FORMAT_FP32,
          .rank = 2,
          .shape = { 1, json_array_size(json_object_get(head, "weight")) },
          .read = read_head,
          .context = json_object_get(head, "weight") },
        { .name = "v_head.summary.bias",
          .format = FORMAT_FP32,
          .rank = 1,
          .shape = { 1 },
          .read = read_head,
          .context = json_object_get(head, "bias") },
    };
    char *name = path_join(dir, file);
    struct error err = { 0 };

    unit_must(safetensors_write(name, sources, value ? 2 : 1, &err), &err);
    free(name);
}

/* Write config.json with a pad_token_id, and the class of a reward model. */
static void write_config(const char *from, const char *dir, const json_t *head)
{
    char *name = path_join(from, "config.json");
    struct error err = { 0 };
    json_t *config = json_read_file(name, LIMIT, &err);
    struct text text;

    unit_must(config != NULL, &err);
    json_object_set(config, "pad_token_id", json_object_get(head, "pad_token_id"));
    json_object_set_new(config, "architectures",
                        json_pack("[s]", "LlamaForSequenceClassification"));
    text_init(&text, LIMIT);
    json_write(config, &text);
    write_file(dir, "config.json", &text);
    text_clear(&text);
    json_decref(config);
    free(name);
}

/* The files of the model are the first of two, and the head is the second. */
static void write_index(const char *from, const char *dir)
{
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(from, "model", false, &err);
    json_t *map = json_object(), *index;
    struct text text;

    unit_must(set != NULL, &err);
    for (size_t i = 0; i < safetensors_count(set); i++)
        json_object_set_new(map, safetensors_at(set, i)->name,
                            json_string("model-00001-of-00002.safetensors"));
    json_object_set_new(map, "score.weight",
                        json_string("model-00002-of-00002.safetensors"));
    index = json_pack("{s:{}, s:o}", "metadata", "weight_map", map);
    text_init(&text, LIMIT);
    json_write(index, &text);
    write_file(dir, "model.safetensors.index.json", &text);
    text_clear(&text);
    json_decref(index);
    safetensors_close(set);
}

/* Return a folder with stories260K and a head. */
static char *folder_new(const json_t *head, bool value)
{
    char *from = unit_shared(MODEL), *dir = unit_dir_new();

    link_file(from, dir, "tokenizer.json", "tokenizer.json");
    link_file(from, dir, "tokenizer_config.json", "tokenizer_config.json");
    link_file(from, dir, "model.safetensors",
              value ? "model.safetensors" : "model-00001-of-00002.safetensors");
    if (value) {
        link_file(from, dir, "config.json", "config.json");
        write_head(dir, "value_head.safetensors", head, true);
    } else {
        write_config(from, dir, head);
        write_head(dir, "model-00002-of-00002.safetensors", head, false);
        write_index(from, dir);
    }
    free(from);
    return dir;
}

/* Values that pass through 0 have an absolute tolerance, the others a relative one. */
static const struct {
    const char *key;
    double share, room;
} numbers[] = {
    { "loss", 1e-4, 0 },
    { "grad_norm", 1e-4, 0 },
    { "learning_rate", 1e-6, 0 },
    { "rewards/chosen", 0, 1e-4 },
    { "rewards/rejected", 0, 1e-4 },
    { "rewards/margins", 0, 1e-4 },
    { "rewards/accuracies", 0, 0 },
};

static void check_step(const json_t *ours, const json_t *theirs, size_t step)
{
    for (size_t i = 0; i < TS_COUNT(numbers); i++) {
        const json_t *a = json_object_get(ours, numbers[i].key);
        const json_t *b = json_object_get(theirs, numbers[i].key);
        double is = json_number_value(a), expected = json_number_value(b);

        if (!json_is_number(a) || !json_is_number(b))
            fail_msg("step %zu has no %s", step, numbers[i].key);
        if (!(fabs(is - expected) <= numbers[i].share * fabs(expected) + numbers[i].room))
            fail_msg("step %zu: %s is %.9g, PyTorch has %.9g", step, numbers[i].key, is,
                     expected);
    }
    assert_null(json_object_get(ours, "logps/chosen"));
}

/* Call `check` for each line of a file of `count` objects. */
static void check_lines(const char *dir, const char *file, const json_t *wanted,
                        void (*check)(const json_t *, const json_t *, size_t))
{
    char *name = path_join(dir, file), *line;
    struct error err = { 0 };
    struct text text;

    text_init(&text, LIMIT);
    unit_must(file_read(name, LIMIT, &text, NULL, &err), &err);
    line = text.data;
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        char *end = strchr(line, '\n');
        json_t *ours;

        assert_non_null(end);
        ours = json_read_text(line, (size_t)(end - line), name, 1, &err);
        unit_must(ours != NULL, &err);
        check(ours, json_array_get(wanted, i), i + 1);
        json_decref(ours);
        line = end + 1;
    }
    text_clear(&text);
    free(name);
}

static void check_scores(const json_t *ours, const json_t *theirs, size_t pair)
{
    static const char *const keys[] = { "chosen", "rejected" };

    for (size_t i = 0; i < 2; i++) {
        double is = json_number_value(json_object_get(ours, keys[i]));
        double expected = json_number_value(json_array_get(theirs, i));

        if (!(fabs(is - expected) <= 2e-4))
            fail_msg("pair %zu: the %s score is %.9g, PyTorch has %.9g", pair, keys[i],
                     is, expected);
    }
}

/* Let a second job predict with what the first has saved. */
static void check_saved(const char *dir, const char *model, bool lora, const json_t *run)
{
    struct training training = { 0 };
    char *saved = path_join(dir, "job.run"), *other = unit_dir_new(), *pairs;
    struct text job;

    pairs = path_join(dir, "pairs.jsonl");
    text_init(&job, LIMIT);
    text_addf(&job,
              "model_name_or_path: %s\nstage: rm\ntemplate: default\ncutoff_len: 64\n"
              "eval_dataset: %s\ndo_train: false\ndo_predict: true\n"
              "per_device_eval_batch_size: 3\nfinetuning_type: %s\n",
              lora ? model : saved, pairs, lora ? "lora" : "full");
    if (lora)
        text_addf(&job, "adapter_name_or_path: %s\n", saved);
    training.job = job.data;
    training.dir = other;
    training.evaluates = true;
    training_must(&training);
    check_lines(other, "job.run/generated_predictions.jsonl",
                json_object_get(run, "scores"), check_scores);
    text_clear(&job);
    unit_dir_free(other);
    free(saved);
    free(pairs);
}

static void check_run(const char *name, bool lora)
{
    struct training training = { 0 };
    const json_t *run, *adapter, *head;
    char *start = NULL, *model, *dir;
    struct text job;
    json_t *golden;

    unit_need_shared(MODEL);
    golden = read_golden();
    head = json_object_get(golden, "head");
    run = json_object_get(json_object_get(golden, "runs"), name);
    adapter = json_object_get(golden, "adapter");
    model = folder_new(head, text_starts(name, "value"));
    dir = unit_dir_new();
    write_records(dir, json_object_get(golden, "records"));
    text_init(&job, LIMIT);
    text_addf(&job, "model_name_or_path: %s\ndataset: pairs.jsonl\n%s", model,
              json_string_value(json_object_get(run, "job")));
    if (lora) {
        start = unit_adapter_new(adapter,
                                 json_number_value(json_object_get(adapter, "scale")));
        if (text_starts(name,
                        "value")) /* next to the adapter, as LLaMA-Factory saves it */
            write_head(start, "value_head.safetensors", head, true);
        text_addf(&job, "adapter_name_or_path: %s\n", start);
    }
    training.job = job.data;
    training.dir = dir;
    training_must(&training);
    check_lines(dir, "job.run/metrics.jsonl", json_object_get(run, "curve"), check_step);
    check_saved(dir, model, lora, run);
    text_clear(&job);
    json_decref(golden);
    unit_dir_free(model);
    unit_dir_free(dir);
    if (start)
        unit_dir_free(start);
}

static void test_trainer_reward_of_a_score_matches_transformers(void **state)
{
    (void)state;
    check_run("score", false);
    check_run("score lora", true);
}

static void test_trainer_reward_of_a_value_head_matches_trl(void **state)
{
    (void)state;
    check_run("value_head", false);
    check_run("value_head lora", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_reward_of_a_score_matches_transformers),
        cmocka_unit_test(test_trainer_reward_of_a_value_head_matches_trl),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
