/* tests/unit/test_media_curve.c - jobs that train on files of sounds and images: their losses are
 * those of transformers (tests/golden/media_curve.py), and do not depend on threads, ranks or
 * interruptions. */
#include "config.h"

#include <math.h>

#define GOLDEN_TOWERS "tests/golden/media_curve"
#include "tests/unit/training.h"
#include "tests/unit/unit_media_file.h"
#include "tests/unit/unit_tower.h"

enum { STEPS = 30 };

/* fp32 on both sides, in 30 steps that follow each other. */
#define CLOSE 1e-4

struct curve {
    struct unit_tower u;
    const struct unit_tower_case *one;
    bool sound, phi4;
    char *job;
    double losses[STEPS];
    size_t count;
};

static void write_text(const char *dir, const char *file, const char *text)
{
    char *path = path_join(dir, file);
    struct error err = { 0 };

    unit_tower_must(file_replace(path, text, strlen(text), 0600, &err), &err);
    free(path);
}

/* Each item is a file and a record. */
static void write_records(const struct curve *curve)
{
    const struct unit_tower *u = &curve->u;
    struct text out;

    text_init(&out, 0);
    for (size_t i = 0; i < curve->one->items; i++) {
        const json_t *item = json_array_get(curve->one->list, i);
        const char *name = arena_printf(u->arena, "%s %zu", curve->one->name, i);
        char *from =
            curve->sound
                ? unit_media_sound(u->dir, name, (size_t)json_integer_value(item))
                : unit_media_image(u->dir, name, unit_tower_number(item, 0),
                                   unit_tower_number(item, 1));
        char *to = path_join(u->dir, arena_printf(u->arena, "%zu", i));

        assert_int_equal(rename(from, to), 0);
        text_addf(
            &out,
            "{\"messages\": [{\"role\": \"user\", \"content\": \"%sWhat is %zu?\"}, "
            "{\"role\": \"assistant\", \"content\": \"It is %zu.\"}], \"%s\": "
            "[\"%zu\"]}\n",
            curve->phi4    ? "<|audio_1|>"
            : curve->sound ? "<audio>"
                           : "<image>",
            i, i * 7 % 5, curve->sound ? "audios" : "images", i);
        free(from);
        free(to);
    }
    write_text(u->dir, "data.jsonl", out.data);
    text_clear(&out);
    write_text(
        u->dir, "dataset_info.json",
        arena_printf(u->arena,
                     "{\"data\": {\"file_name\": \"data.jsonl\", \"formatting\": "
                     "\"sharegpt\", \"columns\": {\"messages\": \"messages\", \"%s\": "
                     "\"%s\"}, \"tags\": {\"role_tag\": \"role\", \"content_tag\": "
                     "\"content\", \"user_tag\": \"user\", \"assistant_tag\": "
                     "\"assistant\"}}}",
                     curve->sound ? "audios" : "images",
                     curve->sound ? "audios" : "images"));
}

static void write_adapter(struct curve *curve, const json_t *one)
{
    char *dir = path_join(curve->u.dir, "adapter"), *path;
    struct error err = { 0 };

    unit_tower_must(file_make_dir(dir, 0700, &err), &err);
    path = path_join(dir, "adapter_model.safetensors");
    unit_tower_write(&curve->u, json_object_get(one, "adapter"), path);
    put_json(json_object_get(one, "adapter_config"), dir, "adapter_config.json");
    free(path);
    free(dir);
}

/* The line of a job that names a template; a model's own is in its folder. */
static const char *put_template(const struct curve *curve, const json_t *one)
{
    const char *own = json_string_value(json_object_get(one, "chat_template"));

    if (!own)
        return arena_printf(curve->u.arena, "template: %s\n",
                            json_string_value(json_object_get(one, "template")));
    write_text(curve->u.dir, "chat_template.jinja", own);
    return "";
}

static const json_t *golden_of(const struct curve *curve)
{
    const json_t *models = json_object_get(curve->u.golden, "models");
    size_t at = (size_t)(curve->one - curve->u.cases);

    return json_array_get(models, at);
}

