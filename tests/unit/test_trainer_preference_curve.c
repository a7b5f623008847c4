/*
 * tests/unit/test_trainer_preference_curve.c - thirty steps of stage dpo, from records in
 * a file to metrics.jsonl, have the same losses, rewards, norms and learning rates as
 * PyTorch on the same pairs (tests/golden/preference_curve.py).
 */
#include "config.h"

#include "tests/unit/training.h"
#include "tests/unit/unit_formula_adapter.h"

#include <math.h>

#define LIMIT ((size_t)1 << 20)
#define MODEL "data/stories260K/hf"

static json_t *read_golden(void)
{
    char *name = unit_source("tests/golden/preference_curve.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(name, LIMIT, &err);

    unit_must(golden != NULL, &err);
    free(name);
    return golden;
}

/* Write the records to DIR/pairs.jsonl. */
static void write_records(const char *dir, const json_t *records)
{
    char *name = path_join(dir, "pairs.jsonl");
    struct error err = { 0 };
    struct text out;
    json_t *record;
    size_t i;

    text_init(&out, LIMIT);
    json_array_foreach(records, i, record)
    {
        json_write(record, &out);
        text_addc(&out, '\n');
    }
    unit_must(file_replace(name, out.data, out.len, 0644, &err), &err);
    text_clear(&out);
    free(name);
}

/* Return the job of a run; adapter: a folder, or NULL. */
static char *job_of(const json_t *run, const char *adapter)
{
    char *model = unit_shared(MODEL);
    struct text text;

    text_init(&text, LIMIT);
    text_addf(&text, "model_name_or_path: %s\ndataset: pairs.jsonl\n%s", model,
              json_string_value(json_object_get(run, "job")));
    if (adapter)
        text_addf(&text, "adapter_name_or_path: %s\n", adapter);
    free(model);
    return text_detach(&text, NULL);
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
    { "logps/chosen", 0, 1e-3 },
    { "logps/rejected", 0, 1e-3 },
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
}

/* Check the first `steps` of a curve. */
static void check_curve(const char *dir, const json_t *curve, size_t steps)
{
    char *name = path_join(dir, "job.run/metrics.jsonl"), *line;
    struct error err = { 0 };
    struct text text;

    text_init(&text, LIMIT);
    unit_must(file_read(name, LIMIT, &text, NULL, &err), &err);
    assert_true(json_array_size(curve) >= steps);
    line = text.data;
    for (size_t i = 0; i < steps; i++) {
        char *end = strchr(line, '\n');
        json_t *ours;

        assert_non_null(end);
        ours = json_read_text(line, (size_t)(end - line), name, 1, &err);
        unit_must(ours != NULL, &err);
        check_step(ours, json_array_get(curve, i), i + 1);
        json_decref(ours);
        line = end + 1;
    }
    text_clear(&text);
    free(name);
}

/* steps 0: all */
static void check_run(const char *name, bool adapted, size_t steps)
{
    struct training training = { 0 };
    const json_t *run, *adapter, *curve;
    char *folder = NULL, *job, *dir;
    json_t *golden;

    unit_need_shared(MODEL);
    golden = read_golden();
    run = json_object_get(json_object_get(golden, "runs"), name);
    adapter = json_object_get(golden, "adapter");
    curve = json_object_get(run, "curve");
    if (adapted)
        folder = unit_adapter_new(adapter,
                                  json_number_value(json_object_get(adapter, "scale")));
    training.job = job = job_of(run, folder);
    training.dir = dir = unit_dir_new();
    write_records(dir, json_object_get(golden, "records"));
    training_must(&training);
    check_curve(dir, curve, steps ? steps : json_array_size(curve));
    json_decref(golden);
    free(job);
    unit_dir_free(dir);
    if (folder)
        unit_dir_free(folder);
}

static void test_trainer_preference_of_all_weights_matches_pytorch(void **state)
{
    (void)state;
    check_run("full", false, 0);
    check_run("full orpo", false, 0);
}

static void test_trainer_preference_of_an_adapter_matches_peft(void **state)
{
    (void)state;
    check_run("lora", true, 0);
    check_run("lora orpo", true, 0);
}

/* The last window of an epoch has micro-batches of two pairs and of one.  Our step is the
 * mean over its pairs, that of PyTorch the mean over the means of micro-batches, so they
 * differ only in that window. */
static void test_trainer_preference_smoothed_with_ftx_matches_pytorch(void **state)
{
    (void)state;
    check_run("ragged", false, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_preference_of_all_weights_matches_pytorch),
        cmocka_unit_test(test_trainer_preference_of_an_adapter_matches_peft),
        cmocka_unit_test(test_trainer_preference_smoothed_with_ftx_matches_pytorch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
