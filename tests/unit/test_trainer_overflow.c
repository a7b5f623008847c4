/*
 * tests/unit/test_trainer_overflow.c - sixty steps in fp16 with occasional gradient
 * overflow: loss scale, skipped steps and the schedule, which does not count them, match
 * the Trainer of transformers with GradScaler (tests/golden/overflow.py).
 *
 * For a gradient near the limit of fp16 the two may differ, because PyTorch has gradients
 * of weights in fp16 and ours are in fp32.  The script makes sure that there is none.
 */
#include "config.h"

#include "tests/unit/training.h"
#include "tests/unit/unit_architectures.h"

#include "kernels/backend.h"
#include "train/checkpoint/checkpoint.h"
#include "train/files/manifest.h"

#define LIMIT ((size_t)1 << 20)

static int overflow_setup(void **state)
{
    char *name = unit_source("tests/golden/overflow.json");
    struct error err = { 0 };

    (void)state;
    golden = json_read_file(name, LIMIT, &err);
    unit_must(golden != NULL, &err);
    free(name);
    return 0;
}

/* Write the texts to DIR/texts.jsonl and the model to DIR/model. */
static void write_subject(const char *dir, const json_t *one)
{
    char *model = path_join(dir, "model"), *name = path_join(dir, "texts.jsonl");
    struct error err = { 0 };
    json_t *text, *no_end = json_pack("{s:n}", "eos_token");
    struct text out;
    size_t i;

    text_init(&out, LIMIT);
    json_array_foreach(json_object_get(golden, "texts"), i, text)
    {
        json_t *record = json_pack("{s:O}", "text", text);

        json_write(record, &out);
        text_addc(&out, '\n');
        json_decref(record);
    }
    unit_must(file_replace(name, out.data, out.len, 0644, &err) &&
                  file_make_dir(model, 0755, &err),
              &err);
    put_json(json_object_get(one, "config"), model, "config.json");
    put_json(json_object_get(golden, "tokenizer"), model, "tokenizer.json");
    put_json(no_end, model, "tokenizer_config.json");
    put_tensors(one, model, "model.safetensors", NULL);
    json_decref(no_end);
    text_clear(&out);
    free(model);
    free(name);
}

/* Write the settings of the Trainer as the same keys of a job. */
static char *job_text(const char *dir)
{
    const char *key;
    struct text text;
    json_t *value;

    text_init(&text, LIMIT);
    text_addf(&text,
              "model_name_or_path: %s/model\ndataset: texts.jsonl\nstage: pt\n"
              "finetuning_type: full\npacking: false\ndisable_shuffling: true\n"
              "cutoff_len: 512\nlogging_steps: 1\nsave_strategy: \"no\"\n"
              "fp16: true\ntrainspool: {keep: [fp16]}\n",
              dir);
    json_object_foreach(json_object_get(golden, "settings"), key, value)
    {
        char *dumped = json_dumps(value, JSON_ENCODE_ANY);

        text_addf(&text, "%s: %s\n", key, dumped);
        free(dumped);
    }
    return text_detach(&text, NULL);
}

/* No job key sets the growth interval of the loss scale, so change it in the first
 * checkpoint of a run to that of the script. */
static void set_interval(const char *run_dir)
{
    char *folder = checkpoint_name(run_dir, 1), *name = path_join(folder, MANIFEST_NAME);
    char *state_name = path_join(folder, "trainspool_state.json");
    struct error err = { 0 };
    json_t *manifest = json_read_file(name, LIMIT, &err);
    json_t *state = json_read_file(state_name, LIMIT, &err);

    unit_must(manifest && state, &err);
    assert_int_equal(json_object_set(json_object_get(state, "scaler"), "interval",
                                     json_object_get(golden, "interval")),
                     0);
    put_json(state, folder, "trainspool_state.json");
    unit_must(file_remove_tree(name, &err) &&
                  manifest_write(folder,
                                 json_string_value(json_object_get(manifest, "job")),
                                 NULL, NULL, &err),
              &err);
    json_decref(manifest);
    json_decref(state);
    free(state_name);
    free(name);
    free(folder);
}

