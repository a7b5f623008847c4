/* tests/unit/unit_curve.h - a job that trains a tiny model on files of sounds or images, of the
 * golden files that tests/golden/media_curve.py makes, and others of that form. */
#ifndef TESTS_UNIT_UNIT_CURVE_H
#define TESTS_UNIT_UNIT_CURVE_H

#include "tests/unit/training.h"
#include "tests/unit/unit_media_file.h"
#include "tests/unit/unit_tower.h"

enum { CURVE_STEPS = 30 };

/* fp32 on both sides, in 30 steps that follow each other. */
#define CURVE_CLOSE 1e-4

struct curve {
    struct unit_tower u;
    const struct unit_tower_case *one;
    const char *part; /* of the model in the golden file, or NULL */
    bool sound;
    char *job;
    double losses[CURVE_STEPS];
};

static inline void curve_write(const char *dir, const char *file, const char *text)
{
    char *path = path_join(dir, file);
    struct error err = { 0 };

    unit_tower_must(file_replace(path, text, strlen(text), 0600, &err), &err);
    free(path);
}

/* Each item is a file and a record. */
static inline void curve_write_records(const struct curve *curve)
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
            "{\"messages\": [{\"role\": \"user\", \"content\": \"<%s>What is %zu?\"}, "
            "{\"role\": \"assistant\", \"content\": \"It is %zu.\"}], \"%s\": "
            "[\"%zu\"]}\n",
            curve->sound ? "audio" : "image", i, i * 7 % 5,
            curve->sound ? "audios" : "images", i);
        free(from);
        free(to);
    }
    curve_write(u->dir, "data.jsonl", out.data);
    text_clear(&out);
    curve_write(
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

static inline void curve_write_adapter(struct curve *curve, const json_t *one)
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

/* Return the model of the golden file, or its case `part`. */
static inline const json_t *curve_golden(const struct curve *curve)
{
    const json_t *models = json_object_get(curve->u.golden, "models");
    const size_t at = (size_t)(curve->one - curve->u.cases);
    const json_t *one = json_array_get(models, at);

    return curve->part ? json_object_get(json_object_get(one, "cases"), curve->part)
                       : one;
}

static inline const char *curve_template(const struct curve *curve)
{
    const json_t *models = json_object_get(curve->u.golden, "models");
    const json_t *one = json_array_get(models, (size_t)(curve->one - curve->u.cases));

    return json_string_value(json_object_get(one, "template"));
}

/* Of the model, or of all models of the file. */
static inline const json_t *curve_tokenizer(const struct curve *curve)
{
    const json_t *models = json_object_get(curve->u.golden, "models");
    const json_t *one = json_array_get(models, (size_t)(curve->one - curve->u.cases));
    const json_t *own = json_object_get(one, "tokenizer");

    return own ? own : json_object_get(curve->u.golden, "tokenizer");
}

/* Make the folder of a model with its data, and the job that trains it: in full, or from the
 * adapter of `part` if it has one; more: other lines of the job. */
static inline void curve_open(struct curve *curve, const char *name, const char *part,
                              const char *more)
{
    struct unit_tower *u = &curve->u;
    const json_t *one;

    *curve = (struct curve) { .u = unit_tower_setup() };
    curve->one = unit_tower_named(u, name);
    curve->sound = json_is_integer(json_array_get(curve->one->list, 0));
    curve->part = part;
    one = curve_golden(curve);
    u->dir = unit_dir_new();
    unit_tower_put(u, curve->one);
    put_json(curve_tokenizer(curve), u->dir, "tokenizer.json");
    curve_write(u->dir, "tokenizer_config.json",
                strcmp(name, "gemma3") == 0 || strcmp(name, "mistral3") == 0
                    ? "{\"eos_token\": \"<|im_end|>\", \"bos_token\": \"<bos>\"}"
                : strcmp(name, "mllama") == 0
                    ? "{\"eos_token\": \"<|eot_id|>\", \"bos_token\": "
                      "\"<|begin_of_text|>\"}"
                    : "{\"eos_token\": \"<|im_end|>\"}");
    curve_write_records(curve);
    if (json_object_get(one, "adapter"))
        curve_write_adapter(curve, one);
    curve->job = arena_printf(
        u->arena,
        "model_name_or_path: %s\ndataset_dir: %s\ndataset: data\nstage: sft\ntemplate: %s\n"
        "%s%s%soutput_dir: %s/out\nlearning_rate: %.17g\nlr_scheduler_type: constant\n"
        "num_train_epochs: %d\nlogging_steps: 1\ncutoff_len: 512\n%s",
        u->dir, u->dir, curve_template(curve),
        json_object_get(one, "adapter")
            ? "finetuning_type: lora\nlora_rank: 4\nlora_alpha: 8\nadapter_name_or_path: "
            : "finetuning_type: full",
        json_object_get(one, "adapter") ? u->dir : "",
        json_object_get(one, "adapter") ? "/adapter\n" : "\n", u->dir,
        json_number_value(json_object_get(one, "rate")), CURVE_STEPS, more);
}

static inline void curve_close(struct curve *curve)
{
    unit_dir_free(curve->u.dir);
    unit_tower_teardown(&curve->u);
}

/* Return the contents of a file of the run, malloc'ed. */
static inline char *curve_read(const struct curve *curve, const char *file, size_t *len)
{
    char *path = path_join(curve->u.dir, file);
    struct error err = { 0 };
    struct text out;

    text_init(&out, 0);
    unit_tower_must(file_read(path, (size_t)1 << 24, &out, NULL, &err), &err);
    free(path);
    return text_detach(&out, len);
}

/* Read the losses of metrics.jsonl; return how many there are. */
static inline size_t curve_read_losses(struct curve *curve)
{
    char *text = curve_read(curve, "job.run/metrics.jsonl", NULL), *rest = text, *line;
    size_t count = 0;

    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *values = json_loads(line, 0, NULL);

        assert_true(count < CURVE_STEPS);
        curve->losses[count++] = json_number_value(json_object_get(values, "loss"));
        json_decref(values);
    }
    free(text);
    return count;
}

/* Return the last eval_loss of metrics.jsonl. */
static inline double curve_last_eval(const struct curve *curve)
{
    char *text = curve_read(curve, "job.run/metrics.jsonl", NULL), *rest = text, *line;
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

static inline void curve_run(const struct curve *curve, struct training training)
{
    struct error err = { 0 };

    training.dir = curve->u.dir;
    training.job = curve->job;
    if (!training_run(&training, &err))
        fail_msg("%s", err.text);
}

/* The job's losses are those of the golden file in all steps. */
static inline void curve_compare(struct curve *curve)
{
    const json_t *want = json_object_get(curve_golden(curve), "losses");

    assert_int_equal(curve_read_losses(curve), CURVE_STEPS);
    for (size_t k = 0; k < CURVE_STEPS; k++) {
        const double loss = json_number_value(json_array_get(want, k));

        if (!(fabs(curve->losses[k] - loss) < CURVE_CLOSE))
            fail_msg("%s %s, step %zu: %.8g, not %.8g", curve->one->name,
                     curve->part ? curve->part : "", k + 1, curve->losses[k], loss);
    }
}

static inline char *curve_digest(const struct curve *curve, const char *file)
{
    char *path = path_join(curve->u.dir, file), *out = memory_alloc(DIGEST_TEXT);
    struct error err = { 0 };

    unit_tower_must(digest_file(path, out, &err), &err);
    free(path);
    return out;
}

/* Whether this build reads the files of a case. */
static inline bool curve_supported(const char *name)
{
    const bool sound = strcmp(name, "qwen2_audio") == 0;

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

#endif