/* Make the folder of a model with its data, and the text of a job in it. */
static void curve_open(struct curve *curve, const char *name, const char *more)
{
    struct unit_tower *u = &curve->u;
    const json_t *one;

    *curve = (struct curve) { .u = unit_tower_setup() };
    curve->one = unit_tower_named(u, name);
    curve->sound = json_is_integer(json_array_get(curve->one->list, 0));
    curve->phi4 = strcmp(name, "phi4_multimodal") == 0;
    one = golden_of(curve);
    u->dir = unit_dir_new();
    unit_tower_put(u, curve->one);
    put_json(
        json_object_get(json_object_get(one, "tokenizer") ? one : u->golden, "tokenizer"),
        u->dir, "tokenizer.json");
    write_text(u->dir, "tokenizer_config.json",
               text_starts(name, "gemma") || strcmp(name, "llama4") == 0 ||
                       strcmp(name, "mistral3") == 0
                   ? "{\"eos_token\": \"<|im_end|>\", \"bos_token\": \"<bos>\"}"
               : strcmp(name, "mllama") == 0
                   ? "{\"eos_token\": \"<|eot_id|>\", \"bos_token\": "
                     "\"<|begin_of_text|>\"}"
               : strcmp(name, "paddleocr_vl") == 0 ? "{\"eos_token\": \"</s>\"}"
                                                   : "{\"eos_token\": \"<|im_end|>\"}");
    write_records(curve);
    if (json_object_get(one, "adapter"))
        write_adapter(curve, one);
    curve->job = arena_printf(
        u->arena,
        "model_name_or_path: %s\ndataset_dir: %s\ndataset: data\nstage: sft\n%s"
        "%s%s%s%soutput_dir: %s/out\nlearning_rate: %.17g\nlr_scheduler_type: constant\n"
        "weight_decay: 0.0\nnum_train_epochs: %d\nlogging_steps: 1\ncutoff_len: 512\n%s",
        u->dir, u->dir, put_template(curve, one),
        json_object_get(one, "adapter")
            ? "finetuning_type: lora\nlora_rank: 4\nlora_alpha: 8\n"
            : "finetuning_type: full\n",
        curve->phi4 ? "train_on_prompt: true\nlora_target: all\nadapter_name_or_path: "
        : json_object_get(one, "adapter")
            ? "lora_target: q_proj,v_proj,up_proj,down_proj\nadapter_name_or_path: "
            : "",
        json_object_get(one, "adapter") ? u->dir : "",
        json_object_get(one, "adapter") ? "/adapter\n" : "\n", u->dir,
        json_number_value(json_object_get(u->golden, "rate")), STEPS, more);
}

static void curve_close(struct curve *curve)
{
    unit_dir_free(curve->u.dir);
    unit_tower_teardown(&curve->u);
}

/* Return the contents of a file of the run, malloc'ed. */
static char *read_run(const struct curve *curve, const char *file, size_t *len)
{
    char *path = path_join(curve->u.dir, file);
    struct error err = { 0 };
    struct text out;

    text_init(&out, 0);
    unit_tower_must(file_read(path, (size_t)1 << 24, &out, NULL, &err), &err);
    free(path);
    return text_detach(&out, len);
}

/* Read the losses of metrics.jsonl. */
static size_t read_losses(const struct curve *curve, double *out)
{
    char *text = read_run(curve, "job.run/metrics.jsonl", NULL), *rest = text, *line;
    size_t count = 0;

    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *values = json_loads(line, 0, NULL);

        assert_true(count < STEPS);
        out[count++] = json_number_value(json_object_get(values, "loss"));
        json_decref(values);
    }
    free(text);
    return count;
}

/* Return the last eval_loss of metrics.jsonl. */
static double read_last_eval(const struct curve *curve)
{
    char *text = read_run(curve, "job.run/metrics.jsonl", NULL), *rest = text, *line;
    double out = NAN;

    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *values = json_loads(line, 0, NULL);
        const json_t *loss = json_object_get(values, "eval_loss");

        out = loss ? json_number_value(loss) : out;
        json_decref(values);
    }
    free(text);
    return out;
}

static void run(const struct curve *curve, struct training training)
{
    struct error err = { 0 };

    training.dir = curve->u.dir;
    training.job = curve->job;
    if (!training_run(&training, &err))
        fail_msg("%s", err.text);
}

static char *digest_of(const struct curve *curve, const char *file)
{
    char *path = path_join(curve->u.dir, file), *out = memory_alloc(DIGEST_TEXT);
    struct error err = { 0 };

    unit_tower_must(digest_file(path, out, &err), &err);
    free(path);
    return out;
}

