/* tests/unit/unit_media_job.h - a job that trains a tiny model on four sounds and a text,
 * its losses, and what may happen to its files. */
#ifndef TESTS_UNIT_UNIT_MEDIA_JOB_H
#define TESTS_UNIT_UNIT_MEDIA_JOB_H

#define GOLDEN_TOWERS "tests/golden/media_curve"
#include "tests/unit/unit_curve.h"

/* All records in each step. */
#define MEDIA_JOB_WHOLE "per_device_train_batch_size: 5\nmax_steps: 3\n"

enum { MEDIA_JOB_SOUNDS = 4, MEDIA_JOB_STEPS = 8 };

/* The folder of a model and of its sounds, and the text of a job in it. */
struct media_job {
    struct unit_tower u;
    char *text;
};

/* Write the records in this order; the last is text alone. */
static inline void media_job_records(const struct media_job *job, const char *order)
{
    struct text out;

    text_init(&out, 0);
    for (; *order; order++) {
        const int sound = *order - '0';

        text_addf(
            &out,
            "{\"messages\": [{\"role\": \"user\", \"content\": \"%sWhat is %d?\"}, ",
            sound < MEDIA_JOB_SOUNDS ? "<audio>" : "", sound);
        text_addf(&out, "{\"role\": \"assistant\", \"content\": \"It is %d.\"}]",
                  sound * 7 % 5);
        if (sound < MEDIA_JOB_SOUNDS)
            text_addf(&out, ", \"audios\": [\"%d.wav\"]", sound);
        text_adds(&out, "}\n");
    }
    curve_write(job->u.dir, "data.jsonl", out.data);
    text_clear(&out);
}

static inline void media_job_sounds(const struct media_job *job)
{
    for (size_t i = 0; i < MEDIA_JOB_SOUNDS; i++) {
        const char *name = arena_printf(job->u.arena, "sound %zu", i);
        char *from = unit_media_sound(job->u.dir, name, 4000 + 3000 * i);
        char *to = path_join(job->u.dir, arena_printf(job->u.arena, "%zu.wav", i));

        assert_int_equal(rename(from, to), 0);
        free(from);
        free(to);
    }
}

static inline void media_job_open(struct media_job *job, const char *more)
{
    struct unit_tower *u = &job->u;
    const struct unit_tower_case *one;
    const json_t *model;

    *job = (struct media_job) { .u = unit_tower_setup() };
    one = unit_tower_named(u, "qwen2_audio");
    model =
        json_array_get(json_object_get(u->golden, "models"), (size_t)(one - u->cases));
    u->dir = unit_dir_new();
    unit_tower_put(u, one);
    put_json(json_object_get(u->golden, "tokenizer"), u->dir, "tokenizer.json");
    curve_write(u->dir, "tokenizer_config.json", "{\"eos_token\": \"<|im_end|>\"}");
    media_job_sounds(job);
    media_job_records(job, "01234");
    job->text = arena_printf(
        u->arena,
        "model_name_or_path: %s\ndataset_dir: %s\ndataset: data.jsonl\nstage: sft\n"
        "template: %s\nfinetuning_type: full\noutput_dir: %s/out\nlearning_rate: 0.01\n"
        "lr_scheduler_type: constant\nlogging_steps: 1\ncutoff_len: 512\n%s",
        u->dir, u->dir, json_string_value(json_object_get(model, "template")), u->dir,
        more);
}

static inline void media_job_close(struct media_job *job)
{
    unit_dir_free(job->u.dir);
    unit_tower_teardown(&job->u);
}

/* Read the values of a key in metrics.jsonl; return how many there are. */
static inline size_t media_job_values(const struct media_job *job, const char *key,
                                      double *out)
{
    char *path = path_join(job->u.dir, "job.run/metrics.jsonl"), *rest, *line;
    struct error err = { 0 };
    struct text text;
    size_t count = 0;

    text_init(&text, 0);
    unit_tower_must(file_read(path, (size_t)1 << 24, &text, NULL, &err), &err);
    rest = text.data;
    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *values = json_loads(line, 0, NULL);
        const json_t *value = json_object_get(values, key);

        assert_true(count < MEDIA_JOB_STEPS);
        if (value)
            out[count++] = json_number_value(value);
        json_decref(values);
    }
    text_clear(&text);
    free(path);
    return count;
}

/* Give the job to a run. */
static inline void media_job_give(const struct media_job *job, struct training *training)
{
    training->dir = job->u.dir;
    training->job = job->text;
}

static inline void media_job_run(const struct media_job *job, struct training training)
{
    media_job_give(job, &training);
    training_must(&training);
}

/* Return the losses of a job on records in this order. */
static inline size_t media_job_losses(const char *more, const char *order, double *out)
{
    struct media_job job;
    size_t count;

    media_job_open(&job, more);
    media_job_records(&job, order);
    media_job_run(&job, (struct training) { 0 });
    count = media_job_values(&job, "loss", out);
    media_job_close(&job);
    return count;
}

static inline void media_job_same(const char *what, const double *a, const double *b,
                                  size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs(a[i] - b[i]) <= 2e-6 * fabs(b[i])))
            fail_msg("%s: the loss of step %zu is %.9g, not %.9g", what, i + 1, a[i],
                     b[i]);
}

static inline char *media_job_read(const struct media_job *job, const char *file)
{
    char *path = path_join(job->u.dir, file);
    struct error err = { 0 };
    struct text out;

    text_init(&out, 0);
    unit_tower_must(file_read(path, 10000, &out, NULL, &err), &err);
    free(path);
    return text_detach(&out, NULL);
}

/* 0.25 s of 16 kHz in float, of which one sample is not a number. */
static inline void media_job_nan(const struct media_job *job, const char *file, size_t at)
{
    const uint32_t sizes[2] = { 36 + 16000, 16000 };
    struct text out;
    char *path;

    text_init(&out, 0);
    text_adds(&out, "RIFF");
    text_add(&out, &sizes[0], 4);
    text_add(&out, "WAVEfmt \x10\0\0\0\3\0\1\0\x80\x3e\0\0\0\xfa\0\0\4\0\x20\0data", 32);
    text_add(&out, &sizes[1], 4);
    for (size_t i = 0; i < 4000; i++) {
        const float sample = i == at ? NAN : 0.1F * (float)sin((double)i);

        text_add(&out, &sample, 4);
    }
    path = unit_media_put(job->u.dir, file, &out);
    text_clear(&out);
    free(path);
}

/* Return whether the folder of features exists: files are being encoded. */
static inline bool media_job_encodes(const struct training *training)
{
    char *path = path_join(training->dir, "job.run");
    DIR *dir = opendir(path);
    const struct dirent *entry;
    bool found = false;

    while (dir && (entry = readdir(dir)))
        found = found || text_starts(entry->d_name, "features-");
    if (dir)
        closedir(dir);
    free(path);
    return found;
}

#endif
