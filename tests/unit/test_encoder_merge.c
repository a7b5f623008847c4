/* tests/unit/test_encoder_merge.c - adapters of an encoder of sound or images are merged into its
 * weights, evaluated, and asked as transformers and PEFT do (tests/golden/encoder_merge.py). */
#include "config.h"

#define GOLDEN_TOWERS "tests/golden/tower_training"
#include "tests/unit/unit_curve.h"
#include "tests/unit/unit_generation.h"

/* fp32 on both sides. */
#define CLOSE 1e-5

static const char *const names[] = { "qwen2_audio", "qwen2_5_vl", "qwen3_vl",
                                     "gemma3",      "llava",      "mllama" };
static json_t *golden;

static int setup(void **state)
{
    char *path = unit_source("tests/golden/encoder_merge.json");
    struct error err = { 0 };

    (void)state;
    golden = json_read_file(path, (size_t)1 << 20, &err);
    unit_tower_must(golden != NULL, &err);
    free(path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

static const char *in(struct curve *curve, const char *file)
{
    return arena_printf(curve->u.arena, "%s/%s", curve->u.dir, file);
}

/* The folder of the model, with its adapter in `adapter`. */
static void open_case(struct curve *curve, const char *name)
{
    curve_open(curve, name, "lora", "");
    setenv("XDG_CACHE_HOME", in(curve, "cache"), 1);
}

/* A job with the model in a folder. */
static const char *job_of(struct curve *curve, const char *model, const char *more)
{
    return arena_printf(
        curve->u.arena,
        "model_name_or_path: %s\ndataset_dir: %s\nstage: sft\ntemplate: %s\n"
        "finetuning_type: lora\ncutoff_len: 512\n%s",
        in(curve, model), curve->u.dir, curve_template(curve), more);
}

static void run(struct curve *curve, const char *job, struct training training)
{
    curve->job = (char *)job;
    curve_run(curve, training);
}

static void merge(struct curve *curve, const char *adapter, const char *to)
{
    run(curve,
        arena_printf(curve->u.arena,
                     "model_name_or_path: %s\nadapter_name_or_path: %s/%s\ntemplate: %s\n"
                     "export_dir: %s/%s\n",
                     curve->u.dir, curve->u.dir, adapter, curve_template(curve),
                     curve->u.dir, to),
        (struct training) { .merges = true });
}

static struct safetensors *open_model(struct curve *curve, const char *dir)
{
    struct error err = { 0 };
    struct safetensors *files = safetensors_open(in(curve, dir), "model", false, &err);

    unit_tower_must(files != NULL, &err);
    return files;
}

static double norm_of(const struct stored_tensor *t)
{
    const float *values = t->data;
    double sum = 0;

    assert_int_equal(t->format, FORMAT_FP32);
    for (size_t i = 0; i < t->bytes / sizeof(*values); i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

/* Return whether the projector reads the layer before the one that has the tensor. */
static bool is_unread(const char *name, const char *tensor)
{
    return strcmp(name, "llava") == 0 && strstr(tensor, "encoder.layers.2.");
}

static bool is_same(const struct stored_tensor *a, const struct stored_tensor *b)
{
    return a->bytes == b->bytes && memcmp(a->data, b->data, b->bytes) == 0;
}

/* All tensors of the encoder that PEFT changes have its norms, and no others change. */
static void compare_weights(struct curve *curve)
{
    const json_t *one = json_object_get(golden, curve->one->name);
    const json_t *norms = json_object_get(one, "norms");
    struct safetensors *merged = open_model(curve, "merged"),
                       *base = open_model(curve, ".");
    size_t changed = 0;

    assert_int_equal(safetensors_count(merged), safetensors_count(base));
    for (size_t i = 0; i < safetensors_count(base); i++) {
        const struct stored_tensor *was = safetensors_at(base, i);
        const struct stored_tensor *now = safetensors_find(merged, was->name);
        const json_t *norm = json_object_get(norms, was->name);

        assert_non_null(now);
        if (strstr(was->name, "language_model") || strstr(was->name, "lm_head") ||
            strstr(was->name, "model.embed") || strstr(was->name, "model.layers"))
            continue;
        if (!norm || is_unread(curve->one->name, was->name)) {
            if (!is_same(was, now))
                fail_msg("%s: %s has changed", curve->one->name, was->name);
            continue;
        }
        changed++;
        if (!(fabs(norm_of(now) / json_number_value(norm) - 1) < CLOSE))
            fail_msg("%s: the norm of %s is %.7g, not %.7g", curve->one->name, was->name,
                     norm_of(now), json_number_value(norm));
    }
    assert_true(changed > 4);
    safetensors_close(merged);
    safetensors_close(base);
}

/* The loss of a model, with an adapter unless it is NULL. */
static double evaluated(struct curve *curve, const char *model, const char *adapter)
{
    json_t *results;
    char *text;
    double out;

    run(curve,
        job_of(curve, model,
               arena_printf(curve->u.arena,
                            "eval_dataset: data\ndo_train: false\ndo_eval: true\n"
                            "per_device_eval_batch_size: 4\noutput_dir: %s/eval\n%s%s\n",
                            curve->u.dir, adapter ? "adapter_name_or_path: " : "",
                            adapter ? in(curve, adapter) : "")),
        (struct training) { .evaluates = true });
    text = curve_read(curve, "eval/eval_results.json", NULL);
    results = json_loads(text, 0, NULL);
    out = json_number_value(json_object_get(results, "eval_loss"));
    json_decref(results);
    free(text);
    return out;
}

static void check_loss(struct curve *curve, const char *what, double got, double want)
{
    if (!(fabs(got / want - 1) < CLOSE))
        fail_msg("%s, %s: the loss is %.8g, not %.8g", curve->one->name, what, got, want);
}

/* The first question, about the first file. */
static json_t *completion(struct curve *curve, const char *folder)
{
    const char *const operands[] = { in(curve, folder), NULL };
    const char *const prompts[] = { "What is 0?", NULL };
    const char *const files[] = { in(curve, "0"), NULL };
    struct options options =
        unit_generation(operands, curve_template(curve), in(curve, "out.jsonl"));
    struct error err = { 0 };
    json_t *lines, *line;

    options.prompt = prompts;
    if (curve->sound)
        options.audio_files = files;
    else
        options.image_files = files;
    if (unit_generate(&options, &err) != 0)
        fail_msg("%s: %s", curve->one->name, err.text);
    lines = unit_lines(options.output);
    line = json_incref(json_array_get(lines, 0));
    json_decref(lines);
    return line;
}

/* An adapter whose base is the model's folder. */
static void name_base(struct curve *curve)
{
    char *path = path_join(curve->u.dir, "adapter/adapter_config.json");
    struct error err = { 0 };
    json_t *config = json_read_file(path, (size_t)1 << 20, &err);

    unit_tower_must(config != NULL, &err);
    json_object_set_new(config, "base_model_name_or_path", json_string(curve->u.dir));
    put_json(config, in(curve, "adapter"), "adapter_config.json");
    json_decref(config);
    free(path);
}

static void check_answers(struct curve *curve)
{
    const json_t *ids = json_object_get(json_object_get(golden, curve->one->name), "ids");
    static const char *const folders[] = { "adapter", "merged" };

    for (size_t i = 0; ids && i < TS_COUNT(folders); i++) {
        json_t *line = completion(curve, folders[i]);

        unit_check_completion(curve->one->name, curve->u.dir, line, ids);
        json_decref(line);
    }
}

static void test_adapters_of_encoders_are_used_as_by_peft(void **state)
{
    size_t models = 0;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        const double want =
            json_real_value(json_object_get(json_object_get(golden, names[i]), "loss"));
        struct curve curve;

        if (!curve_supported(names[i]))
            continue;
        open_case(&curve, names[i]);
        name_base(&curve);
        merge(&curve, "adapter", "merged");
        compare_weights(&curve);
        /* whose rows are in the run's folder then */
        assert_true(fabs(evaluated(&curve, ".", NULL) / want - 1) > 100 * CLOSE);
        check_loss(&curve, "with the adapter", evaluated(&curve, ".", "adapter"), want);
        check_answers(&curve);
        models++;
        curve_close(&curve);
    }
    assert_true(models >= 1 || !curve_supported("llava"));
}

#define TRAIN                                                                         \
    "dataset: data\nper_device_train_batch_size: 4\nlearning_rate: 0.02\nmax_steps: " \
    "3\neval_dataset: data\neval_strategy: steps\neval_steps: 3\n"                    \
    "per_device_eval_batch_size: 4\nlora_rank: 4\nfreeze_vision_tower: false\n"

/* A job's own model with its adapters is the one that a merge makes, and has its loss; so is that
 * of a new adapter on top of the merged one. */
static void check_training(const char *name, const char *keys)
{
    struct curve curve;
    char *exported, *apart;
    double trained;

    open_case(&curve, name);
    run(&curve,
        job_of(&curve, ".",
               arena_printf(curve.u.arena,
                            TRAIN "%soutput_dir: %s/trained\n"
                                  "export_dir: %s/exported\n",
                            keys, curve.u.dir, curve.u.dir)),
        (struct training) { 0 });
    trained = curve_last_eval(&curve);
    merge(&curve, "trained", "apart");
    exported = curve_digest(&curve, "exported/model.safetensors");
    apart = curve_digest(&curve, "apart/model.safetensors");
    assert_string_equal(exported, apart);
    free(exported);
    free(apart);
    check_loss(&curve, "with the adapter", evaluated(&curve, ".", "trained"), trained);
    check_loss(&curve, "merged", evaluated(&curve, "apart", NULL), trained);
    run(&curve,
        job_of(&curve, ".",
               arena_printf(curve.u.arena,
                            TRAIN "%sadapter_name_or_path: %s/trained\n"
                                  "create_new_adapter: true\noutput_dir: %s/new\n"
                                  "export_dir: %s/both\n",
                            keys, curve.u.dir, curve.u.dir, curve.u.dir)),
        (struct training) { 0 });
    trained = curve_last_eval(&curve);
    check_loss(&curve, "both", evaluated(&curve, "both", NULL), trained);
    curve_close(&curve);
}

static void test_jobs_export_what_a_merge_makes(void **state)
{
    (void)state;
    if (!curve_supported("llava"))
        skip();
    check_training("llava", "lora_target: all\n");
    check_training("gemma3",
                   "lora_target: all\nadditional_target: multi_modal_projector\n");
    check_training("qwen3_vl", "lora_target: all\nfreeze_language_model: true\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adapters_of_encoders_are_used_as_by_peft),
        cmocka_unit_test(test_jobs_export_what_a_merge_makes),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