/* Whether this build reads the files of a case. */
static bool supported(const char *name)
{
    const bool sound =
        strcmp(name, "qwen2_audio") == 0 || strcmp(name, "phi4_multimodal") == 0;

#ifndef HAVE_SNDFILE
    if (sound)
        return false;
#endif
#ifndef HAVE_PNG
    if (!sound)
        return false;
#endif
    return sound || *name;
}

#define WHOLE "per_device_train_batch_size: 4\ngradient_accumulation_steps: 1\n"

static void test_losses_on_files_are_those_of_transformers(void **state)
{
    static const struct {
        const char *name, *more;
    } cases[] = {
        { "qwen2_audio", WHOLE },    { "qwen2_5_vl", WHOLE },
        { "qwen3_vl", WHOLE },       { "gemma3", WHOLE },
        { "glm4v", WHOLE },          { "internvl", WHOLE "crop_to_patches: true\n" },
        { "lfm2_vl", WHOLE },        { "llava", WHOLE },
        { "gemma4_unified", WHOLE }, { "llama4", WHOLE },
        { "mllama", WHOLE },         { "phi4_multimodal", WHOLE },
        { "paddleocr_vl", WHOLE },   { "mistral3", WHOLE },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const char *name = cases[i].name;
        struct curve curve;
        const json_t *want;

        if (!supported(name))
            continue;
        curve_open(&curve, name, cases[i].more);
        run(&curve, (struct training) { 0 });
        want = json_object_get(golden_of(&curve), "losses");
        assert_int_equal(read_losses(&curve, curve.losses), STEPS);
        for (size_t k = 0; k < STEPS; k++) {
            const double loss = json_number_value(json_array_get(want, k));

            if (!(fabs(curve.losses[k] - loss) < CLOSE))
                fail_msg("%s, step %zu: %.8g, not %.8g", name, k + 1, curve.losses[k],
                         loss);
        }
        curve_close(&curve);
    }
}

#define SHORT                                                                        \
    "per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\nmax_steps: 4\n" \
    "save_steps: 2\n"

static void test_bits_do_not_depend_on_threads(void **state)
{
    char *digests[2] = { 0 };

    (void)state;
    if (!supported("qwen2_audio"))
        skip();
    for (int i = 0; i < 2; i++) {
        struct curve curve;

        curve_open(&curve, "qwen2_audio", SHORT);
        run(&curve, (struct training) { .threads = i + 1 });
        digests[i] = digest_of(&curve, "out/adapter_model.safetensors");
        curve_close(&curve);
    }
    assert_string_equal(digests[0], digests[1]);
    free(digests[0]);
    free(digests[1]);
}

/* Attempts end at ever later ticks: while the encoder is loaded, between files, in steps. */
static void test_stopped_jobs_resume_with_the_same_bits(void **state)
{
    struct curve curve;
    char *whole, *resumed;

    (void)state;
    if (!supported("qwen2_audio"))
        skip();
    curve_open(&curve, "qwen2_audio", SHORT);
    run(&curve, (struct training) { 0 });
    whole = digest_of(&curve, "out/adapter_model.safetensors");
    curve_close(&curve);

    curve_open(&curve, "qwen2_audio", SHORT);
    assert_true(training_in_pieces(curve.u.dir, curve.job, 7, "encod") > 0);
    resumed = digest_of(&curve, "out/adapter_model.safetensors");
    assert_string_equal(whole, resumed);
    free(whole);
    free(resumed);
    curve_close(&curve);
}

/* The features are then those of the encoder, computed or the user's: the projector has the
 * same output in the first step, and moves in it. */
static void test_trained_projectors_read_the_rows_of_encoders(void **state)
{
    static const char *const names[] = { "qwen2_5_vl", "qwen3_vl", "gemma3", "llava" };
    const char *train = WHOLE "freeze_multi_modal_projector: false\nmax_steps: 2\n";

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        struct curve curve;
        const json_t *want;

        if (!supported(names[i]))
            continue;
        curve_open(&curve, names[i], train);
        run(&curve, (struct training) { 0 });
        want = json_object_get(golden_of(&curve), "losses");
        assert_int_equal(read_losses(&curve, curve.losses), 2);
        for (size_t k = 0; k < 2; k++)
            if ((fabs(curve.losses[k] - json_number_value(json_array_get(want, k))) <
                 1e-5) != (k == 0))
                fail_msg("%s, step %zu: %.8g", names[i], k + 1, curve.losses[k]);
        curve_close(&curve);
    }
}