static void check_number(const json_t *ours, const json_t *one, const char *key,
                         size_t step, double relative)
{
    double a = real(ours, key);
    double b = json_number_value(json_array_get(json_object_get(one, key), step));

    if (!(fabs(a - b) <= relative * fabs(b)))
        fail_msg("step %zu: %s is %.9g, the Trainer has %.9g", step + 1, key, a, b);
}

/* Check the metrics of one step; return the steps skipped so far. */
static json_int_t check_step(const json_t *ours, const json_t *one, size_t step,
                             json_int_t skipped)
{
    bool made = json_is_true(json_array_get(json_object_get(one, "made"), step));
    double scale = json_number_value(json_array_get(json_object_get(one, "scale"), step));

    skipped += !made;
    if (real(ours, "loss_scale") != scale)
        fail_msg("step %zu: the scale is %g, the Trainer's %g", step + 1,
                 real(ours, "loss_scale"), scale);
    assert_int_equal(json_integer_value(json_object_get(ours, "skipped")), skipped);
    check_number(ours, one, "learning_rate", step, 1e-9);
    check_number(ours, one, "loss", step, 1e-3); /* epsilon of fp16 */
    if (made)
        check_number(ours, one, "grad_norm", step, 3e-3);
    else
        assert_true(json_is_string(json_object_get(ours, "grad_norm"))); /* NaN, inf */
    return skipped;
}

static void check_metrics(const char *run_dir, const json_t *one)
{
    char *name = path_join(run_dir, "metrics.jsonl"), *line, *end;
    json_int_t skipped = 0;
    struct error err = { 0 };
    struct text text;
    size_t steps = 0;

    text_init(&text, LIMIT);
    unit_must(file_read(name, LIMIT, &text, NULL, &err), &err);
    for (line = text.data; (end = strchr(line, '\n')) != NULL; line = end + 1, steps++) {
        json_t *ours = json_read_text(line, (size_t)(end - line), name, 1, &err);

        unit_must(ours != NULL, &err);
        skipped = check_step(ours, one, steps, skipped);
        json_decref(ours);
    }
    assert_int_equal(steps, json_array_size(json_object_get(one, "loss")));
    assert_true(skipped >= 5);
    text_clear(&text);
    free(name);
}

static void check_model(const char *model, const struct device *device)
{
    const json_t *one = find_case("models", model);
    char *dir = unit_dir_new(), *run_dir = path_join(dir, "job.run");
    char *job = job_text(dir);
    struct training first = { .dir = dir, .job = job, .device = device, .stop_after = 1 };
    struct training rest = { .dir = dir, .job = job, .device = device, .resume = true };
    struct error err = { 0 };

    write_subject(dir, one);
    assert_false(training_run(&first, &err));
    if (err.code != ERROR_STOPPED)
        fail_msg("%s", err.text);
    set_interval(run_dir);
    training_must(&rest);
    check_metrics(run_dir, one);
    free(job);
    free(run_dir);
    unit_dir_free(dir);
}

static void test_trainer_overflows_like_pytorch_llama(void **state)
{
    (void)state;
    check_model("llama", NULL);
}

static void test_trainer_overflows_like_pytorch_gpt2(void **state)
{
    (void)state;
    check_model("gpt2", NULL);
}

static void test_trainer_overflows_like_pytorch_on_a_gpu(void **state)
{
    struct device gpu;
    char note[256] = "";

    (void)state;
    if (backend_devices("cuda:0", &gpu, 1, note, sizeof(note)) == 0 || !gpu.runnable) {
        print_message("skipped: no GPU to try: %s\n", note);
        skip();
    }
    check_model("llama", &gpu);
    check_model("gpt2", &gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_overflows_like_pytorch_llama),
        cmocka_unit_test(test_trainer_overflows_like_pytorch_gpt2),
        cmocka_unit_test(test_trainer_overflows_like_pytorch_on_a_gpu),
    };

    return cmocka_run_group_tests(tests, overflow_setup, architectures_teardown);
}