/* A job that only evaluates an adapter with a trained projector has the loss that training
 * had. */
static void test_trained_projectors_of_adapters_are_evaluated(void **state)
{
    static const char *const names[] = { "qwen3_vl", "gemma3", "llava" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        struct training training = { .evaluates = true };
        struct curve curve;
        const char *base;
        double losses[2];

        if (!supported(names[i]))
            continue;
        curve_open(&curve, names[i], "");
        base = arena_printf(
            curve.u.arena,
            "model_name_or_path: %s\ndataset_dir: %s\nstage: sft\n"
            "template: %s\nfinetuning_type: lora\ncutoff_len: 512\n"
            "eval_dataset: data\n",
            curve.u.dir, curve.u.dir,
            json_string_value(json_object_get(golden_of(&curve), "template")));
        curve.job = arena_printf(
            curve.u.arena,
            "%sdataset: data\nlora_target: q_proj\nadditional_target: %s\nmax_steps: 3\n"
            "learning_rate: 0.01\nper_device_train_batch_size: 4\noutput_dir: %s/out\n"
            "eval_strategy: steps\neval_steps: 3\n",
            base, i == 0 ? "merger" : "multi_modal_projector", curve.u.dir);
        run(&curve, (struct training) { 0 });
        losses[0] = read_last_eval(&curve);
        curve.job = arena_printf(curve.u.arena,
                                 "%sadapter_name_or_path: %s/out\ndo_train: false\n"
                                 "do_eval: true\noutput_dir: %s/evaluated\n",
                                 base, curve.u.dir, curve.u.dir);
        run(&curve, training);
        losses[1] = read_last_eval(&curve);
        if (!(fabs(losses[0] - losses[1]) < 1e-5))
            fail_msg("%s: %.8g in training, %.8g alone", names[i], losses[0], losses[1]);
        curve_close(&curve);
    }
}

static void write_pairs(const struct curve *curve)
{
    write_text(
        curve->u.dir, "data.jsonl",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"<image>What is it?\"}], "
        "\"chosen\": {\"role\": \"assistant\", \"content\": \"It is 1.\"}, "
        "\"rejected\": {\"role\": \"assistant\", \"content\": \"No.\"}, \"images\": "
        "[\"0\"]}\n");
    write_text(
        curve->u.dir, "dataset_info.json",
        "{\"data\": {\"file_name\": \"data.jsonl\", \"formatting\": \"sharegpt\", "
        "\"ranking\": true, \"columns\": {\"messages\": \"messages\", \"chosen\": "
        "\"chosen\", \"rejected\": \"rejected\", \"images\": \"images\"}, \"tags\": "
        "{\"role_tag\": \"role\", \"content_tag\": \"content\", \"user_tag\": "
        "\"user\", \"assistant_tag\": \"assistant\"}}}");
}

/* A reference that is the model itself: the loss of the first step is log 2. */
static void test_references_have_the_projector_that_is_trained(void **state)
{
    static const char *const names[] = { "qwen2_5_vl", "qwen3_vl", "gemma3", "llava" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        struct curve curve;

        if (!supported(names[i]))
            continue;
        curve_open(&curve, names[i],
                   "per_device_train_batch_size: 1\nmax_steps: 1\npref_beta: 0.1\n"
                   "freeze_multi_modal_projector: false\n");
        curve.job =
            arena_printf(curve.u.arena, "%sref_model: %s\n", curve.job, curve.u.dir);
        memcpy(strstr(curve.job, "stage: sft"), "stage: dpo", strlen("stage: dpo"));
        write_pairs(&curve);
        run(&curve, (struct training) { 0 });
        assert_int_equal(read_losses(&curve, curve.losses), 1);
        if (!(fabs(curve.losses[0] - log(2)) < 1e-6))
            fail_msg("%s: %.8g", names[i], curve.losses[0]);
        curve_close(&curve);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_on_files_are_those_of_transformers),
        cmocka_unit_test(test_trained_projectors_read_the_rows_of_encoders),
        cmocka_unit_test(test_trained_projectors_of_adapters_are_evaluated),
        cmocka_unit_test(test_references_have_the_projector_that_is_trained),
        cmocka_unit_test(test_bits_do_not_depend_on_threads),
        cmocka_unit_test(test_stopped_jobs_resume_with_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
